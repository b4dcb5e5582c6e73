"""Dead letters go home, and are removed, for threads and for tasks: one definition, two faces."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio
from onceq.errors import QueueNotFound
from onceq.model.message import Journal

Q, PLAIN = r"private$\q", r"private$\plain"
WHERE = [onceq.letters.DEAD_XACT, onceq.letters.DEAD]
Work = Callable[[Any, Any], Any]


async def in_threads(path: str, work: Work) -> Any:
    """Do work with a queue manager and its letters, for threads."""

    async def made(result: Any) -> Any:
        return result

    with onceq.open(path, name="ALPHA", create=True) as qm:
        return await work(_Awaited(qm), _Awaited(onceq.letters))


async def in_tasks(path: str, work: Work) -> Any:
    """The same for tasks."""
    async with await aio.open(path, name="ALPHA", create=True) as qm:
        return await work(qm, aio.letters)


class _Awaited:
    """The face for threads, so that a test can await it as the other."""

    def __init__(self, face: Any) -> None:
        self._face = face

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._face, name)
        if not callable(found) or name == "filter_of":
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return found(*(getattr(arg, "_face", arg) for arg in args), **kwargs)

        return call


@pytest.fixture(params=[in_threads, in_tasks])
def face(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Work], Any]:
    def run(work: Work) -> Any:
        return asyncio.run(request.param(str(tmp_path / "a"), work))

    return run


async def found(letters: Any, qm: Any, queues: Sequence[str] = WHERE) -> list[onceq.letters.Letter]:
    which = letters.filter_of()
    listed = letters.letters(qm, queues, which, 0)
    if inspect.isawaitable(listed):
        return list(await listed)
    return [letter async for letter in listed]


async def die(qm: Any, *bodies: str) -> None:
    """Messages for a queue that is there and one that is not, both transactional or both not."""
    await qm.create_queue(Q, transactional=True)
    await qm.create_queue(PLAIN)
    for body in bodies:
        for queue, transactional in ((Q, True), (PLAIN, False)):
            await qm.send(queue, body, transactional=transactional, journal=Journal.DEADLETTER)
    for queue in (Q, PLAIN):
        await qm.purge(queue)


def test_they_are_found_and_go_home_as_they_were(face: Callable[[Work], Any]) -> None:
    async def work(qm: Any, letters: Any) -> None:
        await die(qm, "one", "two", "three")
        assert [letter.message.text for letter in await found(letters, qm)] == [
            "one", "two", "three"
        ] * 2  # fmt: skip
        told: list[int] = []
        which = letters.filter_of(reason="purged")
        trial = await letters.give_back(qm, WHERE, which, 0, limit=4, dry_run=True)
        assert (trial.sent, trial.more) == (4, True)
        done = await letters.give_back(qm, WHERE, which, 0, progress=told.append)
        assert (done.sent, done.kept, told[-1]) == (6, {}, 6)
        assert not await found(letters, qm)
        for queue in (Q, PLAIN):
            texts = [(await qm.receive(queue, timeout=0)).text for _ in range(3)]
            assert texts == ["one", "two", "three"]

    face(work)


def test_what_cannot_go_stays_and_its_error_is_raised(face: Callable[[Work], Any]) -> None:
    async def work(qm: Any, letters: Any) -> None:
        await die(qm, "one", "two")
        with pytest.raises(QueueNotFound):
            await letters.give_back(qm, WHERE, letters.filter_of(), 0, to=r"private$\nowhere")
        assert len(await found(letters, qm)) == 4
        await qm.delete_queue(PLAIN)
        with pytest.raises(QueueNotFound, match="2 of 4 messages stay"):
            await letters.give_back(qm, WHERE, letters.filter_of(), 0)
        assert len(await found(letters, qm)) == 2

    face(work)


def test_they_are_removed_all_or_some(face: Callable[[Work], Any]) -> None:
    async def work(qm: Any, letters: Any) -> None:
        await die(qm, "one", "two")
        one = (await found(letters, qm))[0].message.id
        some = letters.filter_of(id=str(one))
        assert await letters.discard(qm, WHERE, some, 0, dry_run=True) == 1
        assert await letters.discard(qm, WHERE, some, 0) == 1
        two = " ".join(str(one.message.id) for one in (await found(letters, qm))[:2])
        assert await letters.discard(qm, WHERE, letters.filter_of(id=two), 0) == 2
        assert await letters.discard(qm, WHERE, letters.filter_of(), 0) == 1
        assert not await found(letters, qm)

    face(work)


def test_both_faces_have_the_same_names() -> None:
    threads, tasks = onceq.letters, aio.letters
    assert threads.__all__ == tasks.__all__
    for name in ("letters", "give_back", "discard"):
        mine, other = (inspect.signature(getattr(face, name)) for face in (threads, tasks))
        assert list(mine.parameters) == list(other.parameters)
        assert inspect.getdoc(getattr(threads, name)) == inspect.getdoc(getattr(tasks, name))


def test_a_letter_goes_home_with_its_trace(face: Callable[[Work], Any]) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    async def work(qm: Any, letters: Any) -> None:
        await qm.create_queue(Q, transactional=True)
        await qm.send(
            Q, "one", transactional=True, journal=Journal.DEADLETTER, extension=b"x",
            traceparent=trace,
        )  # fmt: skip
        await qm.purge(Q)
        await letters.give_back(qm, WHERE, letters.filter_of(), 0)
        home = await qm.receive(Q, timeout=0)
        assert (home.traceparent, home.extension, home.returned) == (trace, b"x", 1)

    face(work)
