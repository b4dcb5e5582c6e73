"""Packets that only onceq managers exchange: what became of messages in doubt (product D6).

A sender asks (``Inquiry``) about streams in which messages expired after they were transmitted; the
receiver answers (``Settlement``) with the numbers that it passed over. And a manager that meets two
processes with one identity tells both (``TwoLives``). All are express user
packets to the order queue, class ORDER_ACK, whose body begins with MAGIC and never has the 36 bytes
of an order acknowledgment. They are sent on sessions only on which both sides have said that they
understand them, so other managers never see one. Described in ``docs/reference/formats/mqqb.md``.

Upholds: I24 (entries are counted before they are read).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from onceq.errors import MalformedPacket
from onceq.model.classes import MessageClass
from onceq.model.limits import INQUIRY_STREAMS_MAX, PASSED_RANGES_MAX
from onceq.model.message import Delivery
from onceq.model.run import Buffer
from onceq.packet.acks import BODY_BYTES, is_order_queue, packed
from onceq.packet.address import Address
from onceq.packet.headers import PacketHeaders, headers

MAGIC: Final = b"OQX1"
INQUIRY, SETTLEMENT, TWO_LIVES = 1, 2, 3
_HEAD = struct.Struct("<4sBBHIH")
_ASKED = struct.Struct("<QI")
_TOLD = struct.Struct("<QIIBH")
_RANGE = struct.Struct("<II")
TURNED_AWAY = 5
_TURNED = struct.Struct("<QQB")
_LIFE = struct.Struct("<16sI")


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Which messages of these streams were accepted?

    Attributes:
        destination: The queue, as it stands in the packets of the streams.
        streams: (stream, live from): nothing before that number will ever be sent again.
    """

    destination: Address
    streams: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """What a receiver knows of one stream.

    Numbers from ``since`` to ``last`` were accepted, but for those in ``passed``, which never
    will be; if the stream is ``closed`` nothing behind ``last`` will be either.
    """

    stream: int
    since: int
    last: int
    closed: bool
    passed: tuple[tuple[int, int], ...] = ()

    def arrived(self, number: int) -> bool | None:
        """Whether a message was accepted; None: this receiver cannot tell."""
        if number < self.since:
            return None
        if number > self.last:
            return False if self.closed else None
        return not any(first <= number <= last for first, last in self.passed)


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """Messages of a stream are turned away, and will be when they come again.

    Attributes:
        stream: Of the messages.
        there: The stream that the receiver is in.
        reason: ``STALE``, ``FUTURE`` or ``NO_ROOM``; a receiver to come may have others.
    """

    stream: int
    there: int
    reason: int


STALE, FUTURE, NO_ROOM = 1, 2, 3


@dataclass(frozen=True, slots=True)
class TwoLives:
    """Another process with your identity was met: its life, and the stamp of that."""

    life: bytes
    stamp: int


def is_settling(parts: PacketHeaders) -> bool:
    """Whether a packet is one of these two."""
    body = parts.properties.body
    return (
        parts.properties.message_class == MessageClass.ORDER_ACK
        and parts.transaction is None
        and len(body) != BODY_BYTES
        and bytes(body[:4]) == MAGIC
        and is_order_queue(parts.user.destination)
    )


def _packet(own: bytes, message: int, sent_time: int, manager: bytes, body: bytes) -> bytes:
    if len(body) == BODY_BYTES:
        body += b"\0"
    return packed(own, message, sent_time, "", manager, MessageClass.ORDER_ACK,
                  Delivery.EXPRESS, body)  # fmt: skip


def inquiry(
    asked: Inquiry, *, own: bytes, own_message: int, sent_time: int, destination_manager: bytes
) -> bytes:
    """The packet of an inquiry."""
    name = asked.destination.direct.encode()
    body = _HEAD.pack(
        MAGIC, INQUIRY, asked.destination.kind, len(asked.streams), asked.destination.number,
        len(name),
    )  # fmt: skip
    body += b"".join(_ASKED.pack(*entry) for entry in asked.streams) + name
    return _packet(own, own_message, sent_time, destination_manager, body)


def settlement(
    told: list[Memory], *, own: bytes, own_message: int, sent_time: int, destination_manager: bytes
) -> bytes:
    """The packet of a settlement."""
    body = _HEAD.pack(MAGIC, SETTLEMENT, 0, len(told), 0, 0)
    for m in told:
        body += _TOLD.pack(m.stream, m.since, m.last, m.closed, len(m.passed))
        body += b"".join(_RANGE.pack(*part) for part in m.passed)
    return _packet(own, own_message, sent_time, destination_manager, body)


def turned_away(
    said: TurnedAway, *, own: bytes, own_message: int, sent_time: int, destination_manager: bytes
) -> bytes:
    """The packet that tells a sender that its messages are turned away."""
    body = _HEAD.pack(MAGIC, TURNED_AWAY, 0, 1, 0, 0)
    body += _TURNED.pack(said.stream, said.there, said.reason)
    return _packet(own, own_message, sent_time, destination_manager, body)


def two_lives(
    said: TwoLives, *, own: bytes, own_message: int, sent_time: int, destination_manager: bytes
) -> bytes:
    """The packet that tells of another life."""
    body = _HEAD.pack(MAGIC, TWO_LIVES, 0, 1, 0, 0) + _LIFE.pack(said.life, said.stamp)
    return _packet(own, own_message, sent_time, destination_manager, body)


def parse_settling(packet: Buffer) -> Inquiry | list[Memory] | TurnedAway | TwoLives:
    """Read one of these packets; raises MalformedPacket."""
    parts = headers(packet)
    try:
        return _parse(bytes(parts.properties.body))
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise MalformedPacket(f"message {parts.user.message} settles nothing: {error}") from None


def _parse(body: bytes) -> Inquiry | list[Memory] | TurnedAway | TwoLives:
    _, what, kind, count, number, size = _HEAD.unpack_from(body)
    at = _HEAD.size
    if count > INQUIRY_STREAMS_MAX:
        raise ValueError(f"{count} streams")
    if what == INQUIRY:
        asked = tuple(_ASKED.unpack_from(body, at + k * _ASKED.size) for k in range(count))
        at += count * _ASKED.size
        name = body[at : at + size].decode()
        return Inquiry(Address(kind, number=number, direct=name), asked)
    if what == TURNED_AWAY:
        return TurnedAway(*_TURNED.unpack_from(body, at))
    if what == TWO_LIVES:
        return TwoLives(*_LIFE.unpack_from(body, at))
    if what != SETTLEMENT:
        raise ValueError(f"kind {what}")
    told = []
    for _ in range(count):
        stream, since, last, closed, ranges = _TOLD.unpack_from(body, at)
        at += _TOLD.size
        if ranges > PASSED_RANGES_MAX:
            raise ValueError(f"{ranges} ranges")
        passed = tuple(_RANGE.unpack_from(body, at + k * _RANGE.size) for k in range(ranges))
        at += ranges * _RANGE.size
        told.append(Memory(stream, since, last, bool(closed), passed))
    return told
