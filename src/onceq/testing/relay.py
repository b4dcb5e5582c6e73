"""Somebody in the middle of a connection between two queue managers.

A network that drops, repeats and reorders whole messages cannot be had from a TCP proxy, because
both ends of a session count. So the relay ends two sessions, one facing each side, and hands the
user packets of one to the other as a policy says. Both managers run their real protocol and see a
peer that counts right; what they see of each other's messages is up to the policy.

Transactional messages are acknowledged towards their sender at once, because no session
acknowledgment lets those be forgotten. Others are acknowledged only after the other side has
acknowledged them, and policies should let them pass: their delivery rests on the session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from onceq.model.run import Buffer
from onceq.model.settings import Settings
from onceq.packet import layout as at
from onceq.packet.arrived import ArrivedRun
from onceq.wire.mqqb.internal import SESSION_ACK_BYTES
from onceq.wire.mqqb.session import Acked, Arrived, Closed, Event, Opened, Session


@dataclass(frozen=True, slots=True)
class Passing:
    """One user packet on its way.

    Attributes:
        direction: 0 from the initiator of the connection, 1 towards it.
        run: What the packet is part of; ``index`` says where.
        sender: GUID of the queue manager at that end of the connection.
    """

    direction: int
    packet: bytes
    run: ArrivedRun
    index: int
    sender: bytes = b""

    @property
    def kind(self) -> int:
        """USER, ORDER_ACK or FINAL_ACK of ``packet.arrived``."""
        return self.run.kind

    @property
    def transactional(self) -> bool:
        """Whether it belongs to a message stream."""
        return self.run.transactional

    @property
    def stream(self) -> int:
        """Its stream."""
        return self.run.stream

    @property
    def number(self) -> int:
        """Its sequence number; 0 if it has none."""
        return self.run.first_number + self.index if self.run.transactional else 0

    @property
    def previous(self) -> int:
        """Its previous number."""
        return self.number - 1 if self.index else self.run.first_previous


Policy = Callable[[Passing], list[tuple[int, Passing]]]
"""Says what becomes of a packet: copies of it, each with a delay in microseconds."""


def faithful(passing: Passing) -> list[tuple[int, Passing]]:
    """The policy of a good network."""
    return [(0, passing)]


@dataclass(slots=True)
class _Side:
    session: Session
    backlog: deque[Passing] = field(default_factory=deque)
    owed: deque[list[int]] = field(default_factory=deque)
    """Recoverable messages received here: [their number in the other session or 0, 1 if safe]."""
    sent_recoverable: int = 0
    safe: int = 0


class Relay:
    """See the module. Times are monotonic microseconds."""

    def __init__(
        self,
        *,
        initiator_id: bytes,
        acceptor_id: bytes,
        settings: Settings,
        policy: Policy,
        now_us: int,
    ) -> None:
        # What is dropped here has not passed on the other side, which must not look idle for it.
        settings = replace(settings, session_idle_s=1e9)
        left = Session(initiator=False, own_id=acceptor_id, settings=settings, now_us=now_us)
        right = Session(initiator=True, own_id=initiator_id, settings=settings, now_us=now_us)
        right.start()
        self._sides = (_Side(left), _Side(right))
        self._policy = policy
        self._senders = (initiator_id, acceptor_id)
        self.muted: set[int] = set()
        """Sides that are sent no session acknowledgments."""
        self._later: list[tuple[int, int, int, Passing]] = []
        self._count = 0
        self.closed = ""

    def receive(self, side: int, data: Buffer, now_us: int) -> None:
        """Bytes from the initiator's (0) or the acceptor's (1) connection."""
        self._handle(side, self._sides[side].session.receive(data, now_us), now_us)

    def _handle(self, side: int, events: list[Event], now_us: int) -> None:
        for event in events:
            if isinstance(event, Arrived):
                for run in event.runs:
                    for index, packet in enumerate(run.packets):
                        passing = Passing(side, bytes(packet), run, index, self._senders[side])
                        self._pass(passing, now_us)
            elif isinstance(event, Acked):
                self._acked(side, event, now_us)
            elif isinstance(event, Opened):
                self._flush(side, now_us)
            elif isinstance(event, Closed):
                self.closed = self.closed or event.reason
        for number in (0, 1):
            self._flush(number, now_us)

    def _pass(self, passing: Passing, now_us: int) -> None:
        side = self._sides[passing.direction]
        if passing.run.recoverable:
            safe = 1 if passing.transactional else 0
            side.owed.append([id(passing), safe])
        for delay, copy in self._policy(passing):
            self.inject(copy, now_us + delay)
        self._settle(passing.direction, now_us)

    def inject(self, passing: Passing, at_us: int) -> None:
        """Let a packet go on at that time; also one that was kept from before."""
        self._count += 1
        self._later.append((at_us, self._count, 1 - passing.direction, passing))

    def _settle(self, side: int, now_us: int) -> None:
        owed = self._sides[side].owed
        done = 0
        while owed and owed[0][1]:
            owed.popleft()
            done += 1
        if done:
            self._sides[side].session.persisted(done, now_us)

    def _acked(self, side: int, event: Acked, now_us: int) -> None:
        """What one side has safely, the other side's sender may be told."""
        here, other = self._sides[side], self._sides[1 - side]
        if event.recoverable > here.safe:
            here.safe = event.recoverable
            for entry in other.owed:
                if not entry[1] and 0 < entry[0] <= here.safe:
                    entry[1] = 1
            self._settle(1 - side, now_us)

    def _flush(self, side: int, now_us: int) -> None:
        here, other = self._sides[side], self._sides[1 - side]
        session = here.session
        while here.backlog and session.room:
            passing = here.backlog.popleft()
            recoverable = int(passing.run.recoverable)
            if recoverable:
                here.sent_recoverable += 1
                for entry in other.owed:
                    if entry[0] == id(passing):
                        entry[0] = here.sent_recoverable
            session.send(passing.packet, count=1, recoverable=recoverable, now_us=now_us)

    def next_timer(self) -> int | None:
        """When ``tick`` is wanted."""
        times = [s.session.next_timer() for s in self._sides]
        times += [at for at, _, _, _ in self._later]
        return min((at for at in times if at is not None), default=None)

    def tick(self, now_us: int) -> None:
        """Time has passed."""
        due = sorted(
            (entry for entry in self._later if entry[0] <= now_us), key=lambda entry: entry[:2]
        )
        self._later = [entry for entry in self._later if entry[0] > now_us]
        for _, _, side, passing in due:
            self._sides[side].backlog.append(passing)
        for side in (0, 1):
            self._flush(side, now_us)
            self._handle(side, self._sides[side].session.tick(now_us), now_us)

    def take_output(self, side: int) -> bytes:
        """Bytes for the initiator's (0) or the acceptor's (1) connection."""
        pieces = self._sides[side].session.take_output()
        if side in self.muted:
            pieces = [piece for piece in pieces if not _is_session_ack(piece)]
        return b"".join(pieces)


def _is_session_ack(piece: Buffer) -> bool:
    return len(piece) == SESSION_ACK_BYTES and bool(piece[2] & at.BASE_INTERNAL)
