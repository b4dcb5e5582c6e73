"""A send: checked, resolved to its destinations, and turned into packets when it takes effect.

One batch to a multiple-element name becomes one run for each destination, all in one record, all or
none (S0, S3). Packets are made once, here: for a transaction at its commit, when its numbers are
known, so that an aborted send uses up nothing (I3). Packets of a prepared branch for local queues
are written at the prepare (``store_packets``).

Also here:

* Limits on what may be sent: properties, packet sizes and transaction sizes.
* Quotas: a queue's refuses permanently, the whole manager's for now (Q-19).
* Packets that are written when a branch is prepared, and not once more when it is committed.

Upholds: I2 (all or none), I3 (no phantom), I5 (commit order), I7 (numbers are never reused), I24,
I20 (a promise needs less to be kept).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Final

from onceq import errors
from onceq.core import delays
from onceq.core.ending.acknowledgments import on_arrival, trace_queue, trace_sent
from onceq.core.ending.ending import (
    AtHand,
    end_at_hand,
    flags_of,
    lane_of,
    own_dead_letter_queue,
    without_quiet_queues,
)
from onceq.core.ending.table import FATES, Ending, Side
from onceq.core.names import (
    address_of,
    answer_address,
    check_answers,
    destinations,
    lists_of,
    wrong_kind,
)
from onceq.core.peers.lives import next_stream
from onceq.core.state.branch_table import StoredPackets
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import TRANSACTIONAL_LANE, Queue
from onceq.core.state.records import PUT_DEADLETTER, PUT_JOURNAL, Change, Put, RestOf
from onceq.core.step.connections import CheckedBatch, Deadlines, Route, StoredBatch, Target
from onceq.core.step.step import ChangeBuilder, Step, take_numbers
from onceq.core.step.units import OpenTransaction
from onceq.model import limits
from onceq.model.identity import NO_GUID
from onceq.model.marks import NEVER_S
from onceq.model.message import (
    CORRELATION_BYTES,
    OWN,
    PLAIN,
    Delivery,
    Journal,
    Properties,
    check_lifetimes,
)
from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.requests import SendItem
from onceq.model.resultcodes import MessageClass
from onceq.model.results import dooms, send_failed
from onceq.model.run import LENGTH_TYPE, Run, largest_of, total_of
from onceq.model.settings import KEEP_ALWAYS, Settings
from onceq.packet.address import PROPERTIES_HEADER
from onceq.packet.encode import Template, encode_fronts, encode_run, one_rest, template
from onceq.packet.own import check_own

# ---- quota ---------------------------------------------------------------------------------------


def check_quota(step: Step, target: Target, size: int, *, transactional: bool) -> None:
    """Refuse a send to a queue of this manager that has no room for it, or to a stream that has no
    numbers left: a stream that is always under way never starts again (EOD-12).

    Messages of open transactions count, received and sent ones (Q-21): a send that was accepted as
    within the quota stays so until its commit.
    """
    queue = target.queue
    if isinstance(queue, Queue):
        if queue.properties.quota_kb != QUOTA_UNLIMITED_KB and over_quota(step, queue, size):
            queue_full(step, queue)
            raise errors.InsufficientResources(
                f"queue {queue.properties.name} is at its quota of {queue.properties.quota_kb} KB; "
                "receive from it, or raise its quota_kb"
            )
    elif transactional and queue.numbers_given(step.state.stamp) > limits.STREAM_NUMBERS_MAX:
        raise errors.InsufficientResources(
            f"the stream to {target.text} has used its {limits.STREAM_NUMBERS_MAX:,} numbers; "
            "sends go on in a new one as soon as everything that is under way there is acknowledged"
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


def check_properties(properties: Properties) -> None:
    """Refuse invalid properties."""
    if len(properties.label) > limits.LABEL_CHARS_MAX:
        raise errors.LabelTooLong(
            f"the label has {len(properties.label)} characters; "
            f"at most {limits.LABEL_CHARS_MAX} fit"
        )
    if len(properties.correlation_id) != CORRELATION_BYTES:
        raise errors.IllegalPropertySize(
            f"a correlation identifier has {CORRELATION_BYTES} bytes, "
            f"not {len(properties.correlation_id)}"
        )
    if properties.priority is not None and not 0 <= properties.priority <= 7:
        raise errors.IllegalPropertyValue(f"priority is 0 to 7, not {properties.priority}")
    if not 0 <= properties.acknowledge <= ACKNOWLEDGE_MAX:
        raise errors.IllegalPropertyValue(
            f"acknowledge is made of the bits of onceq.Acknowledge, not {properties.acknowledge:#x}"
        )
    if not 0 <= properties.journal <= JOURNAL_MAX:
        raise errors.IllegalPropertyValue(
            f"journal is made of the bits of onceq.Journal, not {properties.journal:#x}"
        )
    if len(properties.extension) > limits.EXTENSION_BYTES_MAX:
        raise errors.IllegalPropertySize(
            f"an extension has at most {limits.EXTENSION_BYTES_MAX} bytes"
        )
    for name in NUMBERS:
        if not 0 <= getattr(properties, name) <= NEVER_S:
            raise errors.IllegalPropertyValue(f"{name} is an unsigned 32-bit number")


def check_batch(item: SendItem) -> None:
    """Refuse a batch with invalid properties, its own or those of one of its messages."""
    if item.properties is not PLAIN:
        check_properties(item.properties)
    if item.own is None:
        return
    if len(item.own) != len(item.bodies):
        raise errors.InvalidParameter(
            f"{len(item.own)} messages have properties of their own, and there are "
            f"{len(item.bodies)}"
        )
    for name in OWN:
        if getattr(item.properties, name) != getattr(PLAIN, name):
            raise errors.InvalidParameter(f"{name} is given for each message and for all of them")
    check_own(item.own)


def checked_size(
    step: Step, item: SendItem, templates: tuple[Template, ...], tx: OpenTransaction | None
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
            raise errors.BodyTooLarge(
                f"a body of {largest} bytes with {made.overhead} bytes of headers is larger than "
                f"the {limits.PACKET_BYTES_MAX} bytes of a packet; send it in parts"
            )
        size += total + count * (made.overhead + 3)
    held, messages = (tx.bytes, tx.messages) if tx is not None else (0, 0)
    if held + size > limits.TRANSACTION_BYTES_MAX:
        raise errors.InsufficientResources(
            f"one transaction may send {limits.TRANSACTION_BYTES_MAX} bytes; this would make "
            f"{held + size}; commit in smaller steps"
        )
    if messages + count > limits.TRANSACTION_MESSAGES_MAX:
        raise errors.InsufficientResources(
            f"one transaction may hold {limits.TRANSACTION_MESSAGES_MAX} messages; "
            "commit in smaller steps"
        )
    if step.units.open_bytes + size > limits.OPEN_SEND_BYTES_MAX:
        raise errors.InsufficientResources(
            "open transactions hold all the memory they may; commit some"
        )
    if step.state.space.total + size > step.settings.computer_quota_bytes:
        computer_full(step)
        raise errors.InsufficientResources(
            f"the queues of this manager hold their quota of {step.settings.computer_quota_bytes} "
            "bytes; receive or purge messages, or raise computer_quota_bytes"
        )
    return size


# ---- send ----------------------------------------------------------------------------------------


TRANSACTION_NUMBERS = 1 << 20
_NO_QUEUE: Final = MessageClass.NACK_BAD_DESTINATION_QUEUE
_WRONG_KIND: Final = {
    True: MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE,
    False: MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE,
}
"""Why a queue refuses a message, by whether that was sent in a transaction."""


def check_send(
    step: Step, item: SendItem, tx: OpenTransaction | None, *, transactional: bool, by: str
) -> CheckedBatch:
    """Check one batch and find its destinations; nothing is stored yet.

    Args:
        tx: The transaction that it is added to; None: the batch is all.
        by: The sender (``Step.known_by``).

    Raises:
        OnceqError: Something is wrong with it; the whole batch is refused.
    """
    properties = item.properties
    if properties is not PLAIN or item.own is not None:
        check_batch(item)
        if properties.deliver_at or properties.delay:
            item = delays.resolved(step, item)
            properties = item.properties
    if transactional and step.settings.xact_dead_letter == KEEP_ALWAYS:
        properties = replace(properties, journal=properties.journal | Journal.DEADLETTER)
        item = replace(item, properties=properties)
    if step.space_low:
        raise errors.StorageReserve(
            "the disk is nearly full: sends are refused so that receiving and acknowledging can "
            "go on; free space on the disk or receive messages, then send again"
        )
    if tx is not None:
        if tx.lifetimes is None:
            tx.lifetimes = (properties.time_to_reach_queue, properties.time_to_be_received)
        reach, receive = tx.lifetimes
        if (reach, receive) != (properties.time_to_reach_queue, properties.time_to_be_received):
            holds = {"time_to_reach_queue": reach, "time_to_be_received": receive}
            check_lifetimes(holds, item.values)
            properties = replace(properties, time_to_reach_queue=reach, time_to_be_received=receive)
            item = replace(item, properties=properties)
    sent_s = step.now.wall_s - item.age_s
    # To compare PLAIN by identity costs less than to add up its fields.
    key = (item.destination, sent_s, transactional, None if properties is PLAIN else properties)
    route = step.names.routes.get(key)
    if route is None:
        route = _route(step, item, sent_s, transactional, by)
        if item.destination in step.names.targets:  # or it may lead elsewhere the next time
            step.names.keep_route(key, route)
    targets, templates = route.targets, route.templates
    if properties.deliver_at:
        delays.check_time(properties.deliver_at, route.deadlines.receive_by)
        for target in targets:
            delays.check_target(target)
    if properties.admin_queue:
        check_answers(step, targets, properties.admin_queue)
    size = checked_size(step, item, templates, tx)
    prepared = CheckedBatch(
        item, targets, templates, route.deadlines, size, one_rest=route.one_rest
    )
    if properties.dead_letter_queue:
        prepared.dead_letter_queue = own_dead_letter_queue(
            step, properties, transactional=transactional
        )
    for index, target in enumerate(targets):
        check_quota(step, target, prepared.size_at(index), transactional=transactional)
    return prepared


def _deadlines(settings: Settings, properties: Properties, sent_s: int) -> Deadlines:
    """Return when messages expire: all lifetimes count from the call of send (CNF-19).

    A time to reach the queue of 0 gives one attempt, which is over at the latest when the stream
    would be sent again (CNF-4).
    """
    reach_s, receive_s = properties.time_to_reach_queue, properties.time_to_be_received
    once = not reach_s
    if reach_s >= NEVER_S - 1:
        reach_s = settings.time_to_reach_queue_s
    elif once:
        reach_s = math.ceil(settings.resend_first_s)
    receive_by = _deadline(sent_s, receive_s)
    expires = min(_deadline(sent_s, reach_s), receive_by)
    delay_s = settings.xact_delay_receive_nack_s
    if delay_s >= NEVER_S:
        delay_s = min(receive_s, reach_s)
    return Deadlines(expires, receive_by, _deadline(receive_by, delay_s), once)


def _deadline(sent_s: int, lifetime_s: int) -> int:
    if lifetime_s >= NEVER_S - 1 or sent_s >= NEVER_S:
        return NEVER_S
    return min(sent_s + lifetime_s, NEVER_S - 1)


def _route(step: Step, item: SendItem, sent_s: int, transactional: bool, by: str) -> Route:
    """Return destinations, the headers for each, and deadlines; those of one second serve all
    batches with the same properties."""
    destination, properties = item.destination, item.properties
    targets = destinations(step, destination, transactional=transactional, by=by)
    for target in targets:
        queue = target.queue
        if isinstance(queue, Queue) and queue.properties.transactional != transactional:
            raise wrong_kind(targets, transactional=transactional)
    lists = lists_of(step, destination, properties, by)
    made: list[Template] = []
    for target in targets:
        address, manager = address_of(step, target)
        wanted = without_quiet_queues(step, target, properties)
        made.append(
            template(
                source=step.identity.guid,
                destination=address,
                destination_manager=manager,
                admin=answer_address(step, wanted.admin_queue),
                response=answer_address(step, wanted.response_queue),
                properties=wanted,
                sent_time=sent_s,
                transactional=transactional,
                multi=lists,
                report_queue=trace_queue(step) if wanted.trace else b"",
            )
        )
    templates = tuple(made)
    deadlines = _deadlines(step.settings, properties, sent_s)
    return Route(targets, templates, deadlines, one_rest(templates))


# ---- taking effect -----------------------------------------------------------------------


def add_puts(
    build: ChangeBuilder, sends: list[CheckedBatch], *, transaction: int, apart: bool = False
) -> tuple[int, int]:
    """Turn sends into packets with their numbers, in order; ``transaction`` 0 means none.

    Args:
        apart: They are a part of a transaction whose rest is elsewhere: none of them is marked as
            its first or its last, so they are not taken for all of it (SND-10).

    Returns:
        The number of the first message, and how many there are.
    """
    # A prepare writes the packets of all batches of a branch or of none: the first one shows which.
    written = sends[0].written if sends else None
    count = 0
    for p in sends:
        count += len(p.item.bodies.lengths)
    first = written.message if written else take_numbers(build.step, build.change, count)
    acks: list[tuple[Run, int, int]] = []
    for part in in_order(sends, first):
        if apart:
            part.first, part.last, part.here = False, False, (0, 0)
        _add_put(build, part, transaction, acks)
    # Acknowledge what has arrived here, or was refused, behind all puts (ACK-17).
    for packets, level, reason in acks:
        on_arrival(build, packets, level, reason)
    message = first
    for p in sends:
        if p.item.properties.trace:
            trace_sent(build, p, message)
        message += len(p.item.bodies.lengths)
    build.step.counts.sent += count
    return first, count


@dataclass(slots=True)
class DestinationBatch:
    """One batch of a transaction on its way to one of its targets.

    Attributes:
        index: Of the target.
        message: Number of the first message.
        first, last: Whether the first and the last of the transaction to this queue are in it.
        here: Which messages of the transaction to this queue they are, where they are in no
            stream (``packet/survey.py``).
    """

    prepared: CheckedBatch
    index: int
    message: int
    first: bool
    last: bool
    here: tuple[int, int]

    def packets(self, transaction: int, stream: int = 0, first_number: int = 0) -> tuple[Run, int]:
        """Return its packets; of written ones the lengths, and the log address.

        Args:
            transaction: Number of the sending transaction; 0: there is none.
        """
        p = self.prepared
        if p.written is not None:
            laid = p.written.runs[self.index]
            return Run(b"", laid.lengths), laid.address
        made = encode_run(
            p.templates[self.index], p.item.bodies, first_message=self.message, stream=stream,
            first_number=first_number, transaction=transaction % TRANSACTION_NUMBERS,
            here=(0, 0) if stream else self.here, first=self.first, last=self.last,
            own=p.item.own,
        )  # fmt: skip
        return made, 0

    def fronts(
        self, rest_of: RestOf, transaction: int, stream: int = 0, first_number: int = 0
    ) -> Run:
        """Return what its packets do not share with those of another target; and their lengths."""
        p, whole = self.prepared, self.prepared.whole
        assert whole is not None
        more = rest_of.front - rest_of.rest
        lengths = array(LENGTH_TYPE, (size + more for size in whole.packets.lengths))
        return encode_fronts(
            p.templates[self.index], lengths, first_message=self.message, stream=stream,
            first_number=first_number, transaction=transaction % TRANSACTION_NUMBERS,
            here=(0, 0) if stream else self.here, first=self.first, last=self.last,
        )  # fmt: skip


def in_order(sends: Sequence[CheckedBatch], message: int) -> list[DestinationBatch]:
    """Return each batch for each of its targets, in the order in which they take effect.

    Args:
        message: Number of the first message of all.
    """
    # One batch for one queue, as in many transactions: 0.3 us instead of 1.8.
    if len(sends) == 1 and len(sends[0].targets) == 1:
        return [DestinationBatch(sends[0], 0, message, True, True, (message - 1, message))]
    order = [(p, index, target.queue.number) for p in sends for index, target in
             enumerate(p.targets)]  # fmt: skip
    lasts = {number: at for at, (_, _, number) in enumerate(order)}
    openings: dict[int, int] = {}
    counts: dict[int, int] = {}
    parts: list[DestinationBatch] = []
    for at, (p, index, number) in enumerate(order):
        if not index and at:
            message += len(order[at - 1][0].item.bodies)
        before = counts.get(number, 0)
        counts[number] = before + len(p.item.bodies)
        here = ((message - before - 1) & 0xFFFF_FFFF, openings.setdefault(number, message))
        parts.append(DestinationBatch(p, index, message, not before, lasts[number] == at, here))
    return parts


def _number(build: ChangeBuilder, outgoing: OutgoingQueue, counter: int) -> tuple[int, int]:
    """Return stream and number of the message that gets ``counter`` (EOD-4, EOD-12)."""
    known = build.streams.get(outgoing.number)
    if known is None:
        if outgoing.numbers_given(build.step.state.stamp):
            known = (outgoing.stream, outgoing.base)
        else:
            known = (next_stream(build.step, build.change), counter - 1)
        build.streams[outgoing.number] = known
    stream, base = known
    return stream, counter - base


def _add_put(
    build: ChangeBuilder, part: DestinationBatch, transaction: int,
    acks: list[tuple[Run, int, int]],
) -> None:  # fmt: skip
    """Put one batch into the change for one of its targets; add what is to be acknowledged to
    ``acks``."""
    p, message = part.prepared, part.message
    target, properties = p.targets[part.index], p.item.properties
    queue, transactional = target.queue, bool(transaction)
    deadlines = p.deadlines
    stream, number, expires, due = 0, 0, deadlines.receive_by, properties.deliver_at
    lane, flags = 0 if transactional else lane_of(properties), 0
    if properties is not PLAIN or deadlines.once:
        properties = without_quiet_queues(build.step, target, properties)
        flags = flags_of(properties, target, transactional=transactional, once=deadlines.once)
    if isinstance(queue, Queue):
        # The queue may have been deleted since the send. A message of the wrong kind is refused as
        # it would be on arrival elsewhere.
        there = queue.number in build.step.state.all_queues
        if not there or queue.properties.transactional != transactional:
            reason = _WRONG_KIND[transactional] if there else _NO_QUEUE
            packets, address = part.packets(transaction)
            _end_here(build, part, properties, packets, transaction, acks, address, reason)
            return
        if due:
            queue, due = delays.place_for(build.step, queue, due)
    else:
        expires = deadlines.expires
        if transactional:
            lane = TRANSACTIONAL_LANE
    counter = build.next_counter(queue, lane)
    if isinstance(queue, OutgoingQueue) and transactional:
        stream, number = _number(build, queue, counter)
    # Their packets are at hand for the reports.
    told = isinstance(queue, Queue) and bool(
        properties.acknowledge
        or (properties.journal and FATES[Side.BOTH, transactional, Ending.ARRIVED].journal)
    )
    rest_of: RestOf | None = None
    if p.one_rest and not told and p.whole is not None:
        # The body is written once for any number of destinations.
        puts, whole = build.change.puts, p.whole.packets
        rest = p.templates[p.whole_index].properties
        if (
            p.whole_at < len(puts) and puts[p.whole_at] is p.whole
            and worth_sharing(len(whole.data) - rest * len(whole), len(whole))
        ):  # fmt: skip
            rest_of = RestOf(p.whole_at, p.templates[part.index].properties, rest)
    if rest_of is not None:
        packets, address = part.fronts(rest_of, transaction, stream, number), 0
    else:
        packets, address = part.packets(transaction, stream, number)
    put = Put(
        queue.number, lane, counter, packets, stream, number, expires, deadlines.confirm_by, flags,
        0, message, NO_GUID, p.dead_letter_queue, address, rest_of, due,
    )  # fmt: skip
    if p.one_rest and rest_of is None and not address:
        p.whole, p.whole_at, p.whole_index = put, len(build.change.puts), part.index
    build.put(put)
    if told:
        _end_here(build, part, properties, packets, transaction, acks)


def worth_sharing(size: int, count: int) -> bool:
    """Return whether the rests of ``count`` packets, ``size`` bytes in all, are written once for
    all destinations."""
    return size >= limits.REST_BYTES_MIN * count


def _end_here(
    build: ChangeBuilder, part: DestinationBatch, properties: Properties, packets: Run,
    transaction: int, acks: list[tuple[Run, int, int]], address: int = 0, reason: int = 0,
) -> None:  # fmt: skip
    """Enter messages into a queue of this manager, or refuse them (for a reason): keep and report
    what is due, as if they had come from elsewhere (Q-4, X-1)."""
    ending = Ending.REFUSED if reason else Ending.ARRIVED
    if reason == MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE:
        ending = Ending.REFUSED_BY_KIND
    asked = PUT_DEADLETTER if properties.journal & Journal.DEADLETTER else 0
    asked |= PUT_JOURNAL if properties.journal & Journal.JOURNAL else 0
    what = AtHand(
        side=Side.BOTH, transactional=bool(transaction), packets=packets, asked=asked,
        level=properties.acknowledge if properties.admin_queue else 0,
        express=properties.delivery == Delivery.EXPRESS and not transaction,
        own=part.prepared.dead_letter_queue, message=part.message, address=address,
        later=acks, queue=str(part.prepared.targets[part.index].name),
    )  # fmt: skip
    end_at_hand(build, what, ending, reason)


def check_all_sends(
    step: Step, items: Sequence[SendItem], tx: OpenTransaction | None, by: str
) -> list[CheckedBatch]:
    """Prepare several batches, all or none; on an error everything is as before.

    Args:
        by: The sender (``Step.known_by``).

    Their room in queues of this manager is promised until ``step.promise`` takes it back.

    A send that is refused because of the state (a quota, the disk, a directory that cannot be read)
    dooms its transaction: a client that ignores the answer must not commit the rest (S0, FN-15).
    One that is wrong in itself adds nothing, and the transaction continues.
    """
    if tx is not None and tx.doomed is not None:
        raise tx.doomed
    before = (tx.bytes, tx.messages, tx.lifetimes) if tx is not None else (0, 0, None)
    made: list[CheckedBatch] = []
    try:
        for item in items:
            p = check_send(step, item, tx, transactional=tx is not None, by=by)
            if tx is not None:
                tx.bytes += p.size
                tx.messages += len(item.bodies.lengths)
            made.append(p)
            # At once, so that the next batch of this call finds the room taken.
            step.units.reserve((p,), 1)
    except errors.OnceqError as error:
        step.units.reserve(made, -1)
        if tx is not None:
            tx.bytes, tx.messages, tx.lifetimes = before
            if dooms(error):
                tx.doomed = send_failed(items[len(made)].destination, error)
        raise
    return made


# ---- packets at prepare --------------------------------------------------------------------------


def store_packets(step: Step, tx: OpenTransaction) -> tuple[list[StoredPackets], int, int]:
    """Make the packets of a branch that is about to be recorded, if all can be made now.

    A commit decides only the position of a message: the counter in a queue here, the number in a
    stream elsewhere. A packet for a queue of this manager holds neither. So if a branch sends only
    to such queues, the prepare makes its packets, with their own message numbers, and its record
    holds them; the commit puts into the queues what is there already (``Put.address``), and costs
    some bytes for each message instead of all of it. Numbers that a branch has taken and then does
    not use are never assigned again, which breaks nothing: they identify a message, and not its
    position.

    The commit makes packets for which it looks something up (for acknowledgments and traces), and
    those that leave this manager. It also makes large ones for several queues: the record of the
    prepare has their bodies once, and so has the record of the commit, which is the one that stays.

    Returns:
        The packets of each batch for each of its targets; and the next message number and the next
        transaction number behind what they have taken. If they cannot be made: nothing, and zeros.
    """
    if not tx.sends or not all(map(_independent, tx.sends)):
        return [], 0, 0
    # Never recorded: the record of the branch says which numbers are taken.
    change = Change(step.now.wall_s)
    transaction, count = step.state.next_transaction, 0
    for p in tx.sends:
        count += len(p.item.bodies.lengths)
    message = take_numbers(step, change, count)
    laid: list[StoredPackets] = []
    for part in in_order(tx.sends, message):
        packets, _ = part.packets(transaction)
        laid.append(StoredPackets(packets.lengths, len(packets.data), data=packets.data))
    at = 0
    for p in tx.sends:
        bodies, end = p.item.bodies, at + len(p.targets)
        p.written = StoredBatch(message, transaction, len(bodies.data), tuple(laid[at:end]))
        at = end
        p.item = SendItem(p.item.destination, p.item.properties, Run(b"", bodies.lengths))
        message += len(bodies.lengths)
    # Their bytes are in the log from now on, and not in memory.
    step.units.stored(tx)
    return laid, change.next_message, transaction + 1


def _independent(p: CheckedBatch) -> bool:
    """Return whether its packets need nothing from the commit, which does not read them, either."""
    properties = p.item.properties
    if properties.acknowledge or properties.trace:
        return False
    for target in p.targets:
        if not isinstance(target.queue, Queue):
            return False
    return not p.one_rest or not _shared(p)


def _shared(p: CheckedBatch) -> bool:
    """Return whether a commit would write its bodies once for all its targets."""
    made, bodies = p.templates[0], p.item.bodies
    count = len(bodies.lengths)
    around = len(made.head) - made.properties + len(made.tail)
    return worth_sharing(len(bodies.data) + around * count, count)
