"""What may have left is in doubt, whatever ended it here, and its doubt belongs to who asked."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.state.setups import Left, Setup, StorePutBack
from onceq.model import requests
from onceq.model.limits import DOUBT_AGE_S
from onceq.model.message import Acknowledge, Delivery, Journal
from onceq.model.queue import QueueProperties
from onceq.model.resultcodes import MessageClass as C
from tests.conformance.copies import image, put_back
from tests.conformance.leaving import (
    ADMIN,
    DEAD,
    DEAD_PLAIN,
    IN_DOUBT,
    JOURNAL,
    LOCAL,
    N,
    Q,
    found,
    nothing_heard,
    sent_and_cut,
    told,
    two_managers,
    whole_again,
)
from tests.conformance.world import Node, World, fast

BAD_NEWS: dict[str, Any] = {"acknowledge": Acknowledge.NEGATIVE_ARRIVAL, "admin_queue": ADMIN}
PUBLIC = QueueProperties("p", private=False, transactional=True)


@pytest.fixture
def world() -> World:
    return two_managers()


def purge(node: Node, queue: str = Q) -> None:
    node.ask(requests.PurgeQueue(queue))


# ---- what removes it ---------------------------------------------------------------------------


def test_what_was_transmitted_and_then_purged_is_in_doubt_until_it_is_asked_for(
    world: World,
) -> None:
    a, b = world["A"], world["B"]
    sent_and_cut(world, b"arrived", b"lost", journal=Journal.DEADLETTER)
    a.once(Q, b"never left", journal=Journal.DEADLETTER)
    purge(a)
    assert found(a, DEAD) == {
        b"arrived": (IN_DOUBT, C.NACK_DELETED),
        b"lost": (IN_DOUBT, C.NACK_DELETED),
        b"never left": (C.NACK_DELETED, 0),
    }
    whole_again(world)
    world.run(60)
    assert found(a, DEAD)[b"arrived"] == (IN_DOUBT, C.NACK_DELETED), "its end is not known yet"
    assert found(a, DEAD)[b"lost"] == (C.NACK_DELETED, 0), "never delivered, and why"
    b.receive(LOCAL)
    world.run(10)
    assert set(found(a, DEAD)) == {b"lost", b"never left"}


def test_a_purge_of_what_awaits_its_end_does_not_call_it_undelivered(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"there", journal=Journal.DEADLETTER)
    world.run(5)
    assert a.look("outgoing-queue", Q).awaiting_final == 1
    purge(a)
    assert found(a, DEAD) == {b"there": (IN_DOUBT, C.NACK_DELETED)}
    b.receive(LOCAL)
    world.run(5)
    assert not found(a, DEAD)


@pytest.mark.unturned("public", reason="it reads the GUID of a public queue")
def test_a_queue_that_left_the_directory_leaves_what_was_transmitted_in_doubt() -> None:
    world = World("A", "B", directory=True)
    b = world["B"]
    b.ask(requests.CreateQueue(properties=PUBLIC, instance=b"P" * 16))
    world.run(5)
    name = f"PUBLIC={b.look('queue', 'p').format_name.partition('=')[2]}"
    nothing_heard(world, 1)
    world["A"].once(name, b"arrived", b"lost", journal=Journal.DEADLETTER)
    world.run(3)
    world.cut("A", "B")
    world["A"].once(name, b"never left", journal=Journal.DEADLETTER)
    b.delete("p")
    world.run(120)
    gone = C.NACK_BAD_DESTINATION_QUEUE
    assert found(world["A"], DEAD) == {
        b"arrived": (IN_DOUBT, gone), b"lost": (IN_DOUBT, gone), b"never left": (gone, 0),
    }  # fmt: skip


@pytest.mark.parametrize("how", ["purged", "expired"])
def test_what_is_not_transactional_and_may_have_left_is_in_doubt(world: World, how: str) -> None:
    """Nobody can be asked about it: so its sender is told that nothing is known."""
    a = world["A"]
    link = world.link("A", "B")
    # B gets it, and A hears nothing: the acknowledgments of the session are lost.
    link.muted.add("A")
    lifetime = {"time_to_reach_queue": 30} if how == "expired" else {}
    a.send(0, N, b"left", journal=Journal.DEADLETTER, delivery=Delivery.RECOVERABLE,
           **BAD_NEWS, **lifetime)  # fmt: skip
    world.run(3)
    world.cut("A", "B")
    a.send(0, N, b"never", journal=Journal.DEADLETTER, delivery=Delivery.RECOVERABLE,
           **BAD_NEWS, **lifetime)  # fmt: skip
    if how == "purged":
        purge(a, N)
    world.run(60)
    cause = C.NACK_DELETED if how == "purged" else C.NACK_REACH_QUEUE_TIMEOUT
    assert found(a, DEAD_PLAIN) == {b"left": (IN_DOUBT, cause), b"never": (cause, 0)}
    assert told(a) == {b"left": IN_DOUBT, b"never": cause}


# ---- whose doubt it is -------------------------------------------------------------------------


def test_who_asked_for_negative_acknowledgments_only_hears_when_doubt_ends(world: World) -> None:
    a = world["A"]
    sent_and_cut(world, b"arrived", b"lost", time_to_reach_queue=10, **BAD_NEWS)
    a.once(Q, b"never left", time_to_reach_queue=10, **BAD_NEWS)
    world.run(30)
    assert told(a) == {b"never left": C.NACK_REACH_QUEUE_TIMEOUT}
    assert a.look("outgoing-queue", Q).in_doubt == 2
    assert not found(a, DEAD), "no dead letter was asked for"
    whole_again(world)
    world.run(60)
    assert told(a) == dict.fromkeys((b"never left", b"lost"), C.NACK_REACH_QUEUE_TIMEOUT)
    assert a.look("outgoing-queue", Q).in_doubt == 0


def test_a_doubt_without_dead_letters_outlives_power_cuts(world: World) -> None:
    a = world["A"]
    sent_and_cut(world, b"arrived", b"lost", time_to_reach_queue=10, **BAD_NEWS)
    world.run(30)
    for checkpoint in (True, False):
        assert a.engine is not None
        if checkpoint:
            a.engine.checkpoint()
        a.power_cut()
        a.start()
    whole_again(world)
    world.run(60)
    assert told(a) == {b"lost": C.NACK_REACH_QUEUE_TIMEOUT}


def test_a_doubt_that_nobody_can_settle_is_told_in_the_end(world: World) -> None:
    a = world["A"]
    sent_and_cut(world, b"arrived", b"lost", time_to_reach_queue=10, **BAD_NEWS)
    world.run(DOUBT_AGE_S - 100)
    assert not told(a)
    world.run(200)
    assert told(a) == dict.fromkeys((b"arrived", b"lost"), IN_DOUBT)
    assert a.look("outgoing-queue", Q).in_doubt == 0


def test_of_a_peer_that_cannot_be_asked_the_doubt_is_told_at_once() -> None:
    world = World("A", "B", settings=fast(settle_doubts=False))
    world["B"].create("q")
    world["A"].create("adm", transactional=False)
    sent_and_cut(world, b"arrived", b"lost", time_to_reach_queue=10, **BAD_NEWS)
    world.run(30)
    assert not told(world["A"])
    world["A"].once(Q, b"next")
    whole_again(world)
    world.run(60)
    assert told(world["A"]) == dict.fromkeys((b"arrived", b"lost"), IN_DOUBT)


# ---- the journal is the heir -------------------------------------------------------------------


@pytest.mark.parametrize("journal", [Journal.JOURNAL, Journal.JOURNAL | Journal.DEADLETTER])
def test_what_was_received_after_all_is_in_the_journal(world: World, journal: Journal) -> None:
    a, b = world["A"], world["B"]
    sent_and_cut(world, b"late", journal=journal, time_to_reach_queue=10, time_to_be_received=20)
    b.receive(LOCAL)
    world.run(60)
    wanted = {b"late": (IN_DOUBT, C.NACK_REACH_QUEUE_TIMEOUT)}
    assert found(a, DEAD) == (wanted if journal & Journal.DEADLETTER else {})
    assert not found(a, JOURNAL)
    whole_again(world)
    world.run(60)
    assert not found(a, DEAD)
    assert a.bodies(JOURNAL) == [b"late"]


@pytest.mark.parametrize("kept", [False, True])
def test_a_dead_letter_that_is_held_goes_when_its_transaction_ends(
    world: World, kept: bool
) -> None:
    a, b = world["A"], world["B"]
    both = Journal.JOURNAL | Journal.DEADLETTER
    sent_and_cut(world, b"late", journal=both, time_to_reach_queue=10, time_to_be_received=20)
    b.receive(LOCAL)
    world.run(60)
    tx = a.begin()
    a.receive(DEAD, tx=tx)
    whole_again(world)
    world.run(60)
    assert a.bodies(JOURNAL) == [b"late"]
    if kept:
        a.commit(tx)
    else:
        a.abort(tx)
    assert not found(a, DEAD), "it is not given back: it was received"


# ---- never left --------------------------------------------------------------------------------


@pytest.mark.unturned("restore", reason="who was put back does not know what never left")
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("before", ["nothing", "some", "a session"])
def test_what_never_left_is_certain_over_restarts(
    world: World, before: str, checkpoint: bool
) -> None:
    a = world["A"]
    if before == "some":
        sent_and_cut(world, b"left", journal=Journal.DEADLETTER, time_to_reach_queue=100)
    elif before == "a session":
        a.once(Q, b"accepted")
        world.run(5)
        world.cut("A", "B")
        world.run(1)
    else:
        world.cut("A", "B")
    a.once(Q, b"never", journal=Journal.DEADLETTER, time_to_reach_queue=100, **BAD_NEWS)
    for _ in range(2):
        assert a.engine is not None
        if checkpoint:
            a.engine.checkpoint()
        a.power_cut()
        a.start()
        world.run(5)
    world.run(120)
    late = C.NACK_REACH_QUEUE_TIMEOUT
    wanted = {b"never": (late, 0)} | ({b"left": (IN_DOUBT, late)} if before == "some" else {})
    assert found(a, DEAD) == wanted
    assert told(a) == {b"never": late}


def test_what_left_is_in_doubt_also_when_the_sender_dies_at_once(world: World) -> None:
    """The mark is durable before the packet leaves."""
    a, b = world["A"], world["B"]
    nothing_heard(world, 1)
    a.once(Q, b"left", journal=Journal.DEADLETTER, time_to_reach_queue=50)
    while not b.look("streams"):
        world.step()
    a.power_cut()
    world.cut("A", "B")
    a.start()
    world.run(100)
    assert found(a, DEAD) == {b"left": (IN_DOUBT, C.NACK_REACH_QUEUE_TIMEOUT)}


@pytest.mark.unturned("restore", reason="who was put back does not know what never left")
def test_what_waits_for_a_stream_to_drain_has_not_left(world: World) -> None:
    """The mark runs ahead of what is transmitted, but not into the stream of a later life."""
    a, b = world["A"], world["B"]
    world.cut("A", "B")
    a.once(Q, b"left", journal=Journal.DEADLETTER, time_to_reach_queue=50)
    a.power_cut()
    a.start()
    a.once(Q, b"waits", journal=Journal.DEADLETTER, time_to_reach_queue=50)
    nothing_heard(world, 1)
    world.mend("A", "B")
    while not b.look("streams"):
        world.step()
    a.power_cut()
    world.cut("A", "B")
    a.start()
    world.run(100)
    late = C.NACK_REACH_QUEUE_TIMEOUT
    assert found(a, DEAD) == {b"left": (IN_DOUBT, late), b"waits": (late, 0)}


def test_commits_while_messages_leave_cost_no_sync_more(world: World) -> None:
    """One mark allows many messages: the log of a hundred commits holds but one."""
    a = world["A"]
    marks: list[object] = []
    assert a.engine is not None
    step = a.engine.manager._step
    before = step.setup

    def setup(what: Setup, **more: Any) -> None:
        if isinstance(what, Left):
            marks.append(what)
        before(what, **more)

    step.setup = setup  # type: ignore[method-assign, assignment]
    for number in range(100):
        a.once(Q, b"%d" % number)
        world.run(0.1)
    assert len(marks) == 1
    assert len(world["B"].bodies(LOCAL)) == 100


def test_a_directory_that_was_copied_back_does_not_say_what_it_cannot_know(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """By hand, and nobody has said so: it lies in another place than at its last start."""
    a = world["A"]
    world.cut("A", "B")
    a.once(Q, b"waits", journal=Journal.DEADLETTER, time_to_reach_queue=50)
    copied = image(a)
    world.mend("A", "B")
    world.run(10)
    world.cut("A", "B")
    put_back(a, copied)
    assert "this directory was copied or moved" in caplog.text
    world.run(100)
    assert found(a, DEAD) == {b"waits": (IN_DOUBT, C.NACK_REACH_QUEUE_TIMEOUT)}
    world.mend("A", "B")
    world.run(200)
    assert world["B"].bodies(LOCAL) == [b"waits"]
    a.kill()
    a.start()
    assert caplog.text.count("this directory was copied or moved") == 1


def test_a_manager_that_was_put_back_does_not_say_what_it_cannot_know(world: World) -> None:
    """The life that is undone may have transmitted what the backup has as never left."""
    a = world["A"]
    world.cut("A", "B")
    a.once(Q, b"waits", journal=Journal.DEADLETTER, time_to_reach_queue=50)
    engine = a.engine
    assert engine is not None
    restored = StorePutBack(at_s=2, taken_s=1, position=1)
    note = engine.manager._wrapped(a.clock.read(), lambda step: step.setup(restored))
    engine.settle([note])
    a.kill()
    a.start()
    world.run(100)
    assert found(a, DEAD) == {b"waits": (IN_DOUBT, C.NACK_REACH_QUEUE_TIMEOUT)}
