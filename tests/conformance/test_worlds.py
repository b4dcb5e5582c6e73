"""The two kinds of world themselves: they do what the cases rely on."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from onceq.errors import InDoubt, ServiceNotAvailable, StorageFailure
from onceq.model.identity import Identity
from onceq.store.files import RealFiles
from onceq.store.log import LogStore
from onceq.testing import disk
from onceq.testing.links import Passing, faithful
from tests.conformance.world import AnswerLost, World, Worlds, fast

ROOT = Path(__file__).resolve().parents[2]
Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    world["B"].create("q")
    return world


def test_each_direction_and_kind_of_a_link_is_steered_alone(world: World) -> None:
    link, a, b = world.link("A", "B"), world["A"], world["B"]
    b.once(r"DIRECT=OS:A\private$\nowhere", b"the way back")
    lost: list[tuple[bytes, int]] = []

    def policy(p: Passing) -> list[tuple[int, Passing]]:
        if (p.sender, p.kind) == (b.identity.guid, 1):
            lost.append((p.sender, p.kind))
            return []
        return faithful(p)

    link.policy = policy
    a.once(Q, b"m")
    world.run(5)
    assert b.bodies(LOCAL) == [b"m"]
    assert a.look("outgoing-queue", Q).unacknowledged == 1
    assert lost == [(b.identity.guid, 1)]


def test_lost_session_acknowledgments_begin_the_session_anew(world: World) -> None:
    """Transactional messages do not rest on sessions: each arrives once all the same."""
    link, a, b = world.link("A", "B"), world["A"], world["B"]
    link.muted.add("A")
    for n in range(3):
        a.once(Q, b"%d" % n)
        world.run(400)
    assert link.connections > 1
    assert b.bodies(LOCAL) == [b"0", b"1", b"2"]
    assert a.look("outgoing-queue", Q).unacknowledged == 0


def test_a_run_is_the_same_each_time(worlds: Worlds) -> None:
    """However the machine shares out its time, also between several processes."""

    def story() -> list[tuple[int, int, int, int, int]]:
        world = worlds("A", "B", "C")
        seen: list[tuple[int, int, int, int, int]] = []
        draw = random.Random("one and the same")
        world["B"].create("q")
        for one, other in (("A", "B"), ("C", "B"), ("A", "C")):
            link = world.link(one, other)

            def policy(p: Passing) -> list[tuple[int, Passing]]:
                seen.append((world.now_us, p.sender[0], p.kind, p.number, p.previous))
                return [(draw.randrange(7000), p)] * draw.choice((0, 1, 1, 1, 2))

            link.policy = policy
        for n in range(10):
            world["A"].once(Q, b"a%d" % n)
            world["C"].once(Q, b"c%d" % n, b"d%d" % n)
            world.run(n / 7)
        world["B"].kill()
        world.run(3)
        world["B"].start()
        world.run(7200)
        assert len(world["B"].bodies(LOCAL)) == 30
        return seen

    assert story() == story()


def dies_in_the_middle(world: World, point: str) -> None:
    """Whatever it was doing, it starts again, and what it had said is true."""
    a, b = world["A"], world["B"]
    b.create("q")
    a.die_at(point)
    expected = []
    with pytest.raises(AnswerLost):
        for n in range(200):
            expected.append(b"%d" % n)
            a.once(Q, b"%d" % n)
            world.run(1)
            if a.dead:
                raise AnswerLost("it was answered before")
    assert a.dead
    a.start()
    a.once(Q, b"last")
    world.run(40)
    found = b.bodies(LOCAL)
    # What was answered is there; the last one, which was not, may be.
    assert found in ([*expected, b"last"], [*expected[:-1], b"last"])
    assert a.look("outgoing-queue", Q).unacknowledged == 0


@pytest.mark.parametrize("point", disk.STORE_POINTS)
def test_killed_around_the_store(worlds: Worlds, point: str) -> None:
    dies_in_the_middle(worlds("A", "B"), point)


@pytest.mark.parametrize("point", disk.CHECKPOINT_POINTS)
def test_killed_around_a_checkpoint(worlds: Worlds, point: str) -> None:
    dies_in_the_middle(worlds("A", "B", settings=fast(checkpoint_log_bytes=5000)), point)


@pytest.mark.processes("inside there are no connections to write to")
@pytest.mark.parametrize("point", disk.WIRE_POINTS)
def test_killed_around_what_is_said(worlds: Worlds, point: str) -> None:
    dies_in_the_middle(worlds("A", "B"), point)


def test_one_process_by_hand(tmp_path: Path) -> None:
    """``python -m proof.sim.process.process``, and the orders that it takes."""
    data, control_at = tmp_path / "a", str(tmp_path / "control")
    LogStore.create(
        str(data), RealFiles(), store_id=b"S" * 16, identity=Identity(b"A" * 16, "A", 1).pack()
    ).close()
    (data / "onceq.toml").write_text('listen = "127.0.0.1:0"\n')
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(60)
        control.bind(control_at)
        control.listen()
        command = [sys.executable, "-m", "proof.sim.process.process", "--data", str(data)]
        command += ["--control", control_at, "--wall-us", "1700000000000000"]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        ) as process:
            orders, _ = control.accept()
            with orders, orders.makefile("rw") as lines:
                orders.settimeout(60)

                def order(**what: int | str) -> None:
                    lines.write(json.dumps(what) + "\n")
                    lines.flush()

                assert json.loads(lines.readline())["pid"] == process.pid
                for n in (1, 2):
                    order(wall=1_700_000_000_000_000 + n, mono=1_000_000 + n, ask=n)
                    found = json.loads(lines.readline())
                    assert found["idle"] == n
                    assert found["wires"] == []
                    assert found["due"] is None or found["due"] > 1_000_000 + n
                order(die="before-append", count=1)
            # Whoever held its clock is gone, and so is it.
            assert process.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("asker", ["itself", "another application"])
def test_a_disk_that_fails_during_a_request_ends_the_manager(worlds: Worlds, asker: str) -> None:
    """Whoever asked hears that the answer is lost; what was answered before is there."""
    world = worlds("A", "B")
    a, b = world["A"], world["B"]
    b.create("q")
    a.once(Q, b"answered")
    application = a if asker == "itself" else a.stranger()
    a.fail_disk()
    with pytest.raises(ServiceNotAvailable):
        application.once(Q, b"not answered")
    assert a.dead
    a.start()
    a.once(Q, b"last")
    world.run(40)
    assert b.bodies(LOCAL) in (
        [b"answered", b"last"], [b"answered", b"not answered", b"last"]
    )  # fmt: skip
    assert a.look("outgoing-queue", Q).unacknowledged == 0


def test_a_disk_that_fails_while_nobody_asks_is_seen_by_whoever_waits(world: World) -> None:
    """A receive waits for what then arrives, and cannot be made durable."""
    a, b = world["A"], world["B"]
    waiting = b.stranger()
    tx = waiting.begin()
    a.once(Q, b"m")
    b.fail_disk()
    with pytest.raises(AnswerLost):
        waiting.receive(LOCAL, tx=tx, wait_s=60)
    assert b.dead
    b.start()
    world.run(60)
    assert b.bodies(LOCAL) == [b"m"]


@pytest.mark.client
def test_a_failing_disk_as_the_client_library_tells_it(worlds: Worlds) -> None:
    """A commit is in doubt; everything else was not answered, and may be asked again."""
    world = worlds("A", "B")
    a = world["A"]
    a.create("here")
    with a.client() as manager:
        a.fail_disk()
        with pytest.raises(InDoubt), manager.transaction() as tx:
            tx.send(r"private$\here", b"m")
        with pytest.raises(ServiceNotAvailable):
            manager.admin.status()
    a.see_its_end()
    assert a.exit_code == StorageFailure.exit_code
    assert "was told to fail" in a.said
