"""How often messages are transmitted: once, and again only as far as it can help (EOD-15, EOD-16).

Whatever comes behind a lost message is refused by the receiver (EOD-21), so a sender that goes on
as if nothing had happened transmits in vain, and then all of it once more.
"""

from __future__ import annotations

from collections import Counter

from onceq.core.transfer.outgoing_queue import PROBE_MESSAGES
from onceq.testing.links import Passing, faithful
from tests.conformance.policies import no_messages, no_order_acks
from tests.conformance.world import World, Worlds, fast

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"
MANY = 2_000
WINDOW = 200


def made(worlds: Worlds, **changes: int) -> World:
    world = worlds("A", "B", settings=fast(**changes))
    world["B"].create("q")
    return world


def send(world: World, count: int = MANY) -> None:
    for start in range(0, count, 500):
        world["A"].once(Q, *[b"%d" % n for n in range(start, start + min(500, count - start))])


def transmitted(world: World) -> int:
    return len(world.link("A", "B").data())


def all_arrived(world: World, count: int = MANY) -> bool:
    waiting = world["A"].look("outgoing-queue", Q).messages
    return waiting == 0 and world["B"].bodies(LOCAL) == [b"%d" % n for n in range(count)]


def test_on_a_faithful_link_everything_is_transmitted_once(worlds: Worlds) -> None:
    world = made(worlds)
    send(world)
    world.run(20)
    assert all_arrived(world)
    assert transmitted(world) == MANY


def test_while_no_acknowledgment_comes_only_two_are_sent_again(worlds: Worlds) -> None:
    """Everything has arrived, only nobody says so: there is no use in sending all of it again."""
    world = made(worlds)
    link = world.link("A", "B")
    link.policy = no_order_acks
    send(world)
    world.run(3 * 30 + 5)
    assert [p.number for p in link.data()[MANY:]] == [1, 2] * 3
    link.policy = faithful
    world.run(305)
    assert all_arrived(world)
    assert transmitted(world) == MANY + 8


def test_a_receiver_that_names_no_holes_is_sent_a_few(worlds: Worlds) -> None:
    world = worlds("A", "B", settings=fast(settle_doubts=False))
    world["B"].create("q")
    link = world.link("A", "B")
    link.policy = no_order_acks
    send(world)
    world.run(3 * 30 + 5)
    assert transmitted(world) == MANY + 3 * PROBE_MESSAGES
    assert {p.number for p in link.data()[MANY:]} == set(range(1, PROBE_MESSAGES + 1))


def test_behind_a_lost_message_only_a_window_is_sent_in_vain(worlds: Worlds) -> None:
    world = made(worlds, unacknowledged_messages_max=WINDOW, order_ack_messages_max=WINDOW // 2)
    lost: list[Passing] = []

    def lose_one(p: Passing) -> list[tuple[int, Passing]]:
        if p.number == MANY // 2 and not lost:
            lost.append(p)
            return []
        return faithful(p)

    world.link("A", "B").policy = lose_one
    send(world)
    world.run(60)
    assert lost
    assert all_arrived(world)
    times = Counter(p.number for p in world.link("A", "B").data())
    assert max(times.values()) <= 2
    assert transmitted(world) <= MANY + WINDOW


def test_what_waits_goes_out_a_window_ahead_of_its_acknowledgments(worlds: Worlds) -> None:
    world = made(worlds, unacknowledged_messages_max=WINDOW)
    world.link("A", "B").policy = no_order_acks
    send(world)
    world.run(10)
    assert transmitted(world) == WINDOW
    assert world["A"].look("outgoing-queue", Q).messages == MANY
    world.link("A", "B").policy = faithful
    world.run(60)
    assert all_arrived(world)


def test_after_a_broken_connection_a_few_ask_how_far_it_has_come(worlds: Worlds) -> None:
    world = made(worlds)
    link = world.link("A", "B")
    link.policy = no_order_acks
    send(world, 300)
    world.run(2)
    world.cut("A", "B")
    link.policy = faithful
    world.run(5)
    world.mend("A", "B")
    world.run(40)
    assert all_arrived(world, 300)
    assert transmitted(world) == 300 + PROBE_MESSAGES


def test_expired_messages_do_not_hold_up_what_waits_behind_them(worlds: Worlds) -> None:
    world = made(worlds, unacknowledged_messages_max=10)
    link = world.link("A", "B")
    link.policy = no_messages
    world["A"].once(Q, *[b"old"] * 10, time_to_reach_queue=45)
    world["A"].once(Q, b"new")
    world.run(40)
    assert {p.number for p in link.data()} == set(range(1, 11))
    link.policy = faithful
    link.seen.clear()
    world.run(10)
    assert [p.number for p in link.data()] == [11]
    assert world["B"].bodies(LOCAL) == [b"new"]
