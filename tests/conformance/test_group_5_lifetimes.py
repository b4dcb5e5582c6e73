"""Times to reach the queue and to be received: where they end messages, and what is told."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from onceq.errors import ReceiveTimeout
from onceq.model import requests
from onceq.model.identity import guid_text
from onceq.model.message import Acknowledge, Journal
from onceq.model.resultcodes import MessageClass as C
from onceq.testing.links import faithful
from tests.conformance.policies import no_final_acks, no_messages, no_order_acks
from tests.conformance.world import Node, World, Worlds, fast, item

Q = r"DIRECT=OS:B\private$\q"
N = r"DIRECT=OS:B\private$\n"
LOCAL, PLAIN, ADMIN = r"private$\q", r"private$\n", r"private$\adm"
DEAD, DEAD_PLAIN = "SYSTEM$;DEADXACT", "SYSTEM$;DEADLETTER"
EVERYTHING: dict[str, Any] = {
    "acknowledge": Acknowledge(15),
    "admin_queue": ADMIN,
    "journal": Journal.DEADLETTER,
}


@pytest.fixture
def world(worlds: Worlds) -> World:
    return peopled(worlds("A", "B"))


def peopled(world: World) -> World:
    world["B"].create("q")
    world["B"].create("n", transactional=False)
    world["A"].create("adm", transactional=False)
    return world


def classes(node: Node, queue: str) -> list[int]:
    """Classes of what is in a queue."""
    try:
        return [message.message_class for message in node.messages(queue)]
    except ReceiveTimeout:
        return []


# ---- lifetimes of a transaction --------------------------------------------------------------


def test_case_119_messages_of_a_transaction_have_the_lifetimes_of_its_first(world: World) -> None:
    a, b = world["A"], world["B"]
    a.create("here")
    tx = a.begin()
    a.send(tx, Q, b"1", time_to_be_received=100)
    a.send(tx, Q, b"2")
    a.send(tx, r"private$\here", b"2")
    a.commit(tx)
    items = (item(Q, b"3", time_to_be_received=50), item(Q, b"4"))
    a.ask(requests.Commit(0, items))
    world.run(10)
    times = [message.time_to_be_received for message in b.messages(LOCAL)]
    assert times == [100, 100, 50, 50]
    (here,) = a.messages(r"private$\here")
    assert here.time_to_be_received == 100
    world.run(38)
    assert b.bodies(LOCAL) == [b"1", b"2", b"3", b"4"]
    world.run(17)
    assert b.bodies(LOCAL) == [b"1", b"2"]
    assert a.bodies(r"private$\here") == [b"2"]
    world.run(33)
    assert b.bodies(LOCAL) == [b"1", b"2"]
    world.run(17)
    assert b.bodies(LOCAL) == a.bodies(r"private$\here") == []


def test_case_120_a_message_of_a_transaction_expires_by_itself(world: World) -> None:
    a, b = world["A"], world["B"]
    link = world.link("A", "B")
    link.policy = lambda p: [] if p.kind == 0 and p.number == 3 else [(0, p)]
    tx = a.begin()
    for body in (b"1", b"2", b"3"):
        a.send(tx, Q, body, time_to_reach_queue=300, journal=Journal.DEADLETTER)
    a.commit(tx)
    world.run(295)
    assert (b.bodies(LOCAL), a.bodies(DEAD)) == ([b"1", b"2"], []), "not before its time"
    world.run(65)
    link.policy = faithful
    a.once(Q, b"next")
    world.run(1000)
    assert b.bodies(LOCAL) == [b"1", b"2", b"next"]
    assert a.bodies(DEAD) == [b"3"]


def test_lifetimes_count_from_the_send_and_not_from_the_commit(world: World) -> None:
    a, b = world["A"], world["B"]
    a.create("here")
    tx = a.begin()
    for name in (Q, r"private$\here"):
        a.send(tx, name, b"m", time_to_be_received=20)
    world.run(15)
    a.commit(tx)
    world.run(1)
    assert b.bodies(LOCAL) == a.bodies(r"private$\here") == [b"m"]
    world.run(6)
    assert b.bodies(LOCAL) == a.bodies(r"private$\here") == []


def test_the_smaller_lifetime_decides(world: World) -> None:
    a = world["A"]
    world.cut("A", "B")
    for reach, receive in ((10, 60), (60, 10), (4_000_000_000, 10)):
        a.once(Q, b"m", time_to_reach_queue=reach, time_to_be_received=receive, **EVERYTHING)
    world.run(20)
    assert classes(a, DEAD) == classes(a, ADMIN) == [C.NACK_REACH_QUEUE_TIMEOUT] * 3


def test_the_default_of_the_manager(worlds: Worlds) -> None:
    world = peopled(worlds("A", "B", settings=fast(time_to_reach_queue_s=100)))
    world.cut("A", "B")
    world["A"].once(Q, b"m", journal=Journal.DEADLETTER)
    world.run(90)
    assert classes(world["A"], DEAD) == []
    world.run(20)
    assert classes(world["A"], DEAD) == [C.NACK_REACH_QUEUE_TIMEOUT]


# ---- one attempt -----------------------------------------------------------------------------


def test_a_time_to_reach_the_queue_of_0_is_one_attempt(world: World) -> None:
    a, b = world["A"], world["B"]
    for name, body in ((Q, b"1"), (N, b"2")):
        send = a.once if name == Q else lambda *args, **more: a.send(0, *args, **more)
        send(name, body, time_to_reach_queue=0, **EVERYTHING)
    world.run(3)
    assert (b.bodies(LOCAL), b.bodies(PLAIN)) == ([b"1"], [b"2"])
    assert classes(a, ADMIN) == [C.ACK_REACH_QUEUE] * 2
    world.cut("A", "B")
    a.receive(ADMIN, count=2)
    a.once(Q, b"3", time_to_reach_queue=0, **EVERYTHING)
    a.send(0, N, b"4", time_to_reach_queue=0, **EVERYTHING)
    a.once(Q, b"patient", **EVERYTHING)
    world.run(3)
    assert classes(a, ADMIN) == [C.NACK_REACH_QUEUE_TIMEOUT] * 2
    assert (a.bodies(DEAD), a.bodies(DEAD_PLAIN)) == ([b"3"], [b"4"])
    world.mend("A", "B")
    world.run(10)
    assert (b.bodies(LOCAL), b.bodies(PLAIN)) == ([b"1", b"patient"], [b"2"])


def test_one_attempt_that_is_not_answered_is_in_doubt(worlds: Worlds) -> None:
    world = peopled(worlds("A", "B", settings=fast(settle_doubts=False)))
    a = world["A"]
    world.link("A", "B").policy = no_order_acks
    a.once(Q, b"m", time_to_reach_queue=0, **EVERYTHING)
    world.run(29)
    assert classes(a, DEAD) == []
    world.run(30)
    assert classes(a, DEAD) == [C.NACK_RECEIVE_TIMEOUT_AT_SENDER]
    assert world["B"].bodies(LOCAL) == [b"m"]
    assert classes(a, ADMIN) == [C.ACK_REACH_QUEUE], "never both"


# ---- waiting for the news --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reach", "until"),
    [
        ({}, 4_294_967_295, 120), ({}, 30, 90),
        ({"xact_delay_receive_nack_s": 600}, 30, 660), ({"xact_delay_receive_nack_s": 0}, 30, 60),
    ],
)  # fmt: skip
def test_how_long_the_news_of_a_receive_is_waited_for(
    worlds: Worlds, settings: dict[str, Any], reach: int, until: int
) -> None:
    world = peopled(worlds("A", "B", settings=fast(settle_doubts=False, **settings)))
    a = world["A"]
    world.link("A", "B").policy = no_final_acks
    a.once(Q, b"m", time_to_reach_queue=reach, time_to_be_received=60, **EVERYTHING)
    world.run(2)
    world["B"].receive(LOCAL)
    world.run(until - 4)
    assert classes(a, DEAD) == []
    world.run(6)
    assert classes(a, DEAD) == [C.NACK_RECEIVE_TIMEOUT_AT_SENDER]
    assert sorted(classes(a, ADMIN)) == [C.ACK_REACH_QUEUE, C.ACK_RECEIVE]


def test_a_doubt_that_is_settled_is_told(world: World) -> None:
    a, b = world["A"], world["B"]
    link = world.link("A", "B")
    link.policy = no_messages
    a.once(Q, b"m", time_to_reach_queue=10, **EVERYTHING)
    world.run(15)
    link.policy = faithful
    world.run(100)
    assert b.bodies(LOCAL) == []
    assert classes(a, DEAD) == classes(a, ADMIN) == [C.NACK_REACH_QUEUE_TIMEOUT]


# ---- on the way ------------------------------------------------------------------------------


def routed(worlds: Worlds, *names: str) -> tuple[World, dict[str, str]]:
    """Managers in a row that pass on what A sends to the last one; names of that one's queues."""
    world = peopled_row(worlds(*names, settings=fast(forward_messages=True)), names)
    last = world[names[-1]]
    queues = {
        queue.name: f"PRIVATE={guid_text(last.identity.guid)}\\{queue.number:08x}"
        for queue in last.look("queues")
        if queue.name in ("q", "n")
    }
    routes: dict[str, dict[bytes, str]] = {name: {} for name in names}
    for here, there in pairwise(names):
        if there != names[-1]:
            routes[here][last.identity.guid] = there
        if here != "A":
            routes[there][world["A"].identity.guid] = here
    for name, found in routes.items():
        if found:
            restarted(world[name], found)
    return world, queues


def peopled_row(world: World, names: tuple[str, ...]) -> World:
    world[names[-1]].create("q")
    world[names[-1]].create("n", transactional=False)
    world["A"].create("adm", transactional=False)
    return world


def restarted(node: Node, routes: dict[bytes, str]) -> None:
    node.kill()
    node.routes.update(routes)
    node.start()


def test_lifetimes_run_on_over_a_router(worlds: Worlds) -> None:
    world, queues = routed(worlds, "A", "R", "B")
    a, r, b = world["A"], world["R"], world["B"]
    world.cut("R", "B")
    a.once(queues["q"], b"1", time_to_reach_queue=20, **EVERYTHING)
    a.send(0, queues["n"], b"2", time_to_reach_queue=20, **EVERYTHING)
    a.send(0, queues["n"], b"3", time_to_be_received=60, **EVERYTHING)
    world.run(15)
    assert classes(a, ADMIN) == []
    world.run(10)
    assert classes(r, DEAD_PLAIN) == [C.NACK_REACH_QUEUE_TIMEOUT], "where it died (Q-16)"
    world.mend("R", "B")
    world.run(20)
    assert (b.bodies(LOCAL), b.bodies(PLAIN)) == ([], [b"3"])
    world.run(20)
    assert b.bodies(PLAIN) == [], "60 s after it was sent"
    world.run(30)
    reached, late = C.ACK_REACH_QUEUE, C.NACK_REACH_QUEUE_TIMEOUT
    told = classes(a, ADMIN)
    assert sorted(told)[:2] == [reached, late]
    assert C.NACK_RECEIVE_TIMEOUT in told
    assert sum(view.messages for view in r.look("outgoing")) == 0


def test_messages_that_go_in_circles(worlds: Worlds) -> None:
    world, queues = routed(worlds, "A", "R", "S", "B")
    a, b = world["A"], world["B"]
    restarted(world["S"], {b.identity.guid: "R"})
    a.once(queues["q"], b"1", **EVERYTHING)
    a.send(0, queues["n"], b"2", **EVERYTHING)
    world.run(100)
    assert (b.bodies(LOCAL), b.bodies(PLAIN)) == ([], [])
    assert classes(a, ADMIN) == [C.NACK_HOP_COUNT_EXCEEDED] * 2
    assert classes(a, DEAD) == [C.NACK_HOP_COUNT_EXCEEDED]
    died = [classes(world[name], DEAD_PLAIN) for name in ("R", "S")]
    assert sorted(died) == [[], [C.NACK_HOP_COUNT_EXCEEDED]]
    for name in ("R", "S"):
        assert sum(view.messages for view in world[name].look("outgoing")) == 0
    assert a.look("outgoing-queue", queues["q"]).messages == 0


def test_what_goes_in_circles_the_second_time_may_have_arrived_the_first(worlds: Worlds) -> None:
    """A router refuses a repetition, and knows nothing of what it repeats (finding D7)."""
    world, queues = routed(worlds, "A", "R", "S", "B")
    a, b = world["A"], world["B"]
    world.link("A", "R").policy = no_order_acks
    a.once(queues["q"], b"1", journal=Journal.DEADLETTER)
    world.run(5)
    assert b.bodies(LOCAL) == [b"1"]
    restarted(world["S"], {b.identity.guid: "R"})
    restarted(a, {})
    world.run(100)
    (dead,) = a.messages(DEAD)
    assert (dead.message_class, dead.note) == (0xC003, C.NACK_HOP_COUNT_EXCEEDED)
    assert a.look("outgoing-queue", queues["q"]).messages == 0
