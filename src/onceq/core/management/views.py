"""Views of the state: the base of management commands and ``why`` (EOD-48).

Views are plain values; times are seconds since 1970, 0 meaning never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from onceq.core.management import (
    branch_views,
    consumer_views,
    damage_views,
    directory_rules,
    jobs,
    metrics,
    msmq_names,
    name_views,
    peer_operations,
    queue_views,
    range_views,
    reader_views,
    rights,
    setting_views,
    stream_views,
    tokens,
    trail,
    waiting_views,
)
from onceq.core.management.paging import LATER, Listing, page
from onceq.core.management.queue_views import outgoing_view, queue_view
from onceq.core.names.resolve import find_outgoing, find_queue
from onceq.core.peers import undone_restores
from onceq.core.peers.duplicate_identity import clash_views
from onceq.core.receive.poison import holds_poison
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import DEAD_LETTER, DEAD_XACT
from onceq.core.state.queues import Queue
from onceq.core.step.step import Step
from onceq.errors import InvalidParameter
from onceq.model.identity import guid_text
from onceq.model.limits import QUEUES_MEASURED_AT_ONCE, SILENT_S
from onceq.model.requests import Look
from onceq.model.views import looks
from onceq.model.views.managers import StatusView
from onceq.model.views.queues import QueueView
from onceq.model.views.view import Page

T = TypeVar("T")
S = TypeVar("S")
Shown = Callable[[Step, Look], object]


def look(step: Step, item: Look) -> None:
    """Answer with the requested view."""
    shown = _SHOWN.get(item.what)
    if shown is None:
        raise InvalidParameter(f"there is no view {item.what!r}")
    found = shown(step, item)
    if found is not LATER:
        step.answer(item.owner, item.request, found)


def _status(step: Step, item: Look) -> object:
    step.begin(_counted(step, item))
    return LATER


def _counted(step: Step, item: Look) -> Iterator[None]:
    """Answer the manager's status; the contents of its queues are summed up some at a time."""
    queues = messages = poison = outgoing = 0
    for at, number in enumerate(list(step.state.all_queues), 1):
        queue = step.state.all_queues.get(number)
        if isinstance(queue, OutgoingQueue):
            outgoing += len(queue)
        elif isinstance(queue, Queue) and queue.sub:
            poison += len(queue) if holds_poison(queue) else 0
        elif isinstance(queue, Queue) and not queue.system:
            queues, messages = queues + 1, messages + len(queue)
        if not at % QUEUES_MEASURED_AT_ONCE:
            yield
    failing, failing_all = yield from consumer_views.failing(step)
    damaged = 0
    for at, entry in enumerate(list(step.state.damages), 1):
        damaged += damage_views.left(step, entry)
        if not at % QUEUES_MEASURED_AT_ONCE:
            yield
    state = step.state
    step.answer(item.owner, item.request, StatusView(
        name=step.identity.name,
        id=guid_text(step.identity.guid),
        queues=queues,
        messages=messages,
        bytes=state.space.total,
        outgoing=len(state.outgoing),
        outgoing_messages=outgoing,
        sessions=len(step.sessions.peers),
        transactions=len(step.units.transactions),
        waiting_readers=len(step.readers.waiting),
        streams=len(state.progress),
        log_position=step.position,
        space_low=step.space_low,
        dead_letters=len(state.all_queues[DEAD_LETTER]),
        transactional_dead_letters=len(state.all_queues[DEAD_XACT]),
        poison_messages=poison,
        offline_since=state.offline_s,
        damaged_messages=damaged,
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
        silent_s=SILENT_S,
        directory_trouble=step.names.directory_trouble,
        trail_trouble=step.trail.trouble,
        trail_lost=step.trail.lost,
        failing=failing,
        failing_others=failing_all - len(failing),
        wrong_names={one.text: one.count for one in step.sessions.watch.wrong_names.values()},
    ))  # fmt: skip


def _queue(step: Step, name: str) -> QueueView:
    queue = find_queue(step, name)
    return replace(queue_view(step, queue), put_back=undone_restores.of_queue(step, queue))


def _named(look: looks.Look[T], show: Callable[[Step, str], T]) -> tuple[str, Shown]:
    """Return a row of the table below; this checks that the answer has the look's type."""
    return look.what, lambda step, item: show(step, item.name)


def _whole(look: looks.Look[T], show: Callable[[Step], T]) -> tuple[str, Shown]:
    """Return the same for a look without a name."""
    return look.what, lambda step, _: show(step)


def _paged(look: looks.Look[Page[T]], listing: Listing[S, T]) -> tuple[str, Shown]:
    """Return the same for a list that comes a page at a time."""
    return look.what, page(listing)


def _own(look: looks.Look[T], show: Callable[[Step, int], T]) -> tuple[str, Shown]:
    """Return the same for a look that shows each actor its own."""
    return look.what, lambda step, item: show(step, item.owner)


_SHOWN: Final[Mapping[str, Shown]] = dict(
    (
        (looks.STATUS.what, _status),
        _paged(looks.QUEUES, queue_views.QUEUES),
        _named(looks.QUEUE, _queue),
        _paged(looks.OUTGOING, queue_views.OUTGOING),
        _named(looks.RANGE, range_views.range_view),
        _paged(looks.READERS, reader_views.READERS),
        (looks.CONSUMERS.what, consumer_views.consumers),
        _named(looks.OUTGOING_QUEUE, lambda s, name: outgoing_view(s, find_outgoing(s, name))),
        _paged(looks.STREAMS, stream_views.STREAMS),
        _paged(looks.PEERS, peer_operations.PEERS),
        _named(looks.EOD_SEND, msmq_names.send_info),
        _named(looks.EOD_RECEIVE, msmq_names.receive_info),
        _paged(looks.LISTS, directory_rules.LISTS),
        _named(looks.LIST, directory_rules.one_list),
        (looks.COPIES.what, directory_rules.copies),
        (looks.EXPLAIN_NAME.what, name_views.explained),
        _named(looks.MANAGEMENT, msmq_names.properties),
        _own(looks.BRANCHES, branch_views.branches),
        _own(looks.DECISIONS, branch_views.decisions),
        _paged(looks.DAMAGES, damage_views.DAMAGES),
        _whole(looks.SCRUB, lambda step: step.scrub),
        _paged(looks.GROUPS, branch_views.GROUPS),
        _paged(looks.TRANSACTIONS, branch_views.TRANSACTIONS),
        _paged(looks.RIGHTS, rights.GRANTS),
        _named(looks.TRAIL, trail.acts),
        _whole(looks.TRAIL_END, trail.end),
        _paged(looks.TOKENS, tokens.TOKENS),
        _own(looks.JOBS, jobs.listed),
        (looks.JOB.what, jobs.shown),
        (looks.METRICS.what, metrics.measure),
        _whole(looks.SETTINGS, setting_views.settings),
        (looks.WAITING.what, waiting_views.waiting),
    )
)
"""How each look is answered (``model/views/looks.py``)."""
