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

Upholds: I13 (true, and at most one of each kind), I24 (what waits for the directory is bounded).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from onceq.core.inputs.inputs import Compose
from onceq.core.names.packet_names import address_of, answer_address
from onceq.core.names.resolve import destinations
from onceq.core.peers.strangers import doubtful, known
from onceq.core.state.log_space import Live
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queue_tables import ACKS_OWED, DEFERRED_LANE
from onceq.core.state.queues import Queue
from onceq.core.state.records import PUT_EXPRESS, Op, RangeChange
from onceq.core.step.change_builder import ChangeBuilder, take_numbers
from onceq.core.step.routes import Mode, Target
from onceq.core.step.step import Step, answered
from onceq.errors import NoDirectory, OnceqError
from onceq.model.classes import MessageClass
from onceq.model.limits import (
    ACKS_AT_ONCE,
    ACKS_DEFERRED_MAX,
    ACKS_DEFERRED_S,
    ANSWER_QUEUES_MAX,
    ANSWERS_EACH_BYTES,
    STRANGERS_SHARE,
)
from onceq.model.message import Acknowledge, Delivery, Message, Properties
from onceq.model.run import Buffer, Run
from onceq.model.time import NEVER_S
from onceq.packet.address import NOWHERE, Address
from onceq.packet.decode import message_of
from onceq.packet.encode import encode_run
from onceq.packet.headers import headers
from onceq.packet.templates import template

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
            and queue.bytes + bytes_there > ANSWERS_EACH_BYTES
        ):  # fmt: skip
            build.step.notice("acknowledgments for strangers dropped: too many wait",
                              target.text, queue=target.text)  # fmt: skip
            return
        self._bytes[queue.number] = bytes_there
        self._packets.setdefault((queue.number, lane, flags), []).append(packet)

    def defer(self, packet: Buffer, reason: MessageClass) -> None:
        """Keep a packet at hand to acknowledge it when the directory can be read again."""
        expires = min(self.build.step.now.wall_s + ACKS_DEFERRED_S, NEVER_S - 1)
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


def owed(step: Step, bytes_max: int) -> Live | None:
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
    for first, count in lane.take(count_max=ACKS_AT_ONCE, bytes_max=bytes_max, start=lane.head):
        counters += range(first, first + count)
        lengths.extend(lane.lengths(first, count))
        extents += lane.extents(first, count)
    return Live(ACKS_OWED, index, tuple(counters), tuple(extents), lengths)


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
        if _may_wait(mail, stranger=stranger):
            return False
        name = original.admin_queue
        step.notice("too many acknowledgments wait for the directory: one is dropped", name,
                    queue=name, reason=error.text)  # fmt: skip
        return True
    for target in targets:
        number = number or take_numbers(mail.build.step, mail.build.change, 1)
        _put(mail, target, original, reason, body, number)
    return True


def _may_wait(mail: _AcknowledgmentBuilder, *, stranger: bool) -> bool:
    """Return whether one more may wait for the directory."""
    queue = mail.build.step.state.all_queues[ACKS_OWED]
    lane = queue.lanes[DEFERRED_LANE]
    waits = lane.available + mail.build.next_counter(queue, DEFERRED_LANE) - lane.next
    return waits < ACKS_DEFERRED_MAX // (STRANGERS_SHARE if stranger else 1)


def _targets(step: Step, text: str, *, stranger: bool, source: bytes) -> Iterator[Target]:
    """Yield the administration queues that can be sent to, each separately (ACK-8, ACK-10).

    A queue of this manager must not be transactional (case 90).

    Raises:
        NoDirectory: The meaning of one of them is not known yet.
    """
    # The names that an application here gave were judged when it sent.
    answer = source != step.identity.guid
    for name in text.split(",")[:ANSWER_QUEUES_MAX]:
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
