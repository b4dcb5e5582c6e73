"""Messages over HTTP (SRMP): cases 117 and 118, and what stands beside them."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.errors import QueueNotFound, ReceiveTimeout, UnsupportedFormatName
from onceq.model.message import Acknowledge, Delivery, Journal
from tests.conformance.over_http import (
    DEAD,
    GATE,
    LOCAL,
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
]


@pytest.fixture
def world(worlds: Worlds) -> World:
    return pair(worlds)


@pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py")
def test_case_117_streams_and_their_receipts(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(Q, b"m1", b"m2", label="<&>")
    a.once(Q, b"m3")
    world.run(5)
    messages = b.messages(LOCAL)
    assert [m.body for m in messages] == [b"m1", b"m2", b"m3"]
    assert [(m.number, m.previous) for m in messages] == [(1, 0), (2, 1), (3, 2)]
    assert messages[0].label == "<&>"
    assert [m.last_in_transaction for m in messages] == [False, True, True]
    assert outgoing(a).messages == 0
    sent = posts(world, "A")
    assert sent.count(b"<start><sendReceiptsTo>") == 1, "with the first message only"
    starts = [b"<start>" in entity for _, entity in requests(world, "A")]
    firsts = [b"<current>1</current>" in entity for _, entity in requests(world, "A")]
    assert starts == firsts
    world.run(3600)
    assert posts(world, "A") == sent, "known to have come, and not sent again"
    assert b.bodies(LOCAL) == [b"m1", b"m2", b"m3"]
    assert b"<start><sendReceiptsTo>http://a/msmq/private$/order_queue$<" in sent
    assert b"<lastOrdinal>3</lastOrdinal>" in posts(world, "B")


@pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py")
def test_case_117_behind_a_gateway_without_a_mapping_receipts_do_not_come(world: World) -> None:
    """Delivered once all the same; and sent again as the table says (HTTP-6)."""
    a, b = world["A"], world["B"]
    behind_a_gateway(world, mapped=False)
    a.once(GATE, b"m1", b"m2")
    world.run(20)
    assert b.bodies(LOCAL) == [b"m1", b"m2"]
    assert posts(world, "A").count(b"<current>1</current>") == 1
    for after, times in (
        (9, 1), (2, 2), (28, 2), (2, 3), (28, 3), (2, 4), (295, 4), (7, 5), (300, 6), (300, 7),
        (1790, 7), (20, 8),
    ):  # fmt: skip
        world.run(after)
        assert posts(world, "A").count(b"<current>1</current>") == times
    firsts = [body for _, body in requests(world, "A") if b"<current>1</current>" in body]
    assert all(b"<start><sendReceiptsTo>" in body for body in firsts), "each time it is sent"
    assert b.bodies(LOCAL) == [b"m1", b"m2"]
    assert outgoing(a, GATE).unacknowledged == 2
    assert b"<streamReceipt>" not in posts(world, "B")


@pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py")
def test_case_117_with_the_mapping_receipts_come(world: World) -> None:
    a, b = world["A"], world["B"]
    behind_a_gateway(world, mapped=True)
    a.once(GATE, b"m1", b"m2")
    world.run(5)
    assert b.bodies(LOCAL) == [b"m1", b"m2"]
    assert outgoing(a, GATE).messages == 0
    assert b"<sendReceiptsTo>http://gate-a/msmq/private$/order_queue$<" in posts(world, "A")
    assert b"<to>http://gate-a/msmq/private$/order_queue$</to>" in posts(world, "B").lower()
    assert b"<lastOrdinal>2</lastOrdinal>" in posts(world, "B")
    world.run(3600)
    assert posts(world, "A").count(b"<current>1</current>") == 1
    assert b.bodies(LOCAL) == [b"m1", b"m2"]


@pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py")
def test_case_118_a_transactional_message_to_a_plain_queue(world: World) -> None:
    """400, and nobody is told anything but by that (HTTP-10)."""
    a, b = world["A"], world["B"]
    name = "DIRECT=HTTP://b/msmq/private$/plain"
    admin = "DIRECT=HTTP://a/msmq/private$/acks"
    a.once(name, b"wrong", admin_queue=admin, acknowledge=Acknowledge(15))
    a.once(name, b"dead", journal=Journal.DEADLETTER)
    world.run(3600)
    assert answers(world) == [400, 400], "and not tried again"
    assert b.bodies(r"private$\plain") == []
    assert b.look("streams") == []
    assert b.bodies(DEAD) == []
    assert a.bodies(r"private$\acks") == []
    (message,) = a.messages(DEAD)
    assert (message.body, message.message_class) == (b"dead", 0x8000)
    assert outgoing(a, name).messages == 0


@pytest.mark.parametrize("path", ["private$/gone", "private$/q", "nobody"])
def test_other_refusals_are_for_good(world: World, path: str) -> None:
    """An unknown queue, and a plain message to a transactional one; at the source a dead letter."""
    a = world["A"]
    name = f"DIRECT=HTTP://b/msmq/{path}"
    a.send(0, name, b"m", journal=Journal.DEADLETTER)
    world.run(5)
    assert answers(world) == [400]
    assert outgoing(a, name).messages == 0
    assert a.bodies("system$;deadletter") == [b"m"]


def test_a_foreign_host_is_refused(world: World) -> None:
    world.gateways["other"] = "B"
    world["A"].once("DIRECT=HTTP://other/msmq/private$/q", b"m", journal=Journal.DEADLETTER)
    world.run(5)
    assert answers(world) == [400]
    assert world["B"].bodies(LOCAL) == []
    assert world["A"].bodies(DEAD) == [b"m"]


def test_plain_messages_with_acknowledgments(world: World) -> None:
    a, b = world["A"], world["B"]
    name = "DIRECT=HTTP://b/msmq/private$/plain"
    admin = "DIRECT=HTTP://a/msmq/private$/acks"
    for delivery in Delivery:
        a.send(0, name, b"m", delivery=delivery, admin_queue=admin,
               acknowledge=Acknowledge(3), label="l", journal=Journal.JOURNAL)  # fmt: skip
        world.run(5)
        assert b.receive(r"private$\plain").bodies() == [b"m"]
        world.run(5)
    found = a.receive(r"private$\acks", count=9)
    assert [m.message_class for m in found] == [2, 0x4000, 2, 0x4000]
    assert {m.label for m in found} == {"l"}
    assert len(a.messages("system$;journal")) == 2
    assert outgoing(a, name).messages == 0
    assert b"<deliveryReceipt>" in posts(world, "B")
    assert b"<decision>positive</decision>" in posts(world, "B")


def test_administration_queues_are_http_addresses(world: World) -> None:
    with pytest.raises(UnsupportedFormatName, match="HTTP-11"):
        world["A"].once(Q, b"m", admin_queue=r"DIRECT=OS:A\private$\acks",
                        acknowledge=Acknowledge(1))  # fmt: skip


def test_how_a_message_ends_is_told_over_http(world: World) -> None:
    """Final receipts: received, purged, expired (HTTP-4)."""
    a, b = world["A"], world["B"]
    a.once(Q, b"received", b"purged", journal=Journal(3))
    world.run(3)
    assert outgoing(a).awaiting_final == 2
    b.receive(LOCAL)
    world.run(3)
    assert a.bodies("system$;journal") == [b"received"]
    b.purge(LOCAL)
    world.run(3)
    (dead,) = a.messages(DEAD)
    assert (dead.body, dead.message_class) == (b"purged", 0xC001)
    assert outgoing(a).messages == 0


@pytest.mark.parametrize("how", ["kill", "power_cut"])
@pytest.mark.parametrize("whom", ["A", "B"])
def test_crashes_on_the_way(world: World, whom: str, how: str) -> None:
    """Once and in order, and acknowledged in the end; the address of receipts is not forgotten."""
    a, b = world["A"], world["B"]
    sent = []
    for number in range(12):
        body = b"%d" % number
        a.once(Q, body, journal=Journal.DEADLETTER)
        sent.append(body)
        world.run(0.0003 * number)
        if number % 3 == 2:
            getattr(world[whom], how)()
            world.run(1)
            world[whom].start()
    world.run(120)
    assert b.bodies(LOCAL) == sent
    assert outgoing(a).unacknowledged == 0
    b.kill()
    b.start()
    assert b.receive(LOCAL, count=20).bodies() == sent
    world.run(60)
    assert outgoing(a).messages == 0
    assert a.bodies(DEAD) == []


def test_no_room_is_for_now(worlds: Worlds) -> None:
    """500, and the same message again when there is room (HTTP-9)."""
    world = worlds("A", "B", settings=fast(connect_retry_s=1.0))
    a, b = world["A"], world["B"]
    b.create("q", quota_kb=2)
    a.once(Q, b"x" * 1500)
    a.once(Q, b"y" * 1500)
    world.run(10)
    assert 500 in answers(world)
    assert len(b.receive(LOCAL).bodies()) == 1
    world.run(10)
    assert b.bodies(LOCAL) == [b"y" * 1500]
    assert a.bodies(DEAD) == []


def test_receipts_for_somebody_else_are_dropped(world: World) -> None:
    """The order queue is an address that anybody may post to (HTTP-14)."""
    a = world["A"]
    world.http_dark.add(("A", "b"))
    a.once(Q, b"m")
    world.run(2)
    stream = outgoing(a).stream
    for guid in ("00000000-0000-0000-0000-000000000001", _guid(a)):
        for number, ordinal in ((stream, 5), (stream + 1, 1)):
            assert posted(world, _receipt(guid, number, ordinal)).startswith(b"HTTP/1.1 200")
    assert outgoing(a).unacknowledged == 1


def _guid(node: Any) -> str:
    return str(node.look("status").id)


def _receipt(guid: str, stream: int, last: int) -> bytes:
    return (
        '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" '
        'xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>'
        '<path xmlns="http://schemas.xmlsoap.org/rp/"><action>MSMQ:QM Ordering Ack</action>'
        "<to>http://a/msmq/private$/order_queue$</to>"
        "<id>uuid:1@00000000-0000-0000-0000-000000000009</id></path>"
        "<properties><expiresAt>20380119T031407</expiresAt></properties>"
        f"<streamReceipt><streamId>uid:{guid}\\{stream}</streamId>"
        f"<lastOrdinal>{last}</lastOrdinal></streamReceipt></se:Header>"
        "<se:Body></se:Body></se:Envelope>"
    ).encode()


@pytest.mark.parametrize(
    ("entity", "kind"),
    [
        (b"", "text/xml"),
        (b"<a/>", "text/xml"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "text/xml"),
        (b"<?target data?><a/>", "text/xml"),
        (b"<a>" * 40 + b"</a>" * 40, "text/xml"),
        (b"<a>" + b"<b/>" * 3000 + b"</a>", "text/xml"),
        (b"<a>" + b"x" * 70_000 + b"</a>", "text/xml"),
        (b"nothing", 'multipart/related; boundary="B"'),
        (b"--B\r\n\r\n<a/>--B--\r\n", 'multipart/related; boundary="B"'),
        (b"--B\r\nContent-Length: 99\r\n\r\n<a/>--B--\r\n", 'multipart/related; boundary="B"'),
        (b"--B\r\n\r\n<a/>", "multipart/related"),
    ],
)
def test_nonsense_is_answered_with_400(world: World, entity: bytes, kind: str) -> None:
    assert posted(world, entity, kind).startswith(b"HTTP/1.1 400")
    world["A"].once(r"DIRECT=HTTP://b/msmq/private$/q", b"it lives")
    world.run(2)
    assert world["B"].bodies(LOCAL) == [b"it lives"]


def test_nothing_is_received_over_http(world: World) -> None:
    with pytest.raises(UnsupportedFormatName):
        world["A"].receive(Q)
    with pytest.raises(QueueNotFound):
        world["A"].receive(r"private$\none")
    with pytest.raises(ReceiveTimeout):
        world["B"].receive(LOCAL)
