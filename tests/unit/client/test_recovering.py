"""What the recovery of an application is using is closed by nobody else."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest

import onceq
import onceq.aio
from onceq.client.plans import operate
from onceq.client.tasks.recovering import _InLoop
from onceq.errors import ServiceNotAvailable
from onceq.model.branches import Xid
from onceq.partners.contract import AnyPartner


class Slow:
    """A partner and its resource, which answers recovery when it is let go."""

    name = "slow"

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.let_go = threading.Event()
        self.closed = threading.Event()
        self.under_way = False
        self.closed_under_way = False

    def resource(self) -> Slow:
        return self

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        self.under_way = True
        self.asked.set()
        assert self.let_go.wait(30)
        self.under_way = False
        return []

    def close(self) -> None:
        self.closed_under_way = self.under_way
        self.closed.set()

    def as_partner(self) -> AnyPartner:
        return cast(Any, self)


def check(slow: Slow) -> None:
    assert not slow.closed.is_set(), "closed under a round of recovery"
    slow.let_go.set()
    assert slow.closed.wait(30), "nobody closed it"
    assert not slow.closed_under_way


def test_tasks_close_nothing_that_a_round_is_using(tmp_path: Path) -> None:
    slow = Slow()

    async def work() -> None:
        qm = await onceq.aio.open(str(tmp_path / "qm"), create=True)
        qm._recovering.look_after(slow.as_partner())
        assert await asyncio.to_thread(slow.asked.wait, 30)
        await qm.close()

    asyncio.run(work())
    check(slow)


def test_threads_close_nothing_that_a_round_is_using(tmp_path: Path) -> None:
    slow = Slow()
    with onceq.open(tmp_path / "qm", create=True) as qm:
        qm._recovering.look_after(slow.as_partner())
        assert slow.asked.wait(30)
    check(slow)


def test_a_loop_that_has_ended_is_no_manager(tmp_path: Path) -> None:
    """Nothing waits for it, and what cannot be asked is told as an error of onceq."""
    found: list[_InLoop] = []

    async def work() -> None:
        qm = await onceq.aio.open(str(tmp_path / "qm"), create=True)
        found.append(_InLoop(qm))
        await qm.close()

    asyncio.run(work())
    with pytest.raises(ServiceNotAvailable, match="loop"):
        found[0]._run(operate.decisions(found[0]._state))


def test_a_plan_that_the_loop_left_undone(tmp_path: Path) -> None:
    def ask(there: _InLoop, errors: list[BaseException]) -> None:
        try:
            there._run(operate.decisions(there._state))
        except ServiceNotAvailable as error:
            errors.append(error)

    errors: list[BaseException] = []
    begun = threading.Event()

    async def work() -> threading.Thread:
        qm = await onceq.aio.open(str(tmp_path / "qm"), create=True)

        async def never(plan: object, on: object = None) -> None:
            begun.set()
            await asyncio.Event().wait()

        there = _InLoop(qm)
        there._manager = cast(Any, type("Never", (), {"_run": staticmethod(never)}))
        asking = threading.Thread(target=ask, args=(there, errors))
        asking.start()
        assert await asyncio.to_thread(begun.wait, 30)
        await qm.close()
        return asking

    asyncio.run(work()).join(30)
    (error,) = errors
    assert "ended" in str(error)
