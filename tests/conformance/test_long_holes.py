"""Long holes, and holes in which nothing is lost: little of them is sent again at first.

EOD-9, EOD-31 to EOD-34, I24.
"""

from __future__ import annotations

from collections import Counter

import pytest

from onceq.model.limits import HOLE_MESSAGES
from onceq.packet.arrived import USER
from onceq.testing.links import Passing, faithful
from tests.conformance.lossy import (
    LOCAL,
    MANY,
    STRANGERS,
    Peer,
    acks,
    again,
    bodies,
    losing,
    made,
    send,
    waiting,
)
from tests.conformance.world import World, Worlds

pytestmark = pytest.mark.unturned("lines", reason="its moments are shorter than the line")


@pytest.fixture
def world(worlds: Worlds) -> World:
    return made(worlds)


def test_a_long_hole_is_filled_little_by_little_and_soon(worlds: Worlds) -> None:
    world = made(worlds, order_ack_delay_s=5.0)
    world.link("A", "B").policy = losing(*range(500, 1_001))
    send(world, MANY)
    world.run(0.4)
    assert world["B"].bodies(LOCAL) == bodies(MANY)
    assert again(world) == dict.fromkeys(range(500, 1_001), 2)
    world.run(1)
    assert waiting(world) == 0


def test_a_hole_is_named_again_however_slowly_it_was_filled(world: World) -> None:
    """What is sent again comes one by one, and the last one that was sent with it is lost."""
    # A part of what is sent again begins with 18 and ends with 49.
    link, left = world.link("A", "B"), Counter([*range(2, 60), 49])

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == USER and left[p.number]:
            left[p.number] -= 1
            return []
        return [(5_000 * p.number, p)] if p.kind == USER and 1 < p.number < 60 else faithful(p)

    link.policy = policy
    send(world, 100)
    world.run(4)
    assert world["B"].bodies(LOCAL) == bodies(100)
    assert again(world) == dict.fromkeys(range(2, 60), 2) | {49: 3}


def test_what_an_earlier_connection_brings_late_costs_a_few_resends(world: World) -> None:
    """It stands before messages that are under way again, and none of these is lost."""
    link, old, count = world.link("A", "B"), list[Passing](), 400

    def lost(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == USER and p.number == count - 20:
            old.append(p)
        return [] if p.kind == USER and p.number > 40 else faithful(p)

    def late(p: Passing) -> list[tuple[int, Passing]]:
        # In parts from here on: most are under way while the others are named as missing.
        delay = max(0, p.number - 120) // 40 * 5_000 if p.kind == USER else 0
        return [(delay, p), (0, old.pop())] if p.number == 120 and old else [(delay, p)]

    link.policy = lost
    send(world, count)
    world.run(2)
    world.cut("A", "B")
    world.run(1)
    link.policy = late
    link.seen.clear()
    world.mend("A", "B")
    world.run(10)
    assert world["B"].bodies(LOCAL) == bodies(count)
    assert waiting(world) == 0
    assert not old
    assert any(a.last_missing == count - 21 for a in acks(world))
    assert len(again(world)) <= HOLE_MESSAGES


@STRANGERS
def test_a_long_hole_grows_as_what_was_sent_again_comes(world: World) -> None:
    peer = Peer(world, count=200)
    assert peer.said(4, (5, 190)) == list(range(5, 21))
    assert peer.said(12, (13, 190)) == [], "they are arriving"
    assert peer.said(20, (21, 190)) == list(range(21, 53))
    assert peer.said(52, (53, 190)) == list(range(53, 117))
    assert peer.said(116, (117, 190)) == list(range(117, 191))


@STRANGERS
def test_what_comes_by_itself_was_late_and_so_is_the_rest(world: World) -> None:
    peer = Peer(world, count=200)
    assert peer.said(4, (5, 190)) == list(range(5, 21))
    assert [peer.said(at, (at + 1, 190)) for at in range(21, 100)] == [[]] * 79
    world.run(1)
    assert peer.said(99, (100, 190)) == list(range(100, 116)), "it does not move on any more"
    assert peer.said(115, (116, 190)) == list(range(116, 148))


@STRANGERS
def test_what_was_sent_again_just_now_is_left_out_of_the_next_hole(world: World) -> None:
    peer = Peer(world, count=20)
    assert peer.said(4, (5, 10)) == list(range(5, 11))
    assert peer.said(6, (7, 14)) == list(range(11, 15)), "the first ones are under way"
