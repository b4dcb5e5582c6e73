"""Messages in doubt become certain between two onceq managers (CNF-22)."""

from __future__ import annotations

import pytest

from onceq.core.state.setups import StorePutBack
from onceq.core.step.connections import Clash
from onceq.model import requests
from onceq.packet.acks import Inquiry, parse_settling
from onceq.packet.arrived import ORDER_ACK, SETTLING, Batch
from onceq.testing.links import Passing, faithful
from tests.conformance.copies import image, put_back
from tests.conformance.policies import no_order_acks, only, without
from tests.conformance.world import Node, World, fast

Q = "DIRECT=OS:B\\private$\\q"
LOCAL = "private$\\q"
DEAD = "SYSTEM$;DEADXACT"
IN_DOUBT, NOT_DELIVERED, PURGED = 0xC003, 0x8002, 0xC001


def dead(node: Node) -> dict[bytes, int]:
    try:
        found: Batch = node.messages(DEAD)
    except TimeoutError:
        return {}
    return {m.body: m.message_class for m in found}


def doubtful(world: World, *through: int, bodies: int = 3, after: bool = True) -> None:
    """A sends so many messages that expire after 10 s; the numbers named reach B, and A hears
    nothing of it. Then the link is whole again."""
    link = world.link("A", "B")
    link.policy = only(*through)
    texts = [b"%d" % n for n in range(1, bodies + 1)]
    world["A"].once(Q, *texts, journal=1, time_to_reach_queue=10)
    world.run(5)
    world.cut("A", "B")
    world.run(20)
    assert dead(world["A"]) == dict.fromkeys(texts, IN_DOUBT)
    assert world["A"].look("outgoing-queue", Q).in_doubt == bodies
    link.policy = faithful
    link.seen.clear()
    if after:
        world.mend("A", "B")


@pytest.fixture
def world() -> World:
    world = World("A", "B")
    world["B"].create("q")
    return world


def test_what_never_arrived_is_told_apart_from_what_did(world: World) -> None:
    doubtful(world, 1)
    world.run(60)
    a, b = world["A"], world["B"]
    assert b.bodies(LOCAL) == [b"1"]
    assert dead(a) == {b"1": IN_DOUBT, b"2": NOT_DELIVERED, b"3": NOT_DELIVERED}
    assert a.look("outgoing-queue", Q).in_doubt == 0
    # The one that arrived is settled by its end, however late that comes.
    b.receive(LOCAL)
    world.run(5)
    assert dead(a) == {b"2": NOT_DELIVERED, b"3": NOT_DELIVERED}


def test_nothing_arrived_and_nothing_more_is_sent(world: World) -> None:
    doubtful(world)
    world.run(60)
    assert set(dead(world["A"]).values()) == {NOT_DELIVERED}
    assert world["B"].bodies(LOCAL) == []


def test_a_late_bad_end_is_the_reason_in_the_end(world: World) -> None:
    doubtful(world, 1, 2, 3)
    world.run(60)

    world["B"].ask(requests.PurgeQueue(LOCAL))
    world.run(5)
    assert set(dead(world["A"]).values()) == {PURGED}


def test_what_was_told_to_be_not_delivered_can_never_be_delivered(world: World) -> None:
    # A copy of message 2 is held up on its way and arrives after the answer was given.
    held: list[Passing] = []

    def hold(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == 0 and p.number == 2:
            held.append(p)
            return [(90_000_000, p)]
        return faithful(p) if p.kind != 0 or p.number == 1 else []

    a, b = world["A"], world["B"]
    link = world.link("A", "B")
    link.policy = hold
    a.once(Q, b"1", b"2", journal=1, time_to_reach_queue=10)
    world.run(60)
    assert dead(a)[b"2"] == NOT_DELIVERED
    link.policy = faithful
    world.run(60)
    assert held
    assert b.look("streams")[0].duplicates > 0, "the copy came, and was turned away"
    assert b.bodies(LOCAL) == [b"1"]
    a.once(Q, b"3")
    world.run(5)
    assert b.bodies(LOCAL) == [b"1", b"3"]


def test_later_messages_go_on_and_close_what_was_left(world: World) -> None:
    doubtful(world, 1, 3, after=False)
    a = world["A"]
    a.once(Q, b"new", b"er")
    world.mend("A", "B")
    world.run(60)
    assert world["B"].bodies(LOCAL) == [b"1", b"new", b"er"]
    assert dead(a) == {b"1": IN_DOUBT, b"2": NOT_DELIVERED, b"3": NOT_DELIVERED}
    assert a.look("outgoing-queue", Q).in_doubt == 0


@pytest.mark.parametrize("loss", ["inquiry", "settlement"])
def test_a_lost_telling_is_asked_for_again(world: World, loss: str) -> None:
    doubtful(world, 1)
    link = world.link("A", "B")
    lost: list[str] = []

    def lose(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == 3:
            what = parse_settling(p.packet)
            name = "inquiry" if isinstance(what, Inquiry) else "settlement"
            if name == loss and len(lost) < 2:
                lost.append(name)
                return []
        return faithful(p)

    link.policy = lose
    world.run(200)
    assert lost == [loss] * 2
    assert dead(world["A"]) == {b"1": IN_DOUBT, b"2": NOT_DELIVERED, b"3": NOT_DELIVERED}


def test_repeated_tellings_change_nothing_more(world: World) -> None:
    doubtful(world, 1)
    world.link("A", "B").policy = lambda p: (
        [(0, p), (50_000, p), (2_000_000, p)] if p.kind == 3 else faithful(p)
    )
    world.run(60)
    a, b = world["A"], world["B"]
    assert dead(a) == {b"1": IN_DOUBT, b"2": NOT_DELIVERED, b"3": NOT_DELIVERED}
    a.once(Q, b"next")
    world.run(10)
    assert b.bodies(LOCAL) == [b"1", b"next"]


@pytest.mark.unturned(
    "restore", reason="who was put back knows less, of what has left and of what came"
)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_both_sides_remember_over_a_power_cut(world: World, *, checkpoint: bool) -> None:
    doubtful(world, 1, after=False)
    for name in ("A", "B"):
        node = world[name]
        if checkpoint:
            assert node.engine is not None
            node.engine.checkpoint()
        node.power_cut()
        node.start()
    world.mend("A", "B")
    world.run(120)
    assert dead(world["A"]) == {b"1": IN_DOUBT, b"2": NOT_DELIVERED, b"3": NOT_DELIVERED}
    for name in ("A", "B"):
        world[name].power_cut()
        world[name].start()
    world["B"].receive(LOCAL)
    world.run(60)
    assert dead(world["A"]) == {b"2": NOT_DELIVERED, b"3": NOT_DELIVERED}


@pytest.mark.unturned(
    "restore", reason="who was put back knows less, of what has left and of what came"
)
def test_the_receiver_dies_between_its_note_and_its_answer(world: World) -> None:
    doubtful(world, 1)
    b = world["B"]
    while not any(p.kind == 3 and p.direction == 0 for p in world.link("A", "B").seen):
        world.step()
    b.kill()
    b.start()
    world.run(200)
    assert dead(world["A"]) == {b"1": IN_DOUBT, b"2": NOT_DELIVERED, b"3": NOT_DELIVERED}


@pytest.mark.parametrize("old", ["A", "B"])
def test_peers_without_the_extension_never_see_it_and_doubt_stays(old: str) -> None:
    world = World("A", "B")
    node = world[old]
    node.kill()
    node.settings = fast(settle_doubts=False)
    node.start()
    world.settings = fast(settle_doubts=False)
    world["B"].create("q")
    doubtful(world, 1)
    world["A"].once(Q, b"next")
    world.run(300)
    assert set(dead(world["A"]).values()) == {IN_DOUBT}
    assert not [p for p in world.link("A", "B").seen if p.kind == 3]
    assert world["B"].bodies(LOCAL) == [b"1", b"next"]


def test_a_dead_letter_that_was_taken_is_forgotten(world: World) -> None:
    doubtful(world, after=False)
    a = world["A"]
    a.receive(DEAD)
    assert a.look("outgoing-queue", Q).in_doubt == 2
    tx = a.begin()
    a.receive(DEAD, tx=tx)
    world.mend("A", "B")
    world.run(60)
    a.abort(tx)
    assert set(dead(a).values()) == {NOT_DELIVERED}
    assert len(dead(a)) == 2


def test_a_receiver_restored_from_a_backup_does_not_say_what_it_cannot_know(world: World) -> None:
    doubtful(world, 1, after=False)
    b = world["B"]
    assert b.engine is not None
    step = b.engine.manager._step
    step.state.apply_setup(StorePutBack(at_s=9, taken_s=5, position=0))
    world.mend("A", "B")
    world.run(60)
    assert set(dead(world["A"]).values()) == {IN_DOUBT}
    world["A"].once(Q, b"next")
    world.run(5)
    assert world["B"].bodies(LOCAL) == [b"1", b"next"]


def test_a_question_about_a_stream_that_was_left_does_not_lead_back_to_it(world: World) -> None:
    """It names a higher number than any of the stream that the receiver is in now: what is
    transmitted again in that one is a repetition all the same."""
    a, b, link = world["A"], world["B"], world.link("A", "B")
    link.policy = without(ORDER_ACK, SETTLING)
    a.once(Q, *(b"%d" % n for n in range(1, 6)), time_to_reach_queue=60, journal=1)
    world.run(100)
    assert set(dead(a).values()) == {IN_DOUBT}
    a.once(Q, b"x", b"y")
    world.run(5)
    link.policy = no_order_acks
    world.run(4000)
    link.policy = faithful
    world.run(4000)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"4", b"5", b"x", b"y"]
    assert set(dead(a).values()) == {IN_DOUBT}, "they wait to be received, and have arrived"


@pytest.mark.unturned(
    "restore", reason="who was put back knows less, of what has left and of what came"
)
def test_what_one_of_two_copies_does_not_know_may_have_reached_the_other(world: World) -> None:
    """Its receiver runs twice, and its sender has noticed it: the one that is asked has accepted
    nothing, and that says nothing of the other one."""
    a, b = world["A"], world["B"]
    a.once(Q, b"0")
    world.run(5)
    b.receive(LOCAL)
    world.run(5)
    before = image(b)
    doubtful(world, 1, 2, after=False)
    assert b.bodies(LOCAL) == [b"1", b"2"]
    put_back(b, before)
    assert a.engine is not None
    a.engine.manager._step.sessions.watch.clashes[b.identity.guid] = Clash(0, what="two of them")
    world.mend("A", "B")
    world.run(60)
    assert dead(a) == dict.fromkeys([b"1", b"2", b"3"], IN_DOUBT)
    assert a.look("outgoing-queue", Q).in_doubt == 0, "and it is not asked for ever"
