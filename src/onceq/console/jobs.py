"""Jobs of a queue manager: those there are, one of them, and how bulk actions start one.

A button that is about many messages starts a job, and waits a moment for it: a short one is told as
done, a longer one goes on, and its progress is on the page of jobs.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceq.client.tasks.manager import AsyncQueueManager
from onceq.console.given import Given
from onceq.console.limits import JOB_WAIT_S
from onceq.console.reading import Told, may
from onceq.model.letters import Filter
from onceq.model.limits import RETURNS_MAX
from onceq.model.rights import Right
from onceq.model.views.work import JobView


async def jobs(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """Jobs that run, and the last that are over, the newest first."""
    found = [job.as_dict() for job in await qm.jobs()]
    return {"jobs": found[::-1], "may_act": await may(qm, Right.OPERATE)}


async def job(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """One job, with the first of those that failed, and where these were going."""
    found = await qm.job(_number(given))
    failures = [
        {**one.as_dict(), "destination": destination}
        for one, destination in zip(found.failures, await qm.job_destinations(found), strict=True)
    ]
    job = {**found.as_dict(), "failures": failures}
    return {"job": job, "may_act": await may(qm, Right.OPERATE)}


async def cancel(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """End a job between two batches: what is done stays done."""
    return {"job": (await qm.cancel_job(_number(given))).as_dict()}


def _number(given: Given) -> int:
    given.text("number", needed=True)
    return given.number("number", 0, least=1)


async def started(
    qm: AsyncQueueManager,
    action: str,
    queues: Sequence[str],
    which: Filter,
    given: Given,
    *,
    limit: int = 0,
) -> JobView:
    """A job that was started, as it is after a moment; raises OnceqError."""
    made = await qm.start_job(
        action, *queues, which=which, to=given.text("to"), limit=limit,
        returns_max=given.number("max_returns", RETURNS_MAX, least=1),
        in_doubt=given.flag("in_doubt"), second=given.flag("second"),
    )  # fmt: skip
    return await qm.wait_for_job(made.number, timeout=JOB_WAIT_S)


def told(found: JobView, done: str) -> Told:
    """What is told of it; ``done`` is the word for what has become of messages."""
    return {
        done: found.done, "kept": dict(found.kept), "more": found.more, "failed": found.failed,
        "job": found.number, "state": found.state, "dry_run": False,
    }  # fmt: skip
