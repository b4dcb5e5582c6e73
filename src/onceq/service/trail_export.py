"""Export acts of administration from the store: to files, and to the system's syslog.

It happens when an act is durable, in the same turn. After a crash the file goes on behind its last
act, so none is missing and none is there twice. Syslog cannot be asked what it has: acts that the
file lacked at a start are marked ``again`` there.

Where a target takes nothing (the disk is full, there is no syslog), the queue manager goes on. The
trouble appears in the log, the status, the health and the metrics, and the acts wait in memory and
in the trail. Acts that are dropped from both before their export are counted, and the file names
them.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from logging import WARNING
from typing import Final

from onceq.core.decision import TellAct
from onceq.core.inputs.inputs import TellTrail
from onceq.core.state.audit_trail import Act, Trail
from onceq.errors import OnceqError
from onceq.model.act_lines import line_of
from onceq.model.limits import TRAIL_MAX
from onceq.model.settings import SYSLOG_AUTO, Settings
from onceq.model.time import SECOND_US, Now
from onceq.service.committer import Committer
from onceq.service.due import NEVER, Due
from onceq.service.logs import event
from onceq.service.trail_files import TrailFiles, shown
from onceq.store.files import Files

SYSLOG: Final = "/dev/log"
RETRY_US: Final = 10 * SECOND_US
"""Microseconds after which a failed target is tried again."""
_HEAD: Final = b"<85>onceq: "
"""Facility authpriv, severity notice."""
Waiting = deque[Act]


class _Place:
    """A target of the export.

    Attributes:
        waiting: Acts to be exported there.
        trouble: Why they wait; "": they do not.
    """

    def __init__(self, name: str, write: Callable[[Waiting], int]) -> None:
        self.name, self._write = name, write
        self.waiting: Waiting = deque(maxlen=TRAIL_MAX)
        self.trouble = ""

    def tell(self) -> int:
        """Export the waiting acts; return how many were dropped before their export."""
        try:
            lost = self._write(self.waiting)
        except (OnceqError, OSError) as error:
            trouble = f"{self.name}: {error}"
            if not self.trouble:
                event("acts of the trail cannot be told", level=WARNING, why=trouble)
            self.trouble = trouble
            return 0
        if self.trouble:
            event("acts of the trail are told again", level=WARNING, place=self.name)
        self.trouble = ""
        return lost


class TrailExport:
    """The export of the acts of one store.

    Attributes:
        lost: Acts that were dropped before their export, since the start.
    """

    def __init__(self, files: Files, path: str, settings: Settings) -> None:
        self._files = TrailFiles(files, path, settings.trail_file_bytes_max)
        self._file = _Place("trail_file", self._files.write) if settings.trail_file else None
        self._syslog: _Place | None = None
        where = settings.trail_syslog
        if where == SYSLOG_AUTO:
            where = SYSLOG if os.path.exists(SYSLOG) else ""
        self._again = 0
        """Up to this act, syslog may have got the acts before."""
        if where:
            self._socket = where
            self._syslog = _Place("trail_syslog", self._send)
        self._places = [place for place in (self._file, self._syslog) if place is not None]
        self._retry_us = NEVER
        self.lost = 0

    @property
    def trouble(self) -> str:
        """Return why acts wait for their export; "" if none does."""
        return "; ".join(place.trouble for place in self._places if place.trouble)

    def begin(self, trail: Trail, mono_us: int) -> None:
        """Export the acts that were not exported before the start."""
        known = {act.number: act for act in (*trail, *trail.fresh)}
        self._files.head = trail.next - 1, trail.head.hex()
        if self._file is not None:
            self._file.waiting.extend(known[number] for number in sorted(known))
        before = self._files.known_last() if self._file is not None else 0
        self._again = trail.next - 1
        if self._syslog is not None:
            self._syslog.waiting.extend(act for act in trail.fresh if act.number > before)
        trail.fresh.clear()
        self._tell(mono_us)

    def tell(self, trail: Trail, number: int, mono_us: int) -> None:
        """Export a durable act, and those before it."""
        fresh = trail.fresh
        while fresh and fresh[0].number <= number:
            act = fresh.popleft()
            for place in self._places:
                place.waiting.append(act)
            self._files.head = act.number, act.digest.hex()
        self._tell(mono_us)

    def due(self) -> Due:
        """Return when a failed target is to be tried again."""
        return Due(self._retry_us, self._retry_us)

    def work(self, mono_us: int) -> None:
        """Try it again, if it is time."""
        if mono_us >= self._retry_us:
            self._tell(mono_us)

    def close(self) -> None:
        """Close the file."""
        self._files.close()

    def _tell(self, mono_us: int) -> None:
        self.lost += sum(place.tell() for place in self._places if place.waiting)
        self._retry_us = mono_us + RETRY_US if self.trouble else NEVER

    def _send(self, waiting: Waiting) -> int:
        """Send acts to syslog, which takes a line at a time and must not stop the loop."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            while waiting:
                line = line_of(shown(waiting[0])).rstrip()
                if waiting[0].number <= self._again:
                    line = line[:-1] + b',"again":true}'
                to.sendto(_HEAD + line, self._socket)
                waiting.popleft()
        return 0


class TellingActs:
    """Exports the acts of one engine, and reports trouble to the engine."""

    def __init__(self, committer: Committer, export: TrailExport | None) -> None:
        self._committer, self._export = committer, export
        self._told = TellTrail()

    def begin(self) -> None:
        """Export the acts that were not exported before the start."""
        if self._export is not None:
            self._export.begin(self._committer.manager.state.trail, self._mono_us)
            self._look(self._export)

    def perform(self, action: TellAct) -> None:
        """Export an act that is durable."""
        if self._export is not None:
            trail = self._committer.manager.state.trail
            self._export.tell(trail, action.number, self._mono_us)
            self._look(self._export)

    def work(self, now: Now) -> None:
        """Try failed exports again, if it is time."""
        if self._export is not None:
            self._export.work(now.mono_us)
            self._look(self._export)

    def close(self) -> None:
        """Close the export."""
        if self._export is not None:
            self._export.close()

    @property
    def _mono_us(self) -> int:
        return self._committer.clock.read().mono_us

    def _look(self, export: TrailExport) -> None:
        """Update the status when something has changed."""
        self._committer.due.by(export.due().timer_us)
        told = TellTrail(export.trouble, export.lost)
        if told != self._told:
            self._told = told
            self._committer.submit(told)
