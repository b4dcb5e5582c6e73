"""Records: every change of the durable state, as a value and as bytes.

A ``Change`` is everything that one decision does to messages: ranges that move on, messages that
come in, streams that progress, the outcome of a commit. It is one record, so it happens entirely or
not at all (I2). Where it ends or decides an external transaction it carries ``Marks``. A
``PreparedBranch`` is what a prepared branch of such a transaction has promised
(``core/state/branch_table.py``). A ``Setup`` is a rare change, such as a queue that is made; it is
JSON.

The same ``State.apply`` takes these values while running and when a store is read again, so that
recovery cannot differ from running (I22). The byte form is described with worked bytes in
``docs/reference/formats/records.md``. ``PayloadReader`` cannot step outside a record.

Upholds: I2, I22, I23 (what does not fit is named, not guessed).
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field, fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final

from onceq.core.state.branch_table import (
    KIND_PREPARE,
    Marks,
    PreparedBranch,
    decode_branch,
    decode_marks,
)
from onceq.core.state.setups import KIND_SETUP, Setup, decode_setup
from onceq.errors import DamagedRecord, NewerFormat
from onceq.model.identity import NO_GUID, TransactionId
from onceq.model.marks import NEVER_S
from onceq.model.run import LENGTH_TYPE, Buffer, Run, total_of

NAMED: Final = struct.Struct("<I")
HAS_MORE: Final = 1 << 15
"""In the length of a key: four bytes follow behind it."""


class PayloadReader:
    """A cursor over one payload that cannot step outside."""

    __slots__ = ("at", "data")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        end = self.at + form.size
        if end > len(self.data):
            raise DamagedRecord(f"a record ends at {len(self.data)}, needed up to {end}")
        values = form.unpack_from(self.data, self.at)
        self.at = end
        return values

    def take(self, size: int) -> memoryview:
        end = self.at + size
        if end > len(self.data):
            raise DamagedRecord(f"a record ends at {len(self.data)}, needed up to {end}")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def named(self, size: int) -> tuple[str, int]:
        """A key, and what stands behind it; 0 if nothing does."""
        key = bytes(self.take(size & ~HAS_MORE)).decode()
        return key, self.unpack(NAMED)[0] if size & HAS_MORE else 0

    def table(self, kind: str, count: int) -> array[int]:
        values = array(kind)
        values.frombytes(self.take(count * values.itemsize))
        return values


VERSION = 1
VERSION_LAID = 2
"""Of changes that take over packets which a prepared branch has laid, and of such branches."""
VERSION_NAMED = 3
"""Of changes that say which messages were accepted last, or when those seen were sent."""
VERSION_FRONTS = 5
"""Of changes in which packets share their rests. 4 is ``VERSION_TABLES`` of prepared branches
(``core/state/branch_table.py``)."""
VERSION_READS = 6
"""Of changes that say who has read what they remove, or whose the decision is that they make."""
VERSION_DUE = 7
"""Of changes that bring messages which are delayed."""
VERSION_JOBS = 8
"""Of changes that are a batch of a job."""
VERSION_TORN = 9
"""Of changes that are a batch of a job which tears transactions."""
VERSION_MAX = VERSION_TORN
KIND_CHANGE = 1
KIND_MARKED = 4
"""A change with marks before it."""


class Op(IntEnum):
    """What happens to a range of positions."""

    REMOVE = 1
    """Received for good."""
    LOCK = 2
    """Received by a transaction that is still open."""
    UNLOCK = 3
    """That transaction aborted: back to its place, abort count one higher (I17)."""
    PURGE = 4
    """Removed by an operator; a locked message follows when its transaction ends (Q-43)."""
    RELEASE = 5
    """An order or session acknowledgment covers it: the outgoing queue forgets it."""
    AWAIT = 6
    """An order acknowledgment covers it, but its end is wanted (EOD-11)."""
    END = 7
    """It ended otherwise: expired or refused, with the class in ``reason``."""
    RETURN = 8
    """Unlocked without counting: the receive was not handed out, or the abort was blameless."""
    SHIFT = 30
    """Moved between a queue and its subqueues, or between two of those; ``to`` is the target. With
    the reason SET_ASIDE its time to be received does not count any more."""
    SETTLE = 20
    """A dead letter in doubt has become certain: its class is now ``reason``; 0xC003 again says
    that it arrived, and only its end is not known."""


SET_ASIDE = 1
"""Reason of a SHIFT. An older onceq passes over it: the time goes on there."""


@dataclass(slots=True)
class RangeChange:
    """Something that happens to a range; ``to`` takes the packets over if it is not 0.

    Attributes:
        copies_to: Further queues that take them over, each as (queue, lane, class): one message
            may leave a dead letter, a journal copy and an acknowledgment that is owed, all in the
            record that ends it.
        note: What ``to`` shall know beside the class (``Message.note``).
    """

    op: int
    queue: int
    lane: int
    first: int
    count: int
    reason: int = 0
    to: int = 0
    to_lane: int = 0
    copies_to: tuple[tuple[int, int, int], ...] = ()
    note: int = 0


@dataclass(frozen=True, slots=True)
class RestOf:
    """Packets of a put whose fronts alone are written; the rest of each, from its properties on, is
    the same as in a packet of an earlier put of the record.

    Attributes:
        put: Index of that put; its packets are whole.
        front: Bytes of each front.
        rest: Where the rests begin in the packets of that put.
    """

    put: int
    front: int
    rest: int


@dataclass(slots=True)
class Put:
    """Messages that come into a queue or an outgoing queue.

    Attributes:
        queue: Number of the queue; 0: the packets are kept by nobody (never used with bytes).
        first: Counter of the first: recovery checks that it comes out the same.
        stream, number: Of the first message, in outgoing queues and for arrivals; 0 if none.
        expires: Second in which they expire; NEVER_S if never.
        confirm_by: In outgoing queues: second at which the wait for their end is over (EOD-42).
        flags: The bits PUT_EXPRESS and following.
        source: Sending manager of an arrival; zero for what was sent here.
        dead_letter_queue: Number of the sender's own dead-letter queue (CNF-14); 0: the
            system's.
        address: Log address at which the packets lie already, laid by a prepare: ``packets`` has
            their lengths only then; 0: they come with the record.
        rest_of: Only the fronts come with the record; ``packets`` has these, and the lengths of
            the whole packets.
        due: Second from which they can be received; 0: at once. They are in a subqueue, or in an
            outgoing queue.
    """

    queue: int
    lane: int
    first: int
    packets: Run
    stream: int = 0
    number: int = 0
    expires: int = NEVER_S
    confirm_by: int = NEVER_S
    flags: int = 0
    reason: int = 0
    message: int = 0
    source: bytes = NO_GUID
    dead_letter_queue: int = 0
    address: int = 0
    rest_of: RestOf | None = None
    due: int = 0


PUT_EXPRESS = 1
"""Gone after a restart."""
PUT_WANTS = 2
"""Somebody wants to know how these messages end (JN, JP, FA)."""
PUT_DEADLETTER = 4
PUT_JOURNAL = 8
PUT_FINAL = 16
"""What they want to know: the journaling asked for, and a final acknowledgment."""
PUT_ACK_RECEIVE = 32
PUT_NACK_RECEIVE = 64
PUT_NACK_ARRIVAL = 128
"""Acknowledgment messages that are wanted of ends still to come (ACK-15)."""
PUT_ACKS = PUT_ACK_RECEIVE | PUT_NACK_RECEIVE | PUT_NACK_ARRIVAL
PUT_ONCE = 256
"""One attempt to deliver them, no second (CNF-4)."""
PUT_HTTP = 512
"""They came over HTTP: how they end is told to the address that their sender has announced."""
_PUT_DUE = 1 << 13
"""In a record only: the second in which they are due follows."""
_PUT_FRONTS = 1 << 14
"""In a record only: how the packets share their rests follows, and only their fronts come."""
_PUT_LAID = 1 << 15
"""In a record only: the address of the packets follows in place of the packets."""


@dataclass(slots=True)
class Advance:
    """The receiver's memory of one stream: who sends, to which queue, up to where (EOD-21).

    ``first`` is the number that it goes on with: those between the last one before and this one
    were passed over. ``last`` one less than ``first`` accepts nothing
    (``core/transfer/in_doubt.py``).
    ``message`` is the message number of the last one, 0 where it is not known: what comes under
    the same number and is another message is no repetition.
    """

    source: bytes
    key: str
    stream: int
    last: int
    first: int
    message: int = 0


@dataclass(slots=True)
class SeenIdentifiers:
    """Identifiers of non-transactional messages, to notice repetitions (EOD-27).

    All copies of one send share a number (FN-14), so the destination is part of them; and a
    repetition has the sent time of the first, which another life of the sender hardly gives to the
    same number.

    Attributes:
        sent: Second at which they were sent, by their sender's clock; 0 in records that do not
            say it.
    """

    source: bytes
    key: str
    numbers: array[int]
    sent: int = 0


@dataclass(slots=True)
class Relocated:
    """New copies of old messages' packets, so that their segment can go."""

    queue: int
    lane: int
    counters: array[int]
    packets: Run


@dataclass(slots=True)
class Change:
    """One decision about messages. Counters: 0 means unchanged."""

    wall_s: int
    outcome: TransactionId | None = None
    next_message: int = 0
    next_ordinal: int = 0
    next_transaction: int = 0
    moves: list[RangeChange] = field(default_factory=list)
    puts: list[Put] = field(default_factory=list)
    advances: list[Advance] = field(default_factory=list)
    seen: list[SeenIdentifiers] = field(default_factory=list)
    refused: list[tuple[int, int]] = field(default_factory=list)
    """Stream and number of each message whose refusal this takes."""
    moved: list[Relocated] = field(default_factory=list)
    marks: Marks | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is in it that needs a record."""
        return not any(_contents(self))

    def encode(self) -> tuple[bytes, list[int]]:
        """Bytes of the record.

        Returns:
            The payload, and for each put and then each moved the offset of its packets in the
            payload (0: they are not in it).
        """
        outcome, marks = self.outcome, b""
        tables: list[Buffer] = []
        add = tables.append
        for m in self.moves:
            # One field for both: a class has 16 bits.
            note, copies_to = m.reason | m.note << 16, m.copies_to
            add(
                _MOVE.pack(
                    m.op, m.lane, m.to_lane, len(copies_to), note, m.queue, m.first, m.count, m.to
                )
            )
            for copy in copies_to:
                add(_COPY.pack(*copy))
        version = VERSION
        if self.advances or self.seen or self.refused:
            version = self._encode_streams(tables)
        laid = delayed = False
        for p in self.puts:
            lengths, flags, rest_of = p.packets.lengths, p.flags, p.rest_of
            if p.address:
                flags, laid = flags | _PUT_LAID, True
            elif rest_of is not None:
                flags, version = flags | _PUT_FRONTS, VERSION_FRONTS
            if p.due:
                flags, delayed = flags | _PUT_DUE, True
            add(
                _PUT.pack(
                    p.lane, flags, p.reason, p.queue, p.first, p.stream, p.number, p.expires,
                    p.confirm_by, p.message, p.dead_letter_queue, len(lengths), p.source,
                )
            )  # fmt: skip
            add(lengths.tobytes())
            if p.address:
                add(_ADDRESS.pack(p.address))
            elif rest_of is not None:
                add(_REST_OF.pack(rest_of.put, rest_of.front, rest_of.rest))
            if p.due:
                add(_DUE.pack(p.due))
        for v in self.moved:
            add(_MOVED.pack(v.queue, v.lane, len(v.counters)))
            add(v.counters.tobytes())
            add(v.packets.lengths.tobytes())
        if delayed:
            version = VERSION_DUE
        if self.marks is not None:
            marks, version = _marked(self.marks, version, laid=laid, delayed=delayed)
        head = _HEAD.pack(
            KIND_CHANGE, version, len(self.advances), self.wall_s, self.next_message,
            self.next_ordinal, self.next_transaction, len(self.moves), len(self.puts),
            len(self.seen) + len(self.refused), len(self.moved), outcome.number if outcome else 0,
            outcome.session if outcome else NO_GUID,
        )  # fmt: skip
        parts = [marks, head, *tables]
        at = sum(map(len, parts))
        offsets: list[int] = []
        carriers: list[Put | Relocated] = [*self.puts, *self.moved]
        for item in carriers:
            offsets.append(0 if isinstance(item, Put) and item.address else at)
            at += len(item.packets.data)
            parts.append(item.packets.data)
        return b"".join(parts), offsets

    def _encode_streams(self, tables: list[Buffer]) -> int:
        """What the record says of the streams of senders; returns the version that this needs."""
        version = VERSION
        for a in self.advances:
            size, key = _named(a.key, a.message)
            tables.append(_ADVANCE.pack(a.source, a.stream, a.last, a.first, size) + key)
            if a.message:
                version = VERSION_NAMED
        for s in self.seen:
            size, key = _named(s.key, s.sent)
            tables += (_SEEN.pack(s.source, len(s.numbers), size) + key, s.numbers.tobytes())
            if s.sent:
                version = VERSION_NAMED
        for stream, number in self.refused:
            raw = f"{_REFUSED}{stream:016x}".encode()
            tables.append(_SEEN.pack(NO_GUID, 1, len(raw)) + raw + _REFUSAL.pack(number))
        return version


_contents = attrgetter(
    *(
        one.name
        for one in fields(Change)
        # The time of a record, and two counters that go with what is put or moved.
        if one.name not in {"wall_s", "next_message", "next_transaction"}
    )
)
"""A field that is added to a change counts, unless it is named here."""


def _named(key: str, value: int) -> tuple[int, bytes]:
    """The length of a key, and the key with a value behind it, unless that is 0."""
    raw = key.encode()
    return (len(raw) | HAS_MORE, raw + NAMED.pack(value)) if value else (len(raw), raw)


def _marked(marks: Marks, version: int, *, laid: bool, delayed: bool) -> tuple[bytes, int]:
    """Marks, and the version of the record with them."""
    if version == VERSION and laid:
        version = VERSION_LAID
    if marks.job is not None:
        version = VERSION_TORN if marks.job.torn else VERSION_JOBS
    elif marks.later and not delayed:
        version = VERSION_READS
    raw = marks.encode()
    return _MARKED.pack(KIND_MARKED, version, 0, len(raw)) + raw, version


_HEAD = struct.Struct("<BBHIIIIIIIIQ16s")
_MARKED = struct.Struct("<BBHI")
_MOVE = struct.Struct("<BBBBIIQII")
_COPY = struct.Struct("<IBH")
_ADVANCE = struct.Struct("<16sQIIH")
_SEEN = struct.Struct("<16sIH")
_REFUSED = "\0refused:"
"""Before a stream: no key of a queue has such a character."""
_REFUSAL = struct.Struct("<I")
_PUT = struct.Struct("<BHHIQQIIIIII16s")
_ADDRESS = struct.Struct("<Q")
_REST_OF = struct.Struct("<III")
_DUE = struct.Struct("<I")
_MOVED = struct.Struct("<IBI")


def _decode_change(data: memoryview) -> tuple[Change, list[int]]:
    reader = PayloadReader(data)
    head = reader.unpack(_HEAD)
    _, _, advances, wall_s, message, ordinal, transaction, moves, puts, seen, moved = head[:11]
    number, session = head[11:]
    change = Change(wall_s, None, message, ordinal, transaction)
    if number:
        change.outcome = TransactionId(session, number)
    for _ in range(moves):
        op, lane, to_lane, more, both, queue, first, count, to = reader.unpack(_MOVE)
        reason, note = both & 0xFFFF, both >> 16
        copies_to = tuple(reader.unpack(_COPY) for _ in range(more))
        change.moves.append(
            RangeChange(op, queue, lane, first, count, reason, to, to_lane, copies_to, note)
        )
    for _ in range(advances):
        source, stream, last, first, size = reader.unpack(_ADVANCE)
        key, more = reader.named(size)
        change.advances.append(Advance(source, key, stream, last, first, more))
    for _ in range(seen):
        source, count, size = reader.unpack(_SEEN)
        key, more = reader.named(size)
        numbers = reader.table("I", count)
        if key.startswith(_REFUSED):
            stream = _stream_of(key)
            change.refused += [(stream, number) for number in numbers]
        else:
            change.seen.append(SeenIdentifiers(source, key, numbers, more))
    none = Run(b"", array(LENGTH_TYPE))
    for _ in range(puts):
        (lane, flags, reason, queue, first, stream, number, expires, confirm_by, message, own,
         count, source) = reader.unpack(_PUT)  # fmt: skip
        lengths = reader.table(LENGTH_TYPE, count)
        address, rest_of, due = 0, None, 0
        if flags & _PUT_LAID:
            flags ^= _PUT_LAID
            (address,) = reader.unpack(_ADDRESS)
        elif flags & _PUT_FRONTS:
            flags ^= _PUT_FRONTS
            rest_of = RestOf(*reader.unpack(_REST_OF))
            whole = change.puts[rest_of.put] if rest_of.put < len(change.puts) else None
            if (
                whole is None or whole.address or whole.rest_of is not None
                or len(whole.packets.lengths) != len(lengths)
                or any(
                    theirs - rest_of.rest != size - rest_of.front or theirs <= rest_of.rest
                    for size, theirs in zip(lengths, whole.packets.lengths, strict=True)
                )
            ):  # fmt: skip
                raise DamagedRecord("packets share what is not there")
        if flags & _PUT_DUE:
            flags ^= _PUT_DUE
            (due,) = reader.unpack(_DUE)
        change.puts.append(
            Put(
                queue, lane, first, Run(none.data, lengths), stream, number, expires, confirm_by,
                flags, reason, message, source, own, address, rest_of, due,
            )
        )  # fmt: skip
    for _ in range(moved):
        queue, lane, count = reader.unpack(_MOVED)
        counters = reader.table("Q", count)
        lengths = reader.table(LENGTH_TYPE, count)
        change.moved.append(Relocated(queue, lane, counters, Run(none.data, lengths)))
    return change, _take_packets(reader, change)


def _stream_of(key: str) -> int:
    """Raises DamagedRecord where none is said."""
    try:
        return int(key.removeprefix(_REFUSED), 16)
    except ValueError:
        raise DamagedRecord(f"a refusal of {key!r} makes no sense") from None


def _take_packets(reader: PayloadReader, change: Change) -> list[int]:
    offsets: list[int] = []
    carriers: list[Put | Relocated] = [*change.puts, *change.moved]
    for item in carriers:
        if isinstance(item, Put) and item.address:
            offsets.append(0)
            continue
        offsets.append(reader.at)
        lengths = item.packets.lengths
        fronts = item.rest_of if isinstance(item, Put) else None
        size = total_of(lengths) if fronts is None else fronts.front * len(lengths)
        item.packets = Run(reader.take(size), lengths)
    if reader.at != len(reader.data):
        raise DamagedRecord(f"{len(reader.data) - reader.at} bytes behind the end of a record")
    return offsets


def decode(payload: memoryview, address: int) -> tuple[Change, list[int]] | Setup | PreparedBranch:
    """Read a record back: a Change with the offsets of its packets, a Setup, or a Branch.

    Args:
        address: Log address at which the payload lies.

    Raises:
        NewerFormat: Written by a newer onceq.
        DamagedRecord: Its bytes make no sense (its checksum was right: a defect of ours).
    """
    if len(payload) < 2:
        raise DamagedRecord("a record of less than two bytes")
    if payload[1] > VERSION_MAX:
        raise NewerFormat(
            f"a record has version {payload[1]}; this onceq knows up to {VERSION_MAX}"
        )
    if payload[0] == KIND_CHANGE:
        return _decode_change(payload)
    if payload[0] == KIND_SETUP:
        return decode_setup(bytes(payload[2:]))
    if payload[0] == KIND_MARKED:
        reader = PayloadReader(payload)
        marks = decode_marks(bytes(reader.take(reader.unpack(_MARKED)[3])))
        change, offsets = _decode_change(payload[reader.at :])
        change.marks = marks
        return change, [reader.at + offset for offset in offsets]
    if payload[0] == KIND_PREPARE:
        return decode_branch(payload, address)
    raise DamagedRecord(f"a record of unknown kind {payload[0]}")
