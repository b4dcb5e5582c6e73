"""Acknowledged messages of which nobody tells the end any more: one of the two was put back.

Their sender asks for them, and ends the wait: in doubt, with the reason, told to whoever asked.
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.client.why import why
from onceq.core.inputs import PutBack
from onceq.core.peers import trust
from onceq.core.peers.lives import CAME
from onceq.model.letters import CAUSES
from onceq.model.limits import ENDS_ASKED_S
from onceq.model.message import Acknowledge, Journal
from onceq.model.requests import Claim
from onceq.model.resultcodes import FORGOTTEN_THERE, TOLD_ALREADY
from onceq.testing.disk import SimFiles
from onceq.testing.links import Passing, faithful
from tests.conformance.copies import dead, image, put_back
from tests.conformance.policies import no_final_acks
from tests.conformance.reading import move
from tests.conformance.world import Node, World, fast

Q = "DIRECT=OS:B\\private$\\q"
LOCAL, ADMIN, OWN = "private$\\q", "private$\\adm", "private$\\own"
DEAD = "SYSTEM$;DEADXACT"
DOUBT = 0xC003


@pytest.fixture
def world() -> World:
    world = World("A", "B")
    world["B"].create("q")
    world["A"].create("adm", transactional=False)
    world["A"].create("own")
    return world


def back(world: World, node: Node, files: SimFiles, *, recorded: bool = True) -> None:
    put_back(node, files)
    if recorded:
        assert node.engine is not None
        node.engine.submit(PutBack(0, 0, 1, 100))
    world.run(0)


def awaiting(node: Node) -> int:
    found: int = node.look("outgoing-queue", Q).awaiting_final
    return found


def classes(node: Node, queue: str) -> list[int]:
    try:
        return [message.message_class for message in node.messages(queue)]
    except TimeoutError:
        return []


def wishes(**more: Any) -> dict[str, Any]:
    return {"journal": Journal.DEADLETTER, "acknowledge": Acknowledge(15), "admin_queue": ADMIN,
            **more}  # fmt: skip


@pytest.mark.parametrize("recorded", [True, False])
def test_what_a_receiver_that_was_put_back_has_forgotten_is_in_doubt(
    world: World, *, recorded: bool
) -> None:
    """Nothing else is sent, and nobody connects: the sender asks by itself."""
    a, b = world["A"], world["B"]
    before = image(b)
    a.once(Q, b"1", b"2", **wishes())
    world.run(30)
    assert awaiting(a) == 2
    back(world, b, before, recorded=recorded)
    world.run(ENDS_ASKED_S + 60)
    assert awaiting(a) == 0
    assert dead(a) == {b"1": DOUBT, b"2": DOUBT}
    assert {m.note for m in a.messages(DEAD)} == {FORGOTTEN_THERE}
    assert classes(a, ADMIN).count(DOUBT) == 2
    view = a.look("outgoing-queue", Q)
    assert [(one.messages, one.cause) for one in view.endings] == [(2, FORGOTTEN_THERE)]


def test_it_is_asked_as_soon_as_a_session_opens(world: World) -> None:
    """What comes later goes on, and takes the place of nothing."""
    a, b = world["A"], world["B"]
    a.once(Q, b"0")
    world.run(30)
    before = image(b)
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    world.run(30)
    back(world, b, before)
    a.once(Q, b"2", journal=Journal.DEADLETTER)
    world.run(60)
    assert b.bodies(LOCAL) == [b"0", b"2"]
    assert dead(a) == {b"1": DOUBT}
    assert awaiting(a) == 1, "of what is there, the end will be told"
    assert [u.what for u in b.look("status").undone] == [CAME]
    b.receive(LOCAL, count=2)
    world.run(60)
    assert awaiting(a) == 0
    assert dead(a) == {b"1": DOUBT}


def test_a_question_for_which_there_is_no_room_is_asked_soon(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So much else is to be asked when a session opens that this one is not: it is not taken for
    one that was asked and not answered, again and again, at every session."""
    a, b = world["A"], world["B"]
    before = image(b)
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    world.run(30)
    monkeypatch.setattr(trust, "NOTES_MAX", 0)
    back(world, b, before)
    a.once(Q, b"2")
    world.run(5)
    assert dead(a) == {}
    monkeypatch.undo()
    world.run(15)
    assert dead(a) == {b"1": DOUBT}


def test_what_a_sender_that_was_put_back_was_told_already_is_in_doubt(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1", b"2", **wishes(dead_letter_queue=OWN))
    world.run(30)
    before = image(a)
    b.receive(LOCAL, count=1)
    world.run(30)
    assert awaiting(a) == 1
    back(world, a, before)
    assert awaiting(a) == 2
    world.run(ENDS_ASKED_S + 60)
    assert awaiting(a) == 1, "the other one can still be received"
    assert [(m.body, m.message_class, m.note) for m in a.messages(OWN)] == [
        (b"1", DOUBT, TOLD_ALREADY)
    ]
    b.receive(LOCAL, count=1)
    world.run(60)
    assert awaiting(a) == 0


def test_a_sender_that_was_put_back_to_before_the_acknowledgment_asks_too(world: World) -> None:
    a, b = world["A"], world["B"]
    world.cut("A", "B")
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    before = image(a)
    world.mend("A", "B")
    world.run(30)
    b.receive(LOCAL, count=1)
    world.run(30)
    assert awaiting(a) == 0
    back(world, a, before, recorded=False)
    world.run(ENDS_ASKED_S + 60)
    assert (awaiting(a), a.look("outgoing-queue", Q).messages) == (0, 0)
    assert dead(a) == {b"1": DOUBT}


@pytest.mark.parametrize("end", ["waits", "held", "elsewhere"])
def test_of_what_is_still_there_the_sender_waits_for_the_end(world: World, end: str) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1", b"2", b"3", journal=Journal.DEADLETTER)
    world.run(30)
    if end == "held":
        b.receive(LOCAL, tx=b.begin(), count=3)
    elif end == "elsewhere":
        move(b, LOCAL, b.messages(LOCAL)[1].lookup_id, LOCAL + ";aside")
    world.cut("A", "B")
    world.mend("A", "B")
    a.once(Q, b"4")
    world.run(60)  # a session opens: it is asked
    for _ in range(3):
        world.cut("A", "B")
        world.run(ENDS_ASKED_S)
        world.mend("A", "B")
        world.run(ENDS_ASKED_S)
    assert awaiting(a) == 3
    settled = sum(passing.kind == 3 for passing in world.link("A", "B").seen)
    assert 0 < settled <= 2 * 8, "who was answered does not ask again at once"
    assert dead(a) == {}


def test_an_end_that_is_under_way_is_waited_for(world: World) -> None:
    """The receiver answers only when every end that it had to tell has been taken."""
    a, b = world["A"], world["B"]
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    world.run(30)
    world.link("A", "B").policy = no_final_acks
    b.receive(LOCAL, count=1)
    for _ in range(3):
        world.cut("A", "B")
        world.run(60)
        world.mend("A", "B")
        world.run(ENDS_ASKED_S)
        assert dead(a) == {}
    world.link("A", "B").policy = faithful
    world.cut("A", "B")
    world.mend("A", "B")
    world.run(ENDS_ASKED_S)
    assert awaiting(a) == 0
    assert dead(a) == {}


def test_an_end_that_is_told_after_all_settles_it(world: World) -> None:
    """A copy of the receiver has its turn again."""
    a, b = world["A"], world["B"]
    before = image(b)
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    world.run(30)
    later = image(b)
    back(world, b, before, recorded=False)
    world.run(ENDS_ASKED_S + 60)
    assert dead(a) == {b"1": DOUBT}
    back(world, b, later, recorded=False)
    b.receive(LOCAL, count=1)
    world.run(60)
    assert dead(a) == {}


def test_who_asked_for_bad_news_only_is_told(world: World) -> None:
    a, b = world["A"], world["B"]
    before = image(b)
    a.once(Q, b"1", journal=Journal.JOURNAL, acknowledge=Acknowledge.NEGATIVE_RECEIVE,
           admin_queue=ADMIN)  # fmt: skip
    world.run(30)
    back(world, b, before)
    world.run(ENDS_ASKED_S + 60)
    assert awaiting(a) == 0
    assert classes(a, ADMIN) == [DOUBT]


def test_more_ranges_than_fit_into_an_answer_are_asked_for_in_parts(world: World) -> None:
    """Every second message was received, and the sender was put back to before it heard of it."""
    a, b = world["A"], world["B"]
    count = 400
    a.once(Q, *(b"%d" % n for n in range(count)), journal=Journal.DEADLETTER)
    world.run(60)
    before = image(a)
    lookups = [message.lookup_id for message in b.messages(LOCAL)]
    claimed = b.begin()
    b.ask(Claim(LOCAL, claimed, tuple((at, at) for at in lookups[::2])))
    b.commit(claimed)
    world.run(60)
    assert awaiting(a) == count // 2
    back(world, a, before)
    world.run(2 * ENDS_ASKED_S)
    assert awaiting(a) == count // 2
    assert len(dead(a)) == count // 2


def test_the_wait_goes_on_over_a_restart_of_the_sender(world: World) -> None:
    a, b = world["A"], world["B"]
    before = image(b)
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    world.run(30)
    back(world, b, before)
    a.kill()
    a.start()
    world.run(ENDS_ASKED_S + 60)
    assert dead(a) == {b"1": DOUBT}


def test_questions_that_get_lost_are_asked_again() -> None:
    world = World("A", "B", settings=fast())
    a, b = world["A"], world["B"]
    b.create("q")
    before = image(b)
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    world.run(30)
    back(world, b, before)
    dropped = 0

    def some(passing: Passing) -> list[tuple[int, Passing]]:
        nonlocal dropped
        dropped += passing.kind == 3
        return faithful(passing) if passing.kind != 3 or dropped > 4 else []

    world.link("A", "B").policy = some
    world.run(2 * ENDS_ASKED_S)
    assert dropped > 4
    assert dead(a) == {b"1": DOUBT}


def test_why_says_what_ended_the_wait(world: World) -> None:
    a, b = world["A"], world["B"]
    before = image(b)
    a.once(Q, b"1", journal=Journal.DEADLETTER)
    world.run(30)
    back(world, b, before)
    world.run(ENDS_ASKED_S + 60)
    said = why(a.look("outgoing-queue", Q))
    assert "was put back to an earlier moment" in said
    assert "acknowledged" in said
    assert "put back" in CAUSES[FORGOTTEN_THERE]
    assert "put back" in CAUSES[TOLD_ALREADY]
