"""``onceq dead`` and ``onceq journal``, where they do something: send home, send as new, remove."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from onceq.cli import out
from onceq.cli.common import DryRun, Json, Where, Yes, agreed, dumped, manager
from onceq.cli.jobs import NoWait, told
from onceq.cli.letter_choice import (
    Copies,
    Destination,
    Ids,
    JournalOf,
    Label,
    Limit,
    Older,
    Origin,
    Queue,
    Reason,
    To,
    Younger,
    dead_queues,
    filter_from,
    journal_queues,
    missing,
)
from onceq.cli.parameters import Option
from onceq.errors import UnsupportedOperation
from onceq.model.letters import ALL, Filter, filter_of
from onceq.model.limits import RETURN_MESSAGES_MAX, RETURNS_MAX
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.model.views.jobs import JobView


def return_dead(
    queue: Queue = "", reason: Reason = "", destination: Destination = "", label: Label = "",
    origin: Origin = "", older: Older = "", younger: Younger = "", id: Ids = None,
    to: To = "",
    limit: Limit = RETURN_MESSAGES_MAX,
    max_returns: Annotated[
        int,
        Option("--max-returns", metavar="N", min=1, help="None that was returned so often."),
    ] = RETURNS_MAX,
    in_doubt: Annotated[
        bool,
        Option("--in-doubt", help="Also those that may have been received: they may be "
                     "received twice then."),
    ] = False,
    second: Annotated[
        bool,
        Option("--second", help="Also those of which their sender has another dead letter: "
                     "return one of the two only."),
    ] = False,
    no_wait: NoWait = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Send dead letters to their destinations again, as a job of the queue manager.

    Each is sent and removed in one step: it is never in two places, and never in none. It counts
    how often it was returned, and one that was returned too often stays. Bodies and properties are
    as they were; times begin anew. Ctrl-C ends the command, and the job goes on. Letters that are
    named by --id are returned at once.
    """
    from onceq.client.threads.letters import give_back

    which = filter_from(reason, destination, label, origin, older, younger, id)
    with manager(qm) as connection:
        if to and (dry_run or id):
            connection.open_queue(to, access="send").close()  # one that is not there is told now
        job = None if dry_run or id else _started(
            connection, "return", *dead_queues(queue), which=which, to=to, limit=limit,
            returns_max=max_returns, in_doubt=in_doubt, second=second,
        )  # fmt: skip
        if job is not None:
            told(connection, job, no_wait=no_wait, json=json, noun="dead letter")
            return
        found = give_back(
            connection, dead_queues(queue), which, int(time.time()), to=to, limit=limit,
            returns_max=max_returns, in_doubt=in_doubt, second=second, dry_run=dry_run,
        )  # fmt: skip
    kept = Counter(reason for _, reason in found.kept)
    said = {"returned": found.sent, "kept": dict(kept), "more": found.more, "dry_run": dry_run}
    if to:
        said["were_for"] = {out.name(name): count for name, count in found.were_for.items()}
    if dumped(said, json):
        return
    done = "would be returned" if dry_run else "returned"
    out.line(f"{plural(found.sent, 'dead letter')} {done}{f' to {to}' if to else ''}")
    for name, count in found.were_for.items() if to else ():
        out.line(f"{count} of them {'was' if count == 1 else 'were'} for {name}")
    for why, count in sorted(kept.items()):
        out.line(f"{count} stay{'s' if count == 1 else ''}: {why}")
    if found.more:
        out.line(f"there are more; --limit {limit} stopped it")
    _note_missing(which)


def _note_missing(which: Filter) -> None:
    for name in missing(which):
        out.note(f"there is no message {name} here")


def _started(connection: QueueManager, action: str, *queues: str, **how: Any) -> JobView | None:
    """A job; None: the queue manager is of before there were jobs, and this command does it all."""
    try:
        return connection.start_job(action, *queues, **how)
    except UnsupportedOperation:
        return None


def send_dead_as_new(
    queue: Queue = "", reason: Reason = "", destination: Destination = "", label: Label = "",
    origin: Origin = "", older: Older = "", younger: Younger = "", id: Ids = None,
    to: To = "",
    limit: Limit = RETURN_MESSAGES_MAX,
    in_doubt: Annotated[
        bool,
        Option("--in-doubt", help="Also those that may have been received."),
    ] = False,
    no_wait: NoWait = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Send messages like dead letters to their destinations, and keep the letters.

    Each is a new message that was never returned; the letter stands as it stood, until it is
    purged. It is a job of the queue manager: Ctrl-C ends the command, and the job goes on.
    """
    which = filter_from(reason, destination, label, origin, older, younger, id)
    with manager(qm) as connection:
        if dry_run:
            if to:
                connection.open_queue(to, access="send").close()
            now_s = int(time.time())
            count = _removed(connection, dead_queues(queue), which, now_s, dry_run=True)
            count = min(count, limit)
            if not dumped({"sent_as_new": 0, "would_be": count, "dry_run": True}, json):
                out.line(f"{plural(count, 'dead letter')} would be sent as new")
            return
        for one in _each(connection, dead_queues(queue), which) if id else [which]:
            job = connection.start_job(
                "send-as-new", *dead_queues(queue), which=one, to=to, limit=limit, in_doubt=in_doubt
            )
            told(connection, job, no_wait=no_wait, json=json, noun="dead letter")


def _each(connection: QueueManager, queues: list[str], which: Filter) -> list[Filter]:
    """A filter for each of the letters that are named: a job knows one whole identifier."""
    from onceq.client.threads.letters import letters

    found = letters(connection, queues, which, int(time.time()))
    return [filter_of(id=id) for id in dict.fromkeys(str(one.message.id) for one in found)]


def purge_dead(
    queue: Queue = "", reason: Reason = "", destination: Destination = "", label: Label = "",
    origin: Origin = "", older: Older = "", younger: Younger = "", id: Ids = None, yes: Yes = False,
    no_wait: NoWait = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Remove dead letters for good, as a job of the queue manager. It asks first."""
    which = filter_from(reason, destination, label, origin, older, younger, id)
    _purge(
        dead_queues(queue),
        which,
        qm,
        yes,
        dry_run,
        json,
        "dead letter",
        no_wait=no_wait,
        one=bool(id),
    )


def purge_journal(
    queue: JournalOf = "", destination: Destination = "", label: Label = "", older: Older = "",
    younger: Younger = "", id: Copies = None, yes: Yes = False,
    no_wait: NoWait = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Remove copies for good. It asks first; nothing else empties a journal."""
    which = filter_from("", destination, label, "", older, younger, id)
    _purge(
        journal_queues(queue), which, qm, yes, dry_run, json, "copy", no_wait=no_wait, one=bool(id)
    )


def _purge(
    queues: list[str], which: Filter, qm: str | None, yes: bool, dry_run: bool, json: bool,
    noun: str, *, no_wait: bool, one: bool,
) -> None:  # fmt: skip
    now_s = int(time.time())
    with manager(qm) as connection:
        if dry_run or not yes:
            count = _count(connection, queues, which, now_s)
            if not dry_run and count:
                agreed(f"remove {plural(count, noun)} for good?", yes=yes)
        job = None if dry_run or one else _started(connection, "purge", *queues, which=which)
        if job is not None:
            told(connection, job, no_wait=no_wait, json=json, noun=noun)
            return
        if not dry_run:
            count = _removed(connection, queues, which, now_s, dry_run=False)
    if dumped({"removed": 0 if dry_run else count, "would_be": count, "dry_run": dry_run}, json):
        return
    out.line(f"{plural(count, noun)} {'would be' if dry_run else ''} removed".replace("  ", " "))
    _note_missing(which)


def _count(connection: QueueManager, queues: list[str], which: Filter, now_s: int) -> int:
    if which == ALL:
        return sum(connection.queue(queue).messages for queue in queues)
    return _removed(connection, queues, which, now_s, dry_run=True)


def _removed(
    connection: QueueManager, queues: list[str], which: Filter, now_s: int, *, dry_run: bool
) -> int:
    """Remove letters, or count those that would be."""
    from onceq.client.threads.letters import discard

    return discard(connection, queues, which, now_s, dry_run=dry_run)
