"""Conformance cases of group 1: send, commit, abort."""

from __future__ import annotations

import pytest

from onceq.errors import (
    BodyTooLarge,
    IllegalPropertySize,
    LabelTooLong,
    ReceiveTimeout,
    TransactionOver,
    TransactionUsage,
)
from onceq.model import requests
from onceq.model.identity import TransactionId
from onceq.model.message import Delivery
from onceq.model.requests import Seek
from onceq.model.results import Outcome
from onceq.model.run import Run
from onceq.testing import disk
from tests.conformance.reading import seek
from tests.conformance.world import AnswerLost, World, Worlds, item, lookups

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"
LOCAL_BY_NAME = r"DIRECT=OS:A\private$\q"


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    world["B"].create("q")
    world["A"].create("in")
    world["A"].create("q")
    return world


def test_case_001_three_messages_in_order(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    a.send(tx, Q, b"m1")
    a.send(tx, Q, b"m2", b"m3")
    a.commit(tx)
    world.run(1)
    assert world["B"].bodies(LOCAL) == [b"m1", b"m2", b"m3"]
    world.run(3600)
    assert world["B"].bodies(LOCAL) == [b"m1", b"m2", b"m3"], "exactly these"


def test_case_002_aborted_messages_never_leave(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    a.send(tx, Q, b"m1", b"m2")
    a.send(tx, LOCAL, b"m3")
    a.abort(tx)
    world.run(120)
    assert world["B"].bodies(LOCAL) == a.bodies(LOCAL) == []
    assert world.link("A", "B").seen == []
    a.kill()
    a.start()
    a.once(Q, b"another")
    world.run(120)
    assert world["B"].bodies(LOCAL) == [b"another"], "nothing of it, ever"
    assert [p.number for p in world.link("A", "B").data()] == [1], "no number was used for it"


def test_case_003_nothing_leaves_before_commit(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    a.send(tx, Q, b"1", b"2", b"3")
    a.send(tx, LOCAL, b"here")
    world.run(120)
    assert world["B"].bodies(LOCAL) == a.bodies(LOCAL) == []
    assert world.link("A", "B").seen == []
    a.steer(Q, "resend")
    world.run(10)
    assert world.link("A", "B").seen == [], "nobody can push it out"
    a.commit(tx)
    world.run(1)
    assert world["B"].bodies(LOCAL) == [b"1", b"2", b"3"]
    assert a.bodies(LOCAL) == [b"here"]


@pytest.mark.parametrize(
    ("destination", "at"), [(Q, "B"), (LOCAL, "A")], ids=["case_004_remote", "case_005_local"]
)
def test_case_004_005_commit_order_decides(world: World, destination: str, at: str) -> None:
    a = world["A"]
    t1, t2 = a.begin(), a.begin()
    a.send(t1, destination, b"t1.m1")
    a.send(t2, destination, b"t2.m1")
    a.send(t1, destination, b"t1.m2")
    a.send(t2, destination, b"t2.m2")
    a.commit(t2)
    a.commit(t1)
    world.run(1)
    assert world[at].bodies(LOCAL) == [b"t2.m1", b"t2.m2", b"t1.m1", b"t1.m2"]


def test_case_006_fifty_transactions(world: World) -> None:
    expected = [b"c%d" % n for n in range(1, 51)]
    for body in expected:
        world["A"].once(Q, body)
    world.run(1)
    assert world["B"].bodies(LOCAL) == expected


def test_case_007_each_source_keeps_its_order(worlds: Worlds) -> None:
    world = worlds("A", "B", "C")
    world["B"].create("q")
    for n in (b"1", b"2", b"3"):
        world["A"].once(Q, b"a" + n)
        world["C"].once(Q, b"b" + n)
    world["A"].once(Q, b"a4", b"a5", b"a6")
    world["C"].once(Q, b"b4", b"b5", b"b6")
    world.run(1)
    found = world["B"].bodies(LOCAL)
    assert [body for body in found if body[:1] == b"a"] == [b"a%d" % n for n in range(1, 7)]
    assert [body for body in found if body[:1] == b"b"] == [b"b%d" % n for n in range(1, 7)]
    assert len(found) == 12


def test_case_008_receive_and_send_commit_together(world: World) -> None:
    a = world["A"]
    a.once(r"private$\in", b"r")
    tx = a.begin()
    assert a.receive(r"private$\in", tx=tx).bodies() == [b"r"]
    a.send(tx, Q, b"s")
    a.commit(tx)
    world.run(1)
    assert a.bodies(r"private$\in") == []
    assert world["B"].bodies(LOCAL) == [b"s"]
    a.crash()
    a.start()
    world.run(60)
    assert a.bodies(r"private$\in") == [], "gone for good"
    assert world["B"].bodies(LOCAL) == [b"s"]


def test_case_009_receive_and_send_abort_together(world: World) -> None:
    a = world["A"]
    queue = r"private$\in"
    a.once(queue, b"first", b"r", b"last")
    places = list(lookups(a.messages(queue)))
    tx = a.begin()
    assert seek(a, queue, Seek.CURRENT, places[1], peek=False, tx=tx).bodies() == [b"r"]
    assert a.bodies(queue) == [b"first", b"last"]
    a.send(tx, Q, b"s")
    a.abort(tx)
    world.run(60)
    assert a.bodies(queue) == [b"first", b"r", b"last"]
    assert list(lookups(a.messages(queue))) == places
    assert world["B"].bodies(LOCAL) == []
    assert world.link("A", "B").seen == []


def test_case_010_own_sends_are_invisible_until_commit(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    a.send(tx, LOCAL, b"m")
    with pytest.raises(ReceiveTimeout) as caught:
        a.receive(LOCAL, tx=tx)
    assert caught.value.hresult == 0xC00E001B
    a.commit(tx)
    assert a.receive(LOCAL).bodies() == [b"m"]


def test_case_011_three_destinations(worlds: Worlds) -> None:
    world = worlds("A", "B", "C")
    for node, name in (("B", "q1"), ("B", "q2"), ("C", "q3")):
        world[node].create(name)
    a = world["A"]
    tx = a.begin()
    a.send(tx, r"DIRECT=OS:B\private$\q1", b"1")
    a.send(tx, r"DIRECT=OS:B\private$\q2", b"2")
    a.send(tx, r"DIRECT=OS:C\private$\q3", b"3")
    a.commit(tx)
    world.run(1)
    for _ in range(2):
        assert world["B"].bodies(r"private$\q1") == [b"1"]
        assert world["B"].bodies(r"private$\q2") == [b"2"]
        assert world["C"].bodies(r"private$\q3") == [b"3"]
        a.kill()
        a.start()
        world.run(60)


def test_case_012_single_message_transaction(world: World) -> None:
    world["A"].once(Q, b"m")
    world.run(60)
    (message,) = world["B"].messages(LOCAL)
    assert message.first_in_transaction
    assert message.last_in_transaction


ID = TransactionId((1_699_999_999).to_bytes(4, "little") + b"s" * 12, 1)


@pytest.mark.unturned("second", reason="it counts syncs")
@pytest.mark.parametrize(
    ("point", "outcome"),
    [
        (disk.BEFORE_APPEND, Outcome.ABORTED),
        (disk.AFTER_APPEND, Outcome.ABORTED),
        (disk.BEFORE_SYNC, Outcome.COMMITTED),
        (disk.AFTER_SYNC, Outcome.COMMITTED),
    ],
)
def test_case_013_lost_answer_is_in_doubt_then_known(
    world: World, point: str, outcome: Outcome
) -> None:
    """What was written survives a kill, so that before the sync the commit may already stand."""
    a = world["A"]
    a.die_at(point)
    with pytest.raises(AnswerLost):
        a.once(Q, b"m1", b"m2", id=ID)
    a.start()
    assert a.outcome(ID) is outcome
    world.run(10)
    done = outcome is Outcome.COMMITTED
    assert world["B"].bodies(LOCAL) == ([b"m1", b"m2"] if done else [])
    a.kill()
    a.start()
    assert a.outcome(ID) is outcome  # for ever (I3a)


def test_case_013_once_told_aborted_it_cannot_commit(world: World) -> None:
    a = world["A"]
    assert a.outcome(ID) is Outcome.ABORTED
    with pytest.raises(TransactionOver):
        a.once(Q, b"late", id=ID)
    world.run(10)
    assert world["B"].bodies(LOCAL) == []


def test_case_014_commit_survives_a_kill(world: World) -> None:
    world["A"].once(Q, b"m1", b"m2")
    world["A"].crash()
    world["A"].start()
    world.run(10)
    assert world["B"].bodies(LOCAL) == [b"m1", b"m2"]


@pytest.mark.unturned("checkpoint", reason="it counts syncs")
@pytest.mark.unturned("second", reason="it counts syncs")
@pytest.mark.parametrize("end", ["kill", "crash"])
def test_case_015_undecided_transaction_is_aborted_at_restart(world: World, end: str) -> None:
    """A power cut may take the count with it, never the message (I17)."""
    a = world["A"]
    a.once(r"private$\in", b"r")
    tx = a.begin()
    a.receive(r"private$\in", tx=tx)
    a.send(tx, Q, b"s1", b"s2")
    getattr(a, end)()
    a.start()
    world.run(60)
    assert world["B"].bodies(LOCAL) == []
    assert world.link("A", "B").seen == []
    (message,) = a.messages(r"private$\in")
    counted = message.abort_count
    assert (message.body, counted) == (b"r", 1 if end == "kill" or world.processes else 0)
    a.kill()
    a.start()
    (message,) = a.messages(r"private$\in")
    assert message.abort_count == counted, "counted once, for good"
    with pytest.raises(TransactionOver):
        a.commit(tx)


def test_case_016_second_commit_is_refused(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    a.send(tx, Q, b"m")
    a.commit(tx)
    for again in (a.commit, a.abort, a.commit):
        with pytest.raises(TransactionOver) as caught:
            again(tx)
        assert caught.value.hresult == 0xC00E0051
    world.run(60)
    assert world["B"].bodies(LOCAL) == [b"m"]


def test_case_018_multicast_is_never_transactional(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    with pytest.raises(TransactionUsage) as caught:
        a.send(tx, "MULTICAST=234.1.1.1:8001", b"m")
    assert caught.value.hresult == 0xC00E0050
    with pytest.raises(TransactionUsage) as caught:
        a.once("MULTICAST=234.1.1.1:8001", b"single")
    assert caught.value.hresult == 0xC00E0050
    a.commit(tx)
    world.run(10)
    assert world.link("A", "B").seen == []


def test_case_019_priority_of_transactional_messages_is_zero(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    for queue in (Q, LOCAL):
        a.send(tx, queue, b"high", priority=7)
        a.send(tx, queue, b"low", priority=0)
        a.send(tx, queue, b"high again", priority=7)
    a.commit(tx)
    world.run(1)
    for name in ("A", "B"):
        found = world[name].messages(LOCAL)
        assert [message.priority for message in found] == [0, 0, 0]
        taken = [world[name].receive(LOCAL).bodies()[0] for _ in range(3)]
        assert taken == [b"high", b"low", b"high again"]


def test_case_020_transactional_messages_are_recoverable(world: World) -> None:
    world.cut("A", "B")
    world["A"].once(Q, b"m", delivery=Delivery.EXPRESS)
    world["A"].crash()
    world["A"].start()
    world.mend("A", "B")
    world.run(30)
    world["B"].crash()
    world["B"].start()
    (message,) = world["B"].messages(LOCAL)
    assert message.delivery is Delivery.RECOVERABLE
    assert message.body == b"m"


def test_case_021_first_and_last_per_destination(worlds: Worlds) -> None:
    world = worlds("A", "B")
    world["B"].create("q1")
    world["B"].create("q2")
    a = world["A"]
    tx = a.begin()
    a.send(tx, r"DIRECT=OS:B\private$\q1", b"1", b"2")
    a.send(tx, r"DIRECT=OS:B\private$\q2", b"x")
    a.send(tx, r"DIRECT=OS:B\private$\q1", b"3")
    a.commit(tx)
    world.run(1)
    q1 = world["B"].messages(r"private$\q1")
    q2 = world["B"].messages(r"private$\q2")
    flags = [(m.first_in_transaction, m.last_in_transaction) for m in q1]
    assert flags == [(True, False), (False, False), (False, True)]
    assert [(m.first_in_transaction, m.last_in_transaction) for m in q2] == [(True, True)]
    assert len({m.transaction_id for m in [*q1, *q2]}) == 1
    a.once(r"DIRECT=OS:B\private$\q1", b"of another")
    world.run(1)
    *_, last = world["B"].messages(r"private$\q1")
    assert last.transaction_id != q2[0].transaction_id, "each transaction has its own"
    assert last.transaction_id[:16] == q2[0].transaction_id[:16] == a.identity.guid


def test_case_022_twenty_thousand_messages_in_one_transaction(world: World) -> None:
    bodies = [b"%05d" % n for n in range(20_000)]
    world["A"].once(Q, *bodies)
    world.run(60)
    found: list[bytes] = []
    while len(found) < 20_000:
        found += world["B"].receive(LOCAL, count=10_000).bodies()
    assert found == bodies
    assert world["B"].bodies(LOCAL) == []


@pytest.mark.parametrize("character", ["x", "\u0436", "\u6f22"])
def test_case_023_label_of_249_characters(world: World, character: str) -> None:
    world["A"].once(Q, b"m", label=character * 249)
    world.run(1)
    (message,) = world["B"].messages(LOCAL)
    assert message.label == character * 249
    with pytest.raises(LabelTooLong) as caught:
        world["A"].once(Q, b"m", label=character * 250)
    assert caught.value.hresult == 0xC00E005D
    world.run(1)
    assert len(world["B"].messages(LOCAL)) == 1


def test_case_024_too_large_message_leaves_the_transaction_usable(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    # Behind a message that is in it another lifetime is refused by itself.
    for sent, times in ((b"before", {"time_to_be_received": 5}), (b"after", {})):
        for name in (Q, LOCAL, f"{LOCAL_BY_NAME},{Q}"):
            with pytest.raises(BodyTooLarge) as caught:
                a.send(tx, name, bytes(0x400000), **times)
            assert caught.value.hresult == 0xC00E0027
        a.send(tx, Q, sent)
    a.commit(tx)
    assert a.bodies(LOCAL) == []
    world.run(60)
    found = world["B"].messages(LOCAL)
    assert found.bodies() == [b"before", b"after"], "the lifetimes are those of what is in it"
    flags = [(m.first_in_transaction, m.last_in_transaction) for m in found]
    assert flags == [(True, False), (False, True)]


@pytest.mark.unturned("second", reason="a list of names leaves less room")
def test_case_024_the_largest_packet_passes(world: World) -> None:
    a = world["A"]
    a.once(Q, b"")
    world.run(1)
    overhead = len(world["B"].receive(LOCAL).run.data)
    largest = bytes(0x400000 - overhead)
    a.once(Q, largest)
    world.run(1)
    assert world["B"].receive(LOCAL).bodies() == [largest]
    with pytest.raises(BodyTooLarge):
        a.once(Q, largest + b"1")


def test_case_025_correlation_identifier_of_19_bytes(world: World) -> None:
    for size in (19, 21, 1):
        with pytest.raises(IllegalPropertySize) as caught:
            world["A"].once(Q, b"m", correlation_id=b"x" * size)
        assert caught.value.hresult == 0xC00E003B
    world["A"].once(Q, b"m", correlation_id=b"x" * 20)
    world.run(1)
    (message,) = world["B"].messages(LOCAL)
    assert message.correlation_id == b"x" * 20


def test_refused_item_leaves_the_commit_undone(world: World) -> None:
    """All items of a commit or none: a refusal leaves the transaction open as it was (I2)."""
    a = world["A"]
    tx = a.begin()
    a.send(tx, Q, b"kept")
    bad = (item(Q, b"fine"), item(Q, b"m", label="x" * 250))
    with pytest.raises(LabelTooLong):
        a.ask(requests.Commit(tx, bad))
    world.run(5)
    assert world["B"].bodies(LOCAL) == []
    a.commit(tx)
    world.run(5)
    assert world["B"].bodies(LOCAL) == [b"kept"]
    assert Run.of([b"a"]).part(0, 1).data == b"a"
