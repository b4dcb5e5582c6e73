"""Streams over HTTP beside other streams, after losses, and from senders that are not known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from onceq.model.http import HttpNames, Mappings
from onceq.model.message import Journal
from onceq.model.names import parse_format_name
from onceq.model.shares import Thing
from onceq.packet.headers import headers
from onceq.wire.srmp.convert import post_of
from onceq.wire.srmp.envelope import Envelope, Msmq, write
from tests.conformance.over_http import (
    GATE,
    LOCAL,
    PLAIN,
    Q,
    behind_a_gateway,
    outgoing,
    pair,
    posted,
    posts,
    requests,
)
from tests.conformance.world import World, Worlds, fast
from tests.few import few

pytestmark = [
    pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py"),
    pytest.mark.unturned("public", reason="an HTTP address names no public queue as these do"),
]
OVER_TCP = r"DIRECT=OS:B\private$\q"


@pytest.fixture
def world(worlds: Worlds) -> World:
    return pair(worlds)


def test_a_head_that_lost_its_beginning(world: World) -> None:
    """Message 1 expires before anything is heard of it: what follows is taken, and acknowledged."""
    a = world["A"]
    world.http_dark.add(("A", "b"))
    a.once(Q, b"one", time_to_reach_queue=5)
    a.once(Q, b"two")
    world.run(20)
    world.http_dark.clear()
    world.run(20)
    assert world["B"].bodies(LOCAL) == [b"two"]
    assert outgoing(a).messages == 0
    assert b"<current>2</current><previous>0</previous><start>" in posts(world, "A")


def test_a_hardened_manager_speaks_over_http_only(worlds: Worlds) -> None:
    world = worlds("A", "B", settings=fast(hardened=True))
    a, b = world["A"], world["B"]
    b.create("q")
    a.once(Q, b"over http", journal=Journal.DEADLETTER)
    a.once(r"DIRECT=OS:B\private$\q", b"never")
    world.run(5)
    assert b.bodies(LOCAL) == [b"over http"]
    assert outgoing(a).awaiting_final == outgoing(a).messages == 1
    assert outgoing(a, r"DIRECT=OS:B\private$\q").state == "LOCKED"
    b.receive(LOCAL)
    world.run(5)
    assert outgoing(a).messages == 0, "receipts pass as well"


@pytest.mark.unturned("private", "letters", reason="it is about names of one queue")
def test_two_protocols_and_two_addresses_do_not_hold_each_other_up(world: World) -> None:
    """Each name has a stream of its own (U10); all arrive in one queue."""
    a, b = world["A"], world["B"]
    world.gateways["gate"] = "B"
    b.http = replace(b.http, mappings=Mappings((("http://gate/*", "http://b/msmq/private$/q"),)))
    assert b.engine is not None
    b.engine.http = b.http
    names = (Q, OVER_TCP, "DIRECT=HTTP://gate/msmq/whatever")
    for number in range(4):
        for name in names:
            a.once(name, b"%d" % number)
        world.run(1)
    world.run(30)
    assert sorted(b.bodies(LOCAL)) == sorted([b"0", b"1", b"2", b"3"] * 3)
    told = {info.queue_format_name for info in b.look("eod-receive", LOCAL)}
    assert told == {str(parse_format_name(name)[0]).casefold().replace("direct=", "DIRECT=")
                    for name in names}  # fmt: skip
    assert b.look("eod-receive", r"private$\plain") == []
    b.kill()
    b.start()
    told = {info.queue_format_name for info in b.look("eod-receive", LOCAL)}
    assert {name.partition(":")[0] for name in told} == {"DIRECT=http", "DIRECT=os"}
    assert all(outgoing(a, name).messages == 0 for name in names)


def test_one_send_by_both_protocols(world: World) -> None:
    a, b = world["A"], world["B"]
    b.create("r")
    a.once(Q + r",DIRECT=OS:B\private$\r", b"both", journal=Journal.DEADLETTER)
    world.run(5)
    assert b.receive(LOCAL).bodies() == b.receive(r"private$\r").bodies() == [b"both"]
    world.run(5)
    assert outgoing(a).messages == outgoing(a, r"DIRECT=OS:B\private$\r").messages == 0


def test_a_late_first_message_of_a_stream_that_was_left(world: World) -> None:
    """It is answered with 200, taken by nobody, and no receipt of it disturbs the new stream."""
    a, b = world["A"], world["B"]
    for body in (b"one", b"two"):
        a.once(Q, body)
        world.run(3)
    kind, entity = next((k, e) for k, e in requests(world, "A") if b"one" in e)
    assert posted(world, entity, kind, to="B").startswith(b"HTTP/1.1 200")
    world.run(5)
    a.once(Q, b"three")
    world.run(5)
    assert b.bodies(LOCAL) == [b"one", b"two", b"three"]
    assert outgoing(a).messages == 0


def test_what_does_not_say_who_sent_it_is_never_a_repetition(world: World) -> None:
    """Without an Msmq element an identifier means nothing (MC-MQSRM 2.2.6)."""
    a, b = world["A"], world["B"]
    a.send(0, PLAIN, b"one")
    world.run(2)
    ((kind, entity),) = requests(world, "A")
    whole = re.search(rb"<se:Envelope.*</se:Envelope>", entity)
    assert whole is not None
    bare = re.sub(rb"<Msmq .*</Msmq>", b"", whole[0])
    length = b"Content-Length: %d\r\n\r\n"
    anonymous = entity.replace(length % len(whole[0]) + whole[0], length % len(bare) + bare)
    for _ in range(2):
        assert posted(world, anonymous, kind, to="B").startswith(b"HTTP/1.1 200")
        assert posted(world, entity, kind, to="B").startswith(b"HTTP/1.1 200")
    assert b.bodies(r"private$\plain") == [b"one"] * 3


def test_connections_that_break_on_the_way(world: World) -> None:
    """Every few messages the connection is gone, with what was under way on it."""
    a, b = world["A"], world["B"]
    sent = [b"%d" % number for number in range(40)]
    for body in sent:
        a.once(Q, body)
        world.run(0.0007)
        if world.wires and int(body) % 3 == 0:
            world.wires[-1].break_("cut by the test")
    world.run(120)
    assert b.bodies(LOCAL) == sent
    assert outgoing(a).messages == 0


def test_strangers_cannot_use_up_the_outgoing_queues(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address for receipts is learned only if they can be sent there; the others wait."""
    a, b = world["A"], world["B"]
    a.once(Q, b"one", journal=Journal.DEADLETTER)
    world.run(3)
    few(monkeypatch, Thing.OUTGOING, 1)
    kind, entity = requests(world, "A")[0]
    own, stranger = a.look("status").id.encode(), b"7" * 8 + a.look("status").id[8:].encode()
    other = entity.replace(own, stranger).replace(b"http://a/", b"http://c/")
    assert other != entity
    assert posted(world, other, kind, to="B") == b"(closed)"
    again = entity.replace(b"http://a/", b"http://d/")
    assert posted(world, again, kind, to="B").startswith(b"HTTP/1.1 200"), "a repetition"
    a.once(Q, b"two", journal=Journal.DEADLETTER)
    world.run(3)
    assert b.receive(LOCAL, count=9).bodies() == [b"one", b"two"]
    world.run(3)
    assert outgoing(a).messages == 0


# ---- what receipts and envelopes say --------------------------------------------------------


def test_a_receipt_names_the_queue_that_it_is_about(world: World) -> None:
    """``<rev><via>`` of stream receipts, order and final ones, is the URL that the sender used,
    also behind a redirection, and after a restart and a checkpoint."""
    a, b = world["A"], world["B"]
    behind_a_gateway(world, mapped=True)
    a.once(GATE, b"m1", journal=Journal.DEADLETTER)
    world.run(5)
    assert b.engine is not None
    b.engine.checkpoint()
    b.kill()
    b.start()
    assert [m.body for m in b.receive(LOCAL)] == [b"m1"]
    world.run(5)
    receipts = posts(world, "B")
    assert receipts.count(b"<streamReceipt>") >= 2
    assert receipts.count(b"<commitmentReceipt>") == 1
    assert receipts.count(b"<rev><via>http://gate/msmq/orders</via></rev>") == receipts.count(
        b"<streamReceipt>"
    )


@pytest.mark.parametrize("algorithm", [0, 0x8003, 0x8004, 0x800C])
def test_a_hash_algorithm_is_passed_on(world: World, algorithm: int) -> None:
    """Nothing here is signed or verified; what others say of it is not changed."""
    a, b = world["A"], world["B"]
    a.once(Q, b"m1")
    world.run(5)
    (entity,) = (xml for _, xml in requests(world, "A") if b"<Stream" in xml)
    assert b"<HashAlgorithm>32772</HashAlgorithm>" in entity, "SHA-1, as Windows writes it"
    said = Msmq(source=b"S" * 16, hash=algorithm)
    made = Envelope("http://b/msmq/private$/plain", "x", 7, b"S" * 16, msmq=said)
    assert posted(world, write(made), to="B").startswith(b"HTTP/1.1 200 OK\r\n")
    (packet,) = b.messages(r"private$\plain").run
    assert headers(packet).properties.hash == algorithm
    again = post_of(bytes(packet), "http://c/msmq/q", b"B" * 16, HttpNames()).envelope
    assert again.msmq is not None
    assert again.msmq.hash == algorithm
