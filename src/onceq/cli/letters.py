"""``onceq dead`` and ``onceq journal``: list, show, send home, send as new, remove.

A table of 80 columns has no room for whole identifiers, so it shows the beginning of each, and
commands accept that; where two messages begin alike nothing is done.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

from onceq.cli import out
from onceq.cli.common import (
    COMPLETION_S_MAX,
    TOP,
    Argument,
    DryRun,
    Json,
    Option,
    Where,
    Yes,
    age,
    agreed,
    dumped,
    manager,
    where,
)
from onceq.cli.jobs import NoWait, count_standing, no_job, report_job, say_destinations, say_held
from onceq.errors import InvalidParameter, OnceqError, QueueNotFound, ReceiveTimeout
from onceq.model.identity import MessageId, guid_text
from onceq.model.letters import (
    ALL,
    DEAD,
    DEAD_XACT,
    JOURNAL,
    REASONS,
    Filter,
    Letter,
    filter_of,
    in_words,
)
from onceq.model.limits import RETURN_MESSAGES_MAX, RETURNS_MAX
from onceq.model.marks import NEVER_S
from onceq.model.record import field, names
from onceq.model.record import names as field_names
from onceq.model.wording import duration, plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.model.views.queues import QueueView


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
        Option("--in-doubt", help="Also those that may have been received: they may come twice."),
    ] = False,
    second: Annotated[
        bool,
        Option("--second", help="Also those of which the sender has another dead letter: return "
        "only one."),
    ] = False,
    no_wait: NoWait = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Send dead letters to their destinations again, as a job of the queue manager.

    Each is sent and removed in one step. One that was returned too often stays. Times begin again.
    Ctrl-C ends the command, not the job.
    """
    from onceq.client.threads.letters import give_back

    which = filter_from(reason, destination, label, origin, older, younger, id)
    with manager(qm) as connection:
        if to and (dry_run or id):
            connection.open_queue(to, access="send").close()  # one that is not there is told now
        queues = dead_queues(connection, queue)
        if not dry_run:
            meant, were_for = _named(connection, queues, which)
            job = meant and connection.jobs.start(
                "return", *queues, which=meant, to=to, limit=limit, returns_max=max_returns,
                in_doubt=in_doubt, second=second,
            )  # fmt: skip
            report_job(
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
    if not isinstance(which, ChosenLetters):
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

    Each is a new message that was never returned. It is a job, as with 'dead return'.
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
        job = meant and connection.jobs.start(
            "send-as-new", *queues, which=meant, to=to, limit=limit, in_doubt=in_doubt
        )
        report_job(
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
    of: Callable[[LookedManager], list[str]], which: Filter, qm: str | None, yes: bool,
    dry_run: bool, json: bool, noun: str, *, no_wait: bool,
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
            job = meant and connection.jobs.start("purge", *queues, which=meant)
            report_job(connection, job or no_job("purge"), no_wait=no_wait, json=json, noun=noun)
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


OFFERED_MAX: Final = 200
"""Identifiers of each queue that a shell is offered."""
SHORT: Final = 8
"""Digits of the GUID in the short form."""
_WRITTEN: Final = re.compile(r"\{?([0-9a-f]{8}[0-9a-f-]{0,28})\}?[/\\]([0-9]{1,10})", re.IGNORECASE)


def short(id: MessageId) -> str:
    """The short form of an identifier."""
    return f"{guid_text(id.source)[:SHORT]}/{id.number}"


class ChosenLetters(Filter, frozen=True):
    """Letters that are named, and fit what else was said.

    Attributes:
        names: Each the beginning of a GUID, and a number.
        found: The message that each has turned out to be.
    """

    names: tuple[tuple[str, int], ...] = ()
    found: dict[tuple[str, int], MessageId] = field(default_factory=dict)

    def fits(self, letter: Letter, now_s: int) -> bool:
        """Whether a letter is chosen; raises InvalidParameter if two messages have one name."""
        id = letter.message.id
        guid = guid_text(id.source)
        for name in self.names:
            if id.number == name[1] and guid.startswith(name[0]):
                if self.found.setdefault(name, id) != id:
                    raise InvalidParameter(
                        f"{name[0]}/{name[1]} is the beginning of {id} and of {self.found[name]}: "
                        "say which one, whole; nothing was changed"
                    )
                return Filter.fits(self, letter, now_s)
        return False


def chosen(ids: Sequence[str], rest: Filter) -> Filter:
    """A filter with these identifiers; without any it is the one that was given.

    Raises:
        InvalidParameter: One of them is none.
    """
    if not ids:
        return rest
    names = []
    for text in ids:
        written = _WRITTEN.fullmatch(text.strip())
        if written is None:
            filter_of(id=text)  # says what one looks like
            raise InvalidParameter(f"{text!r} is no identifier of a message")
        names.append((written[1].casefold(), int(written[2])))
    values = {name: getattr(rest, name) for name in field_names(Filter)}
    return ChosenLetters(**values, names=tuple(names))


def missing(which: Filter) -> list[str]:
    """The names under which nothing was found."""
    if not isinstance(which, ChosenLetters):
        return []
    return [f"{guid}/{number}" for guid, number in which.names if (guid, number) not in which.found]


# ---- what the shell offers -----------------------------------------------------------------------


def complete_reason(incomplete: str) -> list[str]:
    """Words for a reason; shells break them at spaces."""
    words = (word.replace(" ", "-") for word in REASONS)
    return [word for word in words if word.startswith(incomplete.casefold())]


def complete_dead(incomplete: str) -> list[str]:
    """Identifiers of dead letters; nothing if no manager answers."""
    return _complete(incomplete, (DEAD_XACT, DEAD))


def complete_journal(incomplete: str) -> list[str]:
    """Identifiers of copies in the journal of the computer; nothing if no manager answers."""
    return _complete(incomplete, (JOURNAL,))


def _complete(incomplete: str, queues: Sequence[str]) -> list[str]:
    """In the short form, unless a whole one was begun: shells take braces for their own."""
    from onceq.client.credentials import Credentials
    from onceq.client.opening import connect_for_job

    found: dict[str, None] = {}
    whole = incomplete.startswith("{")
    try:
        place, shown = where(None), Credentials(token_file=TOP.token_file)
        with connect_for_job(place, timeout=COMPLETION_S_MAX, credentials=shown) as qm:
            for queue in queues:
                with suppress(ReceiveTimeout):
                    for one in qm.peek_headers(queue, OFFERED_MAX):
                        id = one.message.id
                        found[out.name(str(id)) if whole else short(id)] = None
    except (OnceqError, OSError):
        return []
    begun = out.name(incomplete).casefold()
    return [name for name in found if name.startswith(begun)]


# ---- what commands take --------------------------------------------------------------------------

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
    Option("--destination", metavar="TEXT", show_default=False, help="Part of the name."),
]
Label = Annotated[
    str, Option("--label", metavar="TEXT", show_default=False, help="Part of the label.")
]
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
           help="These messages only; may be repeated.",
           autocompletion=complete_dead),
]  # fmt: skip
Copies = Annotated[
    list[str] | None,
    Option("--id", metavar="MESSAGE-ID", show_default=False,
           help="These messages only; may be repeated.",
           autocompletion=complete_journal),
]  # fmt: skip
DeadId = Annotated[
    str,
    Argument(metavar="MESSAGE-ID", help="As the list shows it.", autocompletion=complete_dead),
]
CopyId = Annotated[
    str,
    Argument(metavar="MESSAGE-ID", help="As the list shows it.", autocompletion=complete_journal),
]
To = Annotated[
    str,
    Option("--to", metavar="NAME", show_default=False, help="Another destination for all."),
]
Limit = Annotated[int, Option("--limit", "-n", metavar="N", min=1, help="At most N letters.")]


class LookedManager(Protocol):
    """The part of a queue manager that is read here."""

    def queues(self, *, only: str = "", part: str = "") -> list[QueueView]: ...


def dead_queues(connection: LookedManager, queue: str) -> list[str]:
    """Where dead letters are looked for: a queue that is named, else both of the system's, and what
    policies have moved aside."""
    if queue:
        return [queue]
    return [DEAD_XACT, DEAD, *(one.path for one in connection.queues(only="poison"))]


def journal_queues(queue: str) -> list[str]:
    """The journal of a queue that is named, else the one of the computer."""
    return [f"{queue};JOURNAL"] if queue else [JOURNAL]


def filter_from(
    reason: str = "", destination: str = "", label: str = "", origin: str = "", older: str = "",
    younger: str = "", ids: Sequence[str] | None = None,
) -> Filter:  # fmt: skip
    """What the options of a command mean; raises InvalidParameter."""
    return chosen(ids or (), filter_of(
        reason=reason, destination=destination, label=label, origin=origin, older_s=age(older),
        younger_s=age(younger),
    ))  # fmt: skip


GIVE = ("size", "class", "message", "returned", "age", "destination", "label", "destination")
"""Columns that leave, or become short, where there is no room, in that order: a person knows a
letter by its reason, destination and label."""
DIRECT = re.compile(r"^DIRECT=(OS|TCP):", re.IGNORECASE)
NAMES = ("id", "destination", "response_queue", "admin_queue", "dead_letter_queue")
"""Properties that are names."""
PROGRAMS = ("class", "json")
"""What JSON has beside the properties."""


def list_dead(
    queue: Queue = "", reason: Reason = "", destination: Destination = "", label: Label = "",
    origin: Origin = "", older: Older = "", younger: Younger = "", id: Ids = None,
    limit: Limit = 100, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """List dead letters: why each could not be delivered, how old it is, where it came from."""
    which = filter_from(reason, destination, label, origin, older, younger, id)
    _list_letters(partial(dead_queues, queue=queue), which, limit, qm, json, dead=True)


def show_dead(
    id: DeadId,
    queue: Queue = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Show one dead letter: every property, the reason in a sentence, and its body."""
    _show_letter(partial(dead_queues, queue=queue), id, qm, json)


def list_journal(
    queue: JournalOf = "", destination: Destination = "", label: Label = "", older: Older = "",
    younger: Younger = "", id: Copies = None, limit: Limit = 100, qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """List the copies in a journal."""
    which = filter_from("", destination, label, "", older, younger, id)
    _list_letters(lambda _: journal_queues(queue), which, limit, qm, json, dead=False)


def show_journal(
    id: CopyId,
    queue: JournalOf = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Show one copy: every property, and its body."""
    _show_letter(lambda _: journal_queues(queue), id, qm, json)


def _list_letters(
    of: Callable[[LookedManager], list[str]],
    which: Filter,
    limit: int,
    qm: str | None,
    json: bool,
    *,
    dead: bool,
) -> None:
    from onceq.cli.receiving import as_map
    from onceq.client.threads.letters import letters

    now_s = int(time.time())
    found: list[Letter] = []
    more = False
    with manager(qm) as connection:
        for letter in letters(connection, of(connection), which, now_s):
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


def _show_letter(
    of: Callable[[LookedManager], list[str]], id: str, qm: str | None, json: bool
) -> None:
    from onceq.cli.receiving import as_map
    from onceq.client.threads.letters import letters

    with manager(qm) as connection:
        queues = of(connection)
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
            *(
                (key, _render_property(key, value))
                for key, value in values.items()
                if key not in PROGRAMS
            ),
        ]
        if one.second:
            facts.insert(2, ("second", f"its sender has a dead letter of it too, {one.second}"))
        out.facts([(name, value) for name, value in facts if value not in ("", 0, None, False)])
        out.body(str(body))


def _render_property(name: str, value: Any) -> object:
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
