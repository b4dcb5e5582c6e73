"""Acknowledgments between managers over HTTP: they go to an address that the sender chooses.

The head of a stream names the address for its receipts (HTTP-5), each time that it comes: a
repetition may name another one, if the sender's address has changed (HTTP-6). Order acknowledgments
go there as express messages of our own, final ones as recoverable ones: both are ordinary outgoing
messages, and become stream receipts when they leave (``wire/srmp``). They wait no longer than a
message without a stated lifetime: a stranger chooses the address, which may never be reached.

Upholds: I9, I24 (receipts for one that cannot be reached do not pile up).
"""

from __future__ import annotations

from onceq.core.names.resolve import outgoing_for
from onceq.core.peers.strangers import known
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Progress
from onceq.core.state.records import PUT_EXPRESS
from onceq.core.state.setups import ReceiptsTo
from onceq.core.step.change_builder import ChangeBuilder, take_numbers
from onceq.core.step.step import Step, answered
from onceq.errors import InsufficientResources
from onceq.model.limits import HTTP_RECEIPTS_MAX
from onceq.model.names import parse_format_name
from onceq.model.run import Run
from onceq.packet.acks import order_ack

RECEIPT_LANE = 7
"""Receipts go before other messages that are not transactional."""


def learn_address(
    step: Step, source: bytes, stream: int, name: str, *, left: int, queue: str
) -> bool:
    """Remember where receipts of a stream go; it is durable with what is accepted now.

    The outgoing queue for them is opened now, so that no sender makes us promise receipts that
    cannot be sent: strangers choose the addresses, and the number of outgoing queues is limited.

    Args:
        left: The stream that the sender has left for the same queue: its address is forgotten.
        queue: URL under which the sender knows the destination queue: receipts name it.

    Returns:
        Whether receipts can be sent there.
    """
    if step.state.receipts.of_stream(source, stream) == name:
        return True
    if _way(step, name, source) is None:
        return False
    step.setup(
        ReceiptsTo(source=source, stream=stream, name=name, left=left, queue=queue), forced=False
    )
    return True


def _way(step: Step, name: str, source: bytes) -> OutgoingQueue | None:
    try:
        return outgoing_for(
            step, parse_format_name(f"DIRECT={name}")[0], by=answered(source),
            stranger=not known(step, source), answer=True,
        )  # fmt: skip
    except InsufficientResources as error:
        step.notice("no outgoing queue for receipts", name, address=name, reason=error.text)
        return None


def address_for(step: Step, source: bytes, stream: int, *, http: bool) -> OutgoingQueue | None:
    """Return the outgoing queue for receipts of a stream; None if it did not come over HTTP.

    Args:
        http: Whether the message of the receipt came over HTTP. Its stream may have been left
            since: then the address counts that its sender has announced last.
    """
    receipts = step.state.receipts
    name = receipts.of_stream(source, stream)
    if name is None and http:
        name = receipts.of_source(source)
    return None if name is None else _way(step, name, source)


def post_receipt(step: Step, progress: Progress, name: str) -> None:
    """Send an order acknowledgment; if many wait already, the sender will ask again (EOD-36)."""
    outgoing = _way(step, name, progress.source)
    if outgoing is None:
        return
    lane = outgoing.lanes[RECEIPT_LANE]
    if lane.available >= HTTP_RECEIPTS_MAX:
        return
    build = ChangeBuilder(step)
    packet = order_ack(
        own=step.identity.guid,
        own_message=take_numbers(build.step, build.change, 1),
        sent_time=step.now.wall_s,
        address="",
        destination_manager=progress.source,
        stream=progress.stream,
        number=progress.last,
        queue=step.state.receipts.queue_of(progress.source, progress.stream),
    )
    build.put_copy(
        outgoing.number, Run.of((packet,)), lane=RECEIPT_LANE, expires=step.reach_by_s(),
        flags=PUT_EXPRESS,
    )  # fmt: skip
    step.record(build.change, forced=False)
