"""Limits on what strangers can make this manager keep: in number, in bytes and in time.

A stranger is a manager that no application here sends to, that no configuration or directory
mentions, and whose first message stream is younger than KNOWN_AFTER_S. It may send to every queue.
But it gets only a share of the common resources: of the computer's quota, of incoming streams, of
outgoing queues, and of dead letters that no application here asked for. What has no room in the
share is not refused permanently; it is turned away, and comes again. So known managers, and the
applications here, keep the rest, no matter what strangers do.

Outgoing queues that exist only to answer strangers are limited in number. They connect a few at a
time, and ever more slowly while they get no answer; they are forgotten when they are empty.

Upholds: I24.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from onceq.core.names.resolve import index_by_guid
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import Queue
from onceq.core.state.setups import OutgoingDropped
from onceq.core.state.transition_tables import Link
from onceq.core.step.step import Step
from onceq.model.limits import (
    ANSWER_CONNECTS_MAX,
    ANSWER_RETRY_S_MAX,
    ANSWERS_EACH_BYTES,
    KNOWN_AFTER_S,
    STRANGER_QUEUES_MAX,
    STRANGERS_SHARE,
    UNASKED_SHARE,
)
from onceq.model.names import Kind


def known(step: Step, guid: bytes) -> bool:
    """Return whether a manager is no stranger."""
    state = step.state
    heard_s = state.first_heard.get(guid)
    if heard_s is not None and heard_s + KNOWN_AFTER_S <= step.now.wall_s:
        return True
    if guid == step.identity.guid or guid in step.names.routes_to or state.bindings.known(guid):
        return True
    if any(not outgoing.for_strangers for outgoing in step.names.by_guid.get(guid, ())):
        return True
    return guid in step.names.computer_guids


def quota_for(step: Step, guid: bytes) -> int:
    """Return how many bytes all queues may hold for a message of this manager to be accepted."""
    quota = step.settings.computer_quota_bytes
    return quota if known(step, guid) else quota // STRANGERS_SHARE


def unasked_room(step: Step, dead_letter_queue: int, size: int) -> bool:
    """Return whether a dead-letter queue here takes a message that came from elsewhere: no
    application here has asked for it."""
    queue = step.state.all_queues[dead_letter_queue]
    if queue.bytes + size <= step.settings.computer_quota_bytes // UNASKED_SHARE:
        return True
    assert isinstance(queue, Queue)
    step.notice(
        "no room for dead letters of others: their messages are turned away",
        queue.properties.name, queue=queue.properties.name, bytes=queue.bytes,
    )  # fmt: skip
    return False


def answer_room(step: Step, name: str) -> bool:
    """Return whether there is room to answer a stranger that its messages are refused."""
    state = step.state
    outgoing = state.outgoing.get(name)
    if outgoing is None:
        return len(state.answering) < STRANGER_QUEUES_MAX
    return not outgoing.for_strangers or outgoing.bytes < ANSWERS_EACH_BYTES


# ---- connecting for them ------------------------------------------------------------------------


def doubtful(step: Step, outgoing: OutgoingQueue) -> bool:
    """Return whether an outgoing queue exists only for a stranger that has not answered yet."""
    if not outgoing.for_strangers:
        return False
    if outgoing.name.kind is Kind.PRIVATE:
        return not known(step, outgoing.name.guid)
    return not (outgoing.bound_name and step.state.bindings.guid_of(outgoing.bound_name))


def unanswered(step: Step, outgoing: OutgoingQueue) -> bool:
    """Return whether only a stranger wants an outgoing queue, and no attempt has reached it."""
    return bool(
        outgoing.trouble.reason and not outgoing.session and doubtful(step, outgoing)
    )  # fmt: skip


def may_connect(step: Step, outgoing: OutgoingQueue) -> bool:
    """Return whether it may connect now; those for strangers are few at a time."""
    if not doubtful(step, outgoing):
        return True
    under_way = 0
    for number in step.state.answering:
        other = step.state.all_queues[number]
        assert isinstance(other, OutgoingQueue)
        under_way += other.link is Link.CONNECTING
    return under_way < ANSWER_CONNECTS_MAX


def retry_s(step: Step, outgoing: OutgoingQueue) -> float:
    """Return the seconds until the next attempt to connect."""
    usual = step.settings.connect_retry_s
    if not doubtful(step, outgoing):
        return usual
    slower = usual * (1 << min(max(outgoing.trouble.attempts - 1, 0), 20))
    return max(min(slower, ANSWER_RETRY_S_MAX), usual)


# ---- forgetting ----------------------------------------------------------------------------------


SWEPT_FROM: Final = STRANGER_QUEUES_MAX * 3 // 4
"""From this number of outgoing queues for strangers on, the empty ones are forgotten."""


def sweep(step: Step) -> None:
    """Forget empty outgoing queues for strangers; called while no change is under construction."""
    # There may be far more outgoing queues than these.
    answering = (step.state.all_queues[number] for number in step.state.answering)
    empty = [one for one in answering if isinstance(one, OutgoingQueue) and not len(one)]
    forget(step, idle(step, empty) if empty else [], forced=False)


def idle(step: Step, among: Iterable[OutgoingQueue]) -> list[OutgoingQueue]:
    """Return those outgoing queues that are empty and unused."""
    empty = [
        outgoing
        for outgoing in among
        if not len(outgoing) and not outgoing.paused_s
        and outgoing.link in (Link.NONE, Link.PUT_OFF)
        and not step.state.doubts.concern(outgoing.number)
    ]  # fmt: skip
    if not empty:
        return []
    used = {
        target.queue.number
        for tx in step.units.all()
        for prepared in tx.sends
        for target in prepared.targets
    } | {handle.queue for handle in step.readers.handles.values()}
    return [outgoing for outgoing in empty if outgoing.number not in used]


def forget(step: Step, found: list[OutgoingQueue], *, forced: bool = True) -> None:
    """Forget empty outgoing queues."""
    for outgoing in found:
        step.setup(OutgoingDropped(number=outgoing.number), forced=forced)
    if found:
        step.names.changed()
        index_by_guid(step)
