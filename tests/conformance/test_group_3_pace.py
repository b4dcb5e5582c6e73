"""Conformance cases 59 to 61, 64 to 69 and 131: when things are sent again, what is shown of it,
and what is held back."""

from __future__ import annotations

from itertools import pairwise

import pytest

from onceq.model.identity import guid_text
from onceq.model.message import Journal
from onceq.model.resultcodes import MessageClass
from onceq.packet.acks import parse_order_ack
from onceq.testing.links import Passing, faithful
from tests.conformance.policies import drop, messages_twice, no_order_acks, up_to
from tests.conformance.world import Node, World, Worlds

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"
DEAD = "SYSTEM$;DEADXACT"
S = 1_000_000


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    world["B"].create("q")
    return world


def view(node: Node) -> object:
    (found,) = node.look("outgoing")
    return found


def test_case_059_resend_table(world: World) -> None:
    link = world.link("A", "B")
    times: list[float] = []

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == 0:
            times.append(world.now_us / S)
        return no_order_acks(p)

    link.policy = policy
    world["A"].once(Q, b"m")
    start = world.now_us / S
    world.run(30 * 3 + 300 * 3 + 1800 * 3 + 21600 * 2 + 10)
    waits = [round(b - a) for a, b in pairwise(times)]
    assert round(times[0] - start) == 0
    assert waits == [30] * 3 + [300] * 3 + [1800] * 3 + [21600] * 2


def test_case_060_progress_resets_the_interval(world: World) -> None:
    link = world.link("A", "B")
    held: list[Passing] = []
    times: list[float] = []

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == 1:
            held.append(p)
        elif p.number == 2:
            times.append(world.now_us / S)
        return [] if p.kind == 1 or p.number == 2 else faithful(p)

    link.policy = policy
    world["A"].once(Q, b"1", b"2")
    world.run(30 * 3 + 300 * 2 + 10)
    assert world["A"].look("outgoing")[0].resend_count == 5
    times.clear()
    link.inject(held[-1])
    arrived = world.now_us / S
    world.run(2)
    found = world["A"].look("outgoing")[0]
    assert found.unacknowledged == 1
    assert found.resend_count == 0
    assert found.resend_interval_s == 30
    link.inject(held[-1])  # It acknowledges nothing new, and changes nothing.
    world.run(30 * 3 + 300 + 5)
    waits = [round(b - a) for a, b in pairwise([arrived, *times])]
    assert waits == [30, 30, 30, 300], "the table begins anew"


def test_case_061_acknowledgments_at_most_ten_seconds_apart(world: World) -> None:
    link = world.link("A", "B")
    times: list[float] = []
    said: list[tuple[int, int]] = []
    sent: list[tuple[int, int]] = []

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == 1:
            times.append(world.now_us / S)
            ack = parse_order_ack(p.packet)
            said.append((ack.stream, ack.number))
            assert said[-1] in sent, "acknowledged before it came"
        elif p.kind == 0:
            sent.append((p.stream, p.number))
        return faithful(p)

    link.policy = policy
    start = world.now_us / S
    for n in range(300):
        world["A"].once(Q, b"%d" % n)
        world.run(0.1)
    end = world.now_us / S
    world.run(2)
    gaps = [b - a for a, b in zip([start, *times], times, strict=False)]
    assert max(gaps) <= 10.2
    assert len(times) <= 6
    assert end - 0.2 <= times[-1] <= end + 0.6
    assert said == sorted(set(said)), "each says more than the one before"
    assert said[-1] == sent[-1], "the last one covers the last message"
    assert world["A"].look("outgoing")[0].unacknowledged == 0


def test_case_064_send_information(world: World) -> None:
    link = world.link("A", "B")
    link.policy = up_to(7)
    world["A"].once(Q, *[b"%d" % n for n in range(10)])
    world.run(2)
    found = world["A"].look("outgoing")[0]
    assert (found.first_unacked, found.last_unacked, found.no_ack_count) == (8, 10, 3)
    assert (found.next_number, found.last_ack) == (11, 7)
    assert found.resend_interval_s == 30
    world.link("A", "B").policy = faithful
    world.run(60)
    found = world["A"].look("outgoing-queue", Q)
    assert (found.first_unacked, found.last_unacked, found.no_ack_count) == (0, 0, 0)


def test_case_065_receive_information(worlds: Worlds) -> None:
    world = worlds("A", "B", "C")
    world["B"].create("q")
    world.link("A", "B").policy = messages_twice
    world["A"].once(Q, b"1", b"2")
    world["C"].once(Q, b"3")
    world.run(0.3)
    by_source = {s.source: s for s in world["B"].look("streams")}
    from_a = by_source[guid_text(world["A"].identity.guid)]
    from_c = by_source[guid_text(world["C"].identity.guid)]
    assert len(by_source) == 2
    assert (from_a.number, from_c.number) == (2, 1)
    assert from_a.rejects > 0
    assert from_c.rejects == 0, "those of its own"
    world.link("A", "B").policy = faithful
    world["A"].once(Q, b"4")
    world.run(2)
    by_source = {s.source: s for s in world["B"].look("streams")}
    assert by_source[guid_text(world["A"].identity.guid)].rejects == 0


def test_case_066_pause_and_resume(world: World) -> None:
    a = world["A"]
    a.once(Q, b"0")
    world.run(2)
    a.steer(Q, "pause")
    for n in range(1, 4):
        a.once(Q, b"%d" % n)
    world.link("A", "B").seen.clear()
    world.run(600)
    assert world.link("A", "B").data() == []
    assert a.look("outgoing")[0].state == "ONHOLD"
    a.kill()
    a.start()
    world.run(60)
    assert world.link("A", "B").seen == []
    assert a.look("outgoing")[0].state == "ONHOLD"
    a.steer(Q, "resend")
    a.once(Q, b"4")
    world.run(60)
    assert world.link("A", "B").seen == [], "nothing but an end of the pause lets it go"
    a.steer(Q, "resume")
    world.run(10)
    assert world["B"].bodies(LOCAL) == [b"0", b"1", b"2", b"3", b"4"]
    a.kill()
    a.start()
    a.once(Q, b"5")
    world.run(10)
    assert world["B"].bodies(LOCAL)[-1] == b"5", "it is over for good"


def test_case_067_resend_at_once(world: World) -> None:
    link = world.link("A", "B")
    link.policy = drop
    world["A"].once(Q, b"1", b"2")
    world.run(1)
    link.policy = faithful
    before = [(p.stream, p.number) for p in link.data()]
    assert len(before) == 2
    link.seen.clear()
    world["A"].steer(Q, "resend")
    world.run(0.1)
    assert [(p.stream, p.number) for p in link.data()] == before
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]


def test_case_068_link_down_for_an_hour(world: World) -> None:
    world.cut("A", "B")
    bodies = [b"%d" % n for n in range(100)]
    for body in bodies:
        world["A"].once(Q, body)
        world.run(36)
    found = world["A"].look("outgoing")[0]
    assert found.trouble
    world.mend("A", "B")
    world.run(60)
    assert world["B"].bodies(LOCAL) == bodies
    assert world["A"].look("outgoing-queue", Q).messages == 0
    world.run(86_400)
    assert world["B"].bodies(LOCAL) == bodies


@pytest.mark.parametrize("transmitted", [True, False])
def test_case_069_expired_after_transmission_is_in_doubt(world: World, transmitted: bool) -> None:
    link = world.link("A", "B")
    link.policy = no_order_acks
    if not transmitted:
        world.cut("A", "B")
    world["A"].once(Q, b"m", time_to_reach_queue=20, journal=Journal.DEADLETTER)
    world.run(60)
    assert world["B"].bodies(LOCAL) == ([b"m"] if transmitted else [])
    (dead,) = world["A"].messages(DEAD)
    expected = (
        MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
        if transmitted
        else MessageClass.NACK_REACH_QUEUE_TIMEOUT
    )
    assert dead.message_class == expected
    assert dead.body == b"m"
    world.mend("A", "B")
    link.policy = faithful
    world["A"].once(Q, b"next")
    world.run(60)
    assert world["B"].bodies(LOCAL) == ([b"m", b"next"] if transmitted else [b"next"])


def test_case_131_after_the_commit_messages_wait_for_a_peer_that_cannot_be_reached(
    world: World,
) -> None:
    """The commit has said OK long before; delivery is as good as the network."""
    world.cut("A", "B")
    world["A"].once(Q, b"1", b"2")
    world.run(3600)
    assert world["B"].bodies(LOCAL) == []
    assert view(world["A"]).messages == 2  # type: ignore[attr-defined]
    world["A"].kill()
    world["A"].start()
    world.run(60)
    assert view(world["A"]).messages == 2  # type: ignore[attr-defined]
    world.mend("A", "B")
    world.run(60)
    assert world["B"].bodies(LOCAL) == [b"1", b"2"]
