"""Dead letters: by reason, one by one, sent home, removed for good; and the jobs that do it.

Letters are counted by their headers. To send them home or as new, and to remove them, are jobs of
the queue manager. A button that is about many messages starts a job and waits a moment for it; if
it takes longer, its progress is on the page of jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from onceq.client.tasks.letters import discard, give_back
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.console.guard import (
    JOB_WAIT_S,
    LETTERS_MAX,
    PAGE_MESSAGES,
    ROWS_LIMIT,
    ROWS_MAX,
    FormValues,
)
from onceq.console.reading import Told, id_of, may
from onceq.errors import ReceiveTimeout
from onceq.model.identity import guid_bytes
from onceq.model.letters import DEAD, DEAD_XACT, Filter, Letter, filter_of
from onceq.model.limits import RETURN_MESSAGES_MAX, RETURNS_MAX
from onceq.model.message import MessageHeaders
from onceq.model.resultcodes import class_name
from onceq.model.rights import Right
from onceq.model.views.looks import JobView

FILTER = ("reason", "destination", "label", "origin", "older_than", "younger_than", "id")


async def queues_of(qm: AsyncQueueManager, given: FormValues) -> list[str]:
    """The dead-letter queue that is meant, or both of the system's and what policies have moved
    aside."""
    named = given.text("queue")
    if named:
        return [named]
    return [DEAD_XACT, DEAD, *(one.path for one in await qm.queues(only="poison"))]


def which(given: FormValues) -> Filter:
    """The filter that a request names; raises InvalidParameter."""
    return filter_of(
        reason=given.text("reason"), destination=given.text("destination"),
        label=given.text("label"), origin=given.text("origin"), id=given.text("id"),
        older_s=given.seconds("older_than"), younger_s=given.seconds("younger_than"),
    )  # fmt: skip


async def dead(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Dead letters that fit: how many for each reason, how old the oldest is, and a page of them,
    the oldest first."""
    limit = given.number("limit", ROWS_MAX, least=1, most=ROWS_LIMIT)
    wanted, here = which(given), guid_bytes(qm.id)
    counts: Counter[str] = Counter()
    oldest: dict[str, int] = {}
    rows: list[tuple[int, Letter, int]] = []
    looked, more = 0, False
    for queue in await queues_of(qm, given):
        after = 0
        while not more:
            try:
                page: list[MessageHeaders] = await qm.peek_headers(
                    queue, PAGE_MESSAGES, after=after
                )
            except ReceiveTimeout:
                break
            after = page[-1].message.lookup_id
            looked += len(page)
            more = looked >= LETTERS_MAX
            for one in page:
                letter = Letter(queue, one.message, here)
                if not wanted.fits(letter, now_s):
                    continue
                age = max(now_s - one.message.arrived_time, 0)
                reason = letter.reason or class_name(one.message.message_class)
                counts[reason] += 1
                oldest[reason] = max(oldest.get(reason, 0), age)
                rows.append((age, letter, one.body_bytes))
    rows.sort(key=lambda row: -row[0])
    return {
        "reasons": [
            {"reason": reason, "count": count, "oldest_s": oldest[reason]}
            for reason, count in counts.most_common()
        ],
        "count": len(rows), "looked": looked, "more": more,
        "letters": [_row(letter, size, age) for age, letter, size in rows[:limit]],
        "may_act": await may(qm, Right.OPERATE),
    }  # fmt: skip


def _row(letter: Letter, body_bytes: int, age_s: int) -> Told:
    message = letter.message
    return {
        "queue": letter.queue,
        "lookup_id": str(message.lookup_id),
        "id": id_of(message),
        "reason": letter.reason or class_name(message.message_class),
        "class": f"{message.message_class:#06x}",
        "why": letter.why,
        "second": letter.second,
        "in_doubt": letter.in_doubt,
        "returned": message.returned,
        "attempts": message.attempts,
        "failure": message.failure,
        "destination": message.destination,
        "label": message.label,
        "body_bytes": body_bytes,
        "age_s": age_s,
    }


async def preview_return(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """What ``dead/return`` would do; nothing is changed."""
    would = await give_back(
        qm, await queues_of(qm, given), which(given), now_s, to=given.text("to"),
        limit=given.number("limit", RETURN_MESSAGES_MAX, least=1, most=RETURN_MESSAGES_MAX),
        returns_max=given.number("max_returns", RETURNS_MAX, least=1),
        in_doubt=given.flag("in_doubt"), second=given.flag("second"), dry_run=True,
    )  # fmt: skip
    return {"returned": would.sent, "kept": would.kept, "more": would.more, "dry_run": True}


async def return_home(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Send dead letters to their destinations again, as a job. Each is sent and removed in one
    step."""
    if given.flag("dry_run"):
        return await preview_return(qm, given, now_s)
    limit = given.number("limit", RETURN_MESSAGES_MAX, least=1, most=RETURN_MESSAGES_MAX)
    made = await start_job(
        qm, "return", await queues_of(qm, given), which(given), given, limit=limit
    )
    return job_result(made, "returned")


async def preview_new(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """What ``dead/send-as-new`` would do; nothing is changed."""
    count = await discard(qm, await queues_of(qm, given), which(given), now_s, dry_run=True)
    return {"sent_as_new": min(count, RETURN_MESSAGES_MAX), "dry_run": True}


async def send_as_new(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Send messages like dead letters to their destinations, as a job; the letters stay."""
    if given.flag("dry_run"):
        return await preview_new(qm, given, now_s)
    limit = given.number("limit", RETURN_MESSAGES_MAX, least=1, most=RETURN_MESSAGES_MAX)
    made = await start_job(
        qm, "send-as-new", await queues_of(qm, given), which(given), given, limit=limit
    )
    return job_result(made, "sent_as_new")


async def preview_purge(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """What ``dead/purge`` would remove; nothing is changed."""
    count = await discard(qm, await queues_of(qm, given), which(given), now_s, dry_run=True)
    return {"removed": count, "dry_run": True}


async def purge(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Remove dead letters for good, as a job."""
    if given.flag("dry_run"):
        return await preview_purge(qm, given, now_s)
    made = await start_job(qm, "purge", await queues_of(qm, given), which(given), given)
    return job_result(made, "removed")


async def list_jobs(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Jobs that run, and the last that are over, the newest first."""
    found = [job.as_dict() for job in await qm.jobs.list()]
    return {"jobs": found[::-1], "may_act": await may(qm, Right.OPERATE)}


async def show_job(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """One job, with the first of those that failed, and where these were going."""
    found = await qm.jobs.get(_number(given))
    failures = [
        {**one.as_dict(), "destination": destination}
        for one, destination in zip(found.failures, await qm.jobs.destinations(found), strict=True)
    ]
    job = {**found.as_dict(), "failures": failures}
    return {"job": job, "may_act": await may(qm, Right.OPERATE)}


async def cancel_job(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """End a job between two batches: what is done stays done."""
    return {"job": (await qm.jobs.cancel(_number(given))).as_dict()}


def _number(given: FormValues) -> int:
    given.text("number", needed=True)
    return given.number("number", 0, least=1)


async def start_job(
    qm: AsyncQueueManager,
    action: str,
    queues: Sequence[str],
    which: Filter,
    given: FormValues,
    *,
    limit: int = 0,
) -> JobView:
    """Start a job, and return its state a moment later; raises OnceqError."""
    made = await qm.jobs.start(
        action, *queues, which=which, to=given.text("to"), limit=limit,
        returns_max=given.number("max_returns", RETURNS_MAX, least=1),
        in_doubt=given.flag("in_doubt"), second=given.flag("second"),
    )  # fmt: skip
    return await qm.jobs.wait(made.number, timeout=JOB_WAIT_S)


def job_result(found: JobView, done: str) -> Told:
    """Return the result of a job as JSON; ``done`` is the word for what it did to messages."""
    return {
        done: found.done, "kept": dict(found.kept), "more": found.more, "failed": found.failed,
        "job": found.number, "state": found.state, "dry_run": False,
    }  # fmt: skip
