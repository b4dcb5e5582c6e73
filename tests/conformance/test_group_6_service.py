"""Case 114: a read-response service does all or nothing, wherever it or its manager is killed."""

from __future__ import annotations

import contextlib

import pytest

from onceq.errors import ReceiveTimeout
from onceq.testing import disk
from tests.conformance.one_queue import HERE, Q, in_queue
from tests.conformance.world import AnswerLost, Node, World, Worlds


@pytest.fixture
def world(worlds: Worlds) -> World:
    made = worlds("A", "B")
    made["A"].create("q")
    return made


def serve_one(a: Node) -> bool:
    """One turn of a read-response service (RCV-22); False: there is nothing to give."""
    tx = a.begin()
    (request,) = a.receive(REQUESTS, tx=tx)
    try:
        (message,) = a.receive(Q, tx=tx)
    except ReceiveTimeout:
        a.abort(tx)
        return False
    a.send(tx, request.response_queue, message.body, correlation_id=request.id.pack())
    a.commit(tx)
    return True


REQUESTS, REPLIES = r"private$\requests", r"private$\replies"


def prepare_service(world: World) -> Node:
    a = world["A"]
    a.create("requests")
    world["B"].create("replies")
    reply_to = r"DIRECT=OS:B\private$\replies"
    world["B"].once(r"DIRECT=OS:A\private$\requests", b"next, please", response_queue=reply_to)
    world.run(10)
    return a


def test_case_114_a_request_is_not_used_up_for_nothing(world: World) -> None:
    a = prepare_service(world)
    assert not serve_one(a)
    assert a.bodies(REQUESTS) == [b"next, please"]
    a.once(HERE, b"input")
    assert serve_one(a)
    world.run(10)
    (reply,) = world["B"].messages(REPLIES)
    assert reply.body == b"input"
    assert (a.bodies(REQUESTS), in_queue(a)) == ([], [])


@pytest.mark.parametrize(
    ("point", "count"),
    # Three records: two for what it takes, one for its commit; and the sync of that. Then one that
    # says that the reply has left.
    [(p, n) for p in (disk.BEFORE_APPEND, disk.AFTER_APPEND) for n in (1, 2, 3, 4)]
    + [(p, n) for p in (disk.BEFORE_SYNC, disk.AFTER_SYNC) for n in (1, 2)],
)
def test_case_114_killed_at_any_point_all_or_nothing(world: World, point: str, count: int) -> None:
    a = prepare_service(world)
    a.once(HERE, b"input")
    a.die_at(point, count)
    all_or_nothing(world)


@pytest.mark.processes("answers and packets are bytes on a connection there")
@pytest.mark.parametrize("point", disk.WIRE_POINTS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_case_114_killed_at_any_answer_and_packet(world: World, point: str, count: int) -> None:
    a = prepare_service(world)
    a.once(HERE, b"input")
    a.die_at(point, count)
    all_or_nothing(world)


def all_or_nothing(world: World) -> None:
    """A turn of the service at A, which dies in it; if that was told to be committed, it is all."""
    a, committed = world["A"], False
    with contextlib.suppress(AnswerLost):
        committed = serve_one(a)
    died = False
    for _ in range(2):
        if a.dead:
            died = True
            a.start()
        world.run(60)
    assert died, "the point was not reached"
    effects = (a.bodies(REQUESTS), in_queue(a), world["B"].bodies(REPLIES))
    everything: tuple[list[bytes], ...] = ([], [], [b"input"])
    nothing: tuple[list[bytes], ...] = ([b"next, please"], [b"input"], [])
    assert effects == everything or (effects == nothing and not committed)


@pytest.mark.parametrize("steps", range(1, 5))
def test_case_114_the_service_is_killed(world: World, steps: int) -> None:
    """After its begin, its first receive, its second one, its send: nothing has happened."""
    a = prepare_service(world)
    a.once(HERE, b"input")
    service = a.stranger()
    tx = service.begin()
    if steps > 1:
        (request,) = service.receive(REQUESTS, tx=tx)
    if steps > 2:
        (message,) = service.receive(Q, tx=tx)
    if steps > 3:
        service.send(tx, request.response_queue, message.body)
    service.leave()
    world.run(60)
    assert (a.bodies(REQUESTS), in_queue(a)) == ([b"next, please"], [b"input"])
    assert world["B"].bodies(REPLIES) == []
    # The next one does it all.
    assert serve_one(a)
    world.run(10)
    assert world["B"].bodies(REPLIES) == [b"input"]
    assert (a.bodies(REQUESTS), in_queue(a)) == ([], [])
