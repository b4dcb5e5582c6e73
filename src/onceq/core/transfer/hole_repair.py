"""Holes in what a receiver has: sent again at once, and nothing else is (EOD-9).

A receiver takes nothing behind a message that was lost. A sender that hears of that from its resend
timer alone has sent everything since in vain, and has waited for up to half a minute. Two things
tell it sooner:

* *Another onceq manager names the hole* in its order acknowledgment (``packet/acks.py``): it keeps
  what has come behind it (``core/step/early_runs.py``), so what lies in the hole is enough. The
  name counts only where the session is marked; in the packets of others the same bytes mean
  nothing.
* *Any other receiver repeats itself.* Two equal order acknowledgments in one session, while later
  messages are under way, are what a hole looks like from here. Then the first few that are
  unacknowledged go out again, once for each number.

What goes out again keeps its numbers (EOD-5), and its previous numbers are made anew (EOD-6), as at
any transmission. Up to where everything else was transmitted does not move.

Not every hole is a loss. A packet of an earlier connection that comes late, or one that has
overtaken others, stands before messages that are merely under way, and these may be all that was
transmitted since. So a few go first, and twice as many each time when the receiver has taken just
what was sent again and names the rest. When it has taken more than that, the rest is coming, and
nothing of it is sent. A hole that stays as it is, or is named by a liar, costs as many, and not
often: after 100 ms, then after twice as long each time.

The resend timer runs as it would without all this; it finds what is lost at the end, where no later
message shows it. It rings also when acknowledgments were lost or are late, and then a receiver that
names holes lacks little or nothing. So the first two unacknowledged ones ask it. If it has nothing
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
    """An order acknowledgment has let go what it covers: does it show a hole behind?."""
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
        # Of what was not transmitted on this session nothing can be missing.
        sent = min(outgoing.sent, head.end)
        if ack.number + 1 == ack.first_missing <= ack.last_missing <= sent - head.base:
            _repair(step, outgoing, ack, head.base + ack.last_missing, sent)
    else:
        _guess(step, outgoing, peer, ack)


def _newest(outgoing: OutgoingQueue, ack: OrderAck) -> bool:
    """One that is older than another one tells of what was; its hole may be filled long ago."""
    if not ack.number:  # the beginning is missing, so nothing of the stream was acknowledged
        return outgoing.last_ack[0] < ack.stream
    return outgoing.last_ack == (ack.stream, ack.number)


def _answered(step: Step, outgoing: OutgoingQueue, ack: OrderAck) -> None:
    """The resend timer has rung, and an acknowledgment says what the receiver has.

    Only one that names no holes, or ends just where the question did and names none, shows that
    nothing has come behind. Anything else that it may lack is under way, or lost behind all that
    it has, where the timer finds it again.
    """
    (count, last), acked = outgoing.repair.asked, outgoing.head.base + ack.number
    if not ack.tells_holes:
        # An earlier version: it has kept nothing.
        outgoing.sent = min(outgoing.sent, max(last, acked))
    elif acked < last:
        return
    outgoing.repair.asked = (0, 0)
    if acked == last < outgoing.sent and ack.tells_holes and not ack.last_missing:
        outgoing.ask(count * ASKED_GROWTH)
    start_if_possible(step, outgoing)


def _repair(step: Step, outgoing: OutgoingQueue, ack: OrderAck, last: int, sent: int) -> None:
    """Send the beginning of a hole again that was named, unless that was done just now, or what
    lies in it is coming.

    Args:
        last: Counter of the last message in it.
        sent: That of the last one that was transmitted.
    """
    lane, repair, about = outgoing.ordered_lane, outgoing.repair, (ack.stream, ack.number)
    if len(repair.ranges) >= HOLES_WAITING_MAX:
        return
    first = lane.first_available()
    # What ends the hole has ended here: the next one names another previous number now (EOD-8).
    if lane.state(last) != AVAILABLE:
        last = min(lane.first(AVAILABLE, last, sent + 1), sent)
    if last == repair.end and about > repair.about:
        # The same hole, and it begins later than before.
        repair.about, repair.times = about, 0
        repair.again_us = step.later_us(HOLE_AGAIN_S)
        if outgoing.head.base + ack.number > repair.until:
            # What has come was not sent again: it was late, not lost. Then so is the rest.
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
    """Take the second of two equal acknowledgments for a hole."""
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
