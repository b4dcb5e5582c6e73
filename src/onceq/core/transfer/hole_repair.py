"""Repair of holes in what a receiver has: only the lost messages are sent again, at once (EOD-9).

A receiver accepts nothing behind a lost message. If only the resend timer reveals the loss, the
sender has wasted everything that it sent since, and up to half a minute. Two things reveal it
sooner:

* *Another onceq manager names the hole* in its order acknowledgment (``packet/acks.py``): it keeps
  what has come behind it (``core/step/early_runs.py``), so the messages in the hole are enough. The
  name counts only on a marked session; in the packets of others the same bytes mean nothing.
* *Any other receiver repeats itself.* Two equal order acknowledgments in one session, while later
  messages are under way, indicate a hole. Then the first few unacknowledged messages go out again,
  once for each number.

A retransmitted message keeps its number (EOD-5); its previous number is made at each transmission
(EOD-6). The position up to which everything else was transmitted does not move.

Not every hole is a loss. A packet of an earlier connection that comes late, or one that has
overtaken others, precedes messages that are merely under way, and these may be all that was
transmitted since. So a few messages go first, and twice as many each time when the receiver has
taken exactly the retransmitted ones and names the rest. When it has taken more, the rest is coming,
and none of it is sent. A hole that does not change, or that a liar names, costs as many, but not
often: after 100 ms, then after twice as long each time.

The resend timer runs independently of this; it finds losses at the end, where no later message
shows them. It also rings when acknowledgments were lost or are late, and then a receiver that names
holes lacks little or nothing. So the first two unacknowledged messages ask it. If it has nothing
behind them and names no hole, a longer part follows, and so on: what it has is not sent again.

Upholds: I5, I8 (true links), I10 (a hole lets nothing be forgotten), I24 (bounded), I26.
"""

from __future__ import annotations

from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.position_block import AVAILABLE
from onceq.core.step.step import Step
from onceq.core.transfer.outgoing_queue import PROBE_MESSAGES, start_if_possible
from onceq.model.limits import (
    ASKED_GROWTH,
    HOLE_AGAIN_S,
    HOLE_GROWTH,
    HOLE_MESSAGES,
    HOLES_WAITING_MAX,
)
from onceq.packet.acks import OrderAck


def hole_shown(step: Step, peer: Peer, ack: OrderAck) -> None:
    """Repair the hole behind what an order acknowledgment has released, if it shows one."""
    outgoing = step.state.streams.get(ack.stream)
    if outgoing is None or not _newest(outgoing, ack):
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
    else:
        _guess(step, outgoing, peer, ack)


def _newest(outgoing: OutgoingQueue, ack: OrderAck) -> bool:
    """Return whether this is the newest acknowledgment; the hole of an older one may be filled."""
    if not ack.number:  # the beginning is missing, so nothing of the stream was acknowledged
        return outgoing.last_ack[0] < ack.stream
    return outgoing.last_ack == (ack.stream, ack.number)


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
        outgoing.ask(count * ASKED_GROWTH)
    start_if_possible(step, outgoing)


def _repair(step: Step, outgoing: OutgoingQueue, ack: OrderAck, last: int, sent: int) -> None:
    """Send the beginning of a named hole again, unless that was just done, or its messages are
    coming.

    Args:
        last: Counter of the last message in the hole.
        sent: Counter of the last transmitted message.
    """
    lane, repair, about = outgoing.ordered_lane, outgoing.repair, (ack.stream, ack.number)
    if len(repair.ranges) >= HOLES_WAITING_MAX:
        return
    first = lane.first_available()
    # The end of the hole has ended here: the next one names another previous number now (EOD-8).
    if lane.state(last) != AVAILABLE:
        last = min(lane.first(AVAILABLE, last, sent + 1), sent)
    if last == repair.end and about > repair.about:
        # The same hole, with a later beginning.
        repair.about, repair.times = about, 0
        repair.again_us = step.later_us(HOLE_AGAIN_S)
        if outgoing.head.base + ack.number > repair.until:
            # A message came that was not sent again: it was late, not lost. So is the rest.
            repair.until, repair.count = outgoing.head.base + ack.number, HOLE_MESSAGES
            return
        if first <= repair.until:
            return
        repair.count *= HOLE_GROWTH
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
            repair.times, repair.count = 0, HOLE_MESSAGES
        wait_s = min(HOLE_AGAIN_S * (1 << min(repair.times, 16)), step.settings.resend_first_s)
        repair.again_us = step.later_us(wait_s)
    repair.about, repair.end = about, last
    repair.until = min(last, first + repair.count - 1)
    repair.ranges.append((first, repair.until))
    start_if_possible(step, outgoing)


def _guess(step: Step, outgoing: OutgoingQueue, peer: Peer, ack: OrderAck) -> None:
    """Treat the second of two equal acknowledgments as a hole."""
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
