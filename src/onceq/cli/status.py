"""``onceq qm status``: a queue manager at a glance, and what needs attention."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from onceq.cli import out
from onceq.cli.common import Json, Where, asking, dumped
from onceq.cli.lists import LISTS
from onceq.client.attention import (
    FULL,
    PAUSED,
    RECENTLY_REFUSED,
    STUCK,
    Seen,
    held_up,
    letters,
    to_look_at,
)
from onceq.model.identity import guid_text
from onceq.model.wording import duration, plural

if TYPE_CHECKING:
    from onceq.model.views.managers import Restored, StatusView


def status(qm: Where = None, json: Json = False) -> None:
    """The queue manager at a glance, with what needs attention."""
    with asking(qm) as connection:
        view, busy = connection.status(), connection.queues(only="busy")
        seen = Seen(
            view, connection.metrics(), connection.queue_page(**PAUSED),
            connection.queue_page(**FULL), connection.outgoing_page(**STUCK),
            connection.outgoing_page(**RECENTLY_REFUSED), connection.branches(),
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
