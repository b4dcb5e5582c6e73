"""Two queue managers of a test, and the way between them in its hands: it loses, repeats and delays
messages, and can be cut.

The relay between them ends two sessions, one facing each side, because both ends of a session
count.

Both managers speak their real protocol over real connections. These lead through a relay, because a
network that loses whole messages cannot be had from a proxy of bytes: a broken connection is made
again, and its sessions send what was not acknowledged.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from onceq.model.run import Buffer
from onceq.model.settings import Settings
from onceq.packet import address as at
from onceq.packet.arrived import USER, ArrivedRun
from onceq.service.clock import SystemClock
from onceq.testing.managers import QUICK, Manager
from onceq.wire.mqqb.internal import SESSION_ACK_BYTES
from onceq.wire.mqqb.session import Acked, Arrived, Closed, Event, Opened, Session

# ---- relay ---------------------------------------------------------------------------------------
#
# Somebody in the middle of a connection between two queue managers.


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
    """The way between two queue managers of a test. Times are monotonic microseconds."""

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
            pieces = [
                piece
                for piece in pieces
                if len(piece) != SESSION_ACK_BYTES or not piece[2] & at.BASE_INTERNAL
            ]
        return b"".join(pieces)


# ---- links ---------------------------------------------------------------------------------------


T = TypeVar("T")
HOST: Final = "127.0.0.1"


_CLOCK: Final = SystemClock()


def _now_us() -> int:
    return _CLOCK.read().mono_us


class Link:
    """The way between two managers, in both directions; faithful until the test says otherwise.

    Only transactional messages and the acknowledgments of managers are lost, repeated and delayed:
    the delivery of others rests on the connection. ``cut`` is for all.

    Attributes:
        lost, passed: Messages and acknowledgments so far.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._loss = self._repeat = 0.0
        self._delay_s = self._jitter_s = 0.0
        self._up = True
        self.lost = self.passed = 0
        self._wires: set[_Wire] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._servers: list[asyncio.Server] = []

    def bad(
        self, *, loss: float = 0.0, repeat: float = 0.0, delay_s: float = 0.0, jitter_s: float = 0.0
    ) -> None:
        """What happens from now on to all that passes.

        Args:
            loss, repeat: Shares of it that are lost, and that come twice: 0 to 1.
            delay_s: Seconds that each needs,
            jitter_s: and up to this much more, by chance, so that one overtakes another.
        """
        if not (0 <= loss <= 1 and 0 <= repeat <= 1 and delay_s >= 0 and jitter_s >= 0):
            raise ValueError("loss and repeat are shares from 0 to 1, delays are seconds")
        self._loss, self._repeat, self._delay_s, self._jitter_s = loss, repeat, delay_s, jitter_s

    def cut(self) -> None:
        """Break every connection, and let none be made until ``heal``."""
        self._up = False
        self._in_loop(self._break())

    def heal(self) -> None:
        """Be faithful again, and let connections be made."""
        self.bad()
        self._up = True

    def close(self) -> None:
        """End it."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---- in its loop ----------------------------------------------------------------------

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _break(self) -> None:
        for wire in list(self._wires):
            wire.end()

    def _listen(self, between: Callable[[], tuple[Manager, Manager]]) -> str:
        """Take connections of one manager to the other; returns the address."""

        async def start() -> str:
            def accept() -> asyncio.Protocol:
                return _End(_Wire(self, *between()), 0)

            server = await self._loop.create_server(accept, HOST, 0)
            self._servers.append(server)
            return f"{HOST}:{server.sockets[0].getsockname()[1]}"

        return self._in_loop(start())

    def _decide(self, passing: Passing) -> list[tuple[int, Passing]]:
        if passing.kind == USER and not passing.transactional:
            return faithful(passing)
        chance = self._random
        if chance.random() < self._loss:
            self.lost += 1
            return []
        self.passed += 1
        copies = 2 if chance.random() < self._repeat else 1
        return [(self._wait_us(), passing) for _ in range(copies)]

    def _wait_us(self) -> int:
        return int((self._delay_s + self._random.random() * self._jitter_s) * 1e6)


class _Wire:
    """One connection with a relay in its middle."""

    def __init__(self, link: Link, initiator: Manager, acceptor: Manager) -> None:
        self._link = link
        self._acceptor = acceptor
        self._ends: list[asyncio.Transport | None] = [None, None]
        self._waiting = b""
        self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self._relay = Relay(
            initiator_id=initiator.id, acceptor_id=acceptor.id, settings=QUICK,
            policy=link._decide, now_us=_now_us(),
        )  # fmt: skip
        link._wires.add(self)

    def connect(self, side: int, transport: asyncio.Transport) -> None:
        """Take the connection of an end; the first one starts the search for the other."""
        self._ends[side] = transport
        if side:
            self._move()
        elif not self._link._up or not self._acceptor.running:
            self.end()
        else:
            self._reaching = self._link._loop.create_task(self._reach())

    async def _reach(self) -> None:
        host, _, port = self._acceptor.address.rpartition(":")
        try:
            await self._link._loop.create_connection(lambda: _End(self, 1), host, int(port))
        except OSError:
            self.end()

    def receive(self, side: int, data: bytes) -> None:
        """Take bytes of one end."""
        if not self._over:
            self._relay.receive(side, data, _now_us())
            self._move()

    def _move(self) -> None:
        if self._over:
            return
        now_us = _now_us()
        self._relay.tick(now_us)
        for side, end in enumerate(self._ends):
            if end is not None:
                end.write(self._relay.take_output(side))
        if self._relay.closed:
            self.end()
            return
        if self._timer is not None:
            self._timer.cancel()
        due = self._relay.next_timer()
        if due is not None:
            wait_s = max(due - now_us, 1_000) / 1e6
            self._timer = self._link._loop.call_later(wait_s, self._move)

    def end(self) -> None:
        """Both ends lose the connection."""
        self._over = True
        self._link._wires.discard(self)
        for end in self._ends:
            if end is not None:
                end.abort()


class _End(asyncio.Protocol):
    """One end of it, as asyncio sees it."""

    def __init__(self, wire: _Wire, side: int) -> None:
        self._wire, self._side = wire, side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of a connection that was made (asyncio)."""
        self._wire.connect(self._side, cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        """Take bytes that arrived (asyncio)."""
        self._wire.receive(self._side, data)

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the connection broke (asyncio)."""
        self._wire.end()


class Pair:
    """Two managers, ALPHA and BETA, that reach each other over a ``Link``.

    Attributes:
        alpha, beta: The managers.
        link: The way between them.
    """

    def __init__(
        self, folder: str | PathLike[str], *, settings: Settings = QUICK, seed: int = 0
    ) -> None:
        self.link = Link(seed)
        to_beta = self.link._listen(lambda: (self.alpha, self.beta))
        to_alpha = self.link._listen(lambda: (self.beta, self.alpha))
        listen = f"{HOST}:0"
        self.alpha = Manager(
            Path(folder) / "alpha", "ALPHA", settings=settings, listen=listen,
            peers={"BETA": to_beta},
        )  # fmt: skip
        self.beta = Manager(
            Path(folder) / "beta", "BETA", settings=settings, listen=listen,
            peers={"ALPHA": to_alpha},
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def put_forward(self, seconds: float) -> None:
        """Let so much time pass for both."""
        self.alpha.put_forward(seconds)
        self.beta.put_forward(seconds)

    def close(self) -> None:
        """Stop both."""
        self.alpha.close()
        self.beta.close()
        self.link.close()
