"""A refusal that comes when its message has been let go of: it is counted, named and logged.

A receiver tells a refusal before the acknowledgment that covers it. Where the two go different
ways, or an operator holds the answers back, or the receiver is not onceq, the sender may hear it
later. Then it has no message any more, unless it waits to be told the end (finding U1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from onceq.client.why import why
from onceq.errors import ReceiveTimeout
from onceq.model import limits
from onceq.model.http import HttpNames, Mappings
from onceq.model.identity import MessageId
from onceq.model.message import Delivery, Journal
from onceq.model.resultcodes import MessageClass as C
from onceq.model.settings import KEEP_REFUSED
from onceq.packet.acks import final_ack
from onceq.packet.arrived import FINAL_ACK, USER
from onceq.testing.links import Passing, faithful
from onceq.wire.srmp.convert import post_of
from onceq.wire.srmp.envelope import write
from tests.conformance.over_http import Q, posted
from tests.conformance.world import Node, World, Worlds, fast, routed

DEAD = "SYSTEM$;DEADXACT"
NO_QUEUE = C.NACK_BAD_DESTINATION_QUEUE
Place = tuple[World, str]


def late(p: Passing) -> list[tuple[int, Passing]]:
    """Refusals come a minute after what they leave with."""
    return [(60_000_000, p)] if p.kind == FINAL_ACK else faithful(p)


def pair(worlds: Worlds) -> Place:
    world = worlds("A", "B", settings=fast(xact_dead_letter=KEEP_REFUSED))
    world.link("A", "B").policy = late
    return world, "DIRECT=OS:B\\private$\\nowhere"


def by_a_router(worlds: Worlds) -> Place:
    """A private name of B, which A reaches by R alone; there is no such queue."""
    world, name = routed(worlds, xact_dead_letter=KEEP_REFUSED)
    world.link("A", "R").policy = late
    return world, name.rpartition("\\")[0] + "\\0000ffff"


over_http = pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py")
ways = pytest.mark.parametrize("make", [pair, by_a_router])


def letters(node: Node) -> list[tuple[bytes, int]]:
    try:
        return [(m.body, m.message_class) for m in node.messages(DEAD)]
    except ReceiveTimeout:
        return []


def counted(node: Node, queue: str) -> list[tuple[int, int, int, int]]:
    """Class, messages, dead letters, and how many of them were refused late."""
    view = node.look("outgoing-queue", queue)
    return [(e.message_class, e.messages, e.dead_letters, e.late) for e in view.endings]


def named(node: Node, queue: str) -> list[tuple[str, int]]:
    view = node.look("outgoing-queue", queue)
    return [(one.id, one.message_class) for one in view.late_refusals]


@ways
def test_it_is_counted_and_named(
    worlds: Worlds, make: Callable[[Worlds], Place], caplog: pytest.LogCaptureFixture
) -> None:
    world, queue = make(worlds)
    a = world["A"]
    sent = a.once(queue, b"m")
    world.run(30)
    assert a.look("outgoing-queue", queue).messages == 0, "it is acknowledged, and let go of"
    assert counted(a, queue) == []
    world.run(100)
    id = MessageId(a.identity.guid, sent.first_message)
    assert counted(a, queue) == [(NO_QUEUE, 1, 0, 1)]
    assert named(a, queue) == [(str(id), NO_QUEUE)]
    said = a.said if world.processes else caplog.text
    assert "refused after it was acknowledged" in said
    text = why(a.look("outgoing-queue", queue))
    assert "1 message was refused (no such queue there)" in text
    assert f"refused after it was acknowledged, and is in no dead-letter queue: {id} at " in text
    for checkpoint in (False, True):
        if checkpoint:
            a.steer(queue, "pause")  # or it is forgotten, with what was counted
            a.steer("", "tidy")
        a.crash()
        a.start()
        assert counted(a, queue) == [(NO_QUEUE, 1, 0, 1)]
        assert named(a, queue) == [(str(id), NO_QUEUE)]


@ways
def test_what_waits_for_its_end_is_kept(worlds: Worlds, make: Callable[[Worlds], Place]) -> None:
    """Its sender has asked for a journal copy alone, so it still has the message."""
    world, queue = make(worlds)
    a = world["A"]
    a.once(queue, b"m", journal=Journal.JOURNAL)
    world.run(30)
    assert a.look("outgoing-queue", queue).awaiting_final == 1
    world.run(100)
    assert letters(a) == [(b"m", NO_QUEUE)]
    assert counted(a, queue) == [(NO_QUEUE, 1, 1, 0)]
    assert named(a, queue) == []


@ways
def test_its_stream_may_be_over_by_then(worlds: Worlds, make: Callable[[Worlds], Place]) -> None:
    """What is sent next begins another stream, because the first one has drained (EOD-12)."""
    world, queue = make(worlds)
    a = world["A"]
    for body in (b"1", b"2", b"3"):
        a.once(queue, body)
        world.run(15)
        assert a.look("outgoing-queue", queue).messages == 0
    world.run(100)
    assert counted(a, queue) == [(NO_QUEUE, 3, 0, 3)]


@ways
@pytest.mark.parametrize("journal", [Journal.NONE, Journal.JOURNAL])
def test_told_twice_it_counts_once(
    worlds: Worlds, make: Callable[[Worlds], Place], journal: Journal
) -> None:
    """A session that is lost brings the refusal again; A may have been killed in between."""
    world, queue = make(worlds)
    a, here = world["A"], ("A", "R") if make is by_a_router else ("A", "B")

    def twice(p: Passing) -> list[tuple[int, Passing]]:
        again = [(60_000_000, p), (90_000_000, p)]
        return again if p.kind == FINAL_ACK else faithful(p)

    world.link(*here).policy = twice
    a.once(queue, b"m", journal=journal)
    world.run(70)
    before = counted(a, queue)
    assert [row[1] for row in before] == [1]
    world.run(60)
    assert counted(a, queue) == before


@pytest.mark.inside("tables of a daemon keep the size that they have")
def test_many_others_do_not_make_it_forgotten(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refusals and identifiers of messages outside transactions are remembered apart."""
    for name in ("DUPLICATE_IDS_MAX", "REFUSALS_MAX"):
        monkeypatch.setattr(limits, name, 3)
    world = worlds("A", "B", "C", settings=fast(xact_dead_letter=KEEP_REFUSED))
    a, c, queue = world["A"], world["C"], "DIRECT=OS:B\\private$\\nowhere"
    a.create("plain", transactional=False)
    plain = "DIRECT=OS:A\\private$\\plain"
    world.link("A", "B").policy = lambda p: (
        [(10_000, p), (90_000_000, p)] if p.kind == FINAL_ACK else faithful(p)
    )
    a.once(queue, b"m")
    world.run(20)
    c.send(0, plain, *[b"%d" % at for at in range(5)], delivery=Delivery.RECOVERABLE)
    world.run(100)
    assert counted(a, queue) == [(NO_QUEUE, 1, 1, 0)]
    assert named(a, queue) == []


@pytest.mark.inside("tables of a daemon keep the size that they have")
def test_many_refusals_do_not_make_identifiers_forgotten(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DUPLICATE_IDS_MAX", "REFUSALS_MAX"):
        monkeypatch.setattr(limits, name, 3)
    world = worlds("A", "B", "C", settings=fast(xact_dead_letter=KEEP_REFUSED))
    a, c, plain = world["A"], world["C"], "DIRECT=OS:A\\private$\\plain"
    a.create("plain", transactional=False)
    world.link("C", "A").policy = lambda p: (
        [(10_000, p), (200_000_000, p)] if p.kind == USER else faithful(p)
    )
    c.send(0, plain, b"once", delivery=Delivery.RECOVERABLE)
    world.run(5)
    a.once("DIRECT=OS:B\\private$\\nowhere", *[b"%d" % at for at in range(5)])
    world.run(300)
    assert a.bodies(r"private$\plain") == [b"once"]


def test_answers_that_an_operator_holds_back(worlds: Worlds) -> None:
    world, queue = pair(worlds)
    a, b = world["A"], world["B"]
    world.link("A", "B").policy = faithful
    a.once(queue, b"1")
    world.run(5)
    (answers,) = [q.destination for q in b.look("outgoing")]
    b.steer(answers, "pause")
    a.once(queue, b"2")
    world.run(30)
    assert a.look("outgoing-queue", queue).messages == 0
    b.steer(answers, "resume")
    world.run(30)
    assert counted(a, queue) == [(NO_QUEUE, 2, 1, 1)]
    assert "1 of them" in why(a.look("outgoing-queue", queue))


# ---- over HTTP ----------------------------------------------------------------------------------


def final_receipt(node: Node, stream: int, message: int) -> bytes:
    """What the host of ``b`` posts for the first message of a stream: there is no such queue. One
    of onceq answers the message itself with 400; others may acknowledge it first."""
    packet = final_ack(
        own=b"b" * 16, own_message=7, sent_time=1_700_000_000, destination_manager=b"",
        message_class=NO_QUEUE, stream=stream, number=1, previous=0, source=node.identity.guid,
        message=message, queue="http://b/msmq/private$/q",
    )  # fmt: skip
    to = "http://a/msmq/private$/order_queue$"
    return write(post_of(packet, to, b"b" * 16, HttpNames()).envelope)


@over_http
@pytest.mark.unturned("public", reason="an HTTP address names no public queue as these do")
@pytest.mark.parametrize("journal", [Journal.NONE, Journal.DEADLETTER])
def test_over_http_a_receipt_that_refuses_late(worlds: Worlds, journal: Journal) -> None:
    world = worlds("A", "B", settings=fast(xact_dead_letter=KEEP_REFUSED))
    a = world["A"]
    world["B"].create("q")
    world.run(1)
    sent = a.once(Q, b"m", journal=journal)
    world.run(10)
    view = a.look("outgoing-queue", Q)
    assert view.unacknowledged == 0
    for _ in range(2):
        receipt = final_receipt(a, view.last_ack_stream, sent.first_message)
        assert posted(world, receipt).startswith(b"HTTP/1.1 200")
    if journal:
        assert counted(a, Q) == [(NO_QUEUE, 1, 1, 0)]
        assert letters(a) == [(b"m", NO_QUEUE)]
    else:
        assert counted(a, Q) == [(NO_QUEUE, 1, 0, 1)]
        assert named(a, Q) == [(f"{MessageId(a.identity.guid, sent.first_message)}", NO_QUEUE)]


@over_http
def test_behind_a_border_server_it_is_in_doubt_when_its_time_is_over(worlds: Worlds) -> None:
    """The border has taken it, and the host behind it answers 400: its sender hears no receipt, and
    so never lets go of it before its time (HTTP-9)."""
    world = worlds("A", "B", "C", settings=fast(xact_dead_letter=KEEP_REFUSED))
    a, b, queue = world["A"], world["B"], "DIRECT=HTTP://www/msmq/nowhere"
    world.gateways["www"] = "B"
    world.http_dark |= {("A", "c"), ("C", "a")}
    inward = (("http://www/msmq/nowhere", "http://c/msmq/private$/nowhere"),)
    b.http = replace(b.http, mappings=Mappings(inward), forward=True)
    b.running.http = b.http
    a.once(queue, b"m", time_to_reach_queue=60, journal=Journal.DEADLETTER)
    world.run(30)
    assert counted(a, queue) == []
    assert "1 of 1 message transmitted and waiting" in why(a.look("outgoing-queue", queue))
    world.run(60)
    assert counted(a, queue) == [(C.NACK_RECEIVE_TIMEOUT_AT_SENDER, 1, 1, 0)]
    assert letters(a) == [(b"m", C.NACK_RECEIVE_TIMEOUT_AT_SENDER)]
