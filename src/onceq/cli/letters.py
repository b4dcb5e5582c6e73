"""``onceq dead`` and ``onceq journal``, where they do something: send home, send as new, remove."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import DryRun, Json, Where, Yes, agreed, dumped, manager
from onceq.cli.jobs import (
    NoWait,
    count_standing,
    no_job,
    say_destinations,
    say_held,
    told,
)
from onceq.cli.letter_choice import (
    Chosen,
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
from onceq.model.letters import ALL, Filter, filter_of
from onceq.model.limits import RETURN_MESSAGES_MAX, RETURNS_MAX
from onceq.model.record import names
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager


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
    as they were; times begin again. Ctrl-C ends the command, and the job goes on.
    """
    from onceq.client.threads.letters import give_back

    which = filter_from(reason, destination, label, origin, older, younger, id)
    with manager(qm) as connection:
        if to and (dry_run or id):
            connection.open_queue(to, access="send").close()  # one that is not there is told now
        queues = dead_queues(connection, queue)
        if not dry_run:
            meant, were_for = _named(connection, queues, which)
            job = meant and connection.start_job(
                "return", *queues, which=meant, to=to, limit=limit, returns_max=max_returns,
                in_doubt=in_doubt, second=second,
            )  # fmt: skip
            told(
                connection, job or no_job("return"), no_wait=no_wait, json=json, noun="dead letter",
                were_for=were_for if to else None,
            )  # fmt: skip
            _note_missing(which)
            return
        found = give_back(
            connection, queues, which, int(time.time()), to=to, limit=limit,
            returns_max=max_returns, in_doubt=in_doubt, second=second, dry_run=True,
        )  # fmt: skip
        held = count_standing(connection, queues)[1]
    said = {"returned": found.sent, "kept": found.kept, "more": found.more, "held": held,
            "dry_run": True}  # fmt: skip
    if to:
        said["were_for"] = {out.name(name): count for name, count in found.were_for.items()}
    if dumped(said, json):
        return
    out.line(f"{plural(found.sent, 'dead letter')} would be returned{f' to {to}' if to else ''}")
    if to:
        say_destinations(found.were_for)
    for why, count in sorted(found.kept.items()):
        out.line(f"{count} stay{'s' if count == 1 else ''}: {why}")
    if found.more:
        out.line(f"there are more; --limit {limit} stopped it")
    say_held(held, queues)
    _note_missing(which)


def _named(
    connection: QueueManager, queues: list[str], which: Filter
) -> tuple[Filter | None, dict[str, int]]:
    """Return the whole identifiers of letters that are named, perhaps in the short form;
    None: none of them is there. And their destinations, each with how many."""
    if not isinstance(which, Chosen):
        return which, {}
    from onceq.client.threads.letters import letters

    found = list(letters(connection, queues, which, int(time.time())))
    ids = " ".join(dict.fromkeys(str(one.message.id) for one in found))
    rest = {name: getattr(which, name) for name in names(Filter)}
    were_for = Counter(out.name(one.message.destination) for one in found)
    return (filter_of(**(rest | {"id": ids})) if ids else None), dict(were_for)


def _note_missing(which: Filter) -> None:
    for name in missing(which):
        out.note(f"there is no message {name} here, or a transaction holds it")


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
        meant, _ = _named(connection, queues, which)
        job = meant and connection.start_job(
            "send-as-new", *queues, which=meant, to=to, limit=limit, in_doubt=in_doubt
        )
        told(
            connection, job or no_job("send-as-new"), no_wait=no_wait, json=json, noun="dead letter"
        )
        _note_missing(which)


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
    )


def _purge(
    of: Callable[[Looked], list[str]], which: Filter, qm: str | None, yes: bool, dry_run: bool,
    json: bool, noun: str, *, no_wait: bool,
) -> None:  # fmt: skip
    now_s = int(time.time())
    with manager(qm) as connection:
        queues = of(connection)
        if dry_run or not yes:
            count = _count(connection, queues, which, now_s)
            if not dry_run and count:
                agreed(f"remove {plural(count, noun)} for good?", yes=yes)
        if not dry_run:
            meant, _ = _named(connection, queues, which)
            job = meant and connection.start_job("purge", *queues, which=meant)
            told(connection, job or no_job("purge"), no_wait=no_wait, json=json, noun=noun)
            _note_missing(which)
            return
    if not dumped({"removed": 0, "would_be": count, "dry_run": True}, json):
        out.line(f"{plural(count, noun)} would be removed")
        _note_missing(which)


def _count(connection: QueueManager, queues: list[str], which: Filter, now_s: int) -> int:
    if which == ALL:
        return count_standing(connection, queues)[0]
    from onceq.client.threads.letters import discard

    return discard(connection, queues, which, now_s, dry_run=True)
