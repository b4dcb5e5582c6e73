"""Turn the records of a log into the rows of a history.

It also names the end of each message that leaves a queue: the event, its class, its reader.

A second ``State`` follows the log. Each record is read before it is applied, so that its meaning is
known (which queue has a number, where a dead letter will be), and is then applied as at a recovery.
Nothing here was ever only in memory, so the rows are true after any crash, and the same log gives
the same rows.

Upholds: I22 (the same ``apply``), and that a history tells nothing that was not durable.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from onceq.core.state import snapshot
from onceq.core.state.branch_table import PreparedBranch
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE, AWAITING
from onceq.core.state.positions import Positions
from onceq.core.state.queue_tables import (
    ACKS_OWED,
    DAMAGED,
    DEAD_LETTER,
    DEAD_XACT,
    DOUBTS_KEPT,
    JOURNAL,
    JOURNAL_BIT,
)
from onceq.core.state.queues import TRANSACTIONAL_LANE, AnyQueue, Queue, lookup_id
from onceq.core.state.records import (
    PUT_DEADLETTER,
    PUT_JOURNAL,
    Change,
    Op,
    Put,
    RangeChange,
    decode,
)
from onceq.core.state.setups import LifeBegun, Noted, Setup
from onceq.core.state.snapshot import apply
from onceq.core.state.state import State
from onceq.errors import DamagedRecord, MalformedPacket
from onceq.history.columns import ACT, ActRow, Start
from onceq.history.events import Event, FileEvents, LaneRange
from onceq.history.heads import (
    FEW,
    HEAD_BYTES,
    UNSUMMED,
    Array,
    Brought,
    CutPackets,
    Heads,
    Places,
    Read,
    brought,
    cut,
    first_of,
    heads_in,
    parsed,
    together,
    unread,
)
from onceq.model.identity import NO_GUID, Identity
from onceq.model.log import FRAME_HEADER
from onceq.model.marks import SECOND_US
from onceq.model.resultcodes import MessageClass
from onceq.model.run import Buffer
from onceq.packet.acks import ack_class, parse_final_ack
from onceq.packet.address import PROP_CLASS
from onceq.packet.decode import glance, properties_offset
from onceq.packet.headers import headers

# ---- ends ----------------------------------------------------------------------------------------
#
# The end of messages that leave a queue: the event, its class, and their reader.


_ENDS: Final[dict[int, str]] = {
    MessageClass.NACK_DELETED: "purged",
    MessageClass.NACK_QUEUE_DELETED: "deleted",
    MessageClass.NACK_QUEUE_PURGED: "purged",
    MessageClass.NACK_RECEIVE_TIMEOUT: "expired",
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "expired",
    MessageClass.NACK_RECEIVE_REJECTED: "rejected",
}
"""How a message ends in a queue, by class."""


def became(queue: AnyQueue, move: RangeChange) -> tuple[str, int | None]:
    """Return the event of a move, and its class."""
    reason = move.reason
    if isinstance(queue, OutgoingQueue):
        if move.op in (Op.RELEASE, Op.AWAIT):
            return ("acknowledged" if move.lane == TRANSACTIONAL_LANE else "released"), None
        if not reason & 0x8000:
            return "confirmed", reason
        if reason == MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER:
            return "in-doubt", reason
        if reason == MessageClass.NACK_DELETED:
            return "purged", reason
        return ("not-received" if reason & 0x4000 else "not-delivered"), reason
    if move.op == Op.REMOVE:
        return "received", None
    if move.op in (Op.UNLOCK, Op.RETURN):
        return "given-back", None
    if move.op == Op.SETTLE:
        return "settled", reason
    if move.op == Op.RELEASE:
        return "lost", None
    if move.op == Op.PURGE or not reason:
        return "purged", reason or None
    return _ENDS.get(reason, "rejected"), reason


def reader_of(change: Change, queue: int, last: int) -> str | None:
    """Return the reader of a range that a change removes; None where it does not say.

    Args:
        last: Lookup identifier of the last of the range.
    """
    for read in change.marks.reads if change.marks else ():
        if read.queue == queue and last <= read.to:
            return read.reader
    return None


# ---- projector -----------------------------------------------------------------------------------


_CLASS = struct.Struct("<H")

LARGE_BYTES: Final = 4_096
"""Packets that are larger on average are not read whole for the sake of their heads."""
READ_BYTES: Final = 8 << 20
"""Bytes read at once otherwise."""
NEAR_US: Final = 2 * SECOND_US
"""A sync within this time after the second of a record was made for it."""


class Projector:
    """Projects one log. One thread at a time."""

    def __init__(self, identity: Identity, read: Read) -> None:
        self.state = State(identity)
        self._identity = identity
        self.read = read
        self._wall_s = identity.installed_s

    @property
    def guid(self) -> bytes:
        """Return the GUID of the log's manager."""
        return self._identity.guid

    @property
    def acts(self) -> int:
        """Return the number of the last act of administration."""
        return self.state.trail.next - 1

    @property
    def wall_us(self) -> int:
        """Return when the last record was decided, in whole seconds."""
        return self._wall_s * SECOND_US

    def restore(self, checkpoint: bytes | None) -> None:
        """Begin where a checkpoint was made; None: at the beginning of the log."""
        if checkpoint is not None:
            snapshot.restore(self.state, checkpoint)

    def follow(self, position: int, payload: memoryview) -> None:
        """Apply a record whose rows are written already."""
        self._apply(position, decode(payload, position + FRAME_HEADER))

    def take(
        self, position: int, payload: memoryview, rows: FileEvents, time_us: int,
        damaged: Places = (),
    ) -> None:  # fmt: skip
        """Apply a record, and add its rows.

        Args:
            time_us: When it became durable, if that is known; else 0. A record for which nobody
                waited may have become durable much later than it happened: then its own second
                counts.
            damaged: Where packets in it are damaged: of these only the sizes are known.
        """
        record = decode(payload, position + FRAME_HEADER)
        if isinstance(record, tuple):
            change, offsets = record
            told = _Told(self, change, position, time_us, rows)
            first = position + FRAME_HEADER
            told.tell([first + offset if damaged else 0 for offset in offsets], damaged)
        elif isinstance(record, LifeBegun) and record.at_us:
            rows.starts.append(Start(position, record.at_us, record.orderly))
        elif isinstance(record, Noted):
            act = ActRow(
                record.number, record.who, record.where, record.what, record.about, record.result,
                record.since or position,
            )  # fmt: skip
            at_us, exact = _when(record.at_s, time_us)
            rows.add(Event(
                ACT, position, 0, at_us, exact, 1, source=NO_GUID, transactional=False, act=act
            ))  # fmt: skip
        self._apply(position, record)

    def _apply(
        self, position: int, record: tuple[Change, list[int]] | Setup | PreparedBranch
    ) -> None:
        if isinstance(record, tuple):
            self._wall_s = record[0].wall_s
        apply(self.state, record, position)

    def heads(self, queue: AnyQueue, lane: int, first: int, count: int) -> Heads | CutPackets:
        """Return the heads of messages that are in a lane now; their packets are read from the log.

        Of a message whose bytes are damaged only its size is known.
        """
        try:
            return self._heads(queue, lane, first, count)
        except DamagedRecord:
            if count > 1:
                rest = range(first, first + count)
                return together([self.heads(queue, lane, at, 1) for at in rest])
            return unread(queue.lanes[lane].size(first, 1))

    def _heads(self, queue: AnyQueue, lane: int, first: int, count: int) -> Heads | CutPackets:
        lane_of = queue.lanes[lane]
        sizes = lane_of.lengths(first, count)
        if sum(sizes) > LARGE_BYTES * count:
            return self._large(lane_of, first, sizes)
        if count <= FEW:
            return cut(self._bytes(lane_of, first, count), sizes)
        parts: list[Heads] = []
        at = 0
        while at < count:
            take, size = 0, 0
            while at + take < count and (not take or size + sizes[at + take] <= READ_BYTES):
                size += sizes[at + take]
                take += 1
            parts.append(parsed(self._bytes(lane_of, first + at, take), sizes[at : at + take]))
            at += take
        return parts[0] if len(parts) == 1 else together(parts)

    def _bytes(self, lane: Positions, first: int, count: int) -> Buffer:
        extents = lane.extents(first, count)
        if len(extents) == 1:
            return self.read(extents[0].address, extents[0].size)
        return b"".join(self.read(extent.address, extent.size) for extent in extents)

    def _large(self, lane: Positions, first: int, sizes: array[int]) -> CutPackets:
        """Return the heads of packets that are too large to be read whole."""
        found = CutPackets([], list(sizes), [UNSUMMED] * len(sizes))
        for counter, size in enumerate(sizes, first):
            data, left = bytearray(), HEAD_BYTES
            for extent in lane.extents(counter, 1):
                if not left:
                    break
                data += self.read(extent.address, min(extent.size, left))
                left = max(HEAD_BYTES - len(data), 0)
            try:
                found.pieces += cut(data, [size]).pieces
            except MalformedPacket:
                found.pieces += cut(self._bytes(lane, counter, 1), [size]).pieces
        return found


def kind_of(queue: AnyQueue) -> str:
    """Return the name of the queue's kind in a row; "" for a queue without rows."""
    if isinstance(queue, OutgoingQueue):
        return "outgoing"
    if queue.number in (DEAD_XACT, DEAD_LETTER):
        return "dead-letter"
    if queue.number == JOURNAL or queue.number & JOURNAL_BIT:
        return "journal"
    return "" if queue.number in (ACKS_OWED, DOUBTS_KEPT, DAMAGED) else "queue"


def name_of(queue: AnyQueue) -> str:
    """Return its path name, or the format name of an outgoing queue."""
    if isinstance(queue, OutgoingQueue):
        return str(queue.name)
    assert isinstance(queue, Queue)
    name = f"private$\\{queue.title}" if queue.properties.private else queue.title
    return f"{name};journal" if queue.number & JOURNAL_BIT else name


def _when(wall_s: int, time_us: int) -> tuple[int, bool]:
    """Return when a record of that second happened, and whether that is exact.

    Args:
        time_us: As for ``Projector.take``.
    """
    second_us = wall_s * SECOND_US
    exact = 0 <= time_us - second_us <= NEAR_US
    return (time_us if exact else second_us), exact


class _Told:
    """One change being read, before it is applied."""

    def __init__(
        self, projector: Projector, change: Change, position: int, time_us: int, rows: FileEvents
    ) -> None:
        self._projector = projector
        self._state = projector.state
        self._change = change
        self._position = position
        self._time_us, self._exact = _when(change.wall_s, time_us)
        self._rows = rows
        self._ordinal = 0
        self._next: dict[tuple[int, int], int] = {}

    def tell(self, addresses: Sequence[int], damaged: Places) -> None:
        """Add the rows of everything, in the order in which it is applied.

        Args:
            addresses: Of the packets of each put, if any in this record are damaged.
        """
        change = self._change
        for at, put in enumerate(change.puts):
            self._put(put, brought(change.puts, at, addresses, damaged, self._projector.read))
        for move in change.moves:
            self._move(move)
        if change.advances:
            self._advance()

    def _add(
        self, what: str, at: LaneRange | None, heads: Heads | CutPackets | None, *, count: int = 0,
        kind: Array | int | None = None, origin: LaneRange | None = None, **more: object,
    ) -> None:  # fmt: skip
        size = len(heads) if heads is not None else count
        event = Event(
            what, self._position, self._ordinal, self._time_us, self._exact, size, at, origin,
            heads, kind=kind, **more,  # type: ignore[arg-type]
        )  # fmt: skip
        self._rows.add(event)
        self._ordinal += size

    def _place(self, queue: AnyQueue, lane: int, first: int) -> LaneRange:
        return LaneRange(queue.number, lane, first, kind_of(queue), name_of(queue))

    # ---- what comes in ------------------------------------------------------------------

    def _put(self, put: Put, packets: Brought) -> None:
        queue = self._state.all_queues[put.queue]
        count = len(put.packets)
        self._next[put.queue, put.lane] = put.first + count
        if not kind_of(queue):
            return
        heads = heads_in(packets, put.packets.lengths)
        at = self._place(queue, put.lane, put.first)
        # The packets of one put differ in numbers and bodies only.
        data = first_of(packets)
        if data is None:
            self._unseen(put, queue, at, heads)
            return
        seen = glance(data)
        said = _CLASS.unpack_from(data, properties_offset(data) + PROP_CLASS)[0]
        if put.reason:
            at.kind = "dead-letter"
            self._add("dead-lettered", at, heads, kind=put.reason)
        elif at.kind == "journal":
            self._add("journaled", at, heads)
        elif seen.source != self._projector.guid:
            arrived = isinstance(queue, Queue)
            self._add("accepted" if arrived else "forwarded", at, heads, kind=said or None)
        elif said:
            self._tell_of(packets, at)
        else:
            wants = (bool(put.flags & PUT_DEADLETTER), bool(put.flags & PUT_JOURNAL))
            self._add("committed" if seen.transactional else "sent", at, heads, wants=wants)

    def _unseen(self, put: Put, queue: AnyQueue, at: LaneRange, heads: Heads | CutPackets) -> None:
        """Add the rows of a put all of whose packets are damaged: the record knows where they
        came from."""
        if put.reason:
            at.kind = "dead-letter"
            self._add("dead-lettered", at, heads, kind=put.reason)
        elif at.kind == "journal":
            self._add("journaled", at, heads)
        elif put.source != NO_GUID:
            self._add("accepted", at, heads)
        else:
            local = isinstance(queue, Queue) and queue.properties.transactional
            ordered = local or put.lane == TRANSACTIONAL_LANE
            self._add("committed" if ordered else "sent", at, heads)

    def _tell_of(self, packets: Brought, at: LaneRange) -> None:
        """Add rows of this manager's acknowledgment messages: each is about the acknowledged
        message."""
        for index, packet in enumerate(packets):
            if packet is None:
                continue
            parts = headers(packet)
            about = parts.properties.correlation
            said = parts.properties.message_class
            if ack_class(parts) or said == MessageClass.REPORT or len(about) != 20:
                continue
            place = LaneRange(at.number, at.lane, at.first + index, at.kind, at.name)
            self._add(
                "told", place, None, count=1, kind=said, source=bytes(about[:16]),
                message=np.array([int.from_bytes(about[16:], "little")]), transactional=False,
            )  # fmt: skip

    # ---- what goes ------------------------------------------------------------------------

    def _move(self, move: RangeChange) -> None:
        queue = self._state.all_queues[move.queue]
        if move.op in (Op.LOCK, Op.RETURN) or not kind_of(queue):
            self._copies(move, None)
            return
        if move.op == Op.SHIFT:
            self._shift(move, queue)
            return
        for first, count in self._parts(queue, move):
            heads = self._projector.heads(queue, move.lane, first, count)
            at = self._place(queue, move.lane, first)
            what, kind = became(queue, move)
            last = lookup_id(move.lane, first + count - 1)
            reader = reader_of(self._change, move.queue, last) if what == "received" else None
            self._add(what, at, heads, kind=kind, reader=reader)
        self._copies(move, queue)

    def _shift(self, move: RangeChange, queue: AnyQueue) -> None:
        """Add a move to or from a subqueue: it has another place from now on."""
        target = self._state.all_queues[move.to]
        heads = self._projector.heads(queue, move.lane, move.first, move.count)
        first = self._takes(target, move.lane, move.count)
        origin = self._place(queue, move.lane, move.first)
        self._add("moved", self._place(target, move.lane, first), heads, origin=origin)

    def _parts(self, queue: AnyQueue, move: RangeChange) -> Iterator[tuple[int, int]]:
        """Yield the ranges that it concerns: a purge takes out only what nobody holds."""
        if move.op != Op.PURGE:
            return iter(((move.first, move.count),))
        lane = queue.lanes[move.lane]
        end = move.first + move.count
        return iter(
            sorted(
                part
                for state in (AVAILABLE, AWAITING)
                for part in lane.ranges(state, move.first, end=end)
            )
        )

    def _copies(self, move: RangeChange, queue: AnyQueue | None) -> None:
        """Add the rows of dead-letter queues and journals, which take the packets over."""
        targets = [(move.to, move.to_lane, move.reason)] if move.to else []
        for number, lane, reason in (*targets, *move.copies_to):
            target = self._state.all_queues[number]
            place = self._place(target, lane, self._takes(target, lane, move.count))
            if queue is None or not place.kind:
                continue
            heads = self._projector.heads(queue, move.lane, move.first, move.count)
            origin = self._place(queue, move.lane, move.first)
            if place.kind == "journal":
                self._add("journaled", place, heads, origin=origin)
            else:
                place.kind = "dead-letter"
                self._add("dead-lettered", place, heads, origin=origin, kind=reason)

    def _takes(self, target: AnyQueue, lane: int, count: int) -> int:
        """Return the counter of the first of ``count`` messages that a lane takes over next."""
        key = (target.number, lane)
        first = self._next.get(key)
        if first is None:
            first = target.lanes[lane].next
        self._next[key] = first + count
        return first

    # ---- what was judged ------------------------------------------------------------------

    def _advance(self) -> None:
        """Add the numbers that this receiver will never accept any more: refused, or passed
        over."""
        change = self._change
        stored = [
            (put.stream, put.number, len(put.packets))
            for put in change.puts
            if put.source != NO_GUID and put.stream
        ]
        for advance in change.advances:
            progress = self._state.progress.get((advance.source, advance.key))
            here = progress is not None and progress.stream == advance.stream
            before = progress.last if progress is not None and here else 0
            if before + 1 < advance.first:
                self._add(
                    "passed-over", None, None, count=1, source=advance.source,
                    stream=advance.stream, number=before + 1, last=advance.first - 1,
                )  # fmt: skip
            kept = sum(count for stream, _, count in stored if stream == advance.stream)
            refused = advance.last - advance.first + 1 - kept
            if refused > 0:
                self._refused(advance.source, advance.stream, advance.last - refused + 1, refused)

    def _refused(self, source: bytes, stream: int, number: int, count: int) -> None:
        classes: Array = np.full(count, -1, "i8")
        messages: Array = np.zeros(count, "i8")
        for put in self._change.puts:
            if put.reason:
                classes[:] = put.reason
            if not isinstance(self._state.all_queues[put.queue], OutgoingQueue):
                continue
            if put.lane == TRANSACTIONAL_LANE:
                continue
            for packet in put.packets:
                if ack_class(headers(packet)):
                    ack = parse_final_ack(packet)
                    at = ack.number - number
                    if ack.stream == stream and 0 <= at < count:
                        classes[at], messages[at] = ack.message_class, ack.message
        self._add(
            "refused", None, None, count=count, kind=classes, source=source, stream=stream,
            number=number, message=messages if messages.all() else None,
        )  # fmt: skip
