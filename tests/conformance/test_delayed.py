"""Messages that are not to be received before a time: never early, once, and through everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.errors import IllegalPropertyValue, ReceiveTimeout, UnsupportedOperation
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.limits import DELAY_LOOK_S, DELAY_S_MAX, SUBQUEUES_MAX
from onceq.model.marks import SECOND_US
from onceq.model.message import Acknowledge, Journal
from onceq.model.requests import Look
from onceq.model.resultcodes import MessageClass as C
from onceq.model.shares import Thing
from tests.conformance.clocks import START_S
from tests.conformance.world import Node, World, Worlds, fast, item, routed
from tests.few import few

Q, PLAIN = r"private$\q", r"private$\n"
HERE, HERE_PLAIN = r"DIRECT=OS:.\private$\q", r"DIRECT=OS:.\private$\n"
THERE, THERE_PLAIN = r"DIRECT=OS:B\private$\q", r"DIRECT=OS:B\private$\n"
DELAYED = Q + ";delayed"
DEAD = r"system$;deadxact"
XID = Xid(1, b"g", b"b")


@pytest.fixture
def world(worlds: Worlds) -> World:
    return peopled(worlds("A", "B"))


def peopled(world: World) -> World:
    for node in (world["A"], world["B"]):
        node.create("q")
        node.create("n", transactional=False)
        node.create("adm", transactional=False)
    return world


def now_s(node: Node) -> int:
    return node.clock.read().wall_s


def until(world: World, node: Node, second: int) -> None:
    """Let time pass up to that second of a wall clock, and a bit."""
    left_us = second * SECOND_US - node.clock.read().wall_us
    world.run(left_us / SECOND_US + 0.01)


def classes(node: Node, queue: str) -> list[int]:
    try:
        return [message.message_class for message in node.messages(queue)]
    except ReceiveTimeout:
        return []


# ---- in the queue ------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", [Q, PLAIN])
@pytest.mark.parametrize("host", ["A", "B"])
def test_a_delayed_message_is_not_there_before_its_time(
    world: World, queue: str, host: str
) -> None:
    a, target = world["A"], world[host]
    to = rf"DIRECT=OS:{host}\{queue}"
    send: Any = a.once if queue == Q else lambda *args, **more: a.send(0, *args, **more)
    world.run(0.5)
    due_s = now_s(a) + 11
    send(to, b"later", delay=10)
    send(to, b"now")
    world.run(2)
    assert target.bodies(queue) == [b"now"], "it lets what follows it pass"
    assert target.bodies(queue + ";delayed") == [b"later"], "but it has arrived"
    until(world, target, due_s - 1)
    assert target.bodies(queue) == [b"now"]
    until(world, target, due_s)
    assert target.bodies(queue) == [b"now", b"later"]
    (_, message) = target.messages(queue)
    assert (message.deliver_at, message.move_count, message.extension) == (due_s, 0, b"")
    assert target.bodies(queue + ";delayed") == []


def test_a_receive_that_waits_is_served_when_the_time_has_come(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"later", deliver_at=now_s(a) + 5)
    with pytest.raises(ReceiveTimeout):
        a.receive(Q)
    with pytest.raises(ReceiveTimeout):
        a.receive(Q, wait_s=3)
    assert a.receive(Q, wait_s=10).bodies() == [b"later"]


def test_those_of_one_time_keep_their_order_and_others_that_of_their_times(world: World) -> None:
    a, b = world["A"], world["B"]
    at = now_s(a) + 10
    for body, due_s in ((b"3a", at + 3), (b"1a", at + 1), (b"3b", at + 3), (b"1b", at + 1)):
        a.once(THERE, body, deliver_at=due_s)
    world.run(1)
    assert b.bodies(Q) == []
    until(world, b, at + 1)
    assert b.bodies(Q) == [b"1a", b"1b"]
    until(world, b, at + 3)
    assert b.bodies(Q) == [b"1a", b"1b", b"3a", b"3b"]


def test_messages_with_properties_of_their_own_are_delayed_as_others(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(THERE, b"1", b"2", label=["one", "two"], extension=[b"x", b""], delay=5)
    a.once(THERE, b"3", label="three", extension=b"y", delay=5)
    world.run(2)
    assert b.bodies(Q) == []
    world.run(5)
    found = [(m.body, m.label, m.extension, m.deliver_at > 0) for m in b.messages(Q)]
    assert found == [
        (b"1", "one", b"x", True),
        (b"2", "two", b"", True),
        (b"3", "three", b"y", True),
    ]


def test_what_is_due_already_is_as_any_other(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"1", deliver_at=now_s(a) - 100)
    assert a.bodies(Q) == [b"1"]
    assert next(iter(a.messages(Q))).deliver_at == 0


def test_an_operator_takes_one_early_and_lets_another_go(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"1", b"2", b"3", delay=100)
    assert a.receive(DELAYED).bodies() == [b"1"]
    (lookup, _) = a.messages(DELAYED).lookup_ids
    a.ask(requests.MoveMessage(DELAYED, Q, lookup))
    assert a.bodies(Q) == [b"2"]
    tx = a.begin()
    assert a.receive(DELAYED, tx=tx).bodies() == [b"3"]
    world.run(105)
    assert a.bodies(Q) == [b"2"], "it is held when its time comes"
    a.abort(tx)
    world.run(1)
    assert a.bodies(Q) == [b"2", b"3"]


def test_a_purge_of_the_queue_leaves_them_and_a_deletion_ends_them(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(THERE, b"1", delay=100, journal=Journal.DEADLETTER)
    a.once(THERE, b"2", delay=50, journal=Journal.DEADLETTER)
    world.run(2)
    assert b.purge(Q) == 0
    assert b.bodies(DELAYED) == [b"1", b"2"]
    assert b.look("queue", Q).delayed == 2
    world.run(55)
    assert b.bodies(Q) == [b"2"]
    assert b.purge(DELAYED) == 1
    world.run(2)
    assert classes(a, DEAD) == [C.NACK_QUEUE_PURGED]
    a.once(THERE, b"3", delay=100, journal=Journal.DEADLETTER)
    world.run(2)
    b.delete(Q)
    world.run(2)
    assert classes(a, DEAD) == [C.NACK_QUEUE_PURGED, C.NACK_QUEUE_DELETED, C.NACK_QUEUE_DELETED]


def test_a_queue_tells_how_many_are_delayed_and_until_when(world: World) -> None:
    a = world["A"]
    at = now_s(a) + 100
    a.once(HERE, b"1", deliver_at=at + 5)
    a.once(HERE, b"2", deliver_at=at)
    for name in (Q, DELAYED):
        view = a.look("queue", name)
        assert (view.delayed, view.delayed_until) == (2, at)
    whole = a.look("queue", Q)
    assert (whole.messages, whole.in_subqueues) == (0, 2)
    assert whole.bytes_in_subqueues == a.look("queue", DELAYED).bytes > 0


# ---- what is told, and what ends them ----------------------------------------------------------


def test_it_has_reached_its_queue_and_is_received_later(world: World) -> None:
    a = world["A"]
    asked: dict[str, Any] = {"acknowledge": Acknowledge(15), "admin_queue": r"private$\adm"}
    a.once(THERE, b"1", delay=20, **asked)
    world.run(2)
    assert classes(a, r"private$\adm") == [C.ACK_REACH_QUEUE]
    world.run(20)
    assert classes(a, r"private$\adm") == [C.ACK_REACH_QUEUE]
    world["B"].receive(Q)
    world.run(2)
    assert classes(a, r"private$\adm") == [C.ACK_REACH_QUEUE, C.ACK_RECEIVE]


def test_a_time_to_be_received_counts_from_the_send(world: World) -> None:
    a, b = world["A"], world["B"]
    with pytest.raises(IllegalPropertyValue, match="its time to be received is over before"):
        a.once(THERE, b"1", delay=20, time_to_be_received=20)
    a.once(THERE, b"1", delay=20, time_to_be_received=30, journal=Journal.DEADLETTER)
    world.run(25)
    assert b.bodies(Q) == [b"1"]
    world.run(10)
    assert b.bodies(Q) == []
    assert classes(a, DEAD) == [C.NACK_RECEIVE_TIMEOUT]


def test_delayed_messages_count_against_the_quota_of_their_queue(world: World) -> None:
    b = world["B"]
    b.create("small", quota_kb=1)
    to = r"DIRECT=OS:B\private$\small"
    world["A"].once(to, bytes(700), delay=50, journal=Journal.DEADLETTER)
    world["A"].once(to, bytes(700), journal=Journal.DEADLETTER)
    world.run(2)
    assert b.bodies(r"private$\small") == []
    assert classes(world["A"], DEAD) == [C.NACK_QUEUE_EXCEED_QUOTA]
    world.run(50)
    assert len(b.bodies(r"private$\small")) == 1


@pytest.mark.parametrize(
    "properties",
    [
        {"delay": DELAY_S_MAX + 1}, {"deliver_at": 1_700_000_000_000 % (1 << 32)},
        {"delay": 5, "deliver_at": START_S + 5}, {"delay": -1}, {"deliver_at": 1 << 32},
    ],
)  # fmt: skip
def test_a_time_that_makes_no_sense_is_refused(world: World, properties: dict[str, Any]) -> None:
    a = world["A"]
    with pytest.raises(IllegalPropertyValue):
        a.once(HERE, b"1", **properties)
    assert a.bodies(Q) == []


@pytest.mark.inside("it makes room for no subqueue")
def test_the_limit_of_subqueues_keeps_no_message_from_its_queue(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch, Thing.SUBQUEUES, 0)
    assert SUBQUEUES_MAX
    world["A"].once(HERE, b"1", delay=5)
    world.run(7)
    assert world["A"].bodies(Q) == [b"1"]


# ---- transactions ------------------------------------------------------------------------------


def test_a_transaction_delays_what_it_says_and_an_abort_sends_nothing(world: World) -> None:
    a, b = world["A"], world["B"]
    tx = a.begin()
    a.send(tx, THERE, b"1", delay=30)
    a.send(tx, THERE, b"2")
    a.send(tx, HERE, b"3", delay=30)
    a.commit(tx)
    tx = a.begin()
    a.send(tx, THERE, b"never", delay=5)
    a.abort(tx)
    world.run(10)
    assert (b.bodies(Q), a.bodies(Q)) == ([b"2"], [])
    world.run(25)
    assert (b.bodies(Q), a.bodies(Q)) == ([b"2", b"1"], [b"3"])


def test_a_prepared_branch_keeps_the_times_of_what_it_sends(world: World) -> None:
    a, b = world["A"], world["B"]
    world.run(0.5)
    due_s = now_s(a) + 31
    a.promise(
        XID, item(HERE, b"here", delay=30), item(THERE, b"there", delay=30), item(HERE, b"now")
    )
    a.kill()
    a.start()
    world.run(5)
    a.commit_branch(XID)
    until(world, a, due_s - 1)
    assert (a.bodies(Q), b.bodies(Q)) == ([b"now"], [])
    until(world, a, due_s)
    world.run(0.1)
    assert (a.bodies(Q), b.bodies(Q)) == ([b"now", b"here"], [b"there"])


def test_a_branch_that_is_decided_late_sends_what_is_due(world: World) -> None:
    a = world["A"]
    a.promise(XID, item(HERE, b"1", delay=10))
    world.run(20)
    a.commit_branch(XID)
    assert a.bodies(Q) == [b"1"]


def test_several_destinations_each_delay_it(world: World) -> None:
    a, b = world["A"], world["B"]
    big = bytes(20_000)
    a.once(f"{HERE},{THERE}", big, delay=10)
    world.run(5)
    assert (a.bodies(Q), b.bodies(Q)) == ([], [])
    world.run(7)
    assert (a.bodies(Q), b.bodies(Q)) == ([big], [big])


# ---- crashes and clocks ------------------------------------------------------------------------


def test_a_kill_at_any_time_changes_nothing(world: World) -> None:
    a, b = world["A"], world["B"]
    a.once(THERE, b"1", delay=60)
    a.once(HERE, b"2", delay=60)
    world.cut("A", "B")
    a.kill()
    a.start()
    world.mend("A", "B")
    world.run(40)
    assert b.bodies(DELAYED) == [b"1"]
    for node in (a, b):
        node.kill()
        node.start()
    world.run(5)
    assert (a.bodies(Q), b.bodies(Q)) == ([], [])
    b.kill()
    world.run(30)
    b.start()
    world.run(1)
    assert (a.bodies(Q), b.bodies(Q)) == ([b"2"], [b"1"]), "its time came while it was down"
    for node in (a, b):
        node.kill()
        node.start()
    world.run(1)
    assert (a.bodies(Q), b.bodies(Q)) == ([b"2"], [b"1"])


def test_a_clock_that_is_set_ahead_lets_it_go_soon(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"1", delay=10 * DELAY_LOOK_S)
    world.run(1)
    a.clock.jump(20 * DELAY_LOOK_S)
    world.run(DELAY_LOOK_S + 1)
    assert a.bodies(Q) == [b"1"]


def test_a_clock_that_is_set_back_keeps_it_until_it_shows_the_time(world: World) -> None:
    a = world["A"]
    a.once(HERE, b"1", delay=30)
    world.run(1)
    a.clock.jump(-100)
    world.run(100)
    assert a.bodies(Q) == []
    world.run(32)
    assert a.bodies(Q) == [b"1"]


def test_the_clock_of_the_destination_decides(world: World) -> None:
    a, b = world["A"], world["B"]
    b.clock.jump(40)
    a.once(THERE, b"1", deliver_at=now_s(a) + 60)
    world.run(15)
    assert b.bodies(Q) == []
    world.run(10)
    assert b.bodies(Q) == [b"1"]


# ---- other queue managers ----------------------------------------------------------------------


def foreign(worlds: Worlds) -> World:
    """Two queue managers that do not speak of extensions."""
    return peopled(worlds("A", "B", settings=fast(settle_doubts=False)))


def test_one_that_is_known_not_to_know_of_delays_gets_none(worlds: Worlds) -> None:
    world = foreign(worlds)
    a, b = world["A"], world["B"]
    a.once(THERE, b"1")
    world.run(2)
    with pytest.raises(UnsupportedOperation, match="does not know of delays"):
        a.once(THERE, b"2", delay=30)
    with pytest.raises(UnsupportedOperation, match="does not know of delays"):
        a.once(f"{HERE},{THERE}", b"3", delay=30)
    a.once(THERE, b"4")
    world.run(40)
    assert (a.bodies(Q), b.bodies(Q)) == ([], [b"1", b"4"])


@pytest.mark.parametrize("plain", [False, True])
def test_one_that_turns_out_not_to_know_gets_none_either(worlds: Worlds, plain: bool) -> None:
    world = foreign(worlds)
    a, b = world["A"], world["B"]
    wanted: dict[str, Any] = {
        "journal": Journal.DEADLETTER, "acknowledge": Acknowledge.NEGATIVE_ARRIVAL,
        "admin_queue": r"private$\adm",
    }  # fmt: skip
    to, queue = (THERE_PLAIN, PLAIN) if plain else (THERE, Q)
    for body, delay in ((b"1", 0), (b"2", 30), (b"3", 0)):
        if plain:
            a.send(0, to, body, delay=delay, **wanted)
        else:
            a.once(to, body, delay=delay, **wanted)
    world.run(5)
    assert b.bodies(queue) == [b"1", b"3"]
    dead = r"system$;deadletter" if plain else DEAD
    assert (a.bodies(dead), classes(a, dead)) == ([b"2"], [C.NACK_DELAY_NOT_SUPPORTED])
    assert classes(a, r"private$\adm") == [C.NACK_DELAY_NOT_SUPPORTED]
    world.run(40)
    assert b.bodies(queue) == [b"1", b"3"]


def test_what_was_due_before_it_is_reached_is_as_any_other(worlds: Worlds) -> None:
    world = foreign(worlds)
    a, b = world["A"], world["B"]
    world.cut("A", "B")
    a.once(THERE, b"1", delay=5)
    world.run(10)
    world.mend("A", "B")
    world.run(60)
    assert b.bodies(Q) == [b"1"]


@pytest.mark.inside("routes are set in the test")
def test_a_message_that_is_led_through_another_one_is_delayed(worlds: Worlds) -> None:
    world, to = routed(worlds)
    a, b = world["A"], world["B"]
    a.once(to, b"1", delay=30)
    world.run(10)
    assert (b.bodies(Q), b.bodies(DELAYED)) == ([], [b"1"])
    world.run(25)
    assert b.bodies(Q) == [b"1"]


def test_a_destination_over_http_is_refused(world: World) -> None:
    a = world["A"]
    with pytest.raises(UnsupportedOperation, match="over HTTP"):
        a.once("DIRECT=HTTP://b/msmq/private$/q", b"1", delay=5)
    assert a.bodies(Q) == []


@pytest.mark.inside("a look at what is kept")
def test_many_are_let_go_in_portions(world: World) -> None:
    a = world["A"]
    a.once(HERE, *[b"%d" % n for n in range(2_000)], delay=5)
    world.run(7)
    assert a.bodies(Q) == [b"%d" % n for n in range(2_000)]
    assert replace(a.ask(Look("queue", Q)), delayed=0).delayed_until == 0
