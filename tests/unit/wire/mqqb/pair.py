"""Two sessions with a wire between them, and packets for one that talks to us alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onceq.model.identity import NO_GUID
from onceq.model.message import Delivery, Properties
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.packet.address import DIRECT, Address
from onceq.packet.encode import encode_run, template
from onceq.wire.mqqb.internal import UNTOLD, Establish, Life, Parameters, SessionHeader
from onceq.wire.mqqb.session import Acked, Arrived, Closed, Event, Session

A, B = b"A" * 16, b"B" * 16
SECOND = 1_000_000
SETTINGS = Settings(session_window_messages=64)


def users(count: int, *, recoverable: bool = True, size: int = 4) -> Run:
    made = template(
        source=A, destination=Address(DIRECT, direct="OS:B\\q"), sent_time=1, transactional=False,
        properties=Properties(delivery=Delivery(int(recoverable))),
    )  # fmt: skip
    return encode_run(made, Run.of([b"x" * size] * count), first_message=1)


def joined(session: Session) -> bytes:
    return b"".join(bytes(part) for part in session.take_output())


class Pair:
    """Two sessions with a wire between them, and what each was told."""

    def __init__(
        self, first: Settings = SETTINGS, second: Settings = SETTINGS, *, step: int = 0,
        lives: tuple[Life, Life] = (UNTOLD, UNTOLD),
    ) -> None:  # fmt: skip
        self.now = 0
        self.step = step
        self.a = Session(initiator=True, own_id=A, settings=first, now_us=0, life=lives[0])
        self.b = Session(initiator=False, own_id=B, settings=second, now_us=0, life=lives[1])
        self.told: dict[Session, list[Event]] = {self.a: [], self.b: []}

    def run(self) -> None:
        """Carry bytes until both are silent."""
        while True:
            there, back = joined(self.a), joined(self.b)
            if not there and not back:
                return
            self.carry(self.b, there)
            self.carry(self.a, back)

    def carry(self, to: Session, data: bytes) -> None:
        step = self.step or max(len(data), 1)
        for at in range(0, len(data), step):
            self.told[to] += to.receive(data[at : at + step], self.now)

    def open(self) -> Pair:
        self.a.start()
        self.run()
        self.told[self.a].clear()
        self.told[self.b].clear()
        return self

    def send(self, count: int, *, recoverable: bool = True, back: bool = False) -> None:
        sender = self.b if back else self.a
        sender.send(
            users(count, recoverable=recoverable), count=count,
            recoverable=count if recoverable else 0, now_us=self.now,
        )  # fmt: skip

    def tick(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        for session in (self.a, self.b):
            self.told[session] += session.tick(self.now)

    def arrived(self, session: Session) -> tuple[int, int]:
        found = [event for event in self.told[session] if isinstance(event, Arrived)]
        for event in found:
            assert sum(len(run.packets) for run in event.runs) == event.messages
        return sum(e.messages for e in found), sum(e.recoverable for e in found)

    def acked(self, session: Session) -> tuple[int, int]:
        found = [event for event in self.told[session] if isinstance(event, Acked)]
        return (found[-1].messages, found[-1].recoverable) if found else (0, 0)

    def closed(self, session: Session) -> Closed | None:
        found = [event for event in self.told[session] if isinstance(event, Closed)]
        assert len(found) <= 1
        assert bool(found) == session.closed
        return found[0] if found else None


EC = Establish(A, NO_GUID, 0).encode()
EC_BACK = Establish(A, B, 0).encode()
CP = Parameters(500, 20_000, 64).encode()
ACK = SessionHeader(0, 0, 0, 0, 0, 64).encode()
USER = bytes(users(1).data)


def opened() -> Session:
    """An acceptor that received 3 messages, 2 of them recoverable, and sent 5, 4 of them."""
    session = Session(initiator=False, own_id=B, settings=SETTINGS, now_us=0)
    data = EC + CP + bytes(users(2).data) + bytes(users(1, recoverable=False).data)
    *_, event = session.receive(data, 0)
    assert isinstance(event, Arrived)
    assert (event.messages, event.recoverable) == (3, 2)
    session.send(users(4), count=4, recoverable=4, now_us=0)
    session.send(users(1, recoverable=False), count=1, recoverable=0, now_us=0)
    joined(session)
    return session


def header(**values: Any) -> SessionHeader:
    return replace(SessionHeader(0, 0, 0, 3, 2, 64), **values)
