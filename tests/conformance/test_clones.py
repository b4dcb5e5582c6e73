"""Clones: a copy of a directory that nothing tells that it is one runs beside the original.

Its marks of what never left are those of the original, which has gone on to transmit. As long as it
has not noticed that, it cannot know better; from then on it claims nothing of what both have.
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.client.why import why
from onceq.core.peers.duplicate_identity import AHEAD, MORE
from onceq.core.state.snapshot import restore, snapshot
from onceq.core.state.state import State
from onceq.model import requests
from onceq.model.limits import ENDS_ASKED_S
from onceq.model.message import Acknowledge, Delivery, Journal
from onceq.model.resultcodes import TOLD_ALREADY
from onceq.model.resultcodes import MessageClass as C
from onceq.testing.links import faithful
from proof.sim.base.comparing import differences
from proof.sim.faults import lies
from tests.conformance.clocks import START_S
from tests.conformance.copies import clone, dead, image
from tests.conformance.foreign import STRANGER, Foreign
from tests.conformance.leaving import found, told
from tests.conformance.policies import only
from tests.conformance.world import Node, World

Q, OTHER, PLAIN = (f"DIRECT=OS:B\\private$\\{name}" for name in ("q", "other", "plain"))
LOCAL, DEAD, DEAD_PLAIN = "private$\\q", "SYSTEM$;DEADXACT", "SYSTEM$;DEADLETTER"
DOUBT, PURGED, LATE = C.NACK_RECEIVE_TIMEOUT_AT_SENDER, C.NACK_DELETED, C.NACK_REACH_QUEUE_TIMEOUT
LETTER: dict[str, Any] = {"journal": Journal.DEADLETTER}
BAD_NEWS: dict[str, Any] = {
    "acknowledge": Acknowledge.NEGATIVE_ARRIVAL, "admin_queue": "private$\\adm",
}  # fmt: skip


@pytest.fixture
def world() -> World:
    world = World("A", "B")
    for name in ("q", "other"):
        world["B"].create(name)
    world["B"].create("plain", transactional=False)
    world["A"].create("adm", transactional=False)
    return world


def both_have(world: World, *, queue: str = Q, **asked: Any) -> Node:
    """A and its clone have these messages; only A transmits them. The clone has them on hold."""
    a = world["A"]
    world.cut("A", "B")
    if queue == Q:
        a.once(Q, b"1", b"2", **asked)
    else:
        a.send(0, queue, b"1", delivery=Delivery.RECOVERABLE, **asked)
    a.steer(queue, "pause")
    files = image(a)
    world.mend("A", "B")
    a.steer(queue, "resume")
    world.run(10)
    assert world["B"].bodies(f"private${queue.partition('private$')[2]}")
    return clone(world, a, files)


def cloned_first(world: World) -> Node:
    """A has a message on hold that its clone transmits; it still lives as when it was sent."""
    a = world["A"]
    world.cut("A", "B")
    a.once(Q, b"1", **LETTER)
    a.steer(Q, "pause")
    twin = clone(world, a, image(a))
    world.mend("A", "B")
    twin.steer(Q, "resume")
    world.run(5)
    assert world["B"].bodies(LOCAL) == [b"1"]
    return twin


def notices(world: World, twin: Node) -> None:
    """Both speak to B, and each is told of the other."""
    for at in range(3):
        twin.once(OTHER, b"twin %d" % at)
        world["A"].once(OTHER, b"A %d" % at)
        world.run(7)
    for node in (twin, world["A"]):
        assert node.look("status").clashes


def purge(node: Node, queue: str = Q) -> None:
    node.ask(requests.PurgeQueue(queue))


@pytest.mark.parametrize("ends", ["purged", "late"])
@pytest.mark.parametrize("restarted", ["", "restart", "checkpoint"])
def test_what_never_left_a_clone_is_in_doubt_once_it_has_noticed(
    world: World, ends: str, restarted: str
) -> None:
    twin = both_have(world, time_to_reach_queue=600, **LETTER)
    notices(world, twin)
    assert not dead(twin)
    if restarted:
        if restarted == "checkpoint":
            assert twin.engine is not None
            twin.engine.checkpoint()
        world.cut("A", "B")  # it hears of the other no more
        twin.crash()
        twin.start()
        assert twin.look("status").clashes == ()
    if ends == "purged":
        purge(twin)
    else:
        world.cut("A", "B")
        world.run(700)
    reason = PURGED if ends == "purged" else LATE
    assert found(twin, DEAD) == {b"1": (DOUBT, reason), b"2": (DOUBT, reason)}
    assert world["B"].bodies(LOCAL) == [b"1", b"2"], "it was delivered"


def test_what_is_sent_after_a_clone_has_noticed_is_certain(world: World) -> None:
    twin = both_have(world, **LETTER)
    notices(world, twin)
    twin.once(Q, b"3", **LETTER)
    purge(twin)
    assert found(twin, DEAD) == {
        b"1": (DOUBT, PURGED), b"2": (DOUBT, PURGED), b"3": (PURGED, 0),
    }  # fmt: skip


def test_what_its_clone_may_have_sent_is_in_doubt_at_the_original(world: World) -> None:
    """The other way round: the original has it on hold, and the clone transmits it."""
    a = world["A"]
    twin = cloned_first(world)
    notices(world, twin)
    purge(a)
    assert found(a, DEAD) == {b"1": (DOUBT, PURGED)}


@pytest.mark.unturned(
    "private", reason="by its GUID B is asked before anybody can know of the other copy"
)
@pytest.mark.parametrize("noticed", ["first", "last"])
@pytest.mark.parametrize("restarted", [False, True])
def test_that_it_never_came_from_one_copy_is_no_proof_for_both(
    world: World, noticed: str, *, restarted: bool
) -> None:
    """Both have transmitted messages that never arrived. The clone gives them up and hears that
    they have not come in the stream that it asks about; the original sends them in another one."""
    a, b = world["A"], world["B"]
    a.once(Q, b"0")
    world.run(5)
    b.receive(LOCAL)
    world.run(5)
    link = world.link("A", "B")
    link.policy = only()
    a.once(Q, b"1", b"2", **LETTER)
    world.run(1)
    assert not b.bodies(LOCAL)
    a.steer(Q, "pause")
    twin = clone(world, a, image(a))
    link.policy = faithful
    if noticed == "last":
        purge(twin)
    notices(world, twin)
    if noticed == "first":
        purge(twin)
    assert found(twin, DEAD) == {b"1": (DOUBT, PURGED), b"2": (DOUBT, PURGED)}
    if restarted:
        world.cut("A", "B")  # it hears of the other no more
        twin.crash()
        twin.start()
        assert twin.look("status").clashes == ()
        world.mend("A", "B")
    twin.steer(Q, "resume")
    twin.once(Q, b"3")
    world.run(60)
    assert found(twin, DEAD) == {b"1": (DOUBT, PURGED), b"2": (DOUBT, PURGED)}
    assert twin.look("outgoing-queue", Q).in_doubt == 0, "and it is not asked for ever"
    a.steer(Q, "resume")
    world.run(60)
    assert b.bodies(LOCAL) == [b"3", b"1", b"2"]


def test_messages_outside_transactions_are_in_doubt_as_well(world: World) -> None:
    twin = both_have(world, queue=PLAIN, **LETTER, **BAD_NEWS)
    notices(world, twin)
    purge(twin, PLAIN)
    assert found(twin, DEAD_PLAIN) == {b"1": (DOUBT, PURGED)}
    assert told(twin) == {b"1": DOUBT}


@pytest.mark.unturned(
    "restore", reason="who was put back knows less, of what has left and of what came"
)
def test_why_says_what_another_copy_may_have_sent(world: World) -> None:
    twin = both_have(world, **LETTER)
    before = why(twin.look("outgoing-queue", Q))
    assert "identity" not in before
    notices(world, twin)
    view = twin.look("outgoing-queue", Q)
    assert view.elsewhere == 2
    assert "2 messages here may have left from there" in why(view)
    twin.once(Q, b"3")
    assert twin.look("outgoing-queue", Q).elsewhere == 2, "this one is of its own"
    assert twin.engine is not None
    state = twin.engine.manager.state
    again = State(state.identity)
    restore(again, b"".join(snapshot(state)))
    assert differences(state, again, apart=("number_ceiling", "next_message")) == []


# ---- ends that are told to the copy which has not sent the message -----------------------------


def early(world: World, journal: Journal) -> Node:
    """B tells the clone how the first of two messages has ended that only A has sent."""
    twin = both_have(world, journal=journal)
    world["A"].kill()
    twin.once(OTHER, b"hello")
    world.run(5)
    world["B"].receive(LOCAL)
    world.run(5)
    return twin


@pytest.mark.unturned(
    "restore", reason="who was put back knows less, of what has left and of what came"
)
def test_an_end_that_is_told_before_the_clone_has_sent_it_counts(world: World) -> None:
    twin = early(world, Journal.DEADLETTER | Journal.JOURNAL)
    assert [clash.found for clash in twin.look("status").clashes] == [MORE]
    assert found(twin, "SYSTEM$;JOURNAL") == {b"1": (0, 0)}, "it was received"
    link = world.link("A", "B")
    seen = len(link.data())
    twin.steer(Q, "resume")
    world.run(5)
    (again,) = {p.number for p in link.data()[seen:] if p.stream == link.data()[0].stream}
    assert again == 2, "only the other one is sent once more"
    assert world["B"].bodies(LOCAL) == [b"2"]
    world["B"].receive(LOCAL)
    world.run(5)
    assert len(twin.messages("SYSTEM$;JOURNAL")) == 2
    assert twin.look("outgoing-queue", Q).messages == 0
    assert not dead(twin)


def test_after_such_an_end_the_rest_is_in_doubt(world: World) -> None:
    twin = early(world, Journal.DEADLETTER)
    purge(twin)
    assert found(twin, DEAD) == {b"2": (DOUBT, PURGED)}


def test_a_bad_end_that_is_told_to_the_clone_is_its_dead_letter(world: World) -> None:
    twin = both_have(world, **LETTER)
    world["A"].kill()
    twin.once(OTHER, b"hello")
    world.run(5)
    world["B"].ask(requests.PurgeQueue(LOCAL))
    world.run(5)
    assert dead(twin) == dict.fromkeys((b"1", b"2"), C.NACK_QUEUE_PURGED)


def test_in_the_life_that_gave_a_number_such_an_end_is_a_clash_only(world: World) -> None:
    """It might be of another message, of a process whose memory was copied. So it is sent, and
    its receiver, who has it, lets it go."""
    a, b = world["A"], world["B"]
    twin = cloned_first(world)
    twin.kill()
    a.once(OTHER, b"hello")
    world.run(5)
    b.receive(LOCAL)
    world.run(5)
    assert [clash.found for clash in a.look("status").clashes] == [AHEAD]
    assert a.look("outgoing-queue", Q).messages == 1
    a.steer(Q, "resume")
    world.run(ENDS_ASKED_S + 100)
    assert a.look("outgoing-queue", Q).messages == 0
    assert found(a, DEAD) == {b"1": (DOUBT, TOLD_ALREADY)}


@pytest.mark.unturned("lines", reason="its moments are shorter than the line")
def test_an_end_told_by_somebody_else_is_no_clash(world: World) -> None:
    """Only the manager that messages go to may tell of an end, and thereby of another copy."""
    twin = both_have(world, **LETTER)
    number, stream = 1, world.link("A", "B").data()[0].stream
    world["A"].kill()
    twin.once(OTHER, b"hello")
    world.run(1)
    now_s = START_S + world.now_us // 1_000_000
    a, b = (world[name].identity.guid for name in "AB")
    stranger = Foreign(world).call(twin)
    for guid in (STRANGER, b):
        said = lies.ended(guid, a, stream, number, sent_s=now_s, reason=C.ACK_RECEIVE)
        stranger.say(said, recoverable=1)
    assert twin.look("status").clashes == ()
    assert twin.look("outgoing-queue", Q).messages == 2
