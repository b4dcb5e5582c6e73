"""Two sessions talking to each other: set-up, windows, acknowledgments, time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceq.errors import IdentityClash, ProtocolState
from onceq.model.identity import NO_GUID
from onceq.wire.mqqb.internal import UNTOLD, Establish, Life, Parameters, SessionHeader, parse
from onceq.wire.mqqb.session import Acked, Closed, Opened, Session
from tests.unit.wire.mqqb.pair import (
    ACK,
    CP,
    EC,
    EC_BACK,
    SECOND,
    SETTINGS,
    USER,
    A,
    B,
    Pair,
    header,
    joined,
    opened,
    users,
)

# ---- set-up --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 1, 13, 500])
def test_handshake(step: int) -> None:
    pair = Pair(step=step)
    assert (pair.a.opened, pair.b.opened, pair.a.room) == (False, False, 0)
    pair.a.start()
    pair.run()
    assert pair.told == {
        pair.a: [Opened(B, True, delays=True, publics=True)],
        pair.b: [Opened(A, True, delays=True, publics=True)],
    }
    assert (pair.a.peer_id, pair.b.peer_id) == (B, A)
    assert pair.a.opened
    assert pair.b.opened
    assert (pair.a.room, pair.b.room) == (64, 64)


def test_what_the_initiator_sends() -> None:
    session = Session(initiator=True, own_id=A, settings=SETTINGS, now_us=5_000_000)
    session.start()
    asked = parse(joined(session))
    assert isinstance(asked, Establish)
    assert asked.extended
    assert replace(asked, padding=bytes(512)) == Establish(A, NO_GUID, 5000)
    session.receive(Establish(A, B, 5000).encode(), 5_200_000)
    assert parse(joined(session)) == Parameters(8 * 200, 20_000, 64)


@pytest.mark.parametrize(
    ("trip_ms", "expected"), [(0, 500), (62, 500), (63, 504), (15_000, 120_000), (30_000, 120_000)]
)
def test_recoverable_acknowledgments_take_eight_round_trips(trip_ms: int, expected: int) -> None:
    session = Session(initiator=True, own_id=A, settings=SETTINGS, now_us=0)
    session.start()
    joined(session)
    session.receive(Establish(A, B, 0).encode(), trip_ms * 1000)
    packet = parse(joined(session))
    assert isinstance(packet, Parameters)
    assert packet.recoverable_ack_ms == expected


@pytest.mark.parametrize("who", ["initiator", "acceptor"])
def test_the_extension_is_used_only_if_both_know_it(who: str) -> None:
    plain = replace(SETTINGS, settle_doubts=False)
    pair = Pair(*((plain, SETTINGS) if who == "initiator" else (SETTINGS, plain)))
    pair.a.start()
    pair.run()
    assert pair.told == {pair.a: [Opened(B, False)], pair.b: [Opened(A, False)]}


def test_each_side_tells_its_life() -> None:
    first, second = Life(b"1" * 16, 17), Life(b"2" * 16, 18)
    pair = Pair(lives=(first, second))
    pair.a.start()
    pair.run()
    assert pair.told == {
        pair.a: [Opened(B, True, life=second, delays=True, publics=True)],
        pair.b: [Opened(A, True, life=first, delays=True, publics=True)],
    }
    older = Pair(lives=(first, UNTOLD))
    older.a.start()
    older.run()
    assert older.told[older.a] == [Opened(B, True, delays=True, publics=True)], (
        "an onceq that tells none"
    )


def test_a_peer_that_does_not_ask_sees_only_what_is_published() -> None:
    session = Session(initiator=False, own_id=B, settings=SETTINGS, now_us=0)
    session.receive(Establish(A, B, 77, padding=b"\x11" * 512).encode(), 0)
    answer = parse(joined(session))
    assert isinstance(answer, Establish)
    assert answer.padding == b"\x5a" * 512


def test_what_the_acceptor_answers() -> None:
    session = Session(initiator=False, own_id=B, settings=SETTINGS, now_us=0)
    assert session.receive(Establish(A, B, 77, system=0x0310).encode(), 0) == []
    assert parse(joined(session)) == Establish(A, B, 77, 0x0110, padding=b"\x5a" * 512)
    assert session.receive(Parameters(1496, 120_000, 32).encode(), 0) == [Opened(A)]
    assert parse(joined(session)) == Parameters(1496, 120_000, 64)
    assert session.room == 32


def test_smaller_window_decides() -> None:
    pair = Pair(replace(SETTINGS, session_window_messages=1024), SETTINGS).open()
    assert (pair.a.room, pair.b.room) == (64, 64)


def test_expected_peer() -> None:
    for expected, opens in ((B, True), (A[:15] + b"!", False)):
        session = Session(
            initiator=True, own_id=A, expected_peer=expected, settings=SETTINGS, now_us=0
        )
        session.start()
        packet = parse(joined(session))
        assert isinstance(packet, Establish)
        assert packet.server == expected
        session.receive(Establish(A, B, 0).encode(), 0)
        assert session.closed is not opens


def test_our_own_identity_at_the_other_end() -> None:
    """I25: a copy of this manager, or this manager itself."""
    acceptor = Session(initiator=False, own_id=A, settings=SETTINGS, now_us=0)
    (event,) = acceptor.receive(Establish(A, NO_GUID, 0).encode(), 0)
    assert isinstance(event, Closed)
    assert isinstance(event.error, IdentityClash)
    answer = parse(joined(acceptor))
    assert isinstance(answer, Establish)
    assert answer.refused
    initiator = Session(initiator=True, own_id=A, settings=SETTINGS, now_us=0)
    initiator.start()
    (event,) = initiator.receive(answer.encode(), 0)
    assert isinstance(event, Closed)
    assert isinstance(event.error, IdentityClash)


def test_the_life_of_our_own_identity_at_the_other_end_is_told() -> None:
    """I25: whether it is this process or another one."""
    lives = [Life(b"1" * 16, 5), Life(b"2" * 16, 6)]
    acceptor = Session(initiator=False, own_id=A, settings=SETTINGS, now_us=0, life=lives[0])
    initiator = Session(initiator=True, own_id=A, settings=SETTINGS, now_us=0, life=lives[1])
    initiator.start()
    (asked,) = acceptor.receive(joined(initiator), 0)
    assert isinstance(asked, Closed), "anybody can call in our name"
    opened, closed = initiator.receive(joined(acceptor), 0)
    assert isinstance(opened, Opened)
    assert (opened.peer_id, opened.life) == (A, lives[0])
    assert isinstance(closed, Closed)
    assert isinstance(closed.error, IdentityClash)


def test_refused_connections() -> None:
    refusals: tuple[list[Establish | Parameters], ...] = (
        [Establish(A, B, 0, refused=True)],
        [Establish(A, B, 0), Parameters(500, 20_000, 64, refused=True)],
    )
    for packets in refusals:
        session = Session(initiator=True, own_id=A, settings=SETTINGS, now_us=0)
        session.start()
        events = session.receive(b"".join(p.encode() for p in packets), 0)
        assert [type(event) for event in events] == [Closed]
        assert session.closed


def test_answer_for_somebody_else() -> None:
    session = Session(initiator=True, own_id=A, settings=SETTINGS, now_us=0)
    session.start()
    (event,) = session.receive(Establish(b"C" * 16, B, 0).encode(), 0)
    assert isinstance(event, Closed)
    assert isinstance(event.error, ProtocolState)


@pytest.mark.parametrize(
    ("initiator", "data"),
    [
        (False, CP), (False, ACK), (False, USER),
        (False, EC + EC), (False, EC + ACK), (False, EC + USER),
        (False, EC + CP + CP), (False, EC + CP + EC),
        (True, CP), (True, ACK), (True, USER),
        (True, EC_BACK + EC_BACK), (True, EC_BACK + ACK), (True, EC_BACK + USER),
        (True, EC_BACK + CP + CP), (True, EC_BACK + CP + EC_BACK),
    ],
)  # fmt: skip
def test_packets_at_the_wrong_time(initiator: bool, data: bytes) -> None:
    session = Session(initiator=initiator, own_id=A if initiator else B, settings=SETTINGS,
                      now_us=0)  # fmt: skip
    if initiator:
        session.start()
    *_, event = session.receive(data, 0)
    assert isinstance(event, Closed)
    assert isinstance(event.error, ProtocolState)
    assert event.reason.startswith("protocol-state: ")
    assert session.receive(EC, 0) == []


def test_set_up_takes_too_long() -> None:
    for initiator in (True, False):
        session = Session(initiator=initiator, own_id=A, settings=SETTINGS, now_us=7)
        assert session.next_timer() == 60 * SECOND + 7
        assert session.tick(60 * SECOND) == []
        (event,) = session.tick(60 * SECOND + 7)
        assert isinstance(event, Closed)
        assert session.next_timer() is None
        assert session.tick(61 * SECOND) == []


# ---- windows and acknowledgments -----------------------------------------------------------------


def test_room_shrinks_and_returns_at_half_a_window() -> None:
    pair = Pair().open()
    pair.send(31)
    pair.run()
    assert pair.a.room == 33
    assert pair.acked(pair.a) == (0, 0)
    pair.send(1)
    pair.run()
    assert pair.acked(pair.a) == (32, 0)
    assert pair.a.room == 64
    assert pair.arrived(pair.b) == (32, 32)


def test_one_acknowledgment_for_each_half_window() -> None:
    pair = Pair().open()
    acknowledgments = 0
    for _ in range(640):
        pair.send(1)
        pair.carry(pair.b, joined(pair.a))
        back = joined(pair.b)
        acknowledgments += len(back) // 36
        pair.carry(pair.a, back)
    assert acknowledgments == 20


def test_a_small_window_of_the_peer_is_acknowledged_in_time() -> None:
    """The receiver's own window is larger: half of the smaller one counts, or both would wait."""
    pair = Pair(SETTINGS, replace(SETTINGS, session_window_messages=1024)).open()
    for _ in range(10):
        pair.send(pair.a.room)
        pair.run()
        assert pair.a.room == 64


def test_a_window_of_one() -> None:
    pair = Pair(replace(SETTINGS, session_window_messages=1)).open()
    for count in range(1, 5):
        assert pair.a.room == 1
        pair.send(1)
        assert pair.a.room == 0
        pair.run()
        assert pair.acked(pair.a) == (count, 0)


def test_recoverable_messages_are_acknowledged_as_such_only_when_persisted() -> None:
    """I9."""
    pair = Pair().open()
    pair.send(5)
    pair.run()
    pair.b.persisted(3, pair.now)
    pair.run()
    assert pair.acked(pair.a) == (0, 0)
    pair.tick(0.499)
    pair.run()
    assert pair.acked(pair.a) == (0, 0)
    pair.tick(0.001)
    pair.run()
    assert pair.acked(pair.a) == (5, 3)
    pair.b.persisted(2, pair.now)
    pair.tick(0.5)
    pair.run()
    assert pair.acked(pair.a) == (5, 5)


def test_session_acks_for_the_window_say_nothing_of_the_disk() -> None:
    pair = Pair().open()
    pair.send(40)
    pair.run()
    assert pair.acked(pair.a) == (40, 0)


def test_thirty_two_persisted_messages_force_an_acknowledgment() -> None:
    pair = Pair(*[replace(SETTINGS, session_window_messages=1024)] * 2).open()
    pair.send(100)
    pair.run()
    pair.b.persisted(31, pair.now)
    assert joined(pair.b) == b""
    pair.b.persisted(1, pair.now)
    data = joined(pair.b)
    assert parse(data) == SessionHeader(100, 1, 0xFFFFFFFF, 0, 0, 1024)
    pair.carry(pair.a, data)
    assert pair.acked(pair.a) == (100, 32)
    pair.b.persisted(68, pair.now)
    pair.run()
    assert pair.acked(pair.a) == (100, 96)
    pair.tick(0.5)
    pair.run()
    assert pair.acked(pair.a) == (100, 100)


def test_express_messages_are_acknowledged_after_half_the_wait() -> None:
    pair = Pair().open()
    pair.send(3, recoverable=False)
    pair.run()
    assert pair.b.next_timer() == 10 * SECOND
    pair.tick(9.9)
    pair.run()
    assert pair.acked(pair.a) == (0, 0)
    pair.tick(0.1)
    pair.run()
    assert pair.acked(pair.a) == (3, 0)
    assert pair.arrived(pair.b) == (3, 0)


def test_acknowledgments_of_one_read_become_one_event() -> None:
    pair = Pair(*[replace(SETTINGS, session_window_messages=1024)] * 2).open()
    pair.send(600)
    pair.run()
    pair.told[pair.a].clear()
    pair.b.persisted(600, pair.now)
    pair.run()
    assert pair.told[pair.a] == [Acked(600, 576)]


def test_nothing_new_is_no_event() -> None:
    pair = Pair().open()
    for _ in range(3):
        assert pair.a.receive(ACK, 0) == []


def test_both_directions_at_once() -> None:
    pair = Pair().open()
    for _ in range(20):
        pair.send(pair.a.room)
        pair.send(pair.b.room, back=True)
        pair.run()
    assert pair.closed(pair.a) is None
    assert pair.arrived(pair.a)[0] > 500
    assert pair.arrived(pair.b)[0] > 500


def test_slow_and_resume() -> None:
    pair = Pair().open()
    pair.b.slow(0)
    pair.b.slow(0)
    pair.run()
    assert pair.a.room == 1
    assert len([e for e in pair.told[pair.a] if isinstance(e, Acked)]) == 1
    for count in range(1, 4):
        pair.send(1)
        pair.run()
        assert (pair.a.room, pair.acked(pair.a)) == (1, (count, 0))
    pair.told[pair.a].clear()
    pair.b.slow(0, slow=False)
    pair.run()
    assert pair.a.room == 64
    assert [type(event) for event in pair.told[pair.a]] == [Acked]


def test_slow_while_much_is_under_way() -> None:
    pair = Pair().open()
    pair.send(20)
    pair.b.slow(0)
    pair.run()
    assert pair.a.room == 1
    assert pair.acked(pair.a) == (20, 0)


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 4099])
def test_counters_wrap(step: int) -> None:
    """More than 65536 messages, both kinds mixed, on one session (U11)."""
    settings = replace(SETTINGS, session_window_messages=1024)
    pair = Pair(settings, settings, step=step).open()
    sent = durable = 0
    while durable < 70_000:
        count = min(pair.a.room, 1000)
        express = count // 10
        pair.send(count - express)
        pair.send(express, recoverable=False)
        sent += count
        durable += count - express
        pair.run()
        pair.b.persisted(count - express, pair.now)
        pair.tick(0.5)
        pair.run()
        assert pair.closed(pair.a) is None
        assert pair.closed(pair.b) is None
        assert pair.acked(pair.a) == (sent, durable)
        pair.told[pair.a].clear()
        assert pair.arrived(pair.b) == (count, count - express)
        pair.told[pair.b].clear()
    assert durable > 65_536


def test_no_base_is_ever_zero_at_the_wrap() -> None:
    """Base 0 acknowledges nothing (U11), so number 65536 is covered by a bit."""
    settings = replace(SETTINGS, session_window_messages=16_384)
    pair = Pair(settings, settings).open()
    bases = []
    for count in [16_000] * 4 + [1_535, 1, 1]:
        pair.send(count)
        pair.run()
        pair.b.persisted(count, pair.now)
        pair.now += SECOND
        pair.told[pair.b] += pair.b.tick(pair.now)
        data = joined(pair.b)
        for at in range(0, len(data), 36):
            header = parse(data[at : at + 36])
            assert isinstance(header, SessionHeader)
            assert bool(header.base) == bool(header.flags)
            bases.append((header.base, header.flags))
        pair.carry(pair.a, data)
        pair.told[pair.b].clear()
    assert pair.acked(pair.a) == (65_537, 65_537)
    assert bases[-2:] == [(65_535, 0b11), (1, 1)]


# ---- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("direct", "wait_s"), [(True, 40), (False, 20)])
def test_no_answer_closes(direct: bool, wait_s: int) -> None:
    session = Session(initiator=True, own_id=A, direct=direct, settings=SETTINGS, now_us=0)
    session.start()
    session.receive(EC_BACK + CP, 0)
    session.send(users(1), count=1, recoverable=1, now_us=SECOND)
    assert session.next_timer() == (wait_s + 1) * SECOND
    assert session.tick((wait_s + 1) * SECOND - 1) == []
    (event,) = session.tick((wait_s + 1) * SECOND)
    assert isinstance(event, Closed)
    assert event.error is None


def test_any_packet_keeps_the_session_alive() -> None:
    session = opened()
    session.receive(ACK[:4], 39 * SECOND)
    assert session.tick(40 * SECOND) == []
    assert session.next_timer() == 80 * SECOND
    (event,) = session.tick(80 * SECOND)
    assert isinstance(event, Closed)


def test_acknowledged_messages_are_not_waited_for() -> None:
    session = opened()
    session.receive(header(received=5).encode(), SECOND)
    assert session.tick(40 * SECOND) == []
    assert session.opened


def test_idle_sessions_close_at_the_second_look() -> None:
    pair = Pair().open()
    pair.send(1)
    pair.run()
    pair.tick(10)
    pair.run()
    pair.tick(290)
    assert pair.closed(pair.a) is None
    pair.tick(300)
    for session in (pair.a, pair.b):
        closed = pair.closed(session)
        assert closed is not None
        assert (closed.reason, closed.error) == ("idle", None)


def test_idle_tells_shortly_before_the_end() -> None:
    pair = Pair().open()
    pair.tick(100)
    pair.send(1)
    pair.run()
    for session in (pair.a, pair.b):
        assert not session.idle(pair.now + 270 * SECOND - 1)
        assert session.idle(pair.now + 270 * SECOND)


def test_a_session_with_something_under_way_is_not_idle() -> None:
    settings = replace(SETTINGS, session_idle_s=1)
    session = Session(initiator=True, own_id=A, settings=settings, now_us=0)
    session.start()
    session.receive(EC_BACK + CP, 0)
    session.send(users(1), count=1, recoverable=1, now_us=0)
    for second in range(1, 40):
        assert session.tick(second * SECOND) == []


def test_loss_of_one_side() -> None:
    """What was not acknowledged is known, and a closed session does nothing more."""
    pair = Pair().open()
    pair.send(40)
    pair.run()
    pair.b.persisted(33, pair.now)
    pair.carry(pair.a, joined(pair.b))
    pair.send(10)
    assert pair.acked(pair.a) == (40, 32)
    pair.a.close("connection lost")
    assert pair.a.closed
    assert (pair.a.room, pair.a.next_timer()) == (0, None)
    assert pair.a.receive(ACK, pair.now) == []
    assert pair.a.tick(pair.now + 10**9) == []
    pair.a.persisted(1, pair.now)
    pair.a.slow(pair.now)
    pair.a.close("again")


# ---- calls that are our own mistakes -------------------------------------------------------------


def test_sending_before_it_is_open() -> None:
    session = Session(initiator=True, own_id=A, settings=SETTINGS, now_us=0)
    with pytest.raises(AssertionError):
        session.send(users(1), count=1, recoverable=1, now_us=0)


def test_persisting_what_never_came() -> None:
    session = opened()
    with pytest.raises(AssertionError):
        session.persisted(3, 0)


def test_only_an_initiator_starts_and_only_once() -> None:
    acceptor = Session(initiator=False, own_id=A, settings=SETTINGS, now_us=0)
    with pytest.raises(AssertionError):
        acceptor.start()
    initiator = Session(initiator=True, own_id=A, settings=SETTINGS, now_us=0)
    initiator.start()
    with pytest.raises(AssertionError):
        initiator.start()
