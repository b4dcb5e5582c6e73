"""Branches of an embedded queue manager: what can be done, and what is decided by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import onceq.aio
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.console import reading
from onceq.console.guard import FormValues
from onceq.errors import InvalidParameter, UnknownBranch, UsageError
from onceq.model.branches import Xid

Q = r"private$\orders"
XID = Xid(7, b"booking", b"queue")
HERE = bytes(16)


async def prepared(qm: AsyncQueueManager, xid: Xid) -> FormValues:
    work = await qm.branch(xid)
    await work.send(Q, b"x")
    await work.end()
    await qm.xa.prepare(xid)
    return FormValues({"branch": str(xid), "outcome": "commit"})


@pytest.mark.slow
def test_a_branch_is_decided_once_and_forgotten(tmp_path: Path) -> None:
    async def whole() -> None:
        async with await onceq.aio.open(tmp_path / "qm", name="ALPHA", create=True) as qm:
            await qm.create_queue(Q, transactional=True)
            given = await prepared(qm, XID)
            with pytest.raises(UsageError, match="decided by hand"):
                await reading.forget(qm, given, 0)
            assert (await reading.preview_decision(qm, given, 0))["dry_run"]
            dry = FormValues({**given.values, "dry_run": "1"})
            assert (await reading.decide(qm, dry, 0))["dry_run"]
            assert (await qm.queue(Q)).messages == 0
            assert not (await reading.decide(qm, given, 0))["dry_run"]
            assert (await qm.queue(Q)).messages == 1
            with pytest.raises(UsageError, match="only a prepared one"):
                await reading.decide(qm, given, 0)
            told = await reading.transactions(qm, FormValues({}), 0)
            assert [one["phase"] for one in told["branches"]] == ["committed by hand"]
            assert (await reading.forget(qm, given, 0))["forgotten"]
            with pytest.raises(UnknownBranch):
                await reading.decide(qm, given, 0)
            other = await prepared(qm, Xid(7, b"other", b"queue"))
            with pytest.raises(InvalidParameter, match="commit, abort"):
                await reading.decide(qm, FormValues({**other.values, "outcome": "x"}), 0)
            await reading.decide(qm, FormValues({**other.values, "outcome": "abort"}), 0)
            assert (await qm.queue(Q)).messages == 1

    asyncio.run(whole())
