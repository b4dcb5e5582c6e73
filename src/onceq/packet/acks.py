"""Order acknowledgments and final acknowledgments: packets between queue managers.

Their forms are those of MS-MQQB 2.2.4 and 2.2.5.

Both are user messages to the sender's order queue with a body of 36 bytes. An order
acknowledgment is express and may be lost (EOD-36, U6); a final one is recoverable (X-21).

Also here:

* Packets that only onceq managers exchange: what became of messages in doubt (CNF-22).

Upholds: I9 as far as bytes go (stream and number are where they were given), I24 (entries are
counted before they are read).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Final

from onceq.errors import MalformedPacket
from onceq.model.identity import NO_GUID
from onceq.model.limits import INQUIRY_STREAMS_MAX, PASSED_RANGES_MAX
from onceq.model.message import Delivery, Properties
from onceq.model.record import Record
from onceq.model.resultcodes import MessageClass
from onceq.model.run import LENGTH_TYPE, Buffer, Run
from onceq.packet.address import DIRECT, NOWHERE, ON_DESTINATION, PUBLIC, Address
from onceq.packet.encode import Template, encode_run, template
from onceq.packet.headers import PacketHeaders, headers

# ---- acks ----------------------------------------------------------------------------------------


LABEL: Final = "QM Ordering Ack"
ORDER_QUEUE: Final = "PRIVATE$\\order_queue$"
ORDER_QUEUE_NUMBER: Final = 4
BODY_BYTES: Final = 36
_ORDER_BODY = struct.Struct("<QII4sII8x")
HOLE_MARK: Final = b"HOLE"
"""In reserved bytes of an order acknowledgment, if both ends of the session understand the
extension: the first and the last number that its receiver lacks follow; zeros if none is known to
be missing."""
UNMARKED: Final = bytes(4)
_FINAL_BODY = struct.Struct("<QII16sI")


class OrderAck(Record, frozen=True):
    """Everything of ``stream`` up to ``number`` is accepted and durable at ``acker``.

    Attributes:
        tells_holes: Whether the mark is in the bytes that others may use differently; it counts
            only on a session whose ends understand the extension.
        first_missing, last_missing: Numbers of the first hole behind ``number``; zeros: none.
    """

    acker: bytes
    stream: int
    number: int
    tells_holes: bool = False
    first_missing: int = 0
    last_missing: int = 0


class FinalAck(Record, frozen=True):
    """How one message ended at ``acker``."""

    acker: bytes
    message_class: int
    stream: int
    number: int
    previous: int
    source: bytes
    message: int


def order_ack(
    *,
    own: bytes,
    own_message: int,
    sent_time: int,
    address: str,
    destination_manager: bytes,
    stream: int,
    number: int,
    queue: str = "",
    hole: tuple[int, int] | None = None,
) -> bytes:
    """Return the packet of an order acknowledgment (MS-MQQB 2.2.4).

    Args:
        own: GUID of the acknowledging manager.
        own_message: Message number of its own.
        sent_time: Seconds since 1970 UTC.
        address: IP address of the session's peer, if the acknowledged messages had a direct
            destination; else "" and ``destination_manager`` is the peer's GUID.
        number: The highest one accepted in order; 0 only to say that the beginning is missing.
        queue: URL of the destination queue, for a receipt over HTTP; else "".
        hole: First and last number that are missing, zeros if none is; None for a peer that does
            not understand the extension.
    """
    assert number > 0 or hole, "nothing was accepted yet, so there is nothing to acknowledge"
    mark = UNMARKED if hole is None else HOLE_MARK
    body = _ORDER_BODY.pack(stream, number, max(number - 1, 0), mark, *(hole or (0, 0)))
    return packed(own, own_message, sent_time, address, destination_manager,
                  MessageClass.ORDER_ACK, Delivery.EXPRESS, body, queue=queue)  # fmt: skip


def final_ack(
    *,
    own: bytes,
    own_message: int,
    sent_time: int,
    destination_manager: bytes,
    message_class: int,
    stream: int,
    number: int,
    previous: int,
    source: bytes,
    message: int,
    address: str = "",
    queue: str = "",
) -> bytes:
    """Return the packet of a final acknowledgment (MS-MQQB 2.2.5).

    Args:
        message_class: ACK_RECEIVE or the reason why it was not received.
        stream, number, previous, source, message: Of the message whose end it reports.
        own, own_message, sent_time, address, destination_manager, queue: As for ``order_ack``.
    """
    assert message_class >= MessageClass.ACK_RECEIVE, "not the class of a final acknowledgment"
    body = _FINAL_BODY.pack(stream, number, previous, source, message)
    return packed(own, own_message, sent_time, address, destination_manager, message_class,
                  Delivery.RECOVERABLE, body, queue=queue)  # fmt: skip


def final_acks(
    messages: Sequence[int],
    *,
    own: bytes,
    own_message: int,
    sent_time: int,
    destination_manager: bytes,
    message_class: int,
    stream: int,
    number: int,
    source: bytes,
    address: str = "",
    queue: str = "",
) -> Run:
    """Return final acknowledgments of consecutive messages of a stream, as one run.

    Args:
        messages: Their message numbers, in the order of the stream.
        number: Sequence number of the first.
        own_message: Message number of the first acknowledgment; the others follow.
        queue: As for ``order_ack``.
    """
    assert message_class >= MessageClass.ACK_RECEIVE, "not the class of a final acknowledgment"
    pack = _FINAL_BODY.pack
    bodies = [
        pack(stream, at, at - 1, source, message) for at, message in enumerate(messages, number)
    ]
    made = _headers(own, sent_time, address, destination_manager, message_class,
                    Delivery.RECOVERABLE, queue)  # fmt: skip
    return encode_run(made, Run.of(bodies), first_message=own_message)


def packed(
    own: bytes, message: int, sent_time: int, address: str, manager: bytes, message_class: int,
    delivery: Delivery, body: bytes, *, queue: str = "",
) -> bytes:  # fmt: skip
    """Return a packet for the order queue of another manager."""
    made = _headers(own, sent_time, address, manager, message_class, delivery, queue)
    run = encode_run(made, Run(body, array(LENGTH_TYPE, (len(body),))), first_message=message)
    return bytes(run.data)


def _headers(
    own: bytes, sent_time: int, address: str, manager: bytes, message_class: int,
    delivery: Delivery, queue: str,
) -> Template:  # fmt: skip
    if address:
        destination, manager = Address(DIRECT, direct=f"TCP:{address}\\{ORDER_QUEUE}"), NO_GUID
    else:
        destination = Address(ON_DESTINATION, number=ORDER_QUEUE_NUMBER)
    return template(
        source=own,
        destination=destination,
        destination_manager=manager,
        response=Address(DIRECT, direct=queue) if queue else NOWHERE,
        properties=Properties(label=LABEL, priority=0, delivery=delivery),
        sent_time=sent_time,
        transactional=False,
        message_class=message_class,
    )


def is_order_queue(destination: Address) -> bool:
    """Return whether a name means the queue for acknowledgments between managers (EOD-35)."""
    if destination.kind == DIRECT:
        return destination.direct.partition("\\")[2].casefold() == ORDER_QUEUE.casefold()
    return destination.kind == ON_DESTINATION and destination.number == ORDER_QUEUE_NUMBER


def ack_class(parts: PacketHeaders) -> int:
    """Return the class of an order or final acknowledgment; 0 if the packet is neither.

    Queue, class and size decide; the label and the base flags do not count.
    """
    if len(parts.properties.body) != BODY_BYTES or parts.transaction is not None:
        return 0
    message_class = parts.properties.message_class
    if message_class != MessageClass.ORDER_ACK and message_class < MessageClass.ACK_RECEIVE:
        return 0
    return message_class if is_order_queue(parts.user.destination) else 0


def parse_order_ack(packet: Buffer) -> OrderAck:
    """Read an order acknowledgment; raises MalformedPacket if it is not one."""
    parts = headers(packet)
    if ack_class(parts) != MessageClass.ORDER_ACK:
        raise MalformedPacket(f"message {parts.user.message} is not an order acknowledgment")
    stream, number, _, mark, first, last = _ORDER_BODY.unpack(parts.properties.body)
    if mark != HOLE_MARK:
        return OrderAck(parts.user.source, stream, number)
    return OrderAck(parts.user.source, stream, number, True, first, last)


def parse_final_ack(packet: Buffer) -> FinalAck:
    """Read a final acknowledgment; raises MalformedPacket if it is not one."""
    parts = headers(packet)
    message_class = ack_class(parts)
    if message_class < MessageClass.ACK_RECEIVE:
        raise MalformedPacket(f"message {parts.user.message} is not a final acknowledgment")
    stream, number, previous, source, message = _FINAL_BODY.unpack(parts.properties.body)
    return FinalAck(parts.user.source, message_class, stream, number, previous, source, message)


# ---- settle --------------------------------------------------------------------------------------


MAGIC: Final = b"OQX1"
INQUIRY, SETTLEMENT, TWO_LIVES = 1, 2, 3
_HEAD = struct.Struct("<4sBBHIH")
_ASKED = struct.Struct("<QI")
_TOLD = struct.Struct("<QIIBH")
_RANGE = struct.Struct("<II")
TURNED_AWAY = 5
_TURNED = struct.Struct("<QQB")
_LIFE = struct.Struct("<16sI")
ENDS_ASKED, ENDS_OPEN = 6, 7
_ENDS = struct.Struct("<QII")
_COUNT = struct.Struct("<H")


class Inquiry(Record, frozen=True):
    """The question which messages of these streams were accepted.

    A sender asks (``Inquiry``) about streams in which messages expired after they were transmitted;
    the receiver answers (``Settlement``) with the numbers that it passed over. A manager that meets
    two processes with one identity notifies both (``TwoLives``). A sender that waits for reports on
    acknowledged messages asks which of them will get one (``EndsAsked``, ``EndsOpen``). All are
    express user packets to the order queue, class ORDER_ACK, whose body begins with MAGIC and never
    has the 36 bytes of an order acknowledgment. They are sent only on sessions on which both sides
    have announced that they understand them, so other managers never see one. Described in
    ``docs/reference/formats/mqqb.md``.

    Attributes:
        destination: The queue, as the packets of the streams name it.
        streams: (stream, live from): nothing before that number will ever be sent again.
    """

    destination: Address
    streams: tuple[tuple[int, int], ...]


class StreamMemory(Record, frozen=True):
    """What a receiver knows of one stream.

    Numbers from ``since`` to ``last`` were accepted, except those in ``passed``, which never will
    be; if the stream is ``closed`` nothing behind ``last`` will be, either.
    """

    stream: int
    since: int
    last: int
    closed: bool
    passed: tuple[tuple[int, int], ...] = ()

    def arrived(self, number: int) -> bool | None:
        """Return whether a message was accepted; None: this receiver does not know."""
        if number < self.since:
            return None
        if number > self.last:
            return False if self.closed else None
        return not any(first <= number <= last for first, last in self.passed)


class TurnedAway(Record, frozen=True):
    """Messages of a stream are turned away, and will be when they come again.

    Attributes:
        stream: The stream of the messages.
        there: The stream that the receiver is in.
        reason: ``STALE``, ``FUTURE`` or ``NO_ROOM``; a later receiver may have others.
    """

    stream: int
    there: int
    reason: int


STALE, FUTURE, NO_ROOM = 1, 2, 3


class TwoLives(Record, frozen=True):
    """Another process with your identity was met: its life, and the stamp of that."""

    life: bytes
    stamp: int


class EndsAsked(Record, frozen=True):
    """The question which of these acknowledged messages will get a report of their end.

    Attributes:
        streams: (stream, first number, last number).
    """

    streams: tuple[tuple[int, int, int], ...]


class StillOpen(Record, frozen=True):
    """Of the messages of one stream from ``first`` to ``last`` only those in ``open`` (ranges, both
    ends included) are still here and will get a report; ``memory`` says what else is known."""

    first: int
    last: int
    memory: StreamMemory
    open: tuple[tuple[int, int], ...]


class EndsOpen(Record, frozen=True):
    """The answer: which messages will get a report of their end."""

    streams: tuple[StillOpen, ...]


Settling = Inquiry | list[StreamMemory] | TurnedAway | TwoLives | EndsAsked | EndsOpen


def is_settling(parts: PacketHeaders) -> bool:
    """Return whether a packet is one of these."""
    body = parts.properties.body
    return (
        parts.properties.message_class == MessageClass.ORDER_ACK
        and parts.transaction is None
        and len(body) != BODY_BYTES
        and bytes(body[:4]) == MAGIC
        and is_order_queue(parts.user.destination)
    )


def _packet(own: bytes, message: int, sent_time: int, manager: bytes, body: bytes) -> bytes:
    # One more byte: a body of this size would be taken for an order acknowledgment.
    if len(body) == BODY_BYTES:
        body += b"\0"
    return packed(own, message, sent_time, "", manager, MessageClass.ORDER_ACK,
                  Delivery.EXPRESS, body)  # fmt: skip


def inquiry(
    asked: Inquiry, *, own: bytes, own_message: int, sent_time: int, destination_manager: bytes
) -> bytes:
    """Return the packet of an inquiry."""
    to = asked.destination
    name = to.guid if to.kind == PUBLIC else to.direct.encode()
    body = _HEAD.pack(
        MAGIC, INQUIRY, to.kind, len(asked.streams), to.number, len(name),
    )  # fmt: skip
    body += b"".join(_ASKED.pack(*entry) for entry in asked.streams) + name
    return _packet(own, own_message, sent_time, destination_manager, body)


def settlement(
    told: list[StreamMemory],
    *,
    own: bytes,
    own_message: int,
    sent_time: int,
    destination_manager: bytes,
) -> bytes:
    """Return the packet of a settlement."""
    body = _HEAD.pack(MAGIC, SETTLEMENT, 0, len(told), 0, 0)
    body += b"".join(map(_memory, told))
    return _packet(own, own_message, sent_time, destination_manager, body)


def _memory(m: StreamMemory) -> bytes:
    told = _TOLD.pack(m.stream, m.since, m.last, m.closed, len(m.passed))
    return told + b"".join(_RANGE.pack(*part) for part in m.passed)


def ends_asked(
    asked: EndsAsked, *, own: bytes, own_message: int, sent_time: int, destination_manager: bytes
) -> bytes:
    """Return the packet that asks which messages will get a report of their end."""
    body = _HEAD.pack(MAGIC, ENDS_ASKED, 0, len(asked.streams), 0, 0)
    body += b"".join(_ENDS.pack(*entry) for entry in asked.streams)
    return _packet(own, own_message, sent_time, destination_manager, body)


def ends_open(
    told: EndsOpen, *, own: bytes, own_message: int, sent_time: int, destination_manager: bytes
) -> bytes:
    """Return the packet that answers that question."""
    body = _HEAD.pack(MAGIC, ENDS_OPEN, 0, len(told.streams), 0, 0)
    for one in told.streams:
        body += _ENDS.pack(one.memory.stream, one.first, one.last) + _memory(one.memory)
        body += _COUNT.pack(len(one.open)) + b"".join(_RANGE.pack(*part) for part in one.open)
    return _packet(own, own_message, sent_time, destination_manager, body)


def turned_away(
    said: TurnedAway, *, own: bytes, own_message: int, sent_time: int, destination_manager: bytes
) -> bytes:
    """Return the packet that informs a sender that its messages are turned away."""
    body = _HEAD.pack(MAGIC, TURNED_AWAY, 0, 1, 0, 0)
    body += _TURNED.pack(said.stream, said.there, said.reason)
    return _packet(own, own_message, sent_time, destination_manager, body)


def two_lives(
    said: TwoLives, *, own: bytes, own_message: int, sent_time: int, destination_manager: bytes
) -> bytes:
    """Return the packet that reports another life."""
    body = _HEAD.pack(MAGIC, TWO_LIVES, 0, 1, 0, 0) + _LIFE.pack(said.life, said.stamp)
    return _packet(own, own_message, sent_time, destination_manager, body)


def parse_settling(packet: Buffer) -> Settling:
    """Read one of these packets; raises MalformedPacket."""
    parts = headers(packet)
    try:
        return _parse(bytes(parts.properties.body))
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise MalformedPacket(f"message {parts.user.message} settles nothing: {error}") from None


def _parse(body: bytes) -> Settling:
    _, what, kind, count, number, size = _HEAD.unpack_from(body)
    at = _HEAD.size
    # Before anything is made of it: the number comes from outside.
    if count > INQUIRY_STREAMS_MAX:
        raise ValueError(f"{count} streams")
    if what == INQUIRY:
        asked = tuple(_ASKED.unpack_from(body, at + k * _ASKED.size) for k in range(count))
        at += count * _ASKED.size
        name = body[at : at + size]
        if kind == PUBLIC and len(name) == len(NO_GUID):
            queue = Address(PUBLIC, guid=name)
        elif kind == ON_DESTINATION:
            queue = Address(ON_DESTINATION, number=number)
        elif kind == DIRECT:
            queue = Address(DIRECT, direct=name.decode())
        else:
            raise ValueError(f"a destination of type {kind} with a name of {len(name)} bytes")
        return Inquiry(queue, asked)
    if what == TURNED_AWAY:
        return TurnedAway(*_TURNED.unpack_from(body, at))
    if what == TWO_LIVES:
        return TwoLives(*_LIFE.unpack_from(body, at))
    if what == ENDS_ASKED:
        return EndsAsked(
            tuple(_ENDS.unpack_from(body, at + k * _ENDS.size) for k in range(count))
        )  # fmt: skip
    if what == ENDS_OPEN:
        found = []
        for _ in range(count):
            stream, first, last = _ENDS.unpack_from(body, at)
            memory, at = _parse_memory(body, at + _ENDS.size)
            if memory.stream != stream:
                raise ValueError(f"two streams {stream:#x} and {memory.stream:#x}")
            (ranges,) = _COUNT.unpack_from(body, at)
            still, at = _parse_ranges(body, at + _COUNT.size, ranges)
            found.append(StillOpen(first, last, memory, still))
        return EndsOpen(tuple(found))
    if what != SETTLEMENT:
        raise ValueError(f"kind {what}")
    told = []
    for _ in range(count):
        memory, at = _parse_memory(body, at)
        told.append(memory)
    return told


def _parse_memory(body: bytes, at: int) -> tuple[StreamMemory, int]:
    """Return what is known of one stream, and where it ends."""
    stream, since, last, closed, ranges = _TOLD.unpack_from(body, at)
    passed, at = _parse_ranges(body, at + _TOLD.size, ranges)
    return StreamMemory(stream, since, last, bool(closed), passed), at


def _parse_ranges(body: bytes, at: int, count: int) -> tuple[tuple[tuple[int, int], ...], int]:
    if count > PASSED_RANGES_MAX:
        raise ValueError(f"{count} ranges")
    ranges = tuple(_RANGE.unpack_from(body, at + k * _RANGE.size) for k in range(count))
    return ranges, at + count * _RANGE.size
