"""Short names for what a trace shows: messages m1, m2, streams S1, S2, managers by their names.

Numbers of messages and streams begin at random in each life of a manager; names that are given in
the order in which they are first seen are the same in every run, and a reader can follow them.
"""

from __future__ import annotations

import re

from onceq.model.identity import guid_text
from onceq.model.resultcodes import MessageClass, class_name
from onceq.model.run import Buffer
from onceq.packet.acks import BODY_BYTES as ACK_BYTES
from onceq.packet.acks import (
    EndsAsked,
    EndsOpen,
    Inquiry,
    StreamMemory,
    TurnedAway,
    TwoLives,
    is_order_queue,
    is_settling,
    parse_final_ack,
    parse_order_ack,
    parse_settling,
)
from onceq.packet.headers import PacketHeaders, headers
from tests.unit.core.alone import WALL_S

_DIRECT = re.compile(r"DIRECT=OS:([\w']+)\\(?:private\$\\)?", re.IGNORECASE)
_HTTP = re.compile(r"(?:DIRECT=)?HTTP://(\w+)/msmq/private\$/", re.IGNORECASE)
_PRIVATE = re.compile(r"\b(?:private\$|system\$;)[\\]?", re.IGNORECASE)
_LONG = re.compile(r"\b\d{15,}\b")
_SECOND = re.compile(r"\b17000\d{5}\b")
_BRANCH = re.compile(r"\b1:(\w+):onceq\b")
_GROUPED = re.compile(r"\b\d+:onceq-[\w']+-([0-9a-f]{12})[\w-]{12,13}:group\.(\w+)")
SHOWN_BYTES = 32
"""Of a body; what is longer is cut, and its size said."""


class Names:
    """Names given so far."""

    def __init__(self) -> None:
        self.managers: dict[bytes, str] = {}
        self._messages: dict[tuple[bytes, int], str] = {}
        self._streams: dict[int, str] = {}
        self.addresses: dict[str, str] = {}

    def manager(self, guid: bytes) -> str:
        """The name of a manager."""
        return self.managers.get(bytes(guid), "nobody") if any(guid) else ""

    def message(self, source: bytes, number: int) -> str:
        """The name of a message: its source and number are its identifier."""
        known = self._messages
        return known.setdefault((bytes(source), number), f"m{len(known) + 1}")

    def stream(self, stream: int) -> str:
        """The name of a stream."""
        known = self._streams
        return known.setdefault(stream, f"S{len(known) + 1}") if stream else "no stream"

    def stream_called(self, name: str) -> int:
        """The identifier of a stream that has that name."""
        return next(stream for stream, known in self._streams.items() if known == name)

    def place(self, stream: int, number: int) -> str:
        """Stream and number, as in ``S1/3``."""
        return f"{self.stream(stream)}/{number}" if stream else ""

    def short(self, text: str) -> str:
        """A line with short names for queues, managers and streams."""
        for guid, name in self.managers.items():
            for long in (guid_text(guid), guid.hex()):
                text = text.replace(long, name).replace(long.upper(), name)
        for address, name in self.addresses.items():
            text = text.replace(f"TCP:{address}\\", f"OS:{name}\\").replace(address, name)
        text = _HTTP.sub(r"http:\1/", text)
        text = _PRIVATE.sub("", _DIRECT.sub(r"\1\\", text))
        text = re.sub(r"PRIVATE=([\w']+)\\00000004", r"the order queue of \1", text)
        text = _BRANCH.sub(r"\1", text)
        text = _GROUPED.sub(lambda found: f"{int(found[1], 16)}/{found[2]}", text)
        text = _SECOND.sub(lambda found: f"second {int(found[0]) - WALL_S}", text)
        return _LONG.sub(lambda found: self._streams.get(int(found[0]), found[0]), text)

    def message_called(self, name: str) -> tuple[bytes, int]:
        """Source and number of a message that has that name."""
        return next(message for message, known in self._messages.items() if known == name)

    # ---- packets --------------------------------------------------------------------------

    def packet(self, packet: Buffer, *, place: bool = True) -> str:
        """What a packet is."""
        parts = headers(packet)
        if is_settling(parts):
            return self._settling(packet)
        if is_order_queue(parts.user.destination) and len(parts.properties.body) == ACK_BYTES:
            return self._acknowledgment(packet, parts)
        return self._user(parts, place=place)

    def named(self, packet: Buffer) -> str:
        """The name of the message in a packet."""
        parts = headers(packet)
        if is_order_queue(parts.user.destination) and len(parts.properties.body) == ACK_BYTES:
            if parts.properties.message_class == MessageClass.ORDER_ACK:
                return self._acknowledgment(packet, parts)
            end = parse_final_ack(packet)
            return f"final acknowledgment of {self.message(end.source, end.message)}"
        return self.message(parts.user.source, parts.user.message)

    def _user(self, parts: PacketHeaders, *, place: bool) -> str:
        user, properties, order = parts.user, parts.properties, parts.transaction
        if properties.message_class:
            about = properties.correlation
            original = int.from_bytes(about[16:], "little")
            of = f" of {self.message(about[:16], original)}" if original else ""
            text = self.message(user.source, user.message)
            text += f" {class_name(properties.message_class)}{of}"
        else:
            text = f"{self.message(user.source, user.message)} {_body(bytes(properties.body))}"
        if place and order is not None and order.stream:
            text += f" {self.place(order.stream, order.number)} after {order.previous}"
        return text

    def _acknowledgment(self, packet: Buffer, parts: PacketHeaders) -> str:
        kind = parts.properties.message_class
        if kind == MessageClass.ORDER_ACK:
            said = parse_order_ack(packet)
            text = f"order acknowledgment {self.place(said.stream, said.number)}"
            if said.last_missing:
                text += f", {said.first_missing} to {said.last_missing} missing"
            return text
        end = parse_final_ack(packet)
        name = self.message(end.source, end.message)
        place = self.place(end.stream, end.number)
        return f"final acknowledgment {class_name(kind)} of {name} {place}"

    def _settling(self, packet: Buffer) -> str:
        match parse_settling(packet):
            case Inquiry(streams=streams):
                return "inquiry: what was accepted of " + ", ".join(
                    self.stream(one) + (f" (nothing before {live} comes again)" if live else "")
                    for one, live in streams
                )
            case TurnedAway(stream=stream, there=there):
                what = f", {self.stream(there)} is current" if there else ""
                return f"turned away: {self.stream(stream)} is over{what}"
            case TwoLives():
                return "notice: two lives of one manager are at work"
            case EndsAsked(streams=streams):
                asked = ", ".join(f"{self.stream(s)} {a} to {b}" for s, a, b in streams)
                return f"question: which of {asked} are still open?"
            case EndsOpen(streams=open_):
                told = ", ".join(f"{self.stream(o.memory.stream)} {o.open}" for o in open_)
                return f"answer: still open are {told}"
            case told:
                return "settlement: " + "; ".join(self._memory(m) for m in told)

    def _memory(self, memory: StreamMemory) -> str:
        text = f"{self.stream(memory.stream)} "
        text += f"accepted {memory.since} to {memory.last}" if memory.last else "nothing accepted"
        if memory.passed:
            text += " but for " + ", ".join(
                str(a) if a == b else f"{a} to {b}" for a, b in memory.passed
            )
        return text + (", closed" if memory.closed else "")


def _body(body: bytes) -> str:
    if len(body) <= SHOWN_BYTES:
        return f'"{body.decode("utf-8", "replace")}"'
    begun = body[:SHOWN_BYTES].decode("utf-8", "replace").rstrip(".")
    return f'"{begun}..." of {len(body)} bytes'
