"""The reports that a send asks for, as flags of its puts.

Upholds: I12, I13 (no report without a request), I14.
"""

from __future__ import annotations

from dataclasses import replace

from onceq.core.ending.ending import ack_flags
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import Queue
from onceq.core.state.records import (
    PUT_DEADLETTER,
    PUT_EXPRESS,
    PUT_FINAL,
    PUT_JOURNAL,
    PUT_NACK_ARRIVAL,
    PUT_ONCE,
    PUT_WANTS,
)
from onceq.core.step.routes import Target
from onceq.core.step.step import Step
from onceq.model.message import PRIORITY_DEFAULT, Acknowledge, Delivery, Journal, Properties

SYSTEM_NAMES = frozenset(("admin_queue$", "notify_queue$", "order_queue$"))
"""Queues that managers use among themselves."""


def lane_of(properties: Properties) -> int:
    """Return the lane of messages outside transactions; transactional ones have priority 0
    (Q-23)."""
    return PRIORITY_DEFAULT if properties.priority is None else properties.priority


def quiet(step: Step, name: str) -> bool:
    """Return whether messages to a queue are never acknowledged or source-journaled (Q-17).

    Args:
        name: Name of the queue, without computer and ``private$``.
    """
    return step.settings.quiet_system_queues and name.casefold() in SYSTEM_NAMES


def without_quiet_queues(step: Step, target: Target, properties: Properties) -> Properties:
    """Return the properties of messages for a target, without reports that it does not make."""
    if not step.settings.quiet_system_queues or not quiet(step, target.name.queue):
        return properties
    return replace(properties, acknowledge=Acknowledge.NONE, journal=Journal.NONE)


def flags_of(
    properties: Properties, target: Target, *, transactional: bool, once: bool = False
) -> int:
    """Return the flags of a put of a batch for one of its targets."""
    flags = 0
    local = isinstance(target.queue, Queue)
    if properties.acknowledge and properties.admin_queue:
        flags |= ack_flags(properties.acknowledge, arrived=local)
        if not local:
            flags &= PUT_WANTS | PUT_NACK_ARRIVAL
            flags = flags if flags & PUT_NACK_ARRIVAL else 0
    if once and not local:
        flags |= PUT_ONCE | PUT_WANTS
    if not transactional and properties.delivery == Delivery.EXPRESS:
        flags |= PUT_EXPRESS
    if properties.journal & Journal.DEADLETTER:
        flags |= PUT_WANTS | PUT_DEADLETTER
    if properties.journal & Journal.JOURNAL and (transactional or not local):
        flags |= PUT_WANTS | PUT_JOURNAL
    # Over HTTP only dead-lettering asks how a message ends (HTTP-4); the stream receipt makes a
    # journal copy (HTTP-13).
    over_http = isinstance(target.queue, OutgoingQueue) and target.queue.over_http
    if transactional and properties.journal & (Journal.DEADLETTER if over_http else Journal(3)):
        flags |= PUT_FINAL
    return flags
