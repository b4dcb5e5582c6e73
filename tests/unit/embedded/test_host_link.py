"""The link into a manager in the same process, as threads and tasks use it."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from onceq import aio
from onceq.client.link import LinkRequest, ThreadLink
from onceq.embedded import host as host_module
from onceq.embedded.host import AsyncEmbeddedLink, EmbeddedLink, start
from onceq.errors import QueueNotFound, ServiceNotAvailable
from onceq.model import requests
from onceq.model.message import PLAIN
from onceq.model.run import Run

Q = r"private$\q"
WAIT_S = 20.0
"""Only a defect makes a test wait so long."""


@pytest.fixture
def link(tmp_path: Path) -> Iterator[EmbeddedLink]:
    host = start(str(tmp_path / "a"), name="A", create=True, listen=None, peers=None, settings=None)
    made = EmbeddedLink(host)
    yield made
    made.close()


def test_it_greets_as_a_daemon_does_and_raises_what_is_refused(link: EmbeddedLink) -> None:
    asked: ThreadLink = link
    assert (asked.greeting.name, asked.alive, asked.check_alive()) == ("A", True, True)
    with pytest.raises(QueueNotFound):
        asked.call(LinkRequest(requests.Look("queue", Q)))


@pytest.mark.parametrize("unhurried", [False, True])
def test_what_nobody_waits_for_is_worked_off_all_the_same(
    link: EmbeddedLink, unhurried: bool
) -> None:
    create = LinkRequest(requests.CreateQueue({"name": "q"}), waits=False, unhurried=unhurried)
    assert link.call(create) is None
    assert link.call(LinkRequest(requests.Look("queue", Q))) is not None


def test_what_may_show_somebody_a_message_does_not_wait_for_others_if_a_receive_waits(
    link: EmbeddedLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "TOLD_S", 3600.0)  # The loop will not do it.
    link.call(LinkRequest(requests.CreateQueue({"name": "q"})))
    pumps: list[None] = []
    answers: list[Any] = []
    pump = link._host.pump
    monkeypatch.setattr(link._host, "pump", lambda: pumps.append(pump()))

    def send(body: bytes) -> None:
        asked = requests.Send(0, (requests.SendItem(Q, PLAIN, Run.of([body])),))
        link.call(LinkRequest(asked, waits=False, unhurried=True, shows=True))

    def wait() -> None:
        link._host.submit(requests.Receive(Q, wait_ms=-1), answers.append)
        look()

    def look() -> None:
        """Afterwards all that was asked before is worked off."""
        link.call(LinkRequest(requests.Look("queue", Q)))

    send(b"nobody misses it")
    assert not pumps
    wait()
    assert len(answers) == 1
    wait()
    assert len(pumps) == 2
    send(b"at once")
    assert len(pumps) == 3
    look()
    assert [one.bodies() for one in answers] == [[b"nobody misses it"], [b"at once"]]


def test_after_the_end_it_says_that_nothing_was_sent(link: EmbeddedLink) -> None:
    link.close()
    assert not link.alive
    for waits in (True, False):
        with pytest.raises(ServiceNotAvailable):
            link.call(LinkRequest(requests.Look("queue", Q), waits=waits))


def test_a_receive_that_is_cancelled_loses_nothing(tmp_path: Path) -> None:
    async def main() -> str:
        async with await aio.open(str(tmp_path / "a"), name="A", create=True) as qm:
            assert isinstance(qm._link, AsyncEmbeddedLink)
            await qm.create_queue(Q)
            waiting = asyncio.create_task(qm.receive(Q))
            await qm.send(Q, "hello")
            waiting.cancel()
            await asyncio.wait([waiting])
            # Nobody can say which was first; what was taken for it is kept for the next.
            got = await qm.receive(Q, timeout=5.0) if waiting.cancelled() else waiting.result()
            return got.text

    assert asyncio.run(main()) == "hello"


@pytest.mark.parametrize("give_up", [False, True])
def test_an_answer_whose_handing_over_is_interrupted_is_not_lost(
    tmp_path: Path, give_up: bool
) -> None:
    """A signal handler raises at the first line that the loop runs for it (finding R20)."""
    interrupted: list[str] = []

    def called(frame: FrameType, event: str, argument: object) -> None:
        code, back = frame.f_code, frame.f_back
        if interrupted or back is None or "/onceq/" not in code.co_filename:
            return
        # What the loop calls, and not the next step of a task.
        called_by = back.f_code.co_filename.endswith("asyncio/events.py")
        if called_by and not code.co_flags & inspect.CO_COROUTINE:
            interrupted.append(code.co_name)
            raise ZeroDivisionError

    async def main() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        async with await aio.open(str(tmp_path / "a"), name="A", create=True) as qm:
            await qm.create_queue(Q)
            waiting = asyncio.create_task(qm.receive(Q, timeout=None if give_up else 5.0))
            await asyncio.sleep(0)
            sys.settrace(called)
            try:
                if give_up:
                    waiting.cancel()
                else:
                    await qm.send(Q, "hello")
                    assert (await asyncio.wait_for(waiting, WAIT_S)).text == "hello"
                await asyncio.wait([waiting], timeout=WAIT_S)
            finally:
                sys.settrace(None)
            await qm.send(Q, "next")
            return (await qm.receive(Q, timeout=5.0)).text

    assert asyncio.run(asyncio.wait_for(main(), WAIT_S)) == "next"
    assert interrupted


def test_answers_that_another_thread_gives_meanwhile_are_no_matter(
    link: EmbeddedLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that are awaited hear that the manager has stopped, once."""

    class Emptied(dict[int, Any]):
        def __iter__(self) -> Iterator[int]:
            self.clear()
            return super().__iter__()

        def items(self) -> Any:
            self.clear()
            return super().items()

    answers = Emptied({1: host_module.nothing})
    monkeypatch.setattr(link._host, "_answers", answers)
    link._host._fail_all()
    assert not answers
