"""Conformance cases 121 to 123, 127 and 128: transactions of senders and readers."""

from __future__ import annotations

import pytest

from onceq.client.plans.unit_of_work import SenderTransaction
from onceq.errors import OnceqError, ReceiveTimeout
from onceq.packet.decode import glance
from onceq.testing.links import Passing
from tests.conformance.one_queue import (
    DEAD,
    HERE,
    POISON,
    REMOTE,
    RETRY,
    Q,
    a,
    in_queue,
    three,
    world,
)
from tests.conformance.policies import no_order_acks
from tests.conformance.reading import code_of, drive, move, set_queue, unit
from tests.conformance.world import Node, World

__all__ = ["a", "three", "world"]


def dead(a: Node) -> list[tuple[bytes, int]]:
    try:
        return [(m.body, m.message_class) for m in a.messages(DEAD)]
    except ReceiveTimeout:
        return []


def test_case_121_messages_can_be_read_as_they_arrive(world: World) -> None:
    a, b = world["A"], world["B"]
    b.create("q")
    waits = {1: 0, 2: 8_000_000, 3: 16_000_000}
    world.link("A", "B").policy = lambda p: [(waits[p.number] if p.transactional else 0, p)]
    tx = a.begin()
    for number in (1, 2, 3):
        a.send(tx, REMOTE, b"m%d" % number)
    a.commit(tx)
    marks = []
    for number in (1, 2, 3):
        world.run(4)
        (message,) = b.receive(Q)
        assert message.body == b"m%d" % number
        assert b.bodies(Q) == [], "what follows has not even come"
        marks.append((message.first_in_transaction, message.last_in_transaction))
        world.run(4)
    assert marks == [(True, False), (False, False), (False, True)], "complete by its marks (122)"
    world.run(60)
    assert b.bodies(Q) == []


def test_case_122_the_last_one_is_marked_and_only_it(world: World) -> None:
    a, b = world["A"], world["B"]
    b.create("q")
    tx = a.begin()
    for number in (1, 2, 3):
        a.send(tx, REMOTE, b"m%d" % number)
    a.commit(tx)
    world.run(30)
    marks = [(m.first_in_transaction, m.last_in_transaction) for m in b.messages(Q)]
    assert marks == [(True, False), (False, False), (False, True)]


def whole(b: Node, **options: object) -> SenderTransaction:
    """A whole transaction of a sender, received and committed at B."""
    work = unit(b)
    defaults: dict[str, object] = {"timeout": 600.0, "deadline": None, "incomplete": "wait"}
    try:
        found = drive(b, work.receive_transaction(Q, **{**defaults, **options}))  # type: ignore[arg-type]
    except OnceqError:
        b.abort(work.number)
        raise
    b.commit(work.number)
    assert isinstance(found, SenderTransaction)
    return found


def slowly(world: World, *lost: int) -> None:
    """A sends three messages in a transaction; packets with some numbers are lost once."""
    world["B"].create("q")
    missing = set(lost)

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        number = glance(p.packet).number if p.transactional else 0
        if number not in missing:
            return [(0, p)]
        missing.discard(number)
        return []

    world.link("A", "B").policy = policy
    tx = world["A"].begin()
    for number in (1, 2, 3):
        world["A"].send(tx, REMOTE, b"m%d" % number)
    world["A"].commit(tx)


def test_case_122_a_reader_can_wait_for_the_whole_transaction(world: World) -> None:
    slowly(world, 3)
    b = world["B"]
    world.run(10)
    assert b.bodies(Q) == [b"m1", b"m2"]
    assert code_of(whole, b, timeout=0.0) == 0xC00E001B
    assert b.bodies(Q) == [b"m1", b"m2"], "nothing of it was taken"
    found = whole(b)
    assert (found.bodies(), found.complete) == ([b"m1", b"m2", b"m3"], True)
    assert (found.source, b.bodies(Q)) == (world["A"].identity.guid, [])


def test_case_122_an_incomplete_one_does_not_hold_up_others(world: World) -> None:
    slowly(world, 3)
    b = world["B"]
    world.run(10)
    b.once(HERE, b"of B")
    assert whole(b).bodies() == [b"of B"]
    given = whole(b, deadline=5.0, incomplete="give")
    assert (given.bodies(), given.complete) == ([b"m1", b"m2"], False)


def test_case_122_incomplete_ones_become_dead_letters(world: World) -> None:
    slowly(world, 3)
    b = world["B"]
    world.run(10)
    b.once(HERE, b"of B")
    assert whole(b, deadline=5.0, incomplete="dead-letter").bodies() == [b"of B"]
    work = unit(b)
    plan = work.receive_transaction(Q, timeout=0.0, deadline=5.0, incomplete="dead-letter")
    assert code_of(drive, b, plan) == 0xC00E001B
    b.commit(work.number)
    assert [(m.body, m.message_class) for m in b.messages(DEAD)] == [
        (b"m1", 0xC004), (b"m2", 0xC004)
    ]  # fmt: skip


def test_case_123_poison_is_moved_aside_and_the_others_keep_their_order(three: Node) -> None:
    for _ in range(3):
        tx = three.begin()
        (poison,) = three.receive(Q, tx=tx)
        three.abort(tx)
    tx = three.begin()
    move(three, Q, poison.lookup_id, POISON, tx=tx)
    three.commit(tx)
    tx = three.begin()
    assert three.receive(Q, tx=tx).bodies() == [b"m2"], "the next one can be read at once"
    three.abort(tx)
    three.crash()
    three.start()
    assert in_queue(three) == [b"m2", b"m3"]
    assert in_queue(three, POISON) == [b"m1"]


def fail(qm: Node, count: int = 1) -> list[bytes]:
    """One attempt that comes to nothing."""
    tx = qm.begin()
    bodies = qm.receive(Q, tx=tx, count=count).bodies()
    qm.abort(tx)
    return bodies


def test_case_123_by_a_policy_of_the_queue(world: World, three: Node) -> None:
    set_queue(three, Q, poison_attempts=2, poison_retry_after=60, poison_then="move:poison")
    assert fail(three) == fail(three) == [b"m1"]
    assert (in_queue(three), in_queue(three, RETRY)) == ([b"m2", b"m3"], [b"m1"])
    world.run(30)
    assert in_queue(three, RETRY) == [b"m1"]
    world.run(31)
    assert (in_queue(three), in_queue(three, RETRY)) == ([b"m2", b"m3", b"m1"], [])
    three.receive(Q, count=2)
    assert fail(three) == fail(three) == [b"m1"]
    assert (in_queue(three), in_queue(three, POISON)) == ([], [b"m1"])


def test_case_123_a_policy_survives_and_counts_a_crash(world: World, three: Node) -> None:
    set_queue(three, Q, poison_attempts=2, poison_retry_after=60)
    fail(three)
    tx = three.begin()
    three.receive(Q, tx=tx)
    three.kill()
    three.start()
    assert in_queue(three, RETRY) == [b"m1"]
    three.kill()
    three.start()
    world.run(61)
    assert in_queue(three) == [b"m2", b"m3", b"m1"]


def test_case_123_the_others_of_a_batch_do_not_go_down_with_it(three: Node) -> None:
    set_queue(three, Q, poison_attempts=3)
    assert fail(three, 10) == [b"m1", b"m2", b"m3"]
    assert fail(three, 10) == [b"m1"]
    assert fail(three, 10) == [b"m1"]
    tx = three.begin()
    assert three.receive(Q, tx=tx, count=10).bodies() == [b"m2"]
    three.commit(tx)
    assert (in_queue(three), in_queue(three, POISON)) == ([b"m3"], [b"m1"])


@pytest.mark.parametrize("then", ["dead-letter", "reject"])
def test_case_123_into_the_dead_letters(three: Node, then: str) -> None:
    set_queue(three, Q, poison_attempts=1, poison_then=then)
    assert fail(three) == [b"m1"]
    assert in_queue(three) == [b"m2", b"m3"]
    assert dead(three) == ([(b"m1", 0xC004)] if then == "dead-letter" else [])


@pytest.mark.parametrize("retry_after", [0, 60])
def test_case_123_what_is_set_aside_for_people_stays(
    world: World, a: Node, retry_after: int
) -> None:
    """Finding K10: its time is over, in ``;poison`` or while it waits in ``;retry``."""
    set_queue(a, Q, poison_attempts=1, poison_retry_after=retry_after, poison_then="move:poison")
    a.once(HERE, b"m1", time_to_be_received=30)
    assert fail(a) == [b"m1"]
    world.run(29)
    assert in_queue(a, RETRY if retry_after else POISON) == [b"m1"]
    a.kill()
    a.start()
    world.run(100)
    assert (in_queue(a), in_queue(a, RETRY), in_queue(a, POISON)) == ([], [], [b"m1"])
    assert dead(a) == []
    a.crash()
    a.start()
    (lookup,) = a.messages(POISON).lookup_ids
    move(a, POISON, lookup, Q)
    world.run(10)
    assert a.receive(Q).bodies() == [b"m1"], "people decide what becomes of it"


@pytest.mark.parametrize("then", ["dead-letter", "reject"])
def test_case_123_the_time_of_one_that_waits_for_its_next_attempt(
    world: World, a: Node, then: str
) -> None:
    set_queue(a, Q, poison_attempts=1, poison_retry_after=60, poison_then=then)
    a.once(HERE, b"m1", time_to_be_received=30)
    assert fail(a) == [b"m1"]
    world.run(31)
    assert (in_queue(a), in_queue(a, RETRY)) == ([], [])
    assert dead(a) == ([(b"m1", 0xC004)] if then == "dead-letter" else [])


def test_case_123_without_a_policy_it_stays_where_it_is(three: Node) -> None:
    for _ in range(10):
        assert fail(three) == [b"m1"]
    assert three.messages(Q)[0].abort_count == 10


def test_case_123_when_the_policy_is_switched_off_what_waits_comes_back(three: Node) -> None:
    set_queue(three, Q, poison_attempts=1, poison_retry_after=3600)
    fail(three)
    set_queue(three, Q, poison_attempts=0)
    assert (in_queue(three), in_queue(three, RETRY)) == ([b"m2", b"m3", b"m1"], [])


@pytest.mark.parametrize("restart", [False, True])
def test_case_127_accepted_is_more_than_still_there(world: World, restart: bool) -> None:
    """The stream goes on, because nothing was acknowledged yet; also behind a restart."""
    a, b = world["A"], world["B"]
    b.create("q")
    link = world.link("A", "B")
    link.policy = no_order_acks
    a.once(REMOTE, b"n0", b"n1")
    assert b.receive(Q, wait_s=60).bodies() == [b"n0"]
    assert b.receive(Q, wait_s=60).bodies() == [b"n1"]
    if restart:
        b.crash()
        b.start()
        world.run(10)
    link.seen.clear()
    a.once(REMOTE, b"n2")
    assert b.receive(Q, wait_s=60).bodies() == [b"n2"]
    last = link.data()[-1]
    assert (last.number, last.previous) == (3, 2), "it names one that is not there any more"
    assert in_queue(b) == []


@pytest.mark.parametrize("elsewhere", [False, True], ids=["one application", "two"])
def test_case_128_two_transactions_see_nothing_of_each_other(world: World, elsewhere: bool) -> None:
    a, b = world["A"], world["B"]
    b.create("q")
    a.once(HERE, b"m1", b"m2")
    second = a.stranger() if elsewhere else a
    one, other = a.begin(), second.begin()
    got_one = a.receive(Q, tx=one).bodies()
    a.send(one, REMOTE, b"from one " + got_one[0])
    a.send(one, HERE, b"of one")
    got_other = second.receive(Q, tx=other).bodies()
    second.send(other, REMOTE, b"from other " + got_other[0])
    second.send(other, HERE, b"of other")
    assert (got_one, got_other) == ([b"m1"], [b"m2"])
    for who, tx in ((a, one), (second, other)):
        with pytest.raises(ReceiveTimeout):
            who.receive(Q, tx=tx)
    world.run(5)
    assert b.bodies(Q) == in_queue(a) == []
    second.commit(other)
    a.commit(one)
    world.run(60)
    assert b.bodies(Q) == [b"from other m2", b"from one m1"]
    assert in_queue(a) == [b"of other", b"of one"]
