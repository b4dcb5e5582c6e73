"""A border server between an inner and an outer network: what is passed on over HTTP (HTTP-8).

A is outside, B at the border, C and D inside. Nobody outside reaches C, and C reaches B only.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceq.model.http import Mappings
from onceq.model.limits import HOPS_MAX
from onceq.model.message import Journal
from onceq.wire.srmp.envelope import Envelope, Msmq, StreamPart, write
from tests.conformance.over_http import LOCAL, answers, outgoing, posted, posts
from tests.conformance.world import Node, World, Worlds, fast

pytestmark = [
    pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http_border.py"),
    pytest.mark.unturned("public", reason="an HTTP address names no public queue as these do"),
]
OUTER = "DIRECT=HTTP://www/msmq/orders"
TO_A = "DIRECT=HTTP://a/msmq/private$/q"
ORDER_QUEUE = "/msmq/private$/order_queue$"
BACK = "http://www/msmq/private$/receipts-c"
"""Where receipts for streams of C come in from outside."""


def set_names(node: Node, **changes: object) -> None:
    node.http = replace(node.http, **changes)  # type: ignore[arg-type]
    if node.engine is not None:
        node.engine.http = node.http


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", "B", "C", settings=fast(connect_retry_s=1.0, forward_messages=True))
    for name in "ABC":
        made[name].create("q")
        made[name].create("plain", transactional=False)
    made.gateways["www"] = "B"
    made.http_dark |= {("A", "c"), ("C", "a")}
    inward = (
        ("http://www/msmq/orders", "http://c/msmq/private$/q"),
        ("http://www/msmq/plain", "http://c/msmq/private$/plain"),
        (BACK, f"http://c{ORDER_QUEUE}"),
    )
    set_names(made["B"], mappings=Mappings(inward), forward=True)
    outward = Mappings(receipts=(("http://a/*", BACK),), outbound=(("http://a/*", "http://b/"),))
    set_names(made["C"], mappings=outward)
    return made


def test_inward_once_and_in_order(world: World) -> None:
    """A redirection leads to an inner queue; receipts come back to the sender by themselves."""
    a, b, c = (world[name] for name in "ABC")
    world.http_dark.add(("C", "a"))
    set_names(c, mappings=Mappings(outbound=(("http://a/*", "http://b/"),)))
    a.once(OUTER, b"m1", b"m2", journal=Journal.DEADLETTER)
    a.once(OUTER, b"m3")
    world.run(10)
    assert [m.body for m in c.receive(LOCAL, count=3)] == [b"m1", b"m2", b"m3"]
    world.run(10)
    assert outgoing(a, OUTER).messages == 0, "order and final receipts have come back"
    assert b.bodies(LOCAL) == []
    assert b"<to>http://c/msmq/private$/q</to>" in posts(world, "B")
    assert b"\r\nVia: 1.1 onceq\r\n" in posts(world, "B")
    assert set(answers(world)) == {200}


def test_outward_over_a_store_and_forward_server(world: World) -> None:
    """Connections for outer hosts go to the border; what is said there names the outer queue."""
    a, c = world["A"], world["C"]
    c.once(TO_A, b"m1", b"m2")
    world.run(10)
    assert a.bodies(LOCAL) == [b"m1", b"m2"]
    assert b"<to>http://a/msmq/private$/q</to>" in posts(world, "C")
    assert BACK.encode() in posts(world, "B"), "the border says where the receipts go"
    assert outgoing(c, TO_A).messages == 0


def test_an_exception_is_left_alone(world: World) -> None:
    c = world["C"]
    set_names(c, mappings=replace(c.http.mappings, exceptions=("http://a/msmq/private$/q",)))
    c.once(TO_A, b"m1")
    world.run(5)
    assert outgoing(c, TO_A).unacknowledged == 1
    assert "a: no answer" in outgoing(c, TO_A).trouble


def test_what_waits_at_the_border_is_not_kept_twice(world: World) -> None:
    """The sender repeats itself while the inner host is away; the border has each message once."""
    a, b, c = (world[name] for name in "ABC")
    set_names(c, mappings=Mappings(outbound=(("http://a/*", "http://b/"),)))
    c.kill()
    a.once(OUTER, b"m1", b"m2")
    world.run(100)
    assert posts(world, "A").count(b"<current>1</current>") == 4, "it has repeated itself"
    (waiting,) = (o for o in b.look("outgoing") if o.messages)
    assert waiting.messages == 2
    c.start()
    world.run(60)
    assert c.bodies(LOCAL) == [b"m1", b"m2"]
    assert outgoing(a, OUTER).messages == 0


@pytest.mark.parametrize("victim", "ABC")
def test_through_kills(world: World, victim: str) -> None:
    a, c = world["A"], world["C"]
    set_names(c, mappings=Mappings(outbound=(("http://a/*", "http://b/"),)))
    for number in range(10):
        a.once(OUTER, b"%d" % number)
        world.run(0.05)
        world[victim].kill()
        world[victim].start()
    world.run(120)
    assert world["C"].bodies(LOCAL) == [b"%d" % number for number in range(10)]
    assert outgoing(world["A"], OUTER).messages == 0


def test_a_restart_of_the_border_remembers_where_receipts_go(world: World) -> None:
    a, b, c = (world[name] for name in "ABC")
    set_names(c, mappings=Mappings(outbound=(("http://a/*", "http://b/"),)))
    c.kill()
    a.once(OUTER, b"m1", b"m2")
    world.run(1)
    assert b.engine is not None
    b.engine.checkpoint()
    b.kill()
    b.start()
    c.start()
    world.run(20)
    assert c.bodies(LOCAL) == [b"m1", b"m2"]
    assert outgoing(a, OUTER).messages == 0


def test_a_stranger_has_nothing_passed_on_where_nothing_says_so(world: World) -> None:
    b = world["B"]
    set_names(b, forward=False)
    said = Envelope("http://elsewhere/msmq/q", "x", 7, b"S" * 16, msmq=Msmq(source=b"S" * 16))
    assert posted(world, write(said), to="B").startswith(b"HTTP/1.1 400 ")
    assert not [o for o in b.look("outgoing") if o.messages]


def test_a_message_that_goes_round_ends(world: World) -> None:
    """Two managers that redirect to each other: after HOPS_MAX it is refused, and told of."""
    b, c = world["B"], world["C"]
    round_and_round = "http://www/msmq/round"
    set_names(b, mappings=Mappings(((round_and_round, "http://c/msmq/round"),)), forward=False)
    set_names(
        c,
        own=frozenset({"c-inner"}),
        mappings=Mappings((("http://c/msmq/round", round_and_round),)),
    )
    stream = StreamPart(b"S" * 16, 1 << 32, 1)
    said = Envelope(round_and_round, "x", 7, b"S" * 16, stream=stream, msmq=Msmq(source=b"S" * 16))
    assert posted(world, write(said), to="B").startswith(b"HTTP/1.1 200 ")
    world.run(1)
    assert answers(world).count(400) == 1
    assert len(answers(world)) == HOPS_MAX
    assert not [o for node in (b, c) for o in node.look("outgoing") if o.messages]
