"""Dead letters of an embedded queue manager: counted, previewed, sent home, removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import onceq.aio
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.console import letters
from onceq.console.guard import FormValues
from onceq.errors import InvalidParameter
from onceq.model.message import Journal

pytestmark = pytest.mark.slow
Q = r"private$\orders"


def tried(path: Path, test: Callable[[AsyncQueueManager], Awaitable[None]]) -> None:
    """Run a test with a queue manager in which three dead letters stand."""

    async def whole() -> None:
        qm = await onceq.aio.open(path / "qm", name="ALPHA", create=True)
        async with qm:
            await qm.create_queue(Q, transactional=True)
            for number in range(3):
                await qm.send(Q, b"%d" % number, transactional=True, label=f"letter {number}",
                              journal=Journal.DEADLETTER)  # fmt: skip
            await qm.purge(Q)
            await test(qm)

    asyncio.run(whole())


async def told(qm: AsyncQueueManager, **values: str) -> dict[str, Any]:
    return await letters.dead(qm, FormValues(values), 2_000_000_000)


def test_they_are_counted_by_reason_without_their_bodies(tmp_path: Path) -> None:
    async def test(qm: AsyncQueueManager) -> None:
        found = await told(qm)
        assert [(one["reason"], one["count"]) for one in found["reasons"]] == [("purged", 3)]
        assert "body" not in found["letters"][0]
        assert found["may_act"]
        assert (await told(qm, label="LETTER 1"))["count"] == 1
        assert (await told(qm, reason="expired"))["count"] == 0
        assert (await told(qm, reason="0xc001"))["count"] == 3
        assert len((await told(qm, limit="2"))["letters"]) == 2
        with pytest.raises(InvalidParameter):
            await told(qm, reason="whatever")

    tried(tmp_path, test)


def test_a_preview_changes_nothing(tmp_path: Path) -> None:
    async def test(qm: AsyncQueueManager) -> None:
        for preview in (letters.preview_return, letters.preview_purge):
            assert (await preview(qm, FormValues({"label": "letter"}), 0))["dry_run"]
        for act in (letters.return_home, letters.purge):
            assert (await act(qm, FormValues({"dry_run": "yes"}), 0))["dry_run"]
        assert (await told(qm))["count"] == 3
        assert (await qm.queue(Q)).messages == 0

    tried(tmp_path, test)


def test_those_that_are_meant_go_and_no_others(tmp_path: Path) -> None:
    async def test(qm: AsyncQueueManager) -> None:
        home = await letters.return_home(qm, FormValues({"label": "letter 1"}), 0)
        assert (home["returned"], home["kept"], home["state"]) == (1, {}, "done")
        told_of = await letters.show_job(qm, FormValues({"number": str(home["job"])}), 0)
        assert told_of["job"]["which"] == {"label": "letter 1"}
        assert (await letters.purge(qm, FormValues({"label": "letter 2"}), 0))["removed"] == 1
        assert [one["label"] for one in (await told(qm))["letters"]] == ["letter 0"]
        assert (await qm.receive(Q)).body == b"1"

    tried(tmp_path, test)


def test_what_is_sent_as_new_stays(tmp_path: Path) -> None:
    async def test(qm: AsyncQueueManager) -> None:
        given = FormValues({"label": "letter"})
        assert (await letters.preview_new(qm, given, 0))["sent_as_new"] == 3
        assert (await letters.send_as_new(qm, FormValues({"dry_run": "yes"}), 0))["dry_run"]
        assert (await letters.send_as_new(qm, given, 0))["sent_as_new"] == 3
        assert (await told(qm))["count"] == 3
        assert (await qm.queue(Q)).messages == 3

    tried(tmp_path, test)


def test_one_letter_is_a_job_too(tmp_path: Path) -> None:
    async def test(qm: AsyncQueueManager) -> None:
        first, second, _ = (await told(qm))["letters"]
        assert (await letters.return_home(qm, FormValues({"id": first["id"]}), 0))["returned"] == 1
        assert (await letters.purge(qm, FormValues({"id": second["id"]}), 0))["removed"] == 1
        listed = (await letters.list_jobs(qm, FormValues({}), 0))["jobs"]
        assert [(one["action"], one["done"]) for one in listed] == [("purge", 1), ("return", 1)]

    tried(tmp_path, test)


def test_a_job_says_where_those_that_failed_were_going(tmp_path: Path) -> None:
    async def test(qm: AsyncQueueManager) -> None:
        await qm.create_queue(r"private$\full", transactional=True, quota_kb=0)
        home = await letters.return_home(qm, FormValues({"to": r"private$\full"}), 0)
        (first, *_) = (await told(qm))["letters"]
        shown = (await letters.show_job(qm, FormValues({"number": str(home["job"])}), 0))["job"]
        assert [one["destination"] for one in shown["failures"]] == [first["destination"]] * 3

    tried(tmp_path, test)


def test_a_job_is_named_by_its_number(tmp_path: Path) -> None:
    async def test(qm: AsyncQueueManager) -> None:
        made = await letters.purge(qm, FormValues({}), 0)
        assert made["removed"] == 3
        number = {"number": str(made["job"])}
        assert (await letters.cancel_job(qm, FormValues(number), 0))["job"]["state"] == "done"
        (listed,) = (await letters.list_jobs(qm, FormValues({}), 0))["jobs"]
        assert (listed["done"], listed["action"]) == (3, "purge")
        for wrong in ({}, {"number": "x"}, {"number": "99"}, {"number": "-1"}):
            with pytest.raises(InvalidParameter):
                await letters.show_job(qm, FormValues(wrong), 0)

    tried(tmp_path, test)
