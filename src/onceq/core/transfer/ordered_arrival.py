"""Transactional messages arrive: next in their stream, repeated, or before a missing one.

The filter comes first (EOD-29). A message that is next in order is stored or refused; in both cases
one record holds the stream's progress and the message, or its refusal. A message that is ahead in
the present stream, or in a newer one, is kept unchanged (``core/step/connections.py``), and judged
when the progress has reached it.

Also here:

* An incoming stream: the position of an arriving message in it, and what follows; the theory.
* The receiver filter: find the position of an arriving run in its stream, and judge it.

Upholds: I4, I5, I6, I9, I24, I7.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from typing import Final

from onceq.core.decision import Observed, Sight
from onceq.core.delays import place_for
from onceq.core.ending.acknowledgments import trace_arrival
from onceq.core.ending.ending import AtHand, ack_flags, end_at_hand
from onceq.core.ending.table import Side
from onceq.core.names import arrival_key
from onceq.core.peers import lives
from onceq.core.peers.answer_addresses import learn_address
from onceq.core.peers.duplicate_identity import twice
from onceq.core.peers.trust import turn_away
from onceq.core.state.peer_table import Peer, Progress
from onceq.core.state.queues import Queue
from onceq.core.state.records import PUT_FINAL, PUT_HTTP, PUT_WANTS, Advance, Put
from onceq.core.step.step import ChangeBuilder, Step
from onceq.core.transfer.admission import (
    admit,
    ending_of,
    expect_answers,
    room_for,
    split_by_quota,
    trim_run,
)
from onceq.core.transfer.order_acknowledgments import beginning_missing, schedule_ack
from onceq.model.marks import NEVER_S
from onceq.model.record import Record
from onceq.model.run import Run
from onceq.packet import acks
from onceq.packet.address import DIRECT
from onceq.packet.arrived import ArrivedRun

# ---- incoming states -----------------------------------------------------------------------------


class StreamState(Enum):
    """What a stream is for its receiver.

    A network repeats, delays and reorders what it carries. A sender transmits again, after each new
    connection, all unacknowledged messages. A backup may be put back, or a copy run beside its
    original. In all of this a receiver must accept each message once and in order (I4, I5), and it
    cannot keep a list of what it has accepted (I24). It keeps two numbers for each sender and
    queue: the stream that it is in, and the last number that it has accepted there (EOD-21). They
    are enough because of three rules that a sender follows:

    * *Its streams rise, and a new one begins when nothing of the old one is left* (EOD-12). So a
      stream that is not greater than the present one is over (EOD-23). It is not enough that a
      stream is another one: the first message of a stream that was left may still be under way, and
      would be accepted a second time.
    * *A message names the one before it, again in each transmission* (EOD-6). So it is next if that
      one was accepted, with any number of its own: messages that expired in between leave no gap
      (EOD-8). And a stream begins with the message that has nothing before it (EOD-24).
    * *A number is given once* (EOD-5, I7). If it comes again with another message, two managers
      send as one. It is not accepted, and not acknowledged either: an acknowledgment would let one
      of them forget a message that nobody has (I9, I25).

    Numbers that a message has passed over were never accepted, and never will be; a receiver
    remembers them for those who ask what became of a message (``core/state/in_doubt_table.py``).

    ``judge`` says where a run stands; ``_judged`` acts on it. ``docs/reference/states.md`` shows
    both tables, and the picture that is drawn from them.
    """

    NEW = "new"
    """Greater than the present one, or the first of its sender."""
    PRESENT = "present"
    """Messages of it are accepted, each after the one before."""
    LEFT = "left"
    """Its sender has begun a greater one: nothing of it is accepted any more."""


class Standing(Enum):
    """The position of an arriving message in its stream."""

    FIRST = "nothing before it"
    """It names no message before it."""
    NEXT = "the next"
    """The one before it was accepted, and it was not."""
    AHEAD = "ahead"
    """The one before it was not accepted."""
    REPEATED = "again"
    """Its number was accepted, with this message as far as is known."""
    ANOTHER = "another message"
    """Its number was accepted, with another message (``core/state/peer_table.py``)."""


class Verdict(Enum):
    """What the receiver makes of an arriving message."""

    ACCEPT = "accept"
    DUPLICATE = "duplicate"
    GAP = "gap"
    STALE_STREAM = "stale stream"
    CONFLICT = "identity used twice"


VERDICTS: Final[Mapping[StreamState, Mapping[Standing, Verdict]]] = {
    StreamState.NEW: {Standing.FIRST: Verdict.ACCEPT, Standing.AHEAD: Verdict.GAP},
    StreamState.PRESENT: {
        Standing.NEXT: Verdict.ACCEPT,
        Standing.AHEAD: Verdict.GAP,
        Standing.REPEATED: Verdict.DUPLICATE,
        Standing.ANOTHER: Verdict.CONFLICT,
    },
    StreamState.LEFT: dict.fromkeys(Standing, Verdict.STALE_STREAM),
}
"""Verdict by state of the stream and standing. Missing pairs cannot occur: the first message of a
present stream was accepted, or passed over."""


class StreamAnswer(Record, frozen=True):
    """What follows from a verdict.

    Attributes:
        accepted: The message is stored, or its refusal recorded, and is the last one accepted.
        acknowledged: An order acknowledgment is due: its sender has not heard how far it is.
        turned_away: The sender is told why its messages are not accepted.
        clash: Operators and managers are told that two managers send as one.
    """

    accepted: bool = False
    acknowledged: bool = True
    turned_away: bool = False
    clash: bool = False


ANSWERS: Final[Mapping[Verdict, StreamAnswer]] = {
    Verdict.ACCEPT: StreamAnswer(accepted=True),
    Verdict.DUPLICATE: StreamAnswer(),
    Verdict.GAP: StreamAnswer(),
    Verdict.STALE_STREAM: StreamAnswer(turned_away=True),
    Verdict.CONFLICT: StreamAnswer(acknowledged=False, clash=True),
}
"""What a receiver does about each verdict. Acknowledged is what it has accepted, never more."""


# ---- filter --------------------------------------------------------------------------------------


class Judgment(Record, frozen=True):
    """Verdicts on one run: its first ``duplicates`` messages are repetitions, and ``verdict``
    judges the rest.

    Pure decisions about numbers; nothing is stored or sent here. ``StreamState`` says what they are
    based on, and why they keep messages single and in order.
    """

    verdict: Verdict
    duplicates: int = 0


def judge(
    *, stream: int, last: int, arrived: int, number: int, previous: int, count: int = 1
) -> Judgment:
    """Return which messages of a run may enter their destination queue now.

    Args:
        stream: Stream that this receiver is in for the sender and the queue; 0 if none.
        last: Number of the last message accepted in it; 0 if none.
        arrived: Stream of the run.
        number: Number of its first message; the others follow one by one.
        previous: Previous number of its first message; each other one's is the number before.
        count: How many messages.

    Returns:
        ACCEPT: all but the first ``duplicates`` messages are next. Otherwise none is.
    """
    known = 0
    if arrived > stream:
        state = StreamState.NEW
        standing = Standing.AHEAD if previous else Standing.FIRST
    else:
        state = StreamState.PRESENT if arrived == stream else StreamState.LEFT
        known = min(max(last - number + 1, 0), count) if arrived == stream else 0
        if known == count:
            standing = Standing.REPEATED
        # A smaller previous number is no gap: the first unacknowledged message names 0, even if
        # this receiver has accepted messages before it (EOD-7).
        elif known == 0 and previous > last:
            standing = Standing.AHEAD
        else:
            standing = Standing.NEXT  # behind what is known of the run, if anything is
    return Judgment(VERDICTS[state][standing], known)


def contradicted() -> Judgment:
    """Return the verdict on a run if one of its numbers was accepted with another message."""
    return Judgment(VERDICTS[StreamState.PRESENT][Standing.ANOTHER])


# ---- ordered arrival -----------------------------------------------------------------------------


def ordered(step: Step, peer: Peer, run: ArrivedRun) -> bool:
    """Take in a run of a stream, and the messages that waited for it; False without room."""
    key, queue = arrival_key(step, run.destination, run.sent_to)
    if not _judged(step, peer, run, key, queue):
        return False
    if step.sessions.early.streams:
        return show_early(step, peer, run.source, key)
    return True


def show_early(step: Step, peer: Peer, source: bytes, key: str) -> bool:
    """Pass the kept messages that are not ahead any more to the filter; False without room."""
    early, where, shown = step.sessions.early, (source, key), False
    progress = step.state.progress.get(where)
    if progress is None or where not in early.streams:
        return True
    if early.streams[where].stream > progress.stream:
        return True  # its beginning is still missing
    while run := early.next(where, peer.session, progress.stream, progress.last):
        # Judged as if it came now: its queue may be gone, and its time over.
        _, queue = arrival_key(step, run.destination, run.sent_to)
        if not room_for(step, run) or not _judged(step, peer, run, key, queue):
            return False
        shown = True
    # Name a hole, and report its end, as soon as either is known (EOD-32).
    if early.advanced(where, progress.last) or shown:
        schedule_ack(step, progress, at_once=True)
    return True


def _judged(step: Step, peer: Peer, run: ArrivedRun, key: str, queue: Queue | None) -> bool:
    """Judge a run, and store or refuse what is next; False without room."""
    if not peer.actor.free or step.settings.quiet_system_queues:
        run = trim_run(step, peer, run, queue, again=run.http)
    direct = run.destination.kind == DIRECT
    address = peer.address if direct and peer.peer == run.source else ""
    if step.sessions.return_to.get(run.source, "") != address:
        step.sessions.came_from(run.source, address)
    progress, accepted = step.state.progress.get((run.source, key)), step.sessions.watch.accepted
    stream = progress.stream if progress is not None else 0
    count = len(run.message_numbers)
    judgment = _verdict_on(step, run, progress, count)
    answer, skip = ANSWERS[judgment.verdict], judgment.duplicates
    admission = admit(
        step, peer, run, queue, progress, duplicates=skip if answer.accepted else None
    )
    if admission.turned_away:
        turn_away(step, peer, run, admission.turned_away, here=stream)
        return True
    if admission.later:
        return False
    ahead = judgment.verdict is Verdict.GAP and not run.http
    if ahead and _kept(step, peer, run, key, progress, queue):
        return True
    if step.settings.history:
        _observe(step, run, key, judgment)
    if answer.accepted:
        packets, refusal = run.packets, admission.refusal
        if skip:
            packets = packets.part(skip, count - skip)
        if run.acknowledge or run.receipts:
            expect_answers(step, peer, run, refusal)
        if run.receipts and not learn_address(
            step, run.source, run.stream, run.receipts, left=stream, queue=_url(run)
        ):
            return False
        if step.state.restored is not None:
            # It compares the run with the progress that is about to advance.
            lives.check_first_run(step, run, progress, skip)
        # One record for each part: after a crash in between, the progress is at the end of a part,
        # and the sender brings the rest again.
        parts = split_by_quota(step, queue, packets, refusal) if refusal else [(0, packets, 0)]
        for first, part, why in parts:
            _take(step, run, key, queue, part, skip + first, why)
        # A new lookup: applying the record of a stream's first run has made the entry.
        progress = step.state.progress[run.source, key]
        new = run.message_numbers[skip:]
        accepted.note(run.source, key, run.stream, run.first_number + skip, new)
        progress.rejects = progress.stale_stream = 0
        progress.duplicates += skip
    elif progress is not None:
        _count_refused(step, run, progress, judgment.verdict)
        if answer.turned_away:
            turn_away(step, peer, run, acks.STALE, here=stream)
        if answer.clash:
            twice(step, progress, run)
    if progress is not None and answer.acknowledged:
        # On a new session the sender repeats a few sent messages until it learns how far the stream
        # had come (EOD-32).
        known = run.stream == stream and progress.session != peer.session
        at_once = known and not peer.http
        _note_arrival(step, peer, run, progress, queue)
        progress.since_ack += count
        schedule_ack(step, progress, at_once=at_once)
    return True


def _verdict_on(
    step: Step, run: ArrivedRun, progress: Progress | None, count: int
) -> Judgment:  # fmt: skip
    """Return the filter's judgment; a known number with another message is no repetition."""
    stream, last = (progress.stream, progress.last) if progress is not None else (0, 0)
    judgment = judge(
        stream=stream, last=last, arrived=run.stream, number=run.first_number,
        previous=run.first_previous, count=count,
    )  # fmt: skip
    accepted = step.sessions.watch.accepted
    if (
        judgment.duplicates
        and progress is not None
        and accepted.contradict(progress, run.first_number, run.message_numbers)
    ):
        return contradicted()
    return judgment


def _note_arrival(
    step: Step, peer: Peer, run: ArrivedRun, progress: Progress, queue: Queue | None
) -> None:  # fmt: skip
    """Record where the acknowledgment of a stream goes, and what operators see of the stream."""
    progress.session = peer.session
    progress.direct = run.destination.kind == DIRECT
    progress.leads_to = queue.number if queue is not None else 0
    progress.last_access_s = step.now.wall_s


def _kept(
    step: Step, peer: Peer, run: ArrivedRun, key: str, progress: Progress | None,
    queue: Queue | None,
) -> bool:  # fmt: skip
    """Keep a run that is ahead in the present stream, or in one that follows, if there is room."""
    early, where = step.sessions.early, (run.source, key)
    kept = early.keep_run(where, peer.session, queue.number if queue is not None else 0, run)
    stream, last = 0, 0
    if progress is not None:
        stream, last = progress.stream, progress.last
        _note_arrival(step, peer, run, progress, queue)
        schedule_ack(step, progress)
    if kept and early.waits_to_enter(where, stream, last):
        beginning_missing(step, where)
    return kept


def _count_refused(step: Step, run: ArrivedRun, progress: Progress, verdict: Verdict) -> None:
    """Record a run that is not accepted: what operators see, and what it reports all the same."""
    count = len(run.packets)
    progress.rejects += count
    if verdict is Verdict.DUPLICATE:
        progress.duplicates += count
        if run.receipts:
            # The sender got no answer; perhaps it names another return address now (HTTP-6).
            learn_address(
                step, run.source, run.stream, run.receipts, left=progress.stream, queue=_url(run)
            )
    elif verdict is Verdict.GAP:
        progress.gaps += count
    elif verdict is Verdict.STALE_STREAM:
        progress.stale += count
        progress.stale_stream, progress.stale_s = run.stream, step.now.wall_s


def _url(run: ArrivedRun) -> str:
    """Return the URL that the sender of a run over HTTP used, before any redirection."""
    return run.sent_to or run.destination.direct


def _observe(step: Step, run: ArrivedRun, key: str, judgment: Judgment) -> None:
    """Add to the history what was not next and leaves no record."""
    sight, count = _SIGHTS.get(judgment.verdict, Sight.DUPLICATE), len(run.packets)
    if judgment.verdict is Verdict.ACCEPT:
        count = judgment.duplicates
    if count:
        step.act(Observed(sight, key, run.source, run.stream, run.first_number, count))


_SIGHTS = {
    Verdict.GAP: Sight.GAP,
    Verdict.STALE_STREAM: Sight.STALE_STREAM,
    Verdict.CONFLICT: Sight.CONFLICT,
}


def _take(
    step: Step, run: ArrivedRun, key: str, queue: Queue | None, packets: Run, skip: int,
    refusal: int,
) -> None:  # fmt: skip
    """Store or refuse a part of a run; the ``skip`` messages before it are done."""
    number, count = run.first_number + skip, len(packets.lengths)
    build = ChangeBuilder(step)
    build.change.advances.append(
        Advance(
            run.source, key, run.stream, number + count - 1, number,
            run.message_numbers[skip + count - 1],
        )
    )  # fmt: skip
    if not refusal:
        assert queue is not None
        _store(build, run, queue, packets, number, skip)
        step.counts.accepted += count
    if refusal or run.acknowledge:
        what = AtHand(
            side=Side.TARGET, transactional=True, packets=packets, level=run.acknowledge,
            source=run.source, stream=run.stream, number=number,
            messages=run.message_numbers[skip : skip + count], http=run.http, queue=key,
        )  # fmt: skip
        end_at_hand(build, what, ending_of(refusal), refusal)
    if run.trace is not None:
        trace_arrival(build, run, range(skip, skip + count), refusal=refusal)
    step.record(build.change)


def _store(
    build: ChangeBuilder, run: ArrivedRun, queue: Queue, packets: Run, number: int, skip: int
) -> None:
    expires = NEVER_S
    if run.time_to_be_received < NEVER_S - 1:
        expires = min(run.sent_time + run.time_to_be_received, NEVER_S - 1)
    queue, due = place_for(build.step, queue, run.due) if run.due else (queue, 0)
    at = 0
    flags = PUT_WANTS | PUT_FINAL if run.wants else 0
    flags |= PUT_HTTP if run.wants and run.http else 0
    if run.acknowledge:
        flags |= ack_flags(run.acknowledge, arrived=True)
    count = len(packets.lengths)
    mine = run.message_numbers[skip : skip + count]
    # A put names only the first message number; those of later ends are counted from it.
    sizes = [count]
    if run.wants:
        sizes = [1]
        for before, message in pairwise(mine):
            if message == before + 1:
                sizes[-1] += 1
            else:
                sizes.append(1)
    for size in sizes:
        part = packets if size == count else packets.part(at, size)
        build.put(
            Put(
                queue.number, 0, build.next_counter(queue, 0), part, run.stream,
                number + at, expires, NEVER_S, flags, 0, run.message_numbers[skip + at],
                run.source, due=due,
            )
        )  # fmt: skip
        at += size
