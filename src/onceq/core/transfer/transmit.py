"""Transmission: what a session gets to carry when it has room, and how messages are linked.

A session asks for packets when its window and its connection have room. Packets about doubts and
order acknowledgments go first: peers wait for them, and they are few. Final acknowledgments for a
manager go before an order acknowledgment for it: a sender learns of a refusal before it releases
the message. Then come the messages of the outgoing queues that the session serves, each queue from
its present position (``core/transfer/outgoing_queue.py`` says when it starts again).

A message is stored with its number, which never changes (EOD-5). But its receiver accepts it only
if it has accepted the message that the packet names as the one before (EOD-26), and that one may
expire or be removed here while both wait. A stored link would name a message that never comes, and
the stream would stop permanently. So the link is written at each transmission: it names the message
that is now directly before this one, over all that have gone (EOD-6, EOD-8). The message at the
head, because everything before it was acknowledged or has ended, names 0: a receiver that has lost
its memory can begin there (EOD-7, EOD-25), and one that has not compares numbers. Without the 0 the
sender's first message after such a loss would always be ahead of everything.

Upholds: I8 (true links), I24 (no more than there is room for), I26 (no gap that stays).
"""

from __future__ import annotations

from onceq.core.decision import Observed, Piece, Ready, Sight, Transmit
from onceq.core.delays import REFUSED_AT_ONCE, refuse_delayed
from onceq.core.ending.acknowledgments import ACK_LANE, ends_wait, order_queue_key
from onceq.core.inputs import Room
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.step.step import Step, rule_for
from onceq.core.transfer.connecting import attach
from onceq.core.transfer.outgoing_queue import (
    about_to_leave,
    held,
    last_allowed,
    settled_down,
    start_clock,
)
from onceq.packet.acks import order_ack


class _Load:
    """The contents of one Transmit."""

    __slots__ = (
        "before",
        "bytes",
        "count",
        "messages",
        "ordered",
        "pieces",
        "recoverable",
        "relink",
        "renumber",
        "size",
    )

    def __init__(self, room: Room) -> None:
        self.messages = room.messages
        self.bytes = room.bytes
        self.pieces: list[Piece] = []
        self.ordered: list[tuple[int, int, int]] = []
        """Ranges of transactional messages of one queue, and how many are before each."""
        self.relink: list[tuple[int, int]] = []
        self.before: dict[tuple[int, int], tuple[int, int, int]] = {}
        self.renumber: list[tuple[int, int, int, int, int]] = []
        self.count = self.recoverable = self.size = 0

    @property
    def full(self) -> bool:
        return self.count >= self.messages or self.size >= self.bytes


@rule_for(Room)
def room(step: Step, item: Room) -> None:
    """Fill a session that has room: order acknowledgments first, then waiting messages."""
    peer = step.sessions.peers.get(item.session)
    if peer is None:
        return
    load, more = _Load(item), False
    if peer.acks or peer.notes or peer.warning:
        while (peer.notes or peer.warning) and not load.full:
            if peer.warning:
                packet, peer.warning = peer.warning, b""
            else:
                packet = peer.notes.popleft()
            load.pieces.append(packet)
            load.count += 1
            load.size += len(packet)
        _load_acks(step, peer, load)
        more = bool(peer.acks or peer.notes or peer.warning)
    # Each queue once. A held queue comes back when it is released.
    for _ in range(len(peer.turns)):
        if load.full:
            break
        outgoing = step.state.all_queues.get(peer.turns.next())
        if (
            isinstance(outgoing, OutgoingQueue) and not held(step, outgoing)
            and _load_queue(step, peer, outgoing, load)
        ):  # fmt: skip
            peer.turns.note(outgoing.number)
    more = more or len(peer.turns) > 0
    if load.count:
        peer.messages += load.count
        peer.recoverable += load.recoverable
        step.act(
            Transmit(
                item.session, tuple(load.pieces), load.count, load.recoverable,
                tuple(load.relink), tuple(load.renumber), more,
                tuple(load.before.values()),
            )
        )  # fmt: skip


def _load_queue(step: Step, peer: Peer, outgoing: OutgoingQueue, load: _Load) -> bool:
    """Load what an outgoing queue has for its session; return whether more may leave at once."""
    more = False
    # Lanes are priorities. Transactional messages, of priority 0, have one of their own;
    # lanes 7 and 6 also hold acknowledgments, and forwarded messages.
    for lane in (7, 6, 5, 4, 3, 2, 1, TRANSACTIONAL_LANE, 0):
        if lane not in outgoing.lanes:
            continue
        if load.full:
            return True
        if outgoing.lanes[lane].due and not peer.delays:
            # The receiver has no delays: delayed messages end.
            ended = refuse_delayed(step, outgoing, lane)
            if ended:
                settled_down(step, outgoing)
            if ended >= REFUSED_AT_ONCE:
                return True
        if lane == TRANSACTIONAL_LANE:
            more |= _load_ordered(step, outgoing, load)
            if peer.http:
                peer.posts += (
                    (peer.messages + at, outgoing.number, TRANSACTIONAL_LANE, first, count)
                    for at, first, count in load.ordered
                )
                load.ordered.clear()
        else:
            more |= _load_plain(step, peer, outgoing, lane, load)
    return more


def _load_acks(step: Step, peer: Peer, load: _Load) -> None:
    while peer.acks and not load.full:
        key = next(iter(peer.acks))
        # A sender that has asked for nothing forgets a message when it is acknowledged. So the
        # refusal of the message goes first (finding U1).
        untold = step.state.outgoing.get(order_queue_key(key[0]))
        if untold is not None:
            if untold.session != peer.session and _leaves_elsewhere(step, peer, untold, key):
                continue
            # Unless the final acknowledgments that wait for this session all have room.
            if (
                ACK_LANE in untold.lanes and untold.session == peer.session
                and not held(step, untold)
                and _load_plain(step, peer, untold, ACK_LANE, load)
            ):  # fmt: skip
                return
        del peer.acks[key]
        progress = step.state.progress.get(key)
        # A stream that was entered by an inquiry may have accepted nothing yet.
        if progress is None or not progress.last:
            continue
        # A peer with the extension learns from each one whether anything is missing.
        early, hole = step.sessions.early, None
        if peer.extended:
            hole = early.missing(key, progress.stream, progress.last)
        packet = order_ack(
            own=step.identity.guid,
            own_message=step.passing_number(),
            sent_time=step.now.wall_s,
            address=peer.address if progress.direct else "",
            destination_manager=progress.source,
            stream=progress.stream,
            number=progress.last,
            hole=hole,
        )
        load.pieces.append(packet)
        load.count += 1
        load.size += len(packet)


def _leaves_elsewhere(
    step: Step, peer: Peer, outgoing: OutgoingQueue, key: tuple[bytes, str]
) -> bool:
    """Return whether an order acknowledgment must leave on another session: the one that carries
    the final ones, because of two sessions with one manager one may overtake the other. The queue
    of the final ones may have found its session after the acknowledgment was due; if that queue
    waits for a session, this one is available."""
    if not ends_wait(outgoing):
        # Nothing can be overtaken. The other session may even belong to a copy of the sender.
        return False
    other = step.sessions.peers.get(outgoing.session)
    if other is None:
        if peer.peer == key[0] and not held(step, outgoing):
            attach(step, outgoing, peer)
        return False
    del peer.acks[key]
    other.acks[key] = None
    step.act(Ready(other.session))
    return True


def _load_ordered(step: Step, outgoing: OutgoingQueue, load: _Load) -> bool:
    """Load transactional messages from the present position; return whether more may follow."""
    lane = outgoing.lanes[TRANSACTIONAL_LANE]
    if not lane.available:
        return False
    ranges = outgoing.repair.ranges
    if ranges:
        # What the receiver lacks goes before anything else; the sent position does not move.
        while ranges and not load.full:
            begin, end = ranges.pop(0)
            lacking = lane.take(
                count_max=load.messages - load.count, bytes_max=max(load.bytes - load.size, 1),
                start=begin, end=end + 1,
            )  # fmt: skip
            for first, count in lacking:
                _load_range(step, outgoing, load, first, count)
                begin = first + count
            if lacking and begin <= end:
                ranges.insert(0, (begin, end))
        if load.full:
            return True
    last, start = last_allowed(step, outgoing), outgoing.sent + 1
    found = lane.take(
        count_max=load.messages - load.count, bytes_max=max(load.bytes - load.size, 1),
        start=start, end=last + 1,
    )  # fmt: skip
    for first, count in found:
        _load_range(step, outgoing, load, first, count)
        outgoing.sent = first + count - 1
        # Before the mark moves: if a piece proves unreadable, the old mark is true.
        here, before = (outgoing.number, TRANSACTIONAL_LANE), outgoing.transmitted
        load.before.setdefault(here, (*here, before.get(TRANSACTIONAL_LANE, 0)))
        about_to_leave(step, outgoing, TRANSACTIONAL_LANE, outgoing.sent)
        if not outgoing.pace.due_us:
            start_clock(step, outgoing)
    if lane.first(AVAILABLE, max(start, last + 1), lane.next) < lane.next:
        step.sessions.full_windows.add(outgoing.number)
    return lane.first(AVAILABLE, outgoing.sent + 1, last + 1) <= last


def _load_range(
    step: Step, outgoing: OutgoingQueue, load: _Load, first: int, count: int
) -> None:  # fmt: skip
    """Load consecutive transactional messages, linked in their present order."""
    # The log has the stream and number from before the message was moved to this stream.
    if first <= outgoing.moved_to:
        place = (*outgoing.place_of(first), outgoing.previous_of(first))
        load.renumber.append((load.size, count, *place))
    # The log names the number before its own, which is not transmitted any more.
    elif outgoing.lanes[TRANSACTIONAL_LANE].state(first - 1) != AVAILABLE:
        load.relink.append((load.size, outgoing.previous_of(first)))
    for extent in outgoing.lanes[TRANSACTIONAL_LANE].extents(first, count):
        load.pieces.append(extent)
        load.size += extent.size
    load.ordered.append((load.count, first, count))
    load.count += count
    load.recoverable += count
    # What was transmitted before; without a call, because this runs for each range that leaves.
    again = outgoing.transmitted.get(TRANSACTIONAL_LANE, 0) + 1 - first
    if again > 0:
        step.counts.resent += min(again, count)
    if step.settings.history:
        step.act(
            Observed(
                Sight.TRANSMITTED,
                str(outgoing.name),
                step.identity.guid,
                *outgoing.place_of(first),
                count,
            )
        )


def _load_plain(step: Step, peer: Peer, outgoing: OutgoingQueue, index: int, load: _Load) -> bool:
    """Load other messages of one priority; return whether more follow.

    A range is recorded as one, and ends as one. Where each message may end separately (express
    ones, and everything over HTTP, where each has its own answer) it is recorded by itself.
    """
    lane = outgoing.lanes[index]
    start = outgoing.plain_sent.get(index, 0) + 1
    found = lane.take(
        count_max=load.messages - load.count, bytes_max=max(load.bytes - load.size, 1), start=start
    )
    for first, count in found:
        single = peer.http or lane.has_express(first, count)
        for counter in range(first, first + count) if single else (first,):
            part = 1 if single else count
            express = lane.is_express(counter)
            # Over HTTP the answer 200 means durable: there is one count, that counts answers.
            counted = express or peer.http
            if peer.http:
                at = peer.messages + load.count
                peer.posts.append((at, outgoing.number, index, counter, part))
            load.pieces += lane.extents(counter, part)
            load.count += part
            load.recoverable += 0 if express else part
            load.size += lane.size(counter, part)
            peer.plain.append(
                (
                    peer.messages + load.count, -1 if counted else peer.recoverable +
                    load.recoverable, outgoing.number, index, counter, part,
                )
            )  # fmt: skip
        outgoing.plain_sent[index] = first + count - 1
        # Messages whose end no application asked for are never in doubt: no mark needed.
        if index in outgoing.wanting:
            about_to_leave(step, outgoing, index, first + count - 1)
    return lane.first(AVAILABLE, outgoing.plain_sent.get(index, 0) + 1, lane.next) < lane.next
