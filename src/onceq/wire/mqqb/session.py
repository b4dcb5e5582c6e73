"""One protocol session with another queue manager, in either role: a state machine over bytes.

It knows nothing of sockets and clocks: bytes and times go in, bytes and events come out, so that
the same code runs over TCP and in the simulator. It sets the session up, keeps the windows and the
counts of both directions, acknowledges what has arrived and, separately, what is safe on disk
(EOD-49), and closes at the first sign of a peer whose counts differ (MS-MQQB 3.1.5.5).

Counts are kept as ever-growing integers; on the wire they are modulo 65536 (U11). All user packets
count, acknowledgments between managers too (U3).

Also here:

* The states of a protocol session, and which packets each takes: one table, and its theory.
* Identity of a session's peer: the reasons to end a set-up with the wrong peer.

Upholds: I9 (a recoverable message is acknowledged as such only after ``persisted``), I24, I25 (a
peer with our own identity is noticed), I26 (each wait ends by a timer).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from onceq.errors import IdentityClash, PeerError, ProtocolState
from onceq.model.identification import ON_THIS_COMPUTER, Identification, Proof, why_not_guid
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.run import Buffer, Run
from onceq.model.settings import Settings
from onceq.packet.arrived import LastShape, cut
from onceq.packet.headers import untraced_packets
from onceq.wire.mqqb.internal import (
    COUNTER,
    UNTOLD,
    Acked,
    Arrived,
    Closed,
    Cutter,
    Establish,
    Event,
    InternalPacket,
    Life,
    Opened,
    Parameters,
    SessionHeader,
    UserPackets,
    agree,
    durable,
    mark,
    parse,
)

# ---- session states ------------------------------------------------------------------------------


class SessionState(Enum):
    """Where a session is; the value goes on with "a packet came while".

    Two questions and two answers set up a session; the side that has connected asks. First each
    side says who it is (EstablishConnection), then both agree on the times and the window of the
    acknowledgments (ConnectionParameters). Both sides pass through the same states: the asking side
    by the answers, the other one by the questions, which it answers at once. Nothing may be sent
    before the session is OPEN, because no window is agreed on yet.

    There is no way back, and no repair. A packet in a state that does not take it, counts that do
    not agree (MS-MQQB 3.1.5.5), a refusal, a wait that is over, or a close by either side: each
    ends the session. That is enough, because a session holds nothing that matters: what it has not
    acknowledged is transmitted again on the next one, and the receiver filter turns repetitions
    away.

    ``docs/reference/states.md`` shows the table as a picture, drawn from ``TAKES``.
    """

    NEW = "new"
    """Connected, and nothing said yet."""
    WAITING_ESTABLISH = "waiting for EstablishConnection"
    """For the question of the peer that has connected, or for the answer to it."""
    WAITING_PARAMETERS = "waiting for ConnectionParameters"
    """Both have said who they are."""
    OPEN = "open"
    """Messages and acknowledgments pass, in both directions."""
    CLOSED = "closed"
    """Over, for any reason."""


TAKES: Final[Mapping[SessionState, Mapping[type, SessionState]]] = {
    SessionState.NEW: {},
    SessionState.WAITING_ESTABLISH: {Establish: SessionState.WAITING_PARAMETERS},
    SessionState.WAITING_PARAMETERS: {Parameters: SessionState.OPEN},
    SessionState.OPEN: {SessionHeader: SessionState.OPEN, UserPackets: SessionState.OPEN},
    SessionState.CLOSED: {},
}
"""The packets that a state takes, and the state to which each leads if it refuses nothing. Any
other packet ends the session; what comes behind its end is not looked at."""
BEGIN: Final[Mapping[bool, SessionState]] = {
    True: SessionState.NEW,
    False: SessionState.WAITING_ESTABLISH,
}
"""The first state of the side that has connected (``start`` leads on), and of the other one."""


# ---- identity ------------------------------------------------------------------------------------


def prove(who: Identification, said: bytes) -> None:
    """Check the identity that a queue manager claims, before it counts; the core decides what its
    proof alone cannot show (``core/peers/trust.py``).

    Raises:
        IdentityClash: It may not speak for that one.
    """
    reason = why_not_guid(who, said)
    if reason:
        raise IdentityClash(reason)


def expect(expected: bytes, found: bytes) -> None:
    """Accept only the queue manager that was looked for.

    Args:
        expected: Its GUID; zero: any may answer.

    Raises:
        ProtocolState: Another one answers.
    """
    if expected not in (NO_GUID, found):
        raise ProtocolState(
            f"another queue manager ({guid_text(found)}) answers at this address than "
            f"{guid_text(expected)}: correct [peers] in onceq.toml, or the directory"
        )


def clash(own: bytes) -> IdentityClash:
    """Return the error that the peer has our own identity."""
    return IdentityClash(
        f"the queue manager at the other end has our own identity {guid_text(own)}: it is this "
        "one, and the name that leads here belongs into addresses in onceq.toml; or a copy of its "
        "data runs twice: give the copy a new identity"
    )


# ---- session -------------------------------------------------------------------------------------


__all__ = ["Acked", "Arrived", "Closed", "Event", "Opened", "Session"]

FLAG_BITS: Final = 32
ACK_MS: Final = (20_000, 120_000)
RECOVERABLE_ACK_MS: Final = (500, 120_000)
WINDOW_MAX: Final = 0x7FFF
"""Half the range of the counts, so that counts modulo 65536 stay unambiguous."""
MS_US: Final = 1_000


class Session:
    """The protocol session of this module."""

    def __init__(
        self,
        *,
        initiator: bool,
        own_id: bytes,
        expected_peer: bytes = NO_GUID,
        who: Identification = ON_THIS_COMPUTER,
        direct: bool = True,
        settings: Settings,
        now_us: int,
        life: Life = UNTOLD,
        host: str = "",
        answers_to: Callable[[str], str] = str,
    ) -> None:
        """Prepare a session; an initiator then calls ``start``.

        Args:
            expected_peer: GUID that the peer must have; zero: any.
            who: Identification of the peer; ``model/identification.py`` says for whom it may speak.
            direct: Whether the destination was named directly (the wait for acknowledgments is
                doubled then).
            now_us: Monotonic microseconds, as in every call.
            life: What this process announces of itself.
            host: For an initiator: the name of the computer that it looks for; "": none.
            answers_to: For the other side: returns such a name if this computer has it, or its own.
        """
        self._life, self._host, self._answers_to = life, host, answers_to
        self._initiator = initiator
        self._own = own_id
        self._expected, self._itself = expected_peer, who.proof is Proof.ITSELF
        self._who = who
        self._wait_factor = 2 if direct else 1
        self._settings = settings
        self._state = BEGIN[initiator]
        self._cutter, self._shape = Cutter(), LastShape()
        self.output: list[Buffer] = []
        """Bytes to be written, in order, until ``take_output`` hands them over."""
        self.timer_set = True
        """Whether a timer was set since the last call of ``next_timer``."""
        self._now = now_us
        self._window = min(max(settings.session_window_messages, 1), WINDOW_MAX)
        self._slow = False
        self._peer_window = 0
        self._report_from = 1
        """The number of unreported messages that is half of the peer's window."""
        self._ack_ms = min(max(int(settings.session_ack_wait_s * 1000), ACK_MS[0]), ACK_MS[1])
        self._recoverable_ack_ms = RECOVERABLE_ACK_MS[0]
        self.peer_id = NO_GUID
        self.extended = False
        self.delays = self.traces = self.publics = False
        self.peer_life, self.peer_called = UNTOLD, ""
        # sent by this side
        self._sent = self._sent_recoverable = 0
        self._acked = self._acked_recoverable = 0
        self._told: tuple[int, int, int] = (0, 0, 0)
        # received by this side
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
        self._user_us = now_us

    # ---- properties -----------------------------------------------------------------------

    @property
    def opened(self) -> bool:
        """Whether set-up is done and the session not over."""
        return self._state is SessionState.OPEN

    @property
    def closed(self) -> bool:
        """Whether the session is over."""
        return self._state is SessionState.CLOSED

    @property
    def room(self) -> int:
        """The number of user packets that may be sent now."""
        if self._state is not SessionState.OPEN:
            return 0
        return max(min(self._window, self._peer_window) - (self._sent - self._acked), 0)

    def idle(self, now_us: int) -> bool:
        """Return whether no user packet has passed for about the time after which either side
        closes idle sessions."""
        quiet = now_us - self._user_us
        return quiet >= int(self._settings.session_idle_s * 900_000)

    def take_output(self) -> list[Buffer]:
        """Return the bytes to be written, in order, once."""
        output, self.output = self.output, []
        return output

    # ---- set-up ---------------------------------------------------------------------------

    def start(self) -> None:
        """Ask for the session, as its initiator."""
        assert self._state is SessionState.NEW, "only a new initiator starts"
        stamp = self._now // MS_US & 0xFFFF_FFFF
        padding = bytes(512)
        if self._settings.settle_doubts:
            padding = mark(self._life, self._host).ljust(512, b"\0")
        self.output.append(Establish(self._own, self._expected, stamp, padding=padding).encode())
        self._state = SessionState.WAITING_ESTABLISH

    def _establish(self, packet: Establish, after: SessionState) -> list[Event]:
        if self._initiator:
            return self._establish_answered(packet, after)
        prove(self._who, packet.client)
        self.peer_id = packet.client
        ours = packet.client == self._own and not self._itself
        refused = ours or packet.server not in (NO_GUID, self._own)
        system = 0x10 | packet.system & 0x100
        self._extend(packet)
        called = self._answers_to(packet.called) if packet.called else ""
        begin = mark(self._life, called) if self.extended else b""
        answer = Establish(
            packet.client, self._own, packet.stamp_ms, system, refused, begin.ljust(512, b"\x5a")
        )
        self.output.append(answer.encode())
        if ours:
            return [self._fail(clash(self._own))]
        if refused:
            looked_for = guid_text(packet.server)
            return [self._close(f"it looked for another queue manager here: {looked_for}")]
        self._state = after
        return []

    def _establish_answered(self, packet: Establish, after: SessionState) -> list[Event]:
        prove(self._who, packet.server)
        if packet.server == self._own and not self._itself:
            self._extend(packet)
            told = [Opened(self._own, self.extended, life=self.peer_life)]
            return [*(told if self.peer_life.id else ()), self._fail(clash(self._own))]
        expect(self._expected, packet.server)
        if packet.refused:
            return [self._close("the other queue manager refused the connection")]
        if packet.client != self._own:
            return [self._fail(ProtocolState("the answer names another initiator"))]
        self.peer_id = packet.server
        self._extend(packet)
        trip_ms = (self._now // MS_US - packet.stamp_ms) & 0xFFFF_FFFF
        low, high = RECOVERABLE_ACK_MS
        self._recoverable_ack_ms = min(max(8 * trip_ms, low), high)
        self.output.append(
            Parameters(self._recoverable_ack_ms, self._ack_ms, self._window).encode()
        )
        self._state = after
        return []

    def _extend(self, packet: Establish) -> None:
        """Record what the peer understands, and what it announces of itself."""
        self.extended = packet.extended and self._settings.settle_doubts
        if self.extended:
            self.peer_life, self.delays = packet.life, packet.delays
            self.traces, self.publics = packet.traces, packet.publics
            self.peer_called = packet.called if self._initiator and self._host else ""

    def _parameters(self, packet: Parameters, after: SessionState) -> list[Event]:
        if packet.refused:
            return [self._close("the other queue manager refused the parameters")]
        self._peer_window = packet.window
        self._report_from = max(min(self._window, packet.window) // 2, 1)
        self._told = (0, 0, packet.window)
        if not self._initiator:
            self._ack_ms = min(max(packet.ack_ms, ACK_MS[0]), ACK_MS[1])
            low, high = RECOVERABLE_ACK_MS
            self._recoverable_ack_ms = min(max(packet.recoverable_ack_ms, low), high)
            self.output.append(
                Parameters(packet.recoverable_ack_ms, packet.ack_ms, self._window).encode()
            )
        self._state = after
        self._init_due = 0
        self._idle_due = self._now + int(self._settings.session_idle_s * 1_000_000)
        self.timer_set = True
        return [
            Opened(
                self.peer_id, self.extended, life=self.peer_life, delays=self.delays,
                publics=self.publics, called=self.peer_called,
            )
        ]  # fmt: skip

    # ---- receiving ------------------------------------------------------------------------

    def receive(self, data: Buffer, now_us: int) -> list[Event]:
        """Handle received bytes; return the events, in order. Never raises for their content."""
        if self._state is SessionState.CLOSED:
            return []
        self._now = now_us
        # Any byte is a sign of life, which extends the wait.
        self._heard = True
        events: list[Event] = []
        try:
            for piece in self._cutter.feed(data):
                if isinstance(piece, UserPackets):
                    self._user(piece, events)
                elif isinstance(piece, InternalPacket):
                    packet = parse(piece.data)
                    after = TAKES[self._state].get(type(packet))
                    if after is None:
                        kind = type(packet).__name__
                        raise ProtocolState(f"{kind} came while {self._state.value}")
                    if isinstance(packet, SessionHeader):
                        self._session_header(packet, events)
                    elif isinstance(packet, Establish):
                        events += self._establish(packet, after)
                    else:
                        events += self._parameters(packet, after)
                    if self.closed:
                        break
                else:
                    raise piece
        except PeerError as error:
            events.append(self._fail(error))
        return events

    def _user(self, piece: UserPackets, events: list[Event]) -> None:
        if UserPackets not in TAKES[self._state]:
            raise ProtocolState(f"a message came while {self._state.value}")
        count, recoverable = len(piece.lengths), 0
        runs = cut(piece.data, piece.lengths, self._shape)
        for run in runs:
            if run.recoverable:
                recoverable += len(run.message_numbers)
        self._received += count
        self._received_recoverable += recoverable
        self._user_traffic = True
        self._user_us = self._now
        events.append(Arrived(runs, count, recoverable))
        if piece.carried is not None:
            carrying = 1 if runs[-1].recoverable else 0
            self._session_header(piece.carried, events, carrying=(1, carrying))
        if self._slow or self._received - self._reported >= self._report_from:
            self._report()
        elif not self._ack_due:
            self._ack_due = self._now + self._ack_ms * MS_US // 2
            self.timer_set = True

    def persisted(self, recoverable: int, now_us: int) -> None:
        """Count more of the recoverable messages received, in order, as safe on disk."""
        if self._state is not SessionState.OPEN:
            return
        self._now = now_us
        self._persisted += recoverable
        assert self._persisted <= self._received_recoverable, "persisted what never came"
        # One acknowledgment has room for a limited number; more at once need several.
        while self._persisted - self._reported_recoverable >= FLAG_BITS:
            self._report()
        if self._persisted > self._reported_recoverable:
            due = now_us + self._recoverable_ack_ms * MS_US
            if not self._ack_due or due < self._ack_due:
                self._ack_due = due
                self.timer_set = True

    def _report(self) -> None:
        """Send a SessionAck with everything that can be reported now."""
        ahead = min(self._persisted - self._reported_recoverable, FLAG_BITS)
        base = (self._reported_recoverable + 1) % COUNTER
        flags = (1 << ahead) - 1
        if not ahead:
            base = 0
        elif not base:
            # A base of 0 would mean "none". So the flags begin one message earlier, at a number
            # that the peer knows to be on disk.
            base, ahead = COUNTER - 1, min(ahead, FLAG_BITS - 1)
            flags = (1 << ahead + 1) - 1
        self.output.append(
            SessionHeader(
                self._received % COUNTER, base, flags, self._sent % COUNTER,
                self._sent_recoverable % COUNTER, 1 if self._slow else self._window,
            ).encode()
        )  # fmt: skip
        self._reported_recoverable += ahead
        self._reported = self._received
        self._ack_due = 0

    def _session_header(
        self, header: SessionHeader, events: list[Event], *, carrying: tuple[int, int] = (0, 0)
    ) -> None:
        """Apply the peer's counts, and check that they equal ours (MS-MQQB 3.1.5.5).

        Args:
            carrying: How many messages, and recoverable ones, came in the packet of the header:
                whether its counts include them is not published, so both are right (U2).
        """
        acked = self._acked + (header.received - self._acked) % COUNTER
        if acked > self._sent:
            raise ProtocolState(
                f"the peer acknowledges {header.received} messages (modulo {COUNTER}); "
                f"{self._sent} were sent, {self._acked} acknowledged before"
            )
        self._acked = acked
        self._acked_recoverable = durable(header, self._sent_recoverable, self._acked_recoverable)
        self._peer_window = header.window
        if self._sent == self._acked:
            self._wait_due = 0
        told = (self._acked, self._acked_recoverable, self._peer_window)
        if told != self._told:
            self._told = told
            if events and isinstance(events[-1], Acked):
                events.pop()
            events.append(Acked(self._acked, self._acked_recoverable))
        agree(header, (self._received, self._received_recoverable), carrying)

    # ---- sending --------------------------------------------------------------------------

    def send(self, packets: Run | Buffer, *, count: int, recoverable: int, now_us: int) -> None:
        """Send user packets unchanged; a peer without traces gets them without their marks.

        Args:
            count: Their number; at most ``room``.
            recoverable: How many of them have delivery mode 1.
        """
        assert self._state is SessionState.OPEN, "only an open session sends"
        assert 0 <= recoverable <= count, "some of the messages are recoverable"
        assert self._sent + count - self._acked <= WINDOW_MAX, "far more than there is room for"
        self._now = now_us
        self._sent += count
        self._sent_recoverable += recoverable
        self._user_traffic = True
        self._user_us = self._now
        data = packets.data if isinstance(packets, Run) else packets
        self.output.append(data if self.traces else untraced_packets(data))
        if not self._wait_due and self._sent > self._acked:
            self._wait_due = now_us + self._wait_us()
            self._heard = False
            self.timer_set = True

    def _wait_us(self) -> int:
        return self._ack_ms * MS_US * self._wait_factor

    def slow(self, now_us: int, *, slow: bool = True) -> None:
        """Ask the peer for one message at a time (Q-8, memory shortage), or for a full window."""
        if self._slow != slow and self._state is SessionState.OPEN:
            self._now = now_us
            self._slow = slow
            self._report()

    # ---- time -----------------------------------------------------------------------------

    def next_timer(self) -> int | None:
        """Return the monotonic microseconds at which ``tick`` has work, or None."""
        self.timer_set = False
        if self._state is SessionState.CLOSED:
            return None
        due = (self._init_due, self._ack_due, self._wait_due, self._idle_due)
        return min(filter(None, due), default=None)

    def tick(self, now_us: int) -> list[Event]:
        """Do what is due at this time."""
        self._now = now_us
        if self._state is SessionState.CLOSED:
            return []
        if self._init_due and now_us >= self._init_due:
            return [self._close("set-up of the session took too long")]
        if self._ack_due and now_us >= self._ack_due:
            self._report()
        if self._wait_due and now_us >= self._wait_due:
            assert self._sent > self._acked, "waiting for nothing"
            if not self._heard:
                return [self._close("the peer has not acknowledged anything in time")]
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
        """End the session from our side."""
        if self._state is not SessionState.CLOSED:
            self._close(reason)

    def _close(self, reason: str) -> Closed:
        self._state = SessionState.CLOSED
        return Closed(reason)

    def _fail(self, error: PeerError) -> Closed:
        self._state = SessionState.CLOSED
        return Closed(f"{error.code}: {error.text}", error)
