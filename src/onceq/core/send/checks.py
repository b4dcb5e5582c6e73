"""Limits on what may be sent: properties, packet sizes and transaction sizes.

Upholds: I24.
"""

from __future__ import annotations

from operator import add
from typing import Final

from onceq.core.state.queues import Queue
from onceq.core.step.connections import Target
from onceq.core.step.step import Step
from onceq.core.step.units import Transaction
from onceq.errors import (
    BodyTooLarge,
    IllegalPropertySize,
    IllegalPropertyValue,
    InsufficientResources,
    InvalidParameter,
    LabelTooLong,
)
from onceq.model.limits import (
    EXTENSION_BYTES_MAX,
    LABEL_CHARS_MAX,
    OPEN_SEND_BYTES_MAX,
    PACKET_BYTES_MAX,
    STREAM_NUMBERS_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_MESSAGES_MAX,
)
from onceq.model.marks import NEVER_S
from onceq.model.message import CORRELATION_BYTES, OWN, PLAIN, Properties
from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.requests import SendItem
from onceq.model.run import largest_of, total_of
from onceq.packet.encode import Template
from onceq.packet.layout import PROPERTIES_HEADER
from onceq.packet.own import check_own

# ---- quota ---------------------------------------------------------------------------------------
#
# Quotas: a queue's refuses permanently, the whole manager's for now.
#
# Messages of open transactions count, received and sent ones: a send that was accepted as
# within the quota stays so until its commit.


def check_quota(step: Step, target: Target, size: int, *, transactional: bool) -> None:
    """Refuse a send to a queue of this manager that has no room for it, or to a stream that has no
    numbers left: a stream that is always under way never starts again (EOD-12)."""
    queue = target.queue
    if isinstance(queue, Queue):
        if queue.properties.quota_kb != QUOTA_UNLIMITED_KB and over_quota(step, queue, size):
            queue_full(step, queue)
            raise InsufficientResources(
                f"queue {queue.properties.name} is at its quota of {queue.properties.quota_kb} KB; "
                "receive from it, or raise its quota_kb"
            )
    elif transactional and queue.given(step.state.stamp) > STREAM_NUMBERS_MAX:
        raise InsufficientResources(
            f"the stream to {target.text} has used its {STREAM_NUMBERS_MAX:,} numbers; sends go on "
            "in a new one as soon as everything that is under way there is acknowledged"
        )


def over_quota(step: Step, queue: Queue, size: int) -> bool:
    """Return whether a queue of this manager with a quota has no room for ``size`` more bytes."""
    return step.holding(queue) + size > queue.properties.quota_kb << 10


def queue_full(step: Step, queue: Queue) -> None:
    """Notify the operator that a queue is at its quota: it refuses messages permanently (Q-19)."""
    step.notice(
        "queue quota reached", queue.properties.name, queue=queue.properties.name,
        quota_kb=queue.properties.quota_kb, messages=len(queue),
    )  # fmt: skip


def computer_full(step: Step) -> None:
    """Notify the operator that all queues together are at their quota: new messages are refused for
    now, and their senders repeat them (Q-19)."""
    step.notice(
        "computer quota reached", held=step.state.space.total,
        computer_quota_bytes=step.settings.computer_quota_bytes,
    )  # fmt: skip


# ---- checks --------------------------------------------------------------------------------------


ACKNOWLEDGE_MAX = 0x0F
JOURNAL_MAX = 3
NUMBERS: Final = (
    "app_specific", "body_type", "time_to_reach_queue", "time_to_be_received", "deliver_at",
    "delay",
)  # fmt: skip


def check(properties: Properties) -> None:
    """Refuse invalid properties."""
    if len(properties.label) > LABEL_CHARS_MAX:
        raise LabelTooLong(
            f"the label has {len(properties.label)} characters; at most {LABEL_CHARS_MAX} fit"
        )
    if len(properties.correlation_id) != CORRELATION_BYTES:
        raise IllegalPropertySize(
            f"a correlation identifier has {CORRELATION_BYTES} bytes, "
            f"not {len(properties.correlation_id)}"
        )
    if properties.priority is not None and not 0 <= properties.priority <= 7:
        raise IllegalPropertyValue(f"priority is 0 to 7, not {properties.priority}")
    if not 0 <= properties.acknowledge <= ACKNOWLEDGE_MAX:
        raise IllegalPropertyValue(
            f"acknowledge is made of the bits of onceq.Acknowledge, not {properties.acknowledge:#x}"
        )
    if not 0 <= properties.journal <= JOURNAL_MAX:
        raise IllegalPropertyValue(
            f"journal is made of the bits of onceq.Journal, not {properties.journal:#x}"
        )
    if len(properties.extension) > EXTENSION_BYTES_MAX:
        raise IllegalPropertySize(f"an extension has at most {EXTENSION_BYTES_MAX} bytes")
    for name in NUMBERS:
        if not 0 <= getattr(properties, name) <= NEVER_S:
            raise IllegalPropertyValue(f"{name} is an unsigned 32-bit number")


def check_batch(item: SendItem) -> None:
    """Refuse a batch with invalid properties, its own or those of one of its messages."""
    if item.properties is not PLAIN:
        check(item.properties)
    if item.own is None:
        return
    if len(item.own) != len(item.bodies):
        raise InvalidParameter(
            f"{len(item.own)} messages have properties of their own, and there are "
            f"{len(item.bodies)}"
        )
    for name in OWN:
        if getattr(item.properties, name) != getattr(PLAIN, name):
            raise InvalidParameter(f"{name} is given for each message and for all of them")
    check_own(item.own)


def checked_size(
    step: Step, item: SendItem, templates: tuple[Template, ...], tx: Transaction | None
) -> int:
    """Return the bytes of all packets of the batch over all destinations, within every limit."""
    lengths = item.bodies.lengths
    count = len(lengths)
    if item.own is not None:
        # The shared part of a properties header is counted with the template's.
        headers = item.own.lengths
        total = total_of(headers) + total_of(lengths) - count * PROPERTIES_HEADER
        largest = max(map(add, headers, lengths), default=PROPERTIES_HEADER) - PROPERTIES_HEADER
    elif count == 1:  # 0.5 us instead of 1.3
        largest = total = lengths[0]
    else:
        largest, total = largest_of(lengths), total_of(lengths)
    size = 0
    for made in templates:
        if largest > made.body_max:
            raise BodyTooLarge(
                f"a body of {largest} bytes with {made.overhead} bytes of headers is larger than "
                f"the {PACKET_BYTES_MAX} bytes of a packet; send it in parts"
            )
        size += total + count * (made.overhead + 3)
    held, messages = (tx.bytes, tx.messages) if tx is not None else (0, 0)
    if held + size > TRANSACTION_BYTES_MAX:
        raise InsufficientResources(
            f"one transaction may send {TRANSACTION_BYTES_MAX} bytes; this would make "
            f"{held + size}; commit in smaller steps"
        )
    if messages + count > TRANSACTION_MESSAGES_MAX:
        raise InsufficientResources(
            f"one transaction may hold {TRANSACTION_MESSAGES_MAX} messages; commit in smaller steps"
        )
    if step.units.open_bytes + size > OPEN_SEND_BYTES_MAX:
        raise InsufficientResources("open transactions hold all the memory they may; commit some")
    if step.state.space.total + size > step.settings.computer_quota_bytes:
        computer_full(step)
        raise InsufficientResources(
            f"the queues of this manager hold their quota of {step.settings.computer_quota_bytes} "
            "bytes; receive or purge messages, or raise computer_quota_bytes"
        )
    return size
