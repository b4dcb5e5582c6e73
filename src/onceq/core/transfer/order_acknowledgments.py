"""Order acknowledgments: when a receiver reports how far a stream has come (EOD-31 to EOD-36).

A sender keeps a transactional message, and transmits it again, until it learns that the receiver
has it durably. So an order acknowledgment must never run ahead of the disk: it names the last
number that a durable record has accepted, and the sender forgets everything up to it (I9, I10). One
that left too early, before a power cut, would lose a message on both sides. A late or lost one
costs a repetition, which the receiver turns away and answers with another one. So it needs none of
the care that messages get: it is made from what the receiver remembers, leaves on any session with
the sender, is written nowhere, and is not retransmitted (EOD-36).

Only its frequency is a choice. One for each message would double the packets; a long pause keeps
the sender's window and its disk full. So it goes out when the stream has been quiet for a while, at
the latest some seconds after the one before, and at once when many messages have come (EOD-33).
Repetitions count as messages, because their sender has missed the last acknowledgment.

It goes out at once where its sender waits for it. To managers with the extension it names what is
missing (``packet/acks.py``), as soon as something has come behind it, and again while it is
missing; to others a repeated number says the same. When the missing part has come, and at the first
messages of a session, it says how far everything else has come.

Where the beginning of a stream is missing, nothing of it can be acknowledged. To managers with the
extension, an acknowledgment of number 0 names it. To others nothing can be reported: the published
packet has no field for it, and they ignore acknowledgments of the stream before (EOD-10).
What has come behind is kept all the same, so that their resend timer costs little.

Upholds: I9 (acknowledgments are truthful), I26 (a lost one does not stop a stream).
"""

from __future__ import annotations

from onceq.core.decision import Ready
from onceq.core.ending.final_acknowledgments import ends_wait, order_queue_key
from onceq.core.peers.http_receipts import post_receipt
from onceq.core.peers.refusals import note
from onceq.core.state.peer_table import Progress
from onceq.core.step.step import Step, Timer
from onceq.model.limits import HOLE_TOLD_MAX
from onceq.packet.acks import order_ack
from onceq.packet.address import DIRECT


def schedule_ack(step: Step, progress: Progress, *, at_once: bool = False) -> None:
    """Schedule an order acknowledgment for when the stream is quiet, or when the last one is too
    old (EOD-33); also for repetitions, whose sender has missed one (EOD-32).

    Args:
        at_once: Its sender waits for it: a hole is to be named or was filled, or the session is new
            and this shows where to continue.
    """
    now, settings = step.now.mono_us, step.settings
    running = progress.due_us
    if not running:
        # After a quiet time the longest delay counts from the first message, not from an old
        # acknowledgment: else that message would be acknowledged alone.
        progress.acked_us = max(progress.acked_us, now)
    if at_once or progress.since_ack >= settings.order_ack_messages_max:
        due = now
    # The hole is named again after this time, no matter what comes behind it meanwhile.
    elif step.sessions.early.streams and _hole(step, progress):
        due = progress.acked_us + int(settings.order_ack_delay_s * 1_000_000)
    else:
        due = min(
            now + int(settings.order_ack_delay_s * 1_000_000),
            progress.acked_us + int(settings.order_ack_delay_s_max * 1_000_000),
        )
    progress.due_us = due
    if due <= now:
        emit_ack(step, progress)
    # A later due time needs no new timer: the present one rings early and is set again. So a busy
    # stream does not move a timer for each message.
    elif not running or due < running:
        step.timer(due, Timer.ORDER_ACK, (progress.source, progress.key))


def ack_due(step: Step, key: tuple[bytes, str]) -> None:
    """Send an order acknowledgment when its timer rings."""
    progress = step.state.progress.get(key)
    stream, last = (progress.stream, progress.last) if progress is not None else (0, 0)
    early, now = step.sessions.early, step.now.mono_us
    if early.waits_to_enter(key, stream, last) and 0 < early.streams[key].due_us <= now:
        _name_beginning(step, key)
    if progress is None or not progress.due_us:
        return
    if progress.due_us > step.now.mono_us:
        step.timer(progress.due_us, Timer.ORDER_ACK, key)
        return
    emit_ack(step, progress)


def _hole(step: Step, progress: Progress) -> int:
    """Return the last number of the first known hole; 0: there is none."""
    key = progress.source, progress.key
    return step.sessions.early.missing(key, progress.stream, progress.last)[1]


def emit_ack(step: Step, progress: Progress) -> None:
    """Hand the acknowledgment to a session with the sender; without a session it waits for the next
    repetition (EOD-36)."""
    progress.due_us = 0
    progress.since_ack = 0
    progress.acked_us = step.now.mono_us
    address = step.state.receipts.of_stream(progress.source, progress.stream)
    if address is not None:
        post_receipt(step, progress, address)
        return
    session = progress.session
    # Refusals leave on the same session, before the acknowledgment (``transmit.py``). If there are
    # none, the other session may belong to a copy of the sender.
    untold = step.state.outgoing.get(order_queue_key(progress.source))
    if untold is not None and untold.session in step.sessions.peers and ends_wait(untold):
        session = untold.session
    if session not in step.sessions.peers:
        others = step.sessions.of.get(progress.source)
        if not others:
            return
        # Any session with the sender will do. The smallest number, because sets have no order, and
        # equal inputs must give equal decisions (I27).
        session = min(others)
    step.sessions.peers[session].acks[progress.source, progress.key] = None
    step.act(Ready(session))
    if step.sessions.early.streams and _hole(step, progress):
        _name_again(step, progress)


def _name_again(step: Step, progress: Progress) -> None:
    """Name the hole of this acknowledgment again in the next one, if it remains."""
    early = step.sessions.early.streams[progress.source, progress.key]
    early.told_to = early.missing_to
    early.told += 1
    if early.told <= HOLE_TOLD_MAX:
        progress.due_us = step.later_us(step.settings.order_ack_delay_s)
        step.timer(progress.due_us, Timer.ORDER_ACK, (progress.source, progress.key))


def beginning_missing(step: Step, key: tuple[bytes, str]) -> None:
    """Tell the sender at once, and again while it lasts, that messages of a stream have come that
    are kept and cannot be entered yet."""
    early = step.sessions.early.streams[key]
    if early.missing_to != early.told_to:
        _name_beginning(step, key)
    elif not early.due_us:
        _again(step, key)


def _name_beginning(step: Step, key: tuple[bytes, str]) -> None:
    early = step.sessions.early.streams[key]
    early.due_us = 0
    peer = step.sessions.peers.get(early.session)
    if peer is None or not peer.extended:
        return
    direct = early.runs[0].destination.kind == DIRECT
    note(step, peer, order_ack(
        own=step.identity.guid, own_message=step.passing_number(), sent_time=step.now.wall_s,
        address=peer.address if direct else "", destination_manager=key[0],
        stream=early.stream, number=0, hole=(1, early.missing_to),
    ))  # fmt: skip
    early.told_to = early.missing_to
    early.told += 1
    # After that its sender's own timer must suffice.
    if early.told < HOLE_TOLD_MAX:
        _again(step, key)


def _again(step: Step, key: tuple[bytes, str]) -> None:
    early = step.sessions.early.streams[key]
    early.due_us = step.later_us(step.settings.order_ack_delay_s)
    step.timer(early.due_us, Timer.ORDER_ACK, key)
