"""Transactional messages arrive: next in their stream, repeated, or before a missing one.

The filter comes first (EOD-29). A message that is next in order is stored or refused; in both cases
one record holds the stream's progress and the message, or its refusal. A message that is ahead in
the present stream, or in a newer one, is kept unchanged (``core/step/early_runs.py``), and judged
when the progress has reached it.

Upholds: I4, I5, I6, I9, I24.
"""

from __future__ import annotations

from array import array
from itertools import pairwise

from onceq.core.decision import Observed, Sight
from onceq.core.delays import place_for
from onceq.core.ending.ending import AtHand, ack_flags, end_at_hand
from onceq.core.ending.table import Side
from onceq.core.ending.trace_reports import trace_arrival
from onceq.core.names.packet_names import arrival_key
from onceq.core.peers import undone_restores
from onceq.core.peers.duplicate_identity import twice
from onceq.core.peers.http_receipts import learn_address
from onceq.core.peers.refusals import turn_away
from onceq.core.peers.trust import refused_as_future
from onceq.core.state.peer_table import Peer, Progress
from onceq.core.state.queues import Queue
from onceq.core.state.records import PUT_FINAL, PUT_HTTP, PUT_WANTS, Advance, Put
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.transfer.admission import (
    ending_of,
    expect_answers,
    fates,
    heard,
    refusal_of,
    refusal_room,
    room_for,
    stream_room,
)
from onceq.core.transfer.filter import Judgment, contradicted, judge
from onceq.core.transfer.incoming_states import ANSWERS, Verdict
from onceq.core.transfer.order_acknowledgments import beginning_missing, schedule_ack
from onceq.model.run import Run
from onceq.model.time import NEVER_S
from onceq.packet import settle
from onceq.packet.address import DIRECT
from onceq.packet.arrived import ArrivedRun


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
        run = heard(step, peer, run, queue, again=run.http)
    direct = run.destination.kind == DIRECT
    address = peer.address if direct and peer.peer == run.source else ""
    if step.sessions.return_to.get(run.source, "") != address:
        step.sessions.came_from(run.source, address)
    progress, accepted = step.state.progress.get((run.source, key)), step.sessions.watch.accepted
    stream = progress.stream if progress is not None else 0
    count = len(run.message_numbers)
    if run.stream > stream and refused_as_future(step, peer, run.source, run.stream):
        turn_away(step, peer, run, settle.FUTURE, here=stream)
        return True
    judgment = _verdict_on(step, run, progress)
    ahead = judgment.verdict is Verdict.GAP and not run.http
    if ahead and _kept(step, peer, run, key, progress, queue):
        return True
    if step.settings.history:
        _observe(step, run, key, judgment)
    answer = ANSWERS[judgment.verdict]
    if answer.accepted:
        # A sender that has an entry continues, even if the table is full.
        if progress is None and not stream_room(step, run.source):
            return False
        skip = judgment.duplicates
        packets = run.packets.part(skip, count - skip) if skip else run.packets
        refusal = refusal_of(step, peer, run, queue, len(packets.data))
        # Over HTTP ``_http_takes`` has declined all refusals but those that are only too late.
        if refusal and not run.http and not refusal_room(step, run, refusal):
            turn_away(step, peer, run, settle.NO_ROOM, here=stream)
            return True
        if run.acknowledge or run.receipts:
            expect_answers(step, peer, run, refusal)
        if run.receipts and not learn_address(
            step, run.source, run.stream, run.receipts, left=stream, queue=_url(run)
        ):
            return False
        if step.state.restored is not None:
            # It compares the run with the progress that is about to advance.
            undone_restores.came(step, run, progress, skip)
        # One record for each part: after a crash in between, the progress is at the end of a part,
        # and the sender brings the rest again.
        for first, part, why in fates(step, queue, packets, refusal):
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
            turn_away(step, peer, run, settle.STALE, here=stream)
        if answer.clash:
            twice(step, progress, run)
    if progress is not None and answer.acknowledged:
        # On a new session the sender repeats a few sent messages until it learns how far the stream
        # had come (EOD-32).
        known = run.stream == stream and progress.session != peer.session
        at_once = known and not peer.http
        _came(step, peer, run, progress, queue)
        progress.since_ack += count
        schedule_ack(step, progress, at_once=at_once)
    return True


def _verdict_on(step: Step, run: ArrivedRun, progress: Progress | None) -> Judgment:
    """Return the filter's judgment; a known number with another message is no repetition."""
    stream, last = (progress.stream, progress.last) if progress is not None else (0, 0)
    judgment = judge(
        stream=stream, last=last, arrived=run.stream, number=run.first_number,
        previous=run.first_previous, count=len(run.message_numbers),
    )  # fmt: skip
    accepted = step.sessions.watch.accepted
    if (
        judgment.duplicates
        and progress is not None
        and accepted.contradict(progress, run.first_number, run.message_numbers)
    ):
        return contradicted()
    return judgment


def _came(
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
    kept = early.came(where, peer.session, queue.number if queue is not None else 0, run)
    stream, last = 0, 0
    if progress is not None:
        stream, last = progress.stream, progress.last
        _came(step, peer, run, progress, queue)
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
    for size in _consecutive(mine) if run.wants else (count,):
        part = packets if size == count else packets.part(at, size)
        build.put(
            Put(
                queue.number, 0, build.next_counter(queue, 0), part, run.stream,
                number + at, expires, NEVER_S, flags, 0, run.message_numbers[skip + at],
                run.source, due=due,
            )
        )  # fmt: skip
        at += size


def _consecutive(numbers: array[int]) -> list[int]:
    """Return the sizes of the parts whose message numbers are consecutive."""
    sizes = [1]
    for before, number in pairwise(numbers):
        if number == before + 1:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return sizes
