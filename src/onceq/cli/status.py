"""``onceq qm status``: a queue manager at a glance, and what needs attention."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from onceq.cli import out
from onceq.cli.common import Json, Where, asking, dumped
from onceq.client.why import why
from onceq.errors import InvalidParameter
from onceq.model.identity import guid_text
from onceq.model.limits import CERTIFICATE_WARN_DAYS
from onceq.model.time import DAY_S
from onceq.model.wording import duration, plural

REFUSED: Final = {
    "nack-bad-destination-queue": "there is no such queue",
    "nack-queue-exceed-quota": "the quota of the queue was used up",
    "nack-access-denied": "the sender may not send there",
    "nack-not-transactional-queue": "they are transactional, and the queue is not",
    "nack-not-transactional-message": "the queue is transactional, and they are not",
}
"""Classes of messages that a queue does not take, and why, in a word."""

if TYPE_CHECKING:
    from onceq.model.views.branches import BranchView
    from onceq.model.views.managers import Restored, StatusView
    from onceq.model.views.queues import OutgoingView, QueueView


def status(qm: Where = None, json: Json = False) -> None:
    """The queue manager at a glance, with what needs attention."""
    with asking(qm) as connection:
        view, outgoing = connection.status(), connection.outgoing()
        queues, branches = connection.queues(), connection.branches()
        try:
            refused = connection.metrics().ended
        except InvalidParameter:
            refused = {}  # an older queue manager counts nothing
    attention = [
        *troubles(view, outgoing),
        *queue_troubles(queues),
        *branch_troubles(branches),
        *refusals(refused),
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
            ("streams", view.streams),
            ("transactions", view.transactions),
            ("waiting readers", view.waiting_readers),
            ("log position", view.log_position),
            *([("restored", put_back(view.restored))] if view.restored else []),
        ]
    )
    busy = [q for q in queues if q.messages]
    if busy:
        print()
        out.table(
            ("queue", "messages", "locked", "bytes"),
            [(out.name(q.path), q.messages, q.locked, out.size(q.bytes)) for q in busy],
        )
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
    return text


def troubles(view: StatusView, outgoing: list[OutgoingView]) -> list[str]:
    """Sentences about what an operator should look at."""
    found = []
    found += [f"since the restore {u.name or u.id} shows: {u.what}" for u in view.undone]
    if view.offline_since:
        found.append("disconnected by an operator: 'onceq qm connect' brings it back")
    found += [
        f"two queue managers have the identity {c.name or c.id}: {c.found} "
        f"(noticed since {out.when(c.since)}); end one of them"
        for c in view.clashes
    ]
    found += doors_troubles(view, time.time())
    if view.rights_trouble:
        found.append(
            f"the rights in the directory are not followed: {view.rights_trouble}; what was read "
            "before goes on to hold"
        )
    if view.space_low:
        found.append("the disk is nearly full: sends are refused until there is room")
    found += [
        f"{what}: {plural(count, 'time')} since the start; the log says from where"
        for what, count in view.disbelieved.items()
    ]
    if view.damaged_messages:
        found.append(
            f"{plural(view.damaged_messages, 'message')} set aside because stored bytes are "
            "damaged: onceq damage list"
        )
    if view.transactional_dead_letters:
        found.append(
            f"{plural(view.transactional_dead_letters, 'message')} in the transactional "
            "dead-letter queue: onceq dead list"
        )
    if view.dead_letters:
        found.append(
            f"{plural(view.dead_letters, 'message')} in the dead-letter queue: onceq dead list"
        )
    found += [
        why(o)
        for o in outgoing
        if o.messages and (o.paused_since or o.trouble or o.state == "LOCKED")
    ]
    return found


def queue_troubles(queues: Sequence[QueueView]) -> list[str]:
    """Sentences about queues from which an operator lets nobody receive."""
    return [
        f"{out.name(one.path)}: paused since {out.when(one.paused_since)}, with "
        f"{plural(one.messages, 'message')}: 'onceq queue resume' lets it be received from"
        for one in queues
        if one.paused_since and not one.parent
    ]


def branch_troubles(branches: Sequence[BranchView]) -> list[str]:
    """A sentence about branches that are prepared: their messages wait for somebody's decision."""
    prepared = [one for one in branches if one.phase == "prepared"]
    if not prepared:
        return []
    oldest = min(one.since for one in prepared)
    some = "1 branch of an external transaction is" if len(prepared) == 1 else (
        f"{len(prepared)} branches of external transactions are"
    )  # fmt: skip
    return [f"{some} prepared, the oldest since {out.when(oldest)}: onceq tx list"]


def refusals(ended: Mapping[str, int]) -> list[str]:
    """Sentences about messages that came for a queue that does not take them."""
    return [
        f"{plural(count, 'message')} refused since the start: {REFUSED[name]}; senders know it "
        "if they asked for dead letters or acknowledgments"
        for name, count in ended.items()
        if count and name in REFUSED
    ]


def doors_troubles(view: StatusView, now_s: float) -> list[str]:
    """Sentences about how others come in."""
    found = []
    if view.tls and not now_s < view.certificate_ends:
        found.append(
            "no other queue manager believes this one: "
            f"{view.certificate_problem or 'its certificate has expired'}; 'onceq tls renew'"
        )
    elif view.tls and view.certificate_ends < now_s + CERTIFICATE_WARN_DAYS * DAY_S:
        days = int((view.certificate_ends - now_s) // DAY_S)
        found.append(f"the certificate ends in {plural(days, 'day')}: 'onceq tls renew'")
    if view.plain_peers:
        found.append(
            "who has one of these addresses is believed without proof (plain_peers): "
            f"{', '.join(view.plain_peers)}"
        )
    return found
