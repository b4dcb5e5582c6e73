"""A run of messages arrives from another manager: into its queue, or refused for a named reason.

For transactional messages the filter comes first (EOD-29): what is next in order is either stored
or refused, and in both cases the stream's progress and the message, or its recorded refusal, are
one record. So successors are not blocked, and a repetition is not refused twice. Only a shortage
of this whole computer leaves the progress as it was: the session is closed, and the sender comes
again (EOD-29, Q-19).

Upholds: I4, I5, I6, I9, I24.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from onceq.core.decision import CloseSession, Declined, Observed, Persisted, Sight
from onceq.core.ending.ending import AtHand, ack_flags, end_at_hand
from onceq.core.ending.report_flags import quiet
from onceq.core.ending.table import Ending, Side
from onceq.core.ending.trace_reports import trace_arrival
from onceq.core.inputs.inputs import Arrived
from onceq.core.names.packet_names import arrival_key
from onceq.core.peers import undone_restores
from onceq.core.peers.duplicate_identity import ended_elsewhere, sent_more, twice
from onceq.core.peers.http_receipts import learn_address
from onceq.core.peers.lives import gave
from onceq.core.peers.refusals import turn_away
from onceq.core.peers.strangers import SWEPT_FROM, sweep, unasked_room
from onceq.core.peers.trust import (
    believes_final_ack,
    believes_order_ack,
    refused_as_future,
    speaks_for,
    unknown_routers,
)
from onceq.core.state.link_states import Link
from onceq.core.state.queues import Peer, Progress, Queue
from onceq.core.state.records import (
    PUT_DEADLETTER,
    PUT_EXPRESS,
    PUT_FINAL,
    PUT_HTTP,
    PUT_WANTS,
    Advance,
    Put,
    Seen,
)
from onceq.core.state.state import DEAD_LETTER
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.transfer.admission import fates, refusal_of, refusal_room, room_for, stream_room
from onceq.core.transfer.duplicates import new_places
from onceq.core.transfer.filter import Judgment, contradicted, judge
from onceq.core.transfer.forward import forward
from onceq.core.transfer.http_forward import pass_on
from onceq.core.transfer.in_doubt import settled_by, settling
from onceq.core.transfer.incoming_states import ANSWERS, Verdict
from onceq.core.transfer.order_acknowledgments import schedule_ack
from onceq.core.transfer.outgoing_queue import connect, final_acked, order_acked
from onceq.core.transfer.stranded import acked_strangely
from onceq.model.classes import MessageClass, class_name
from onceq.model.identity import NO_GUID
from onceq.model.run import Run
from onceq.model.time import NEVER_S
from onceq.packet import settle
from onceq.packet.acks import parse_final_ack, parse_order_ack
from onceq.packet.address import DIRECT
from onceq.packet.arrived import FINAL_ACK, ORDER_ACK, SETTLING, ArrivedRun


def arrived(step: Step, item: Arrived) -> None:
    """Take one run in."""
    peer = step.sessions.peers.get(item.session)
    if peer is None:
        return
    run = item.run
    # First, because later a change may be under construction that puts into what this drops.
    if len(step.state.answering) >= SWEPT_FROM:
        sweep(step)
    # Over HTTP nobody proves who he is, here as everywhere: what comes there is known by the
    # address that it was posted to, and mixes with no stream of a session.
    own = run.source == peer.peer or peer.http
    reason = "" if own else speaks_for(step, peer, run)
    if reason:
        meet_routers(step)
        step.act(CloseSession(item.session, reason))
        return
    if run.onward:
        if not pass_on(step, item.session, run, room=room_for(step, run)):
            return
    elif run.destination_manager not in (NO_GUID, step.identity.guid):
        if not forward(step, run, room=room_for(step, run)):
            reason = "it sent a message for another queue manager, and none is passed on here now"
            step.act(CloseSession(item.session, reason))
            return
    elif run.kind == ORDER_ACK:
        for packet in run.packets:
            told = parse_order_ack(packet)
            # Begun by a copy of this manager, or in the time that a restore has undone.
            if not gave(step, told.stream):
                acked_strangely(step, peer, run.source, told)
            elif believes_order_ack(step, peer, told):
                sent_more(step, told)
                order_acked(step, told)
    elif run.kind == FINAL_ACK:
        for packet in run.packets:
            ack = parse_final_ack(packet)
            # It compares with what waits here, so it looks before the acknowledgment ends that.
            ended_elsewhere(step, peer, ack)
            if believes_final_ack(step, peer, ack) and not settled_by(step, ack):
                final_acked(step, ack)
    elif run.kind == SETTLING:
        settling(step, peer, run)
    elif run.http and not _http_takes(step, item.session, run):
        return
    elif not run.http and not room_for(step, run):
        step.act(
            CloseSession(item.session, "no room for more messages now; the sender will try again")
        )
        return
    elif run.transactional:
        if not _ordered(step, peer, run):
            step.act(CloseSession(item.session, "too many message streams, or outgoing queues"))
            return
    else:
        if not _plain(step, run):
            step.act(CloseSession(item.session, "no room for dead letters of others now"))
            return
    # Not reached by what was turned away for now: the sender forgets messages outside transactions
    # when they are counted here. Transactional ones it keeps for the order acknowledgment (EOD-49).
    if run.recoverable or peer.http:
        step.act(Persisted(item.session, len(run.message_numbers)))


def meet_routers(step: Step) -> None:
    """Ask who the routers are that were never met: a message that was refused comes again."""
    for outgoing in unknown_routers(step):
        if outgoing.link is Link.NONE:
            connect(step, outgoing)


def _http_takes(step: Step, session: int, run: ArrivedRun) -> bool:
    """Whether a message that came over HTTP may be judged; if not it is answered here, and nothing
    else is said or recorded (HTTP-9, HTTP-10).

    A repetition needs no room and no queue: its sender must hear that it has arrived, whatever has
    become of the queue since.
    """
    key, queue = arrival_key(step, run.destination, run.sent_to)
    if _known(step, run, key):
        return True
    if not room_for(step, run):
        step.act(Declined(session, 500, "no room for more messages now"))
        return False
    refusal = refusal_of(step, run, queue, len(run.packets.data))
    if refusal == MessageClass.NACK_QUEUE_EXCEED_QUOTA:
        step.act(Declined(session, 500, "the queue is full"))
        return False
    if refusal and refusal != MessageClass.NACK_REACH_QUEUE_TIMEOUT:
        step.act(Declined(session, 400, class_name(refusal)))
        return False
    return True


def _known(step: Step, run: ArrivedRun, key: str) -> bool:
    """Whether everything in a run is a repetition of what was accepted before."""
    if not run.transactional:
        return not new_places(step, run, key)
    progress = step.state.progress.get((run.source, key))
    last = run.first_number + len(run.packets) - 1
    return progress is not None and run.stream == progress.stream and last <= progress.last


def _unheard(step: Step, run: ArrivedRun, queue: Queue | None) -> ArrivedRun:
    """Without what its destination gives no answer to (Q-17)."""
    if queue is None or not quiet(step, queue.properties.name):
        return run
    return replace(run, acknowledge=0, wants=0, dead_letter=False)


# ---- transactional messages --------------------------------------------------------------


def _ordered(step: Step, peer: Peer, run: ArrivedRun) -> bool:
    """Judge a run of a stream and store or refuse what is next; False if there is no place."""
    key, queue = arrival_key(step, run.destination, run.sent_to)
    if step.settings.quiet_system_queues:
        run = _unheard(step, run, queue)
    direct = run.destination.kind == DIRECT
    address = peer.address if direct and peer.peer == run.source else ""
    if step.sessions.return_to.get(run.source, "") != address:
        step.sessions.came_from(run.source, address)
    progress, accepted = step.state.progress.get((run.source, key)), step.sessions.watch.accepted
    stream, last = (progress.stream, progress.last) if progress is not None else (0, 0)
    count = len(run.message_numbers)
    if run.stream > stream and refused_as_future(step, peer, run.source, run.stream):
        turn_away(step, peer, run, settle.FUTURE, here=stream)
        return True
    judgment = judge(
        stream=stream, last=last, arrived=run.stream, number=run.first_number,
        previous=run.first_previous, count=count,
    )  # fmt: skip
    if (
        judgment.duplicates
        and progress is not None
        and accepted.contradict(progress, run.first_number, run.message_numbers)
    ):
        judgment = contradicted()
    if step.settings.history:
        _observe(step, run, key, judgment)
    answer = ANSWERS[judgment.verdict]
    if answer.accepted:
        # Who has an entry already goes on, however full the table is.
        if progress is None and not stream_room(step, run.source):
            return False
        skip = judgment.duplicates
        packets = run.packets.part(skip, count - skip) if skip else run.packets
        refusal = refusal_of(step, run, queue, len(packets.data))
        # Over HTTP ``_http_takes`` has declined what would be refused, unless it is only too late.
        if refusal and not run.http and not refusal_room(step, run, refusal):
            turn_away(step, peer, run, settle.NO_ROOM, here=stream)
            return True
        if run.receipts and not learn_address(
            step, run.source, run.stream, run.receipts, left=stream, queue=_url(run)
        ):
            return False
        if step.state.restored is not None:
            # It compares the run with the progress that is about to move on.
            undone_restores.came(step, run, progress, skip)
        # A record for each part: after a crash in between the progress is at the end of a part, and
        # the sender brings the rest again.
        for first, part, why in fates(step, queue, packets, refusal):
            _take(step, run, key, queue, part, skip + first, why)
        # Looked up anew: the first run of a stream has made the entry when its record was applied.
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
        progress.session = peer.session
        progress.direct = direct
        progress.leads_to = queue.number if queue is not None else 0
        progress.last_access_s = step.now.wall_s
        progress.since_ack += count
        schedule_ack(step, progress)
    return True


def _count_refused(step: Step, run: ArrivedRun, progress: Progress, verdict: Verdict) -> None:
    """A run is not accepted: what operators see of that, and what it says all the same."""
    count = len(run.packets)
    progress.rejects += count
    if verdict is Verdict.DUPLICATE:
        progress.duplicates += count
        if run.receipts:
            # The sender has heard nothing; perhaps it names another way back now (HTTP-6).
            learn_address(
                step, run.source, run.stream, run.receipts, left=progress.stream, queue=_url(run)
            )
    elif verdict is Verdict.GAP:
        progress.gaps += count
    elif verdict is Verdict.STALE_STREAM:
        progress.stale += count
        progress.stale_stream, progress.stale_s = run.stream, step.now.wall_s


def _url(run: ArrivedRun) -> str:
    """The URL that the sender of a run over HTTP has used, before any redirection."""
    return run.sent_to or run.destination.direct


def _observe(step: Step, run: ArrivedRun, key: str, judgment: Judgment) -> None:
    """What was not next leaves no record; the history shall know of it all the same."""
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
    """Store or refuse a part of a run, the ``skip`` messages before it being done with."""
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
    if refusal or run.acknowledge:
        what = AtHand(
            side=Side.TARGET, transactional=True, packets=packets, level=run.acknowledge,
            source=run.source, stream=run.stream, number=number,
            messages=run.message_numbers[skip : skip + count], http=run.http,
        )  # fmt: skip
        end_at_hand(build, what, _ending(refusal), refusal)
    if run.trace is not None:
        trace_arrival(build, run, range(skip, skip + count), refusal=refusal)
    step.record(build.change)


def _ending(refusal: int) -> Ending:
    if refusal == MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE:
        return Ending.REFUSED_BY_KIND
    return Ending.REFUSED if refusal else Ending.ARRIVED


def _store(
    build: ChangeBuilder, run: ArrivedRun, queue: Queue, packets: Run, number: int, skip: int
) -> None:
    expires = NEVER_S
    if run.time_to_be_received < NEVER_S - 1:
        expires = min(run.sent_time + run.time_to_be_received, NEVER_S - 1)
    at = 0
    flags = PUT_WANTS | PUT_FINAL if run.wants else 0
    flags |= PUT_HTTP if run.wants and run.http else 0
    if run.acknowledge:
        flags |= ack_flags(run.acknowledge, arrived=True)
    count = len(packets.lengths)
    mine = run.message_numbers[skip : skip + count]
    # A put names the first message number alone; those of later ends are counted on from it.
    for size in _consecutive(mine) if run.wants else (count,):
        part = packets if size == count else packets.part(at, size)
        build.put(
            Put(
                queue.number, 0, build.next_counter(queue, 0), part, run.stream,
                number + at, expires, NEVER_S, flags, 0, run.message_numbers[skip + at],
                run.source,
            )
        )  # fmt: skip
        at += size


def _consecutive(numbers: array[int]) -> list[int]:
    """Sizes of parts whose message numbers are consecutive."""
    sizes = [1]
    for before, number in pairwise(numbers):
        if number == before + 1:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return sizes


# ---- other messages ----------------------------------------------------------------------


def _plain(step: Step, run: ArrivedRun) -> bool:
    """Messages that are not transactional: once, as far as the history reaches (EOD-27); False if
    there is no room for their dead letters."""
    key, queue = arrival_key(step, run.destination, run.sent_to)
    if step.settings.quiet_system_queues:
        run = _unheard(step, run, queue)
    new = new_places(step, run, key)
    if not new:
        return True
    packets = run.packets
    if len(new) != len(packets):
        every = list(packets)
        packets = Run.of([every[i] for i in new])
    size = len(packets.data)
    refusal = refusal_of(step, run, queue, size)
    if refusal and run.dead_letter and not unasked_room(step, DEAD_LETTER, size):
        return False
    for first, part, why in fates(step, queue, packets, refusal):
        _take_plain(step, run, key, queue, part, new[first : first + len(part.lengths)], why)
    return True


def _take_plain(
    step: Step, run: ArrivedRun, key: str, queue: Queue | None, packets: Run,
    places: Sequence[int], refusal: int,
) -> None:  # fmt: skip
    """Store or refuse messages of a run, those at these places."""
    build = ChangeBuilder(step)
    numbers = array("I", (run.message_numbers[i] for i in places))
    build.change.seen.append(Seen(run.source, key, numbers, run.sent_time))
    flags = 0 if run.recoverable else PUT_EXPRESS
    if not refusal:
        assert queue is not None
        expires = NEVER_S
        if run.time_to_be_received < NEVER_S - 1:
            expires = min(run.sent_time + run.time_to_be_received, NEVER_S - 1)
        flags |= ack_flags(run.acknowledge, arrived=True)
        if run.dead_letter:
            flags |= PUT_WANTS | PUT_DEADLETTER
        build.put_copy(
            queue.number, packets, lane=run.priority, expires=expires, flags=flags,
            source=run.source,
        )  # fmt: skip
    if refusal or run.acknowledge:
        what = AtHand(
            side=Side.TARGET, transactional=False, packets=packets, level=run.acknowledge,
            asked=PUT_DEADLETTER if run.dead_letter else 0, express=not run.recoverable,
        )  # fmt: skip
        end_at_hand(build, what, _ending(refusal), refusal)
    if run.trace is not None:
        trace_arrival(build, run, places, refusal=refusal)
    # Express messages do not survive a crash, so nobody waits for the disk on their account.
    step.record(build.change, forced=run.recoverable)
