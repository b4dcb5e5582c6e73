"""``onceq dead`` and ``onceq journal``, where they only look: lists, and one letter whole."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from onceq.cli import out
from onceq.cli.common import Json, Where, dumped, manager
from onceq.cli.letter_choice import (
    Copies,
    CopyId,
    DeadId,
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
    Younger,
    chosen,
    dead_queues,
    filter_from,
    journal_queues,
    short,
)
from onceq.errors import QueueNotFound
from onceq.model.letters import ALL, Filter, Letter
from onceq.model.message_words import in_words
from onceq.model.time import NEVER_S
from onceq.model.wording import duration

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
    _list(partial(dead_queues, queue=queue), which, limit, qm, json, dead=True)


def show_dead(
    id: DeadId,
    queue: Queue = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Show one dead letter: every property, the reason in a sentence, and its body."""
    _show(partial(dead_queues, queue=queue), id, qm, json)


def list_journal(
    queue: JournalOf = "", destination: Destination = "", label: Label = "", older: Older = "",
    younger: Younger = "", id: Copies = None, limit: Limit = 100, qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """List the copies in a journal."""
    which = filter_from("", destination, label, "", older, younger, id)
    _list(lambda _: journal_queues(queue), which, limit, qm, json, dead=False)


def show_journal(
    id: CopyId,
    queue: JournalOf = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Show one copy: every property, and its body."""
    _show(lambda _: journal_queues(queue), id, qm, json)


def _list(
    of: Callable[[Looked], list[str]],
    which: Filter,
    limit: int,
    qm: str | None,
    json: bool,
    *,
    dead: bool,
) -> None:
    from onceq.cli.message_map import as_map
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


def _show(of: Callable[[Looked], list[str]], id: str, qm: str | None, json: bool) -> None:
    from onceq.cli.message_map import as_map
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
