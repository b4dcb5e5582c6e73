"""What is remembered for clients: how their commits ended, and how far readers have come.

A client session numbers its commits 1, 2, 3, ... For each session the newest number that committed
is kept, and a bit for each of the OUTCOME_WINDOW before it. So one entry of some 150 bytes answers
for all commits of a session that can still be in doubt. The first four bytes of a session
identifier are the second in which it began, by this manager's clock: that tells a session that was
forgotten from one that never committed. Once a client was told that a commit did not happen, it
must not happen later, although it may still be in the buffers of a broken connection: ``Fences``
bar it. They are not durable, because a restart breaks every connection.

A reader such as a Spark stream looks at messages, writes them elsewhere, and removes them when that
is done. Its own checkpoint says how far it is. A reader that starts over, or goes on with an older
checkpoint, may write where its batches are taken for ones written before: then messages would be
removed and be nowhere. Only this table can warn it. The record that removes messages says who has
read them (``Marks.reads``), so neither is without the other.

Upholds: I2 (removal and memory are one record), I3a, I22, I24 (READERS_MAX and the other bounds).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceq.core.state.setups import ReaderForgotten, read_row, row_of
from onceq.errors import InsufficientResources, InvalidParameter
from onceq.model import limits
from onceq.model.identity import TransactionId
from onceq.model.marks import SECOND_US, Now
from onceq.model.record import Record
from onceq.model.results import Outcome

_MASK = (1 << limits.OUTCOME_WINDOW) - 1


class Outcomes:
    """Committed numbers by session, the longest unused first."""

    __slots__ = ("_sessions", "forgotten_s")

    def __init__(self) -> None:
        self._sessions: OrderedDict[bytes, tuple[int, int, int]] = OrderedDict()
        self.forgotten_s = 0
        """Sessions that began up to this second may have been forgotten early, for their number."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session: object) -> bool:
        """Whether anything that this session committed is remembered."""
        return session in self._sessions

    def committed(self, id: TransactionId, wall_s: int) -> None:
        """That commit is durable."""
        known = self._sessions.get(id.session)
        if known is None:
            last, bits = id.number, 1
        else:
            last, bits, _ = known
            ahead = id.number - last
            if ahead > 0:
                last = id.number
                bits = ((bits << ahead) | 1) & _MASK if ahead < limits.OUTCOME_WINDOW else 1
            elif -ahead < limits.OUTCOME_WINDOW:
                bits |= 1 << -ahead
        self._sessions[id.session] = (last, bits, wall_s)
        self._sessions.move_to_end(id.session)
        while len(self._sessions) > limits.OUTCOME_SESSIONS_MAX:
            session, _ = self._sessions.popitem(last=False)
            self.forgotten_s = max(self.forgotten_s, began_s(session))

    def known(self, id: TransactionId) -> bool:
        """Whether that very commit is remembered as done."""
        return self.ask(id, 0, limits.OUTCOME_AGE_S) is Outcome.COMMITTED

    def ask(self, id: TransactionId, wall_s: int, age_s: int) -> Outcome:
        """What became of a commit."""
        known = self._sessions.get(id.session)
        if known is None:
            began = began_s(id.session)
            if began <= self.forgotten_s or began < wall_s - age_s:
                return Outcome.UNKNOWN
            return Outcome.ABORTED
        last, bits, _ = known
        back = last - id.number
        if back < 0:
            return Outcome.ABORTED
        if back >= limits.OUTCOME_WINDOW:
            return Outcome.UNKNOWN
        return Outcome.COMMITTED if bits >> back & 1 else Outcome.ABORTED

    def forget(self, wall_s: int, age_s: int) -> None:
        """Drop sessions unused for longer than ``age_s``; the rule is the same at every start."""
        while self._sessions:
            session, (_, _, used_s) = next(iter(self._sessions.items()))
            if used_s >= wall_s - age_s:
                return
            del self._sessions[session]

    def dump(self) -> list[Any]:
        """For a checkpoint."""
        sessions = [[s, last, f"{bits:x}", at] for s, (last, bits, at) in self._sessions.items()]
        return [self.forgotten_s, sessions]

    def load(self, values: list[Any]) -> None:
        """From a checkpoint."""
        self.forgotten_s, sessions = values
        for session, last, bits, at in sessions:
            self._sessions[bytes.fromhex(session)] = (last, int(bits, 16), at)


class Fences:
    """Commits that must not happen any more, by session: those up to a number.

    An entry goes when its session is long out of the time for which outcomes are kept; from then
    on every session as old as that, and without any commit, is barred as a whole. A session that
    has committed keeps its entry as long as its outcomes are remembered. So nothing that was told
    is ever taken back, and no entry can be made to stay for good.
    """

    __slots__ = ("_barred", "barred_s")

    def __init__(self) -> None:
        self._barred: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        """Session: highest number barred, and when (monotonic us) that was last told; in the
        order of that."""
        self.barred_s = -1
        """Sessions that began up to this second are barred unless they have committed."""

    def __len__(self) -> int:
        return len(self._barred)

    def bars(self, id: TransactionId, outcomes: Outcomes) -> bool:
        """Whether that commit must not happen any more."""
        found = self._barred.get(id.session)
        if found is not None and id.number <= found[0]:
            return True
        whole = self.barred_s >= 0 and began_s(id.session) <= self.barred_s
        return whole and id.session not in outcomes

    def bar(self, id: TransactionId, outcomes: Outcomes, now: Now, age_s: int) -> None:
        """Somebody is about to be told that this commit did not happen, or is not remembered.

        Raises:
            InsufficientResources: There are too many such commits; nothing may be told.
            InvalidParameter: Its session claims to begin long after now.
        """
        if began_s(id.session) > now.wall_s + age_s:
            raise InvalidParameter(f"the session of {id} is yet to begin; its clock is wrong")
        known = self._barred.pop(id.session, None)
        if known is None:
            if self.bars(id, outcomes):
                return
            # Sessions last asked about two ages ago began at least one age ago.
            while self._barred:
                session, (number, told_us) = next(iter(self._barred.items()))
                if told_us + 2 * age_s * SECOND_US > now.mono_us:
                    break
                del self._barred[session]
                if session in outcomes:
                    self._barred[session] = (number, now.mono_us)
                else:
                    self.barred_s = max(self.barred_s, began_s(session))
            if len(self._barred) >= limits.FENCES_MAX:
                raise InsufficientResources(
                    f"outcomes of commits that never came were asked for in {limits.FENCES_MAX} "
                    "client sessions; ask again later"
                )
        number = max(id.number, known[0] if known is not None else 0)
        self._barred[id.session] = (number, now.mono_us)


def began_s(session: bytes) -> int:
    """Second in which a client session began."""
    return int.from_bytes(session[:4], "little")


@dataclass(frozen=True, slots=True)
class Read:
    """A reader has read a queue up to a place, and the messages that it has read are removed.

    Attributes:
        queue: Its number.
        reader: Its name; "" is one, too.
        query: The life of the reader: each checkpoint is a life of its own.
        to: Lookup identifier of the last place that was removed.
        who: The reader's description of itself, for people.
    """

    queue: int
    reader: str
    query: str
    to: int
    who: str


class Reading(Record, frozen=True):
    """The last of a reader in one queue; see ``Read``.

    Attributes:
        at_s: Second since 1970 of the last removal.
    """

    query: str
    to: int
    at_s: int
    who: str


_NOBODY: Final[Mapping[str, Reading]] = {}


class Readings:
    """By queue and reader; those that have read last stand last."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, dict[str, Reading]] = {}

    def __iter__(self) -> Iterator[tuple[int, str, Reading]]:
        for queue, readers in self._of.items():
            for reader, reading in readers.items():
                yield queue, reader, reading

    def queues(self) -> list[int]:
        """Numbers of the queues that have readers."""
        return list(self._of)

    def of(self, queue: int) -> Mapping[str, Reading]:
        """The readers of a queue."""
        return self._of.get(queue, _NOBODY)

    def read(self, read: Read, at_s: int) -> None:
        """Apply a record of reading. If there are too many readers, the one that has not read for
        the longest time makes room; its only loss is that it is not warned."""
        readers = self._of.setdefault(read.queue, {})
        before = readers.pop(read.reader, None)
        to = read.to
        if before is not None and before.query == read.query:
            to = max(to, before.to)  # Removing again what was removed before changes nothing.
        readers[read.reader] = Reading(read.query, to, at_s, read.who)
        if len(readers) > limits.READERS_MAX:
            del readers[next(iter(readers))]

    def apply(self, setup: ReaderForgotten) -> None:
        """Apply a setup."""
        self.forget(setup.queue, setup.reader)

    def forget(self, queue: int, reader: str) -> None:
        """A record says that a reader is forgotten."""
        readers = self._of.get(queue, {})
        readers.pop(reader, None)
        if not readers:
            self._of.pop(queue, None)

    def drop(self, queue: int) -> None:
        """A queue is gone."""
        self._of.pop(queue, None)

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        return [[queue, reader, *row_of(one)] for queue, reader, one in self]

    def load(self, rows: list[list[Any]]) -> None:
        """Take the rows of a checkpoint."""
        for queue, reader, *row in rows:
            self._of.setdefault(queue, {})[reader] = read_row(Reading, row)
