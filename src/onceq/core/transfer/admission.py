"""Whether messages that arrive may enter: is there room, and if not into their queue, why not.

Upholds: I19 (quotas), I24 (strangers have a share).
"""

from __future__ import annotations

from onceq.core.ending.ending import order_queue_of
from onceq.core.peers.strangers import answer_room, known, quota_for, unasked_room
from onceq.core.send.quota import computer_full, queue_full
from onceq.core.state.queues import Queue
from onceq.core.state.state import DEAD_XACT
from onceq.core.step.step import Desk
from onceq.model.classes import MessageClass
from onceq.model.limits import STRANGERS_SHARE, STREAMS_MAX
from onceq.model.run import Run
from onceq.model.time import NEVER_S
from onceq.packet.arrived import ArrivedRun


def room_for(desk: Desk, run: ArrivedRun) -> bool:
    if desk.space_low:
        return False
    held = desk.state.space.total
    held += len(run.packets.data)
    if held <= desk.settings.computer_quota_bytes // STRANGERS_SHARE:
        return True
    if held <= quota_for(desk, run.source):
        return True
    computer_full(desk)
    return False


def stream_room(desk: Desk, source: bytes) -> bool:
    """Whether one more stream of a sender is remembered; strangers have a share of them."""
    most = STREAMS_MAX if known(desk, source) else STREAMS_MAX // STRANGERS_SHARE
    return len(desk.state.progress) < most


def refusal_room(desk: Desk, run: ArrivedRun, queue: Queue | None) -> bool:
    """Whether there is room for what a refusal of these messages leaves here: an answer to a
    stranger, and a dead letter that nobody here has asked for. Without it they are not refused
    for good, and come again."""
    size = len(run.packets.data)
    refusal = refusal_of(desk, run, queue, size)
    if not refusal:
        return True
    if refusal == MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE and not unasked_room(
        desk, DEAD_XACT, size
    ):
        return False
    return known(desk, run.source) or answer_room(desk, order_queue_of(run.source).key())


def verdicts(
    desk: Desk, run: ArrivedRun, queue: Queue | None, packets: Run
) -> list[tuple[int, int, int]]:
    """Parts of a run that share a fate: index of the first message, how many, and why they are
    refused (0: they are not). Only a quota parts a run: each message that fits enters (Q-19)."""
    refusal = refusal_of(desk, run, queue, len(packets.data))
    if refusal != MessageClass.NACK_QUEUE_EXCEED_QUOTA or len(packets) == 1:
        return [(0, len(packets), refusal)]
    assert queue is not None
    room = queue.properties.quota_bytes - desk.holding(queue)
    parts: list[tuple[int, int, int]] = []
    for index, size in enumerate(packets.lengths):
        fate = refusal if size > room else 0
        room -= 0 if fate else size
        if parts and parts[-1][2] == fate:
            first, count, _ = parts[-1]
            parts[-1] = (first, count + 1, fate)
        else:
            parts.append((index, 1, fate))
    return parts


def refusal_of(desk: Desk, run: ArrivedRun, queue: Queue | None, size: int) -> int:
    """Why messages cannot enter their queue, the transactional ones being next in order; 0 if
    they can."""
    if queue is None:
        return MessageClass.NACK_BAD_DESTINATION_QUEUE
    if queue.properties.transactional != run.transactional:
        if run.transactional:
            return MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE
        return MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE
    if run.encrypted:
        return MessageClass.NACK_BAD_ENCRYPTION
    if _too_late(desk, run):
        return MessageClass.NACK_REACH_QUEUE_TIMEOUT
    if desk.holding(queue) + size > queue.properties.quota_bytes:
        queue_full(desk, queue)
        return MessageClass.NACK_QUEUE_EXCEED_QUOTA
    return 0


def _too_late(desk: Desk, run: ArrivedRun) -> bool:
    """Whether a lifetime is over on arrival; a sender whose clock is ahead is not punished.

    A time to reach the queue of 0 means one attempt, and this is it (CNF-4).
    """
    age = max(desk.now.wall_s - run.sent_time, 0)
    lifetime = min(run.time_to_reach_queue or NEVER_S, run.time_to_be_received)
    return lifetime < NEVER_S - 1 and age > lifetime
