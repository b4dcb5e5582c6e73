"""Jobs through a connection: start one, look at it, cancel it.

Upholds: what is started runs in the queue manager: whoever goes away stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from onceq.client.plans.plan import Plan, ask, look
from onceq.client.session import Session
from onceq.errors import ReceiveTimeout, Refused, UsageError
from onceq.model import requests
from onceq.model.letters import ALL, Filter
from onceq.model.limits import RETURNS_MAX
from onceq.model.views import looks
from onceq.model.views.work import JobFailure, JobView

LOOK_S: Final = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Who waits for a job looks at it after these times; the last one is repeated."""


def start_job(
    session: Session, /, action: str, *queues: str, which: Filter = ALL, to: str = "",
    limit: int = 0, returns_max: int = RETURNS_MAX, in_doubt: bool = False, second: bool = False,
) -> Plan[JobView]:  # fmt: skip
    """Do something to the messages that stand in some queues now: as a job of the queue manager,
    which goes on when this application has gone, and after a crash.

    Args:
        action: ``return`` (to its destination), ``purge``, ``move`` (to another queue), or
            ``send-as-new`` (to its destination, and the message stays).
        queues: Such as ``onceq.letters.DEAD_XACT``.
        which: What fits is meant (``onceq.letters.filter_of``); ages count from now.
        to: Another destination for all of them; ``move`` needs one.
        limit: It ends after so many; 0: when all were looked at.
        returns_max: What was returned so often stays.
        in_doubt, second: Also letters that may have been received; also those of which their
            sender has another one.

    Returns:
        number, state, total, looked, done, ...; once the job is durable.

    Raises:
        AccessDenied: The caller might not do that by hand.
        QueueNotFound: There is no such queue.
        InvalidParameter: It makes no sense.
        InsufficientResources: JOBS_RUNNING_MAX jobs are running.
    """
    request = requests.StartJob(
        action, list(queues), to, limit, returns_max, in_doubt, second, which.reason,
        which.destination, which.label, which.origin, which.older_s, which.younger_s, which.id,
    )  # fmt: skip
    return ask(request, JobView)


def jobs(session: Session) -> Plan[list[JobView]]:
    """Jobs that run, and the last that are over, the oldest first, without ``failures``."""
    return look(looks.JOBS)


def job(session: Session, number: int) -> Plan[JobView]:
    """One job, and its first JOB_FAILURES_MAX ``failures``; raises InvalidParameter."""
    return look(looks.JOB, str(number))


def job_destinations(session: Session, job: JobView) -> Plan[list[str]]:
    """Where the messages of a job's ``failures`` were going, one for each; a job may have sent them
    elsewhere. A job keeps no destinations: each message is looked at where it stands.

    Returns:
        The destination of each; "" for one that does not stand there any more, or may not be looked
        at.
    """
    found: list[str] = []
    hidden: set[str] = set()
    for one in job.failures:
        destination = ""
        if one.queue not in hidden:
            try:
                destination = yield from _destination(session, one)
            except (Refused, UsageError):
                # The others in it are not asked for: each refusal would be an act on record.
                hidden.add(one.queue)
        found.append(destination)
    return found


def _destination(session: Session, one: JobFailure) -> Plan[str]:
    # Who only looks at jobs reads no messages, and does not wait until what reads them is loaded.
    from onceq.client.plans.receive import peek_headers

    try:
        page = yield from peek_headers(session, one.queue, 1, after=max(one.lookup_id - 1, 0))
    except ReceiveTimeout:
        return ""
    message = page[0].message
    return message.destination if message.lookup_id == one.lookup_id else ""


def cancel_job(session: Session, number: int) -> Plan[JobView]:
    """End a job between two batches: what is done stays done. One that is over stays as it is.

    Raises:
        AccessDenied: Somebody else has started it, and the caller does not operate the queue
            manager.
        InvalidParameter: There is none of that number.
    """
    return ask(requests.CancelJob(number), JobView)


def pauses() -> Iterator[float]:
    """Seconds between two looks at a job."""
    yield from LOOK_S
    while True:
        yield LOOK_S[-1]
