"""Runs of packets that one read from the network brought: checked once, examined once.

Consecutive packets of one sender to one queue, in one stream and in order, become one
``ArrivedRun``, which the core judges and stores as a whole. Packets of one batch have the same
headers except for a few fields. So the first one is parsed with every check, and the bytes of its
headers become a ``_Shape``; a packet whose bytes equal them, with numbers and sizes that fit, is as
well-formed as the first, and costs one ``struct`` call. A session keeps the shape of what came
last: most senders continue with the same kind of messages.

Also here:

* Messages that were received or peeked together, decoded one by one when they are read.

Upholds: I24 (no missing part is believed).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, cast, overload

from onceq.errors import MalformedPacket
from onceq.model.marks import DELAY_BYTES, due_of
from onceq.model.message import Message
from onceq.model.record import Record
from onceq.model.resultcodes import MessageClass
from onceq.model.run import Buffer, Run, total_of
from onceq.packet import address as at
from onceq.packet.acks import ack_class, is_order_queue, is_settling
from onceq.packet.address import Address
from onceq.packet.decode import bodies, message_of
from onceq.packet.headers import PacketHeaders, headers

# ---- arrived -------------------------------------------------------------------------------------


USER, ORDER_ACK, FINAL_ACK, SETTLING = 0, 1, 2, 3
_TX_ASKS: Final = at.TX_FINAL_ACK | at.TX_CONNECTOR
_USER_ASKS: Final = at.USER_DEADLETTER | at.USER_JOURNAL


class ArrivedRun(Record, frozen=True):
    """Consecutive packets that differ only in body, message number and position.

    Attributes:
        destination_manager: Zero for a direct name.
        recoverable: Delivery mode 1; transactional messages always have it.
        stream, first_number, first_previous: Of the first; zeros if not transactional. Each
            further packet has the next number, and the one before it as previous.
        message_numbers: Of all of them.
        wants: 1 if the sender asks how they end (JN, JP or FA), else 0.
        time_to_reach_queue, time_to_be_received: Seconds from ``sent_time``.
        sent_time: Seconds since 1970 UTC by the sender's clock.
        kind: USER, ORDER_ACK, FINAL_ACK or SETTLING.
        acknowledge: Acknowledgment messages that they ask for (the bits of ``Acknowledge``); 0 if
            they name no queue for them (ACK-1).
        trace: GUID of the public report queue if they are traced, empty if they name none; None if
            they are not traced.
        dead_letter: Whether a dead letter is wanted (JN).
        encrypted: The bodies are not what the sender wrote; never deliver them.
        http: They came over HTTP, where each gets its own answer.
        receipts: Direct name of the queue for receipts of their stream; "" if they do not say it
            now.
        onward: Direct name of the queue of another host to which they are passed on; "" for
            messages that stay here.
        foreign: Whether ``onward`` names a host to which nothing is passed on: they are refused,
            unless they have arrived here before.
        sent_to: URL to which they were sent, if a redirection has led them to their destination;
            "" if none has.
        due: Second from which they can be received, by their mark (``model/marks.py``); 0: at
            once.
        barred: Whether they ask for acknowledgments at a queue here that their sender may not send
            to.
    """

    packets: Run
    source: bytes
    destination_manager: bytes
    destination: Address
    transactional: bool
    recoverable: bool
    priority: int
    stream: int
    first_number: int
    first_previous: int
    message_numbers: array[int]
    wants: int
    time_to_reach_queue: int
    time_to_be_received: int
    sent_time: int
    kind: int
    acknowledge: int = 0
    encrypted: bool = False
    trace: bytes | None = None
    dead_letter: bool = False
    http: bool = False
    receipts: str = ""
    sent_to: str = ""
    onward: str = ""
    foreign: bool = False
    barred: bool = False
    due: int = 0

    @property
    def first_message(self) -> int:
        """Message number of the first packet."""
        return self.message_numbers[0]


class LastShape:
    """The shape of the last packet, for reading packets piece by piece: the next one usually has
    the same."""

    __slots__ = ("shape",)

    def __init__(self) -> None:
        self.shape: _Shape | None = None


def cut(data: Buffer, lengths: array[int], last: LastShape | None = None) -> list[ArrivedRun]:
    """Check packets and combine them into runs.

    The runs are views of ``data``, which must not change as long as they live.

    Args:
        data: User packets one after another.
        lengths: Their sizes, which must be those that their headers declare.
        last: The shape before, from the same sender, if there is one.

    Raises:
        MalformedPacket: One of them is not a message; none counts then.
    """
    if total_of(lengths) != len(data):
        raise MalformedPacket(f"packets of {total_of(lengths)} bytes in {len(data)} bytes")
    runs: list[ArrivedRun] = []
    view = memoryview(data)
    shape = last.shape if last is not None else None
    start, index, count = 0, 0, len(lengths)
    while index < count:
        first = shape.read(view, start, lengths[index]) if shape is not None else None
        if shape is None or first is None:
            parts = headers(view[start : start + lengths[index]])
            shape, first = _Shape(parts, view, start), _fields(parts)
        run = shape.run(first, view, start, lengths[index:])
        runs.append(run)
        start += len(run.packets.data)
        index += len(run.message_numbers)
    if last is not None and shape is not None and shape.lasts:
        last.shape = shape
    return runs


_Fields = tuple[int, int, int, int, int]
"""The differences of packets of one shape: sent time, message number, stream, number, previous."""


def _fields(parts: PacketHeaders) -> _Fields:
    user, tx = parts.user, parts.transaction
    if tx is None:
        return user.sent_time, user.message, 0, 0, 0
    if not tx.number:
        raise MalformedPacket(
            f"TxSequenceNumber 0, at byte {parts.offsets[0] + at.TX_NUMBER} of message "
            f"{user.message}"
        )
    return user.sent_time, user.message, tx.stream, tx.number, tx.previous


class _Shape:
    """The headers of a checked packet, to compare others with.

    Equal bytes are: BaseHeader and UserHeader without packet size, sent time and message number,
    names, ConnectorQMGuid and SecurityHeader, flags, class and correlation of the properties,
    label; and the MultiQueueFormatHeader behind the body. Of the TransactionHeader stream, number,
    previous and the flags FM, LM and ID may differ, of the properties body type, application tag,
    algorithms and sizes.
    """

    __slots__ = (
        "alone", "asks", "body", "due", "form", "label_end", "lasts", "multi", "same", "terms",
        "tx", "who",
    )  # fmt: skip

    def __init__(self, parts: PacketHeaders, view: memoryview, start: int) -> None:
        base, user, props = parts.base, parts.user, parts.properties
        tx, properties = parts.offsets
        self.tx = parts.transaction is not None
        self.label_end = properties + at.PROPERTIES_HEADER + 2 * props.label_chars
        names_end = tx or properties
        after_tx = tx + at.TX_HEADER if tx else properties
        self.form = struct.Struct(
            f"<8sI40sII{names_end - at.OFF_USER_FLAGS}s{'IQII' if tx else ''}"
            f"{properties - after_tx}s24s8xII12xI{2 * props.label_chars}s"
        )
        # Packets that are traced or came over SOAP, and bytes behind the headers, are rare: such
        # a packet is its own run. Packets to many destinations are not rare.
        self.alone = bool(
            parts.debug or parts.soap or parts.trailing or parts.encrypted
            or props.body_allocated != len(props.body)
        )  # fmt: skip
        self.multi = parts.multi
        # The size of its body says which acknowledgment between managers it is.
        self.due = due_of(props.extension[-DELAY_BYTES:])
        self.body = len(props.body) if is_order_queue(user.destination) else -1
        # With the next read, too, unless its body says what it is.
        self.lasts = not self.alone and self.body < 0
        self.asks = 0
        self.same: tuple[bytes, ...] = ()
        if not self.alone:
            lead, _, upper, _, _, lower, *rest = self.form.unpack_from(view, start)
            if tx:
                self.asks = rest[0] & _TX_ASKS
                rest = rest[4:]
            middle, fixed, _, _, _, label = rest
            self.same = (lead, upper, lower, middle, fixed, label)
        self.who = (
            user.source, user.destination_manager, user.destination, self.tx,
            bool(user.flags & at.USER_RECOVERABLE), base.flags & at.BASE_PRIORITY_MASK,
        )  # fmt: skip
        trace: bytes | None = None
        if base.flags & at.BASE_TRACE and not props.message_class:
            trace = parts.debug.queue if parts.debug is not None else b""
        tx_flags = parts.transaction.flags if parts.transaction is not None else 0
        wants = 1 if user.flags & _USER_ASKS or tx_flags & at.TX_FINAL_ACK else 0
        self.terms = (
            wants, base.time_to_reach_queue, user.time_to_be_received, _kind(parts),
            props.flags & 0x0F if user.admin.kind else 0, parts.encrypted, trace,
            bool(user.flags & at.USER_DEADLETTER),
        )  # fmt: skip

    def read(self, view: memoryview, start: int, size: int) -> _Fields | None:
        """Return the fields of the packet at ``start`` if it is well-formed like the packet of this
        shape; else None."""
        if self.alone or size < self.form.size:
            return None
        stream = number = previous = 0
        if self.tx:
            (
                lead, declared, upper, sent, message, lower, flags, stream, number, previous,
                middle, fixed, body, allocated, extension, label,
            ) = self.form.unpack_from(view, start)  # fmt: skip
            if flags & _TX_ASKS != self.asks or not number:
                return None
        else:
            (
                lead, declared, upper, sent, message, lower, middle, fixed, body, allocated,
                extension, label,
            ) = self.form.unpack_from(view, start)  # fmt: skip
        if (
            declared != size
            or body != allocated
            or 0 <= self.body != body
            or ((extension or self.due) and self._due(view, start, extension) != self.due)
            or (behind := self.label_end + extension + body + 3 & ~3) + len(self.multi) != size
            or (lead, upper, lower, middle, fixed, label) != self.same
            or (self.multi and view[start + behind : start + size] != self.multi)
        ):
            return None
        return sent, message, stream, number, previous

    def _due(self, view: memoryview, start: int, extension: int) -> int:
        """Return when a packet is due whose label has the length of this shape's; 0: at once."""
        end = start + self.label_end + extension
        return due_of(bytes(view[max(end - DELAY_BYTES, end - extension) : end]))

    def run(self, first: _Fields, view: memoryview, start: int, lengths: array[int]) -> ArrivedRun:
        """Return the run that begins with a packet of this shape, as far as the next continue it.

        Args:
            first: The fields of that packet.
            lengths: Sizes of it, and of those behind it.
        """
        sent, message, stream, number, first_previous = first
        first_number = number
        numbers = array("I", (message,))
        end = start + lengths[0]
        for size in lengths[1:]:
            found = self.read(view, end, size)
            if found is None:
                break
            then, message, this, own, previous = found
            if then != sent:
                break
            if self.tx:
                if this != stream or previous != number or own != number + 1:
                    break
                number = own
            numbers.append(message)
            end += size
        wants, reach, receive, kind, acknowledge, encrypted, trace, dead_letter = self.terms
        return ArrivedRun(
            Run(view[start:end], lengths[: len(numbers)]), *self.who, stream, first_number,
            first_previous, numbers, wants, reach, receive, sent, kind, acknowledge, encrypted,
            trace, dead_letter, due=self.due,
        )  # fmt: skip


def _kind(parts: PacketHeaders) -> int:
    acked = ack_class(parts)
    if acked:
        return ORDER_ACK if acked == MessageClass.ORDER_ACK else FINAL_ACK
    return SETTLING if is_settling(parts) else USER


# ---- batch ---------------------------------------------------------------------------------------


_NONE_BEFORE: Final = (0, "")
"""Of a message whose receive has never failed before."""


class Batch(Sequence[Message]):
    """Messages that were received or peeked together; each is decoded when it is read.

    A queue manager hands out, a connection carries, and an application gets the same object:
    packets as one piece of memory, and tables with a number for each of them.

    Attributes:
        lookup_ids: Lookup identifier of each message.
        run: Their packets, for forwarding.
        scanned: Of a search: the lookup identifier that it has reached; else 0.
    """

    __slots__ = (
        "_aborts", "_arrived", "_moves", "_starts", "failures", "lookup_ids", "notes", "run",
        "scanned",
    )  # fmt: skip

    def __init__(
        self,
        run: Run,
        lookups: array[int],
        arrived: array[int],
        aborts: array[int],
        moves: Iterable[tuple[int, int, int]] = (),
        scanned: int = 0,
        notes: Iterable[tuple[int, int]] = (),
        failures: Iterable[tuple[int, int, str]] = (),
    ) -> None:
        self.run = run
        self.lookup_ids = lookups
        self._arrived = arrived
        self._aborts = aborts
        self._moves = {index: (count, at_s) for index, count, at_s in moves} if moves else {}
        self.scanned = scanned
        self.notes = dict(notes)
        """By index: what is known of a dead letter beside its class (``Message.note``)."""
        self.failures = {index: (times, why) for index, times, why in failures} if failures else {}
        """By index: how many receives of a message failed at places that it had before, and the
        reason that the last receiver gave (``Message.attempts``, ``Message.failure``)."""
        self._starts: list[int] = []

    def __getstate__(self) -> object:
        """Copy the bytes: an embedded manager's are in the memory of its log."""
        values, slots = cast(tuple[Any, dict[str, Any]], super().__getstate__())
        return values, slots | {"run": Run(bytes(self.run.data), self.run.lengths)}

    def __len__(self) -> int:
        return len(self.run.lengths)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        lengths = self.run.lengths
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(lengths)))]
        if index < 0:
            index += len(lengths)
        if not 0 <= index < len(lengths):
            raise IndexError(index)
        if not self._starts:
            # One assignment: a second thread sees all of it, or nothing (finding K12).
            self._starts = [0, *accumulate(lengths)]
        start = self._starts[index]
        packet = memoryview(self.run.data)[start : start + lengths[index]]
        times, why = self.failures.get(index, _NONE_BEFORE)
        return message_of(
            headers(packet),
            arrived_time=self._arrived[index],
            lookup_id=self.lookup_ids[index],
            abort_count=self._aborts[index],
            moves=self._moves.get(index, (0, 0)),
            note=self.notes.get(index, 0),
            attempts=times + self._aborts[index],
            failure=why,
        )

    def __iter__(self) -> Iterator[Message]:
        return map(self.__getitem__, range(len(self.run.lengths)))

    @property
    def arrived_times(self) -> array[int]:
        """Return the seconds since 1970 UTC at which each message entered the queue."""
        return self._arrived

    @property
    def abort_counts(self) -> array[int]:
        """Return how often a transaction that received each was aborted."""
        return self._aborts

    @property
    def moves(self) -> list[tuple[int, int, int]]:
        """Return (index, how often, second of the last) of those moved between subqueues."""
        return [(index, *moved) for index, moved in self._moves.items()]

    def bodies(self) -> list[bytes]:
        """Return all bodies without decoding anything else: the fast way through a large batch."""
        return bodies(self.run)

    def over(self, run: Run) -> Batch:
        """Return the same messages with other packets, one for each."""
        return Batch(
            run, self.lookup_ids, self._arrived, self._aborts, self.moves, self.scanned,
            self.notes.items(), [(i, *failure) for i, failure in self.failures.items()],
        )  # fmt: skip

    def part(self, first: int, count: int) -> Batch:
        """Return ``count`` of the messages from index ``first`` on, without copying them."""
        end = first + count
        return Batch(
            self.run.part(first, count),
            self.lookup_ids[first:end],
            self._arrived[first:end],
            self._aborts[first:end],
            [(i - first, *moved) for i, moved in self._moves.items() if first <= i < end],
            notes=[(i - first, note) for i, note in self.notes.items() if first <= i < end],
            failures=[(i - first, *one) for i, one in self.failures.items() if first <= i < end],
        )

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} messages>"
