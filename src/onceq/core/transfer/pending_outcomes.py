"""Decide whether the final acknowledgment of an accepted message can still arrive.

A sender that wants dead letters or journal copies keeps acknowledged messages until its receiver
reports how they ended. If one of the two was restored, no report comes: the receiver does not know
the message any more, or it has reported the end to a life of the sender that is undone. So the
sender asks, when a session opens and every few hours, which messages will get a report. The
receiver answers when all ends that it has reported were taken: open are those messages in a queue
that still have a report to make. Any other message is in doubt from then on, with the reason, and
the application gets the report it asked for. If the end is reported after all (of copies that take
turns, the other one continues), it settles the doubt as any other (``core/transfer/in_doubt.py``).

Managers without the extension are not asked; what they have acknowledged waits for its time.

Also here:

* What a receiver answers to the question what became of messages (CNF-22).

Upholds: I11 (an end, also where a restore has undone it), I13, I24 (bounded answers), I26, I4, I6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onceq.core.ending.acknowledgments import ACK_LANE, order_queue_of
from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.names import arrival_key
from onceq.core.peers import lives
from onceq.core.peers.trust import FORGED, disbelieve, note, refused_as_future, serves
from onceq.core.state.audit_trail import ReportRequest
from onceq.core.state.outgoing_queues import OutgoingQueue, Stretch
from onceq.core.state.peer_table import Peer
from onceq.core.state.position_block import AVAILABLE, AWAITING, LOCKED, PURGING
from onceq.core.state.positions import Link
from onceq.core.state.queues import TRANSACTIONAL_LANE, Queue
from onceq.core.state.records import PUT_FINAL, Advance, Change, Op, RangeChange
from onceq.core.state.setups import StreamClaimed
from onceq.core.state.state import IN_DOUBT
from onceq.core.step.step import ChangeBuilder, Step
from onceq.core.transfer.admission import stream_room
from onceq.core.transfer.connecting import connect
from onceq.core.transfer.outgoing_queue import await_ends, held
from onceq.model.identity import guid_text
from onceq.model.limits import ENDS_ASKED_S, INQUIRY_STREAMS_MAX, PASSED_RANGES_MAX
from onceq.model.resultcodes import FORGOTTEN_THERE, TOLD_ALREADY
from onceq.packet.acks import (
    EndsAsked,
    EndsOpen,
    Inquiry,
    StillOpen,
    StreamMemory,
    ends_asked,
    ends_open,
    settlement,
)
from onceq.packet.address import ON_DESTINATION, Address

# ---- inquiry answers -----------------------------------------------------------------------------


NO_QUEUE: Final = Address(ON_DESTINATION, number=0)

NOBODY_KNOWS: Final = 0xFFFF_FFFF
"""As the number from which on something is remembered."""


def answer(step: Step, peer: Peer, asked: Inquiry) -> None:
    """Note what will never come, then report what came.

    It first notes durably what will never come, as if the next message had come; then it reports
    what came. What was never accepted in a stream that the receiver has left continues in at most
    one other stream of the sender: the first that claims it, by announcing itself together with the
    question (``core/transfer/abandoned_streams.py``). To any other sender the answer is *not known*
    from then on.

    An older manager names any public queue by the number 0, which is no queue's: it gets no answer.
    """
    if asked.destination == NO_QUEUE:
        return
    key, _ = arrival_key(step, asked.destination)
    for stream, live_from in sorted(asked.streams):
        # 0 only asks, and says nothing of what is gone (``core/transfer/abandoned_streams.py``).
        if live_from:
            _note_gone(step, peer, key, stream, live_from)
    fence = _fence(step, peer, key, asked)
    told: list[StreamMemory] = []
    for stream, live_from in sorted(asked.streams):
        memory = _memory(step, peer, key, stream, asked=not live_from)
        if memory is not None:
            told.append(_claimed(step, peer, key, memory, 0 if live_from else fence))
    progress = step.state.progress.get((peer.peer, key))
    room = len(told) < INQUIRY_STREAMS_MAX
    if progress is not None and room and all(m.stream != progress.stream for m in told):
        told.append(step.state.memories.current(progress))
    if told:
        note(step, peer, settlement(
            told, own=step.identity.guid, own_message=step.passing_number(),
            sent_time=step.now.wall_s, destination_manager=peer.peer,
        ))  # fmt: skip


def _note_gone(step: Step, peer: Peer, key: str, stream: int, live_from: int) -> None:
    """Note that nothing before a number, and nothing of an older stream, will be sent any more."""
    state = step.state
    progress = state.progress.get((peer.peer, key))
    if progress is None and not stream_room(step, peer.peer):
        return
    here, last = (progress.stream, progress.last) if progress is not None else (0, 0)
    if stream > here and refused_as_future(step, peer, peer.peer, stream):
        return
    if stream > here or (stream == here and live_from - 1 > last):
        change = Change(step.now.wall_s)
        # The last number is smaller than the first: nothing is accepted, and everything between
        # the last accepted number and this one is recorded as passed over.
        change.advances.append(Advance(peer.peer, key, stream, live_from - 1, live_from))
        step.record(change)


def _fence(step: Step, peer: Peer, key: str, asked: Inquiry) -> int:
    """Return the stream that claims what the others in the question have not accepted; 0: none."""
    progress = step.state.progress.get((peer.peer, key))
    if progress is None or all(live_from for _, live_from in asked.streams):
        return 0
    return progress.stream if (progress.stream, 1) in asked.streams else 0


def _memory(step: Step, peer: Peer, key: str, stream: int, *, asked: bool) -> StreamMemory | None:
    """Return what is known of a stream; a question that names it always gets an answer."""
    state = step.state
    found = state.memory_of(peer.peer, key, stream)
    progress = state.progress.get((peer.peer, key))
    if found is not None or not asked or progress is None or stream > progress.stream:
        return found
    if stream > state.memories.forgotten.get((peer.peer, key), 0) and not progress.vague:
        return StreamMemory(stream, 1, 0, closed=True)  # it was never begun
    return StreamMemory(stream, NOBODY_KNOWS, 0, closed=True)


def _claimed(step: Step, peer: Peer, key: str, memory: StreamMemory, fence: int) -> StreamMemory:
    """Return what may be said of a stream: what was not accepted is reported only to the stream in
    which it continues, the first that asks for it."""
    if not memory.closed:
        return memory
    by = step.state.memories.claimed(peer.peer, key, memory.stream)
    if not by and fence and memory.since != NOBODY_KNOWS:
        by = fence
        step.setup(StreamClaimed(source=peer.peer, key=key, stream=memory.stream, by=fence))
    return replace(memory, closed=False) if by and by != fence else memory


# ---- untold --------------------------------------------------------------------------------------


AGAIN_S: Final = 60
"""Seconds after which an unanswered question is asked again; then twice as many."""
NO_ROOM_S: Final = 2
"""Seconds after which the question continues, on the same session, if that was too much at once,
or too much else waited there. No session is made for the rest of a question: a peer that turns
every session away would be called that often."""
STREAMS_AT_ONCE: Final = 1_024
"""Streams of one outgoing queue that one question examines; then it continues later."""
ANSWERED_EVERY_US: Final = 1_000_000
"""More frequent questions on one session get no answer: each one examines all queues."""
LOOKED_AT_ONCE: Final = 4_096
"""Report requests, and ranges of messages, that one step examines for an answer..."""
POSITIONS_AT_ONCE: Final = 4_096
"""... this number of positions, which together cost as much as 16 of these..."""
PROGRESS_AT_ONCE: Final = 16_384
"""... and streams of all senders."""
_HERE: Final = (AVAILABLE, LOCKED, PURGING)

NumberRange = tuple[int, int]
"""A range of numbers, both ends included."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Numbers of one stream in a question."""

    first: int
    last: int


# ---- the sender -------------------------------------------------------------------------------


def ask(step: Step, outgoing: OutgoingQueue) -> None:
    """Ask which messages will get a report of their end, if any wait and a manager can answer."""
    ends, peer = outgoing.ends, step.sessions.peers.get(outgoing.session)
    if not outgoing.ordered_lane.awaiting:
        return
    start, ends.goes_on = ends.goes_on, 0
    if not start:
        ends.open.clear()
    asks = peer is not None and peer.extended and serves(step, peer, outgoing, peer.peer)
    if peer is not None and asks:
        ends.goes_on = _ask_from(step, peer, outgoing, start)
    if ends.goes_on:
        await_ends(step, outgoing, NO_ROOM_S)
    elif asks and not ends.open:
        _answered(step, outgoing)
    else:
        await_ends(step, outgoing, min(AGAIN_S << min(ends.asked, 16), ENDS_ASKED_S))
        ends.asked += 1


def _answered(step: Step, outgoing: OutgoingQueue) -> None:
    """End a question that was answered completely; the answer may change, so it is asked again."""
    outgoing.ends.asked = outgoing.ends.due_us = 0
    await_ends(step, outgoing)


def _ask_from(step: Step, peer: Peer, outgoing: OutgoingQueue, start: int) -> int:
    """Ask about a bounded number of streams from a position on; return the position of the next
    question, 0 if there are no more."""
    entries: list[tuple[int, int, int]] = []
    asked = max(start, 1)
    for looked, s in enumerate(outgoing.stretches_from(start)):
        if len(entries) == INQUIRY_STREAMS_MAX or looked == STREAMS_AT_ONCE:
            if not _post(step, peer, entries):
                return asked
            entries, asked = [], s.base + 1
        if looked == STREAMS_AT_ONCE:
            return asked
        span = _awaited(outgoing, s)
        if s.stream and span is not None:
            first, last = span
            begin = outgoing.ends.begin.get(s.stream, 0)
            entries.append((s.stream, max(first - s.base, begin), last - s.base))
            outgoing.ends.open.add(s.stream)
    return 0 if _post(step, peer, entries) else asked


def _post(step: Step, peer: Peer, entries: Sequence[tuple[int, int, int]]) -> bool:
    """Post a question, if it is about anything; return whether there was room for it."""
    return not entries or note(step, peer, ends_asked(
        EndsAsked(tuple(entries)), own=step.identity.guid, own_message=step.passing_number(),
        sent_time=step.now.wall_s, destination_manager=peer.peer,
    ))  # fmt: skip


def on_timer(step: Step, number: int) -> None:
    """Ask when the timer rings, over a new session if necessary."""
    outgoing = step.state.all_queues.get(number)
    if not isinstance(outgoing, OutgoingQueue) or not 0 < outgoing.ends.due_us <= step.now.mono_us:
        return
    outgoing.ends.due_us = 0
    if not outgoing.ordered_lane.awaiting:
        outgoing.ends.asked = 0
        return
    if not outgoing.ends.goes_on and outgoing.link is Link.NONE and not held(step, outgoing):
        connect(step, outgoing)
    # The session of a partial question is over: ask it completely, after the usual pause.
    ask(step, outgoing)


def _awaited(outgoing: OutgoingQueue, s: Stretch) -> tuple[int, int] | None:
    """Return the first and the last position of a stream that wait for a report of their end."""
    lane = outgoing.ordered_lane
    end = min(s.end + 1, lane.next)
    first = lane.first(AWAITING, s.base + 1, end)
    return (first, lane.last_before(end, AWAITING)) if first < end else None


def hear(step: Step, peer: Peer, said: EndsOpen) -> None:
    """Apply the receiver's answer: the messages that will get a report of their end."""
    for one in said.streams:
        outgoing = step.state.streams.get(one.memory.stream)
        s = outgoing.stretch_of(one.memory.stream) if outgoing is not None else None
        if outgoing is None or s is None:
            continue
        if not serves(step, peer, outgoing, peer.peer):
            disbelieve(step, peer, FORGED, queue=str(outgoing.name))
            continue
        _untold(step, peer, outgoing, s, one)
        ends, stream = outgoing.ends, one.memory.stream
        span = _awaited(outgoing, s)
        if span is not None and span[1] - s.base > one.last:
            ends.begin[stream] = one.last + 1  # the answer had no room for more
            await_ends(step, outgoing, AGAIN_S)
            continue
        ends.begin.pop(stream, None)
        ends.open.discard(stream)
        if not ends.begin and not ends.goes_on and not ends.open:
            _answered(step, outgoing)


def _untold(step: Step, peer: Peer, outgoing: OutgoingQueue, s: Stretch, one: StillOpen) -> None:
    """End the wait for messages that will get no report of their end."""
    build = ChangeBuilder(step)
    lane, count = outgoing.ordered_lane, 0
    for first, last in _outside(one.open, one.first, one.last):
        end = min(s.base + last, s.end) + 1
        for start, size in lane.ranges(AWAITING, s.base + max(first, 1), end=end):
            for counter in range(start, start + size):
                if serves(step, peer, outgoing, peer.peer, counter):
                    why = TOLD_ALREADY if one.memory.arrived(counter - s.base) else FORGOTTEN_THERE
                    _end(build, outgoing, counter, why)
                    count += 1
    if count:
        step.record(build.change)
        step.notice(
            "nobody will tell how acknowledged messages ended: they are in doubt",
            str(outgoing.name), queue=str(outgoing.name), messages=count,
            receiver=guid_text(peer.peer), stream=f"{s.stream:#018x}",
        )  # fmt: skip


def _end(build: ChangeBuilder, outgoing: OutgoingQueue, counter: int, why: int) -> None:
    move = RangeChange(Op.END, outgoing.number, TRANSACTIONAL_LANE, counter, 1, IN_DOUBT, note=why)
    end_range(build, move, Ending.END_UNKNOWN, IN_DOUBT)


def _outside(open: tuple[NumberRange, ...], first: int, last: int) -> list[NumberRange]:
    """Return the parts of a range of numbers that no other range covers."""
    found, at = [], first
    for begin, end in sorted(open):
        if begin > at:
            found.append((at, min(begin - 1, last)))
        at = max(at, end + 1)
    if at <= last:
        found.append((at, last))
    return found


# ---- the receiver -----------------------------------------------------------------------------


def tell(step: Step, peer: Peer, asked: EndsAsked) -> None:
    """Answer which messages will get a report of their end, unless some reports are under way."""
    if peer.telling or step.now.mono_us < peer.ends_told_us or _under_way(step, peer.peer):
        return
    peer.telling = True
    step.begin(_tell(step, peer, asked))


def _tell(step: Step, peer: Peer, asked: EndsAsked) -> Iterator[None]:
    """Search the queues, a bounded number of report requests in each step, then answer."""
    keys: list[tuple[bytes, str]] = []
    streams = list(step.state.progress)
    for at in range(0, len(streams), PROGRESS_AT_ONCE):
        if at:
            yield
        keys += [key for key in streams[at : at + PROGRESS_AT_ONCE] if key[0] == peer.peer]
    parts: dict[int, list[NumberRange]] = {stream: [] for stream, _, _ in asked.streams}
    yield from _look_through(step, peer.peer, parts)
    peer.telling, peer.ends_told_us = False, step.now.mono_us + ANSWERED_EVERY_US
    # An end on its way is in no queue here any more. Left out of the answer, it would look like one
    # that will never be reported.
    if step.sessions.peers.get(peer.session) is not peer or _under_way(step, peer.peer):
        return
    # What is known of its streams, to any queue; and the greatest of them in which anything came.
    # Both tables are walked once, for any number of streams.
    memories = {stream: StreamMemory(stream, NOBODY_KNOWS, 0, closed=False) for stream in parts}
    latest = -1
    for (sender, _, stream), memory in step.state.memories:
        if sender == peer.peer and stream in parts and memories[stream].since == NOBODY_KNOWS:
            memories[stream] = replace(memory, closed=False)
    present = [p for key in keys if (p := step.state.progress.get(key)) is not None]
    for progress in reversed(present):
        latest = max(latest, progress.stream)
        if progress.stream in memories:
            memories[progress.stream] = step.state.memories.current(progress)
    told = tuple(
        _answer(step, peer, memories[stream], latest, _Asked(first, last), sorted(parts[stream]))
        for stream, first, last in asked.streams
    )
    note(step, peer, ends_open(
        EndsOpen(told), own=step.identity.guid, own_message=step.passing_number(),
        sent_time=step.now.wall_s, destination_manager=peer.peer,
    ))  # fmt: skip


def _look_through(step: Step, source: bytes, parts: dict[int, list[NumberRange]]) -> Iterator[None]:
    """Find the messages of a question in all queues.

    Between two steps messages end, which is reported, or move to the end of another queue. So
    positions behind the examined ones are examined, too, until one step leaves nothing.
    """
    seen: dict[tuple[int, int], int] = {}
    left, whole = LOOKED_AT_ONCE, False
    while not whole:
        whole = True
        for number in list(step.state.all_queues):
            queue = step.state.all_queues.get(number)
            if not isinstance(queue, Queue) or not queue.wanting:
                continue
            for index in list(queue.wanting):
                at = seen.get((number, index), 0)
                while at < queue.lanes[index].next:
                    if left <= 0:
                        yield
                        left, whole = LOOKED_AT_ONCE, False
                    at, left = _collect(queue, index, at, left, source, parts)
                seen[number, index] = at


def _under_way(step: Step, guid: bytes) -> bool:
    """Return whether ends that were reported to a manager still wait for it to take them."""
    outgoing = step.state.outgoing_of(order_queue_of(guid).key())
    lane = outgoing.lanes.get(ACK_LANE) if outgoing is not None else None
    return lane is not None and lane.available > 0


def _collect(
    queue: Queue, index: int, at: int, left: int, source: bytes,
    parts: dict[int, list[NumberRange]],
) -> tuple[int, int]:  # fmt: skip
    """Add what a lane holds of these streams of a manager, from a counter on; return the next
    counter, and the rest of this step's budget."""
    lane = queue.lanes[index]
    for w in queue.wants(index).since(at):
        if left <= 0:
            return at, left
        at = max(at, w.first)
        if w.source != source or w.stream not in parts or not w.flags & PUT_FINAL:
            at, left = w.end, left - 1
            continue
        while at < w.end and left > 0:
            stop = min(w.end, at + POSITIONS_AT_ONCE)
            for state in _HERE:
                for first, count in lane.ranges(state, at, end=stop):
                    parts[w.stream].append(_numbers(w, first, count))
                    left -= 1
            at, left = stop, left - 16
        if at < w.end:
            return at, left
    return lane.next, left


def _numbers(w: ReportRequest, first: int, count: int) -> NumberRange:
    number = w.number + first - w.first
    return number, number + count - 1


def _answer(
    step: Step,
    peer: Peer,
    memory: StreamMemory,
    latest: int,
    asked: _Asked,
    here: list[NumberRange],
) -> StillOpen:
    """Answer for one stream: a bounded number of ranges, and the number up to which they hold."""
    last, found = asked.last, list[NumberRange]()
    for first, end in here:
        if end < asked.first or first > last:
            continue
        if found and first == found[-1][1] + 1:
            found[-1] = (found[-1][0], end)
        elif len(found) == PASSED_RANGES_MAX:
            # Behind this number the answer is silent, and the sender asks again from there.
            last = found[-1][1]
            break
        else:
            found.append((first, end))
    # What was acknowledged to its sender never came to this life of its receiver.
    known = memory.since != NOBODY_KNOWS
    never_came = asked.last > memory.last if known else memory.stream > latest
    if never_came and lives.is_of(step, memory.stream):
        lives.note(step, peer.peer, lives.CAME)
    return StillOpen(asked.first, last, memory, tuple(found))
