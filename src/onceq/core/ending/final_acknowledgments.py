"""Final acknowledgments: the target of a transactional message reports its end to the source.

They are recoverable messages to the order queue of the sending manager (EOD-39), in the record that
makes the end that they report. So the source learns of each end that a crash has not undone, and of
none that it has.

Upholds: I11, I14.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from onceq.core.names.resolve import outgoing_for
from onceq.core.peers.http_receipts import address_for
from onceq.core.peers.strangers import answer_room, known
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import ORDER_QUEUE_NUMBER
from onceq.core.state.records import PUT_FINAL, PUT_HTTP
from onceq.core.state.report_requests import ReportRequest
from onceq.core.step.change_builder import ChangeBuilder, take_numbers
from onceq.core.step.step import answered
from onceq.errors import InsufficientResources
from onceq.model.classes import MessageClass
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.names import FormatName, parse_format_name
from onceq.model.time import NEVER_S
from onceq.packet.acks import final_acks

ACK_LANE = 7
"""Final acknowledgments go before other messages that are not transactional."""


def order_queue_of(guid: bytes) -> FormatName:
    """Return the queue of a manager for messages between managers."""
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
