"""Whole transactions of senders, wherever their messages stand (SND-10, SND-17): members that are
delayed, tried again, moved, expired or refused; of this computer, of another one, over HTTP."""

from __future__ import annotations

import itertools

import pytest

from onceq.client.plans.unit_of_work import SenderTransaction
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.requests import Seek
from tests.conformance.one_queue import HERE, POISON, REMOTE, RETRY, Q, a, three, world
from tests.conformance.over_http import Q as OVER_HTTP
from tests.conformance.over_http import pair
from tests.conformance.reading import code_of, drive, move, seek, set_queue, unit
from tests.conformance.world import Node, World, Worlds, item

__all__ = ["a", "three", "world"]

NONE_YET = 0xC00E001B
SIDE = Q + ";side"
XID = Xid(1, b"whole", b"b")
OTHER = r"private$\other"


def whole(qm: Node, queue: str = Q, **options: object) -> SenderTransaction:
    """A whole transaction, received and committed."""
    work = unit(qm)
    defaults: dict[str, object] = {"timeout": 0.0, "deadline": None, "incomplete": "wait"}
    try:
        found = drive(qm, work.receive_transaction(queue, **{**defaults, **options}))  # type: ignore[arg-type]
    except OnceqError:
        qm.abort(work.number)
        raise
    qm.commit(work.number)
    assert isinstance(found, SenderTransaction)
    return found


def send(qm: Node, to: str, bodies: list[bytes], delays: dict[int, int] | None = None) -> None:
    """All of them in one transaction, those at some indexes with delays."""
    tx = qm.begin()
    for index, body in enumerate(bodies):
        qm.send(tx, to, body, delay=(delays or {}).get(index, 0))
    qm.commit(tx)


def all_of(qm: Node, bodies: list[bytes], queue: str = Q) -> None:
    """The next whole transaction is that one, in its order."""
    found = whole(qm, queue)
    assert (found.bodies(), found.complete) == (bodies, True)


THREE = [b"m0", b"m1", b"m2"]


@pytest.mark.parametrize("late", [(0,), (1,), (2,), (0, 1), (2, 0)], ids=str)
@pytest.mark.parametrize("host", ["A", "B"])
def test_a_transaction_with_a_delayed_member_is_whole_when_that_has_come(
    world: World, host: str, late: tuple[int, ...]
) -> None:
    """Finding D6."""
    host_of, to = world[host], HERE if host == "A" else REMOTE
    if host == "B":
        world["B"].create("q")
    send(world["A"], to, THREE, {index: 20 + 5 * at for at, index in enumerate(late)})
    send(world["A"], to, [b"behind"])
    world.run(10)
    assert code_of(whole, host_of) == 0, "what came behind it is not kept waiting"
    assert code_of(whole, host_of) == NONE_YET, "it is there in part"
    world.run(11)
    if len(late) > 1:
        assert code_of(whole, host_of) == NONE_YET
        world.run(5)
    all_of(host_of, THREE)
    assert host_of.bodies(Q) == []


def test_a_transaction_of_which_a_member_is_tried_again_is_whole(world: World, a: Node) -> None:
    """Finding J6: it comes back behind the others."""
    set_queue(a, Q, poison_attempts=1, poison_retry_after=30, poison_retries=5)
    send(a, HERE, THREE)
    send(a, HERE, [b"n0", b"n1"])
    tx = a.begin()
    assert a.receive(Q, tx=tx, count=2).bodies() == [b"m0", b"m1"]
    a.abort(tx)
    assert (a.bodies(RETRY), a.bodies(Q)) == ([b"m0", b"m1"], [b"m2", b"n0", b"n1"])
    all_of(a, [b"n0", b"n1"])
    assert code_of(whole, a) == NONE_YET
    world.run(31)
    assert a.bodies(Q) == [b"m2", b"m0", b"m1"]
    all_of(a, THREE)


def test_a_poisoned_member_makes_its_transaction_incomplete(a: Node) -> None:
    set_queue(a, Q, poison_attempts=1, poison_then="move:poison")
    send(a, HERE, THREE)
    tx = a.begin()
    a.receive(Q, tx=tx)
    a.abort(tx)
    assert a.bodies(POISON) == [b"m0"]
    assert code_of(whole, a) == NONE_YET
    (lookup,) = a.messages(POISON).lookup_ids
    move(a, POISON, lookup, Q)
    all_of(a, THREE)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("host", ["A", "B"])
def test_moves_between_subqueues_do_not_tear_a_transaction(
    world: World, host: str, order: tuple[int, ...]
) -> None:
    there, to = world[host], HERE if host == "A" else REMOTE
    if host == "B":
        there.create("q")
    send(world["A"], to, THREE)
    world.run(10)
    lookups = list(there.messages(Q).lookup_ids)
    for index in order:
        move(there, Q, lookups[index], SIDE)
    all_of(there, THREE, SIDE)


def test_a_member_that_somebody_has_taken_is_missed(world: World, a: Node) -> None:
    send(a, HERE, THREE)
    seek(a, Q, Seek.CURRENT, a.messages(Q).lookup_ids[1], peek=False)
    assert code_of(whole, a) == NONE_YET
    world.run(10)
    given = whole(a, deadline=5.0, incomplete="give")
    assert (given.bodies(), given.complete) == ([b"m0", b"m2"], False)


def test_a_member_that_its_queue_refuses_is_missed(world: World) -> None:
    a, b = world["A"], world["B"]
    b.create("q", quota_kb=1)
    send(a, REMOTE, [b"m0", b"x" * 2_000, b"m2"])
    world.run(30)
    assert b.bodies(Q) == [b"m0", b"m2"]
    assert code_of(whole, b) == NONE_YET


@pytest.mark.unturned("public", reason="an HTTP address names no public queue as these do")
@pytest.mark.inside("daemons speak HTTP in tests/daemon/test_http.py")
def test_what_came_over_http_is_known_by_its_numbers(worlds: Worlds) -> None:
    """It has no transaction number (SRMP has no place for one), and needs none."""
    world = pair(worlds)
    a, b = world["A"], world["B"]
    send(a, OVER_HTTP, THREE)
    send(a, OVER_HTTP, [b"n0", b"n1"])
    world.run(60)
    lookups = list(b.messages(Q).lookup_ids)
    for index in (1, 3, 0, 4, 2):
        move(b, Q, lookups[index], SIDE)
    assert b.bodies(SIDE) == [b"m1", b"n0", b"m0", b"n1", b"m2"]
    all_of(b, [b"n0", b"n1"], SIDE)
    all_of(b, THREE, SIDE)


@pytest.mark.parametrize("how", ["kill", "crash"])
@pytest.mark.parametrize("branch", [False, True])
def test_a_restart_forgets_nothing_of_it(world: World, a: Node, how: str, branch: bool) -> None:
    a.create("other")
    items = [
        item(to, body, delay=20 if body == b"m1" and to == HERE else 0)
        for body in THREE
        for to in (HERE, rf"DIRECT=OS:.\{OTHER}")
    ]
    if branch:
        a.promise(XID, *items)
        getattr(a, how)()
        a.start()
        a.commit_branch(XID)
    else:
        a.ask(requests.Commit(0, items))
    getattr(a, how)()
    a.start()
    assert code_of(whole, a) == NONE_YET
    world.run(21)
    getattr(a, how)()
    a.start()
    all_of(a, THREE)
    all_of(a, THREE, OTHER)


def test_messages_to_other_queues_between_them_do_not_count(world: World, a: Node) -> None:
    """Each queue has a transaction of its own, however their messages are mixed."""
    a.create("other")
    world["B"].create("q")
    tx = a.begin()
    for body in THREE:
        for to in (HERE, rf"DIRECT=OS:.\{OTHER}", REMOTE):
            a.send(tx, to, body, delay=20 if body == b"m1" and to != REMOTE else 0)
    a.commit(tx)
    world.run(10)
    all_of(world["B"], THREE)
    assert (code_of(whole, a), code_of(whole, a, OTHER)) == (NONE_YET, NONE_YET)
    world.run(11)
    all_of(a, THREE)
    all_of(a, THREE, OTHER)


def test_a_name_of_several_queues_gives_each_of_them_all(a: Node) -> None:
    a.create("other")
    tx = a.begin()
    for index, body in enumerate(THREE):
        a.send(tx, rf"{HERE},DIRECT=OS:.\{OTHER}" if index != 1 else HERE, body)
    a.commit(tx)
    all_of(a, THREE)
    all_of(a, [b"m0", b"m2"], OTHER)


def test_two_mixed_transactions_are_kept_apart(world: World, a: Node) -> None:
    send(a, HERE, THREE, {0: 20, 2: 25})
    send(a, HERE, [b"n0", b"n1"], {0: 25})
    world.run(26)
    assert a.bodies(Q) == [b"m1", b"n1", b"m0", b"m2", b"n0"]
    all_of(a, THREE)
    all_of(a, [b"n0", b"n1"])
