"""What goes to several destinations is written once, and reads as if it had been written for
each (FN-14, S0)."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.inputs import Relocate
from onceq.model.branches import Xid
from onceq.model.limits import REST_BYTES_MIN
from onceq.model.message import Journal
from onceq.model.run import Run
from tests.conformance.world import Node, World, Worlds, fast, item

HERE = ("one", "two", "three")
FAR = r"DIRECT=OS:B\private$\far"
NEAR = ",".join(rf"DIRECT=OS:.\private$\{name}" for name in HERE)
ALL = f"{NEAR},{FAR}"
BODIES = (b"first " * 200, b"the second " * 300, b"x" * 3_000)
INSIDE = pytest.mark.inside("looks at the log, or asks for a checkpoint")
pytestmark = INSIDE


@pytest.fixture
def world(worlds: Worlds) -> World:
    return made(worlds("A", "B", settings=fast()))


def made(world: World) -> World:
    for name in HERE:
        world["A"].create(name)
    world["A"].create("loose", transactional=False)
    world["B"].create("far")
    return world


def local(name: str) -> str:
    return rf"private$\{name}"


def packets(node: Node) -> dict[int, list[bytes]]:
    """Of every queue the bytes of its packets."""
    found: dict[int, list[bytes]] = {}
    engine = node.running
    for queue, _, lane in engine.manager.state.all_lanes():
        for first, count in lane.ranges(0, lane.head):
            for counter in range(first, first + count):
                pieces = lane.extents(counter, 1)
                found.setdefault(queue.number, []).append(bytes(engine.fetch(pieces)))
    return found


def again(node: Node, how: str) -> None:
    if how == "checkpoint":
        node.running.checkpoint()
    if how != "nothing":
        node.crash()
        node.start()


def written(node: Any, body: bytes) -> int:
    store = node.running.store
    return sum(bytes(raw).count(body) for _, raw, _ in store.replay(0, store.synced))


@pytest.mark.parametrize("how", ["nothing", "restart", "checkpoint"])
def test_a_body_is_written_once(world: World, how: str) -> None:
    a = world["A"]
    world.cut("A", "B")
    a.once(ALL, *BODIES, label="to all")
    assert [written(a, body) for body in BODIES] == [1, 1, 1]
    again(a, how)
    for name in HERE:
        batch = a.messages(local(name))
        assert batch.bodies() == list(BODIES)
        assert {message.label for message in batch} == {"to all"}
    world.mend("A", "B")
    world.run(20)
    assert world["B"].bodies(local("far")) == list(BODIES)


@pytest.mark.unturned("second", reason="it counts what is written")
@pytest.mark.parametrize("properties", [{}, {"journal": Journal.DEADLETTER}], ids=["plain", "kept"])
def test_packets_are_those_that_would_be_written_for_each(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, properties: dict[str, Any]
) -> None:
    found = []
    for least in (REST_BYTES_MIN, 1 << 30):
        monkeypatch.setattr("onceq.model.limits.REST_BYTES_MIN", least)
        world = made(worlds("A", "B", settings=fast()))
        world.cut("A", "B")
        a = world["A"]
        tx = a.begin()
        a.send(tx, local("two"), b"before")
        a.send(tx, ALL, *BODIES, **properties)
        a.send(tx, local("one"), b"behind")
        a.commit(tx)
        a.once(ALL, b"alone" * 300, **properties)
        found.append((packets(a), written(a, BODIES[1])))
    (shared, once), (whole, often) = found
    assert shared == whole
    assert (once, often) == (1, 4)


@pytest.mark.parametrize("to", [ALL, NEAR], ids=["elsewhere too", "here"])
@pytest.mark.parametrize("how", ["nothing", "restart", "checkpoint"])
def test_a_branch_writes_it_once_with_its_promise_and_once_with_its_commit(
    world: World, how: str, to: str
) -> None:
    a = world["A"]
    world.cut("A", "B")
    branch = Xid(7, b"global", b"branch")
    a.promise(branch, item(to, *BODIES, label="to all"), item(local("one"), b"behind"))
    a.running.store.sync()
    assert [written(a, body) for body in BODIES] == [1, 1, 1], "with the promise"
    again(a, how)
    before = [written(a, body) for body in BODIES]
    a.commit_branch(branch)
    a.running.store.sync()
    assert [written(a, body) for body in BODIES] == [count + 1 for count in before]
    a.running.checkpoint()
    a.crash()
    a.start()
    assert a.bodies(local("one")) == [*BODIES, b"behind"]
    for name in HERE[1:]:
        assert a.bodies(local(name)) == list(BODIES)


@pytest.mark.unturned("second", reason="it counts what is written")
def test_small_ones_are_written_for_each(world: World) -> None:
    a = world["A"]
    a.once(ALL, b"a small one")
    assert written(a, b"a small one") == 4


def test_messages_outside_a_transaction_too(world: World) -> None:
    a = world["A"]
    a.create("loose2", transactional=False)
    both = r"DIRECT=OS:.\private$\loose,DIRECT=OS:.\private$\loose2"
    a.send(0, both, *BODIES)
    a.running.store.sync()
    assert written(a, BODIES[2]) == 1
    assert a.receive(local("loose")).bodies() == [BODIES[0]]
    assert a.receive(local("loose2"), count=9).bodies() == list(BODIES)
    assert a.bodies(local("loose")) == list(BODIES[1:])


@pytest.mark.parametrize("how", ["nothing", "restart", "checkpoint"])
def test_each_destination_has_its_own_end(world: World, how: str) -> None:
    """Received here, given back there, moved and dead elsewhere."""
    a = world["A"]
    world.cut("A", "B")
    a.once(ALL, *BODIES, journal=Journal.DEADLETTER, time_to_reach_queue=5)
    assert a.receive(local("one"), count=9).bodies() == list(BODIES)
    tx = a.begin()
    assert a.receive(local("two"), tx=tx, count=2).bodies() == list(BODIES[:2])
    a.abort(tx)
    world.run(30)
    again(a, how)
    assert a.bodies(local("one")) == []
    assert a.bodies(local("two")) == list(BODIES)
    dead = a.messages("system$;deadxact")
    assert sorted(dead.bodies()) == sorted(BODIES), "those that did not reach B"
    assert {message.destination for message in dead} == {FAR}
    assert a.receive(local("three"), count=9).bodies() == list(BODIES)
    assert a.receive(local("two"), count=9).bodies() == list(BODIES)


@pytest.mark.parametrize("how", ["nothing", "restart", "checkpoint"])
def test_what_is_written_anew_lies_in_one_part(world: World, how: str) -> None:
    a = world["A"]
    world.cut("A", "B")
    a.once(ALL, *BODIES)
    before = packets(a)
    engine = a.running
    queue = next(q for q in engine.manager.state.queues.values() if q.title == "two")
    lane = queue.lanes[0]
    lengths = lane.lengths(1, 2)
    run = Run(engine.fetch(lane.extents(1, 2)), lengths)
    assert len(lane.extents(1, 2)) == 4
    engine.settle([engine.manager.step(a.clock.read(), Relocate(queue.number, 0, (1, 2), run))])
    assert len(lane.extents(1, 2)) == 1
    assert len(lane.extents(3, 1)) == 2
    again(a, how)
    assert packets(a) == before


def flip(node: Node, body: bytes) -> None:
    for name in node.files.names("/store"):
        place = node.files.contents(f"/store/{name}").find(body)
        if name.startswith("log-") and place >= 0:
            node.files.flip(f"/store/{name}", place + 100)
            return
    pytest.fail("no such body is stored")


@pytest.mark.unturned("second", reason="it alters a byte of one copy")
@pytest.mark.unturned("public", reason="its views have paths")
def test_a_damaged_rest_costs_its_message_everywhere_and_no_other(world: World) -> None:
    a = world["A"]
    world.cut("A", "B")
    bodies = [b"%05d" % n * 4_000 for n in range(8)]
    a.once(ALL, *bodies)
    a.running.checkpoint()
    a.kill()
    a.start()
    flip(a, bodies[3])
    left = a.receive(local("one"), count=20).bodies()
    assert bodies[3] not in left
    assert left == [body for body in bodies if body in left], "in order"
    assert len(left) >= 5, "more than the block"
    assert a.receive(local("two"), count=20).bodies() == left
    damages = {view.queue: view.count for view in a.look("damages")}
    assert damages == dict.fromkeys(
        [local("one"), local("two"), local("three"), FAR], len(bodies) - len(left)
    )
    world.mend("A", "B")
    world.run(60)
    assert world["B"].bodies(local("far")) == left
