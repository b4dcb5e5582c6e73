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

Also here:

* Repair of holes in what a receiver has: only the lost messages are sent again, at once (EOD-9).

Upholds: I9 (acknowledgments are truthful), I26 (a lost one does not stop a stream), I5, I8 (true
links), I10 (a hole lets nothing be forgotten), I24 (bounded).
"""

from __future__ import annotations

from onceq.core.decision import Ready
from onceq.core.ending.acknowledgments import ends_wait, order_queue_key
from onceq.core.peers.answer_addresses import post_receipt
from onceq.core.peers.trust import note
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer, Progress
from onceq.core.state.position_block import AVAILABLE
from onceq.core.step.step import Step, Timer
from onceq.core.transfer.outgoing_queue import PROBE_MESSAGES, start_if_possible
from onceq.model import limits
from onceq.packet.acks import OrderAck, order_ack
from onceq.packet.address import DIRECT

# ---- order acknowledgments -----------------------------------------------------------------------


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
        # The next acknowledgment names the hole again, if it remains.
        early = step.sessions.early.streams[progress.source, progress.key]
        early.told_to = early.missing_to
        early.told += 1
        if early.told <= limits.HOLE_TOLD_MAX:
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
    if early.told < limits.HOLE_TOLD_MAX:
        _again(step, key)


def _again(step: Step, key: tuple[bytes, str]) -> None:
    early = step.sessions.early.streams[key]
    early.due_us = step.later_us(step.settings.order_ack_delay_s)
    step.timer(early.due_us, Timer.ORDER_ACK, key)


# ---- hole repair ---------------------------------------------------------------------------------


def hole_shown(step: Step, peer: Peer, ack: OrderAck) -> None:
    """Repair the hole behind what an order acknowledgment has released, if it shows one.

    A receiver accepts nothing behind a lost message. If only the resend timer reveals the loss, the
    sender has wasted everything that it sent since, and up to half a minute. Two things reveal it
    sooner:

    * *Another onceq manager names the hole* in its order acknowledgment (``packet/acks.py``): it
      keeps what has come behind it (``core/step/connections.py``), so the messages in the hole are
      enough. The name counts only on a marked session; in the packets of others the same bytes mean
      nothing.
    * *Any other receiver repeats itself.* Two equal order acknowledgments in one session, while
      later messages are under way, indicate a hole. Then the first few unacknowledged messages go
      out again, once for each number.

    A retransmitted message keeps its number (EOD-5); its previous number is made at each
    transmission (EOD-6). The position up to which everything else was transmitted does not move.

    Not every hole is a loss. A packet of an earlier connection that comes late, or one that has
    overtaken others, precedes messages that are merely under way, and these may be all that was
    transmitted since. So a few messages go first, and twice as many each time when the receiver has
    taken exactly the retransmitted ones and names the rest. When it has taken more, the rest is
    coming, and none of it is sent. A hole that does not change, or that a liar names, costs as
    many, but not often: after 100 ms, then after twice as long each time.

    The resend timer runs independently of this; it finds losses at the end, where no later message
    shows them. It also rings when acknowledgments were lost or are late, and then a receiver that
    names holes lacks little or nothing. So the first two unacknowledged messages ask it. If it has
    nothing behind them and names no hole, a longer part follows, and so on: what it has is not sent
    again.
    """
    outgoing = step.state.streams.get(ack.stream)
    if outgoing is None:
        return
    # The hole of an acknowledgment that is not the newest may be filled. Without a number the
    # beginning is missing, so nothing of the stream was acknowledged.
    told, number = outgoing.last_ack
    newest = (told, number) == (ack.stream, ack.number) if ack.number else told < ack.stream
    if not newest:
        return
    if not outgoing.session or outgoing.over_http or not outgoing.unacknowledged:
        return
    head = outgoing.head
    if head.stream != ack.stream:
        return
    if outgoing.repair.asked[0]:
        _answered(step, outgoing, ack)
    if peer.extended and ack.tells_holes:
        # A message that was not transmitted on this session cannot be missing.
        sent = min(outgoing.sent, head.end)
        if ack.number + 1 == ack.first_missing <= ack.last_missing <= sent - head.base:
            _repair(step, outgoing, ack, head.base + ack.last_missing, sent)
        return
    # The second of two equal acknowledgments means a hole.
    repair, said = outgoing.repair, (peer.session, ack.stream, ack.number)
    if repair.heard != said:
        repair.heard = said
        return
    first = outgoing.ordered_lane.first_available()
    if repair.guessed == said or outgoing.sent <= first:
        return
    repair.guessed = said
    repair.ranges.append((first, min(first + PROBE_MESSAGES - 1, outgoing.sent)))
    start_if_possible(step, outgoing)


def _answered(step: Step, outgoing: OutgoingQueue, ack: OrderAck) -> None:
    """Continue after the resend timer: an acknowledgment says what the receiver has.

    Only one that names no holes, or that ends exactly at the question and names none, proves that
    nothing has come behind. Anything else that the receiver may lack is under way, or lost behind
    all that it has, where the timer finds it again.
    """
    (count, last), acked = outgoing.repair.asked, outgoing.head.base + ack.number
    if not ack.tells_holes:
        # An earlier version: it keeps nothing.
        outgoing.sent = min(outgoing.sent, max(last, acked))
    elif acked < last:
        return
    outgoing.repair.asked = (0, 0)
    if acked == last < outgoing.sent and ack.tells_holes and not ack.last_missing:
        outgoing.ask(count * limits.ASKED_GROWTH)
    start_if_possible(step, outgoing)


def _repair(step: Step, outgoing: OutgoingQueue, ack: OrderAck, last: int, sent: int) -> None:
    """Send the beginning of a named hole again, unless that was just done, or its messages are
    coming.

    Args:
        last: Counter of the last message in the hole.
        sent: Counter of the last transmitted message.
    """
    lane, repair, about = outgoing.ordered_lane, outgoing.repair, (ack.stream, ack.number)
    if len(repair.ranges) >= limits.HOLES_WAITING_MAX:
        return
    first = lane.first_available()
    # The end of the hole has ended here: the next one names another previous number now (EOD-8).
    if lane.state(last) != AVAILABLE:
        last = min(lane.first(AVAILABLE, last, sent + 1), sent)
    if last == repair.end and about > repair.about:
        # The same hole, with a later beginning.
        repair.about, repair.times = about, 0
        repair.again_us = step.later_us(limits.HOLE_AGAIN_S)
        if outgoing.head.base + ack.number > repair.until:
            # A message came that was not sent again: it was late, not lost. So is the rest.
            repair.until, repair.count = outgoing.head.base + ack.number, limits.HOLE_MESSAGES
            return
        if first <= repair.until:
            return
        repair.count *= limits.HOLE_GROWTH
    else:
        if step.now.mono_us < repair.again_us:
            if repair.about == about:
                return
            first = max(first, repair.until + 1)
        if first > last:
            return
        if repair.about == about:
            repair.times += 1
        else:
            repair.times, repair.count = 0, limits.HOLE_MESSAGES
        wait_s = min(
            limits.HOLE_AGAIN_S * (1 << min(repair.times, 16)), step.settings.resend_first_s
        )
        repair.again_us = step.later_us(wait_s)
    repair.about, repair.end = about, last
    repair.until = min(last, first + repair.count - 1)
    repair.ranges.append((first, repair.until))
    start_if_possible(step, outgoing)
