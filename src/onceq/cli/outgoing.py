"""``onceq outgoing``: what waits here for other queue managers, and why it moves or does not."""

from __future__ import annotations

from typing import Annotated

from onceq.cli import out
from onceq.cli.common import (
    Argument,
    Destination,
    DryRun,
    Json,
    Where,
    Yes,
    agreed,
    asking,
    dumped,
    manager,
)
from onceq.client.why import clock, why
from onceq.errors import MessageNotFound, QueueNotFound
from onceq.hidden import quote_word
from onceq.model.resultcodes import class_name
from onceq.model.views.queues import OutgoingView, QueueView
from onceq.model.wording import duration


def show(destination: Destination, qm: Where = None, json: Json = False) -> None:
    """Show everything about one outgoing queue."""
    with asking(qm, name=destination) as connection:
        view = connection.admin.outgoing_queue(destination)
        sentence = why(view)
        info = connection.admin.eod_send_info(destination)
    if dumped({**view.as_dict(), "why": sentence, "eod": info}, json):
        return
    out.facts(_facts(view))
    out.line(sentence)


def _facts(o: OutgoingView) -> list[tuple[str, object]]:
    def number(value: int) -> str:
        return str(value) if value else "-"

    facts: list[tuple[str, object]] = [
        ("destination", out.name(o.destination)),
        ("state", o.state),
        ("messages", f"{o.messages} ({out.size(o.bytes)})"),
        ("unsent", o.unsent),
        ("arrived, not processed yet", o.unprocessed),
        ("dead letters in doubt", o.in_doubt),
        ("transactional there", o.xact.lower()),
        ("next hop", ", ".join(o.next_hops) or "-"),
        ("without order acknowledgment", o.unacknowledged),
        ("transmitted, unacknowledged", o.no_ack_count),
        ("awaiting final acknowledgment", o.no_read_count),
        ("peer", o.peer or "-"),
        ("connected since", out.when(o.connected_since)),
        ("paused since", out.when(o.paused_since)),
        ("stream", f"{o.stream:#018x}" if o.stream else "-"),
        (
            "unacknowledged numbers",
            f"{o.first_unacked} to {o.last_unacked}" if o.first_unacked else "-",
        ),
        ("next number", number(o.next_number)),
        (
            "last order acknowledgment",
            f"{o.last_ack} at {out.when(o.last_ack_time)}" if o.last_ack_time else "-",
        ),
        ("times it was repeated", max(o.last_ack_count - 1, 0)),
        ("resend interval", duration(o.resend_interval_s)),
        ("next resend", out.when(o.resend_at)),
        ("resends without answer", o.resend_count),
    ]
    facts += [
        (
            "otherwise ended",
            f"{one.messages:,} {class_name(one.message_class) if one.message_class else 'other'}, "
            f"the last at {clock(one.last)}, {one.dead_letters:,} kept as dead letters"
            + (f", {one.late:,} refused after they were acknowledged" if one.late else ""),
        )
        for one in o.endings
    ]
    if o.trouble:
        retry = o.retry_in_s
        facts += [
            ("trouble", o.trouble),
            ("trouble since", out.when(o.trouble_since)),
            ("attempts", o.attempts),
            ("next attempt", f"in {duration(retry)}" if retry >= 0 else "-"),
        ]
    facts += [
        (
            f"connection {number}",
            f"{out.when(one.time)} {one.status_name} {one.address}"
            + (f" ({one.reason})" if one.reason else ""),
        )
        for number, one in enumerate(reversed(o.history), 1)
    ]
    return facts


def why_(destination: Destination, qm: Where = None, json: Json = False) -> None:
    """Say in one sentence why messages for a destination do or do not move."""
    view: OutgoingView | QueueView
    with asking(qm, name=destination) as connection:
        try:
            view = connection.admin.outgoing_queue(destination)
        except QueueNotFound as unused:
            # As ``why`` of a queue manager: a queue of its own has a sentence, too.
            try:
                view = connection.queue(destination)
            except QueueNotFound:
                raise unused from None
    name = view.destination if isinstance(view, OutgoingView) else view.path
    if dumped({"destination": name, "state": view.state, "why": why(view)}, json):
        return
    out.line(why(view))


def _steer(action: str, destination: str, qm: str | None, json: bool) -> None:
    with manager(qm, name=destination) as connection:
        admin = connection.admin
        admin.outgoing_queue(destination)  # a queue of the manager is paused by 'queue pause'
        {"pause": admin.pause, "resume": admin.resume, "resend": admin.resend}[action](destination)
        view = admin.outgoing_queue(destination)
    if dumped({"destination": view.destination, "action": action, "why": why(view)}, json):
        return
    out.line(why(view))


def pause(destination: Destination, qm: Where = None, json: Json = False) -> None:
    """Transmit nothing more to a destination; messages gather, and may expire."""
    _steer("pause", destination, qm, json)


def resume(destination: Destination, qm: Where = None, json: Json = False) -> None:
    """Transmit again to a destination that was paused."""
    _steer("resume", destination, qm, json)


def resend(destination: Destination, qm: Where = None, json: Json = False) -> None:
    """Transmit at once what is not acknowledged, with the same numbers; connect if need be."""
    _steer("resend", destination, qm, json)


def remove(
    destination: Destination,
    lookup: Annotated[
        int, Argument(metavar="LOOKUP-ID", min=1, help="As 'onceq peek DESTINATION' shows.")
    ],
    yes: Yes = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Take one message out of an outgoing queue. It asks first.

    If it was never transmitted it is not delivered; else it is in doubt. Its sender is told if it
    asked for that. The messages behind it go on.
    """
    with manager(qm, name=destination) as connection:
        view = connection.admin.outgoing_queue(destination)
        name = view.destination
        found = connection.peek_tops(name, 1, after=lookup - 1, size=0)
        if not len(found) or found.lookup_ids[0] != lookup:
            raise MessageNotFound(
                f"there is no message {lookup} in {out.name(name)}; what there is shows onceq peek "
                f"{quote_word(out.name(name))}"
            )
        if not dry_run:
            agreed(f"take message {lookup} out of {out.name(name)} for good?", yes=yes)
            if not connection.remove(name, lookup, lookup):
                raise MessageNotFound(f"message {lookup} has left {out.name(name)} meanwhile")
    if dumped({"destination": name, "lookup_id": lookup, "dry_run": dry_run}, json):
        return
    if dry_run:
        out.line(f"would take message {lookup} out of {out.name(name)}; nothing was changed")
    else:
        out.line(f"took message {lookup} out of {out.name(name)}")
