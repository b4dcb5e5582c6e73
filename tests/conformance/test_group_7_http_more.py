"""Messages over HTTP, looked at closely: refusals in the middle, odd texts, lost receipts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from onceq.model.marks import NEVER_S
from onceq.model.message import Acknowledge, Delivery, Journal
from tests.conformance.over_http import (
    DEAD,
    DEAD_PLAIN,
    GATE,
    JOURNAL,
    LOCAL,
    PLAIN,
    Q,
    answers,
    behind_a_gateway,
    outgoing,
    pair,
    posted,
    posts,
    requests,
)
from tests.conformance.world import World, Worlds, fast

pytestmark = [
    pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py"),
    pytest.mark.unturned("public", reason="an HTTP address names no public queue as these do"),
    pytest.mark.unturned("lines", reason="its moments are shorter than the line"),
]


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


# ---- receipts and the way back -----------------------------------------------------------


def receipts_known(world: World, node: str = "B") -> int:
    engine = world[node].engine
    assert engine is not None
    return len(engine.manager.state.receipts)


def test_a_mapping_made_later_is_heard_of(world: World) -> None:
    """A repetition says where receipts go now: they come, and nothing is delivered twice."""
    a, b = world["A"], world["B"]
    behind_a_gateway(world, mapped=False)
    a.once(GATE, b"m1", b"m2")
    world.run(5)
    behind_a_gateway(world, mapped=True)
    a.kill()
    a.start()  # a configuration is read at the start
    world.run(100)
    assert b"<sendReceiptsTo>http://gate-a/" in posts(world, "A")
    assert outgoing(a, GATE).messages == 0
    assert b.bodies(LOCAL) == [b"m1", b"m2"]


def lose_the_receipt(world: World) -> None:
    """B has a message of 1500 bytes, its receipt is lost, and the queue has no room for it."""
    a, b = world["A"], world["B"]
    b.delete(LOCAL)
    b.create("q", quota_kb=2)
    world.http_dark.add(("B", "a"))
    a.once(Q, b"x" * 1500)
    world.run(5)
    assert answers(world) == [200]
    b.kill()  # receipts are express messages
    b.start()
    world.http_dark.clear()


def test_a_repetition_to_a_full_queue_is_acknowledged(world: World) -> None:
    lose_the_receipt(world)
    world.run(60)
    assert set(answers(world)) == {200}
    assert outgoing(world["A"]).messages == 0
    assert len(world["B"].bodies(LOCAL)) == 1


def test_a_repetition_to_a_queue_that_is_gone_is_acknowledged(world: World) -> None:
    """It has arrived: to refuse it now would make a dead letter of what was delivered."""
    lose_the_receipt(world)
    world["B"].delete(LOCAL)
    world.run(60)
    assert set(answers(world)) == {200}
    assert outgoing(world["A"]).messages == 0


def test_a_plain_repetition_to_a_full_queue_is_taken_for_one(world: World) -> None:
    a, b = world["A"], world["B"]
    b.create("small", transactional=False, quota_kb=2)
    a.send(0, "DIRECT=HTTP://b/msmq/private$/small", b"x" * 1500)
    world.run(5)
    ((kind, entity),) = requests(world, "A")
    assert posted(world, entity, kind, to="B").startswith(b"HTTP/1.1 200")
    other = re.sub(rb"<id>uuid:\d", b"<id>uuid:7", entity)
    assert posted(world, other, kind, to="B").startswith(b"HTTP/1.1 500")
    assert len(b.bodies(r"private$\small")) == 1


def test_streams_do_not_pile_up(world: World) -> None:
    """The address of a stream is forgotten when the next one to the same queue is there."""
    a, b = world["A"], world["B"]
    for number in range(20):
        a.once(Q, b"%d" % number)
        world.run(3)
    assert len(b.bodies(LOCAL)) == 20
    assert receipts_known(world) == 1
    b.kill()
    b.start()
    assert receipts_known(world) == 1


@pytest.mark.parametrize("restart", [False, True])
def test_ends_in_a_stream_that_was_left_are_told(world: World, restart: bool) -> None:
    """Final receipts for all of them, over HTTP; and over TCP for what came over TCP."""
    a, b = world["A"], world["B"]
    b.create("other")
    names = (Q, "DIRECT=HTTP://b/msmq/private$/other", r"DIRECT=OS:B\private$\q", Q, Q)
    for name in names:
        a.once(name, b"m", journal=Journal(3))
        world.run(3)
    assert receipts_known(world) == 2
    if restart:
        assert b.engine is not None
        b.engine.checkpoint()
        b.kill()
        b.start()
        world.run(3)
    assert b"<commitmentReceipt>" not in posts(world, "B")
    assert len(b.receive(LOCAL, count=9).bodies()) == 4
    assert len(b.receive(r"private$\other", count=9).bodies()) == 1
    world.run(5)
    assert a.bodies(JOURNAL) == [b"m"] * 5
    assert all(outgoing(a, name).messages == 0 for name in set(names))
    assert posts(world, "B").count(b"<commitmentReceipt>") == 4
    assert a.bodies(DEAD) == []


def waiting(world: World) -> int:
    """Messages that wait at B for anybody elsewhere."""
    count: int = world["B"].look("status").outgoing_messages
    return count


@pytest.mark.parametrize("restart", [False, True])
def test_final_receipts_do_not_wait_for_ever(worlds: Worlds, restart: bool) -> None:
    """The address is of the sender's own choice, and may never be reached."""
    world = worlds("A", "B", settings=fast(time_to_reach_queue_s=600))
    a, b = world["A"], world["B"]
    b.create("q")
    world.http_dark.add(("B", "a"))
    a.once(Q, *[b"m"] * 50, journal=Journal.DEADLETTER)
    world.run(5)
    before = waiting(world)
    b.receive(LOCAL, count=50)
    world.run(60)
    assert waiting(world) >= before + 50 > 50, "and receipts of the stream"
    a.kill()  # it would repeat its messages, and be told again
    if restart:
        b.kill()
        b.start()
    world.run(600)
    assert waiting(world) == 0
    assert b.bodies(DEAD) == b.bodies(DEAD_PLAIN) == []


def test_journal_copies_wait_for_the_stream_receipt_only(world: World) -> None:
    """Without dead-lettering no final receipt is asked for (HTTP-4, HTTP-13)."""
    a, b = world["A"], world["B"]
    a.once(Q, b"m1", b"m2", journal=Journal.JOURNAL)
    a.once(Q, b"m3")
    a.once(Q, b"m4", journal=Journal(3))
    world.run(10)
    assert a.bodies(JOURNAL) == [b"m1", b"m2"]
    assert outgoing(a).awaiting_final == outgoing(a).messages == 1
    assert b"<commitmentReceipt>" not in posts(world, "B")
    assert len(b.receive(LOCAL, count=9).bodies()) == 4
    world.run(5)
    assert a.bodies(JOURNAL) == [b"m1", b"m2", b"m4"]
    assert outgoing(a).messages == 0
    assert posts(world, "B").count(b"<commitmentReceipt>") == 1


def test_a_journal_copy_of_what_is_refused_is_not_made(world: World) -> None:
    a = world["A"]
    a.once(PLAIN, b"m", journal=Journal.JOURNAL)
    world.run(5)
    assert answers(world) == [400]
    assert a.bodies(JOURNAL) == []
    assert a.bodies(DEAD) == []
    assert outgoing(a, PLAIN).messages == 0


# ---- what goes along ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "seen"),
    [
        ("a\x01b\x1f\x7f", None),
        ("a\r\nb\rc\n\td", None),
        (" a  b ", None),
        ("\r", None),
        ("\ufffe\uffff\u2028\x85", None),
        ("<&>]]>&amp;\N{PILE OF POO}", None),
        ("MSMQ:MSMQ:", None),
        # Applications are shown a mark for half a surrogate, as with messages over TCP.
        ("a\ud800b", "a\ufffdb"),
        ("x" * 249, None),
        ("", None),
    ],
)
def test_labels_arrive_as_they_are(world: World, label: str, seen: str | None) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"m", label=label, journal=Journal.DEADLETTER)
    a.send(0, PLAIN, b"p", label=label, journal=Journal.DEADLETTER)
    world.run(5)
    assert answers(world)[:2] == [200, 200]
    for queue in (LOCAL, r"private$\plain"):
        (message,) = b.messages(queue)
        assert message.label == (label if seen is None else seen)
    assert a.engine is not None
    assert not a.engine.stopped


def test_properties_go_along(world: World) -> None:
    a, b = world["A"], world["B"]
    a.send(0, PLAIN, b"m", priority=6, app_specific=7, body_type=8, correlation_id=b"c" * 20,
           extension=b"\r\n--MSMQ - SOAP boundary, 26500--\0", trace=True,
           response_queue=r"DIRECT=OS:A\private$\r")  # fmt: skip
    a.send(0, PLAIN, b"", extension=b"alone", response_queue=r"DIRECT=OS:A\r,DIRECT=OS:A\s")
    world.run(5)
    first, second = b.messages(r"private$\plain")
    assert (first.priority, first.app_specific, first.body_type) == (6, 7, 8)
    assert first.correlation_id == b"c" * 20
    assert first.response_queue == r"DIRECT=OS:A\private$\r"
    assert first.extension == b"\r\n--MSMQ - SOAP boundary, 26500--\0"
    assert (first.trace, second.trace) == (True, False)
    assert (second.body, second.extension) == (b"", b"alone")
    assert second.response_queue == r"DIRECT=OS:A\r", "the first of several"
    guid = a.look("status").id
    assert f"Content-Id: extension@{guid}\r\n".encode() in posts(world, "A")


def test_properties_of_transactional_messages_go_along(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"m", extension=b"more", trace=True, label="l")
    world.run(5)
    (message,) = b.messages(LOCAL)
    assert (message.body, message.extension, message.label) == (b"m", b"more", "l")
    assert (message.trace, message.transactional, message.priority) == (True, True, 0)
    assert outgoing(a).messages == 0


def test_the_time_to_be_received_goes_along(world: World) -> None:
    """It ends where the message is, and the sender is told."""
    a, b = world["A"], world["B"]
    a.once(Q, b"m", time_to_be_received=60, journal=Journal.DEADLETTER)
    a.send(0, PLAIN, b"p", time_to_be_received=60, time_to_reach_queue=30,
           delivery=Delivery.RECOVERABLE)  # fmt: skip
    a.send(0, PLAIN, b"for ever", time_to_reach_queue=30)
    world.run(20)
    assert b.messages(LOCAL)[0].time_to_be_received == 60
    plain = b.messages(r"private$\plain")
    assert {m.body: (m.time_to_reach_queue, m.time_to_be_received) for m in plain} == {
        b"p": (30, 60), b"for ever": (30, NEVER_S),
    }  # fmt: skip
    world.run(80)
    assert b.bodies(LOCAL) == []
    assert b.bodies(r"private$\plain") == [b"for ever"]
    (dead,) = a.messages(DEAD)
    assert dead.message_class == 0xC002
    assert outgoing(a).messages == 0
