"""A manager that was put back while others went on: who shows that he knows of what is undone."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.client.why import why
from onceq.core.inputs import PutBack
from onceq.core.peers.duplicate_identity import MORE
from onceq.core.peers.lives import CAME, SENT
from onceq.core.state.snapshot import restore, snapshot
from onceq.core.state.state import State
from onceq.testing.disk import SimFiles
from onceq.testing.links import faithful
from proof.sim.base.comparing import differences
from tests.conformance.copies import dead, image, put_back, restored
from tests.conformance.policies import no_order_acks, settling
from tests.conformance.world import Node, World, fast

Q = "DIRECT=OS:B\\private$\\q"
LOCAL = "private$\\q"


@pytest.fixture
def world() -> World:
    world = World("A", "B")
    world["B"].create("q")
    return world


def recorded(world: World, node: Node) -> None:
    """As a restore records it in what was put back."""
    assert node.engine is not None
    node.engine.submit(PutBack(0, 0, 1, 100))
    world.run(0)


def undone(node: Node) -> list[str]:
    return [u.what for u in node.look("status").undone]


def overtaken(world: World, **properties: Any) -> SimFiles:
    """A has two messages in a stream that a life has drained that its disk knows nothing of."""
    a = world["A"]
    world.cut("A", "B")
    a.once(Q, b"1", b"2", **properties)
    backup = image(a)
    world.mend("A", "B")
    world.run(10)
    a.once(Q, b"3")
    world.run(10)
    return backup


@pytest.mark.unturned("restore", reason="what is undone is noted of the last restore alone")
def test_a_restore_that_was_recorded_is_no_clash_and_who_knows_more_is_named(world: World) -> None:
    a, b = world["A"], world["B"]
    backup = overtaken(world)
    put_back(a, backup)
    recorded(world, a)
    a.once(Q, b"4")
    world.run(120)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"4"]
    assert undone(a) == [SENT]
    assert a.look("status").clashes == ()
    a.kill()
    a.start()
    assert undone(a) == [SENT], "it is kept"


def test_more_of_the_same_stream_is_known_elsewhere(world: World) -> None:
    a, b = world["A"], world["B"]
    world.cut("A", "B")
    a.once(Q, b"1")
    backup = image(a)
    a.once(Q, b"2")
    world.mend("A", "B")
    world.run(10)
    put_back(a, backup)
    recorded(world, a)
    a.once(Q, b"3")
    world.run(120)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3"]
    assert undone(a) == [SENT]


def test_a_receiver_that_was_put_back_names_who_sent_what_is_gone(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1", b"2", b"3")
    world.run(10)
    backup = image(b)
    link = world.link("A", "B")
    link.policy = lambda p: faithful(p) if p.kind == 1 or p.number < 2 else []
    a.once(Q, b"4", b"5")
    world.run(30)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"4"]
    put_back(b, backup)
    recorded(world, b)
    link.policy = faithful
    world.run(120)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"5"]
    assert undone(b) == [CAME]
    a.once(Q, b"6")
    world.run(10)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"5", b"6"]


def test_who_continues_where_the_backup_was_made_shows_nothing(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1", b"2", b"3")
    world.run(10)
    put_back(b, image(b))
    recorded(world, b)
    put_back(a, image(a))
    recorded(world, a)
    a.once(Q, b"4")
    world.run(30)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"4"]
    assert undone(a) == undone(b) == []


def both_put_back(world: World) -> None:
    """B has what A sent in the life that is undone, and what A commits since waits for it."""
    a, b = world["A"], world["B"]
    a.once(Q, b"0")
    world.run(10)
    world.cut("A", "B")
    a.once(Q, b"1", b"2")
    backup = image(a)
    world.mend("A", "B")
    world.run(10)
    a.once(Q, b"3")
    world.run(10)
    late = image(b)
    world.cut("A", "B")
    for node, files in ((b, late), (a, backup)):
        put_back(node, files)
        recorded(world, node)
        world.run(1)
        node.kill()
        node.start()
    world.mend("A", "B")
    a.once(Q, b"4", b"5")


@pytest.mark.unturned("restore", reason="who was put back does not know what never left")
@pytest.mark.parametrize("dies", [-1, 0, 1, 2, 3])
def test_what_is_committed_after_both_were_put_back_arrives(world: World, dies: int) -> None:
    """The receiver has forgotten what it took of earlier streams; of what was committed since, the
    sender knows that it never left, also when it dies while that is settled."""
    a, b = world["A"], world["B"]
    both_put_back(world)
    if dies >= 0:
        link = world.link("A", "B")
        link.policy = settling(dies)
        world.run(30)
        link.policy = faithful
        a.kill()
        a.start()
    world.run(120)
    assert b.bodies(LOCAL) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert a.look("outgoing-queue", Q).messages == 0
    # Whether the life that is undone had transmitted them, nobody knows.
    assert dead(a) == {b"1": 0xC003, b"2": 0xC003}


@pytest.mark.parametrize("kept", range(4))
def test_what_waits_when_its_sender_is_put_back_again_is_in_doubt(world: World, kept: int) -> None:
    """Another restore undoes another life, which may have transmitted what was committed after the
    first one. The receiver does not know either, so its sender is told."""
    a, b = world["A"], world["B"]
    both_put_back(world)
    world.link("A", "B").policy = settling(kept)
    world.run(30)
    world.link("A", "B").policy = faithful
    restored(world, a)
    world.run(120)
    assert b.bodies(LOCAL) == [b"0", b"1", b"2", b"3"]
    assert a.look("outgoing-queue", Q).messages == 0
    assert dead(a) == dict.fromkeys([b"1", b"2", b"4", b"5"], 0xC003)
    a.once(Q, b"6")
    world.run(10)
    assert b.bodies(LOCAL) == [b"0", b"1", b"2", b"3", b"6"]


@pytest.mark.unturned("restore", reason="it is about a restore that nothing tells of")
def test_what_the_receiver_has_more_of_than_was_sent_here_does_not_wait_for_ever() -> None:
    """A is rolled back with its whole machine, which nothing in its directory tells of, to when
    nothing of a stream had left. It may transmit one message at a time: B acknowledges the whole
    stream with the first of them."""
    world = World("A", "B", settings=fast(unacknowledged_messages_max=1))
    a, b = world["A"], world["B"]
    b.create("q")
    world.cut("A", "B")
    a.once(Q, b"1", b"2", b"3")
    snapshot = image(a)
    a.once(Q, b"4")
    world.mend("A", "B")
    world.run(30)
    a.kill()
    a.files = snapshot
    a.start()
    a.once(Q, b"5")
    world.run(300)
    assert a.look("outgoing-queue", Q).messages == 0
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"4", b"5"]
    assert [c.found for c in a.look("status").clashes] == [MORE]


def test_the_marks_that_a_restore_makes_void_are_so_in_a_checkpoint_too(world: World) -> None:
    a = world["A"]
    world.link("A", "B").policy = no_order_acks
    a.once(Q, b"1")
    world.run(10)
    assert a.engine is not None
    a.engine.manager.step(a.engine.clock.read(), PutBack(0, 0, 1, 100))
    state = a.engine.manager.state
    again = State(state.identity)
    restore(again, b"".join(snapshot(state)))
    assert differences(state, again, apart=("number_ceiling", "next_message")) == []


# ---- what ``why`` says of it -------------------------------------------------------------------


def said(node: Node, queue: str) -> str:
    what = "queue" if queue == LOCAL else "outgoing-queue"
    return why(node.look(what, queue))


@pytest.mark.unturned("public", reason="its restore is recorded in the second of a start")
def test_why_says_that_what_waits_was_put_back_and_for_how_long(world: World) -> None:
    a = world["A"]
    world.cut("A", "B")
    a.once(Q, b"1", b"2")
    backup = image(a)
    assert "put back" not in said(a, Q)
    put_back(a, backup)
    recorded(world, a)
    assert "This queue manager was put back" in said(a, Q)
    assert "of 2 messages here" in said(a, Q)
    assert "another manager has shown" not in said(a, Q)
    a.once(Q, b"3")
    assert "of 2 messages here" in said(a, Q), "not of what was sent afterwards"
    world.mend("A", "B")
    world.run(120)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3"]
    assert "put back" not in said(a, Q), "it is settled"


def test_why_names_what_the_receiver_has_shown(world: World) -> None:
    a = world["A"]
    backup = overtaken(world)
    world.cut("A", "B")
    put_back(a, backup)
    recorded(world, a)
    world.mend("A", "B")
    world.run(120)
    assert undone(a) == [SENT]
    assert SENT in said(a, Q), "and it stays so"


def test_why_says_of_a_queue_that_was_put_back_what_comes_again(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1", b"2")
    world.run(10)
    backup = image(b)
    assert b.bodies(LOCAL) == [b"1", b"2"]
    put_back(b, backup)
    assert b.engine is not None
    b.engine.submit(PutBack(0, 0, b.clock.read().wall_s, 100))
    world.run(1)
    assert "of 2 messages here: what was here then already" in said(b, LOCAL)
    b.receive(LOCAL, count=2)
    assert "put back" not in said(b, LOCAL)
