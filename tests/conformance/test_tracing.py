"""Message tracing: one report from each manager that a traced message passes (MS-MQQB 1.3.6)."""

from __future__ import annotations

import pytest

from onceq.errors import QueueNotFound
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.packet.arrived import Batch
from onceq.packet.headers import headers
from onceq.testing.links import Passing, faithful
from tests.conformance.policies import messages_twice
from tests.conformance.world import Node, World, fast

pytestmark = pytest.mark.unturned("public", reason="reports are texts with names in them")

Q = "DIRECT=OS:B\\private$\\q"
LOCAL = "private$\\q"
REPORTS = "private$\\reports"


def restarted(node: Node, **settings: object) -> None:
    node.kill()
    node.settings = fast(**settings)
    node.start()


def staged(*names: str) -> World:
    """A collects the reports of all; B has the queue."""
    world = World(*names)
    for name in names:
        where = REPORTS if name == "A" else f"DIRECT=OS:A\\{REPORTS}"
        restarted(world[name], report_queue=where, forward_messages=name == "R")
    world["A"].create("reports", transactional=False)
    world["B"].create("q")
    return world


def reports(node: Node) -> list[str]:
    try:
        found: Batch = node.messages(REPORTS)
    except (TimeoutError, QueueNotFound):
        return []
    return sorted(m.label.partition(" ")[0] + " " + m.body.decode().split("\n")[2] for m in found)


def test_the_source_and_the_target_report_a_traced_message() -> None:
    world = staged("A", "B")
    a = world["A"]
    a.once(Q, b"plain")
    sent = a.once(Q, b"traced", trace=True)
    world.run(5)
    assert world["B"].bodies(LOCAL) == [b"plain", b"traced"]
    assert [m.trace for m in world["B"].messages(LOCAL)] == [False, True]
    assert reports(a) == ["ARRIVED at: B", "SENT at: A"]
    for message in a.messages(REPORTS):
        assert message.message_class == 1
        assert message.correlation_id == a.identity.guid + sent.first_message.to_bytes(4, "little")
        assert not message.transactional
        assert f"message: {{{guid_text(a.identity.guid)}}}\\{sent.first_message}" in message.text


def test_a_repetition_is_not_reported_again_and_nor_after_a_crash() -> None:
    world = staged("A", "B")
    a, b = world["A"], world["B"]
    twice = messages_twice
    world.link("A", "B").policy = twice
    a.once(Q, b"1", trace=True)
    world.run(0.01)
    b.power_cut()
    b.start()
    world.link("A", "B").policy = faithful
    a.power_cut()
    a.start()
    world.run(60)
    assert b.bodies(LOCAL) == [b"1"]
    assert reports(a) == ["ARRIVED at: B", "SENT at: A"]


def test_a_refusal_is_reported_with_its_class() -> None:
    world = staged("A", "B")
    a = world["A"]
    a.once("DIRECT=OS:B\\private$\\none", b"1", trace=True)
    world.run(5)
    assert reports(a) == ["REFUSED at: B", "SENT at: A"]
    (refused,) = (m for m in a.messages(REPORTS) if m.label.startswith("REFUSED"))
    assert "class: 0x8000" in refused.text


def test_messages_outside_transactions_and_to_a_queue_here() -> None:
    world = staged("A", "B")
    a = world["A"]
    world["B"].create("n", transactional=False)
    a.send(0, "DIRECT=OS:B\\private$\\n", b"1", trace=True, delivery=0)
    a.create("own")
    a.once("private$\\own", b"2", trace=True)
    world.run(5)
    assert reports(a) == ["ARRIVED at: A", "ARRIVED at: B", "SENT at: A"]


def test_without_a_report_queue_nothing_is_reported_and_all_is_delivered() -> None:
    world = World("A", "B")
    world["B"].create("q")
    world["A"].once(Q, b"1", trace=True)
    world.run(5)
    assert world["B"].bodies(LOCAL) == [b"1"]
    assert world["A"].look("outgoing-queue", Q).messages == 0


def test_a_report_queue_that_cannot_take_reports_stops_nothing() -> None:
    for kind in (True, None):
        world = staged("A", "B")
        a = world["A"]
        a.ask(requests.DeleteQueue(REPORTS))
        if kind is not None:
            a.create("reports", transactional=True)
        a.once(Q, b"1", trace=True)
        world.run(10)
        assert world["B"].bodies(LOCAL) == [b"1"]
        assert reports(a) == []


def test_the_trace_flag_and_its_header_are_on_the_wire() -> None:
    world = staged("A", "B")
    seen: list[bytes] = []

    def watch(p: Passing) -> list[tuple[int, Passing]]:
        if p.kind == 0 and p.transactional:
            seen.append(bytes(p.packet))
        return faithful(p)

    world.link("A", "B").policy = watch
    world["A"].once(Q, b"1", b"2", trace=True)
    world.run(2)
    assert len(seen) == 2
    for packet in seen:
        parts = headers(packet)
        assert parts.base.flags & 0x0120 == 0x0120
        assert parts.debug is not None
        assert (parts.debug.flags, parts.debug.queue) == (0, b"")


def test_a_router_reports_what_it_passes_on() -> None:
    world = staged("A", "B", "R")
    a, b = world["A"], world["B"]
    a.routes[b.identity.guid] = "R"
    b.routes[a.identity.guid] = "R"
    restarted(a, report_queue=REPORTS)
    restarted(b, report_queue=f"DIRECT=OS:A\\{REPORTS}")
    world.link("A", "B").up = True
    number = b.look("queue", LOCAL).number
    a.once(f"PRIVATE={guid_text(b.identity.guid)}\\{number:08x}", b"1", trace=True)
    world.run(30)
    assert b.bodies(LOCAL) == [b"1"]
    assert reports(a) == ["ARRIVED at: B", "FORWARDED at: R", "SENT at: A"]


def test_reports_for_which_there_is_no_queue_now_are_counted() -> None:
    """A report queue that only the directory knows: while that is away they were dropped, and
    nothing but a line of the log knew."""
    world = World("A", "B")
    a, b = world["A"], world["B"]
    restarted(b, report_queue="PUBLIC=5a5a5a5a-0000-0000-0000-000000000001")
    b.create("q")
    a.once(Q, b"1", b"2", trace=True)
    a.once(Q, b"3")
    world.run(5)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3"]
    assert b.ask(requests.Look("metrics")).reports_dropped == 2
    assert a.ask(requests.Look("metrics")).reports_dropped == 0, "it reports nowhere"
