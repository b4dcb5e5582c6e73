"""What other queue managers may do here: class 0x8004, and everything that follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import ReceiveTimeout
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.message import Acknowledge, Journal
from onceq.model.resultcodes import MessageClass as C
from tests.conformance.over_http import answers, pair
from tests.conformance.strict import StrictManager
from tests.conformance.world import Node, World, Worlds, routed

pytestmark = [
    pytest.mark.inside("who a process is, is told by its certificate"),
    pytest.mark.unturned("identity", reason="who may do what is what it is about"),
]

Q = r"DIRECT=OS:B\private$\q"
LOCAL, ADMIN, DEAD = r"private$\q", r"private$\adm", r"DIRECT=OS:.\SYSTEM$;DEADXACT"
KEY = "private$\\q"
ASKS: dict[str, Any] = {
    "acknowledge": Acknowledge(15), "admin_queue": ADMIN, "journal": Journal.DEADLETTER,
}  # fmt: skip


def classes(node: Node, queue: str) -> list[int]:
    """Classes of what is in a queue."""
    try:
        return [message.message_class for message in node.messages(queue)]
    except ReceiveTimeout:
        return []


def strict(world: World, *nodes: Node) -> World:
    """Nodes to which others have to prove who they are."""
    for node in nodes:
        node.kill()
        node.kind = StrictManager
        node.start()
    return world


def grant(node: Node, words: str, queue: str = "", *, to: Node, take: bool = False) -> None:
    request = requests.SetRights(
        f"peer:{guid_text(to.identity.guid)}", words.split(","), queue, take
    )
    request.check()
    node.ask(request)


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", "B")
    made["A"].create("adm", transactional=False)
    made["B"].create("q")
    return strict(made, made["B"])


def test_what_nobody_has_granted_is_refused_and_told(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"1", **ASKS)
    world.run(10)
    assert b.bodies(LOCAL) == []
    assert classes(a, ADMIN) == [C.NACK_ACCESS_DENIED]
    (letter,) = a.messages(DEAD)
    assert letter.message_class == C.NACK_ACCESS_DENIED
    assert letter.body == b"1"
    assert a.look("outgoing-queue", Q).messages == 0, "it is over"


def test_it_stands_in_the_log_of_who_has_refused_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Else nobody heard of what asks for no answer, as acknowledgments do."""
    a = world["A"]
    a.once(Q, b"1", b"2")
    a.once(Q, b"3")
    world.run(10)
    said = [r.getMessage() for r in caplog.records if "has no right here" in r.getMessage()]
    assert len(said) == 1, "once for the same sender and queue"
    assert guid_text(a.identity.guid) in said[0]


def test_what_is_granted_enters(world: World) -> None:
    a, b = world["A"], world["B"]
    grant(b, "send", KEY, to=a)
    a.once(Q, b"1", b"2", **ASKS)
    world.run(10)
    assert b.bodies(LOCAL) == [b"1", b"2"]
    assert classes(a, ADMIN) == [C.ACK_REACH_QUEUE] * 2


def test_a_right_at_another_queue_is_none(world: World) -> None:
    a, b = world["A"], world["B"]
    b.create("other")
    grant(b, "send", "private$\\other", to=a)
    grant(b, "receive,peek,delete", KEY, to=a)
    a.once(Q, b"1", **ASKS)
    world.run(10)
    assert b.bodies(LOCAL) == []
    assert classes(a, ADMIN) == [C.NACK_ACCESS_DENIED]


def test_case_133_a_refused_message_holds_nothing_up_and_is_refused_once(world: World) -> None:
    """133 as it is published: the message in the middle is refused because a right is missing."""
    a, b = world["A"], world["B"]
    link = world.link("A", "B")
    link.policy = lambda p: [] if p.kind == 2 else [(0, p)] * 2
    for body, may in ((b"1", True), (b"2", False), (b"3", True)):
        grant(b, "send", KEY, to=a, take=not may)
        a.once(Q, body, **ASKS)
        world.run(10)
    world.run(200)
    assert b.bodies(LOCAL) == [b"1", b"3"]
    assert classes(a, ADMIN).count(C.NACK_ACCESS_DENIED) == 1
    sent = len([p for p in link.data() if p.number == 2])
    assert sent <= 4, "not again and again"
    a.once(Q, b"4")
    world.run(4000)
    assert len([p for p in link.data() if p.number == 2]) == sent
    assert a.look("outgoing-queue", Q).unacknowledged == 0
    for node in (a, b):
        node.crash()
        node.start()
    b.receive(LOCAL, count=3)
    world.run(600)
    assert classes(a, ADMIN).count(C.NACK_ACCESS_DENIED) == 1, "nor after a restart"
    assert b.bodies(LOCAL) == [], "nor does it come now that the right is there"


def test_outside_transactions_it_is_the_same(worlds: Worlds) -> None:
    world = worlds("A", "B")
    a, b = world["A"], world["B"]
    a.create("adm", transactional=False)
    b.create("q", transactional=False)
    strict(world, b)
    a.send(0, Q, b"1", **ASKS)
    world.run(10)
    grant(b, "send", KEY, to=a)
    a.send(0, Q, b"2", **ASKS)
    world.run(10)
    assert b.bodies(LOCAL) == [b"2"]
    assert classes(a, ADMIN) == [C.NACK_ACCESS_DENIED, C.ACK_REACH_QUEUE]


def test_whether_there_is_a_queue_is_told_to_those_who_may_send_there(world: World) -> None:
    """Who has no right hears of none, so that nobody finds the names of queues by trying."""
    a, b = world["A"], world["B"]
    nowhere = r"DIRECT=OS:B\private$\nowhere"
    a.once(nowhere, b"1", **ASKS)
    world.run(10)
    assert classes(a, ADMIN) == [C.NACK_ACCESS_DENIED]
    grant(b, "send", "private$\\nowhere", to=a)
    a.once(nowhere, b"2", **ASKS)
    world.run(10)
    assert classes(a, ADMIN) == [C.NACK_ACCESS_DENIED, C.NACK_BAD_DESTINATION_QUEUE]


def test_that_a_queue_is_gone_is_told_to_who_names_it_by_its_number(worlds: Worlds) -> None:
    """Its number does not tell its name; who may send nowhere here does not hear even that."""
    world = worlds("A", "B", "C")
    a, b, c = world["A"], world["B"], world["C"]
    for node in (a, c):
        node.create("adm", transactional=False)
        node.once(Q, b"0")  # so that it knows where B is
    b.create("q")
    strict(world, b)
    grant(b, "send", KEY, to=a)
    there = f"PRIVATE={guid_text(b.identity.guid)}\\{b.look('queue', LOCAL).number:08x}"
    a.once(there, b"1", **ASKS)
    world.run(10)
    assert classes(a, ADMIN) == [C.ACK_REACH_QUEUE]
    b.ask(requests.DeleteQueue(LOCAL))
    for node in (a, c):
        node.once(there, b"2", **ASKS)
    world.run(10)
    assert classes(a, ADMIN)[-1] == C.NACK_BAD_DESTINATION_QUEUE
    assert classes(c, ADMIN)[-1] == C.NACK_ACCESS_DENIED


def test_a_right_of_another_manager_is_no_right_of_ones_own(worlds: Worlds) -> None:
    world = worlds("A", "B", "C")
    a, b, c = world["A"], world["B"], world["C"]
    for node in (a, c):
        node.create("adm", transactional=False)
    b.create("q")
    strict(world, b)
    grant(b, "send", KEY, to=a)
    for node in (a, c):
        node.once(Q, node.identity.name.encode(), **ASKS)
    world.run(10)
    assert b.bodies(LOCAL) == [b"A"]
    assert classes(c, ADMIN) == [C.NACK_ACCESS_DENIED]


def test_who_passes_on_needs_a_right_for_that(worlds: Worlds) -> None:
    """What R brings of A's counts as A's, if R may bring it (security of hops)."""
    world, name = routed(worlds)
    a, r, b = world["A"], world["R"], world["B"]
    strict(world, b)
    grant(b, "send", KEY, to=a)
    a.once(name, b"1")
    world.run(20)
    assert b.bodies(LOCAL) == [], "R may pass nothing on"
    grant(b, "forward", to=r)
    world.run(200)
    assert b.bodies(LOCAL) == [b"1"], "nothing is lost by the refusal: it comes when R may"
    grant(b, "send", KEY, to=a, take=True)
    a.once(name, b"2")
    world.run(200)
    assert b.bodies(LOCAL) == [b"1"], "it is A who sends, and R's right is not A's"


def test_what_is_for_another_is_passed_on_for_those_who_may(worlds: Worlds) -> None:
    """A router stores it, and sends it on: that is not for everybody who reaches it."""
    world, name = routed(worlds)
    a, r, b = world["A"], world["R"], world["B"]
    strict(world, r)
    a.once(name, b"1")
    world.run(20)
    assert b.bodies(LOCAL) == []
    assert r.look("outgoing") == [], "nothing of it is kept"
    for node in (a, b):
        grant(r, "forward", to=node)
    world.run(200)
    assert b.bodies(LOCAL) == [b"1"], "nothing is lost by the refusal"


def test_over_http_the_sender_hears_that_a_right_is_missing(worlds: Worlds) -> None:
    world = pair(worlds)
    a, b = world["A"], world["B"]
    strict(world, b)
    a.once("DIRECT=HTTP://b/msmq/private$/q", b"1", journal=Journal.DEADLETTER)
    world.run(10)
    assert answers(world) == [400]
    assert b.bodies(LOCAL) == []
    (letter,) = a.messages(DEAD)
    assert (letter.body, letter.message_class) == (b"1", C.NACK_ACCESS_DENIED)


def test_what_came_too_early_is_judged_when_it_enters(world: World) -> None:
    a, b = world["A"], world["B"]
    grant(b, "send", KEY, to=a)
    link = world.link("A", "B")
    held: list[Any] = []

    def first_is_late(packet: Any) -> list[tuple[int, Any]]:
        if packet.number == 1 and not held:
            held.append(packet)
            return []
        return [(0, packet)]

    link.policy = first_is_late
    a.once(Q, b"1", b"2", **ASKS)
    grant(b, "send", KEY, to=a, take=True)
    world.run(200)
    assert b.bodies(LOCAL) == []
    assert sorted(classes(a, ADMIN)) == [C.NACK_ACCESS_DENIED] * 2


def test_rights_of_others_outlive_a_power_cut(world: World) -> None:
    a, b = world["A"], world["B"]
    grant(b, "send", KEY, to=a)
    b.power_cut()
    b.start()
    a.once(Q, b"1", **ASKS)
    world.run(10)
    assert b.bodies(LOCAL) == [b"1"]
    grant(b, "send", KEY, to=a, take=True)
    b.power_cut()
    b.start()
    a.once(Q, b"2", **ASKS)
    world.run(20)
    assert classes(a, ADMIN) == [C.ACK_REACH_QUEUE, C.NACK_ACCESS_DENIED]


def test_acknowledgments_are_written_where_the_sender_may_send(world: World) -> None:
    """A refusal has the body of what is refused: who may send to one queue would write to all."""
    a, b = world["A"], world["B"]
    b.create("boss", transactional=False)
    grant(b, "send", KEY, to=a)
    asks = ASKS | {"admin_queue": r"DIRECT=OS:B\private$\boss"}
    a.once(Q, b"1", **asks)
    world.run(10)
    assert b.bodies(LOCAL) == []
    assert classes(b, r"private$\boss") == []
    assert [letter.message_class for letter in a.messages(DEAD)] == [C.NACK_ACCESS_DENIED]
    grant(b, "send", "private$\\boss", to=a)
    a.once(Q, b"2", **asks)
    world.run(10)
    assert b.bodies(LOCAL) == [b"2"]
    assert classes(b, r"private$\boss") == [C.ACK_REACH_QUEUE]


def test_outside_transactions_acknowledgments_are_judged_too(worlds: Worlds) -> None:
    world = worlds("A", "B")
    a, b = world["A"], world["B"]
    for name in ("q", "boss"):
        b.create(name, transactional=False)
    strict(world, b)
    grant(b, "send", KEY, to=a)
    a.send(0, Q, b"1", **ASKS | {"admin_queue": r"DIRECT=OS:B\private$\boss"})
    world.run(10)
    assert b.bodies(LOCAL) == []
    assert classes(b, r"private$\boss") == []
