"""``onceq qm status``, ``metrics``, ``reload``, ``connect``, ``disconnect`` and ``tidy``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import (
    DryRun,
    Json,
    Option,
    Where,
    Yes,
    agreed,
    as_json,
    asking,
    dumped,
    manager,
)
from onceq.cli.lists import LISTS
from onceq.client.attention import (
    FULL,
    PAUSED,
    RECENTLY_REFUSED,
    STUCK,
    Inspected,
    held_up,
    letters,
    to_look_at,
)
from onceq.errors import UsageError
from onceq.model.identity import guid_text
from onceq.model.wording import duration, plural

if TYPE_CHECKING:
    from onceq.model.views.managers import Restored, StatusView


def status(qm: Where = None, json: Json = False) -> None:
    """The queue manager at a glance, with what needs attention."""
    with asking(qm) as connection:
        view, busy = connection.admin.status(), connection.queues(only="busy")
        seen = Inspected(
            view, connection.admin.metrics(), connection.queue_page(**PAUSED),
            connection.queue_page(**FULL), connection.admin.outgoing_page(**STUCK),
            connection.admin.outgoing_page(**RECENTLY_REFUSED), connection.admin.branches(),
        )  # fmt: skip
    now_s = time.time()
    attention = [
        out.sentence(text)
        for text in (*held_up(seen, now_s), *letters(view), *to_look_at(seen, now_s))
    ]
    if dumped({**view.as_dict(), "attention": attention}, json):
        return
    out.facts(
        [
            ("queue manager", f"{view.name}  {view.id}"),
            *([("running since", since(view.started, time.time()))] if view.started else []),
            ("queues", f"{view.queues} with {plural(view.messages, 'message')}"),
            (
                "outgoing",
                f"{view.outgoing} with {plural(view.outgoing_messages, 'message')}",
            ),
            ("stored", out.size(view.bytes)),
            ("sessions", view.sessions),
            ("other queue managers", doors(view)),
            *(
                [("silence", f"lost after {view.silent_s} s without a word")]
                if view.silent_s
                else []
            ),
            ("streams", view.streams),
            ("transactions", view.transactions),
            ("waiting readers", view.waiting_readers),
            ("log position", view.log_position),
            *([("restored", put_back(view.restored))] if view.restored else []),
        ]
    )
    busy = [q for q in busy if q.messages]
    if busy:
        print()
        LISTS["qm status"].table(busy)
    for text in attention:
        out.line(f"! {text}")


def since(started_s: int, now_s: float) -> str:
    """When it was started, and how long ago that is."""
    return f"{out.when(started_s)} ({duration(max(int(now_s) - started_s, 0))})"


def doors(view: StatusView) -> str:
    """How others come in, in a few words."""
    if view.certificate_ends:
        return f"TLS; certificate good until {out.when(view.certificate_ends)}"
    if view.tls:
        return "TLS"
    return "without TLS" + ("" if view.plain_peers else ", from this computer alone")


def put_back(restored: Restored) -> str:
    """The sentence about a restore that a queue manager comes from."""
    text = (
        f"put back on {out.when(restored.at_s)} to {out.when(restored.taken_s)} (log "
        f"position {restored.position}); what was done between is undone here"
    )
    if restored.previous:
        text += f"; it was made as a copy of {guid_text(bytes.fromhex(restored.previous))}"
        if restored.aside:
            text += f", {plural(restored.aside, 'message')} set aside as dead letters"
        if restored.jobs:
            text += f", {plural(restored.jobs, 'job')} cancelled"
        if restored.promises:
            text += f", {plural(restored.promises, 'promise')} undone"
        if restored.tokens:
            text += f", {plural(restored.tokens, 'token')} not good any more"
    return text


def reload(qm: Where = None, json: Json = False) -> None:
    """Let a queue manager read its onceq.toml again; say what changed and what needs a restart.

    SIGHUP does the same. A file with a mistake changes nothing.
    """
    with manager(qm) as connection:
        found = connection.admin.reload()
    if dumped(found, json):
        return
    for text in found.changed:
        out.line(f"changed: {text}")
    for text in found.restart:
        out.line(f"needs a restart: {text}")
    if not (found.changed or found.restart):
        out.line("nothing has changed")


def disconnect(
    yes: Yes = False, dry_run: DryRun = False, qm: Where = None, json: Json = False
) -> None:
    """Take a queue manager off the network: no session with others until 'qm connect'. It asks.

    Messages for other computers wait, and may expire. A restart does not end it.
    """
    with manager(qm) as connection:
        view = connection.admin.status()
    text = (
        f"take {view.name} off the network: {plural(view.sessions, 'session')} with other queue "
        f"managers {'ends' if view.sessions == 1 else 'end'}, and what goes to them gathers here "
        f"({plural(view.outgoing_messages, 'message')} now) and may expire, until 'qm connect'"
    )
    if not dry_run:
        agreed(f"{text}; do it?", yes=yes)
        _action("disconnect", qm, json)
        return
    said = {"queue_manager": view.name, "action": "disconnect", "dry_run": True,
            "sessions": view.sessions, "messages": view.outgoing_messages}  # fmt: skip
    if not dumped(said, json):
        out.line(f"would be done: {text}")


def connect(qm: Where = None, json: Json = False) -> None:
    """Bring a queue manager back to the network after 'qm disconnect'."""
    _action("connect", qm, json)


def tidy(
    unanswered: Annotated[
        bool,
        Option(
            "--unanswered",
            help="Also those with acknowledgments for unreachable strangers. It asks.",
        ),
    ] = False,
    yes: Yes = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Remove empty, unused outgoing queues.

    With --unanswered also those with acknowledgments for a stranger whose address has never
    answered; these are lost.
    """
    if not unanswered:
        if dry_run:
            raise UsageError("--dry-run goes with --unanswered; without it no message is lost")
        _action("tidy", qm, json)
        return
    with manager(qm) as connection:
        views = connection.admin.outgoing(only="unanswered")
        count = sum(view.messages for view in views)
        for view in () if as_json(json) else views:
            out.line(f"{view.destination}: {plural(view.messages, 'message')}; "
                     f"{view.trouble}")  # fmt: skip
        if not dry_run:
            if count:
                agreed(f"give up {plural(count, 'acknowledgment message')} for good?", yes=yes)
            count = connection.admin.forget_unanswered()
    if dumped({"messages_given_up": count, "dry_run": dry_run}, json):
        return
    would = "would be given up" if dry_run else "given up"
    out.line(f"{plural(count, 'acknowledgment message')} {would}")


def _action(action: str, qm: str | None, json: bool) -> None:
    with manager(qm) as connection:
        count = connection.admin.action(action)
        name = connection.name
    if dumped({"queue_manager": name, "action": action, "outgoing_forgotten": count}, json):
        return
    if action == "tidy":
        out.line(f"{name}: {plural(count or 0, 'outgoing queue')} forgotten")
    else:
        out.line(f"{name}: {action}ed {'to' if action == 'connect' else 'from'} the network")


def metrics(
    openmetrics: Annotated[
        bool, Option("--openmetrics", help="In the form of OpenMetrics.")
    ] = False,
    queues: Annotated[
        bool, Option("--queues", help="The figures of each queue, in place of the sums.")
    ] = False,
    qm: Where = None,
    json: Json = False,
) -> None:
    """Print what a queue manager has counted since its start and how it is, for Prometheus.

    Without --json it needs pip install 'onceq[metrics]'. A queue manager exposes the same at its
    metrics_listen.
    """
    with asking(qm) as connection:
        view = connection.admin.metrics(queues=queues)
    if dumped(view, json):
        return
    from onceq import exposition  # it needs a library that a plain install lacks

    out.body(exposition.text(view, openmetrics=openmetrics, queues=queues).rstrip())
