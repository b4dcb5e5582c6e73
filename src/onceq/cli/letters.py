"""``onceq dead`` and ``onceq journal``: what could not be delivered, and copies of what was."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from onceq.cli import out
from onceq.cli.common import DryRun, Json, Where, Yes, age, agreed, dumped, manager
from onceq.cli.jobs import NoWait, told
from onceq.cli.letter_choice import (
    chosen,
    complete_dead,
    complete_journal,
    complete_reason,
    missing,
    short,
)
from onceq.cli.parameters import Argument, Option
from onceq.cli.receiving import as_map
from onceq.client.threads.letters import (
    ALL,
    DEAD,
    DEAD_XACT,
    JOURNAL,
    REASONS,
    Filter,
    Letter,
    discard,
    filter_of,
    give_back,
    letters,
)
from onceq.client.threads.manager import QueueManager
from onceq.client.why import duration
from onceq.errors import QueueNotFound, UnsupportedOperation
from onceq.model.limits import RETURN_MESSAGES_MAX, RETURNS_MAX
from onceq.model.message_words import in_words
from onceq.model.time import NEVER_S
from onceq.model.views.jobs import JobView
from onceq.model.wording import plural

Queue = Annotated[
    str,
    Option(
        "--queue", metavar="QUEUE", show_default=False,
        help="A dead-letter queue of one's own [else both of the system's].",
    ),
]  # fmt: skip
JournalOf = Annotated[
    str,
    Argument(
        metavar="[QUEUE]", show_default=False,
        help="Journal of this queue [else of the computer].",
    ),
]  # fmt: skip
Reason = Annotated[
    str,
    Option(
        "--reason", metavar="REASON", show_default=False, autocompletion=complete_reason,
        help=f"{', '.join(REASONS)}, or a class such as 8003 or nack-queue-exceed-quota.",
    ),
]  # fmt: skip
Destination = Annotated[
    str,
    Option("--destination", metavar="TEXT", show_default=False, help="A part of the name."),
]
Label = Annotated[str, Option("--label", metavar="TEXT", show_default=False, help="A part of it.")]
Origin = Annotated[
    str,
    Option("--origin", metavar="GUID", show_default=False, help="Sent by this manager."),
]
Older = Annotated[
    str,
    Option("--older-than", metavar="AGE", show_default=False, help="Such as 30s, 5m, 2h or 1d."),
]
Younger = Annotated[
    str, Option("--younger-than", metavar="AGE", show_default=False, help="Likewise.")
]
Ids = Annotated[
    list[str] | None,
    Option("--id", metavar="MESSAGE-ID", show_default=False,
           help="These messages only; it may be given several times.",
           autocompletion=complete_dead),
]  # fmt: skip
Copies = Annotated[
    list[str] | None,
    Option("--id", metavar="MESSAGE-ID", show_default=False,
           help="These messages only; it may be given several times.",
           autocompletion=complete_journal),
]  # fmt: skip
To = Annotated[
    str,
    Option("--to", metavar="NAME", show_default=False, help="Another destination for all."),
]
Limit = Annotated[int, Option("--limit", "-n", metavar="N", min=1, help="At most so many.")]

GIVE = ("size", "class", "message", "returned", "age", "destination", "label", "destination")
"""Columns that leave, or become short, where there is no room, in that order: a person knows a
letter by its reason, destination and label."""
DIRECT = re.compile(r"^DIRECT=(OS|TCP):", re.IGNORECASE)
NAMES = ("id", "destination", "response_queue", "admin_queue", "dead_letter_queue")
"""Properties that are names."""
PROGRAMS = ("class", "json")
"""What JSON has beside the properties."""


def _dead(queue: str) -> list[str]:
    return [queue] if queue else [DEAD_XACT, DEAD]


def _journal(queue: str) -> list[str]:
    return [f"{queue};JOURNAL"] if queue else [JOURNAL]


def _filter(
    reason: str = "", destination: str = "", label: str = "", origin: str = "", older: str = "",
    younger: str = "", ids: Sequence[str] | None = None,
) -> Filter:  # fmt: skip
    return chosen(ids or (), filter_of(
        reason=reason, destination=destination, label=label, origin=origin, older_s=age(older),
        younger_s=age(younger),
    ))  # fmt: skip


# ---- dead letters ------------------------------------------------------------------------------


def list_dead(
    queue: Queue = "", reason: Reason = "", destination: Destination = "", label: Label = "",
    origin: Origin = "", older: Older = "", younger: Younger = "", id: Ids = None,
    limit: Limit = 100, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """List dead letters: why each could not be delivered, how old it is, where it came from."""
    which = _filter(reason, destination, label, origin, older, younger, id)
    _list(_dead(queue), which, limit, qm, json, dead=True)


def show_dead(
    id: Annotated[
        str,
        Argument(metavar="MESSAGE-ID", help="As the list shows it.", autocompletion=complete_dead),
    ],
    queue: Queue = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Show one dead letter: every property, the reason in a sentence, and its body."""
    _show(_dead(queue), id, qm, json)


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
    which = _filter(reason, destination, label, origin, older, younger, id)
    with manager(qm) as connection:
        if to and (dry_run or id):
            connection.open_queue(to, access="send").close()  # one that is not there is told now
        job = None if dry_run or id else _started(
            connection, "return", *_dead(queue), which=which, to=to, limit=limit,
            returns_max=max_returns, in_doubt=in_doubt, second=second,
        )  # fmt: skip
        if job is not None:
            told(connection, job, no_wait=no_wait, json=json, noun="dead letter")
            return
        found = give_back(
            connection, _dead(queue), which, int(time.time()), to=to, limit=limit,
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
    which = _filter(reason, destination, label, origin, older, younger, id)
    with manager(qm) as connection:
        if dry_run:
            if to:
                connection.open_queue(to, access="send").close()
            count = discard(connection, _dead(queue), which, int(time.time()), dry_run=True)
            count = min(count, limit)
            if not dumped({"sent_as_new": 0, "would_be": count, "dry_run": True}, json):
                out.line(f"{plural(count, 'dead letter')} would be sent as new")
            return
        for one in _each(connection, _dead(queue), which) if id else [which]:
            job = connection.start_job(
                "send-as-new", *_dead(queue), which=one, to=to, limit=limit, in_doubt=in_doubt
            )
            told(connection, job, no_wait=no_wait, json=json, noun="dead letter")


def _each(connection: QueueManager, queues: list[str], which: Filter) -> list[Filter]:
    """A filter for each of the letters that are named: a job knows one whole identifier."""
    found = letters(connection, queues, which, int(time.time()))
    return [filter_of(id=id) for id in dict.fromkeys(str(one.message.id) for one in found)]


def purge_dead(
    queue: Queue = "", reason: Reason = "", destination: Destination = "", label: Label = "",
    origin: Origin = "", older: Older = "", younger: Younger = "", id: Ids = None, yes: Yes = False,
    no_wait: NoWait = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Remove dead letters for good, as a job of the queue manager. It asks first."""
    which = _filter(reason, destination, label, origin, older, younger, id)
    _purge(
        _dead(queue), which, qm, yes, dry_run, json, "dead letter", no_wait=no_wait, one=bool(id)
    )


# ---- journals ----------------------------------------------------------------------------------


def list_journal(
    queue: JournalOf = "", destination: Destination = "", label: Label = "", older: Older = "",
    younger: Younger = "", id: Copies = None, limit: Limit = 100, qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """List the copies in a journal."""
    which = _filter("", destination, label, "", older, younger, id)
    _list(_journal(queue), which, limit, qm, json, dead=False)


def show_journal(
    id: Annotated[
        str,
        Argument(
            metavar="MESSAGE-ID", help="As the list shows it.", autocompletion=complete_journal
        ),
    ],
    queue: JournalOf = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Show one copy: every property, and its body."""
    _show(_journal(queue), id, qm, json)


def purge_journal(
    queue: JournalOf = "", destination: Destination = "", label: Label = "", older: Older = "",
    younger: Younger = "", id: Copies = None, yes: Yes = False,
    no_wait: NoWait = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Remove copies for good. It asks first; nothing else empties a journal."""
    which = _filter("", destination, label, "", older, younger, id)
    _purge(_journal(queue), which, qm, yes, dry_run, json, "copy", no_wait=no_wait, one=bool(id))


# ---- what both do ------------------------------------------------------------------------------


def _list(
    queues: list[str], which: Filter, limit: int, qm: str | None, json: bool, *, dead: bool
) -> None:
    now_s = int(time.time())
    found: list[Letter] = []
    more = False
    with manager(qm) as connection:
        for letter in letters(connection, queues, which, now_s):
            if len(found) == limit:
                more = True
                break
            found.append(letter)
    said = [
        {**as_map(one.message), "queue": one.queue, "reason": one.reason, "why": one.why,
         "second": one.second}
        for one in found
    ]  # fmt: skip
    if dumped(said, json):
        return
    rows = [
        {
            "reason": f"{one.reason} (second)" if one.second else one.reason,
            "class": f"{one.message.message_class:#06x}",
            "message": out.name(str(one.message.id)),
            "age": duration(max(now_s - one.message.arrived_time, 0)),
            "returned": one.message.returned,
            "destination": out.name(one.message.destination),
            "label": one.message.label,
            "size": out.size(len(one.message.body)),
        }
        for one in found
    ]
    columns: tuple[str, ...] = ("message", "age", "destination", "label", "size")
    if dead:
        columns = ("reason", "class", "message", "age", "returned", "destination", "label", "size")
    out.table(
        columns, [[row[column] for column in columns] for row in rows], texts=("label",),
        give=[one for one in GIVE if one in columns],
        brief={
            "message": [short(one.message.id) for one in found],
            # What stands behind that is a part of the name, as --destination takes it.
            "destination": [
                out.name(DIRECT.sub("", one.message.destination)) for one in found
            ],
        },
    )  # fmt: skip
    if more:
        out.line(f"there are more; --limit {limit} stopped it")


def _show(queues: list[str], id: str, qm: str | None, json: bool) -> None:
    with manager(qm) as connection:
        found = list(letters(connection, queues, chosen([id], ALL), int(time.time())))
    if not found:
        raise QueueNotFound(f"there is no message {id} in {' or '.join(queues)}")
    said = [
        {**as_map(one.message), "queue": one.queue, "why": one.why, "second": one.second}
        for one in found
    ]
    if dumped(said, json):
        return
    for at, one in enumerate(found):
        if at:
            out.line("")
        values: dict[str, Any] = as_map(one.message)
        body = values.pop("body", values.pop("body_base64", ""))
        facts = [
            ("queue", out.name(one.queue)),
            ("why", out.sentence(one.why)),
            *((key, _said(key, value)) for key, value in values.items() if key not in PROGRAMS),
        ]
        if one.second:
            facts.insert(2, ("second", f"its sender has a dead letter of it too, {one.second}"))
        out.facts([(name, value) for name, value in facts if value not in ("", 0, None, False)])
        out.body(str(body))


def _said(name: str, value: Any) -> object:
    """A property for people; nothing where it says nothing."""
    if name in NAMES:
        return out.name(value)
    if not value or isinstance(value, bool) or not isinstance(value, int):
        return value
    if name.startswith("time_to_"):
        return "never" if value >= NEVER_S - 1 else duration(value)
    if name.endswith("_time") or name == "deliver_at":
        return out.when(value)
    return value if (words := in_words(name, value)) is None else words


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
            count = discard(connection, queues, which, now_s)
    if dumped({"removed": 0 if dry_run else count, "would_be": count, "dry_run": dry_run}, json):
        return
    out.line(f"{plural(count, noun)} {'would be' if dry_run else ''} removed".replace("  ", " "))
    _note_missing(which)


def _count(connection: QueueManager, queues: list[str], which: Filter, now_s: int) -> int:
    if which == ALL:
        return sum(connection.queue(queue).messages for queue in queues)
    return discard(connection, queues, which, now_s, dry_run=True)
