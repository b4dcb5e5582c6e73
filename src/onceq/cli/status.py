"""``onceq qm status``: a queue manager at a glance, and what needs attention."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from onceq.cli import out
from onceq.cli.common import Json, Where, asking, dumped
from onceq.client.why import why
from onceq.model.identity import guid_text
from onceq.model.limits import CERTIFICATE_WARN_DAYS
from onceq.model.time import DAY_S
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.model.views.managers import Restored, StatusView
    from onceq.model.views.queues import OutgoingView


def status(qm: Where = None, json: Json = False) -> None:
    """The queue manager at a glance, with what needs attention."""
    with asking(qm) as connection:
        view, outgoing = connection.status(), connection.outgoing()
        queues = connection.queues()
    attention = troubles(view, outgoing)
    if dumped({**view.as_dict(), "attention": attention}, json):
        return
    out.facts(
        [
            ("queue manager", f"{view.name}  {view.id}"),
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


def doors(view: StatusView) -> str:
    """How others come in, in a few words."""
    if view.certificate_ends:
        return f"TLS; certificate good until {out.when(view.certificate_ends)}"
    return "TLS" if view.tls else "this computer alone" if not view.plain_peers else "no TLS"


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
            "dead-letter queue: onceq peek 'SYSTEM$;DEADXACT'"
        )
    if view.dead_letters:
        found.append(
            f"{plural(view.dead_letters, 'message')} in the dead-letter queue: "
            "onceq peek 'SYSTEM$;DEADLETTER'"
        )
    found += [
        why(o)
        for o in outgoing
        if o.messages and (o.paused_since or o.trouble or o.state == "LOCKED")
    ]
    return found


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
