"""The part of a packet that a search or a survey needs: small records instead of whole messages.

Read at fixed offsets, from packets that were checked when they arrived (MS-MQMQ 2.2.19).

A transactional message that was sent to a queue of this manager is in no stream. Its number is then
its message number, minus its position in its transaction to that queue (from 1), and its previous
number is the message number of the first of these. Both are equal in all messages of a batch, so
writing them costs nothing.

Also here:

* Find the messages of a queue that are one transaction of a sender, and whether all are there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

from onceq.model.record import MutableRecord, Record
from onceq.model.run import Buffer, Run
from onceq.packet import address as at
from onceq.packet.arrived import Batch
from onceq.packet.decode import glance, properties_offset
from onceq.packet.headers import encode_headers, headers

# ---- heads ---------------------------------------------------------------------------------------


HEAD = struct.Struct("<16sIIQIII")
"""Source, message number, TransactionHeader flags, stream, number, previous number, packet size."""
_CORRELATION = (4, 24)
"""Offset of the correlation identifier in the MessagePropertiesHeader."""


class MessageOrigin(Record, frozen=True):
    """The origin of a message, and its transaction.

    Attributes:
        stream: 0: it was sent on this computer, or outside transactions.
        number, previous: In its stream; without one, see the module. ``previous`` 0 and no stream:
            an older onceq has put it there, or it is not transactional.
    """

    source: bytes
    message: int
    flags: int
    stream: int
    number: int
    previous: int
    size: int

    @property
    def transaction(self) -> int:
        """Return the number of the sending transaction (SND-11)."""
        return (self.flags & at.TX_NUMBER_MASK) >> at.TX_NUMBER_SHIFT

    @property
    def first(self) -> bool:
        """Return whether it is the first of its transaction to this queue (SND-10)."""
        return bool(self.flags & at.TX_FIRST)

    @property
    def last(self) -> bool:
        """Return whether it is the last of its transaction to this queue."""
        return bool(self.flags & at.TX_LAST)

    @property
    def ordinal(self) -> int:
        """Return one more than the number of the message before in its transaction to this queue;
        0: unknown."""
        if self.stream:
            return self.number
        return (self.message - self.number) & 0xFFFF_FFFF if self.previous else 0

    @classmethod
    def unpack(cls, raw: Buffer) -> MessageOrigin:
        """Read a head from a record; raises struct.error."""
        return cls(*HEAD.unpack(raw))


def head_of(packet: Buffer, start: int) -> bytes:
    """Return the record of the packet that begins at ``start``; raises MalformedPacket."""
    seen = glance(packet, start)
    flags = at.U32.unpack_from(packet, start + seen.tx_offset)[0] if seen.tx_offset else 0
    return HEAD.pack(
        seen.source, seen.message, flags, seen.stream, seen.number, seen.previous, seen.size
    )


def bodiless(packet: Buffer) -> bytes:
    """Return a packet without its body, with the size of the body (u32) in front.

    A packet that came over HTTP holds the body a second time, in its original envelope.

    Raises:
        MalformedPacket: It is none.
    """
    parts = headers(packet)
    size = len(parts.properties.body)
    said_nothing = replace(
        parts,
        user=replace(parts.user, flags=parts.user.flags & ~at.USER_SOAP),
        properties=replace(parts.properties, body=b"", slack=b"", body_allocated=0),
        soap=b"", trailing=b"",
    )  # fmt: skip
    return at.U32.pack(size) + encode_headers(said_nothing)


def split_bodiless(run: Run) -> tuple[Run, list[int]]:
    """Return packets, and the sizes of the bodies that they had, from such records; raises
    struct.error."""
    records = list(run)
    sizes = [at.U32.unpack_from(record)[0] for record in records]
    return Run.of([record[at.U32.size :] for record in records]), sizes


def first_with_correlation(run: Run, value: bytes) -> int:
    """Return the index of the first packet with a correlation identifier; -1 if there is none."""
    low, high = _CORRELATION
    data = bytes(run.data)
    # Most pages do not have it at all, and one search over all bytes costs much less than one for
    # each packet.
    if value not in data:
        return -1
    for index, start in enumerate(accumulate(run.lengths[:-1], initial=0)):
        offset = start + properties_offset(data, start)
        if data[offset + low : offset + high] == value:
            return index
    return -1


def first_with_id(run: Run, source: bytes, number: int) -> int:
    """Return the index of the first packet with a message identifier; -1 if there is none."""
    data = memoryview(run.data)
    for index, start in enumerate(accumulate(run.lengths[:-1], initial=0)):
        if (
            at.U32.unpack_from(data, start + at.OFF_MESSAGE_NUMBER)[0] == number
            and data[start + at.OFF_SOURCE : start + at.OFF_SOURCE + 16] == source
        ):
            return index
    return -1


# ---- transaction survey --------------------------------------------------------------------------


Key = tuple[bytes, int, int]


class SurveyedMessage(Record, frozen=True):
    """A message as a survey has seen it.

    The position of a message proves nothing: a delay, a retry, a move or a job puts it behind
    others, or leaves others out between. Its own fields count: whether it is the first or the last
    of its transaction to this queue (SND-10), and a number. Messages of one transaction have
    consecutive numbers in the stream that they came in (EOD-4, one commit numbers all of them at
    once), or, if they were sent on this computer, in the transaction itself. So a run of numbers
    without a hole, from a first message to a last one, is a whole transaction.

    Two kinds of messages have no such run: those that an older onceq has put into a queue of this
    computer, and those that were sent again in part in another stream, after a restore of their
    sender. Their message numbers may prove the same: a commit takes them one after another (PRP-3).
    A run of them without a hole, of one transaction number, from a first message to a last one,
    leaves no room for another message of that transaction. If messages to other queues are between
    them, it proves nothing, and the transaction does not count as complete.
    """

    lookup: int
    arrived: int
    head: MessageOrigin


class Members(Record, frozen=True):
    """The present messages of one transaction, in its order.

    Attributes:
        arrived: Second in which the first of them came.
    """

    head: MessageOrigin
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

    def add(self, key: Key, rank: int, member: SurveyedMessage) -> list[int]:
        """Add one message; return the lookup identifiers of the run from a first to a last one that
        it belongs to, in order. Empty if there is none."""
        known = (key, rank) in self._at
        # A moved message is seen again, in another place: its last place counts.
        self._at[key, rank] = member.lookup
        if known:
            while (key, rank) not in self._starts:
                rank -= 1
            run = self._starts[key, rank]
        else:
            run = self._joined(key, rank, member.head)
        if not (run.begins and run.ends):
            return []
        return [self._at[key, at] for at in range(run.low, run.high + 1)]

    def _joined(self, key: Key, rank: int, head: MessageOrigin) -> _Run:
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
        self._members: dict[int, SurveyedMessage] = {}
        self._numbers, self._messages = _Runs(), _Runs()
        self.after = 0

    def add(self, batch: Batch) -> Iterator[Members]:
        """Add records; yield the transactions that they complete."""
        places = zip(batch.lookup_ids, batch.arrived_times, batch.run, strict=True)
        for lookup, arrived, raw in places:
            member = SurveyedMessage(lookup, arrived, MessageOrigin.unpack(raw))
            self._members[lookup] = member
            whole = self._whole(member)
            if whole:
                yield _members([self._members.pop(one) for one in whole])
        self.after = batch.scanned

    def _whole(self, member: SurveyedMessage) -> list[int]:
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
        groups: dict[tuple[Key, int], list[SurveyedMessage]] = {}
        for member in self._members.values():
            key = (_stream_of(member.head), member.head.transaction)
            groups.setdefault(key, []).append(member)
        found: list[Members] = []
        for group in groups.values():
            group.sort(key=_rank)
            found += map(_members, _cut(group))
        return sorted(found, key=lambda members: min(members.lookups))


def _stream_of(head: MessageOrigin) -> Key:
    """Return a key that all messages of one transaction share, perhaps with others."""
    return (head.source, head.stream, 0 if head.stream else head.previous)


def _rank(member: SurveyedMessage) -> int:
    return member.head.ordinal or member.head.message


def _cut(group: list[SurveyedMessage]) -> Iterator[list[SurveyedMessage]]:
    """Split messages of one transaction number where one transaction ends and another begins."""
    start = 0
    for index in range(1, len(group)):
        if group[index].head.first or group[index - 1].head.last:
            yield group[start:index]
            start = index
    yield group[start:]


def _members(group: list[SurveyedMessage]) -> Members:
    arrived = min(member.arrived for member in group)
    return Members(group[0].head, [member.lookup for member in group], arrived)
