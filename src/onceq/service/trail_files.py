"""The files of the trail: a line of JSON for each act, appended and synced, beside the store.

It exports the acts of the store to these files, and to syslog, in the turn in which they are
durable.

A new file begins when one has FILE_BYTES. When all together have more than the setting allows, the
oldest one goes; the next file says which acts it had, and so does the log. A partial line that a
crash has left is written over.

Upholds: I24 (bytes), I28 (who did something is known).
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from logging import WARNING
from typing import Final

from onceq.core.decision import TellAct
from onceq.core.inputs import TellTrail
from onceq.core.state.audit_trail import Act, Trail
from onceq.errors import OnceqError
from onceq.file_access import TRAIL_FOLDER
from onceq.model.audit_trail import (
    DAMAGED,
    FORK,
    MISSING,
    REMOVED,
    line_of,
    note_line,
    read_line,
    split_lines,
)
from onceq.model.identity import read_number
from onceq.model.limits import TRAIL_MAX
from onceq.model.marks import SECOND_US, Now
from onceq.model.settings import SYSLOG_AUTO, Settings
from onceq.model.views.managers import ActView
from onceq.service.clock import NEVER, Due
from onceq.service.committer import Committer
from onceq.service.logs import event
from onceq.store.files import Files

# ---- trail files ---------------------------------------------------------------------------------


FILE_BYTES: Final = 8 << 20
"""Size of one file; a start reads the file with the last act."""


def view_act(act: Act) -> ActView:
    """Return the view of an act."""
    return ActView(*act[:7], act.times, act.last_s, act.before.hex(), act.digest.hex())


class TrailFiles:
    """The trail files of one store; errors of the disk are OnceqError.

    Attributes:
        head: Number and digest of the last act of the store.
    """

    def __init__(self, files: Files, path: str, bytes_max: int) -> None:
        self._files, self._bytes_max = files, bytes_max
        self._path = os.path.join(path, TRAIL_FOLDER)
        self._file = -1
        self._serial = self._end = self._last = 0
        self._digests: dict[int, str] = {}
        self._damaged = ""
        self._read = False
        self.head = 0, ""

    def known_last(self) -> int:
        """Return the number of the last act that is there; 0 if there is none, or it is unknown."""
        with contextlib.suppress(OnceqError, OSError):
            self._open()
        return self._last

    def write(self, waiting: deque[Act]) -> int:
        """Write acts that are not there yet; they are durable afterwards, and wait no more.

        Returns:
            How many acts were dropped before they could be written.
        """
        try:
            self._open()
            lost = self._write(list(waiting))
        except (OnceqError, OSError):
            # It is unknown what of it is on the disk: that is read before the next one.
            self.close()
            raise
        waiting.clear()
        return lost

    def close(self) -> None:
        """Close the file; it is opened again when needed."""
        if self._file >= 0:
            self._files.close(self._file)
        self._file, self._read = -1, False

    def _write(self, acts: list[Act]) -> int:
        notes, behind, lost = [], self._last, 0
        known = {act.number: act.digest.hex() for act in acts} | {self.head[0]: self.head[1]}
        there = {n: known[n] == self._digests[n] for n in known if n in self._digests}
        same, others = [n for n in there if there[n]], [n for n in there if not there[n]]
        if others or self._last > self.head[0]:
            behind = max(same, default=0)
            notes.append(note_line(FORK, behind=behind))
            event("the files of the trail go on from an older store", level=WARNING, behind=behind)
        new = [act for act in acts if act.number > behind]
        lines = []
        for act in new:
            if act.number > behind + 1:
                lines.append(note_line(MISSING, first=behind + 1, last=act.number - 1))
                lost += act.number - behind - 1 if behind else 0
            lines.append(line_of(view_act(act)))
            behind = act.number
        if lost:
            event("acts of the trail went before they were in its files", level=WARNING, acts=lost)
        if new:
            self._append([*notes, *lines], new)
        return lost

    def _append(self, lines: list[bytes], acts: list[Act]) -> None:
        if self._file >= 0 and not self._files.exists(self._name(self._serial)):
            event("a file of the trail was removed", level=WARNING, file=self._name(self._serial))
            self._files.close(self._file)
            self._file = -1
        if self._file < 0 or self._end >= FILE_BYTES or self._damaged:
            self._next_file()
        data = b"".join(lines)
        self._files.write(self._file, self._end, [data])
        self._files.sync(self._file)
        self._end += len(data)
        self._last = acts[-1].number
        self._digests |= {act.number: act.digest.hex() for act in acts}

    def _open(self) -> None:
        """Find out which acts are there already, and where the next one goes."""
        if self._read:
            return
        self._last, self._digests, self._damaged = 0, {}, ""
        for serial in reversed(self._serials()):
            file = self._files.open(self._name(serial))
            data = self._files.read(file, 0, self._files.size(file))
            whole, behind = split_lines(data)
            if self._file < 0:
                self._file, self._serial = file, serial
                self._end = sum(map(len, whole))
                if any(isinstance(read_line(line), ActView) for line in behind):
                    # It is left unchanged: what is behind the damage is written to the next one.
                    self._damaged = os.path.basename(self._name(serial))
            else:
                self._files.close(file)
            for said in map(read_line, whole):
                if isinstance(said, ActView):
                    self._last, self._digests[said.number] = said.number, said.digest
            if self._last:
                break
        self._read = True

    def _next_file(self) -> None:
        """Begin another file, and make room for it."""
        self._files.make_directory(self._path)
        if self._file >= 0:
            self._files.close(self._file)
            self._file = -1
        serials = self._serials()
        self._serial = serials[-1] + 1 if serials else 1
        keep = max(self._bytes_max // FILE_BYTES, 2) - 1
        old = serials[: max(len(serials) - keep, 0)]
        self._file = self._files.open(self._name(self._serial), create=True)
        self._end = 0
        self._digests, data = {}, b""
        if self._damaged:
            event("a file of the trail is damaged", level=WARNING, file=self._damaged)
            data = note_line(DAMAGED, file=self._damaged, behind=self._last)
            self._damaged = ""
        if old:
            names = [os.path.basename(self._name(serial)) for serial in old]
            event("the oldest files of the trail are removed: trail_file_bytes_max is reached",
                  level=WARNING, files=", ".join(names))  # fmt: skip
            data += note_line(REMOVED, files=names)
        self._files.write(self._file, 0, [data])
        self._end = len(data)
        self._files.sync(self._file)
        self._files.sync_directory(self._path)
        for serial in old:
            self._files.unlink(self._name(serial))

    def _serials(self) -> list[int]:
        names = (name for name in self._files.names(self._path) if name.startswith("acts-"))
        found = (read_number(name[5:-6]) for name in names)
        return [one for one in found if one is not None]

    def _name(self, serial: int) -> str:
        return os.path.join(self._path, f"acts-{serial:08}.jsonl")


# ---- trail export --------------------------------------------------------------------------------
#
# Export acts of administration from the store: to files, and to the system's syslog.


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
                line = line_of(view_act(waiting[0])).rstrip()
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
            self._tell_status(self._export)

    def perform(self, action: TellAct) -> None:
        """Export an act that is durable."""
        if self._export is not None:
            trail = self._committer.manager.state.trail
            self._export.tell(trail, action.number, self._mono_us)
            self._tell_status(self._export)

    def work(self, now: Now) -> None:
        """Try failed exports again, if it is time."""
        if self._export is not None:
            self._export.work(now.mono_us)
            self._tell_status(self._export)

    def close(self) -> None:
        """Close the export."""
        if self._export is not None:
            self._export.close()

    @property
    def _mono_us(self) -> int:
        return self._committer.clock.read().mono_us

    def _tell_status(self, export: TrailExport) -> None:
        """Update the status when something has changed."""
        self._committer.due.by(export.due().timer_us)
        told = TellTrail(export.trouble, export.lost)
        if told != self._told:
            self._told = told
            self._committer.submit(told)
