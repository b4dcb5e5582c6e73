"""The link for tasks, with the manager's end in the hands of the test."""

from __future__ import annotations

import asyncio
import contextlib
import select
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from onceq.client import async_link
from onceq.client.address import ManagerAddress
from onceq.client.async_link import AsyncLink
from onceq.client.credentials import Credentials
from onceq.client.link import LinkRequest
from onceq.errors import LinkLost, QueueNotFound, ServiceNotAvailable, UnknownVersion
from onceq.model import requests
from onceq.model.results import Sent
from onceq.packet.arrived import Batch
from onceq.wire.app.frames import ANSWER
from tests.unit.client.scripted import WAIT_S, Scripted
from tests.unit.client.tls_door import Authority, Door

T = TypeVar("T")
Body = Callable[[AsyncLink, Scripted], Awaitable[None]]


def look(name: str = "") -> LinkRequest:
    return LinkRequest(requests.SetQueue(name, {}))


def receive(late: Callable[[Batch | None], None] | None = None) -> LinkRequest:
    head = requests.Receive("q", wait_ms=-1)
    return LinkRequest(head, late=late)


async def soon(work: Callable[[], T]) -> T:
    """Blocking work of the test's server, beside the loop."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


_SECURE: dict[Path, Authority] = {}
"""By folder of a test that runs over TLS: who signs there."""


@pytest.fixture(params=["plain", "tls"])
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The folder of a test; everything here holds over TLS as well."""
    if request.param == "tls":
        _SECURE[tmp_path] = Authority(tmp_path)
    yield tmp_path
    _SECURE.pop(tmp_path, None)


def run(tmp_path: Path, body: Body) -> None:
    """A test with a connected link."""
    authority = _SECURE.get(tmp_path)
    if authority is None:
        _run(tmp_path, body)
        return
    door = Door(str(tmp_path / "app.sock"), authority.server("127.0.0.1"))
    with contextlib.closing(door):
        _run(tmp_path, body, door.address, Credentials(tls=authority.client()))


def _run(
    tmp_path: Path, body: Body, at: ManagerAddress | None = None, shown: Credentials | None = None
) -> None:
    """Loud about exceptions that nobody took."""
    loud: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: loud.append(said))
        with Scripted(tmp_path) as server:
            greeting = threading.Thread(target=server.greet)
            greeting.start()
            link = await AsyncLink.connect(at or server.address, WAIT_S, credentials=shown)
            greeting.join()
            async with asyncio.timeout(WAIT_S):
                await body(link, server)
            link.close()
            await asyncio.sleep(0)

    asyncio.run(main())
    assert not loud


def test_answers_reach_their_tasks_in_any_order(tmp_path: Path) -> None:
    async def body(link: AsyncLink, server: Scripted) -> None:
        tasks = [asyncio.create_task(link.call(look(str(n)))) for n in range(50)]
        asked = [await soon(server.read) for _ in tasks]
        for request, _, head, _ in reversed(asked):
            server.say(request, head.name)
        assert await asyncio.gather(*tasks) == [str(n) for n in range(50)]

    run(tmp_path, body)


def test_errors_are_raised(tmp_path: Path) -> None:
    async def body(link: AsyncLink, server: Scripted) -> None:
        task = asyncio.create_task(link.call(look()))
        server.fail((await soon(server.read))[0], "queue-not-found", "said")
        with pytest.raises(QueueNotFound, match="said"):
            await task

    run(tmp_path, body)


def test_a_lost_connection_reaches_everybody(tmp_path: Path) -> None:
    async def body(link: AsyncLink, server: Scripted) -> None:
        tasks = [asyncio.create_task(link.call(look())) for _ in range(5)]
        for _ in tasks:
            await soon(server.read)
        server.hang_up()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(found, LinkLost)
        with pytest.raises(ServiceNotAvailable) as caught:
            await link.call(look())
        assert not isinstance(caught.value, LinkLost)

    run(tmp_path, body)


def test_a_look_notices_that_the_other_side_has_gone(tmp_path: Path) -> None:
    """However short ago it was used: threads look each time, too."""

    async def body(link: AsyncLink, server: Scripted) -> None:
        assert await link.check_alive()
        server.hang_up()
        assert link.alive
        assert link._transport is not None
        plain = link._transport.get_extra_info("socket")
        assert select.select([plain.fileno()], [], [], WAIT_S)[0]
        assert not await link.check_alive()

    run(tmp_path, body)


def test_a_farewell_says_that_what_was_not_answered_has_not_happened(tmp_path: Path) -> None:
    async def body(link: AsyncLink, server: Scripted) -> None:
        first, second = (asyncio.create_task(link.call(look())) for _ in range(2))
        request = (await soon(server.read))[0]
        await soon(server.read)
        server.say(request, 3)
        server.fail(0, "service-not-available", "it stops")
        assert await first == 3
        with pytest.raises(ServiceNotAvailable, match="stops") as caught:
            await second
        assert not isinstance(caught.value, LinkLost)

    run(tmp_path, body)


def test_lazy_requests_go_out_with_the_next(tmp_path: Path) -> None:
    async def body(link: AsyncLink, server: Scripted) -> None:
        await link.call(LinkRequest(requests.Begin(1), waits=False, lazy=True))
        task = asyncio.create_task(link.call(look()))
        assert (await soon(server.read))[:2] == (0, requests.Begin.code)
        server.say((await soon(server.read))[0], 3)
        assert await task == 3

    run(tmp_path, body)


def test_a_cancelled_receive_is_cancelled_there_and_its_messages_are_kept(tmp_path: Path) -> None:
    kept: list[Batch | None] = []

    async def body(link: AsyncLink, server: Scripted) -> None:
        task = asyncio.create_task(link.call(receive(kept.append)))
        request, _, _, _ = await soon(server.read)
        task.cancel()
        zero, code, head, _ = await soon(server.read)
        assert (zero, code, head.waiting) == (0, requests.CancelReceive.code, request)
        assert not task.done(), "it waits until the manager has heard of it"
        server.hand(request, b"crossed")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [bytes(b) for batch in kept if batch is not None for b in batch.run] == [b"crossed"]

    run(tmp_path, body)


def test_what_goes_out_behind_a_request_is_waited_for_apart(tmp_path: Path) -> None:
    async def body(link: AsyncLink, server: Scripted) -> None:
        second = receive()
        task = asyncio.create_task(
            link.call(LinkRequest(requests.Commit(1, then=2), behind=second))
        )
        asked, taken = await soon(server.read), await soon(server.read)
        assert (asked[1], taken[1]) == (requests.Commit.code, requests.Receive.code)
        server.write(asked[0], requests.Commit.code | ANSWER, Sent(1, 0, 1))
        assert await task == Sent(1, 0, 1)
        later = asyncio.create_task(link.call(second))
        server.hand(taken[0], b"x")
        batch = await later
        assert isinstance(batch, Batch)
        assert [bytes(one) for one in batch.run] == [b"x"]

    run(tmp_path, body)


def test_a_request_that_is_asked_again_is_sent_again(tmp_path: Path) -> None:
    """As a question is after a lost connection, whose answer was that it is lost."""

    async def body(link: AsyncLink, server: Scripted) -> None:
        request = look("q")
        for said in ("first", "second"):
            task = asyncio.create_task(link.call(request))
            server.say((await soon(server.read))[0], said)
            assert await task == said

    run(tmp_path, body)


def test_a_cancelled_request_cancels_the_receive_behind_it(tmp_path: Path) -> None:
    async def body(link: AsyncLink, server: Scripted) -> None:
        second = receive()
        task = asyncio.create_task(
            link.call(LinkRequest(requests.Commit(1, then=2), behind=second))
        )
        await soon(server.read)
        taken, _, _, _ = await soon(server.read)
        task.cancel()
        zero, code, head, _ = await soon(server.read)
        assert (zero, code, head.waiting) == (0, requests.CancelReceive.code, taken)
        server.fail(taken, "operation-cancelled")
        with pytest.raises(asyncio.CancelledError):
            await task

    run(tmp_path, body)


@pytest.mark.parametrize("twice", [False, True])
def test_a_manager_that_does_not_answer_does_not_keep_a_task_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twice: bool
) -> None:
    monkeypatch.setattr("onceq.client.async_link.CANCEL_S_MAX", WAIT_S if twice else 0.0)
    kept: list[Batch | None] = []

    async def body(link: AsyncLink, server: Scripted) -> None:
        task = asyncio.create_task(link.call(receive(kept.append)))
        request, _, _, _ = await soon(server.read)
        task.cancel()
        await soon(server.read)
        if twice:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not kept
        server.hand(request, b"much later")
        other = asyncio.create_task(link.call(look()))
        server.say((await soon(server.read))[0], None)
        await other

    run(tmp_path, body)
    assert [bytes(b) for batch in kept if batch is not None for b in batch.run] == [b"much later"]


def test_messages_that_came_in_the_moment_of_cancelling_are_kept(tmp_path: Path) -> None:
    kept: list[Batch | None] = []

    async def body(link: AsyncLink, server: Scripted) -> None:
        task = asyncio.create_task(link.call(receive(kept.append)))
        request, _, _, _ = await soon(server.read)
        place, _, _ = link._waiting[request]
        server.hand(request, b"just now")
        while place.awaited:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(tmp_path, body)
    assert [bytes(b) for batch in kept if batch is not None for b in batch.run] == [b"just now"]


def test_a_cancelled_request_of_another_kind_is_just_forgotten(tmp_path: Path) -> None:
    async def body(link: AsyncLink, server: Scripted) -> None:
        task = asyncio.create_task(link.call(look("first")))
        request, _, _, _ = await soon(server.read)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.say(request, 1)
        other = asyncio.create_task(link.call(look("second")))
        asked = await soon(server.read)
        assert asked[1] == requests.SetQueue.code
        server.say(asked[0], 2)
        assert await other == 2

    run(tmp_path, body)


def test_writers_wait_while_the_manager_does_not_read(tmp_path: Path) -> None:
    async def body(link: AsyncLink, server: Scripted) -> None:
        link.pause_writing()
        task = asyncio.create_task(link.call(look()))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not link._waiting, "nothing was written yet"
        link.resume_writing()
        server.say((await soon(server.read))[0], 1)
        assert await task == 1

    run(tmp_path, body)


def test_connections_that_fail_leave_nothing_behind(tmp_path: Path) -> None:
    loud: list[dict[str, Any]] = []

    async def refused() -> None:
        with pytest.raises(ServiceNotAvailable, match="is it running"):
            await AsyncLink.connect(ManagerAddress(path=str(tmp_path / "none.sock")), 1.0)

    async def hung_up() -> None:
        with Scripted(tmp_path) as server:
            task = asyncio.create_task(AsyncLink.connect(server.address, WAIT_S))
            await soon(server.accept)
            await soon(server.read)
            server.hang_up()
            with pytest.raises(ServiceNotAvailable):
                await task

    async def main(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: loud.append(said))
        await work()

    for work in (refused, hung_up):
        asyncio.run(main(work))
    assert not loud


def test_a_refused_hello_is_raised(tmp_path: Path) -> None:
    async def main() -> None:
        with Scripted(tmp_path) as server:
            task = asyncio.create_task(AsyncLink.connect(server.address, WAIT_S))
            await soon(server.accept)
            await soon(server.read)
            server.fail(0, "unknown-version", "this manager speaks 9")
            with pytest.raises(UnknownVersion, match="speaks 9"):
                await task

    asyncio.run(main())


def test_an_answer_whose_taking_is_interrupted_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler that raises while the loop takes an answer (finding K5)."""

    async def body(link: AsyncLink, server: Scripted) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        task = asyncio.create_task(link.call(look()))
        request, _, _, _ = await soon(server.read)

        def interrupted(*said: object) -> object:
            raise ZeroDivisionError

        monkeypatch.setattr(async_link, "decode", interrupted)
        server.say(request, None)
        with pytest.raises(LinkLost, match="interrupted"):
            await asyncio.wait_for(task, WAIT_S)

    run(tmp_path, body)
