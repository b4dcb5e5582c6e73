"""Find the messages of a queue that are one transaction of a sender, and whether all are there.

The position of a message proves nothing: a delay, a retry, a move or a job puts it behind others,
or leaves others out between. Its own fields count: whether it is the first or the last of its
transaction to this queue (SND-10), and a number. Messages of one transaction have consecutive
numbers in the stream that they came in (EOD-4, one commit numbers all of them at once), or, if they
were sent on this computer, in the transaction itself (``packet/heads.py``). So a run of numbers
without a hole, from a first message to a last one, is a whole transaction.

Two kinds of messages have no such run: those that an older onceq has put into a queue of this
computer, and those of which a part was sent again in another stream, after a restore of their
sender. Their message numbers may prove the same: a commit takes them one after another (PRP-3). A
run of them without a hole, of one transaction number, from a first message to a last one, leaves no
room for another message of that transaction. If messages to other queues are between them, it
proves nothing, and the transaction does not count as complete.

Upholds: only what is known to be complete is called complete.
"""

from __future__ import annotations

from collections.abc import Iterator

from onceq.model.record import MutableRecord, Record
from onceq.packet.batch import Batch
from onceq.packet.heads import Head

Key = tuple[bytes, int, int]


class Member(Record, frozen=True):
    """A message as a survey has seen it."""

    lookup: int
    arrived: int
    head: Head


class Members(Record, frozen=True):
    """The present messages of one transaction, in its order.

    Attributes:
        arrived: Second in which the first of them came.
    """

    head: Head
    lookups: list[int]
    arrived: int

    def ranges(self) -> list[tuple[int, int]]:
        """Return their lookup identifiers as ranges, rising."""
        found: list[tuple[int, int]] = []
        for lookup in sorted(self.lookups):
            if found and found[-1][1] + 1 == lookup:
                found[-1] = (found[-1][0], lookup)
            else:
                found.append((lookup, lookup))
        return found


class _Run(MutableRecord):
    """Consecutive ranks; whether a first message begins and a last one ends them."""

    low: int
    high: int
    begins: bool
    ends: bool


class _Runs:
    """Messages by a key and a rank."""

    def __init__(self) -> None:
        self._at: dict[tuple[Key, int], int] = {}
        self._starts: dict[tuple[Key, int], _Run] = {}
        self._ends: dict[tuple[Key, int], _Run] = {}

    def add(self, key: Key, rank: int, member: Member) -> list[int]:
        """Add one message; return the lookup identifiers of the run from a first to a last one that
        it belongs to, in order. Empty if there is none."""
        known = (key, rank) in self._at
        # A moved message is seen again, in another place: its last place counts.
        self._at[key, rank] = member.lookup
        run = self._run_of(key, rank) if known else self._joined(key, rank, member.head)
        if not (run.begins and run.ends):
            return []
        return [self._at[key, at] for at in range(run.low, run.high + 1)]

    def _run_of(self, key: Key, rank: int) -> _Run:
        while (key, rank) not in self._starts:
            rank -= 1
        return self._starts[key, rank]

    def _joined(self, key: Key, rank: int, head: Head) -> _Run:
        run = _Run(rank, rank, head.first, head.last)
        left = None if head.first else self._ends.get((key, rank - 1))
        if left is not None and not left.ends:
            run.low, run.begins = left.low, left.begins
            del self._ends[key, left.high]
        right = None if head.last else self._starts.get((key, rank + 1))
        if right is not None and not right.begins:
            run.high, run.ends = right.high, right.ends
            del self._starts[key, right.low]
        self._starts[key, run.low] = self._ends[key, run.high] = run
        return run


class Survey:
    """What is known of a queue, from its front to the examined position."""

    def __init__(self) -> None:
        self._members: dict[int, Member] = {}
        self._numbers, self._messages = _Runs(), _Runs()
        self.after = 0

    def add(self, batch: Batch) -> Iterator[Members]:
        """Add records; yield the transactions that they complete."""
        places = zip(batch.lookup_ids, batch.arrived_times, batch.run, strict=True)
        for lookup, arrived, raw in places:
            member = Member(lookup, arrived, Head.unpack(raw))
            self._members[lookup] = member
            whole = self._whole(member)
            if whole:
                yield _members([self._members.pop(one) for one in whole])
        self.after = batch.scanned

    def _whole(self, member: Member) -> list[int]:
        """Return the transaction that this message completes, if it does."""
        head = member.head
        found: list[int] = []
        ordinal = head.ordinal
        if ordinal:
            found = self._numbers.add(_stream_of(head), ordinal, member)
        if head.transaction:
            key = (head.source, 0, head.transaction)
            found = found or self._messages.add(key, head.message, member)
        # What was handed out before does not belong to it any more.
        return found if all(one in self._members for one in found) else []

    def overdue(self, before_s: float) -> list[Members]:
        """Remove and return those that have been there in part since that second."""
        late = [members for members in self.incomplete() if members.arrived <= before_s]
        for members in late:
            for lookup in members.lookups:
                del self._members[lookup]
        return late

    def incomplete(self) -> list[Members]:
        """Return those that are there in part, the oldest first."""
        groups: dict[tuple[Key, int], list[Member]] = {}
        for member in self._members.values():
            key = (_stream_of(member.head), member.head.transaction)
            groups.setdefault(key, []).append(member)
        found: list[Members] = []
        for group in groups.values():
            group.sort(key=_rank)
            found += map(_members, _cut(group))
        return sorted(found, key=lambda members: min(members.lookups))


def _stream_of(head: Head) -> Key:
    """Return a key that all messages of one transaction share, perhaps with others."""
    return (head.source, head.stream, 0 if head.stream else head.previous)


def _rank(member: Member) -> int:
    return member.head.ordinal or member.head.message


def _cut(group: list[Member]) -> Iterator[list[Member]]:
    """Split messages of one transaction number where one transaction ends and another begins."""
    start = 0
    for at in range(1, len(group)):
        if group[at].head.first or group[at - 1].head.last:
            yield group[start:at]
            start = at
    yield group[start:]


def _members(group: list[Member]) -> Members:
    arrived = min(member.arrived for member in group)
    return Members(group[0].head, [member.lookup for member in group], arrived)
