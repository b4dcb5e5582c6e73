"""A queue manager that is away keeps nobody waiting, and comes back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceq.client.tasks.manager import AsyncQueueManager
from onceq.console import managers as module
from onceq.console.guard import AWAY_S_MAX, SAMPLE_S, SAMPLE_SHARE
from onceq.console.managers import Managers, Sample, Watched, key_of
from onceq.errors import (
    ConfigurationError,
    InDoubt,
    ManagerNotFound,
    ManagerSlow,
    ServiceNotAvailable,
)
from onceq.model.views.managers import StatusView


async def status(qm: AsyncQueueManager) -> StatusView:
    return await qm.admin.status()


def one(where: str) -> Watched:
    (found,) = Managers([where], lambda: 7.0)
    return found


def test_names_in_addresses() -> None:
    assert key_of("/var/lib/onceq/Alpha/") == "alpha"
    assert key_of("tls://orders.example:1802") == "orders.example-1802"
    assert key_of(".") == "here"
    assert key_of("a<script>", ["a-script"]) == "a-script-2"


def test_two_of_one_name_are_told_apart_and_a_third_is_not_there() -> None:
    both = Managers(["onceq://a:1", "onceq://a:1"], lambda: 0.0)
    assert [found.key for found in both] == ["a-1", "a-1-2"]
    assert (len(both), both["a-1-2"].where) == (2, "onceq://a:1")
    with pytest.raises(ManagerNotFound, match="; it watches a-1, a-1-2") as caught:
        both["zzz"]
    assert "console" in caught.value.cure
    assert "queue list" not in caught.value.cure
    with pytest.raises(ManagerNotFound, match=r"did you mean a-1-2\? It watches"):
        both["a-1-3"]
    with pytest.raises(ConfigurationError):
        Managers(["no such folder"], lambda: 0.0)


def test_one_that_is_none_is_away_and_does_not_keep_others_from_being_watched(
    tmp_path: Path,
) -> None:
    places = ["no such folder", "onceq://127.0.0.1:9", "prd", str(tmp_path)]
    made = Managers(places, lambda: 7.0, faults={"prd": "did you mean prod?"})
    assert list(made.problems) == ["prd", "no such folder", str(tmp_path)]

    async def ask(watched: Watched) -> str:
        with pytest.raises(ServiceNotAvailable):
            await watched.read(status)
        return watched.away

    told = [asyncio.run(ask(one)) for one in made]
    assert "neither a directory nor an address" in told[0]
    assert told[2] == "did you mean prod?"
    assert "is not the directory of a queue manager" in told[3]
    with pytest.raises(ConfigurationError, match="did you mean prod"):
        Managers(["prd"], lambda: 0.0, faults={"prd": "did you mean prod?"})


def test_nobody_there_is_away_at_once() -> None:
    watched = one("onceq://127.0.0.1:9")

    async def ask() -> None:
        for _ in range(2):
            with pytest.raises(ServiceNotAvailable):
                await watched.read(status)
        with pytest.raises(ServiceNotAvailable):
            await watched.act(status)

    asyncio.run(ask())
    assert "127.0.0.1:9" in watched.away
    assert watched.away_since == 7.0


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[str]:
    """Somebody who takes connections and says nothing, as a process that was stopped."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        yield f"unix://{path}"


def test_one_that_says_nothing_is_waited_for_once(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_S_MAX", 0.05)
    watched = one(silent)
    asked = 0

    async def never(qm: AsyncQueueManager) -> None:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()

    async def connected() -> object:
        return object()

    async def ask() -> None:
        monkeypatch.setattr(Watched, "_connected", lambda self: connected())
        with pytest.raises(ServiceNotAvailable, match="does not answer"):
            await watched.read(never)
        for _ in range(3):
            with pytest.raises(ServiceNotAvailable, match="does not answer"):
                await watched.read(never)
            with pytest.raises(ServiceNotAvailable):
                await watched.act(never)
        assert asked == 1, "only the task that looks after it asks again"

        async def fine(qm: AsyncQueueManager) -> int:
            return 5

        assert await watched.read(fine, probe=True) == 5
        assert watched.away == ""
        assert await watched.read(fine) == 5

    asyncio.run(ask())


def test_one_that_is_at_work_is_slow_and_not_away(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manager that was busy for 5 s was called away, and its connection was cut."""
    monkeypatch.setattr(module, "READ_S_MAX", 0.01)
    clock = [7.0]
    (watched,) = Managers([silent], lambda: clock[0])
    asked = 0

    class There:
        closed = False

        async def close(self) -> None:
            self.closed = True

    there = watched._qm = There()  # type: ignore[assignment]

    async def never(qm: AsyncQueueManager) -> None:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()

    async def fine(qm: AsyncQueueManager) -> int:
        return 5

    async def ask() -> None:
        for _ in range(2):
            with pytest.raises(ManagerSlow, match="has not answered within"):
                await watched.read(never)
        assert (asked, watched.away, there.closed) == (2, "", False)
        assert "and is connected" in watched.slow
        assert await watched.read(fine) == 5
        assert watched.slow == "", "it has answered"
        with pytest.raises(ManagerSlow):
            await watched.read(never)
        clock[0] += AWAY_S_MAX
        with pytest.raises(ServiceNotAvailable, match="does not answer within 30 s"):
            await watched.read(never)
        assert (bool(watched.away), watched.slow, there.closed) == (True, "", True)
        with pytest.raises(ServiceNotAvailable):
            await watched.read(never)
        assert asked == 4, "only the task that looks after it asks again"

    asyncio.run(ask())


def test_what_was_begun_is_done_to_its_end(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACT_S_MAX", 0.05)
    watched = one(silent)
    done = []

    async def connected() -> object:
        return object()

    async def ask() -> None:
        monkeypatch.setattr(Watched, "_connected", lambda self: connected())
        go, ended = asyncio.Event(), asyncio.Event()

        async def slow(qm: AsyncQueueManager) -> None:
            await go.wait()
            done.append(1)
            ended.set()

        with pytest.raises(InDoubt, match="goes on"):
            await watched.act(slow)
        assert not done
        go.set()
        async with asyncio.timeout(10):
            await ended.wait()

    asyncio.run(ask())
    assert done == [1]


def test_one_that_is_slow_to_look_at_is_looked_at_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, took, waits = [0.0], [0.0], list[float]()
    (watched,) = Managers(["onceq://127.0.0.1:9"], lambda: clock[0])

    async def look(watched: Watched) -> Sample:
        clock[0] += took[0]
        return Sample(clock[0], {}, 0, 0)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    for seconds in (0.0, 1.0):
        took[0] = seconds
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(watched.watch(look))
    assert waits == [SAMPLE_S, 1.0 / SAMPLE_SHARE]
    assert len(watched.samples) == 2
