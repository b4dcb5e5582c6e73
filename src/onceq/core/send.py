"""A send: checked, resolved to its destinations, and turned into packets when it takes effect.

One batch to a multiple-element name becomes one run for each destination, all in one record, all
or none (S0, S3). Packets are made once, here (product D2): for what was sent in a transaction at
its commit, when its numbers are known, so that an aborted send uses up nothing (I3).

Upholds: I2 (all or none), I3 (no phantom), I5 (commit order), I7 (numbers for ever).
"""

from __future__ import annotations

from dataclasses import replace

from onceq.core.acknowledge import on_arrival
from onceq.core.desk import Desk, Prepared, Target, Transaction
from onceq.core.ending import ack_flags
from onceq.core.holders import TRANSACTIONAL_LANE, Holder, Outgoing, Queue
from onceq.core.inputs import SendItem
from onceq.core.numbers import take_numbers
from onceq.core.quota import check_quota, computer_full
from onceq.core.records import (
    PUT_DEADLETTER,
    PUT_EXPRESS,
    PUT_FINAL,
    PUT_JOURNAL,
    PUT_NACK_ARRIVAL,
    PUT_WANTS,
    Change,
    Put,
)
from onceq.core.resolve import address_of, answer_address, destinations
from onceq.core.state import DEAD_LETTER, DEAD_XACT, JOURNAL
from onceq.core.tracing import trace_queue
from onceq.errors import (
    BodyTooLarge,
    IllegalPropertySize,
    IllegalPropertyValue,
    InsufficientResources,
    LabelTooLong,
    OnceqError,
    StorageReserve,
)
from onceq.model.classes import MessageClass
from onceq.model.identity import NO_GUID
from onceq.model.limits import (
    EXTENSION_BYTES_MAX,
    LABEL_CHARS_MAX,
    OPEN_SEND_BYTES_MAX,
    PACKET_BYTES_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_MESSAGES_MAX,
)
from onceq.model.message import (
    CORRELATION_BYTES,
    PLAIN,
    PRIORITY_DEFAULT,
    Delivery,
    Journal,
    Properties,
)
from onceq.model.run import Run
from onceq.model.time import NEVER_S
from onceq.packet.encode import Template, encode_run, template

ROUTES_MAX = 1_024
ACKNOWLEDGE_MAX = 0x0F
JOURNAL_MAX = 3
TRANSACTION_NUMBERS = 1 << 20


def prepare(desk: Desk, item: SendItem, tx: Transaction | None, *, transactional: bool) -> Prepared:
    """Check one batch and find its destinations; nothing is stored yet.

    Args:
        tx: The transaction that it is added to; None: it is all that there is.

    Raises:
        OnceqError: Whatever is wrong with it; the whole batch is refused.
    """
    properties = item.properties
    if properties is not PLAIN:
        _check(properties)
    if desk.space_low:
        raise StorageReserve(
            "the disk is nearly full: sends are refused so that receiving and acknowledging can "
            "go on; free some space or raise the quota, then send again"
        )
    if tx is not None:
        if tx.lifetimes is None:
            tx.lifetimes = (properties.time_to_reach_queue, properties.time_to_be_received)
        reach, receive = tx.lifetimes
        if (reach, receive) != (properties.time_to_reach_queue, properties.time_to_be_received):
            properties = replace(properties, time_to_reach_queue=reach, time_to_be_received=receive)
            item = replace(item, properties=properties)
    sent_s = desk.now.wall_s - item.age_s
    targets, templates = _route(desk, item, sent_s, transactional)
    size = _checked_size(desk, item, templates, tx)
    receive_by = _deadline(sent_s, properties.time_to_be_received)
    reach_s = properties.time_to_reach_queue
    if reach_s >= NEVER_S - 1:
        reach_s = desk.settings.time_to_reach_queue_s
    prepared = Prepared(
        item=item,
        targets=targets,
        templates=templates,
        expires=min(_deadline(sent_s, reach_s), receive_by),
        receive_by=receive_by,
        size=size,
    )
    if len(targets) == 1:
        check_quota(desk, targets[0], size)
        return prepared
    for index, target in enumerate(targets):
        check_quota(desk, target, prepared.size_at(index))
    return prepared


def _check(properties: Properties) -> None:
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
    for name in ("app_specific", "body_type", "time_to_reach_queue", "time_to_be_received"):
        if not 0 <= getattr(properties, name) <= NEVER_S:
            raise IllegalPropertyValue(f"{name} is an unsigned 32-bit number")


def _checked_size(
    desk: Desk, item: SendItem, templates: tuple[Template, ...], tx: Transaction | None
) -> int:
    """Bytes of all packets of the batch over all destinations, within every limit."""
    lengths = item.bodies.lengths
    count = len(lengths)
    if count == 1:
        largest = total = lengths[0]
    else:
        largest, total = max(lengths, default=0), sum(lengths)
    size = 0
    for made in templates:
        if made.packet_bytes(largest) > PACKET_BYTES_MAX:
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
    if desk.open_bytes + size > OPEN_SEND_BYTES_MAX:
        raise InsufficientResources("open transactions hold all the memory they may; commit some")
    if desk.state.space.total + size > desk.settings.computer_quota_bytes:
        computer_full(desk)
        raise InsufficientResources(
            f"the queues of this manager hold their quota of {desk.settings.computer_quota_bytes} "
            "bytes; receive or purge messages, or raise computer_quota_bytes"
        )
    return size


def _deadline(sent_s: int, lifetime_s: int) -> int:
    return NEVER_S if lifetime_s >= NEVER_S - 1 else min(sent_s + lifetime_s, NEVER_S - 1)


def _route(
    desk: Desk, item: SendItem, sent_s: int, transactional: bool
) -> tuple[tuple[Target, ...], tuple[Template, ...]]:
    """Destinations and the headers for each; those of one second serve all its batches."""
    properties = None if item.properties is PLAIN else item.properties
    key = (item.destination, sent_s, transactional, properties)
    known = desk.routes.get(key)
    if known is None:
        targets = destinations(desk, item.destination, transactional=transactional)
        made = tuple(
            _template(desk, target, item.properties, sent_s, transactional=transactional)
            for target in targets
        )
        if len(desk.routes) >= ROUTES_MAX:
            desk.routes.clear()
        known = desk.routes[key] = (targets, made)
    return known


def _template(
    desk: Desk, target: Target, properties: Properties, sent_s: int, *, transactional: bool
) -> Template:
    destination, manager = address_of(desk, target)
    return template(
        source=desk.identity.guid,
        destination=destination,
        destination_manager=manager,
        admin=answer_address(desk, properties.admin_queue),
        response=answer_address(desk, properties.response_queue),
        properties=properties,
        sent_time=sent_s,
        transactional=transactional,
        report_queue=trace_queue(desk) if properties.trace else b"",
    )


# ---- taking effect -----------------------------------------------------------------------


def add_puts(desk: Desk, change: Change, sends: list[Prepared], *, transaction: int) -> int:
    """Turn sends into packets with their numbers, in order; ``transaction`` 0 means none.

    Returns:
        The number of the first message.
    """
    if len(sends) == 1 and len(sends[0].targets) == 1:
        (p,) = sends
        count = len(p.item.bodies.lengths)
        first_message = take_numbers(desk, change, count)
        numbering = _Numbering(desk, change)
        _add_put(
            numbering, p, p.targets[0], p.templates[0], message=first_message,
            transaction=transaction, first=True, last=True,
        )  # fmt: skip
        if numbering.acks:
            numbering.acknowledge()
        return first_message
    total = sum(len(p.item.bodies) for p in sends)
    first_message = take_numbers(desk, change, total)
    order = [(p, target, made) for p in sends for target, made in zip(p.targets, p.templates,
             strict=True)]  # fmt: skip
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    for index, (_, target, _) in enumerate(order):
        firsts.setdefault(target.holder.number, index)
        lasts[target.holder.number] = index
    numbering = _Numbering(desk, change)
    message, before = first_message, None
    for index, (p, target, made) in enumerate(order):
        if before is not None and p is not before:
            message += len(before.item.bodies)
        before = p
        number = target.holder.number
        _add_put(
            numbering, p, target, made,
            message=message,
            transaction=transaction,
            first=firsts[number] == index,
            last=lasts[number] == index,
        )  # fmt: skip
    numbering.acknowledge()
    return first_message


class _Numbering:
    """Streams, numbers and counters of several puts that stand in one change."""

    __slots__ = ("acks", "ahead", "change", "desk", "streams")

    def __init__(self, desk: Desk, change: Change) -> None:
        self.desk = desk
        self.change = change
        self.ahead: dict[tuple[int, int], int] = {}
        self.streams: dict[int, tuple[int, int]] = {}
        self.acks: list[tuple[Run, Properties, int]] = []
        """What has arrived here, or was refused, and shall be acknowledged (behind all puts)."""

    def acknowledge(self) -> None:
        """Tell of arrivals and refusals on this computer (section 5)."""
        for packets, properties, reason in self.acks:
            if properties.admin_queue:
                on_arrival(self.desk, self.change, packets, properties.acknowledge, reason)

    def counter(self, holder: Holder, lane: int, count: int) -> int:
        """Counter of the first of ``count`` messages."""
        key = (holder.number, lane)
        first = self.ahead.get(key)
        if first is None:
            first = holder.lane(lane).next
        self.ahead[key] = first + count
        return first

    def stream(self, outgoing: Outgoing, counter: int) -> tuple[int, int]:
        """Stream and number of the message that gets ``counter`` (EOD-4, EOD-12)."""
        known = self.streams.get(outgoing.number)
        if known is None:
            if outgoing.stream and outgoing.unacknowledged:
                known = (outgoing.stream, outgoing.base)
            else:
                state = self.desk.state
                ordinal = self.change.next_ordinal or state.next_ordinal
                self.change.next_ordinal = ordinal + 1
                known = (state.stamp << 32 | ordinal, counter - 1)
            self.streams[outgoing.number] = known
        stream, base = known
        return stream, counter - base


def _add_put(
    numbering: _Numbering,
    p: Prepared,
    target: Target,
    made: Template,
    *,
    message: int,
    transaction: int,
    first: bool,
    last: bool,
) -> None:
    properties = p.item.properties
    holder: Queue | Outgoing | None = target.holder
    lane = _lane(properties, transactional=bool(transaction))
    reason, stream, number = 0, 0, 0
    expires = p.receive_by
    flags = _flags(properties, target, transactional=bool(transaction))
    if isinstance(holder, Queue):
        buried = True
        if holder.number not in numbering.desk.state.holders:
            reason, holder = _deleted(numbering.desk, flags, bool(transaction))
        elif holder.properties.transactional != bool(transaction):
            reason, holder = _misfit(numbering.desk, flags, bool(transaction))
        else:
            buried = False
        if buried:
            expires, lane, flags = NEVER_S, 0, flags & PUT_EXPRESS
    else:
        expires = p.expires
        if transaction:
            lane = TRANSACTIONAL_LANE
    if holder is None:
        if properties.acknowledge:
            packets = encode_run(made, p.item.bodies, first_message=message)
            numbering.acks.append((packets, properties, reason))
        return
    counter = numbering.counter(holder, lane, len(p.item.bodies.lengths))
    if isinstance(holder, Outgoing) and transaction:
        stream, number = numbering.stream(holder, counter)
    packets = encode_run(
        made, p.item.bodies, first_message=message, stream=stream, first_number=number,
        transaction=transaction % TRANSACTION_NUMBERS, first=first, last=last,
    )  # fmt: skip
    numbering.change.puts.append(
        Put(
            holder.number, lane, counter, packets, stream, number, expires, p.receive_by, flags,
            reason, message, NO_GUID,
        )
    )  # fmt: skip
    if isinstance(holder, Queue) and properties is not PLAIN:
        if properties.acknowledge:
            numbering.acks.append((packets, properties, reason))
        if not transaction and not reason and properties.journal & Journal.JOURNAL:
            # Delivered: the computer journal has its copy now.
            journal = numbering.desk.state.holders[JOURNAL]
            counter = numbering.counter(journal, 0, len(packets))
            numbering.change.puts.append(Put(JOURNAL, 0, counter, packets, message=message))


def _lane(properties: Properties, *, transactional: bool) -> int:
    if transactional:
        return 0
    return PRIORITY_DEFAULT if properties.priority is None else properties.priority


def _flags(properties: Properties, target: Target, *, transactional: bool) -> int:
    if properties is PLAIN:
        return 0
    flags = 0
    local = isinstance(target.holder, Queue)
    if properties.acknowledge and properties.admin_queue:
        flags |= ack_flags(properties.acknowledge, arrived=local)
        if not local:
            flags &= PUT_WANTS | PUT_NACK_ARRIVAL
            flags = flags if flags & PUT_NACK_ARRIVAL else 0
    if not transactional and properties.delivery == Delivery.EXPRESS:
        flags |= PUT_EXPRESS
    if properties.journal & Journal.DEADLETTER:
        flags |= PUT_WANTS | PUT_DEADLETTER
    if properties.journal & Journal.JOURNAL and (transactional or not local):
        flags |= PUT_WANTS | PUT_JOURNAL
    if transactional and properties.journal:
        flags |= PUT_FINAL
    return flags


def _deleted(desk: Desk, flags: int, transactional: bool) -> tuple[int, Queue | None]:
    """Where a message goes whose local queue was deleted before its commit: a dead letter, if it
    asked for one (all sends of a transaction are accounted for, I2)."""
    reason = MessageClass.NACK_QUEUE_DELETED
    if not flags & PUT_DEADLETTER:
        return reason, None
    queue = desk.state.holders[DEAD_XACT if transactional else DEAD_LETTER]
    assert isinstance(queue, Queue)
    return reason, queue


def _misfit(desk: Desk, flags: int, transactional: bool) -> tuple[int, Queue | None]:
    """Where a message goes whose kind is not the local queue's (Q-4, D5).

    A transactional one to this computer's transactional dead-letter queue, whatever it asked; the
    other kind to the dead-letter queue if it asked, else nowhere.
    """
    if transactional:
        queue = desk.state.holders[DEAD_XACT]
        reason = MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE
    else:
        queue = desk.state.holders[DEAD_LETTER]
        reason = MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE
    assert isinstance(queue, Queue)
    return reason, queue if transactional or flags & PUT_DEADLETTER else None


def prepared_all(desk: Desk, items: tuple[SendItem, ...], tx: Transaction | None) -> list[Prepared]:
    """Prepare several batches, all or none; on an error everything is as before.

    What they need in queues of this manager is promised until ``desk.promise`` takes it back.
    """
    before = (tx.bytes, tx.messages, tx.lifetimes) if tx is not None else (0, 0, None)
    made: list[Prepared] = []
    try:
        for item in items:
            p = prepare(desk, item, tx, transactional=tx is not None)
            if tx is not None:
                tx.bytes += p.size
                tx.messages += len(item.bodies)
            made.append(p)
            desk.promise((p,), 1)
    except OnceqError:
        desk.promise(made, -1)
        if tx is not None:
            tx.bytes, tx.messages, tx.lifetimes = before
        raise
    return made
