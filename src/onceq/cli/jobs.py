"""``onceq job``: what a queue manager does to many messages; and how a command follows one.

A command that follows a job is a spectator: Ctrl-C ends the command, and the job goes on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from onceq.cli import out
from onceq.cli.common import (
    Argument,
    DryRun,
    Exit,
    Json,
    Option,
    Where,
    Yes,
    age,
    agreed,
    asking,
    complete_queue,
    dumped,
    manager,
)
from onceq.errors import InvalidParameter, ServiceNotAvailable, every
from onceq.model.letters import JobAction, filter_of
from onceq.model.limits import RETURNS_MAX
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.model.views.looks import JobView

TELL_S: Final = 1.0
"""How far a job is, is told so often."""
NAMED_MAX: Final = 10
"""Messages that failed are named, if they are not more; 'job show' names the others."""
DONE: Final = {
    "return": "returned",
    "purge": "removed",
    "move": "moved",
    "send-as-new": "sent as new",
}
"""What has become of messages that a job has done."""

Number = Annotated[int, Argument(metavar="ID", help="As 'job list' shows it.", min=1)]
NoWait = Annotated[bool, Option("--no-wait", help="Print the job's number and do not wait.")]
Queues = Annotated[
    list[str],
    Argument(metavar="QUEUE...", help="Whose messages.", autocompletion=complete_queue),
]
Action = Annotated[
    str,
    Argument(metavar="ACTION", help=f"{', '.join(one.value for one in JobAction)}."),
]


def start(
    action: Action, queues: Queues,
    to: Annotated[str, Option("--to", metavar="NAME", show_default=False,
                              help="Destination of all; 'move' needs one.")] = "",
    reason: Annotated[str, Option("--reason", metavar="REASON", show_default=False,
                                  help="Of dead letters, as 'dead list' has it.")] = "",
    destination: Annotated[str, Option("--destination", metavar="TEXT", show_default=False,
                                       help="Part of the name.")] = "",
    label: Annotated[str, Option("--label", metavar="TEXT", show_default=False,
                                 help="Part of the label.")] = "",
    older: Annotated[str, Option("--older-than", metavar="AGE", show_default=False,
                                 help="Such as 30s, 5m, 2h or 1d.")] = "",
    younger: Annotated[str, Option("--younger-than", metavar="AGE", show_default=False,
                                   help="Likewise.")] = "",
    limit: Annotated[int, Option("--limit", "-n", metavar="N", min=0,
                                 help="At most N messages; 0: all.")] = 0,
    no_wait: NoWait = False, yes: Yes = False, dry_run: DryRun = False, qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Return, copy, move or purge the messages that are in some queues now, as a job.

    'return' sends each to its destination again and removes it here; 'send-as-new' sends one like
    it and keeps it; 'move' sends it to the queue --to and removes it here; 'purge' removes it, and
    asks first. The job goes on after this command, and after a crash.
    """
    which = filter_of(
        reason=reason, destination=destination, label=label, older_s=age(older),
        younger_s=age(younger),
    )  # fmt: skip
    with manager(qm, name=queues[0]) as connection:
        stand, held = count_standing(connection, queues)
        if dry_run:
            if not dumped({"messages": stand, "held": held, "dry_run": True}, json):
                out.line(f"would look at {plural(stand, 'message')}; nothing was changed")
                say_held(held, queues)
            return
        if action == JobAction.PURGE.value and stand:
            agreed(f"remove what fits of {plural(stand, 'message')} for good?", yes=yes)
        job = connection.jobs.start(
            action, *queues, which=which, to=to, limit=limit, returns_max=RETURNS_MAX
        )
        report_job(connection, job, no_wait=no_wait, json=json)


def show_job(number: Number, qm: Where = None, json: Json = False) -> None:
    """Show one job: how far it is, what stays and why, which messages failed and where to."""
    with asking(qm) as connection:
        job = connection.jobs.get(number)
    destinations = []
    if job.failures:
        with manager(qm) as whole:
            destinations = whole.jobs.destinations(job)
    failures = list(zip(job.failures, destinations, strict=True))
    told = [{**one.as_dict(), "destination": destination} for one, destination in failures]
    if dumped({**job.as_dict(), "failures": told}, json):
        return
    _facts(job)
    _stays(job)
    for one, destination in failures:
        where = f"in {out.name(one.queue)}"
        where += f", for {out.name(destination)}" if destination else ""
        out.line(f"failed: {one.id or one.lookup_id} {where}: {one.text}")


def cancel_job(
    number: Number, yes: Yes = False, dry_run: DryRun = False, qm: Where = None, json: Json = False
) -> None:
    """End a job: what is done stays done, the rest stands where it stood."""
    with manager(qm) as connection:
        job = connection.jobs.get(number)
        if not job.over and not dry_run:
            agreed(f"end job {number}, {job.looked:,} of {job.total:,} looked at?", yes=yes)
            job = connection.jobs.cancel(number)
    if dumped(job, json):
        return
    if not job.over:
        out.line(f"would end job {number}; nothing was changed")
        return
    out.line(f"job {number} is {job.state}: {plural(job.done, 'message')} {DONE[job.action]}")


def follow_job(number: Number, qm: Where = None, json: Json = False) -> None:
    """Wait until a job is over, and say how far it is; Ctrl-C ends this command, not the job."""
    with manager(qm) as connection:
        report_job(connection, connection.jobs.get(number), no_wait=False, json=json)


# ---- what other commands do with a job -----------------------------------------------------------


def report_job(
    connection: QueueManager,
    job: JobView,
    *,
    no_wait: bool,
    json: bool,
    noun: str = "message",
    were_for: Mapping[str, int] | None = None,
) -> None:
    """Wait for a job, and print what it has done.

    Args:
        were_for: Destinations of the messages that were named, each with how many; said if all of
            them went elsewhere.

    Raises:
        Exit: It has failed, or some of its messages have; with the code of the first error.
    """
    if no_wait and job.number:
        if not dumped(job, json):
            out.line(str(job.number))
            out.note(f"'onceq job follow {job.number}' says how far it is")
        return
    job = _followed(connection, job) if job.number else job
    known = dict(were_for or {}) if job.done == sum((were_for or {}).values()) else {}
    if not dumped({**job.as_dict(), "dry_run": False, DONE[job.action].replace(" ", "_"): job.done,
                   **({"were_for": known} if known else {})}, json):  # fmt: skip
        out.line(f"{plural(job.done, noun)} {DONE[job.action]}")
        say_destinations(known)
        _stays(job)
    if job.torn:
        out.note(
            f"{job.torn:,} went without others of the transaction that had sent them: who receives "
            "whole transactions is not given them as complete"
        )
    for one in job.failures[:NAMED_MAX]:
        out.note(f"failed: {one.id}: {one.text}")
    if job.failed > NAMED_MAX:
        out.note(f"{job.failed:,} failed; 'onceq job show {job.number}' names more of them")
    if job.state != "done":
        out.note(f"job {job.number} is {job.state}: {job.why}")
    if job.failed or job.state != "done":
        kinds = every()
        codes = (kinds[one.code].exit_code for one in job.failures if one.code in kinds)
        raise Exit(next(codes, InvalidParameter.exit_code if job.failed else 3))


def no_job(action: str) -> JobView:
    """In place of a job where there is nothing to do, and none was started."""
    from onceq.model.views.looks import JobView

    return JobView(action=action, state="done")


def say_destinations(were_for: Mapping[str, int]) -> None:
    """Print where messages were going that go elsewhere."""
    for name, count in were_for.items():
        out.line(f"{count} of them {'was' if count == 1 else 'were'} for {name}")


def _followed(connection: QueueManager, job: JobView) -> JobView:
    said_at = time.monotonic()
    trouble = ""

    def progress(now: JobView) -> None:
        nonlocal said_at, trouble
        if now.trouble and now.trouble != trouble:
            trouble = now.trouble
            out.note(f"job {now.number} waits: {trouble}")
        if not now.over and time.monotonic() - said_at >= TELL_S:
            said_at = time.monotonic()
            out.note(f"job {now.number}: {now.looked:,} of {now.total:,} looked at, "
                     f"{now.done:,} done")  # fmt: skip

    try:
        return connection.jobs.wait(job.number, progress=progress)
    except ServiceNotAvailable:
        out.note(
            f"job {job.number} goes on when the queue manager runs again; 'onceq job follow "
            f"{job.number}' shows it"
        )
        raise
    except KeyboardInterrupt:
        out.note(
            f"job {job.number} goes on; 'onceq job follow {job.number}' shows it, "
            f"'onceq job cancel {job.number}' ends it"
        )
        raise


def count_standing(connection: QueueManager, queues: Sequence[str]) -> tuple[int, int]:
    """How many messages of some queues a job would look at, and how many transactions hold."""
    found = [connection.queue(queue) for queue in queues]
    held = sum(queue.locked for queue in found)
    return sum(queue.messages for queue in found) - held, held


def say_held(held: int, queues: Sequence[str]) -> None:
    """Print what a job passes over, if there is any of it."""
    if held:
        out.line(
            f"{plural(held, 'message')} in {' or '.join(map(out.name, queues))} "
            f"{'is' if held == 1 else 'are'} held by transactions now, and passed over"
        )


def _stays(job: JobView) -> None:
    for why, count in sorted(job.kept.items()):
        out.line(f"{count:,} stay{'s' if count == 1 else ''}: {why}")
    if job.gone:
        out.line(f"{plural(job.gone, 'message')} had gone before")
    say_held(job.held, job.queues)
    if job.more:
        out.line(f"there are more; --limit {job.limit} stopped it")


def _facts(job: JobView) -> None:
    out.facts(
        [
            ("job", job.number),
            ("action", job.action),
            ("queues", ", ".join(map(out.name, job.queues))),
            *([("to", out.name(job.to))] if job.to else []),
            *([("which", ", ".join(f"{name}={value}" for name, value in job.which.items()))]
              if job.which else []),
            *([("limit", job.limit)] if job.limit else []),
            ("state", f"{job.state}: {job.why}" if job.why else job.state),
            *([("waits", out.sentence(job.trouble))] if job.trouble else []),
            ("by", job.who or "the user who runs the queue manager"),
            ("began", out.when(job.began)),
            ("ended", out.when(job.ended)),
            ("looked at", f"{job.looked:,} of {job.total:,}"),
            ("done", job.done),
            *([("torn", f"{job.torn:,} went without others of their transaction")]
              if job.torn else []),
            ("failed", job.failed),
        ]
    )  # fmt: skip
