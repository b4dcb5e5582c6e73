"""One protocol session with another queue manager, in either role: a state machine over bytes.

It knows nothing of sockets and clocks: bytes and times go in, bytes and events come out, so that
the same code runs over TCP and in the simulator. It sets the session up, keeps the windows and
the counts of both directions, acknowledges what has arrived and, apart from that, what is safe on
disk, and closes at the first sign of a peer that counts otherwise (wire-mqqb sections 6, 7, 11).

Counts are kept as ever-growing integers; on the wire they stand modulo 65536.

Upholds: I9 (a recoverable message is acknowledged as such only after ``persisted``), I24.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from onceq.errors import MalformedPacket, OnceqError, ProtocolState
from onceq.model.identity import NO_GUID
from onceq.model.limits import Settings
from onceq.model.run import LENGTH_TYPE, Buffer, Run
from onceq.packet import layout as at
from onceq.packet.arrived import ArrivedRun, cut
from onceq.packet.decode import build, headers
from onceq.wire.mqqb.cutter import Cutter
from onceq.wire.mqqb.internal import (
    SESSION_HEADER_BYTES,
    Establish,
    Parameters,
    SessionHeader,
    parse,
)

COUNTER: Final = 0x10000
FLAG_BITS: Final = 32
ACK_MS: Final = (20_000, 120_000)
RECOVERABLE_ACK_MS: Final = (500, 120_000)
WINDOW_MAX: Final = 0x7FFF
"""Half the range of the counts, so that counts modulo 65536 stay unambiguous."""
MS_US: Final = 1_000


@dataclass(frozen=True, slots=True)
class Opened:
    """Set-up is done; both sides may send."""

    peer_id: bytes


@dataclass(frozen=True, slots=True)
class Arrived:
    """User packets, checked and put together into runs, in order."""

    runs: list[ArrivedRun]
    messages: int
    recoverable: int


@dataclass(frozen=True, slots=True)
class Acked:
    """Of all user packets sent, so many have arrived; of the recoverable ones so many, from the
    first on without a gap, are durable at the peer."""

    messages: int
    recoverable: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The session is over; close the connection after writing what is still to be written."""

    reason: str
    error: OnceqError | None = None


Event = Opened | Arrived | Acked | Closed


class _State(Enum):
    NEW = "new"
    WAITING_ESTABLISH = "waiting for EstablishConnection"
    WAITING_PARAMETERS = "waiting for ConnectionParameters"
    OPEN = "open"
    CLOSED = "closed"


class Session:
    """See the module."""

    def __init__(
        self,
        *,
        initiator: bool,
        own_id: bytes,
        expected_peer: bytes = NO_GUID,
        direct: bool = True,
        settings: Settings,
        now_us: int,
    ) -> None:
        """Prepare a session; an initiator then calls ``start``.

        Args:
            expected_peer: GUID that the peer must have; zero: whichever it has.
            direct: Whether the destination was named directly (the wait for acknowledgments is
                doubled then).
            now_us: Monotonic microseconds, as in every call.
        """
        self._initiator = initiator
        self._own = own_id
        self._expected = expected_peer
        self._wait_factor = 2 if direct else 1
        self._settings = settings
        self._state = _State.NEW if initiator else _State.WAITING_ESTABLISH
        self._cutter = Cutter()
        self._output: list[Buffer] = []
        self._now = now_us
        self._window = min(max(settings.session_window_messages, 1), WINDOW_MAX)
        self._slow = False
        self._peer_window = 0
        self._ack_ms = min(max(int(settings.session_ack_wait_s * 1000), ACK_MS[0]), ACK_MS[1])
        self._recoverable_ack_ms = RECOVERABLE_ACK_MS[0]
        self.peer_id = NO_GUID
        # sent by us
        self._sent = self._sent_recoverable = 0
        self._acked = self._acked_recoverable = 0
        # received by us
        self._received = self._received_recoverable = 0
        self._reported = 0
        self._persisted = self._reported_recoverable = 0
        # timers, 0: not running
        self._init_due = now_us + int(settings.session_init_s * 1_000_000)
        self._ack_due = 0
        self._wait_due = 0
        self._idle_due = 0
        self._heard = False
        self._user_traffic = False

    # ---- what it is -----------------------------------------------------------------------

    @property
    def opened(self) -> bool:
        """Whether set-up is done and the session not over."""
        return self._state is _State.OPEN

    @property
    def closed(self) -> bool:
        """Whether the session is over."""
        return self._state is _State.CLOSED

    @property
    def room(self) -> int:
        """How many user packets may be sent now."""
        if self._state is not _State.OPEN:
            return 0
        return max(min(self._window, self._peer_window) - (self._sent - self._acked), 0)

    def take_output(self) -> list[Buffer]:
        """Bytes to be written, in order; they are handed over once."""
        output, self._output = self._output, []
        return output

    # ---- set-up ---------------------------------------------------------------------------

    def start(self) -> None:
        """Initiator: ask for the session."""
        assert self._initiator and self._state is _State.NEW, "only a new initiator starts"
        stamp = self._now // MS_US & 0xFFFF_FFFF
        self._output.append(Establish(self._own, self._expected, stamp).encode())
        self._state = _State.WAITING_ESTABLISH

    def _establish(self, packet: Establish) -> list[Event]:
        if self._initiator:
            return self._establish_answered(packet)
        self.peer_id = packet.client
        refused = packet.server not in (NO_GUID, self._own)
        system = 0x10 | packet.system & 0x100
        answer = Establish(
            packet.client, self._own, packet.stamp_ms, system, refused, b"\x5a" * 512
        )
        self._output.append(answer.encode())
        if refused:
            return [self._close("it looked for another queue manager at this address")]
        self._state = _State.WAITING_PARAMETERS
        return []

    def _establish_answered(self, packet: Establish) -> list[Event]:
        if packet.refused:
            return [self._close("the other queue manager refused the connection")]
        if packet.client != self._own:
            return [self._fail(ProtocolState("the answer names another initiator"))]
        if self._expected != NO_GUID and packet.server != self._expected:
            return [self._fail(ProtocolState("another queue manager answers at this address"))]
        self.peer_id = packet.server
        trip_ms = (self._now // MS_US - packet.stamp_ms) & 0xFFFF_FFFF
        low, high = RECOVERABLE_ACK_MS
        self._recoverable_ack_ms = min(max(8 * trip_ms, low), high)
        self._output.append(
            Parameters(self._recoverable_ack_ms, self._ack_ms, self._window).encode()
        )
        self._state = _State.WAITING_PARAMETERS
        return []

    def _parameters(self, packet: Parameters) -> list[Event]:
        if packet.refused:
            return [self._close("the other queue manager refused the parameters")]
        self._peer_window = packet.window
        if not self._initiator:
            self._ack_ms = min(max(packet.ack_ms, ACK_MS[0]), ACK_MS[1])
            low, high = RECOVERABLE_ACK_MS
            self._recoverable_ack_ms = min(max(packet.recoverable_ack_ms, low), high)
            self._output.append(
                Parameters(packet.recoverable_ack_ms, packet.ack_ms, self._window).encode()
            )
        self._state = _State.OPEN
        self._init_due = 0
        self._idle_due = self._now + int(self._settings.session_idle_s * 1_000_000)
        return [Opened(self.peer_id)]

    # ---- receiving ------------------------------------------------------------------------

    def receive(self, data: Buffer, now_us: int) -> list[Event]:
        """Bytes have come; what follows from them, in order. Never raises for what they hold."""
        if self._state is _State.CLOSED:
            return []
        self._now = now_us
        self._heard = True
        self._cutter.feed(data)
        events: list[Event] = []
        try:
            self._cut(events)
        except OnceqError as error:
            events.append(self._fail(error))
        return events

    def _cut(self, events: list[Event]) -> None:
        """Take packets one by one; neighbouring user packets stay together."""
        first, lengths = 0, array(LENGTH_TYPE)
        data = self._cutter.data
        while self._state is not _State.CLOSED:
            found = self._cutter.next()
            if found is None:
                break
            start, size, flags = found
            if not flags & (at.BASE_INTERNAL | at.BASE_SESSION):
                if not lengths:
                    first = start
                lengths.append(size)
                continue
            if lengths:
                self._user(data[first : first + sum(lengths)], lengths, events)
                lengths = array(LENGTH_TYPE)
            if flags & at.BASE_INTERNAL:
                self._internal(parse(data[start : start + size]), events)
            elif not self._carrying(data[start : start + size], events):
                self._cutter.back(start)
                break
        if lengths and self._state is not _State.CLOSED:
            self._user(data[first : first + sum(lengths)], lengths, events)

    def _internal(
        self, packet: Establish | Parameters | SessionHeader, events: list[Event]
    ) -> None:
        if isinstance(packet, SessionHeader) and self._state is _State.OPEN:
            self._session_header(packet, events, exactly=True)
        elif isinstance(packet, Establish) and self._state is _State.WAITING_ESTABLISH:
            events += self._establish(packet)
        elif isinstance(packet, Parameters) and self._state is _State.WAITING_PARAMETERS:
            events += self._parameters(packet)
        else:
            raise ProtocolState(f"{type(packet).__name__} came while {self._state.value}")

    def _carrying(self, packet: bytes, events: list[Event]) -> bool:
        """A user packet with a session header, inside its size or behind it (4.5, U1, U2)."""
        parts = headers(packet)
        trailing = len(packet) - parts.end
        if trailing == 0:
            raw = self._cutter.extra(SESSION_HEADER_BYTES)
            if raw is None:
                return False
            rest = parts.rest
        elif trailing == SESSION_HEADER_BYTES:
            raw, rest = packet[-SESSION_HEADER_BYTES:], parts.rest[:-SESSION_HEADER_BYTES]
        else:
            raise MalformedPacket(f"{trailing} bytes where a session header should be")
        plain = build(replace(parts, flags=parts.flags & ~at.BASE_SESSION, rest=rest))
        self._user(plain, array(LENGTH_TYPE, (len(plain),)), events)
        self._session_header(SessionHeader.unpack(raw), events, exactly=False)
        return True

    def _user(self, data: bytes, lengths: array[int], events: list[Event]) -> None:
        if self._state is not _State.OPEN:
            raise ProtocolState(f"a message came while {self._state.value}")
        runs = cut(data, lengths)
        recoverable = sum(len(run.packets) for run in runs if run.recoverable)
        self._received += len(lengths)
        self._received_recoverable += recoverable
        self._user_traffic = True
        events.append(Arrived(runs, len(lengths), recoverable))
        if self._received - self._reported >= max(self._window // 2, 1):
            self._report()
        elif not self._ack_due:
            self._ack_due = self._now + self._ack_ms * MS_US // 2

    def persisted(self, recoverable: int, now_us: int) -> None:
        """So many more of the recoverable messages received, in order, are safe on disk."""
        if self._state is not _State.OPEN:
            return
        self._now = now_us
        self._persisted += recoverable
        assert self._persisted <= self._received_recoverable, "persisted what never came"
        while self._persisted - self._reported_recoverable >= FLAG_BITS:
            self._report()
        if self._persisted > self._reported_recoverable:
            due = now_us + self._recoverable_ack_ms * MS_US
            if not self._ack_due or due < self._ack_due:
                self._ack_due = due

    def _report(self) -> None:
        """Send a SessionAck with everything that can be said now."""
        ahead = min(self._persisted - self._reported_recoverable, FLAG_BITS)
        base = (self._reported_recoverable + 1) % COUNTER if ahead else 0
        self._output.append(
            SessionHeader(
                self._received % COUNTER, base, (1 << ahead) - 1, self._sent % COUNTER,
                self._sent_recoverable % COUNTER, 1 if self._slow else self._window,
            ).encode()
        )  # fmt: skip
        self._reported_recoverable += ahead
        self._reported = self._received
        self._ack_due = 0

    def _session_header(
        self, header: SessionHeader, events: list[Event], *, exactly: bool
    ) -> None:
        """What the peer has got, and whether it counts as we do (section 7, steps 1 to 6)."""
        acked = self._acked + (header.received - self._acked) % COUNTER
        if acked > self._sent:
            raise ProtocolState(f"the peer acknowledges {acked} of {self._sent} messages")
        self._acked = acked
        if header.flags:
            run = (~header.flags & (header.flags + 1)).bit_length() - 1
            known = self._acked_recoverable
            last = (header.base + max(run, 1) - 1) % COUNTER
            durable = known + (last - known) % COUNTER
            if durable <= self._sent_recoverable:
                self._acked_recoverable = durable
        self._peer_window = header.window
        events.append(Acked(self._acked, self._acked_recoverable))
        if self._sent == self._acked:
            self._wait_due = 0
        counts = (header.sent, header.sent_recoverable)
        here = (self._received % COUNTER, self._received_recoverable % COUNTER)
        before = ((self._received - 1) % COUNTER, None)
        if counts != here and (exactly or counts[0] != before[0]):
            raise ProtocolState(
                f"the peer counts {counts[0]} messages sent, {counts[1]} of them recoverable; "
                f"{here[0]} and {here[1]} have come"
            )

    # ---- sending --------------------------------------------------------------------------

    def send(
        self, packets: Run | Buffer, *, count: int, recoverable: int, now_us: int
    ) -> None:
        """Send user packets as they are.

        Args:
            count: How many they are; at most ``room``.
            recoverable: How many of them have delivery mode 1.
        """
        assert self._state is _State.OPEN, "only an open session sends"
        self._now = now_us
        self._sent += count
        self._sent_recoverable += recoverable
        self._user_traffic = True
        self._output.append(packets.data if isinstance(packets, Run) else packets)
        if not self._wait_due:
            self._wait_due = now_us + self._wait_us()
            self._heard = False

    def _wait_us(self) -> int:
        return self._ack_ms * MS_US * self._wait_factor

    def slow(self, now_us: int, *, on: bool = True) -> None:
        """Ask the peer for one message at a time, or for a full window again (Q-8)."""
        if self._slow != on and self._state is _State.OPEN:
            self._now = now_us
            self._slow = on
            self._report()

    # ---- time -----------------------------------------------------------------------------

    def next_timer(self) -> int | None:
        """Monotonic microseconds at which ``tick`` has something to do, or None."""
        if self._state is _State.CLOSED:
            return None
        running = [due for due in (self._init_due, self._ack_due, self._wait_due,
                                   self._idle_due) if due]  # fmt: skip
        return min(running, default=None)

    def tick(self, now_us: int) -> list[Event]:
        """Time has passed."""
        self._now = now_us
        if self._state is _State.CLOSED:
            return []
        if self._init_due and now_us >= self._init_due:
            return [self._close("set-up of the session took too long")]
        if self._ack_due and now_us >= self._ack_due:
            self._report()
            if self._persisted > self._reported_recoverable:
                self._ack_due = now_us + self._recoverable_ack_ms * MS_US
        if self._wait_due and now_us >= self._wait_due:
            if self._sent == self._acked:
                self._wait_due = 0
            elif not self._heard:
                return [self._close("the peer has not acknowledged anything in time")]
            else:
                self._heard = False
                self._wait_due = now_us + self._wait_us()
        if self._idle_due and now_us >= self._idle_due:
            if not self._user_traffic and self._sent == self._acked:
                return [self._close("idle")]
            self._user_traffic = False
            self._idle_due = now_us + int(self._settings.session_idle_s * 1_000_000)
        return []

    # ---- the end --------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """Our side ends the session."""
        if self._state is not _State.CLOSED:
            self._close(reason)

    def _close(self, reason: str) -> Closed:
        self._state = _State.CLOSED
        return Closed(reason)

    def _fail(self, error: OnceqError) -> Closed:
        self._state = _State.CLOSED
        return Closed(f"{error.code}: {error.text}", error)


