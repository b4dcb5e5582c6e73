"""Looking at the state: what management commands and ``why`` are made from (EOD-48).

Views are plain values; times are seconds since 1970, 0 meaning never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Final, TypeVar

from onceq.core import delays
from onceq.core.management import (
    branch_views,
    consumer_views,
    damage_views,
    directory_rules,
    jobs,
    metrics,
    msmq_names,
    peer_operations,
    range_views,
    rights,
    setting_views,
    tokens,
    trail,
)
from onceq.core.management.stream_views import stream_view
from onceq.core.names.resolve import find_outgoing, find_queue
from onceq.core.peers import undone_restores
from onceq.core.peers.duplicate_identity import clash_views, found_of
from onceq.core.peers.strangers import unanswered
from onceq.core.receive import reading
from onceq.core.rights.demands import MONITOR, to_see_properties
from onceq.core.rights.judge import may
from onceq.core.rights.places import place_of
from onceq.core.state.outgoing_attempts import Attempt
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import OutgoingQueue, Queue, lookup_id
from onceq.core.step.step import Step
from onceq.core.transfer.outgoing_states import LOCAL_CONNECTION, state_of
from onceq.errors import InvalidParameter
from onceq.model.identity import guid_text
from onceq.model.limits import VIEWS_AT_ONCE
from onceq.model.requests import Look
from onceq.model.views import looks
from onceq.model.views.managers import StatusView, TransactionView
from onceq.model.views.queues import ConnectionView, OutgoingView, QueueView

T = TypeVar("T")
Q = TypeVar("Q", Queue, OutgoingQueue)
Shown = Callable[[Step, Look], object]


def look(step: Step, item: Look) -> None:
    """Answer with the view asked for."""
    shown = _SHOWN.get(item.what)
    if shown is None:
        raise InvalidParameter(f"there is no view {item.what!r}")
    found = shown(step, item)
    if found is not metrics.LATER:
        step.answer(item.owner, item.request, found)


def status(step: Step) -> StatusView:
    """The manager at a glance."""
    state = step.state
    queues = [queue for queue in state.queues.values() if not queue.system]
    return StatusView(
        name=step.identity.name,
        id=guid_text(step.identity.guid),
        queues=len(queues),
        messages=sum(map(len, queues)),
        bytes=state.space.total,
        outgoing=len(state.outgoing),
        outgoing_messages=sum(map(len, state.outgoing.values())),
        sessions=len(step.sessions.peers),
        transactions=len(step.units.transactions),
        waiting_readers=len(step.readers.waiting),
        streams=len(state.progress),
        log_position=step.position,
        space_low=step.space_low,
        dead_letters=len(state.all_queues[2]),
        transactional_dead_letters=len(state.all_queues[1]),
        offline_since=state.offline_s,
        damaged_messages=sum(view.count for view in damage_views.damages(step)),
        restored=state.restored,
        undone=undone_restores.views(step),
        disbelieved=dict(step.sessions.disbelieved),
        life=guid_text(state.lives.id),
        clashes=clash_views(step),
        tls=step.doors.identity,
        certificate_ends=step.doors.ends_s,
        certificate_problem=step.doors.problem,
        plain_peers=step.doors.plain_peers,
        rights_trouble=step.names.rights_trouble,
        started=step.started_s,
    )


def queue_view(step: Step, queue: Queue) -> QueueView:
    """One queue."""
    properties = queue.properties
    delayed, due_s = delays.waiting(queue)
    lookups = [
        lookup_id(index, counter)
        for index, lane in queue.lanes.items()
        if len(lane)
        for counter in (lane.head, lane.last)
    ]
    return QueueView(
        name=queue.title,
        path=f"private$\\{queue.title}" if properties.private else queue.title,
        transactional=properties.transactional,
        system=queue.system,
        label=properties.label,
        messages=len(queue),
        available=queue.available,
        locked=sum(lane.locked for lane in queue.lanes.values()),
        bytes=queue.bytes,
        first_lookup=min(lookups, default=0),
        last_lookup=max(lookups, default=0),
        quota_kb=properties.quota_kb,
        created=properties.created,
        readers_waiting=len(queue.waiting),
        number=queue.number,
        instance=properties.instance.hex(),
        format_name=msmq_names.format_name(step, queue),
        journal=properties.journal,
        journal_quota_kb=properties.journal_quota_kb,
        type=guid_text(properties.type),
        base_priority=properties.base_priority,
        authenticate=properties.authenticate,
        priv_level=properties.priv_level,
        modified=properties.modified,
        state=LOCAL_CONNECTION,
        xact="YES" if properties.transactional else "NO",
        foreign="NO",
        parent=properties.name if queue.sub else "",
        poison_attempts=properties.poison_attempts,
        poison_retry_after=properties.poison_retry_after,
        poison_retries=properties.poison_retries,
        poison_then=properties.poison_then,
        delayed=delayed,
        delayed_until=due_s,
        in_subqueues=sum(map(len, queue.subs.values())),
        bytes_in_subqueues=sum(sub.bytes for sub in queue.subs.values()),
        paused_since=0 if queue.parent else properties.paused_since,  # subqueues are open
    )


def connection_view(attempt: Attempt) -> ConnectionView:
    """One attempt to connect."""
    status = attempt.status
    return ConnectionView(
        int(status), status.name.lower().replace("_", " "), attempt.at_s, status.hresult,
        attempt.address, attempt.reason,
    )  # fmt: skip


def outgoing_view(step: Step, outgoing: OutgoingQueue) -> OutgoingView:
    """One outgoing queue."""
    lane = outgoing.ordered_lane
    now, pace, trouble = step.now, outgoing.pace, outgoing.trouble
    head = outgoing.head
    ranges = list(lane.ranges(AVAILABLE, lane.head, end=head.end + 1))
    first = ranges[0][0] if ranges else 0
    last = sum(ranges[-1]) - 1 if ranges else 0
    sent = min(outgoing.ever_sent, lane.next - 1)
    unheard = sum(count for _, count in lane.ranges(AVAILABLE, lane.head, end=sent + 1))
    peer = step.sessions.peers.get(outgoing.session)
    resend_in = (pace.due_us - now.mono_us) / 1e6 if pace.due_us else -1.0
    goes_on = outgoing.given(step.state.stamp) > 0
    return OutgoingView(
        destination=str(outgoing.name),
        state=state_of(step, outgoing),
        messages=len(outgoing),
        unacknowledged=outgoing.unacknowledged,
        awaiting_final=lane.awaiting,
        bytes=outgoing.bytes,
        peer=guid_text(peer.peer) if peer is not None else "",
        paused_since=outgoing.paused_s,
        connected_since=outgoing.connected_s,
        trouble=trouble.reason,
        trouble_since=trouble.since_s if trouble.reason else 0,
        trouble_last=trouble.last_s if trouble.reason else 0,
        attempts=trouble.attempts,
        retry_in_s=(outgoing.retry_us - now.mono_us) / 1e6 if outgoing.retry_us else -1.0,
        stream=head.stream,
        behind_stream=outgoing.unacknowledged - sum(count for _, count in ranges),
        first_unacked=outgoing.number_of(first) if first else 0,
        last_unacked=outgoing.number_of(last) if last else 0,
        last_unacked_previous=outgoing.previous_of(last) if last else 0,
        next_number=outgoing.number_of(lane.next) if goes_on else 1,
        last_ack_stream=outgoing.last_ack[0],
        last_ack=outgoing.last_ack[1],
        last_ack_time=outgoing.last_ack_s,
        last_ack_count=outgoing.last_ack_count,
        no_ack_count=unheard,
        no_read_count=lane.awaiting,
        transmitted=outgoing.ever_sent,
        resend_at=now.wall_s + round(resend_in) if pace.due_us else 0,
        resend_in_s=resend_in,
        resend_interval_s=step.settings.resend_wait_s(pace.timeouts),
        resend_count=pace.timeouts,
        expires_next=min(lane.next_expiry for lane in outgoing.lanes.values()),
        unprocessed=lane.awaiting,
        unsent=len(outgoing) - lane.awaiting,
        in_doubt=step.state.doubts.unsettled(outgoing.number),
        given_up=outgoing.given_up,
        given_up_class=outgoing.given_up_class,
        given_up_at=outgoing.given_up_s,
        turned_away=outgoing.turned_away[0] if outgoing.turned_away else "",
        turned_away_for=outgoing.turned_away[1] if outgoing.turned_away else 0,
        turned_away_at=outgoing.turned_away[2] if outgoing.turned_away else 0,
        offline_since=step.state.offline_s,
        xact="UNKNOWN",
        foreign="NO",
        next_hops=msmq_names.next_hops(step, outgoing),
        history=tuple(map(connection_view, outgoing.history)),
        clash=found_of(step, step.identity.guid),
        stranded_since=outgoing.stranded_s,
        unanswered=unanswered(step, outgoing),
        put_back=undone_restores.of_outgoing(step, outgoing),
        elsewhere=_elsewhere(outgoing),
        number=outgoing.number,
    )


def _elsewhere(outgoing: OutgoingQueue) -> int:
    """Messages that have not left here, and may have left from another manager with this name."""
    return sum(
        count
        for index, last in outgoing.elsewhere.items()
        for _, count in outgoing.lanes[index].ranges(
            AVAILABLE, outgoing.transmitted.get(index, 0) + 1, end=last + 1
        )
    )


def _queues(step: Step, owner: int) -> list[QueueView]:
    found = _seen_by(step, owner)
    return [part for queue in found for part in _with_subqueues(step, queue)]


def _seen_by(step: Step, owner: int) -> Iterable[Queue]:
    """Queues that an application may look at."""
    queues = step.state.queues.values()
    if may(step, owner, (MONITOR,)):
        return queues
    return [one for one in queues if may(step, owner, (to_see_properties(place_of(one)),))]


def _with_subqueues(step: Step, queue: Queue) -> list[QueueView]:
    return [queue_view(step, part) for part in (queue, *queue.subs.values())]


def _queues_behind(step: Step, item: Look) -> list[QueueView]:
    found: list[QueueView] = []
    for queue in _behind(_seen_by(step, item.owner), item.name):
        found += _with_subqueues(step, queue)
        if len(found) >= VIEWS_AT_ONCE:
            break
    return found


def _outgoing_behind(step: Step, after: str) -> list[OutgoingView]:
    return [outgoing_view(step, one) for one in _behind(step.state.outgoing.values(), after)]


def _behind(queues: Iterable[Q], after: str) -> list[Q]:
    """The next queues whose numbers are greater, in their order."""
    if not after.isdecimal():
        raise InvalidParameter(f"{after!r} is not the number of a queue")
    number = int(after)
    found = sorted((one for one in queues if one.number > number), key=attrgetter("number"))
    return found[:VIEWS_AT_ONCE]


def _queue(step: Step, name: str) -> QueueView:
    queue = find_queue(step, name)
    return replace(queue_view(step, queue), put_back=undone_restores.of_queue(step, queue))


def _transactions(step: Step, owner: int) -> list[TransactionView]:
    whole, own = may(step, owner, (MONITOR,)), step.known_by(owner)
    return [
        TransactionView(
            tx.owner, tx.number, tx.began_s, sum(len(p.item.bodies) for p in tx.sends),
            sum(move.count for move in tx.receives), tx.bytes,
            str(step.actors.get(tx.owner, "")), step.places.get(tx.owner, ""),
        )
        for tx in step.units.transactions.values()
        if whole or step.known_by(tx.owner) == own
    ]  # fmt: skip


def _named(look: looks.Look[T], show: Callable[[Step, str], T]) -> tuple[str, Shown]:
    """A row of the table below: that the answer is of the look's type is checked here."""
    return look.what, lambda step, item: show(step, item.name)


def _whole(look: looks.Look[T], show: Callable[[Step], T]) -> tuple[str, Shown]:
    """The same for what needs no name."""
    return look.what, lambda step, _: show(step)


def _own(look: looks.Look[T], show: Callable[[Step, int], T]) -> tuple[str, Shown]:
    """The same for what shows to each what is his."""
    return look.what, lambda step, item: show(step, item.owner)


_SHOWN: Final[Mapping[str, Shown]] = dict(
    (
        _whole(looks.STATUS, status),
        _own(looks.QUEUES, _queues),
        (looks.QUEUES_BEHIND.what, _queues_behind),
        _named(looks.QUEUE, _queue),
        _whole(looks.OUTGOING, lambda s: [outgoing_view(s, o) for o in s.state.outgoing.values()]),
        _named(looks.OUTGOING_BEHIND, _outgoing_behind),
        _named(looks.RANGE, range_views.range_view),
        _named(looks.READERS, reading.views),
        (looks.CONSUMERS.what, consumer_views.consumers),
        _named(looks.OUTGOING_QUEUE, lambda s, name: outgoing_view(s, find_outgoing(s, name))),
        _whole(looks.STREAMS, lambda s: [stream_view(s, one) for one in s.state.progress.values()]),
        _whole(looks.PEERS, peer_operations.peers),
        _named(looks.EOD_SEND, msmq_names.send_info),
        _named(looks.EOD_RECEIVE, msmq_names.receive_info),
        _whole(looks.LISTS, directory_rules.lists),
        _named(looks.LIST, directory_rules.one_list),
        _named(looks.COPIES, directory_rules.copy_names),
        _named(looks.RESOLVE, directory_rules.resolved),
        _named(looks.MANAGEMENT, msmq_names.properties),
        _own(looks.BRANCHES, branch_views.branches),
        _own(looks.DECISIONS, branch_views.decisions),
        _whole(looks.DAMAGES, damage_views.damages),
        _whole(looks.SCRUB, lambda step: step.scrub),
        _own(looks.GROUPS, branch_views.groups),
        _own(looks.TRANSACTIONS, _transactions),
        (looks.RIGHTS.what, rights.grants),
        _named(looks.TRAIL, trail.acts),
        _whole(looks.TOKENS, tokens.listed),
        _own(looks.JOBS, jobs.listed),
        (looks.JOB.what, jobs.shown),
        (looks.METRICS.what, metrics.measure),
        _whole(looks.SETTINGS, setting_views.settings),
    )
)
"""How each look is answered (``model/views/looks.py``)."""
