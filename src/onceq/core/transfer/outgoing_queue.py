"""Outgoing queues: what waits for one destination, when it leaves, and when it may be forgotten.

A message is transmitted when its session has room, and again, from the head on, after a new
connection or a time-out, until an order acknowledgment covers it (EOD-9, EOD-16).
``core/transfer/transmit.py`` decides what goes into the packets of one session.

Also here:

* Refusals that come after their message was released, and refusals that come again.
* The state of an outgoing queue as MSMQ names it, and what a queue in it may do.

Upholds: I10 (release only on truth), I26 (liveness), I11, I13, I24 (bounded memories).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceq.core.ending.ending import end_range, gave_up
from onceq.core.ending.table import Ending
from onceq.core.names import lead_of
from onceq.core.peers import lives
from onceq.core.peers.lives import gave
from onceq.core.peers.strangers import known
from onceq.core.peers.trust import FORGED, disbelieve, serves
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.position_block import AVAILABLE, AWAITING
from onceq.core.state.positions import Link, LinkEvent
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.state.records import Op, RangeChange
from onceq.core.state.setups import Left, RefusedLate
from onceq.core.state.state import IN_DOUBT, NEGATIVE
from onceq.core.step.step import ChangeBuilder, Step, Timer
from onceq.core.step.units import REFUSED_THERE
from onceq.core.transfer.connecting import connect, has_turn, put_off_alone
from onceq.model.identity import MessageId, guid_text
from onceq.model.limits import ASKED_MESSAGES, ENDS_ASKED_S, LEFT_AHEAD
from onceq.model.names import Kind
from onceq.model.resultcodes import REFUSALS, ConnectionStatus, MessageClass, class_name
from onceq.packet.acks import FinalAck, OrderAck

# ---- late refusals -------------------------------------------------------------------------------


LATE_REFUSALS: Final = (
    "a message was refused after it was acknowledged: it is in no dead-letter queue"
)


def taken_before(step: Step, ack: FinalAck) -> bool:
    """Return whether a final acknowledgment is a refusal that was taken before.

    A receiver reports a refusal before the acknowledgment that covers it
    (``core/transfer/transmit.py``). Where the two take different ways, where an operator holds
    answers back, and where the receiver is not onceq, the refusal may come later. Its sender has
    released the message by then, unless it waits for a report of the end: there is nothing left to
    keep, and the application has asked for nothing. So the outgoing queue counts the refusal
    durably, with the identifier of the message, and the log reports it (finding U1).

    A released message looks like an ended one: both are gone. So the record that a refusal makes
    also remembers that it was taken (``State.refused``). A new session after a loss brings it once
    more, and then it has no effect. The table is separate: neither many refusals nor many messages
    outside transactions push the other out (finding R2).
    """
    return ack.message_class in REFUSALS and (ack.stream, ack.number) in step.state.refused


def note_taken(build: ChangeBuilder, ack: FinalAck) -> None:
    """Add a refusal to the record under construction; ignore any other acknowledgment."""
    if ack.message_class in REFUSALS:
        build.change.refused.append((ack.stream, ack.number))


def refused_late(step: Step, peer: Peer, ack: FinalAck) -> None:
    """Count a final acknowledgment of a message that is gone, if it is a refusal."""
    if ack.message_class not in REFUSALS or ack.source != step.identity.guid:
        return
    id = str(MessageId(ack.source, ack.message))
    told = {"id": id, "class": class_name(ack.message_class), "told_by": guid_text(ack.acker)}
    outgoing = _outgoing(step, ack.stream)
    if outgoing is None:
        # An operator has removed the queue, or very many streams were begun since. If a stream is
        # in no table, it is not known who may report on it: no stranger may.
        if gave(step, ack.stream) and known(step, peer.peer):
            step.notice(LATE_REFUSALS, **told)
        return
    if not serves(step, peer, outgoing, ack.acker):
        disbelieve(step, peer, FORGED, claims=guid_text(ack.acker), queue=str(outgoing.name))
        return
    step.setup(
        RefusedLate(
            number=outgoing.number,
            message_class=ack.message_class,
            id=id,
            stream=ack.stream,
            place=ack.number,
            at_s=step.now.wall_s,
        )
    )
    step.counts.ended[ack.message_class] += 1
    step.counts.note(REFUSED_THERE, ack.message_class, 1, str(outgoing.name))
    step.notice(LATE_REFUSALS, str(outgoing.name), queue=str(outgoing.name), **told)


def _outgoing(step: Step, stream: int) -> OutgoingQueue | None:
    """Return the outgoing queue in which a stream was begun."""
    state = step.state
    found = state.streams.get(stream) or state.all_queues.get(state.drained.get(stream, 0))
    return found if isinstance(found, OutgoingQueue) else None


# ---- outgoing states -----------------------------------------------------------------------------


LOCAL_CONNECTION = "LOCAL CONNECTION"
STATES: Final[Mapping[str, int]] = {
    LOCAL_CONNECTION: 0,
    "DISCONNECTED": 1,
    "WAITING": 2,
    "NEED VALIDATION": 3,
    "ONHOLD": 4,
    "INACTIVE": 5,
    "CONNECTED": 6,
    "DISCONNECTING": 7,
    "LOCKED": 8,
}
"""Strings of PROPID_MGMT_QUEUE_STATE with their numbers (Q-40)."""

OF_LINK: Final[Mapping[Link, str]] = {
    Link.NONE: "INACTIVE",
    Link.CONNECTING: "WAITING",
    Link.CONNECTED: "CONNECTED",
    Link.CLOSING: "DISCONNECTING",
    Link.PUT_OFF: "DISCONNECTED",
}
"""What a link is called if nothing else has a say."""


def state_of(step: Step, outgoing: OutgoingQueue) -> str:
    """The state of an outgoing queue, in the words of Q-40.

    MSMQ has one word for what is several things here: what operators have said, what the directory
    knows, and how far the link is (``core/state/positions.py``). The word is derived in one place,
    by precedence: what always keeps a queue from moving comes first.

    ==================  ==========================================================================
    ``LOCKED``          this manager is hardened, and the destination not reached over HTTP (Q-7)
    ``ONHOLD``          an operator has paused the queue
    ``DISCONNECTING``,  the state of the link comes before the rest of this table: a session that an
    ``CONNECTED``       operator has had closed goes on until it is closed
    ``NEED VALIDATION`` a public name of which nobody says yet where it leads (DL-14)
    ``DISCONNECTED``    an operator has disconnected this manager; or the next attempt is put off
    ``WAITING``         a session was asked for
    ``INACTIVE``        nothing has to be sent, so no link is made
    ==================  ==========================================================================
    """
    if locked(step, outgoing):
        return "LOCKED"
    if outgoing.paused_s:
        return "ONHOLD"
    if outgoing.session:
        return OF_LINK[outgoing.link]
    if outgoing.name.kind is Kind.PUBLIC and lead_of(step, outgoing) is None:
        return "NEED VALIDATION"
    return "DISCONNECTED" if step.state.offline_s else OF_LINK[outgoing.link]


def held(step: Step, outgoing: OutgoingQueue) -> bool:
    """Whether nothing may leave, and no link be made: paused, disconnected by an operator, being
    purged, or locked."""
    return bool(
        outgoing.paused_s or step.state.offline_s or outgoing.purging
        or (step.settings.hardened and locked(step, outgoing))
    )  # fmt: skip


def locked(step: Step, outgoing: OutgoingQueue) -> bool:
    """Whether this manager is hardened and the destination not reached over HTTP (Q-7)."""
    return step.settings.hardened and outgoing.name.protocol not in ("HTTP", "HTTPS")


# ---- outgoing queue ------------------------------------------------------------------------------


TOO_LATE = MessageClass.NACK_REACH_QUEUE_TIMEOUT
PROBE_MESSAGES = 64
"""Messages sent at a time after a time-out, and at first after a new connection, until one is
acknowledged; and where a hole is guessed (a window of MSMQ)."""


def start_if_possible(step: Step, outgoing: OutgoingQueue, *, at_once: bool = False) -> None:
    """Let an outgoing queue move if it can: transmit, or connect.

    Args:
        at_once: Connect even if an attempt has just failed.
    """
    if not outgoing.pending():
        return
    if outgoing.session:
        # Whether it is held is checked when the session has room.
        has_turn(step, outgoing)
    elif outgoing.link is Link.NONE and not held(step, outgoing):
        connect(step, outgoing, at_once=at_once)


def lost(
    step: Step,
    outgoing: OutgoingQueue,
    reason: str,
    *,
    idle: bool = False,
    status: ConnectionStatus = ConnectionStatus.UNKNOWN_FAILURE,
) -> bool:
    """Record why there is no session, lost or never made.

    Closing an idle session is no failure: messages that wait for an order acknowledgment wait on
    until their time, and only then a new session is made (EOD-17).

    Returns:
        Whether to try again later (``core/transfer/sessions.py``).
    """
    outgoing.happens(LinkEvent.LOSE)
    step.sessions.full_windows.discard(outgoing.number)
    nothing_leaves(step, outgoing)
    # Before ``rewind``, which forgets what was sent.
    if idle and outgoing.pace.due_us and outgoing.sent >= last_allowed(step, outgoing):
        outgoing.connected_s = 0
        put_off_alone(step, outgoing, outgoing.pace.due_us)
        outgoing.rewind()
        return False
    if not idle:
        trouble = outgoing.trouble
        if not trouble.reason:
            trouble.since_s = step.now.wall_s
        trouble.reason, trouble.last_s = reason, step.now.wall_s
        trouble.attempts += 1
    outgoing.tried(status, step.now.wall_s, "", reason)
    outgoing.connected_s = 0
    outgoing.pace.due_us = 0
    outgoing.rewind()
    return True


def retry(step: Step, number: int) -> None:
    """Connect again when the connect timer of an outgoing queue rings."""
    outgoing = step.state.all_queues.get(number)
    if not isinstance(outgoing, OutgoingQueue) or not 0 < outgoing.retry_us <= step.now.mono_us:
        return
    wake(step, outgoing)


def wake(step: Step, outgoing: OutgoingQueue) -> None:
    """Start an outgoing queue when the time is over for which it was put off."""
    outgoing.happens(LinkEvent.WAKE)
    if outgoing.pace.due_us:
        outgoing.pace.due_us = 0
        outgoing.pace.timeouts += 1
    start_if_possible(step, outgoing)


def resend(step: Step, number: int) -> None:
    """Send everything unacknowledged again when the resend timer of a stream rings (EOD-16).

    The sender does not know how much of it the receiver has; maybe all, and only acknowledgments
    were lost. So the first few go alone, and their answer says where to continue. Where receivers
    name what they lack (``core/transfer/order_acknowledgments.py``), fewer go.
    """
    outgoing = step.state.all_queues.get(number)
    if not isinstance(outgoing, OutgoingQueue):
        return
    pace = outgoing.pace
    if not pace.due_us:
        return
    # The session was closed because it was idle, and this became the time of the next attempt.
    if not outgoing.session:
        retry(step, number)
        return
    if pace.due_us > step.now.mono_us:
        step.timer(pace.due_us, Timer.RESEND, number)
        return
    pace.due_us = 0
    if outgoing.unacknowledged == 0:
        pace.timeouts = 0
        return
    pace.timeouts += 1
    peer = step.sessions.peers.get(outgoing.session)
    if peer is not None and peer.extended:
        outgoing.ask(ASKED_MESSAGES)
    else:
        if peer is not None:
            note_posted(step, peer, under_way=True)
        outgoing.from_the_head()
    start_clock(step, outgoing)
    start_if_possible(step, outgoing)


def note_posted(step: Step, peer: Peer, *, under_way: bool = False) -> None:
    """Mark answered messages as transmitted: over HTTP one message after another is posted.

    Args:
        under_way: The one that waits for its answer has left, too, and may be posted again.
    """
    left = peer.answered + under_way
    while peer.posts and peer.posts[0][0] < left:
        at, number, lane, first, count = peer.posts[0]
        outgoing, part = step.state.all_queues.get(number), min(left - at, count)
        if isinstance(outgoing, OutgoingQueue):
            outgoing.repeated[lane] = max(outgoing.repeated.get(lane, 0), first + part - 1)
        if part < count:
            return
        peer.posts.popleft()


def start_clock(step: Step, outgoing: OutgoingQueue) -> None:
    """Set the resend timer: an order acknowledgment is due in the interval of the table
    (EOD-17)."""
    pace = outgoing.pace
    running = pace.due_us
    pace.started_us = step.now.mono_us
    pace.due_us = step.later_us(step.settings.resend_wait_s(pace.timeouts))
    if not running or pace.due_us < running:
        step.timer(pace.due_us, Timer.RESEND, outgoing.number)


def await_ends(step: Step, outgoing: OutgoingQueue, after_s: int = ENDS_ASKED_S) -> None:
    """Ask after this time, if not sooner, which acknowledged messages will get a report."""
    due, running = step.later_us(after_s), outgoing.ends.due_us
    if outgoing.ordered_lane.awaiting and not 0 < running <= due:
        outgoing.ends.due_us = due
        step.timer(due, Timer.ENDS, outgoing.number)


def last_allowed(step: Step, outgoing: OutgoingQueue) -> int:
    """Return the last message that may be transmitted before an order acknowledgment comes.

    A receiver takes nothing behind a lost message, and keeps of it only what it has room for;
    ``unacknowledged_messages_max`` limits how much may be sent to no effect.
    """
    lane = outgoing.lanes[TRANSACTIONAL_LANE]
    window = step.settings.unacknowledged_messages_max
    if outgoing.pace.timeouts or outgoing.repair.probing:
        window = min(window, PROBE_MESSAGES)
    first = lane.first_available()
    last = min(first + window, lane.next) - 1
    # The next stream makes the receiver leave this one (EOD-24): it waits until this one is empty.
    return last if first > outgoing.base else min(last, outgoing.stretch(first).end)


def about_to_leave(step: Step, outgoing: OutgoingQueue, lane: int, last: int) -> None:
    """Record durably that messages up to a counter are about to be transmitted.

    The mark is durable before they leave. It runs ahead, so that few marks are needed; the unused
    part is taken back when the session ends. It does not run into a stream that waits for this one
    to drain: nothing of that leaves yet.
    """
    outgoing.transmitted[lane] = max(outgoing.transmitted.get(lane, 0), last)
    if last > outgoing.left.get(lane, 0):
        ahead = last + LEFT_AHEAD
        if lane == TRANSACTIONAL_LANE:
            ahead = min(ahead, outgoing.stretch(last).end)
        step.setup(Left(number=outgoing.number, lanes=[[lane, ahead]]))


def nothing_leaves(step: Step, outgoing: OutgoingQueue) -> None:
    """Take back the unused part of the mark; nothing leaves before ``about_to_leave`` allows it. No
    step waits for this; if it is lost, some messages that never left become doubtful."""
    vain = [
        [lane, min(outgoing.transmitted.get(lane, 0), counter)]
        for lane, counter in outgoing.left.items()
        if counter > outgoing.transmitted.get(lane, 0)
    ]
    if vain:
        step.setup(Left(number=outgoing.number, lanes=vain), forced=False)


def recall(step: Step, outgoing: OutgoingQueue) -> None:
    """Restore, after a restart, what earlier lives may have transmitted.

    An outgoing queue of an earlier version has no mark: all that it holds may have left.
    """
    for index, lane in outgoing.lanes.items():
        left = outgoing.left.get(index, 0) if outgoing.left_known else lane.next - 1
        outgoing.transmitted[index] = min(left, lane.next - 1)
        outgoing.repeated[index] = outgoing.transmitted[index]
    if not outgoing.left_known:
        lanes = [[index, lane.next - 1] for index, lane in outgoing.lanes.items()]
        step.setup(Left(number=outgoing.number, lanes=lanes), forced=False)
    nothing_leaves(step, outgoing)


# ---- acknowledgments ---------------------------------------------------------------------


def handed_over(build: ChangeBuilder, number: int, lane: int, first: int, count: int) -> None:
    """Release a range of an outgoing queue that the next manager has, except messages whose end
    their sender wants to know (EOD-11) and copies in the journal (Q-12, HTTP-13)."""
    move = RangeChange(Op.RELEASE, number, lane, first, count)
    end_range(build, move, Ending.HANDED_OVER, reason=0)


def order_acked(step: Step, ack: OrderAck) -> None:
    """Release everything of a stream up to the number that the receiver has durably (EOD-10).

    Stream and number must both match; an acknowledgment for a stream that was left, or for
    messages that never were, changes nothing (I9, I10). Another copy of this manager may have sent
    more, of what waits here too or in a stream of an earlier life: then it counts up to what this
    one has transmitted.
    """
    outgoing = step.state.streams.get(ack.stream)
    if outgoing is None or ack.number <= 0:
        return
    # Nothing of a later stream has left yet, and nothing of an earlier one waits.
    if outgoing.head.stream != ack.stream:
        return
    lane, end = outgoing.ordered_lane, outgoing.reach(ack.number, step.state.stamp) + 1
    if end - 1 > outgoing.ever_sent:
        if end > lane.next and not outgoing.of_earlier_life(step.state.stamp):
            return
        end = outgoing.ever_sent + 1
    head = outgoing.head
    if head.base + ack.number > min(head.end, lane.next - 1):
        lives.note(step, ack.acker, lives.SENT)
    if outgoing.last_ack == (ack.stream, ack.number):
        outgoing.last_ack_count += 1
        outgoing.last_ack_s = step.now.wall_s
    elif outgoing.last_ack < (ack.stream, ack.number):
        outgoing.last_ack = (ack.stream, ack.number)
        outgoing.last_ack_count = 1
        outgoing.last_ack_s = step.now.wall_s
    if outgoing.repair.probing:
        outgoing.repair.probing = False
        start_if_possible(step, outgoing)
    build = ChangeBuilder(step)
    for first, count in lane.ranges(AVAILABLE, lane.first_available(), end=end):
        handed_over(build, outgoing.number, TRANSACTIONAL_LANE, first, count)
    # A repeated acknowledgment is no progress: the count of time-outs continues.
    if not build.change.moves:
        return
    # If a crash loses this, these messages are transmitted and acknowledged once more.
    step.record(build.change, forced=False)
    await_ends(step, outgoing)
    outgoing.turned_away = None
    pace = outgoing.pace
    pace.timeouts = 0
    outgoing.sent = max(outgoing.sent, end - 1)
    if lane.available and outgoing.session:
        start_clock(step, outgoing)
    else:
        pace.due_us = 0


def final_acked(step: Step, ack: FinalAck) -> bool:
    """Apply the receiver's report of one message's end (EOD-40); False if the message is gone."""
    outgoing = step.state.streams.get(ack.stream)
    if outgoing is None or ack.source != step.identity.guid:
        return False
    base = outgoing.base_of(ack.stream)
    if base is None:
        return False
    counter = base + ack.number
    if outgoing.ordered_lane.state(counter) not in (AVAILABLE, AWAITING):
        return False
    if outgoing.place_of(counter) != (ack.stream, ack.number):
        return True  # a number that another life has assigned in this stream
    build = ChangeBuilder(step)
    note_taken(build, ack)
    reason = ack.message_class
    ending = Ending.NOT_RECEIVED_THERE if reason & NEGATIVE else Ending.RECEIVED_THERE
    if reason in REFUSALS:
        ending = Ending.REFUSED_THERE
    elif reason == IN_DOUBT:
        ending = Ending.IN_DOUBT  # its receiver does not know, either
    move = RangeChange(Op.END, outgoing.number, TRANSACTIONAL_LANE, counter, 1, reason)
    end_range(build, move, ending, reason)
    step.record(build.change)
    return True


def refused_again(step: Step, ack: FinalAck) -> None:
    """Put a refused message that had left before in doubt: it may have arrived then, like any
    message that is given up here (CNF-21)."""
    outgoing = step.state.streams.get(ack.stream)
    base = outgoing.base_of(ack.stream) if outgoing is not None else None
    if outgoing is None or base is None or ack.source != step.identity.guid:
        return
    counter = base + ack.number
    # A message acknowledged meanwhile has arrived, and its receiver will report its end.
    if outgoing.ordered_lane.state(counter) != AVAILABLE:
        return
    if outgoing.place_of(counter) != (ack.stream, ack.number):
        return
    build = ChangeBuilder(step)
    gave_up(build, outgoing, TRANSACTIONAL_LANE, counter, 1, MessageClass(ack.message_class))
    step.record(build.change)
    settled_down(step, outgoing)


# ---- expiry ------------------------------------------------------------------------------


def expire(step: Step, outgoing: OutgoingQueue, index: int, count_max: int) -> int:
    """End at most ``count_max`` messages of a lane that did not reach their queue, or were not
    confirmed, in time (EOD-8, CNF-11); return their number."""
    build, total = ChangeBuilder(step), 0
    states = (AVAILABLE, AWAITING)
    for first, count in outgoing.lanes[index].expired(step.now.wall_s, states, count_max):
        gave_up(build, outgoing, index, first, count, TOO_LATE)
        total += count
    step.record(build.change)
    if build.change.moves:
        settled_down(step, outgoing)
    return total


def settled_down(step: Step, outgoing: OutgoingQueue) -> None:
    """Update what an outgoing queue waits for, after some of its messages have ended here."""
    if outgoing.unacknowledged == 0:
        outgoing.pace.due_us = outgoing.pace.timeouts = 0
    elif outgoing.session:
        start_if_possible(step, outgoing)
