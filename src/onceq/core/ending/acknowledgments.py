"""Acknowledgment messages: they report arrival and end to an application (ACK-17).

They are ordinary messages to the administration queues that the original names, made from its
packet. Where an arrival is stored or refused the packet is at hand, and they are in the record that
decides it. Of a later end only the position of the packet is known: the record of the end hands it
to the hidden queue of acknowledgments that are owed (``ACKS_OWED``), the engine reads the bytes,
and ``pay`` makes the messages and ends what was owed, again in one record. So each is made exactly
once, also through crashes, and never before the event that it reports.

A name that needs the directory cannot be resolved while that is away. Then all that a message asks
for stays owed, durably, in a lane of its own (``DEFERRED_LANE``), until the directory is read
again; limits bound the number and the time (ACKS_DEFERRED_MAX, ACKS_DEFERRED_S).

Also here:

* Final acknowledgments: the target of a transactional message reports its end to the source.
* Message tracing: a report from every manager that a traced message passes (MS-MQQB 1.3.6).

Upholds: I13 (true, and at most one of each kind), I24 (what waits for the directory is bounded),
I11, I14.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from onceq.core.inputs import Compose
from onceq.core.names import address_of, answer_address, destinations, outgoing_for
from onceq.core.peers.answer_addresses import address_for
from onceq.core.peers.strangers import answer_room, doubtful, known
from onceq.core.state.audit_trail import ReportRequest
from onceq.core.state.log_space import LiveMessages
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queue_tables import ACKS_OWED, DEFERRED_LANE, ORDER_QUEUE_NUMBER
from onceq.core.state.queues import Queue
from onceq.core.state.records import PUT_EXPRESS, PUT_FINAL, PUT_HTTP, Op, RangeChange
from onceq.core.step.connections import CheckedBatch, Mode, Target
from onceq.core.step.step import ChangeBuilder, Step, answered, rule_for, take_numbers
from onceq.errors import InsufficientResources, NoDirectory, OnceqError
from onceq.model import limits
from onceq.model.identity import NO_GUID, MessageId, guid_text
from onceq.model.marks import NEVER_S
from onceq.model.message import PRIORITY_DEFAULT, Acknowledge, Delivery, Message, Properties
from onceq.model.names import FormatName, parse_format_name
from onceq.model.resultcodes import MessageClass, class_name
from onceq.model.run import LENGTH_TYPE, Buffer, Run
from onceq.packet import address as layout
from onceq.packet.acks import final_acks
from onceq.packet.address import NOWHERE, Address
from onceq.packet.arrived import ArrivedRun
from onceq.packet.decode import message_of
from onceq.packet.encode import encode_run, template
from onceq.packet.headers import headers

# ---- acknowledgments -----------------------------------------------------------------------------


ON_ARRIVAL: Final = {
    True: Acknowledge.NEGATIVE_ARRIVAL,
    False: Acknowledge.POSITIVE_ARRIVAL,
}
INSECURE: Final = frozenset(
    (
        MessageClass.NACK_BAD_DESTINATION_QUEUE, MessageClass.NACK_ACCESS_DENIED,
        MessageClass.NACK_BAD_SIGNATURE, MessageClass.NACK_BAD_ENCRYPTION,
        MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    )
)  # fmt: skip
"""They reveal to a stranger what exists here, so a setting suppresses them (ACK-7)."""


class _AcknowledgmentBuilder:
    """Builds the acknowledgments of one change, grouped by their destination.

    One put for each destination, however many there are.
    """

    __slots__ = ("_bytes", "_packets", "build")

    def __init__(self, build: ChangeBuilder) -> None:
        self.build = build
        self._packets: dict[tuple[int, int, int], list[Buffer]] = {}
        self._bytes: dict[int, int] = {}

    def add(self, target: Target, lane: int, flags: int, packet: Buffer) -> None:
        """Put one packet behind the others; without room drop it, with a notice."""
        queue, build = target.queue, self.build
        bytes_there = self._bytes.get(queue.number, 0) + len(packet)
        if (
            isinstance(queue, Queue)
            and build.holding(queue) + bytes_there > queue.properties.quota_bytes
        ):
            build.step.notice("administration queue full: acknowledgments dropped",
                              target.text, queue=target.text)  # fmt: skip
            return
        if (
            isinstance(queue, OutgoingQueue) and doubtful(build.step, queue)
            and queue.bytes + bytes_there > limits.ANSWERS_EACH_BYTES
        ):  # fmt: skip
            build.step.notice("acknowledgments for strangers dropped: too many wait",
                              target.text, queue=target.text)  # fmt: skip
            return
        self._bytes[queue.number] = bytes_there
        self._packets.setdefault((queue.number, lane, flags), []).append(packet)

    def defer(self, packet: Buffer, reason: MessageClass) -> None:
        """Keep a packet at hand to acknowledge it when the directory can be read again."""
        expires = min(self.build.step.now.wall_s + limits.ACKS_DEFERRED_S, NEVER_S - 1)
        self.build.put_copy(
            ACKS_OWED, Run.of([packet]), lane=DEFERRED_LANE, reason=reason, expires=expires
        )

    def post(self) -> None:
        """Put everything into the change."""
        step = self.build.step
        last_s = step.reach_by_s()
        for (number, lane, flags), packets in self._packets.items():
            expires = NEVER_S if isinstance(step.state.all_queues[number], Queue) else last_s
            self.build.put_copy(number, Run.of(packets), lane=lane, expires=expires, flags=flags)


def on_arrival(
    build: ChangeBuilder, packets: Iterable[Buffer], level: int, refusal: int = 0
) -> None:
    """Acknowledge messages that this change stores or refuses, as far as they ask for it.

    Args:
        level: Of all of them (``Acknowledge``); 0 where they name no administration queue.
        refusal: The reason of the refusal; 0: they are stored.
    """
    if not level & ON_ARRIVAL[bool(refusal)] or (
        refusal in INSECURE and not build.step.settings.permit_insecure_nacks
    ):
        return
    reason = MessageClass(refusal or MessageClass.ACK_REACH_QUEUE)
    mail = _AcknowledgmentBuilder(build)
    for packet in packets:
        if not _acknowledge(mail, packet, reason):
            mail.defer(packet, reason)
    mail.post()


# ---- what is owed ---------------------------------------------------------------------------


def owed(step: Step, bytes_max: int) -> LiveMessages | None:
    """Return the next messages whose acknowledgments are owed, a bounded number; None if there are
    none, or none can be made now."""
    lanes = step.state.all_queues[ACKS_OWED].lanes
    deferred = (DEFERRED_LANE,) if step.names.mode is not Mode.OFFLINE else ()
    index = next((i for i in (*deferred, 0) if i in lanes and lanes[i].available), None)
    if index is None:
        return None
    lane = lanes[index]
    counters: list[int] = []
    lengths = array("I")
    extents = []
    for first, count in lane.take(
        count_max=limits.ACKS_AT_ONCE, bytes_max=bytes_max, start=lane.head
    ):
        counters += range(first, first + count)
        lengths.extend(lane.lengths(first, count))
        extents += lane.extents(first, count)
    return LiveMessages(ACKS_OWED, index, tuple(counters), tuple(extents), lengths)


@rule_for(Compose)
def pay(step: Step, item: Compose) -> None:
    """Make the acknowledgments of messages that the engine has read."""
    lane = step.state.all_queues[ACKS_OWED].lanes[item.lane]
    build = ChangeBuilder(step)
    mail = _AcknowledgmentBuilder(build)
    for counter, packet in zip(item.counters, item.packets, strict=True):
        reason = lane.classes.get(counter, 0)
        move = RangeChange(Op.END, ACKS_OWED, item.lane, counter, 1)
        if lane.state(counter) != AVAILABLE:
            continue  # its time was over before it was read
        if not _acknowledge(mail, packet, MessageClass(reason)):
            if item.lane == DEFERRED_LANE:
                continue  # the directory has gone away again
            move.copies_to = ((ACKS_OWED, DEFERRED_LANE, reason),)
        build.move(move)
    mail.post()
    # If a crash loses a lazy record, its acknowledgments are owed again, and made again.
    step.record(build.change, forced=any(not put.flags & PUT_EXPRESS for put in build.change.puts))


def give_up(step: Step, count_max: int) -> int:
    """Drop at most ``count_max`` messages that have waited too long for the directory; return how
    many these are."""
    lane, build = step.state.all_queues[ACKS_OWED].lanes[DEFERRED_LANE], ChangeBuilder(step)
    total = 0
    for first, count in lane.expired(step.now.wall_s, (AVAILABLE,), count_max):
        build.move(RangeChange(Op.END, ACKS_OWED, DEFERRED_LANE, first, count))
        total += count
    step.record(build.change)
    step.notice("acknowledgments dropped: the directory was away for too long", messages=total)
    return total


def asked_by(reason: MessageClass) -> Acknowledge:
    """Return the bits of the level that ask for acknowledgments of a class (ACK-15)."""
    if reason == MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER:
        # An unknown end matters to applications that asked for negative reports of either kind.
        return Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE
    if reason.on_receive:
        return Acknowledge.NEGATIVE_RECEIVE if reason.negative else Acknowledge.POSITIVE_RECEIVE
    return ON_ARRIVAL[reason.negative]


# ---- one acknowledgment -----------------------------------------------------------------------


def _acknowledge(mail: _AcknowledgmentBuilder, packet: Buffer, reason: MessageClass) -> bool:
    """Put an acknowledgment of a message into each of its administration queues (ACK-10).

    If that is impossible it is given up silently, as published (ACK-8); the log has a notice.

    Returns:
        False: One of them cannot be found before the directory is read, so none is made now.
    """
    parts = headers(packet)
    original = message_of(parts)
    if (
        not original.admin_queue or parts.properties.message_class
        or not original.acknowledge & asked_by(reason)
    ):  # fmt: skip
        return True
    body = b""
    if reason.negative and not parts.encrypted and reason != MessageClass.NACK_MESSAGE_TOO_LARGE:
        body = original.body
    number = 0
    step = mail.build.step
    source = original.id.source
    stranger = not known(step, source)
    try:
        # Resolve all before anything is put: an acknowledgment is made once for each.
        targets = list(_targets(step, original.admin_queue, stranger=stranger, source=source))
    except NoDirectory as error:
        deferred = step.state.all_queues[ACKS_OWED]
        lane = deferred.lanes[DEFERRED_LANE]
        waits = lane.available + mail.build.next_counter(deferred, DEFERRED_LANE) - lane.next
        if waits < limits.ACKS_DEFERRED_MAX // (limits.STRANGERS_SHARE if stranger else 1):
            return False
        name = original.admin_queue
        step.notice("too many acknowledgments wait for the directory: one is dropped", name,
                    queue=name, reason=error.text)  # fmt: skip
        return True
    for target in targets:
        number = number or take_numbers(mail.build.step, mail.build.change, 1)
        _put(mail, target, original, reason, body, number)
    return True


def _targets(step: Step, text: str, *, stranger: bool, source: bytes) -> Iterator[Target]:
    """Yield the administration queues that can be sent to, each separately (ACK-8, ACK-10).

    A queue of this manager must not be transactional (case 90).

    Raises:
        NoDirectory: The meaning of one of them is not known yet.
    """
    # The names that an application here gave were judged when it sent.
    answer = source != step.identity.guid
    for name in text.split(",")[: limits.ANSWER_QUEUES_MAX]:
        try:
            (target,) = destinations(
                step, name, transactional=False, by=answered(source), stranger=stranger,
                answer=answer,
            )  # fmt: skip
        except NoDirectory:
            raise
        except OnceqError as error:
            step.notice("no administration queue: acknowledgment dropped", name,
                        queue=name, reason=error.text)  # fmt: skip
            continue
        queue = target.queue
        if not isinstance(queue, Queue) or not queue.properties.transactional:
            yield target
            continue
        step.notice("an administration queue is transactional: acknowledgment dropped", name,
                    queue=name)  # fmt: skip


def _put(
    mail: _AcknowledgmentBuilder,
    target: Target,
    original: Message,
    reason: MessageClass,
    body: bytes,
    number: int,
) -> None:
    step = mail.build.step
    destination, manager = address_of(step, target)
    made = template(
        source=step.identity.guid,
        destination=destination,
        destination_manager=manager,
        response=_response(step, original.destination),
        properties=Properties(
            label=original.label,
            priority=original.priority,
            delivery=original.delivery,
            app_specific=original.app_specific,
            body_type=original.body_type if body else 0,
            correlation_id=original.id.pack(),
        ),
        sent_time=step.now.wall_s,
        transactional=False,
        message_class=reason,
    )
    if len(body) > made.body_max:
        body = b""
    (packet,) = encode_run(made, Run.of([body]), first_message=number)
    flags = 0 if original.delivery is Delivery.RECOVERABLE else PUT_EXPRESS
    mail.add(target, original.priority, flags, packet)


def _response(step: Step, destination: str) -> Address:
    """Return the original's destination, which distinguishes the copies of one send (ACK-9)."""
    try:
        return answer_address(step, destination)
    except OnceqError:
        return NOWHERE


# ---- final acknowledgments -----------------------------------------------------------------------


ACK_LANE = 7
"""Final acknowledgments go before other messages that are not transactional."""


def order_queue_of(guid: bytes) -> FormatName:
    """Return the queue of a manager for messages between managers.

    They are recoverable messages to the order queue of the sending manager (EOD-39), in the record
    that makes the end that they report. So the source learns of each end that a crash has not
    undone, and of none that it has.
    """
    (name,) = parse_format_name(f"PRIVATE={guid_text(guid)}\\{ORDER_QUEUE_NUMBER:08x}")
    return name


@lru_cache(1_024)
def order_queue_key(guid: bytes) -> str:
    """Return the key of that queue; each order acknowledgment looks it up."""
    return order_queue_of(guid).key()


def ends_wait(order_queue: OutgoingQueue) -> bool:
    """Return whether final acknowledgments wait, unsent or unacknowledged, in an outgoing queue."""
    lane = order_queue.lanes.get(ACK_LANE)
    return lane is not None and lane.available > 0


def tell_end(
    build: ChangeBuilder, w: ReportRequest, first: int, count: int, reason: MessageClass
) -> None:
    """Report to the source how a range of a queue here ended, if it asked for that."""
    if w.source == NO_GUID or not w.stream or not w.flags & PUT_FINAL:
        return
    offset = first - w.first
    message = w.message + offset
    tell_sender(
        build, w.source, reason, stream=w.stream, number=w.number + offset,
        messages=range(message, message + count), http=bool(w.flags & PUT_HTTP),
    )  # fmt: skip


def tell_sender(
    build: ChangeBuilder,
    source: bytes,
    reason: MessageClass,
    *,
    stream: int,
    number: int,
    messages: Sequence[int],
    http: bool = False,
) -> None:
    """Queue final acknowledgments for the order queue of the sending manager.

    They leave on any session with that manager. The name in them has the form of the name that the
    messages came under (EOD-35), unless a manager on the way would take that for its own.

    Args:
        number: Number of the first message in its stream.
        messages: Message numbers of them all.
        http: Whether they came over HTTP.
    """
    step = build.step
    address = "" if source in step.names.routes_to else step.sessions.return_to.get(source, "")
    outgoing, expires = address_for(step, source, stream, http=http), NEVER_S
    if outgoing is None:
        stranger = not known(step, source)
        name = order_queue_of(source)
        if stranger and not answer_room(step, name.key()):
            step.notice("final acknowledgments for strangers are given up: too many wait",
                        source=guid_text(source))  # fmt: skip
            return
        try:
            outgoing = outgoing_for(step, name, by=answered(source), stranger=stranger)
        except InsufficientResources as error:
            # The end itself remains: a commit that has begun does not fail for lack of a queue, and
            # a sender without a report has the message in doubt when its time is over (EOD-42).
            step.notice("final acknowledgments are given up", source=guid_text(source),
                        reason=error.text)  # fmt: skip
            return
        expires = step.reach_by_s() if stranger else NEVER_S
    else:
        # A stranger's choice, which may never be reached: like an acknowledgment message it waits
        # no longer than a message without a stated lifetime (EOD-42: it may be lost).
        address, expires = "", step.reach_by_s()
    packets = final_acks(
        messages,
        own=step.identity.guid,
        own_message=take_numbers(build.step, build.change, len(messages)),
        sent_time=step.now.wall_s,
        address=address,
        destination_manager=source,
        message_class=reason,
        stream=stream,
        number=number,
        source=source,
        queue=step.state.receipts.queue_of(source, stream) if http else "",
    )
    build.put_copy(outgoing.number, packets, lane=ACK_LANE, expires=expires)


# ---- trace reports -------------------------------------------------------------------------------


SENT, FORWARDED, ARRIVED, REFUSED = "SENT", "FORWARDED", "ARRIVED", "REFUSED"


def trace_queue(step: Step) -> bytes:
    """Return the GUID of the public report queue for DebugHeaders; empty if it has none.

    A message sent with ``trace`` carries the trace flag and a DebugHeader. Each manager on its way
    (the source when it takes effect, a router, the target when it is stored or refused) puts one
    REPORT message into the report queue: the public queue that the DebugHeader names where it can
    be found, else its own setting ``report_queue``. The content of a report is not published: ours
    is described in ``docs/reference/tracing.md``. Reports are ordinary messages outside
    transactions, made in the same record as what they report; no report is ever traced,
    acknowledged or waited for.
    """
    name = step.settings.report_queue.upper()
    if not name.startswith("PUBLIC="):
        return b""
    (target,) = destinations(step, step.settings.report_queue, transactional=False, by="")
    return target.queue.properties.instance if isinstance(target.queue, Queue) else b""


def trace_arrival(
    build: ChangeBuilder, run: ArrivedRun, places: Sequence[int], *, refusal: int = 0,
    event: str = ARRIVED,
) -> None:  # fmt: skip
    """Report a run's messages at these indexes that this change stores, refuses or passes on."""
    assert run.trace is not None, "nobody asked for reports"
    asked = f"PUBLIC={guid_text(run.trace)}" if run.trace else ""
    lines = [f"queue: {run.destination.direct or run.destination.number}"]
    if refusal:
        event = REFUSED
        lines.append(f"class: {refusal:#06x} {class_name(refusal)}")
    if run.transactional:
        lines.append(f"stream: {run.stream:#018x}")
    ids = [MessageId(run.source, run.message_numbers[place]) for place in places]
    mask, offset, packets = layout.USER_HOPS_MASK, layout.OFF_USER_FLAGS, list(run.packets)
    hops = [packets[place][offset] & mask for place in places]
    report(build, event, ids, hops, lines, asked=asked)


def trace_sent(build: ChangeBuilder, batch: CheckedBatch, first: int) -> None:
    """Report a traced batch that this change sends, from message number ``first`` on."""
    count, guid = len(batch.item.bodies), build.step.identity.guid
    ids = [MessageId(guid, number) for number in range(first, first + count)]
    for target in batch.targets:
        event = ARRIVED if isinstance(target.queue, Queue) else SENT
        report(build, event, ids, [0] * count, [f"queue: {target.text}"])


def report(
    build: ChangeBuilder,
    event: str,
    ids: Sequence[MessageId],
    hops: Sequence[int],
    lines: Sequence[str],
    *,
    asked: str = "",
) -> None:
    """Put one report for each message into the report queue, if there is one.

    Args:
        lines: The lines that are the same for all of them.
        asked: Report queue that the message names.
    """
    step = build.step
    target = _target(step, asked)
    if target is None:
        if asked or step.settings.report_queue:
            step.counts.reports_dropped += len(ids)
        return
    if len(ids) > limits.REPORTS_MAX:
        step.counts.reports_dropped += len(ids) - limits.REPORTS_MAX
        step.notice("traced messages not reported", messages=len(ids) - limits.REPORTS_MAX)
    count = min(len(ids), limits.REPORTS_MAX)
    first = take_numbers(build.step, build.change, count)
    data, lengths = bytearray(), array(LENGTH_TYPE)
    for at in range(count):
        packet = _packet(step, target, event, ids[at], hops[at], lines, first + at)
        data += packet.data
        lengths.extend(packet.lengths)
    queue = target.queue
    if isinstance(queue, Queue) and (
        build.holding(queue) + len(data) > queue.properties.quota_bytes
    ):
        step.notice("report queue full: reports dropped", queue=queue.properties.name)
        step.counts.reports_dropped += count
        return
    build.put_copy(queue.number, Run(bytes(data), lengths), lane=PRIORITY_DEFAULT)


def _target(step: Step, asked: str) -> Target | None:
    """Return where reports go; None if nowhere. A report queue must not be transactional."""
    for name in (asked, step.settings.report_queue):
        if not name:
            continue
        try:
            by = answered(step.identity.guid)
            (target,) = destinations(step, name, transactional=False, by=by)
        except (OnceqError, ValueError) as error:
            step.notice("no report queue: reports dropped", name, queue=name, reason=str(error))
            continue
        queue = target.queue
        if not isinstance(queue, Queue) or not queue.properties.transactional:
            return target
        step.notice("the report queue is transactional: reports dropped", name, queue=name)
    return None


def _packet(
    step: Step, target: Target, event: str, id_: MessageId, hops: int, lines: Sequence[str],
    number: int,
) -> Run:  # fmt: skip
    destination, manager = address_of(step, target)
    body = "\n".join(
        (
            f"event: {event}", f"message: {id_}", f"at: {step.identity.name}",
            f"manager: {guid_text(step.identity.guid)}", f"hops: {hops}",
            f"time: {step.now.wall_s}", *lines, "",
        )
    )  # fmt: skip
    made = template(
        source=step.identity.guid,
        destination=destination,
        destination_manager=manager,
        properties=Properties(
            label=f"{event} {id_} {hops}", correlation_id=id_.pack(), priority=PRIORITY_DEFAULT
        ),
        sent_time=step.now.wall_s,
        transactional=False,
        message_class=MessageClass.REPORT,
    )
    return encode_run(made, Run.of([body.encode()]), first_message=number)
