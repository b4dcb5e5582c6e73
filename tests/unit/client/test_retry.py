"""Whole transactions that are done again: when, how often, and never blindly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest

from onceq.client import retry
from onceq.client.binding import get_ambient
from onceq.client.link import Greeting, LinkRequest, ThreadLink
from onceq.client.retry import Tries
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.client.threads.manager import QueueManager
from onceq.errors import (
    InDoubt,
    InsufficientResources,
    InvalidParameter,
    LinkLost,
    ManagerAway,
    MessageLocked,
    QueueNotFound,
    Retryable,
    RolledBackByPartner,
    SendFailed,
    ServiceNotAvailable,
    TransactionLost,
    every,
)
from onceq.model import requests
from onceq.model.results import Opened, Outcome
from tests.unit.client.script import Q, Script

T = TypeVar("T")


class ScriptLink:
    """A connection whose other end is a script; it is never broken for long."""

    def __init__(self, script: Script) -> None:
        self.greeting = Greeting("A", bytes(16), 1_000)
        self.alive = True
        self._script = script

    def check_alive(self) -> bool:
        return self.alive

    def call(self, request: LinkRequest) -> object:
        return self._script.answer(request)

    def close(self) -> None:
        self.alive = False


class AsyncScriptLink(ScriptLink):
    def check_loop(self, *, leaving: bool = False) -> None:
        return

    async def check_alive(self) -> bool:  # type: ignore[override]
        return self.alive

    async def call(self, request: LinkRequest) -> object:
        return self._script.answer(request)


Run = Callable[..., Any]


def in_threads(script: Script) -> Run:
    return QueueManager(lambda: cast(ThreadLink, ScriptLink(script)), again=True).run


def in_tasks(script: Script) -> Run:
    def run(work: Callable[[Any], object], **options: Any) -> object:
        async def done() -> object:
            async def connect() -> Any:
                return AsyncScriptLink(script)

            async def awaited(tx: Any) -> object:
                found: Any = work(tx)
                return await found if asyncio.iscoroutine(found) else found

            qm = AsyncQueueManager(await connect(), connect)
            return await qm.run(awaited, **options)

        return asyncio.run(done())

    return run


@pytest.fixture(params=[in_threads, in_tasks])
def run(request: pytest.FixtureRequest, script: Script, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``run`` of a queue manager of either face; it waits for nothing."""
    monkeypatch.setattr(retry, "AGAIN_S", (0.0,))
    made: Run = request.param(script)
    return made


class Work:
    """Sends one message, after errors."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, tx: Any) -> object:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        sent: object = tx.send(Q, b"%d" % self.calls)
        return sent or self.calls


def bodies(script: Script) -> list[bytes]:
    return [body for _, body in script.sent]


def test_what_succeeds_is_done_once(run: Run, script: Script) -> None:
    assert run(lambda tx: "found") == "found"
    work = Work()
    run(work)
    assert (work.calls, bodies(script)) == (1, [b"1"])


@pytest.mark.parametrize(
    "error",
    [ManagerAway(), TransactionLost(), MessageLocked(), RolledBackByPartner(), SendFailed()],
)
def test_what_has_certainly_not_happened_is_done_again(
    run: Run, script: Script, error: Retryable, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(error, error)
    with caplog.at_level(logging.WARNING, "onceq"):
        run(work)
    assert (work.calls, bodies(script)) == (3, [b"3"])
    assert "done again in 0.0 s (3. time): " + type(error).__name__ in caplog.text


@pytest.mark.parametrize(
    "error",
    [LinkLost(), ServiceNotAvailable(), QueueNotFound(), InDoubt(), KeyError("own"),
     InsufficientResources()],
)  # fmt: skip
def test_what_may_have_happened_or_will_not_help_is_not(
    run: Run, script: Script, error: Exception
) -> None:
    work = Work(error)
    with pytest.raises(type(error)):
        run(work)
    assert (work.calls, bodies(script)) == (1, [])


def test_the_application_names_further_errors(run: Run, script: Script) -> None:
    work = Work(KeyError("conflict"))
    run(work, also=(KeyError,))
    assert bodies(script) == [b"2"]


def test_the_last_of_several_tries_says_how_many_there_were(run: Run, script: Script) -> None:
    work = Work(*[MessageLocked("held") for _ in range(9)])
    with pytest.raises(MessageLocked, match="held") as caught:
        run(work, tries=3)
    assert work.calls == 3
    assert caught.value.__notes__ == ["onceq has tried this transaction 3 times"]
    with pytest.raises(MessageLocked) as caught:
        run(work, tries=1)
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("tries", [0, -1, True, 1.5, "5"])
def test_a_number_of_tries_that_makes_no_sense(run: Run, tries: Any) -> None:
    with pytest.raises(InvalidParameter, match="at least once"):
        run(Work(), tries=tries)


def test_a_refused_send_dooms_one_try(run: Run, script: Script) -> None:
    """Whether the error of the send leaves as it is, or the commit says it."""
    script.will(requests.OpenQueue.code, *[Opened(1, True, True)] * 9)
    script.will(requests.Commit.code, InsufficientResources("the quota is full"), None)
    work = Work()
    run(work)
    assert (work.calls, bodies(script)[-1]) == (2, b"2")


def test_work_may_end_its_transaction_by_itself(run: Run, script: Script) -> None:
    def commits(tx: Any) -> object:
        return tx.commit()

    run(commits)
    assert script.kinds().count("Commit") == 1

    def fails_later(tx: Any) -> object:
        ended = tx.commit()
        if asyncio.iscoroutine(ended):

            async def later() -> None:
                await ended
                raise TransactionLost("of something else")

            return later()
        raise TransactionLost("of something else")

    with pytest.raises(TransactionLost):
        run(fails_later)
    assert script.kinds().count("Commit") == 2, "it had happened"


@pytest.mark.parametrize("became", [Outcome("committed"), Outcome("aborted"), Outcome("unknown")])
def test_a_commit_in_doubt_is_asked_for(run: Run, script: Script, became: Outcome) -> None:
    script.will(requests.Commit.code, LinkLost("cut"))
    script.will(requests.AskOutcome.code, LinkLost("cut"), became)
    work = Work()
    if became == "unknown":
        with pytest.raises(InDoubt) as caught:
            run(work)
        assert caught.value.transaction
    else:
        run(work)
    assert work.calls == (2 if became == "aborted" else 1)
    assert script.kinds().count("Commit") == work.calls


def test_where_nobody_answers_the_doubt_is_told(run: Run, script: Script) -> None:
    script.will(requests.Commit.code, LinkLost("cut"))
    script.will(requests.AskOutcome.code, *[ManagerAway("away")] * 99)
    work = Work()
    with pytest.raises(InDoubt, match="answer to the commit was lost"):
        run(work)
    assert work.calls == 1


def test_a_doubt_without_a_name_is_told() -> None:
    """The one of a database that decides: recovery asks for its row, nobody else can."""
    doubt = InDoubt("whether its row is there decides")
    tx = cast(Any, type("Tx", (), {"id": ""})())
    with pytest.raises(InDoubt) as caught:
        next(retry.settle(cast(Any, None), tx, doubt, cast(Any, None)))
    assert caught.value is doubt


def test_waits_grow_and_end() -> None:
    tries = Tries(7)
    assert [tries.wait_s() for _ in range(7)] == [0.05, 0.2, 0.5, 1.0, 2.0, 2.0, None]


def test_the_transaction_is_the_current_one(run: Run, script: Script) -> None:
    seen: list[object] = []

    def work(tx: Any) -> None:
        around = get_ambient()
        assert around is not None
        seen.append(around[0] is tx)

    run(work)
    assert seen == [True]


def test_errors_that_say_that_nothing_happened_have_one_base() -> None:
    """A new one is added here by whoever is certain of it."""
    kinds = {kind.__name__ for kind in every().values() if issubclass(kind, Retryable)}
    assert kinds == {
        "GroupIncomplete", "ManagerAway", "MessageLocked", "Retryable", "RolledBackByPartner",
        "RolledBackByTime", "SendFailed", "TransactionLost",
    }  # fmt: skip
