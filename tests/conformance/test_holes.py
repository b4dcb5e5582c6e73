"""Lost messages: the hole alone is sent again, and what came behind it is kept meanwhile.

EOD-9, EOD-21, EOD-26, EOD-31 to EOD-34, I9, I24.
"""

from __future__ import annotations

from collections import Counter

import pytest

from onceq.core.step import connections
from onceq.core.transfer.outgoing_queue import PROBE_MESSAGES
from onceq.model import limits
from onceq.model.limits import EARLY_RUN_BYTES
from onceq.model.requests import DeleteQueue, PurgeQueue
from onceq.packet.acks import OrderAck
from onceq.packet.arrived import ORDER_ACK, USER
from onceq.testing.links import Passing, faithful
from tests.conformance.lossy import (
    DEAD,
    FOREIGN,
    LOCAL,
    MANY,
    STRANGERS,
    Peer,
    Q,
    S,
    acks,
    again,
    bodies,
    early,
    losing,
    made,
    send,
    times,
    waiting,
)
from tests.conformance.policies import no_order_acks
from tests.conformance.world import World, Worlds, fast

pytestmark = pytest.mark.unturned("lines", reason="its moments are shorter than the line")

inside = pytest.mark.inside("looks at what is kept in memory")


@pytest.fixture
def world(worlds: Worlds) -> World:
    return made(worlds)


# ---- what is lost is sent again, and nothing else ----------------------------------------------


@pytest.mark.parametrize("lost", [(1_000,), (2, 3, 4), (500, 1_500), (7, 9, 11)])
def test_what_is_lost_is_sent_again_at_once_and_alone(world: World, lost: tuple[int, ...]) -> None:
    world.link("A", "B").policy = losing(*lost)
    send(world, MANY)
    world.run(0.4)
    assert world["B"].bodies(LOCAL) == bodies(MANY)
    assert again(world) == dict.fromkeys(lost, 2)
    world.run(1)
    assert waiting(world) == 0


def test_the_acknowledgment_names_the_hole(world: World) -> None:
    world.link("A", "B").policy = losing(4, 5)
    world["A"].once(Q, *bodies(8))
    world.run(0.1)
    named = [(a.number, a.first_missing, a.last_missing) for a in acks(world) if a.last_missing]
    assert named == [(3, 4, 5)]
    assert acks(world)[-1] == OrderAck(world["B"].identity.guid, acks(world)[0].stream, 8, True)


def test_nothing_behind_a_hole_is_acknowledged(world: World) -> None:
    """EOD-34, as long as the hole is there; nor is it in any queue."""
    world.link("A", "B").policy = losing(3, times=6)
    world["A"].once(Q, *bodies(10))
    world.run(2)
    assert {a.number for a in acks(world)} == {2}
    assert world["B"].bodies(LOCAL) == bodies(2)
    assert waiting(world) == 8
    world.run(20)
    assert world["B"].bodies(LOCAL) == bodies(10)
    assert waiting(world) == 0


def test_a_hole_is_named_and_filled_again_less_and_less_often(world: World) -> None:
    """The message is lost each time; its sender does not send it with every acknowledgment."""
    world.link("A", "B").policy = losing(3, times=100)
    world["A"].once(Q, *bodies(10))
    world.run(14)
    assert 10 < len(acks(world)) < 30
    assert 4 <= times(world)[3] <= 8
    assert all(count == 1 for number, count in times(world).items() if number != 3)


def test_lost_acknowledgments_of_a_hole_are_made_again(world: World) -> None:
    lost: list[Passing] = []
    keeps = losing(3)

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == ORDER_ACK and len(lost) < 3:
            lost.append(p)
            return []
        return keeps(p)

    world.link("A", "B").policy = policy
    world["A"].once(Q, *bodies(10))
    world.run(3)
    assert len(lost) == 3
    assert world["B"].bodies(LOCAL) == bodies(10)
    assert again(world) == {3: 2}


def test_an_acknowledgment_that_was_overtaken_names_no_hole_any_more(world: World) -> None:
    late: list[Passing] = []
    keeps = losing(3)

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == ORDER_ACK and not late:
            late.append(p)
            return [(5 * S, p), (0, p)]
        return keeps(p)

    world.link("A", "B").policy = policy
    world["A"].once(Q, *bodies(10))
    world.run(10)
    assert again(world) == {3: 2}
    assert waiting(world) == 0


def test_messages_that_overtake_each_other_are_all_accepted(world: World) -> None:
    world.link("A", "B").policy = lambda p: (
        [(p.number % 7 * 300, p)] if p.kind == USER else faithful(p)
    )
    world["A"].once(Q, *bodies(100))
    world.run(1)
    assert world["B"].bodies(LOCAL) == bodies(100)
    assert waiting(world) == 0


def test_what_comes_twice_behind_a_hole_arrives_once(world: World) -> None:
    keeps = losing(2)
    world.link("A", "B").policy = lambda p: [*keeps(p), *[(d + 200, q) for d, q in keeps(p)]]
    world["A"].once(Q, *bodies(20))
    world.run(2)
    assert world["B"].bodies(LOCAL) == bodies(20)


def test_a_hole_whose_messages_have_ended_is_passed_over(world: World) -> None:
    """What was lost expires where it waits; what follows it names another one before it (EOD-8)."""
    world.link("A", "B").policy = losing(2, times=100)
    world["A"].once(Q, b"1")
    world["A"].once(Q, b"2", time_to_reach_queue=2)
    world["A"].once(Q, b"3", b"4")
    world.run(12)
    assert world["B"].bodies(LOCAL) == [b"1", b"3", b"4"]
    assert waiting(world) == 0


def test_what_is_too_late_when_the_hole_is_filled_is_refused(world: World) -> None:
    """Its time to reach its queue is looked at when it is judged, not when it came."""
    link = world.link("A", "B")
    link.policy = losing(2, times=2)
    world["A"].once(Q, b"1", b"2")
    world["A"].once(Q, b"3", time_to_reach_queue=20)
    world.run(0.1)
    world["B"].clock.jump(60)
    world.run(20)
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]
    assert waiting(world) == 0


# ---- the beginning of a stream -----------------------------------------------------------------


@pytest.mark.parametrize("lost", [(1,), (1, 2, 3), (1, 700)])
def test_a_lost_beginning_is_sent_again_at_once_and_alone(
    world: World, lost: tuple[int, ...]
) -> None:
    """The receiver cannot enter the stream (EOD-24), and nothing of it can be acknowledged."""
    world.link("A", "B").policy = losing(*lost)
    send(world, MANY)
    world.run(0.4)
    assert world["B"].bodies(LOCAL) == bodies(MANY)
    assert again(world) == dict.fromkeys(lost, 2)
    world.run(1)
    assert waiting(world) == 0


def test_the_beginning_of_a_later_stream_too(world: World) -> None:
    world["A"].once(Q, *bodies(5))
    world.run(2)
    assert waiting(world) == 0
    world.link("A", "B").seen.clear()
    world.link("A", "B").policy = losing(1)
    world["A"].once(Q, *bodies(5, 6))
    world.run(0.4)
    assert world["B"].bodies(LOCAL) == bodies(10)
    assert again(world) == {1: 2}


def test_a_missing_beginning_is_named_and_not_acknowledged(world: World) -> None:
    world.link("A", "B").policy = losing(1, 2, times=4)
    world["A"].once(Q, *bodies(8))
    world.run(0.4)
    assert {(a.number, a.first_missing, a.last_missing) for a in acks(world)} == {(0, 1, 2)}
    assert world["B"].bodies(LOCAL) == []
    assert waiting(world) == 8
    world.run(25)
    assert world["B"].bodies(LOCAL) == bodies(8)
    assert waiting(world) == 0
    assert set(again(world)) == {1, 2}


def test_a_lost_word_of_a_missing_beginning_is_said_again(world: World) -> None:
    words: list[Passing] = []
    keeps = losing(1)

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == ORDER_ACK and len(words) < 3:
            words.append(p)
            return []
        return keeps(p)

    world.link("A", "B").policy = policy
    world["A"].once(Q, *bodies(10))
    world.run(3)
    assert len(words) == 3
    assert world["B"].bodies(LOCAL) == bodies(10)
    assert again(world) == {1: 2}


def test_a_beginning_that_never_comes_is_named_so_often(world: World) -> None:
    world.link("A", "B").policy = losing(1, times=100)
    world["A"].once(Q, *bodies(3))
    world.run(14)
    assert 10 < len(acks(world)) < 30
    assert 4 <= times(world)[1] <= 8
    assert set(again(world)) == {1}


def test_what_has_ended_is_no_beginning_any_more(world: World) -> None:
    """What was lost expires where it waits, and what follows begins the stream (EOD-7)."""
    world.link("A", "B").policy = losing(1, times=100)
    world["A"].once(Q, b"1", time_to_reach_queue=2)
    world["A"].once(Q, b"2", b"3")
    world.run(12)
    assert world["B"].bodies(LOCAL) == [b"2", b"3"]
    assert waiting(world) == 0


def test_a_foreign_receiver_hears_nothing_of_a_missing_beginning(worlds: Worlds) -> None:
    """The packet has no word for it; its timer repairs it, and finds the rest there."""
    world = made(worlds, **FOREIGN)
    world.link("A", "B").policy = losing(1)
    send(world, 1_000)
    world.run(29)
    assert acks(world) == []
    world.run(5)
    assert world["B"].bodies(LOCAL) == bodies(1_000)
    assert waiting(world) == 0
    assert set(again(world)) == set(range(1, PROBE_MESSAGES + 1))


# ---- the resend timer --------------------------------------------------------------------------


def test_what_is_only_late_is_not_sent_again(world: World) -> None:
    """Acknowledgments take a minute and half of the messages too: the timer rings in vain."""
    world.link("A", "B").policy = lambda p: (
        [(60 * S, p)] if p.kind == ORDER_ACK or p.number > MANY // 2 else faithful(p)
    )
    send(world, MANY)
    world.run(200)
    assert world["B"].bodies(LOCAL) == bodies(MANY)
    assert waiting(world) == 0
    assert set(again(world)) <= {1, 2, MANY // 2 + 1, MANY // 2 + 2}, "two of them ask"


def test_a_lost_end_is_found_by_the_timer_and_sent_once(world: World) -> None:
    """No later message shows it: it is asked for, and what the receiver has is left out."""
    world.link("A", "B").policy = losing(*range(500, 1_001))
    send(world, 1_000)
    world.run(29)
    assert world["B"].bodies(LOCAL) == bodies(499)
    assert again(world) == {}
    world.run(6)
    assert world["B"].bodies(LOCAL) == bodies(1_000)
    assert again(world) == dict.fromkeys(range(500, 1_001), 2)
    world.run(1)
    assert waiting(world) == 0


def test_what_is_there_behind_a_lost_question_is_not_sent_again(world: World) -> None:
    """A message, all that names it missing, and the first one that asks are lost."""
    link = world.link("A", "B")
    keeps = losing(1_000)
    link.policy = lambda p: [] if p.kind == ORDER_ACK else keeps(p)
    send(world, MANY)
    world.run(29)
    link.policy = losing(1)
    world.run(5)
    assert world["B"].bodies(LOCAL) == bodies(MANY)
    assert waiting(world) == 0
    assert again(world) == {1: 2, 2: 2, 1_000: 2}


# ---- a receiver that forgets what it has kept --------------------------------------------------


def test_what_was_kept_is_sent_again_after_a_crash_of_its_receiver(world: World) -> None:
    world.link("A", "B").policy = losing(3, times=3)
    world["A"].once(Q, *bodies(10))
    world.run(0.2)
    world["B"].crash()
    world["B"].start()
    world.run(20)
    assert world["B"].bodies(LOCAL) == bodies(10)
    assert waiting(world) == 0


def kept(world: World) -> None:
    """B has 1 and 2, and keeps 4 to 10."""
    world.link("A", "B").policy = losing(3, times=100)
    world["A"].once(Q, *bodies(10))
    world.run(0.2)
    (found,) = early(world).streams.values()
    assert [run.first_number for run in found.runs] == [4]
    assert early(world).bytes > 0


def nothing_kept(world: World, reason: str) -> None:
    assert early(world).streams == {}
    assert early(world).bytes == 0
    assert early(world).dropped[reason] == 1


@inside
def test_what_was_kept_dies_with_its_session(world: World) -> None:
    kept(world)
    world.cut("A", "B")
    world.run(1)
    nothing_kept(world, connections.SESSION_CLOSED)
    world.link("A", "B").policy = faithful
    world.mend("A", "B")
    world.run(20)
    assert world["B"].bodies(LOCAL) == bodies(10)


@inside
@pytest.mark.unturned("public", "private", reason="a queue made again is another one")
def test_what_was_kept_dies_with_its_queue(world: World) -> None:
    kept(world)
    world["B"].ask(DeleteQueue(LOCAL))
    nothing_kept(world, connections.QUEUE_DELETED)
    world["B"].create("q")
    world.link("A", "B").policy = lambda p: [] if p.kind == USER and p.number > 3 else faithful(p)
    world.run(40)
    assert world["B"].bodies(LOCAL) == [b"3"], "only this has come to the new queue"
    world.link("A", "B").policy = faithful
    world.run(60)
    assert world["B"].bodies(LOCAL) == bodies(8, 3)


@inside
def test_what_was_kept_dies_with_its_stream(world: World) -> None:
    kept(world)
    world["A"].ask(PurgeQueue(Q))
    world.link("A", "B").policy = faithful
    world["A"].once(Q, b"new")
    world.run(2)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"new"]
    nothing_kept(world, connections.STREAM_LEFT)


@inside
def test_no_more_is_kept_than_there_is_room_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 3 * EARLY_RUN_BYTES
    monkeypatch.setattr(limits, "EARLY_SESSION_BYTES_MAX", room)
    world.link("A", "B").policy = losing(2, times=2)
    for body in bodies(30):
        world["A"].once(Q, body)
        world.run(0.001)
        assert early(world).bytes <= room
    assert early(world).dropped[connections.NO_ROOM] > 0
    world.run(60)
    assert world["B"].bodies(LOCAL) == bodies(30)
    assert early(world).bytes == 0


@inside
def test_all_sessions_together_keep_no_more_than_there_is_room_for(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds("A", "B", "C", settings=fast())
    world["B"].create("q")
    room = 3 * EARLY_RUN_BYTES
    monkeypatch.setattr(limits, "EARLY_BYTES_MAX", room)
    for name in "AC":
        world.link(name, "B").policy = losing(2, times=2)
    for body in bodies(10):
        for name in "AC":
            world[name].once(Q, body)
            world.run(0.001)
            assert early(world).bytes <= room
    world.run(60)
    assert sorted(world["B"].bodies(LOCAL)) == sorted(bodies(10) * 2)


# ---- peers that name no holes ------------------------------------------------------------------


def test_a_foreign_receiver_is_told_nothing_in_reserved_bytes(worlds: Worlds) -> None:
    world = made(worlds, **FOREIGN)
    world.link("A", "B").policy = losing(3)
    world["A"].once(Q, *bodies(10))
    world.run(5)
    assert world["B"].bodies(LOCAL) == bodies(10)
    for passing in world.link("A", "B").order_acks():
        assert passing.packet.rstrip(b"\0")[-16:-12] != b"HOLE"
    assert not any(a.tells_holes for a in acks(world))


def test_two_equal_acknowledgments_of_a_foreign_receiver_show_a_hole(worlds: Worlds) -> None:
    world = made(worlds, **FOREIGN)
    world.link("A", "B").policy = losing(500)
    send(world, 1_000)
    world.run(3)
    assert world["B"].bodies(LOCAL) == bodies(1_000)
    assert waiting(world) == 0
    assert set(again(world)) == set(range(500, 500 + PROBE_MESSAGES))
    assert max(again(world).values()) == 2, "once for each number"


@STRANGERS
def test_a_hole_that_is_named_is_sent_with_the_same_numbers_and_links(world: World) -> None:
    peer = Peer(world)
    assert peer.said(4, (5, 6)) == [5, 6]
    (*_, run) = [run for run in peer.other.runs if run.transactional]
    assert (run.stream, run.first_number, run.first_previous) == (peer.stream, 5, 0)


@STRANGERS
@pytest.mark.parametrize(
    "hole", [(5, 11), (5, 1 << 31), (6, 7), (4, 7), (7, 5), (5, 4), (0, 3), (0, 0)],
    ids=str,
)  # fmt: skip
def test_a_hole_that_cannot_be_is_not_believed(world: World, hole: tuple[int, int]) -> None:
    """Never sent, not behind what is acknowledged, or its end before its beginning."""
    peer = Peer(world)
    assert peer.said(4, hole) == []


@STRANGERS
def test_a_hole_of_another_stream_is_not_believed(world: World) -> None:
    peer = Peer(world)
    assert peer.said(4, (5, 6), stream=peer.stream + 1) == []
    assert peer.said(4, (5, 6), stream=peer.stream - 1) == []


@STRANGERS
@pytest.mark.parametrize("hole", [(1, 11), (2, 3), (3, 1), (0, 4), (0, 0)], ids=str)
def test_a_beginning_that_cannot_be_missing_is_not_believed(
    world: World, hole: tuple[int, int]
) -> None:
    peer = Peer(world)
    assert peer.said(0, hole) == []


@STRANGERS
def test_a_beginning_is_missing_only_before_anything_is_acknowledged(world: World) -> None:
    peer = Peer(world)
    assert peer.said(0, (1, 3), stream=peer.stream + 1) == []
    assert peer.said(0, (1, 3)) == [1, 2, 3]
    assert peer.said(4, (5, 6)) == [5, 6]
    assert peer.said(0, (1, 10)) == [], "one that was overtaken"
    assert waiting(world) == 6


@STRANGERS
def test_a_session_without_the_mark_names_no_beginning(worlds: Worlds) -> None:
    world = made(worlds, **FOREIGN)
    peer = Peer(world)
    assert peer.said(0, (1, 3)) == []
    assert peer.said(0, (1, 3)) == []


@STRANGERS
def test_a_hole_that_is_named_again_and_again_costs_little(world: World) -> None:
    peer = Peer(world)
    sent = [number for _ in range(300) for number in peer.said(4, (5, 10))]
    assert len(sent) <= 6 * 6, "in three seconds: at 0, 0.1, 0.3, 0.7, and 1.5"
    assert waiting(world) == 6


@STRANGERS
def test_holes_that_move_on_cost_each_message_once(world: World) -> None:
    peer = Peer(world)
    sent = [number for at in range(1, 10) for number in peer.said(at, (at + 1, 10))]
    assert sent == list(range(2, 11))


@STRANGERS
def test_a_session_without_the_mark_names_no_holes(worlds: Worlds) -> None:
    """What stands in reserved bytes there means nothing."""
    world = made(worlds, **FOREIGN)
    peer = Peer(world)
    assert peer.said(4, (5, 6)) == []
    assert peer.said(5, (6, 6)) == []


@STRANGERS
def test_equal_acknowledgments_show_a_hole_once(world: World) -> None:
    """Of a peer whose session is marked, and which does not name holes: an older version."""
    peer = Peer(world)
    assert peer.said(4, None) == []
    assert peer.said(4, None) == [5, 6, 7, 8, 9, 10]
    assert peer.said(4, None) == []
    assert peer.said(5, None) == []
    assert peer.said(5, None) == [6, 7, 8, 9, 10]


@STRANGERS
def test_a_time_out_sends_all_again_where_no_holes_are_named(world: World) -> None:
    """By an older version, which has kept nothing of what came behind a lost message."""
    peer = Peer(world)
    before = len(peer.other.runs)
    world.run(30)
    assert [run.first_number for run in peer.other.runs[before:] if run.transactional] == [1]
    assert peer.said(1, None) == list(range(3, 11))


@STRANGERS
def test_equal_acknowledgments_of_all_that_was_sent_show_none(world: World) -> None:
    peer = Peer(world)
    assert peer.said(9, None) == []
    assert peer.said(9, None) == [], "one is under way, and nothing behind it"


# ---- a new session -----------------------------------------------------------------------------


def test_on_a_new_session_a_few_are_sent_until_it_is_known_where_to_go_on(world: World) -> None:
    link = world.link("A", "B")
    link.policy = no_order_acks
    send(world, MANY)
    world.run(2)
    world.cut("A", "B")
    link.policy = faithful
    world.run(1)
    link.seen.clear()
    world.mend("A", "B")
    world.run(2)
    assert sum(times(world).values()) == PROBE_MESSAGES
    assert waiting(world) == 0
    assert world["B"].bodies(LOCAL) == bodies(MANY)


def test_what_a_receiver_lacks_follows_at_once_on_a_new_session(worlds: Worlds) -> None:
    world = made(worlds, order_ack_delay_s=5.0)
    link = world.link("A", "B")
    link.policy = lambda p: [] if p.kind == USER and p.number > 100 else no_order_acks(p)
    send(world, 1_000)
    world.run(2)
    world.cut("A", "B")
    link.policy = faithful
    world.run(1)
    link.seen.clear()
    world.mend("A", "B")
    world.run(2)
    assert world["B"].bodies(LOCAL) == bodies(1_000)
    assert set(times(world)) == {*range(1, PROBE_MESSAGES + 1), *range(101, 1_001)}
    assert max(times(world).values()) == 1


def test_a_first_session_begins_without_a_probe(world: World) -> None:
    link = world.link("A", "B")
    link.policy = no_order_acks
    send(world, 1_000)
    world.run(1)
    assert sum(times(world).values()) == 1_000


def test_a_final_acknowledgment_that_overtakes_makes_room_in_a_window(worlds: Worlds) -> None:
    """B refuses each message, and its order acknowledgments are lost: what has ended makes room."""
    world = worlds("A", "B", settings=fast(unacknowledged_messages_max=4))
    world.link("A", "B").policy = no_order_acks
    world["A"].once(Q, *bodies(20))
    world.run(2)
    assert times(world) == Counter(range(1, 21))
    assert waiting(world) == 0
    assert len(world["A"].bodies(DEAD)) == 0
