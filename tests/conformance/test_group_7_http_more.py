"""Messages over HTTP, looked at closely: refusals in the middle, odd texts, lost receipts."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.model.message import Acknowledge, Delivery, Journal
from tests.conformance.over_http import DEAD_PLAIN, JOURNAL, PLAIN, answers, outgoing, pair
from tests.conformance.world import World, Worlds

pytestmark = pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py")


@pytest.fixture
def world(worlds: Worlds) -> World:
    return pair(worlds)


# ---- refusals ----------------------------------------------------------------------------


def until_answered(world: World, times: int) -> None:
    """Go on until so many messages are answered, in steps that are shorter than an answer."""
    for _ in range(400):
        if len(answers(world)) >= times:
            return
        world.run(0.0001)
    raise AssertionError(f"no {times} answers: {answers(world)}")


@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize("taken", [1, 3, 7])
def test_some_of_a_batch_are_refused(world: World, delivery: Delivery, taken: int) -> None:
    """The queue goes while a batch is on its way: each message ends as it was answered."""
    a, b = world["A"], world["B"]
    sent = [b"%d" % number for number in range(8)]
    a.send(0, PLAIN, *sent, journal=Journal.DEADLETTER | Journal.JOURNAL, delivery=delivery)
    until_answered(world, taken)
    b.delete(r"private$\plain")
    world.run(10)
    said = answers(world)
    assert len(said) == len(sent)
    accepted = said.count(200)
    assert said == [200] * accepted + [400] * (8 - accepted)
    assert 0 < accepted < 8
    assert a.bodies(DEAD_PLAIN) == sent[accepted:]
    assert a.bodies(JOURNAL) == sent[:accepted]
    assert outgoing(a, PLAIN).messages == 0


def test_refused_in_the_middle(world: World) -> None:
    """The queue is away for a while: what came before and after is delivered."""
    a, b = world["A"], world["B"]
    sent = [b"%d" % number for number in range(8)]
    a.send(0, PLAIN, *sent, journal=Journal.DEADLETTER, delivery=Delivery.RECOVERABLE)
    until_answered(world, 2)
    received = b.receive(r"private$\plain", count=9).bodies()
    b.delete(r"private$\plain")
    until_answered(world, 5)
    b.create("plain", transactional=False)
    world.run(10)
    said = answers(world)
    received += b.bodies(r"private$\plain")
    assert {200, 400} == set(said)
    assert said[-1] == 200
    assert received == [body for body, status in zip(sent, said, strict=True) if status == 200]
    assert a.bodies(DEAD_PLAIN) == [
        body for body, status in zip(sent, said, strict=True) if status == 400
    ]


def test_refused_among_streams(world: World) -> None:
    """Transactional messages on the same connection do not shift the count of the others."""
    a, b = world["A"], world["B"]
    a.once(PLAIN, b"t1", journal=Journal.DEADLETTER)
    a.send(0, PLAIN, b"p1", b"p2", journal=Journal.DEADLETTER, delivery=Delivery.RECOVERABLE)
    a.send(0, PLAIN, b"p3", journal=Journal.DEADLETTER)
    world.run(10)
    assert sorted(answers(world)) == [200, 200, 200, 400]
    assert b.bodies(r"private$\plain") == [b"p1", b"p2", b"p3"]
    assert a.bodies(DEAD_PLAIN) == []
    assert a.bodies("system$;deadxact") == [b"t1"]


@pytest.mark.parametrize("transactional", [False, True])
def test_a_refusal_makes_no_acknowledgment_message(world: World, transactional: bool) -> None:
    """It ends as a dead letter if that was asked for, and in no other way (Q-5, HTTP-10)."""
    a = world["A"]
    wishes: dict[str, Any] = {
        "acknowledge": Acknowledge(15), "admin_queue": "DIRECT=HTTP://a/msmq/private$/acks",
    }  # fmt: skip
    name = "DIRECT=HTTP://b/msmq/private$/gone"
    for journal in (Journal.NONE, Journal.DEADLETTER):
        if transactional:
            a.once(name, b"m", journal=journal, **wishes)
        else:
            a.send(0, name, b"m", journal=journal, **wishes)
    world.run(10)
    assert answers(world) == [400, 400]
    assert a.bodies(r"private$\acks") == []
    assert a.bodies("system$;deadxact" if transactional else DEAD_PLAIN) == [b"m"]
    assert outgoing(a, name).messages == 0


def test_what_was_never_tried_is_told_of(world: World) -> None:
    """Only a refusal is silent: a message that expires here is acknowledged as ever."""
    a = world["A"]
    world.http_dark.add(("A", "b"))
    a.send(0, PLAIN, b"m", time_to_reach_queue=3, acknowledge=Acknowledge(15),
           admin_queue="DIRECT=HTTP://a/msmq/private$/acks")  # fmt: skip
    world.run(10)
    (told,) = a.messages(r"private$\acks")
    assert told.message_class == 0x8002
