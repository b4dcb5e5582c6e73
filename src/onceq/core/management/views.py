"""Looking at the state: what management commands and ``why`` are made from (EOD-48).

Views are plain values; times are seconds since 1970, 0 meaning never.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from onceq.core.management import (
    branch_views,
    damage_views,
    directory_rules,
    msmq_names,
    peer_operations,
)
from onceq.core.management.stream_views import stream_view
from onceq.core.names.resolve import find_outgoing, find_queue
from onceq.core.peers import undone_restores
from onceq.core.peers.duplicate_identity import ClashView, clash_views, found_of
from onceq.core.peers.strangers import unanswered
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import Attempt, OutgoingQueue, Queue, lookup_id
from onceq.core.state.restore_table import Restored
from onceq.core.step.step import Step
from onceq.core.transfer.outgoing_states import LOCAL_CONNECTION, state_of
from onceq.errors import InvalidParameter
from onceq.model.identity import guid_text
from onceq.model.requests import Look


@dataclass(frozen=True, slots=True)
class StatusView:
    """A queue manager at a glance.

    ``disbelieved``: what peers said since the start that does not count, and how often. ``life`` is
    another one after each start; ``clashes`` tell of identities, its own or others', that two
    managers use (I25).
    """

    name: str
    id: str
    queues: int
    messages: int
    bytes: int
    outgoing: int
    outgoing_messages: int
    sessions: int
    transactions: int
    waiting_readers: int
    streams: int
    log_position: int
    space_low: bool
    dead_letters: int
    transactional_dead_letters: int
    offline_since: int
    damaged_messages: int
    restored: Restored | None
    """The restore that this manager comes from."""
    undone: tuple[undone_restores.UndoneView, ...]
    """Who knows of what that has undone."""
    disbelieved: dict[str, int]
    life: str
    clashes: tuple[ClashView, ...]


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue. A subqueue has its ``parent``'s properties and its own messages."""

    name: str
    path: str
    transactional: bool
    system: bool
    label: str
    messages: int
    available: int
    locked: int
    bytes: int
    first_lookup: int
    last_lookup: int
    quota_kb: int
    created: int
    readers_waiting: int
    number: int
    instance: str
    journal: bool
    journal_quota_kb: int
    type: str
    base_priority: int
    authenticate: bool
    priv_level: int
    modified: int
    state: str
    xact: str
    foreign: str
    parent: str
    poison_attempts: int
    poison_retry_after: int
    poison_retries: int
    poison_then: str
    format_name: str
    put_back: undone_restores.PutBackView | None = None


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """One attempt to connect (Q-10): ``status`` and ``hresult`` as MSMQ numbers them."""

    status: int
    status_name: str
    time: int
    hresult: int
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class OutgoingView:
    """One outgoing queue: its state, and EodGetSendInfo (EOD-48). ``clash`` says what was found if
    another manager uses this one's identity.

    ``state`` is a string of Q-40 (``core/transfer/outgoing_states.py``). ``messages`` are all
    that it holds (PRP-6); of them ``unprocessed`` have arrived and await their final
    acknowledgment, and ``unsent`` are the rest (case 126). ``xact`` is UNKNOWN: nobody here knows
    what kind of queue another computer has (PRP-5). ``in_doubt`` are dead letters of which it is
    not known whether they arrived. ``given_up`` messages ended here without an acknowledgment since
    the start, the last ``given_up_at`` with class ``given_up_class``. ``offline_since`` is the
    whole manager's. ``stream`` is the one that is transmitted now, and ``first_unacked`` and
    ``last_unacked`` are numbers in it; ``behind_stream`` messages stand in streams that follow when
    it has drained.
    ``unanswered``: it is there to answer a stranger only, and trying to reach that was in vain.
    ``elsewhere`` messages have not left here; the other manager may have transmitted them.
    ``resend_in_s`` and ``retry_in_s``: seconds from now, -1 if no such timer runs.
    """

    destination: str
    state: str
    messages: int
    unacknowledged: int
    awaiting_final: int
    bytes: int
    peer: str
    paused_since: int
    connected_since: int
    trouble: str
    trouble_since: int
    trouble_last: int
    attempts: int
    retry_in_s: float
    stream: int
    behind_stream: int
    first_unacked: int
    last_unacked: int
    last_unacked_previous: int
    next_number: int
    last_ack_stream: int
    last_ack: int
    last_ack_time: int
    last_ack_count: int
    no_ack_count: int
    no_read_count: int
    transmitted: int
    resend_at: int
    resend_in_s: float
    resend_interval_s: float
    resend_count: int
    expires_next: int
    unprocessed: int
    unsent: int
    in_doubt: int
    given_up: int
    given_up_class: int
    given_up_at: int
    offline_since: int
    turned_away: str
    turned_away_at: int
    turned_away_for: int
    xact: str
    foreign: str
    next_hops: tuple[str, ...]
    history: tuple[ConnectionView, ...]
    clash: str
    stranded_since: int
    unanswered: bool
    put_back: undone_restores.PutBackView | None = None
    elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class TransactionView:
    """One transaction that is open."""

    owner: int
    number: int
    began: int
    sent: int
    received: int
    bytes: int


def look(step: Step, item: Look) -> None:
    """Answer with the view asked for."""
    state = step.state
    result: object
    if item.what == "status":
        result = status(step)
    elif item.what == "queues":
        result = tuple(
            queue_view(step, part)
            for queue in state.queues.values()
            for part in (queue, *queue.subs.values())
        )
    elif item.what == "queue":
        queue = find_queue(step, item.name)
        result = replace(queue_view(step, queue), put_back=undone_restores.of_queue(step, queue))
    elif item.what == "outgoing":
        result = tuple(outgoing_view(step, outgoing) for outgoing in state.outgoing.values())
    elif item.what == "outgoing-queue":
        result = outgoing_view(step, find_outgoing(step, item.name))
    elif item.what == "streams":
        result = tuple(stream_view(step, p) for p in state.progress.values())
    elif item.what == "peers":
        result = peer_operations.peers(step)
    elif item.what == "eod-send":
        result = msmq_names.send_info(step, item.name)
    elif item.what == "eod-receive":
        result = msmq_names.receive_info(step, item.name)
    elif item.what == "lists":
        result = directory_rules.lists(step)
    elif item.what == "list":
        result = directory_rules.one_list(step, item.name)
    elif item.what == "copies":
        result = directory_rules.copy_names(step, item.name)
    elif item.what == "resolve":
        result = directory_rules.resolved(step, item.name)
    elif item.what == "management":
        result = msmq_names.properties(step, item.name)
    elif item.what == "branches":
        result = branch_views.branches(step)
    elif item.what == "decisions":
        result = branch_views.decisions(step)
    elif item.what == "damages":
        result = damage_views.damages(step)
    elif item.what == "scrub":
        result = step.scrub
    elif item.what == "groups":
        result = branch_views.groups(step)
    elif item.what == "transactions":
        result = tuple(
            TransactionView(
                tx.owner, tx.number, tx.began_s, sum(len(p.item.bodies) for p in tx.sends),
                sum(move.count for move in tx.receives), tx.bytes,
            )
            for tx in step.units.transactions.values()
        )  # fmt: skip
    else:
        raise InvalidParameter(f"there is no view {item.what!r}")
    step.answer(item.owner, item.request, result)


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
        dead_letters=len(state.holders[2]),
        transactional_dead_letters=len(state.holders[1]),
        offline_since=state.offline_s,
        damaged_messages=sum(view.count for view in damage_views.damages(step)),
        restored=state.restored,
        undone=undone_restores.views(step),
        disbelieved=dict(step.sessions.disbelieved),
        life=guid_text(state.lives.id),
        clashes=clash_views(step),
    )


def queue_view(step: Step, queue: Queue) -> QueueView:
    """One queue."""
    properties = queue.properties
    lookups = [
        lookup_id(index, counter)
        for index, lane in queue.lanes.items()
        if len(lane)
        for counter in (lane.head, lane.next - 1)
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
    goes_on = outgoing.goes_on(step.state.stamp)
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
    )


def _elsewhere(outgoing: OutgoingQueue) -> int:
    """Messages that have not left here, and may have left from another manager with this name."""
    return sum(
        count
        for index, last in outgoing.elsewhere.items()
        for _, count in outgoing.lane(index).ranges(
            AVAILABLE, outgoing.transmitted.get(index, 0) + 1, end=last + 1
        )
    )
