"""Connections with other managers: when something is asked for, written, and given up."""

from __future__ import annotations

from typing import TypeVar

import pytest

from onceq.core.decision import CloseSession, Connect, Decision, Persisted, Ready, Transmit
from onceq.core.inputs import (
    Arrived,
    ConnectFailed,
    Input,
    Room,
    SessionAcked,
    SessionClosed,
    SessionOpened,
    Tick,
)
from onceq.errors import SyncFailed
from onceq.model.message import Properties
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.packet.address import DIRECT, Address
from onceq.packet.arrived import cut
from onceq.packet.encode import encode_run, template
from onceq.service import sessions
from onceq.wire.mqqb.session import Session
from tests.unit.service.fakes import House, Wire
from tests.unit.wire.mqqb.pair import SETTINGS, users

PEER = b"P" * 16


class Peer:
    """The other end of one connection: a real session."""

    def __init__(self, house: House, *, outgoing: int = 0) -> None:
        self.house = house
        self.wire = Wire()
        now = house.clock.now_us
        self.session = Session(initiator=not outgoing, own_id=PEER, settings=SETTINGS, now_us=now)
        if outgoing:
            self.number = house.engine.sessions.connected(outgoing, self.wire, "10.0.0.2")
        else:
            self.number = house.engine.sessions.accepted(self.wire, "10.0.0.2")
            self.session.start()
        self.events: list[object] = []

    def talk(self) -> None:
        """Carry bytes until both are silent."""
        while True:
            there = b"".join(map(bytes, self.session.take_output()))
            back = self.wire.take()
            if not there and not back:
                return
            if back:
                self.events += self.session.receive(back, self.house.clock.now_us)
            if there:
                self.house.engine.sessions.data(self.number, there)

    def open(self) -> Peer:
        self.talk()
        assert self.session.opened
        self.house.pump()
        return self


def house(**settings: float) -> House:
    return House(settings=Settings(disk_reserve_bytes=100, **settings)).start()  # type: ignore[arg-type]


K = TypeVar("K")


def kinds(made: House, *wanted: type[K]) -> list[K]:
    return [item for item in made.core.seen if isinstance(item, wanted)]


def test_both_roles_open_and_the_core_is_told() -> None:
    made = house()
    Peer(made).open()
    Peer(made, outgoing=5).open()
    assert kinds(made, SessionOpened) == [
        SessionOpened(1, PEER, "10.0.0.2", 0, True, delays=True, publics=True),
        SessionOpened(2, PEER, "10.0.0.2", 5, True, delays=True, publics=True),
    ]


def test_what_a_peer_sends_goes_to_the_core_and_is_acknowledged_only_when_persisted() -> None:
    made = house()
    peer = Peer(made).open()
    peer.session.send(users(3), count=3, recoverable=3, now_us=made.clock.now_us)
    peer.talk()
    made.pump()
    (arrived,) = kinds(made, Arrived)
    assert isinstance(arrived, Arrived)
    assert len(arrived.run.packets) == 3
    made.pass_s(30)
    made.engine.tick()
    made.pump()
    first = peer.wire.take()
    assert first, "the messages have come: that is said"
    peer.events += peer.session.receive(first, made.clock.now_us)
    assert peer.events[-1].recoverable == 0  # type: ignore[attr-defined]
    made.core.decide = lambda item: Decision([], [Persisted(1, 3)])
    made.pump(Tick())
    made.core.decide = lambda item: None
    made.pass_s(120)
    made.engine.tick()
    made.pump()
    peer.talk()
    assert peer.events[-1].recoverable == 3  # type: ignore[attr-defined]


def test_the_core_is_asked_only_while_there_is_room() -> None:
    made = house(session_window_messages=4)
    peer = Peer(made).open()

    def decide(item: Input) -> Decision | None:
        if isinstance(item, Tick):
            return Decision([], [Ready(1)])
        if isinstance(item, Room):
            packets = users(min(item.messages, 3))
            count = len(packets)
            sent = Transmit(1, (bytes(packets.data),), count, count, more=True)
            return Decision([], [sent])
        return None

    made.core.decide = decide
    assert made.pump(Tick()) is True, "one packet more has room"
    assert made.pump() is False, "the window is full"
    assert made.pump() is False, "and it stays so"
    assert [room.messages for room in kinds(made, Room)] == [4, 1]
    peer.talk()
    made.core.seen.clear()
    peer.session.tick(made.clock.now_us + 25_000_000)
    peer.talk()
    made.pump()
    assert kinds(made, SessionAcked), "the peer has got them"
    assert kinds(made, Room), "so there is room again"


def test_a_connection_that_takes_nothing_is_not_written_to() -> None:
    made = house()
    peer = Peer(made).open()
    peer.wire.writable = False
    packets = users(1)

    def decide(item: Input) -> Decision | None:
        if isinstance(item, Tick):
            return Decision([], [Ready(1)])
        if isinstance(item, Room):
            return Decision([], [Transmit(1, (bytes(packets.data),), 1, 1)])
        return None

    made.core.decide = decide
    assert made.pump(Tick()) is False
    assert not kinds(made, Room)
    peer.wire.writable = True
    made.notes.clear()
    made.engine.sessions.writable(peer.number)
    assert made.notes == ["wake"]
    assert made.engine.has_work
    made.pump()
    assert len(kinds(made, Room)) == 1
    assert peer.wire.take() == bytes(packets.data)


def test_sessions_may_begin_to_want_while_another_thread_looks() -> None:
    """Threads of an application look without the lock whether there is anything to do."""
    made = house()
    one, other = Peer(made).open(), Peer(made).open()

    class Changing:
        """A connection during whose look another session begins to want."""

        @property
        def writable(self) -> bool:
            made.engine.sessions.ready(Ready(other.number))
            return False

    other.wire.writable = False
    made.engine.sessions._links[one.number].connection = Changing()  # type: ignore[assignment]
    made.engine.sessions.ready(Ready(one.number))
    assert made.engine.has_work is False


def test_several_sessions_share_the_sync_of_what_they_are_to_transmit() -> None:
    made = house()
    peers = [Peer(made).open() for _ in range(3)]
    packets = users(1)

    def decide(item: Input) -> Decision | None:
        if isinstance(item, Tick):
            return Decision([], [Ready(peer.number) for peer in peers])
        if isinstance(item, Room):
            sent = Transmit(item.session, (bytes(packets.data),), 1, 1)
            return made.core.decision(sent, records=f"numbers{item.session}")
        return None

    made.core.decide = decide
    made.notes.clear()
    made.pump(Tick())
    assert made.notes == ["append numbers1", "append numbers2", "append numbers3", "sync"]
    assert all(peer.wire.writes == [bytes(packets.data)] for peer in peers)


def test_numbers_that_cannot_be_made_durable_are_never_transmitted() -> None:
    made = house()
    peer = Peer(made).open()

    def decide(item: Input) -> Decision | None:
        if isinstance(item, Tick):
            return Decision([], [Ready(1)])
        if isinstance(item, Room):
            sent = Transmit(1, (bytes(users(1).data),), 1, 1)
            return made.core.decision(sent, records="numbers")
        return None

    made.core.decide = decide
    made.store.fail["sync"] = SyncFailed("EIO")
    made.pump(Tick())
    assert len(made.failures) == 1
    assert peer.wire.writes == []


def test_all_that_one_pump_says_on_a_connection_is_one_write() -> None:
    made = house()
    peer = Peer(made).open()
    packets = users(2)
    first, second = map(bytes, packets)
    made.core.decide = lambda item: (
        Decision(
            [],
            [Transmit(1, (first,), 1, 1), Transmit(1, (second,), 1, 1)],
        )
        if isinstance(item, Tick)
        else None
    )
    made.pump(Tick())
    assert peer.wire.writes == [bytes(packets.data)]


def test_previous_numbers_are_written_into_the_copy_that_is_sent() -> None:
    shape = template(
        source=PEER, destination=Address(DIRECT, direct="OS:B\\q"), sent_time=1,
        transactional=True, properties=Properties(),
    )  # fmt: skip
    packets = encode_run(shape, Run.of([b"x"] * 2), first_message=1, stream=7, first_number=5)
    made = house()
    peer = Peer(made).open()
    data = bytes(packets.data)
    sent = Transmit(1, (data,), 2, 2, relink=((0, 0), (packets.lengths[0], 3)))
    made.core.decide = lambda item: Decision([], [sent]) if isinstance(item, Tick) else None
    made.pump(Tick())
    written = peer.wire.take()
    assert written != data
    runs = cut(written, packets.lengths)
    assert [(run.first_number, run.first_previous) for run in runs] == [(5, 0), (6, 3)]
    assert data == bytes(packets.data), "the stored bytes stay"


def test_a_half_open_connection_is_closed_in_time_although_nothing_happens() -> None:
    made = house(session_init_s=60)
    wire = Wire()
    made.engine.sessions.accepted(wire, "10.0.0.9")
    due = made.engine.next_timer()
    assert due is not None
    made.clock.now_us = due
    made.engine.tick()
    assert wire.closed
    assert made.pump() is False
    assert kinds(made, SessionClosed, ConnectFailed) == [], "the core never knew of it"


def test_a_connection_of_ours_that_is_never_answered_counts_as_failed() -> None:
    made = house()
    wire = Wire()
    made.engine.sessions.connected(7, wire, "10.0.0.9")
    made.clock.now_us = made.engine.next_timer() or 0
    made.engine.tick()
    made.pump()
    (failed,) = kinds(made, ConnectFailed)
    assert isinstance(failed, ConnectFailed)
    assert failed.outgoing == 7
    assert wire.closed


def test_timers_of_many_sessions_ring_when_due_and_only_then() -> None:
    made = house(session_init_s=60)
    wires = []
    for _ in range(200):
        wires.append(Wire())
        made.engine.sessions.accepted(wires[-1], "10.0.0.9")
        made.pass_s(0.1)
    first = made.engine.next_timer()
    made.clock.now_us = (first or 0) + 10_000_000
    made.engine.tick()
    closed = [wire.closed for wire in wires]
    assert closed == [True] * 101 + [False] * 99
    made.pass_s(100)
    made.engine.tick()
    assert all(wire.closed for wire in wires)
    assert made.engine.sessions.next_timer() is None


def test_the_timers_of_a_busy_session_do_not_pile_up() -> None:
    made = house()
    peer = Peer(made).open()
    for _ in range(300):
        peer.session.send(users(1), count=1, recoverable=1, now_us=made.clock.now_us)
        peer.talk()
        made.pump()
        made.pass_s(15)
        made.engine.tick()
        peer.session.tick(made.clock.now_us)
        peer.talk()
    assert not peer.wire.closed
    assert len(made.engine.sessions._timers) <= 4 * 1 + 64 + 1


def test_a_session_on_which_nothing_happens_is_closed_in_time() -> None:
    """Its first timer was for the set-up; that one rings in vain and must not be the last."""
    made = house(session_init_s=60, session_idle_s=300)
    peer = Peer(made).open()
    rings: list[int] = []
    while not peer.wire.closed and len(rings) < 10:
        due = made.engine.next_timer()
        assert due is not None
        rings.append((due - made.clock.now_us) // 1_000_000)
        made.clock.now_us = due
        made.engine.tick()
        made.pump()
    assert rings[0] == 60
    assert kinds(made, SessionClosed) == [SessionClosed(1, "idle", True)]


def test_a_lost_connection_is_told_once() -> None:
    made = house()
    peer = Peer(made).open()
    made.engine.sessions.gone(peer.number, "the cable")
    made.engine.sessions.gone(peer.number, "the cable")
    made.engine.sessions.data(peer.number, b"late")
    made.pump()
    assert kinds(made, SessionClosed) == [SessionClosed(1, "the cable", False)]


def test_a_peer_that_talks_nonsense_is_closed_and_the_core_told_why() -> None:
    made = house()
    peer = Peer(made).open()
    made.engine.sessions.data(peer.number, b"GET / HTTP/1.1\r\n\r\n")
    made.pump()
    (closed,) = kinds(made, SessionClosed)
    assert isinstance(closed, SessionClosed)
    assert "malformed-packet" in closed.reason
    assert peer.wire.closed


def test_the_core_can_end_a_session() -> None:
    made = house()
    peer = Peer(made).open()
    made.core.decide = lambda item: (
        Decision([], [CloseSession(1, "identity-clash")]) if isinstance(item, Tick) else None
    )
    made.pump(Tick())
    assert peer.wire.closed
    made.pump()
    assert kinds(made, SessionClosed) == [SessionClosed(1, "identity-clash", False)]


def test_connect_carries_the_expected_peer_to_the_session() -> None:
    made = house()
    expected = b"E" * 16
    made.core.decide = lambda item: (
        Decision([], [Connect(4, "", "", expected)]) if isinstance(item, Tick) else None
    )
    made.pump(Tick())
    assert "connect 4  " in made.notes
    peer = Peer(made, outgoing=4)
    peer.talk()
    made.pump()
    (failed,) = kinds(made, ConnectFailed)
    assert isinstance(failed, ConnectFailed)
    assert failed.outgoing == 4, "another manager answered than was expected"


def test_more_than_a_limit_from_peers_is_persisted_before_more_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = house()
    peer = Peer(made).open()
    monkeypatch.setattr(sessions, "UNPERSISTED_BYTES_MAX", 2_000)
    made.core.seen.clear()
    for _ in range(10):
        peer.session.send(users(1, size=400), count=1, recoverable=1, now_us=made.clock.now_us)
        made.engine.sessions.data(peer.number, b"".join(map(bytes, peer.session.take_output())))
    seen = len(kinds(made, Arrived))
    assert 5 <= seen < 10, "some were pumped without the host"
    made.pump()
    assert len(kinds(made, Arrived)) == 10


def test_stopping_ends_every_session() -> None:
    made = house()
    peers = [Peer(made).open(), Peer(made, outgoing=2).open()]
    made.engine.stop()
    assert all(peer.wire.closed for peer in peers)
    assert made.engine.sessions.next_timer() is None
