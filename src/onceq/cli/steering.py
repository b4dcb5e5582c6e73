"""``onceq qm reload``, ``connect``, ``disconnect`` and ``tidy``: steer one that runs."""

from __future__ import annotations

from typing import Annotated

from onceq.cli import out
from onceq.cli.common import DryRun, Json, Where, Yes, agreed, as_json, dumped, manager
from onceq.cli.parameters import Option
from onceq.errors import UsageError
from onceq.model.wording import plural


def reload(qm: Where = None, json: Json = False) -> None:
    """Let a queue manager read its onceq.toml again; says what changed and what needs a restart.

    SIGHUP does the same. A file with a mistake changes nothing.
    """
    with manager(qm) as connection:
        found = connection.reload()
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

    Applications go on; what they send to other computers gathers, and may expire. It stays so over
    a restart.
    """
    with manager(qm) as connection:
        view = connection.status()
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
            help="Give up acknowledgments for strangers that nobody has answered at, too. It asks.",
        ),
    ] = False,
    yes: Yes = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Remove empty, unused outgoing queues.

    With --unanswered also those that hold acknowledgment messages for a stranger whose address
    has never answered. These messages are lost then. A stranger may be an honest queue manager that
    has just begun to send to this one, and that is away for a while.
    """
    if not unanswered:
        if dry_run:
            raise UsageError("--dry-run goes with --unanswered; without it no message is lost")
        _action("tidy", qm, json)
        return
    with manager(qm) as connection:
        views = connection.outgoing(only="unanswered")
        count = sum(view.messages for view in views)
        for view in () if as_json(json) else views:
            out.line(f"{view.destination}: {plural(view.messages, 'message')}; "
                     f"{view.trouble}")  # fmt: skip
        if not dry_run:
            if count:
                agreed(f"give up {plural(count, 'acknowledgment message')} for good?", yes=yes)
            count = connection.forget_unanswered()
    if dumped({"messages_given_up": count, "dry_run": dry_run}, json):
        return
    would = "would be given up" if dry_run else "given up"
    out.line(f"{plural(count, 'acknowledgment message')} {would}")


def _action(action: str, qm: str | None, json: bool) -> None:
    with manager(qm) as connection:
        count = connection.action(action)
        name = connection.name
    if dumped({"queue_manager": name, "action": action, "outgoing_forgotten": count}, json):
        return
    if action == "tidy":
        out.line(f"{name}: {plural(count or 0, 'outgoing queue')} forgotten")
    else:
        out.line(f"{name}: {action}ed {'to' if action == 'connect' else 'from'} the network")
