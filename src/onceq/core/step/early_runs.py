"""Runs that came before one that is missing: kept in memory until the hole before them is filled.

A network that loses one packet, or lets one overtake another, brings what follows too early. The
filter takes nothing behind a hole (EOD-34), and to throw it away costs its sender everything that
was under way. So it is kept here, and shown to the same filter again, in order, when what was
missing has come. For every rule this is a network that has delivered it later: nothing of it is
judged, counted, recorded or acknowledged before. What is durable stays one number for each stream
(EOD-21).

A run is kept only in the stream that its receiver is in, or in a newer one that it cannot enter
because the beginning is missing (EOD-24), and only as long as the session that brought it: what
dies with the session is sent again on the next one, as ever (EOD-9). It dies also when the stream
is left, when its queue is deleted, and when an operator sets the stream back.

Upholds: I9 (nothing kept is acknowledged), I24 (so many bytes for a session, and for all).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from onceq.model.limits import EARLY_BYTES_MAX, EARLY_RUN_BYTES, EARLY_SESSION_BYTES_MAX
from onceq.model.run import Run
from onceq.packet.arrived import ArrivedRun

NO_ROOM: Final = "no room"
STREAM_LEFT: Final = "stream left"
SET_BACK: Final = "stream set back"
QUEUE_DELETED: Final = "queue deleted"
SESSION_CLOSED: Final = "session closed"

Key = tuple[bytes, str]
"""Source and key of the queue, as those of an incoming stream's progress."""
_NUMBER = attrgetter("first_number")


@dataclass(slots=True)
class EarlyStream:
    """What is early in one stream.

    Attributes:
        session: The one that brought it.
        stream: Its stream.
        queue: Number of the queue that it is for; 0 if there is none.
        runs: What is kept, by number.
        bytes: What that takes.
        missing_to: The last number of the first hole.
        told_to: The last number of the hole that was named last; 0: none was.
        told: How often the acknowledgment that names it has left since anything came.
        last: Up to where the stream had come when it was looked at before.
        due_us: When the beginning is named again, if it is that which is missing; 0: no such timer.
    """

    session: int
    stream: int
    queue: int
    runs: deque[ArrivedRun] = field(default_factory=deque)
    bytes: int = 0
    missing_to: int = 0
    told_to: int = 0
    told: int = 0
    last: int = 0
    due_us: int = 0


class EarlyRuns:
    """See the module.

    Attributes:
        streams: Streams in which something has come too early, and the hole is not filled.
        bytes: What is kept of all of them.
        dropped: Runs that were not kept to their end, by the reason.
        shown: Runs that were.
    """

    def __init__(self) -> None:
        self.streams: dict[Key, EarlyStream] = {}
        self.bytes = 0
        self.dropped: Counter[str] = Counter()
        self.shown = 0
        self._of_session: Counter[int] = Counter()

    def came(self, key: Key, session: int, queue: int, run: ArrivedRun) -> bool:
        """A run is ahead in the stream that its receiver is in, or in one that it cannot enter yet;
        whether it could be kept."""
        found = self.streams.get(key)
        if found is not None and found.stream > run.stream:
            return False
        if found is not None and (found.session, found.stream) != (session, run.stream):
            self.forget(key, STREAM_LEFT if found.stream != run.stream else SESSION_CLOSED)
            found = None
        if found is None:
            found = self.streams[key] = EarlyStream(session, run.stream, queue)
        found.told = 0
        previous = run.first_previous
        found.missing_to = min(found.missing_to, previous) if found.missing_to else previous
        return self._keep(found, run)

    def _keep(self, found: EarlyStream, run: ArrivedRun) -> bool:
        runs, number = found.runs, run.first_number
        at = len(runs)
        if runs and number <= runs[-1].first_number:
            at = bisect_left(runs, number, key=_NUMBER)
            again = runs[at]
            if again.first_number == number and again.message_numbers == run.message_numbers:
                return True
        size = _size(run)
        if (
            self.bytes + size > EARLY_BYTES_MAX
            or self._of_session[found.session] + size > EARLY_SESSION_BYTES_MAX
        ):
            self.dropped[NO_ROOM] += 1
            return False
        # A copy: the run is a view of all that one read has brought.
        runs.insert(at, replace(run, packets=_copied(run.packets),
                                message_numbers=array("I", run.message_numbers)))  # fmt: skip
        self._count(found, size)
        return True

    def waits_to_enter(self, key: Key, stream: int, last: int) -> bool:
        """Whether a stream is waited for whose beginning is missing, by a receiver that is in
        another one, or has accepted nothing."""
        found = self.streams.get(key)
        if found is None:
            return False
        return found.stream > stream or (found.stream == stream and not last)

    def next(self, key: Key, session: int, stream: int, last: int) -> ArrivedRun | None:
        """A run that is not ahead any more, and is not kept from here on; None: there is none."""
        found = self.streams.get(key)
        if found is None:
            return None
        if (found.session, found.stream) != (session, stream):
            self.forget(key, STREAM_LEFT if found.stream != stream else SESSION_CLOSED)
            return None
        if not found.runs or not _reached(found.runs[0], last):
            return None
        run = found.runs.popleft()
        self.shown += 1
        self._count(found, -_size(run))
        return run

    def advanced(self, key: Key, last: int) -> bool:
        """What could be shown was shown: whether another hole than the one that was named is the
        first now, or a part of it has come."""
        found = self.streams.get(key)
        if found is None:
            return False
        if found.runs:
            found.missing_to = found.runs[0].first_previous
        elif found.missing_to <= last:
            del self.streams[key]
            return False
        moved, found.last = last > found.last, last
        if moved:
            found.told = 0
        return moved or found.missing_to != found.told_to

    def missing(self, key: Key, stream: int, last: int) -> tuple[int, int]:
        """First and last number of the first hole; zeros: none is known."""
        found = self.streams.get(key)
        if found is None or found.stream != stream or found.missing_to <= last:
            return 0, 0
        return last + 1, found.missing_to

    def forget(self, key: Key, reason: str) -> None:
        """Nothing early of a stream counts any more."""
        found = self.streams.pop(key, None)
        if found is not None:
            self.dropped[reason] += len(found.runs)
            self._count(found, -found.bytes)

    def of_session(self, session: int) -> list[Key]:
        """Streams in which a session has brought something too early."""
        return [key for key, stream in self.streams.items() if stream.session == session]

    def closed(self, session: int) -> None:
        """A session is over, and what it has brought too early with it."""
        for key in self.of_session(session):
            self.forget(key, SESSION_CLOSED)

    def deleted(self, queue: int) -> None:
        """A queue is deleted, and what has come too early for it with it."""
        for key in [key for key, s in self.streams.items() if s.queue == queue]:
            self.forget(key, QUEUE_DELETED)

    def _count(self, found: EarlyStream, size: int) -> None:
        found.bytes += size
        self.bytes += size
        held = self._of_session[found.session] = self._of_session[found.session] + size
        if not held:
            del self._of_session[found.session]


def _size(run: ArrivedRun) -> int:
    return len(run.packets.data) + EARLY_RUN_BYTES


def _copied(packets: Run) -> Run:
    return Run(bytes(packets.data), packets.lengths[:])


def _reached(run: ArrivedRun, last: int) -> bool:
    """Whether the filter would call it anything but ahead."""
    return run.first_previous <= last or run.first_number <= last
