"""Packets that set up and steer a session: EstablishConnection, ConnectionParameters, SessionAck.

Layouts: MS-MQQB 2.2.1 to 2.2.3, and MS-MQMQ 2.2.20.4. Parsing refuses everything that is not
exactly one of them.

Also here:

* Counts of a session on the wire: modulo 65536 (U11), and both sides compare them.
* Events that a session reports to the queue manager: opened, messages, acknowledged, closed.
* Cut a byte stream into packets, no matter how the network has split it.

Upholds: I24.
"""

from __future__ import annotations

import re
import struct
from array import array
from dataclasses import dataclass
from typing import Final

from onceq.errors import MalformedPacket, PeerError, ProtocolState
from onceq.model.limits import COMPUTER_NAME_CHARS_MAX, PACKET_BYTES_MAX
from onceq.model.record import Record
from onceq.model.run import LENGTH_TYPE, Buffer
from onceq.packet import address as at
from onceq.packet.arrived import ArrivedRun
from onceq.packet.headers import headers

# ---- internal ------------------------------------------------------------------------------------


SESSION_ACK, ESTABLISH, PARAMETERS = 1, 2, 3
REFUSED: Final = 0x10
"""CS: the connection is refused."""

ESTABLISH_BYTES: Final = 572
PARAMETERS_BYTES: Final = 32
SESSION_ACK_BYTES: Final = 36
SESSION_HEADER_BYTES: Final = 16

INTERNAL_FLAGS: Final = 3 | at.BASE_INTERNAL
"""Priority 3, as Windows sends internal packets."""

SYSTEM_WORD: Final = 0x0310
"""Release 0x10, no ping was sent, server-class (U12: as Windows sends it)."""

_BASE = struct.Struct("<BBH4sII")
_INTERNAL = struct.Struct("<HH")
_ESTABLISH = struct.Struct("<16s16sIHH")
_PARAMETERS = struct.Struct("<IIHH")
_SESSION = struct.Struct("<HHIHHHH")


EXTENSION_MARK: Final = b"onceq extension 1\0"
"""At the beginning of the padding of EstablishConnection, which others ignore: this side
understands the packets of ``packet/acks.py``."""

LIFE_MARK: Final = b"life\0"
"""Behind the mark of the extension: an identifier of the process and a stamp follow."""
_LIFE = struct.Struct("<16sI")

DELAYS_MARK: Final = b"delays\0"
"""Behind the life, or in its place: this side knows delayed messages (``model/marks.py``)."""

TRACES_MARK: Final = b"traces\0"
"""Behind the mark of delays: this side knows messages of a trace (``model/marks.py``)."""

PUBLICS_MARK: Final = b"publics\0"
"""Behind the mark of traces: this side can be asked about queues named by their GUID."""

CALLED_MARK: Final = b"called\0"
"""Behind the mark of public queues: the size of a name and the name. The side that connects sends
the name of the computer that it looks for; the other side repeats it if that is one of its names,
or else sends its own."""
_CALLED = struct.Struct("<H")
_PUBLICS: Final = DELAYS_MARK + TRACES_MARK + PUBLICS_MARK

TRAIL_MARK: Final = b"trail\0"
"""Behind the name, or in its place, the number of this side's last act of administration and its
digest (``model/audit_trail.py``), which the other side keeps."""
_TRAIL = struct.Struct("<Q32s")
_VISIBLE = re.compile(rb"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Life:
    """What a manager announces of its process: ``id`` changes with each start, ``stamp`` rises from
    start to start. ``acts`` and ``digest``: the end of its trail, the number of the last act and
    its digest; empty: there is none."""

    id: bytes
    stamp: int
    acts: int = 0
    digest: bytes = b""


UNTOLD: Final = Life(b"", 0)


def mark(life: Life, called: str = "") -> bytes:
    """Return the beginning of the padding of a manager that understands the extension."""
    told = LIFE_MARK + _LIFE.pack(life.id, life.stamp) if life.id else b""
    name = called.encode()
    said = CALLED_MARK + _CALLED.pack(len(name)) + name if name else b""
    end = TRAIL_MARK + _TRAIL.pack(life.acts, life.digest) if life.digest else b""
    return EXTENSION_MARK + told + DELAYS_MARK + TRACES_MARK + PUBLICS_MARK + said + end


@dataclass(frozen=True, slots=True)
class Establish:
    """EstablishConnection. ``stamp_ms``: the initiator's clock, echoed for the round trip."""

    client: bytes
    server: bytes
    stamp_ms: int
    system: int = SYSTEM_WORD
    refused: bool = False
    padding: bytes = bytes(512)
    reserved: tuple[int, int] = (0, 0)

    @property
    def extended(self) -> bool:
        """Whether the padding has the mark."""
        return self.padding.startswith(EXTENSION_MARK)

    @property
    def life(self) -> Life:
        """The life behind the mark, with the end of its trail; UNTOLD if there is none."""
        at = len(EXTENSION_MARK) + len(LIFE_MARK)
        if not self.extended or self.padding[len(EXTENSION_MARK) : at] != LIFE_MARK:
            return UNTOLD
        id, stamp = _LIFE.unpack_from(self.padding, at)
        acts, digest = 0, b""
        size, name = self._name
        words = self._words[len(_PUBLICS) :] if self.publics else b""
        trail = len(CALLED_MARK) + _CALLED.size + len(name) if name else 0
        if size == len(name) and words[trail:].startswith(TRAIL_MARK):
            trail += len(TRAIL_MARK)
            if len(words) - trail >= _TRAIL.size:
                acts, digest = _TRAIL.unpack_from(words, trail)
        return Life(id, stamp, acts, digest)

    @property
    def delays(self) -> bool:
        """Whether it announces that it knows delayed messages."""
        return self._words.startswith(DELAYS_MARK)

    @property
    def traces(self) -> bool:
        """Whether it announces that it knows messages of a trace."""
        return self._words.startswith(DELAYS_MARK + TRACES_MARK)

    @property
    def publics(self) -> bool:
        """Whether it announces that it can be asked about queues named by their GUID."""
        return self._words.startswith(_PUBLICS)

    @property
    def called(self) -> str:
        """The name of a computer in it; "" if it has no valid one."""
        size, name = self._name
        return name.decode() if size == len(name) and _VISIBLE.fullmatch(name) else ""

    @property
    def _name(self) -> tuple[int, bytes]:
        """Return the declared size of a name, and as much of the name as may be there."""
        before = _PUBLICS + CALLED_MARK
        words, at = self._words, len(before) + _CALLED.size
        if not words.startswith(before) or len(words) < at:
            return 0, b""
        (size,) = _CALLED.unpack_from(words, len(before))
        return size, words[at : at + min(size, COMPUTER_NAME_CHARS_MAX)]

    @property
    def _words(self) -> bytes:
        """Return what is behind the life, or in its place."""
        if not self.extended:
            return b""
        behind = self.padding[len(EXTENSION_MARK) :]
        if behind.startswith(LIFE_MARK):
            behind = behind[len(LIFE_MARK) + _LIFE.size :]
        return behind

    def encode(self) -> bytes:
        """Return the packet."""
        flags = ESTABLISH | (REFUSED if self.refused else 0)
        return (
            _base(INTERNAL_FLAGS, ESTABLISH_BYTES, self.reserved[0])
            + _INTERNAL.pack(0, flags)
            + _ESTABLISH.pack(
                self.client, self.server, self.stamp_ms, self.system, self.reserved[1]
            )
            + self.padding
        )


@dataclass(frozen=True, slots=True)
class Parameters:
    """ConnectionParameters: two time-outs in milliseconds and a window in messages."""

    recoverable_ack_ms: int
    ack_ms: int
    window: int
    refused: bool = False
    reserved: tuple[int, int] = (0, 0)

    def encode(self) -> bytes:
        """Return the packet."""
        flags = PARAMETERS | (REFUSED if self.refused else 0)
        return (
            _base(INTERNAL_FLAGS, PARAMETERS_BYTES, self.reserved[0])
            + _INTERNAL.pack(0, flags)
            + _PARAMETERS.pack(self.recoverable_ack_ms, self.ack_ms, self.reserved[1], self.window)
        )


class SessionHeader(Record, frozen=True):
    """What one side has received, and how much it has sent; counts modulo 65536 (U11)."""

    received: int
    base: int
    flags: int
    sent: int
    sent_recoverable: int
    window: int
    reserved: tuple[int, int] = (0, 0)

    def pack(self) -> bytes:
        """Return the 16 bytes of the header."""
        return _SESSION.pack(
            self.received, self.base, self.flags, self.sent, self.sent_recoverable, self.window,
            self.reserved[1],
        )  # fmt: skip

    def encode(self) -> bytes:
        """Return a SessionAck packet."""
        return (
            _base(INTERNAL_FLAGS | at.BASE_SESSION, SESSION_ACK_BYTES, self.reserved[0])
            + _INTERNAL.pack(0, SESSION_ACK)
            + self.pack()
        )

    @classmethod
    def unpack(cls, raw: Buffer, reserved: int = 0) -> SessionHeader:
        """Read the 16 bytes of the header; raises MalformedPacket if they are not 16."""
        if len(raw) != SESSION_HEADER_BYTES:
            raise MalformedPacket(f"a SessionHeader of {len(raw)} bytes")
        received, base, flags, sent, recoverable, window, rest = _SESSION.unpack(raw)
        return cls(received, base, flags, sent, recoverable, window, (reserved, rest))


def _base(flags: int, size: int, reserved: int) -> bytes:
    return _BASE.pack(at.VERSION, reserved, flags, at.SIGNATURE, size, 0xFFFF_FFFF)


def parse(packet: Buffer) -> Establish | Parameters | SessionHeader:
    """Read one internal packet; raises MalformedPacket."""
    if len(packet) < 20:
        raise MalformedPacket(f"an internal packet of {len(packet)} bytes")
    version, reserved, base_flags, signature, size, _ = _BASE.unpack_from(packet)
    if version != at.VERSION or signature != at.SIGNATURE or size != len(packet):
        raise MalformedPacket("an internal packet with a wrong BaseHeader")
    _, flags = _INTERNAL.unpack_from(packet, 16)
    kind, refused = flags & 0x0F, bool(flags & REFUSED)
    sizes = {
        ESTABLISH: ESTABLISH_BYTES, PARAMETERS: PARAMETERS_BYTES, SESSION_ACK: SESSION_ACK_BYTES
    }  # fmt: skip
    if kind not in sizes:
        raise MalformedPacket(f"an internal packet of unknown type {kind}")
    if size != sizes[kind]:
        raise MalformedPacket(f"an internal packet of type {kind} has {size} bytes")
    if kind == ESTABLISH:
        client, server, stamp, system, rest = _ESTABLISH.unpack_from(packet, 20)
        return Establish(
            client, server, stamp, system, refused, bytes(packet[60:]), (reserved, rest)
        )
    if kind == PARAMETERS:
        recoverable, ack, rest, window = _PARAMETERS.unpack_from(packet, 20)
        return Parameters(recoverable, ack, window, refused, (reserved, rest))
    if not base_flags & at.BASE_SESSION:
        raise MalformedPacket("a SessionAck without its header")
    return SessionHeader.unpack(bytes(packet[20:36]), reserved)


# ---- counts --------------------------------------------------------------------------------------


COUNTER: Final = 0x10000


def durable(header: SessionHeader, sent: int, known: int) -> int:
    """Return how many recoverable messages the peer has on disk: the base, by definition all before
    it, and those after it as far as the flags have no hole.

    A base of 0 means "none", and after a wrap with flags it may be number 65536.

    Args:
        sent: Recoverable messages that were sent.
        known: Those that were known to be on disk before.
    """
    if not header.base and (not header.flags or sent < COUNTER):
        return known
    run = (~header.flags & (header.flags + 1)).bit_length() - 1
    found = known + (header.base + max(run, 1) - 1 - known) % COUNTER
    # Else it counts messages that were never sent, and is not believed.
    return found if found <= sent else known


def agree(header: SessionHeader, received: tuple[int, int], carrying: tuple[int, int]) -> None:
    """Check that the peer has sent as many messages as have come (MS-MQQB 3.1.5.5).

    Args:
        received: Messages that have come, and the recoverable ones among them.
        carrying: Those in the packet of the header itself: whether its counts include them is not
            published, so both are right (U2).

    Raises:
        ProtocolState: Its count is different.
    """
    theirs = (header.sent, header.sent_recoverable)
    after = (received[0] % COUNTER, received[1] % COUNTER)
    before = ((received[0] - carrying[0]) % COUNTER, (received[1] - carrying[1]) % COUNTER)
    if theirs not in (after, before):
        raise ProtocolState(
            f"the peer counts {theirs[0]} messages sent, {theirs[1]} of them recoverable; "
            f"{after[0]} and {after[1]} have come"
        )


# ---- events --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """Set-up is done; both sides may send. ``extended``: both understand packet/acks.py;
    ``http``: each message gets its own answer. ``life``: what the peer announces of its process.
    ``delays``: it knows delayed messages. ``publics``: it can be asked about queues named by their
    GUID. ``called``: its name, if this side looked for a name; that name, if it has it; "": it
    sends none."""

    peer_id: bytes
    extended: bool = False
    http: bool = False
    life: Life = UNTOLD
    delays: bool = False
    publics: bool = False
    called: str = ""


@dataclass(frozen=True, slots=True)
class Arrived:
    """User packets, checked and combined into runs, in order."""

    runs: list[ArrivedRun]
    messages: int
    recoverable: int


@dataclass(frozen=True, slots=True)
class Acked:
    """Counts of the peer: of all user packets sent, those that have arrived; of the recoverable
    ones, those that are durable there, from the first on without a gap. ``refused``: the last of
    them is permanently refused."""

    messages: int
    recoverable: int
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """The session is over; close the connection after writing the remaining bytes."""

    reason: str
    error: PeerError | None = None


Event = Opened | Arrived | Acked | Closed


# ---- cutter --------------------------------------------------------------------------------------


PACKET_BYTES_MIN: Final = 20
LEAD_BYTES: Final = 12
"""The first bytes of a packet, which give its size."""

SHORT_BYTES: Final = 4096
"""A shorter waiting part is joined with the next read."""

_LEAD = struct.Struct("<2sH4sI")
_BEGINNING: Final = (b"\x10", at.SIGNATURE)


class UserPackets(Record, frozen=True):
    """Neighbouring user packets; ``carried`` came with the last of them, if it is given.

    A packet gives its size in its first 12 bytes, and neighbouring user packets stay together: the
    result is one buffer and a table of lengths. Whole packets are views of what was read. Only the
    beginning of a packet whose rest has not come is copied: a short one together with the next
    read, a long one into its own buffer, so that no byte of it is moved again with each read.

    At most one packet of the largest legal size is kept waiting, and an illegal size is refused
    before anything is kept.
    """

    data: memoryview
    lengths: array[int]
    carried: SessionHeader | None = None


class InternalPacket(Record, frozen=True):
    """One packet that belongs to the session itself."""

    data: memoryview


Piece = UserPackets | InternalPacket | MalformedPacket


class Cutter:
    """Turns what was read into whole packets, in order."""

    __slots__ = ("_long", "_need", "_short")

    def __init__(self) -> None:
        self._short = b""
        self._long: bytearray | None = None
        self._need = 0

    @property
    def waiting(self) -> int:
        """Return the bytes of a packet whose rest has not come yet."""
        return len(self._short) if self._long is None else len(self._long)

    def feed(self, data: Buffer) -> list[Piece]:
        """Cut what was read; return whole packets.

        Args:
            data: ``bytes`` are used without a copy; any other buffer is copied once, because it
                may change afterwards.

        Returns:
            Whole packets in order; at the end a MalformedPacket if the next bytes are none.
        """
        if not isinstance(data, bytes):
            data = bytes(data)
        found: list[Piece] = []
        try:
            if self._long is None:
                self._cut(memoryview(self._short + data if self._short else data), found)
            else:
                self._go_on(self._long, data, found)
        except MalformedPacket as error:
            found.append(error)
        return found

    def _go_on(self, begun: bytearray, data: bytes, found: list[Piece]) -> None:
        """Continue a long packet, which may end."""
        missing = self._need - len(begun)
        view = memoryview(data)
        # Exactly its own bytes: what follows is a view of the read and not moved.
        begun += view[:missing]
        if len(begun) < self._need:
            return
        self._long = None
        self._cut(memoryview(begun), found)
        if self._short or self._long is not None:
            # A session header was expected behind the packet: it is in what follows.
            found += self.feed(bytes(view[missing:]))
        else:
            self._cut(view[missing:], found)

    def _cut(self, view: memoryview, found: list[Piece]) -> None:
        """Add the whole packets of a buffer and keep what is left."""
        self._short = b""
        start, end, total = 0, 0, len(view)
        lengths = array(LENGTH_TYPE)
        unpack, signature = _LEAD.unpack_from, at.SIGNATURE
        while total - end >= LEAD_BYTES:
            lead, flags, signed, size = unpack(view, end)
            if (
                lead[0] != at.VERSION
                or signed != signature
                or not PACKET_BYTES_MIN <= size <= PACKET_BYTES_MAX
            ):
                if lengths:
                    found.append(UserPackets(view[start:end], lengths))
                raise _not_a_packet(view, end)
            if total - end < size:
                break
            if not flags & (at.BASE_INTERNAL | at.BASE_SESSION):
                lengths.append(size)
                end += size
                continue
            if lengths:
                found.append(UserPackets(view[start:end], lengths))
                lengths = array(LENGTH_TYPE)
            if flags & at.BASE_INTERNAL:
                found.append(InternalPacket(view[end : end + size]))
            else:
                carrying = _carrying(view, end, size)
                if carrying is None:
                    self._keep(view[end:], size + SESSION_HEADER_BYTES)
                    return
                packets, extra = carrying
                found.append(packets)
                end += extra
            end += size
            start = end
        if lengths:
            found.append(UserPackets(view[start:end], lengths))
        if end < total:
            rest = view[end:]
            # Strangers are refused at their first bytes, not at their twelfth.
            version, signature = _BEGINNING
            signed = bytes(rest[4:8])
            if bytes(rest[:1]) != version or signed != signature[: len(signed)]:
                raise _not_a_packet(rest, 0)
            self._keep(rest, at.U32.unpack_from(rest, 8)[0] if len(rest) >= LEAD_BYTES else 0)

    def _keep(self, rest: memoryview, need: int) -> None:
        if need <= SHORT_BYTES:
            self._short = bytes(rest)
        else:
            self._long, self._need = bytearray(rest), need


def _not_a_packet(view: memoryview, start: int) -> MalformedPacket:
    lead = bytes(view[start : start + LEAD_BYTES])
    if lead[:1] == b"\x10" and lead[4:8] == at.SIGNATURE:
        (size,) = at.U32.unpack_from(lead, at.OFF_PACKET_SIZE)
        return MalformedPacket(
            f"PacketSize {size}, at byte {at.OFF_PACKET_SIZE} of a packet; legal are "
            f"{PACKET_BYTES_MIN} to {PACKET_BYTES_MAX}"
        )
    return MalformedPacket(f"bytes {lead.hex()} are not the beginning of a packet")


def _carrying(view: memoryview, start: int, size: int) -> tuple[UserPackets, int] | None:
    """Return a user packet with a session header, inside its size or behind it (4.5, U1).

    Returns:
        The packet as if it carried none, with the header; and how many bytes behind the packet
        belong to it. None: these have not come yet.
    """
    packet = bytearray(view[start : start + size])
    trailing = len(headers(packet).trailing)
    if trailing == SESSION_HEADER_BYTES:
        raw = packet[-SESSION_HEADER_BYTES:]
        del packet[-SESSION_HEADER_BYTES:]
        extra = 0
    elif trailing == 0:
        raw = bytearray(view[start + size : start + size + SESSION_HEADER_BYTES])
        if len(raw) < SESSION_HEADER_BYTES:
            return None
        extra = SESSION_HEADER_BYTES
    else:
        raise MalformedPacket(
            f"{trailing} bytes where a SessionHeader should be, at byte {size - trailing} of a "
            f"packet of {size}"
        )
    packet[at.OFF_BASE_FLAGS] &= ~at.BASE_SESSION & 0xFF
    at.U32.pack_into(packet, at.OFF_PACKET_SIZE, len(packet))
    lengths = array(LENGTH_TYPE, (len(packet),))
    return UserPackets(memoryview(packet), lengths, SessionHeader.unpack(raw)), extra
