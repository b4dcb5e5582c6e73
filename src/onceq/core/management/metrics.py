"""The counts of a queue manager for metrics, as far as the core knows them.

Sums and ages over all queues need a walk over them, and no request is served while a step lasts. So
with many queues the walk takes several steps; what comes and goes meanwhile may be in the numbers
or not. The service adds what only it knows (``service/committer.py``), and answers.

Upholds: I24 (no step is longer the more queues there are; a bounded number of rows).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappush, heappushpop, nlargest
from operator import attrgetter
from typing import Final

from onceq.core.decision import Measured
from onceq.core.management import damage
from onceq.core.management.paging import LATER
from onceq.core.management.queue_views import oldest_s, oldest_waiting_s, quota_used, ratio_of
from onceq.core.management.work_views import failing
from onceq.core.names import computer_of
from onceq.core.receive.poison import holds_poison
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import (
    DEAD_LETTER,
    DEAD_XACT,
    FIRST_NUMBER,
    JOURNAL,
    JOURNAL_BIT,
    title_of,
)
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.step.step import Step
from onceq.core.transfer.outgoing_queue import state_of
from onceq.errors import InvalidParameter
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import METRICS_PEERS_MAX, METRICS_QUEUES_MAX, QUEUES_MEASURED_AT_ONCE
from onceq.model.names import Kind
from onceq.model.queue import TRACKING_QUEUE
from onceq.model.requests import Look
from onceq.model.resultcodes import REFUSALS, class_name
from onceq.model.views.view import PER_QUEUE, MetricsView, OutgoingMetrics, QueueMetrics

OTHERS: Final = "(others)"
"""Represents all other queue managers for which there was no room."""


class _Peer:
    """What waits for one other queue manager."""

    __slots__ = ("bytes", "messages", "refused", "since_s", "states", "unacknowledged")

    def __init__(self) -> None:
        self.messages = self.unacknowledged = self.bytes = self.since_s = 0
        self.states: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def add(self, other: _Peer) -> None:
        self.messages += other.messages
        self.unacknowledged += other.unacknowledged
        self.bytes += other.bytes
        self.since_s = _earlier(self.since_s, other.since_s)
        self.states += other.states
        self.refused += other.refused


class _Walk:
    """What a walk has counted until now."""

    def __init__(self, *, rows: bool) -> None:
        self.wanted = rows
        self.rows: list[tuple[int, int, int, QueueMetrics]] = []
        """A heap of the rows to keep: age, messages and number come before each."""
        self.left_out = 0
        self.queues = self.messages = self.journals = self.since_s = self.doubts = 0
        self.poison = self.damaged = self.paused = 0
        self.failing = 0
        self.fullest = 0.0
        self.peers: dict[str, _Peer] = {}

    def see(self, step: Step, queue: AnyQueue) -> None:
        if isinstance(queue, OutgoingQueue):
            self._outgoing(step, queue)
            return
        assert isinstance(queue, Queue)
        if queue.number & JOURNAL_BIT or queue.number == JOURNAL:
            self.journals += len(queue)
        elif queue.number >= FIRST_NUMBER:
            self._queue(step, queue)

    def _queue(self, step: Step, queue: Queue) -> None:
        count, since_s = len(queue), 0
        self.queues += not queue.sub
        self.paused += bool(queue.properties.paused_since and not queue.sub)
        if count:
            self.messages += count
            self.poison += count if holds_poison(queue) else 0
            since_s = oldest_s(queue)
            if queue.properties.name != TRACKING_QUEUE:
                # No reader waits for what is in there, and it stays for days.
                self.since_s = _earlier(self.since_s, since_s)
        ratio = quota_used(step, queue)
        self.fullest = max(self.fullest, ratio)
        if self.wanted:
            age_s = _age(step, since_s)
            row = QueueMetrics(title_of(queue), count, queue.bytes, age_s, ratio)
            self._keep((age_s, count, -queue.number, row))

    def _keep(self, row: tuple[int, int, int, QueueMetrics]) -> None:
        """Keep the oldest rows; to sort all of them at the end would take a long step."""
        if len(self.rows) < METRICS_QUEUES_MAX:
            heappush(self.rows, row)
        else:
            heappushpop(self.rows, row)
            self.left_out += 1

    def _outgoing(self, step: Step, queue: OutgoingQueue) -> None:
        name = peer_of(step, queue)
        self.doubts += step.state.doubts.unsettled(queue.number)
        peer = self.peers.get(name)
        if peer is None:
            peer = self.peers[name] = _Peer()
        peer.states[state_of(step, queue)] += 1
        peer.messages += len(queue)
        peer.unacknowledged += queue.unacknowledged
        peer.bytes += queue.bytes
        for ending in queue.endings:
            if ending.message_class in REFUSALS:
                peer.refused[class_name(ending.message_class)] += ending.messages
        peer.since_s = _earlier(peer.since_s, oldest_waiting_s(queue))


def measure(step: Step, item: Look) -> object:
    """Count everything, a portion in each step; returns LATER.

    Raises:
        InvalidParameter: It has another name than PER_QUEUE, or none.
    """
    if item.name not in ("", PER_QUEUE):
        raise InvalidParameter(f"metrics are looked at with the name {PER_QUEUE!r}, or with none")
    step.begin(_measure(step, item))
    return LATER


def _measure(step: Step, item: Look) -> Iterator[None]:
    walk = _Walk(rows=item.name == PER_QUEUE)
    for at, number in enumerate(list(step.state.all_queues), 1):
        queue = step.state.all_queues.get(number)
        if queue is not None:
            walk.see(step, queue)
        if not at % QUEUES_MEASURED_AT_ONCE:
            yield
    for at, entry in enumerate(list(step.state.damages), 1):
        walk.damaged += damage.left(step, entry)
        if not at % QUEUES_MEASURED_AT_ONCE:
            yield
    _, walk.failing = yield from failing(step)
    step.act(Measured(item.owner, item.request, _view(step, walk)))


def _view(step: Step, walk: _Walk) -> MetricsView:
    state, counts = step.state, step.counts
    prepared = [branch.prepared_s for branch in state.branches if branch.by_hand is None]
    return MetricsView(
        name=step.identity.name,
        id=guid_text(step.identity.guid),
        sent=counts.sent,
        accepted=counts.accepted,
        received=counts.received,
        returned=counts.returned,
        acknowledged=counts.acknowledged,
        resent=counts.resent,
        ended=counts.by_class(),
        refused=dict(counts.refused),
        reports_dropped=counts.reports_dropped,
        disbelieved=dict(step.sessions.disbelieved),
        queues=walk.queues,
        queues_paused=walk.paused,
        queues_failing=walk.failing,
        clashes=len(step.sessions.watch.clashes),
        directory_away=bool(step.names.directory_trouble),
        trail_untold=bool(step.trail.trouble),
        trail_lost=step.trail.lost,
        messages=walk.messages,
        bytes=state.space.total,
        oldest_age_s=_age(step, walk.since_s),
        journal_messages=walk.journals,
        dead_letters=len(state.all_queues[DEAD_LETTER]),
        transactional_dead_letters=len(state.all_queues[DEAD_XACT]),
        poison_messages=walk.poison,
        damaged_messages=walk.damaged,
        doubts=walk.doubts,
        waiting_readers=len(step.readers.waiting),
        outgoing=_outgoing(step, walk.peers),
        sessions=len(step.sessions.peers),
        transactions=len(step.units.transactions),
        in_doubt=len(prepared),
        in_doubt_oldest_age_s=_age(step, min(prepared, default=0)),
        jobs_running=len(step.state.jobs.running()),
        jobs_waiting=len(step.job_troubles),
        quota_ratio=ratio_of(state.space.total, step.settings.computer_quota_bytes),
        queue_quota_ratio=walk.fullest,
        offline=bool(state.offline_s),
        space_low=step.space_low,
        certificate_ends=step.doors.ends_s,
        log_position=step.position,
        per_queue=tuple(sorted((row[-1] for row in walk.rows), key=attrgetter("name"))),
        left_out=walk.left_out,
        started=step.started_s,
    )


def _outgoing(step: Step, peers: dict[str, _Peer]) -> tuple[OutgoingMetrics, ...]:
    """Return metrics by peer; of too many the ones with most waiting, and all others as one."""
    shown = peers
    if len(peers) > METRICS_PEERS_MAX:
        most = nlargest(METRICS_PEERS_MAX, peers, key=lambda name: peers[name].messages)
        shown, rest = {name: peers[name] for name in sorted(most)}, _Peer()
        for name in peers.keys() - shown.keys():
            rest.add(peers[name])
        shown[OTHERS] = rest
    return tuple(
        OutgoingMetrics(
            name, dict(one.states), one.messages, one.unacknowledged, one.bytes,
            _age(step, one.since_s), dict(one.refused),
        )
        for name, one in shown.items()
    )  # fmt: skip


def peer_of(step: Step, outgoing: OutgoingQueue) -> str:
    """Return the other queue manager that an outgoing queue leads to, in one spelling."""
    name = outgoing.name
    if name.host:
        return name.host.casefold()
    if name.kind is Kind.PUBLIC:
        found = computer_of(step, name)
        return found.name.casefold() if found is not None and found.name else str(name)
    if name.guid == NO_GUID:
        return str(name)
    return (step.name_of(name.guid) or guid_text(name.guid)).casefold()


def _earlier(one_s: int, other_s: int) -> int:
    """Return the earlier of two times, of which 0 is none."""
    return min(one_s, other_s) if one_s and other_s else one_s or other_s


def _age(step: Step, since_s: int) -> int:
    """Return the seconds since then; a clock that was set back gives no negative age."""
    return max(step.now.wall_s - since_s, 0) if since_s else 0
