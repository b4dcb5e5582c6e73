"""The starts of a manager in its history: each once, in order, whatever kills it where and when."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from itertools import pairwise

import pytest

from onceq.core.state.setups import LifeBegun
from onceq.errors import QueueExists
from onceq.model.marks import SECOND_US
from onceq.model.settings import Settings
from onceq.store.log import LogStore
from onceq.testing.disk import PowerCut
from tests.conformance.clocks import START_S
from tests.conformance.world import SEGMENT_BYTES, Node
from tests.history.projections import SETTINGS, whole
from tests.history.worlds import HISTORY, History, Kept

Q = r"private$\q"
LATE = replace(HISTORY, history_roll_s=86_400)
"""What happens in a life is told by the next one, if at all."""


def stop(node: Node) -> None:
    """An end in order."""
    node.running.stop()
    node._die()


def now_us(world: Kept) -> int:
    return START_S * SECOND_US + world.now_us


def test_each_start_is_told_with_its_time_and_how_the_life_before_ended() -> None:
    world = Kept("A")
    node = world["A"]
    times = [now_us(world)]
    ends: list[bool | None] = [None]
    node.create("q")
    for end in (stop, Node.kill, Node.power_cut, stop):
        world.run(7)
        end(node)
        world.run(100)
        times.append(now_us(world))
        ends.append(end is stop)
        node.start()
        node.once(Q, b"1")
    told = world.told("A").starts()
    assert [one.at_us for one in told] == times
    assert [one.orderly for one in told] == ends
    assert [one.position for one in told] == sorted({one.position for one in told})
    assert [one.position == 0 for one in told] == [True, False, False, False, False]


@pytest.mark.parametrize("settings", [HISTORY, LATE], ids=["rolled", "late"])
def test_lives_that_end_at_once_are_told_as_well(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them lives to write a file of its own."""
    world = Kept("A", settings=settings)
    node = world["A"]
    node.create("q")
    times = [now_us(world)]
    node.kill()
    with monkeypatch.context() as patch:
        patch.setattr("onceq.history.keeper.Keeper.project", lambda *_: None)
        for _ in range(5):
            world.run(1)
            times.append(now_us(world))
            node.start()
            node.kill()
    world.run(1)
    times.append(now_us(world))
    node.start()
    told = world.told("A")
    assert [one.at_us for one in told.starts()] == times
    assert [one.orderly for one in told.starts()] == [None, *[False] * 6]
    whole(told, node)


def test_a_process_that_could_not_start_hides_no_kill() -> None:
    """It opens the store and closes it, and has written nothing: the end before is still that."""
    world = Kept("A")
    node = world["A"]
    node.create("q")
    node.kill()
    LogStore.open("/store", node.files, segment_bytes=SEGMENT_BYTES).close()
    node.start()
    assert [one.orderly for one in world.told("A").starts()] == [None, False]
    stop(node)
    LogStore.open("/store", node.files, segment_bytes=SEGMENT_BYTES).close()
    node.start()
    assert [one.orderly for one in world.told("A").starts()] == [None, False, True]


def test_starts_go_with_the_files_that_tell_them() -> None:
    world = Kept("A", settings=replace(HISTORY, history_bytes_max=90_000))
    node = world["A"]
    node.create("q")
    times = {now_us(world)}
    for _ in range(12):
        node.once(Q, *[b"x"] * 40)
        world.run(6)
        node.kill()
        world.run(1)
        times.add(now_us(world))
        node.start()
    history = world.told("A")
    begin, told = history.spans[0].start, history.starts()
    assert begin > 0
    assert 0 < len(told) < len(times)
    assert [one.at_us for one in told] == sorted(times)[-len(told) :]
    assert all(one.position >= begin for one in told)


def test_starts_of_a_version_that_did_not_say_when_are_not_guessed() -> None:
    world = Kept("A")
    node = world["A"]
    node.create("q")
    values = LifeBegun.values
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LifeBegun, "values", lambda life: {
            name: value for name, value in values(life).items()
            if name not in ("at_us", "orderly")
        })  # fmt: skip
        node.kill()
        node.start()
    node.kill()
    node.start()
    told = world.told("A").starts()
    assert [one.orderly for one in told] == [None, False]


WAYS = {
    "kill": lambda files: files.kill(),
    "power": lambda files: next(iter(files.images())),
    "torn": lambda files: files.crash(random.Random(5)),
}


def lived(way: str, seed: int, deaths: int) -> tuple[Node, list[int], list[int]]:
    """Dies before operations of the disk at random, also while it starts.

    Returns:
        Times of the starts that were tried, and of those that came to their end.
    """
    rng = random.Random(seed)
    world = Kept("A", settings=SETTINGS)
    node = world["A"]
    tried, done, left = [now_us(world)], [now_us(world)], deaths
    while True:
        try:
            if node.engine is None:
                world.run(rng.randrange(1, 4))
                tried.append(now_us(world))
                node.start()
                done.append(tried[-1])
            work(node, rng)
            if not left:
                return node, tried, done
            if rng.random() < 0.2:
                stop(node)
        except PowerCut:
            node._die()
            world.events.clear()
            node.files = WAYS[way](node.files)
            left = max(left - 1, 0)
        node.files.stop_at = node.files.operations + rng.randrange(1, 60) if left else 0


def work(node: Node, rng: random.Random) -> None:
    """What an application does for a while."""
    with contextlib.suppress(QueueExists):
        node.create("q")
    for _ in range(rng.randrange(4)):
        node.once(Q, *[b"x" * 50] * rng.randrange(1, 70))
        node.world.run(rng.randrange(1, 3))


def _is_told(node: Node, tried: list[int], done: list[int]) -> None:
    node.running.stop()
    history = History(node.files, "/store")
    whole(history, node)
    told = history.starts()
    times = [one.at_us for one in told]
    assert set(done) <= set(times) <= set(tried), "a start that has ended is told; no other is"
    assert times == sorted(set(times))
    assert all(one.position < other.position for one, other in pairwise(told))
    assert told[0].orderly is None
    assert None not in [one.orderly for one in told[1:]]


@pytest.mark.parametrize("way", WAYS)
def test_killed_at_any_moment(way: str) -> None:
    for seed in range(3):
        _is_told(*lived(way, seed, deaths=6))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_killed_at_any_moment_in_many_lives(way: str) -> None:
    for seed in range(3, 11):
        _is_told(*lived(way, seed, deaths=12))


def test_the_disk_dies_before_each_operation_of_a_start() -> None:
    """Whichever of them: the start is told once, if it was durable, and never twice."""
    seen = set()
    for at in range(1, 60):
        world = Kept("A", settings=SETTINGS)
        node = world["A"]
        node.create("q")
        world.run(3)
        node.kill()
        node.files.stop_at = node.files.operations + at
        tried = [now_us(world)]
        done = list[int]()
        try:
            world.run(1)
            tried.append(now_us(world))
            node.start()
            done.append(tried[-1])
        except PowerCut:
            node._die()
            world.events.clear()
            node.files = node.files.kill()
        node.files.stop_at = 0
        world.run(1)
        if node.engine is None:
            tried.append(now_us(world))
            node.start()
            done.append(tried[-1])
        seen.add(len(world.told("A").starts()))
        first = world.told("A").starts()[0].at_us
        _is_told(node, [first, *tried], [first, *done])
    assert seen == {2, 3}
