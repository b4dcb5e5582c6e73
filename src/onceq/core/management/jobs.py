"""Jobs: started, carried out batch by batch, looked at and cancelled.

One record, made in one step, holds what a batch does to messages and the job's progress: each
message is sent again and taken out, or neither. So after a crash at any point a job continues where
it was, with true numbers; and nothing is held between two batches that would block other clients. A
message that a client takes meanwhile is the client's.

A job may do what the actor that started it may do now, and no more: each batch is judged like that
actor's own requests. A job whose queue the actor may no longer take from fails; a message that it
may not send to its destination stays, and is named among those that failed.

Also here:

* End expired messages: those of one moment in several steps, if they are many.

Upholds: I2, I3, I4 (in one place, once), I24 (no step is longer the more there is), I28, I26.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from onceq import errors
from onceq.core.decision import RunJobs
from onceq.core.ending import acknowledgments
from onceq.core.ending.ending import ENDED_AT_ONCE, UNASKED_FOR_ONE, end_range
from onceq.core.ending.table import Ending
from onceq.core.inputs import JobBatch, JobDeed, JobFailed, NextJob
from onceq.core.names import find_queue, is_local, local_queue, members
from onceq.core.receive import entrance
from onceq.core.receive.entrance import Why, check_taking
from onceq.core.receive.lookup import ordered
from onceq.core.receive.receive import expire_at, expire_some
from onceq.core.rights import MONITOR, check_all, may, of_job, sends
from onceq.core.send import add_puts, check_send
from onceq.core.state.branch_table import Marks
from onceq.core.state.job_table import Failed, Job, JobMark, Source
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queue_tables import ACKS_OWED, DOUBTS_KEPT
from onceq.core.state.queues import Queue, place_of
from onceq.core.state.records import Op, RangeChange
from onceq.core.state.setups import JobEnded, JobStarted
from onceq.core.step.connections import CheckedBatch
from onceq.core.step.step import AuditEntry, ChangeBuilder, Step, record_act, refusal, rule_for
from onceq.core.transfer import in_doubt, outgoing_queue
from onceq.model.identity import read_number
from onceq.model.letters import JobAction, JobState
from onceq.model.limits import JOB_FAILURES_MAX, JOB_TEXT_CHARS_MAX
from onceq.model.names import elements_of
from onceq.model.requests import CancelJob, Look, StartJob
from onceq.model.resultcodes import MessageClass
from onceq.model.rights import Actor, ActorKind
from onceq.model.shares import Thing
from onceq.model.views.looks import JobFailure, JobView
from onceq.model.views.view import copy_by_name

# ---- jobs ----------------------------------------------------------------------------------------


_PURGED: Final = MessageClass.NACK_QUEUE_PURGED
_REMOVES: Final = frozenset((JobAction.RETURN, JobAction.MOVE, JobAction.PURGE))


# ---- requests ------------------------------------------------------------------------------------


@rule_for(StartJob)
def start(step: Step, item: StartJob) -> None:
    """Begin a job about the messages that are in its queues now."""
    order, jobs = item.order, step.state.jobs
    assert order is not None, "the request was checked"
    running, by = jobs.running(), step.known_by(item.owner)
    # There are a few at most.
    own = sum(("" if job.free else job.who) == by for job in running)
    full = refusal(step, by, Thing.JOBS, own, len(running))
    if full:
        raise errors.InsufficientResources(full)
    sources: list[list[Any]] = []
    total = 0
    for name in item.queues:
        queue = find_queue(step, name)
        if any(queue.number == number for number, _, _ in sources):
            raise errors.InvalidParameter(f"{name} is named twice")
        ends = [[index, lane.next] for index, lane in ordered(queue) if lane.available]
        sources.append([queue.number, name, ends])
        total += queue.available
    into: list[int] = []
    if order.to:
        names = (name for name in members(step, elements_of(order.to)) if is_local(step, name))
        into = [local_queue(step, name).number for name in names]
    if any(number in into for number, _, _ in sources):
        raise errors.InvalidParameter(f"{order.to} is where the messages stand: name another queue")
    item.number = jobs.next
    actor = step.actors.get(item.owner)
    step.setup(
        JobStarted(
            jobs.next, sources, order.dump(), str(actor) if actor else "",
            step.places.get(item.owner, ""), actor is None or actor.free, step.now.wall_s, total,
            into,
        )
    )  # fmt: skip
    step.act(RunJobs())
    step.answer(item.owner, item.request, _view(step, _found(step, item.number)))


@rule_for(CancelJob)
def cancel(step: Step, item: CancelJob) -> None:
    """End a job between two batches."""
    job = _found(step, item.number)
    if job.running:
        actor = step.actors.get(item.owner)
        _end(step, job, JobState.CANCELLED, f"by {actor}" if actor else "")
    step.answer(item.owner, item.request, _view(step, job))


def _found(step: Step, number: int) -> Job:
    job = step.state.jobs.get(number)
    if job is None:
        raise errors.InvalidParameter(
            f"there is no job {number}, or it was so long ago that it is forgotten; 'onceq job "
            "list' shows those there are"
        )
    return job


def listed(step: Step, owner: int) -> list[JobView]:
    """Return all jobs; an actor that may not look at the whole queue manager gets its own."""
    whole, own = may(step, owner, (MONITOR,)), step.known_by(owner)
    return [_view(step, job, named=False) for job in step.state.jobs if whole or job.who == own]


def view_job(step: Step, item: Look) -> JobView:
    """Return one job."""
    number = read_number(item.name)
    if number is None:
        raise errors.InvalidParameter(f"{item.name[:40]!r} is not the number of a job")
    job = step.state.jobs.get(number)
    known = job is not None and job.who == step.known_by(item.owner)
    if not known and not may(step, item.owner, (MONITOR,)):
        raise errors.AccessDenied(
            "access denied: without the right to monitor the queue manager, you see only the jobs "
            f"that you have started, and job {number} is not one of these"
        )
    return _view(step, _found(step, number))


def _view(step: Step, job: Job, *, named: bool = True) -> JobView:
    which = job.order.dump()
    action, to, limit = which.pop("action"), which.pop("to", ""), which.pop("limit", 0)
    failures = tuple(
        JobFailure(job.sources[one.at].name, one.lookup, one.id, one.code, one.text)
        for one in job.failures
    )
    return copy_by_name(
        JobView, job, action=action, state=job.state.value, to=to, which=which, limit=limit,
        queues=tuple(one.name for one in job.sources), kept=dict(job.kept),
        failures=failures if named else (), held=_held(step, job) if named else 0,
        trouble=step.job_troubles.get(job.number, "") if job.running else "",
    )  # fmt: skip


def _held(step: Step, job: Job) -> int:
    queues = (step.state.all_queues.get(one.number) for one in job.sources)
    return sum(lane.locked for queue in queues if queue for lane in queue.lanes.values())


# ---- carried out ---------------------------------------------------------------------------------


@rule_for(NextJob)
def next_job(step: Step, item: NextJob) -> None:
    """Answer which job is to be carried out next."""
    found = (job.work for job in step.state.jobs.running() if job.number > item.behind)
    step.answer(item.owner, item.request, next(found, None))


@rule_for(JobBatch)
def batch(step: Step, item: JobBatch) -> None:
    """Carry out a batch of a job, and record the progress; all of it or nothing.

    Raises:
        OnceqError: It cannot continue now: the disk is nearly full, another application
            holds the queue alone, or the directory is away that a destination needs.
    """
    job = step.state.jobs.get(item.job)
    if job is None or not job.running or (job.at, job.after) != (item.at, item.before):
        step.answer(item.owner, item.request, job.work if job and job.running else None)
        return
    try:
        # Another queue of that name, perhaps of another owner, was never meant.
        if any(number not in step.state.all_queues for number in job.into):
            raise errors.QueueDeleted(f"{job.order.to} was deleted since the job began")
        made = _carry_out(step, job, item)
    except (errors.AccessDenied, errors.QueueDeleted) as error:
        _end(step, job, JobState.FAILED, error.text)
    except errors.OnceqError as error:
        step.job_troubles[job.number] = error.text
        raise
    else:
        step.job_troubles.pop(job.number, None)
        step.record(made.change)
        if item.over:
            _tell_end(step, job)
    step.answer(item.owner, item.request, job.work if job.running else None)


@rule_for(JobFailed)
def failed(step: Step, item: JobFailed) -> None:
    """End a job that cannot continue."""
    job = step.state.jobs.get(item.job)
    if job is not None and job.running and not item.final:
        step.job_troubles[job.number] = item.why
    elif job is not None and job.running:
        _end(step, job, JobState.FAILED, item.why)
    step.answer(item.owner, item.request, None)


def _end(step: Step, job: Job, state: JobState, why: str) -> None:
    step.setup(JobEnded(job.number, state.value, step.now.wall_s, why[:JOB_TEXT_CHARS_MAX]))
    step.job_troubles.pop(job.number, None)
    _tell_end(step, job)


def _tell_end(step: Step, job: Job) -> None:
    """Audit what a job has done as an act of the actor that started it."""
    if job.who:
        stay = sum(job.kept.values())
        what = f"{job.number} {job.state.value}: {job.done} done, {stay} kept, {job.failed} failed"
        record_act(step, job.who, job.where, AuditEntry("end job", what))


def _carry_out(step: Step, job: Job, item: JobBatch) -> ChangeBuilder:
    """Return the change that carries out a batch. Nothing is in effect yet."""
    source = job.sources[min(item.at, len(job.sources) - 1)]
    actor: Actor | None = None
    if not job.free:
        kind, _, who = job.who.partition(":")
        actor = Actor(ActorKind(kind), who)
        token = step.state.tokens.get(who) if actor.kind is ActorKind.TOKEN else None
        if actor.kind is ActorKind.TOKEN and (token is None or token.over(step.now.wall_s)):
            raise errors.AccessDenied(
                f"access denied: the token {who!r}, by which this job was started, was revoked or "
                "has expired"
            )
    queue = step.state.all_queues.get(source.number)
    if actor is not None:
        check_all(step, actor, of_job(step, job.order, [source.name]))
    there: list[JobDeed] = []
    if isinstance(queue, Queue) and item.deeds:
        if job.order.action in _REMOVES:
            check_taking(step, queue, Why.NAMED, owner=item.owner, name=source.name)
        there = [deed for deed in item.deeds if _stands(step, queue, source, deed)]
    sent, failures = _prepared(step, actor, item, there)
    build = ChangeBuilder(step)
    torn = _send(build, sent, Counter(deed.together for deed in item.deeds))
    if isinstance(queue, Queue) and job.order.action in _REMOVES:
        taken = _ranges(deed for deed, _ in sent)
        if job.order.action is JobAction.PURGE:
            for index, first, count in taken:
                move = RangeChange(Op.END, queue.number, index, first, count)
                end_range(build, move, Ending.NOT_RECEIVED, _PURGED)
        else:
            entrance.remove(build, queue, taken)
    build.change.marks = Marks(
        job=JobMark(
            job.number, item.to_at, item.after, item.looked, len(sent),
            len(item.deeds) - len(there), len(failures), item.over, item.more, item.kept,
            tuple(failures[: max(JOB_FAILURES_MAX - len(job.failures), 0)]), torn,
        )
    )  # fmt: skip
    return build


def _send(
    build: ChangeBuilder, sent: list[tuple[JobDeed, CheckedBatch | None]], meant: Counter[int]
) -> int:
    """Send the replacements of messages: those of one transaction as one again, if none of them is
    missing. Return how many were separated from others.

    Args:
        meant: How many should be sent together, by their number.
    """
    torn = 0
    for together, group in groupby(sent, key=lambda one: one[0].together):
        some = [(deed, checked) for deed, checked in group if checked is not None]
        whole = bool(together) and len(some) == meant[together]
        for part in [some] if whole else [[one] for one in some]:
            deed, _ = part[0]
            apart = deed.apart or bool(together and not whole)
            number = build.change.next_transaction or build.step.state.next_transaction
            if deed.transactional:
                build.change.next_transaction = number + 1
            add_puts(
                build, [checked for _, checked in part], apart=apart,
                transaction=number if deed.transactional else 0,
            )  # fmt: skip
            torn += apart
    return torn


def _stands(step: Step, queue: Queue, source: Source, deed: JobDeed) -> bool:
    """Return whether a message belongs to the job, and no client has taken it."""
    index, counter = place_of(deed.lookup)
    if counter >= dict(source.ends).get(index, 0):
        return False
    expire_at(step, queue, index, counter)
    return queue.lanes[index].state(counter) == AVAILABLE


def _prepared(
    step: Step, actor: Actor | None, item: JobBatch, there: list[JobDeed]
) -> tuple[list[tuple[JobDeed, CheckedBatch | None]], list[Failed]]:
    """Return what is to be done, with the sends for it; and what cannot be done.

    Raises:
        StorageReserve, NoDirectory: Nothing can be sent now, or a name cannot be resolved now.
    """
    sent: list[tuple[JobDeed, CheckedBatch | None]] = []
    failures: list[Failed] = []
    promised: list[CheckedBatch] = []
    try:
        for deed in there:
            if deed.item is None:
                sent.append((deed, None))
                continue
            try:
                deed.item.check()
                if actor is not None:
                    check_all(step, actor, sends(step, (deed.item,)))
                checked = check_send(
                    step, deed.item, None, transactional=deed.transactional,
                    by="" if actor is None else str(actor),
                )  # fmt: skip
            except (errors.StorageReserve, errors.NoDirectory):
                raise  # it can continue later
            except errors.OnceqError as error:
                text = error.text[:JOB_TEXT_CHARS_MAX]
                failures.append(Failed(item.at, deed.lookup, deed.id, error.code, text))
                continue
            # At once, so that the next one finds the room taken.
            step.units.reserve((checked,), 1)
            promised.append(checked)
            sent.append((deed, checked))
    finally:
        step.units.reserve(promised, -1)
    return sent, failures


def _ranges(deeds: Iterable[JobDeed]) -> list[tuple[int, int, int]]:
    """Return lane, first counter and count of neighbours."""
    found: list[tuple[int, int, int]] = []
    for deed in deeds:
        index, counter = place_of(deed.lookup)
        if found and found[-1][0] == index and sum(found[-1][1:]) == counter:
            found[-1] = (index, found[-1][1], found[-1][2] + 1)
        else:
            found.append((index, counter, 1))
    return found


# ---- mass expiry ---------------------------------------------------------------------------------


def expire(step: Step) -> None:
    """End expired messages, a bounded number; the next step ends the rest.

    Receivers and senders are served between the steps; ``core/receive/receive.py`` ensures that
    none gets a message that is over (I15).
    """
    state, now_s, left = step.state, step.now.wall_s, ENDED_AT_ONCE
    while left > 0 and (due := state.expiry.due(now_s)) is not None:
        number, index = due
        queue, left = state.all_queues.get(number), left - 1
        if queue is None:
            continue
        lane = queue.lanes[index]
        if lane.next_expiry <= now_s:
            # Where many reports of ends were requested, each costs as much as a sent message.
            most = left if index in queue.wanting else left * UNASKED_FOR_ONE
            most = max(most, 1)
            if isinstance(queue, OutgoingQueue):
                ended = outgoing_queue.expire(step, queue, index, most)
                if queue.lanes[index].next_expiry > now_s:
                    in_doubt.inquire(step, queue)
            elif number == DOUBTS_KEPT:
                ended = in_doubt.give_up(step, index, most)
            elif number == ACKS_OWED:
                ended = acknowledgments.give_up(step, most)
            else:
                assert isinstance(queue, Queue)
                ended = expire_some(step, queue, index, most)
            left -= ended if index in queue.wanting else ended // UNASKED_FOR_ONE
        state.expires_by(number, index)
        if lane.next_expiry > now_s and isinstance(queue, Queue) and queue.waiting:
            # Receives that were put off until nothing expired is left here.
            step.touched[number] = None
    state.next_expiry = state.expiry.next
