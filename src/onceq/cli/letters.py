"""``onceq dead`` and ``onceq journal``, where they do something: send home, send as new, remove."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from onceq.cli import out
from onceq.cli.common import DryRun, Json, Where, Yes, agreed, dumped, manager
from onceq.cli.jobs import NoWait, count_standing, say_held, told
from onceq.cli.letter_choice import (
    Copies,
    Destination,
    Ids,
    JournalOf,
    Label,
    Limit,
    Looked,
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
from onceq.errors import OnceqError, UnsupportedOperation
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
        queues = dead_queues(connection, queue)
        job = None if dry_run or id else _started(
            connection, "return", *queues, which=which, to=to, limit=limit,
            returns_max=max_returns, in_doubt=in_doubt, second=second,
        )  # fmt: skip
        if job is not None:
            told(connection, job, no_wait=no_wait, json=json, noun="dead letter")
            return
        with _counting("dead letter", "returned") as progress:
            found = give_back(
                connection, queues, which, int(time.time()), to=to, limit=limit,
                returns_max=max_returns, in_doubt=in_doubt, second=second, dry_run=dry_run,
                progress=progress,
            )  # fmt: skip
        kept = Counter(reason for _, reason in found.kept)
        held = count_standing(connection, queues)[1] if dry_run else 0
    said = {"returned": found.sent, "kept": dict(kept), "more": found.more, "held": held,
            "dry_run": dry_run}  # fmt: skip
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
    say_held(held, queues)
    _note_missing(which)


@contextmanager
def _counting(noun: str, done: str) -> Iterator[Callable[[int], None]]:
    """Say how many are done where something ends in the middle; it is told each time."""
    count = 0

    def progress(now: int) -> None:
        nonlocal count
        count = now

    try:
        yield progress
    except (OnceqError, KeyboardInterrupt):
        out.note(f"{plural(count, noun)} {done} before this")
        raise


def _note_missing(which: Filter) -> None:
    for name in missing(which):
        out.note(f"there is no message {name} here, or a transaction holds it")


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
    from onceq.client.threads.letters import letters

    which = filter_from(reason, destination, label, origin, older, younger, id)
    with manager(qm) as connection:
        queues = dead_queues(connection, queue)
        if dry_run:
            if to:
                connection.open_queue(to, access="send").close()
            found = letters(connection, queues, which, int(time.time()))
            count = min(sum(in_doubt or not one.in_doubt for one in found), limit)
            if not dumped({"sent_as_new": 0, "would_be": count, "dry_run": True}, json):
                out.line(f"{plural(count, 'dead letter')} would be sent as new")
            return
        for one in _each(connection, queues, which) if id else [which]:
            job = connection.start_job(
                "send-as-new", *queues, which=one, to=to, limit=limit, in_doubt=in_doubt
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
        partial(dead_queues, queue=queue),
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
        lambda _: journal_queues(queue),
        which,
        qm,
        yes,
        dry_run,
        json,
        "copy",
        no_wait=no_wait,
        one=bool(id),
    )


def _purge(
    of: Callable[[Looked], list[str]], which: Filter, qm: str | None, yes: bool, dry_run: bool,
    json: bool, noun: str, *, no_wait: bool, one: bool,
) -> None:  # fmt: skip
    from onceq.client.threads.letters import discard

    now_s = int(time.time())
    with manager(qm) as connection:
        queues = of(connection)
        if dry_run or not yes:
            count = _count(connection, queues, which, now_s)
            if not dry_run and count:
                agreed(f"remove {plural(count, noun)} for good?", yes=yes)
        job = None if dry_run or one else _started(connection, "purge", *queues, which=which)
        if job is not None:
            told(connection, job, no_wait=no_wait, json=json, noun=noun)
            return
        if not dry_run:
            with _counting(noun, "removed") as progress:
                count = discard(connection, queues, which, now_s, progress=progress)
    if dumped({"removed": 0 if dry_run else count, "would_be": count, "dry_run": dry_run}, json):
        return
    out.line(f"{plural(count, noun)} {'would be' if dry_run else ''} removed".replace("  ", " "))
    _note_missing(which)


def _count(connection: QueueManager, queues: list[str], which: Filter, now_s: int) -> int:
    if which == ALL:
        return count_standing(connection, queues)[0]
    from onceq.client.threads.letters import discard

    return discard(connection, queues, which, now_s, dry_run=True)
