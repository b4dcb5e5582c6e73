"""``onceq queue``: make, show, set, pause, purge and delete queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from onceq.cli import out
from onceq.cli.arguments import proposed
from onceq.cli.common import (
    Argument,
    DryRun,
    Json,
    Option,
    QueueName,
    Where,
    Yes,
    agreed,
    asking,
    dumped,
    manager,
)
from onceq.cli.lists import LISTS
from onceq.client.why import why
from onceq.errors import AccessDenied, QueueNotFound, UnsupportedFormatName, UsageError
from onceq.model.limits import CONSUMERS_SHOWN_MAX
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.model.views.queues import ConsumerView, QueueView

NO_QUOTA = 0xFFFF_FFFF
PRIVACY = ("none", "optional", "body")

Label = Annotated[
    str | None, Option("--label", metavar="TEXT", help="A description.", show_default=False)
]
QuotaKb = Annotated[
    int | None,
    Option(
        "--quota-kb", metavar="N", min=0, max=NO_QUOTA, show_default=False,
        help=f"Most that it may hold, in KiB; {NO_QUOTA} is no limit.",
    ),
]  # fmt: skip
Journal = Annotated[
    bool | None,
    Option(
        "--journal/--no-journal", show_default=False,
        help="Keep a copy of every message received from it.",
    ),
]  # fmt: skip
JournalQuotaKb = Annotated[
    int | None,
    Option(
        "--journal-quota-kb", metavar="N", min=0, max=NO_QUOTA, show_default=False,
        help="Most that its journal may hold, in KiB; above, copies are dropped.",
    ),
]  # fmt: skip
Type = Annotated[
    str | None,
    Option(
        "--type", metavar="GUID", show_default=False, help="Of queues of one kind; yours to choose."
    ),
]
BasePriority = Annotated[
    int | None,
    Option(
        "--base-priority", metavar="N", min=-32768, max=32767, show_default=False,
        help="For routing to public queues.",
    ),
]  # fmt: skip
Authenticate = Annotated[
    bool | None,
    Option(
        "--authenticate/--no-authenticate", show_default=False,
        help="Only signed messages: refused, onceq checks no Windows signatures.",
    ),
]  # fmt: skip
PrivLevel = Annotated[
    int | None,
    Option(
        "--priv-level", metavar="N", min=0, max=2, show_default=False,
        help="0 only clear bodies, 1 both; 2, only encrypted ones, is refused.",
    ),
]  # fmt: skip


def create_queue(
    name: Annotated[
        str,
        Argument(metavar="QUEUE", help="Such as private$/orders; / is taken for \\."),
    ],
    transactional: Annotated[
        bool,
        Option("--transactional", help="Accept transactional messages only; permanent."),
    ] = False,
    label: Label = None,
    quota_kb: QuotaKb = None,
    journal: Journal = None,
    journal_quota_kb: JournalQuotaKb = None,
    type_: Type = None,
    base_priority: BasePriority = None,
    authenticate: Authenticate = None,
    priv_level: PrivLevel = None,
    public: Annotated[
        bool,
        Option("--public", help="Registered in the directory; QUEUE has no private$/ then."),
    ] = False,
    remote: Annotated[
        bool,
        Option(
            "--remote", help="As 'grant peer:* send': every proven queue manager may send to it."
        ),
    ] = False,
    exist_ok: Annotated[
        bool, Option("--exist-ok", help="It may be there already, if it is of this kind.")
    ] = False,
    qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Make a queue."""
    if public is name.replace("/", "\\").lower().startswith((".\\private$\\", "private$\\")):
        raise UsageError(
            f"{name} is the name of a private queue; leave private$/ out, or leave out --public"
            if public
            else f"{name} would be a public queue; {proposed(name)}or say --public"
        )
    with manager(qm) as connection:
        made = connection.create_queue(
            name, transactional=transactional, label=label or "", quota_kb=quota_kb,
            exist_ok=exist_ok, journal=journal, journal_quota_kb=journal_quota_kb, type=type_,
            base_priority=base_priority, authenticate=authenticate, priv_level=priv_level,
        )  # fmt: skip
        if remote:
            from onceq.model.names import parse_any, queue_key

            (named,) = parse_any(made.path)
            connection.rights.grant("peer:*", "send", queue_key(named.private, named.queue))
    if dumped(made, json):
        return
    kind = "transactional queue" if made.transactional else "queue"
    public_name = f"  {made.format_name}" if public else ""
    out.line(f"{kind} {out.name(made.path)}{public_name}")


def set_queue(
    name: QueueName,
    label: Label = None,
    quota_kb: QuotaKb = None,
    journal: Journal = None,
    journal_quota_kb: JournalQuotaKb = None,
    type_: Type = None,
    base_priority: BasePriority = None,
    authenticate: Authenticate = None,
    priv_level: PrivLevel = None,
    qm: Where = None,
    json: Json = False,
) -> None:
    """Change properties of a queue: all that are given, or none.

    Whether it is transactional cannot be changed.
    """
    values: dict[str, Any] = {
        "label": label, "quota_kb": quota_kb, "journal": journal,
        "journal_quota_kb": journal_quota_kb, "type": type_, "base_priority": base_priority,
        "authenticate": authenticate, "priv_level": priv_level,
    }  # fmt: skip
    if all(value is None for value in values.values()):
        raise UsageError("nothing to set; 'onceq queue set --help' lists what can be")
    with manager(qm, name=name) as connection:
        view = connection.set_queue(name, **values)
    if dumped(view, json):
        return
    out.facts(_properties(view))


def set_poison_policy(
    name: QueueName,
    attempts: Annotated[
        int,
        Option("--attempts", metavar="N", min=1, help="Aborts before --then applies."),
    ] = 3,
    retry_after: Annotated[
        int,
        Option(
            "--retry-after", metavar="SECONDS", min=0,
            help="Time in QUEUE;retry before it comes back; 0: none.",
        ),
    ] = 0,
    retries: Annotated[
        int, Option("--retries", metavar="N", min=1, help="Rounds in QUEUE;retry before --then.")
    ] = 1,
    then: Annotated[
        str,
        Option(
            "--then", metavar="WHAT", help="Finally: move:SUBQUEUE, dead-letter or reject."
        ),
    ] = "move:poison",
    off: Annotated[
        bool, Option("--off", help="Leave them at the head of the queue, as MSMQ does.")
    ] = False,
    qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Set what happens to a message whose receives are aborted again and again.

    After --attempts aborted transactions it waits in the subqueue retry, for --retries rounds, and
    then does --then. Other messages keep their order.
    """
    with manager(qm, name=name) as connection:
        view = connection.set_poison_policy(
            name, attempts=0 if off else attempts, retry_after=retry_after, retries=retries,
            then=then,
        )  # fmt: skip
    if dumped(view, json):
        return
    out.facts([("queue", out.name(view.path)), ("poison messages", _poison(view))])


def _poison(view: QueueView) -> str:
    if not view.poison_attempts:
        return "stay at the head of the queue"
    told = f"after {plural(view.poison_attempts, 'abort')}"
    if view.poison_retry_after:
        again = plural(view.poison_retries, "more round")
        told += f" a wait of {view.poison_retry_after} s, {again}, and then"
    return f"{told} {view.poison_then.replace(':', ' to ;')}"


def _quota(kb: int) -> str:
    return "none" if kb == NO_QUOTA else f"{kb} KiB"


def _used(view: QueueView) -> str:
    return f"; {100 * view.quota_used:.0f} % of its quota is used" if view.quota_used else ""


def _properties(view: QueueView) -> list[tuple[str, object]]:
    return [
        ("queue", out.name(view.path)),
        ("transactional", view.transactional),
        ("label", view.label or "-"),
        ("quota", _quota(view.quota_kb) + _used(view)),
        ("journal", view.journal),
        ("journal quota", _quota(view.journal_quota_kb)),
        ("type", "-" if not view.type.strip("0-") else view.type),
        ("base priority", str(view.base_priority)),
        ("authenticate", view.authenticate),
        ("poison messages", _poison(view)),
        ("privacy level", f"{view.priv_level} ({PRIVACY[view.priv_level]})"),
        ("created", out.when(view.created)),
        ("modified", out.when(view.modified)),
        ("instance", view.instance),
    ]


def show_queue(name: QueueName, qm: Where = None, json: Json = False) -> None:
    """Show everything about one queue, and who works on it now.

    These hold messages of it in an open transaction, wait at it, or have it open. Without the right
    monitor you see only yourself.
    """
    with asking(qm, name=name) as connection:
        view = connection.queue(name)
        at_work = connection.consumers(name)
    if dumped({**view.as_dict(), "why": why(view), "consumers": at_work}, json):
        return
    delayed = str(view.delayed)
    if view.delayed:
        delayed += f" (received from {out.when(view.delayed_until)} on)"
    out.facts(
        [
            *_properties(view),
            ("messages", view.messages),
            ("available", view.available),
            ("locked", f"{view.locked} (held by transactions)"),
            ("delayed", delayed),
            *([("moved aside", f"{view.poison}: onceq dead list")] if view.poison else []),
            ("bytes", out.size(view.bytes)),
            ("readers waiting", view.readers_waiting),
            ("first lookup id", str(view.first_lookup or "-")),
            ("last lookup id", str(view.last_lookup or "-")),
        ]
    )
    out.line(why(view))
    _show_consumers(at_work)


def _show_consumers(found: Sequence[ConsumerView]) -> None:
    consumers = LISTS["queue show"]
    if not found:
        out.line(consumers.nothing)
        return
    print()
    consumers.table(found)
    if len(found) == CONSUMERS_SHOWN_MAX:
        out.note(f"only {CONSUMERS_SHOWN_MAX} are shown; those that hold messages come first")


def _there(
    connection: QueueManager, name: str, *, counted: bool, whole: bool = False
) -> dict[str, Any]:
    """A queue or an outgoing queue, as far as both have the same fields.

    Args:
        counted: How much is in it has to be known; else a caller without the right to look at it
            goes on.
        whole: With what is in its subqueues (delayed and poison messages, and others), and with the
            copies in its journal, which go with it.
    """
    try:
        view = connection.queue(name)
    except AccessDenied:
        if counted:
            raise
        return {"name": name, "messages": None, "bytes": None, "system": False, "outgoing": False}
    except QueueNotFound:
        try:
            outgoing = connection.admin.outgoing_queue(name)
        except QueueNotFound:
            outgoing = None
        if outgoing is None:
            raise
        return {"name": outgoing.destination, "messages": outgoing.messages, "locked": 0,
                "bytes": outgoing.bytes, "system": False, "outgoing": True}  # fmt: skip
    there = {"name": view.path, "messages": view.messages, "locked": view.locked,
             "bytes": view.bytes, "system": view.system, "outgoing": False}  # fmt: skip
    if whole and not view.system:
        journal = connection.queue(f"{view.path};journal")
        there |= {
            "messages": view.messages + view.in_subqueues,
            "bytes": view.bytes + view.bytes_in_subqueues,
            "copies": journal.messages,
            "journal_bytes": journal.bytes,
        }
    return there


def _done(verb: str, count: int, there: dict[str, Any], *, dry: bool, json: bool) -> None:
    told = {"queue": there["name"], "messages": count, "bytes": there["bytes"], "dry_run": dry}
    if "copies" in there:
        told |= {"journal_messages": there["copies"], "journal_bytes": there["journal_bytes"]}
    held = there.get("held", 0)
    if "held" in there:
        told |= {"held": held}
    if dumped(told, json):
        return
    if held:
        out.note(
            f"{plural(held, 'message')} {'is' if held == 1 else 'are'} held by transactions: what "
            f"these give back is {verb}d when they end"
        )
    if dry:
        out.line(f"would {verb} {_what(there)}; nothing was changed")
    else:
        gone = plural(count, "message") + _copies(there)
        out.line(f"{verb}d {out.name(there['name'])} with {gone}")


def delete_queue(
    name: QueueName, yes: Yes = False, dry_run: DryRun = False, qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Delete a queue with its messages, subqueues, delayed messages and journal. It asks first."""
    with manager(qm, name=name) as connection:
        there = _there(connection, name, counted=dry_run, whole=True)
        if there["outgoing"] or there["system"]:
            kind = "an outgoing queue" if there["outgoing"] else "a system queue"
            raise UnsupportedFormatName(
                f"{name} is {kind}: it cannot be deleted; 'queue purge' empties it"
            )
        if not dry_run:
            agreed(f"delete {_what(there)} for good?", yes=yes)
        count = there["messages"] if dry_run else connection.delete_queue(name)
    _done("delete", count, there, dry=dry_run, json=json)


def purge_queue(
    name: QueueName, yes: Yes = False, dry_run: DryRun = False, qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Remove every message of a queue, or of an outgoing queue. It asks first.

    Messages that an open transaction holds are removed when it ends. Of an outgoing queue, a
    message that has not left is not delivered, and one that may have left is in doubt; its sender
    is told if it asked for that.
    """
    with manager(qm, name=name) as connection:
        there = _there(connection, name, counted=dry_run)
        held = there.get("locked", 0)
        if there["messages"] is not None:
            there["messages"] -= held
        if there["messages"] != 0 and not dry_run:
            agreed(f"remove every message of {_what(there)} for good?", yes=yes)
        count = there["messages"] if dry_run else connection.purge(name)
        if not dry_run and there["messages"] is not None:
            held = _there(connection, name, counted=False).get("locked", 0)
    _done("purge", count, {**there, "held": held}, dry=dry_run, json=json)


def _what(there: dict[str, Any]) -> str:
    if there["messages"] is None:
        return f"{out.name(there['name'])} with all of its messages (how many you may not see)"
    count = plural(there["messages"], "message")
    return f"{out.name(there['name'])} with {count} ({out.size(there['bytes'])}){_copies(there)}"


def _copies(there: dict[str, Any]) -> str:
    """What goes with a queue besides its messages (finding U4)."""
    if not there.get("copies"):
        return ""
    count = there["copies"]
    copies = "copy" if count == 1 else f"{count:,} copies"
    return f", and the {copies} in its journal ({out.size(there['journal_bytes'])})"


def pause_queue(name: QueueName, qm: Where = None, json: Json = False) -> None:
    """Let nobody receive the next message of a queue until 'queue resume'.

    Messages still arrive, and may expire. Receives wait until their time is over. Peeks, purges,
    moves and returns go on. A restart changes nothing. For messages that leave: 'outgoing pause'.
    """
    _pause_or_resume(name, qm, paused=True, json=json)


def resume_queue(name: QueueName, qm: Where = None, json: Json = False) -> None:
    """Let messages of a queue be received again."""
    _pause_or_resume(name, qm, paused=False, json=json)


def release_queue(name: QueueName, qm: Where = None, json: Json = False) -> None:
    """End the holds that keep others from receiving from a queue.

    The error of the others (sharing-violation) names the holder, which may open the queue again.
    """
    with manager(qm, name=name) as connection:
        count = connection.admin.release_queue(name)
    if not dumped({"queue": name, "released": count}, json):
        out.line(f"{plural(count, 'hold')} of {out.name(name)} ended")


def _pause_or_resume(name: str, qm: str | None, *, paused: bool, json: bool) -> None:
    with manager(qm, name=name) as connection:
        connection.queue(name)  # of an outgoing queue the other command pauses the way out
        if paused:
            connection.admin.pause(name)
        else:
            connection.admin.resume(name)
        view = connection.queue(name)
    if not dumped({"queue": view.path, "paused_since": view.paused_since}, json):
        out.line(why(view))
