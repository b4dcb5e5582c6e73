"""The queue manager: one pure function of its state, an input and the time.

``step`` hands each input to its rule. A rule is a function of one of the modules in
``RULE_MODULES`` that says by ``rule_for`` which request or input it decides. Nothing here waits,
reads a clock or touches a file, so the same manager runs in production and in the simulator, and
equal inputs give equal decisions (I27).

Also here:

* The consequences of a restart, once the durable state is loaded.

Upholds: I2, I18, I22.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop
from typing import Any, Final

from onceq.core import delays
from onceq.core import rights as required_rights
from onceq.core.decision import Decision
from onceq.core.ending import acknowledgments
from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.inputs import Input, Relocate, SpaceChanged, Tick
from onceq.core.management import (
    copies,
    damage,
    directory_rules,
    jobs,
    operations,
    peer_operations,
    rights,
    trail,
    views,
)
from onceq.core.names import find_source, index_by_guid
from onceq.core.peers import lives, strangers
from onceq.core.receive import entrance, lookup, poison, receive, receive_exact
from onceq.core.state.log_space import LiveMessages
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import LOCKED, PURGING, REMOVED
from onceq.core.state.queue_tables import ACKS_OWED
from onceq.core.state.queues import Queue
from onceq.core.state.records import Change, Op, RangeChange, Relocated
from onceq.core.state.snapshot import StateSnapshot, replay
from onceq.core.state.state import State
from onceq.core.step.step import RULES, ChangeBuilder, Step, Timer, rule_for
from onceq.core.step.units import KEY_BYTES, Counts, HeldRange
from onceq.core.transaction import second_phase, unit_of_work, xa_branch
from onceq.core.transfer import (
    abandoned_streams,
    arrival,
    in_doubt,
    order_acknowledgments,
    outgoing_queue,
    pending_outcomes,
    sessions,
    transmit,
)
from onceq.errors import OnceqError, OperationCancelled, ReceiveTimeout
from onceq.model.addresses import is_one_of
from onceq.model.identity import Identity
from onceq.model.limits import DELAY_LOOK_S, SPARSE_POSITIONS_MAX
from onceq.model.marks import NEVER_S, SECOND_US, Now
from onceq.model.requests import Receive, Remove, Request
from onceq.model.resultcodes import MessageClass
from onceq.model.rights import ActorKind
from onceq.model.run import Extent
from onceq.model.settings import Settings

# ---- restart -------------------------------------------------------------------------------------


def restart(step: Step, entropy: bytes, made_ns: int, *, orderly: bool | None) -> None:
    """Begin a life: undo, or continue, what the last one had not finished.

    A crash undoes what was open: transactions that were not prepared are aborted, and what they had
    received is back in its place (SND-8, RCV-12). Express messages are gone. Prepared branches wait
    for their decision, groups that had begun to commit continue, and what waits for other managers
    is sent again. These records are decided like those of any other step.
    """
    # First, because what follows assigns numbers, which have to be those of the new life.
    lives.begin(step, entropy, made_ns, orderly=orderly)
    build = ChangeBuilder(step)
    gone: set[tuple[int, int, int]] = set()
    for queue, index, lane in step.state.all_lanes():
        for first, count in lane.express_ranges():
            gone.update((queue.number, index, at) for at in range(first, first + count))
            build.move(RangeChange(Op.RELEASE, queue.number, index, first, count))
    xa_branch.restore(step, entropy[-KEY_BYTES:])
    for tx in step.units.open_branches.values():
        tx.receives = [part for held in tx.receives for part in _still_there(step, held, gone)]
    # What a prepared branch holds stays locked; what has ended above cannot be given back.
    gone |= {
        (held.queue, held.lane, at)
        for tx in step.units.open_branches.values()
        for held in tx.receives
        for at in range(held.first, held.first + held.count)
    }
    locked = [
        (state, queue.number, index, at)
        for queue, index, lane in step.state.all_lanes()
        for state in (LOCKED, PURGING)
        for first, count in lane.ranges(state, 0)
        for at in range(first, first + count)
        if (queue.number, index, at) not in gone
    ]
    for state, number, index, at in locked:
        if state == LOCKED:
            build.move(RangeChange(Op.UNLOCK, number, index, at, 1))
        else:
            # Purged while it was locked: now that the lock is undone, it ends.
            move = RangeChange(Op.END, number, index, at, 1)
            end_range(build, move, Ending.NOT_RECEIVED, MessageClass.NACK_QUEUE_PURGED)
    step.record(build.change)
    second_phase.finish(step)
    copies.tell(step)
    strangers.check_own(step)
    # No receive waits for messages yet, and outgoing queues are started one by one below.
    step.touched.clear()
    index_by_guid(step)
    poison.sift_all(step)
    step.emptied.update(dict.fromkeys(step.state.subqueues))
    lookup.tidy(step)
    for waiting in step.state.outgoing.values():
        outgoing_queue.recall(step, waiting)
        outgoing_queue.start_if_possible(step, waiting)
        in_doubt.inquire(step, waiting)
        outgoing_queue.await_ends(step, waiting)
    arrival.meet_routers(step)


def _still_there(
    step: Step, held: HeldRange, gone: Container[tuple[int, int, int]]
) -> Iterator[HeldRange]:
    """Yield what a prepared branch holds, without express messages, which are gone, now or before:
    no outcome changes them any more."""
    queue = step.state.all_queues.get(held.queue)
    if queue is None:
        yield held
        return
    lane, first, end = queue.lanes[held.lane], held.first, held.first + held.count
    for at in range(first, end):
        if (held.queue, held.lane, at) in gone or lane.state(at) == REMOVED:
            if at > first:
                yield replace(held, first=first, count=at - first)
            first = at + 1
    if first < end:
        yield replace(held, first=first, count=end - first)


# ---- manager -------------------------------------------------------------------------------------


RULE_MODULES: Final = (
    acknowledgments, arrival, copies, damage, directory_rules, entrance, jobs, lookup, operations,
    peer_operations, receive, receive_exact, rights, second_phase, sessions, trail, transmit,
    unit_of_work, views, xa_branch,
)  # fmt: skip
"""The modules with rules (``rule_for``), beside this one: each enters its rules when it loads."""
_NOT_REFUSED: Final = (ReceiveTimeout, OperationCancelled)
"""Errors that only say that no message has come."""


class Manager:
    """The queue manager of this module. One caller at a time."""

    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        *,
        addresses: frozenset[str] = frozenset(),
        routes: Mapping[bytes, str] | None = None,
        peers: Mapping[str, str] | None = None,
    ) -> None:
        """Make an empty manager; ``recover`` comes before the first step.

        Args:
            addresses: Further names and addresses under which this computer is known.
            routes: GUID of a manager to the computer name of the one that passes messages on.
            peers: Address book: computer name, address or GUID to "host:port".
        """
        self._step = Step(identity, settings, addresses, routes or {}, peers or {})
        self._rules = dict(RULES)
        self.waiting: Mapping[tuple[int, int], Receive] = self._step.readers.waiting
        """Receives that wait for a message, read-only."""
        self.counts: Counts = self._step.counts
        """What has happened since the start. A field, because frequent readers make no call."""
        self.owing = True
        """Whether acknowledgments may be owed: ``owed`` says which messages to read for them."""

    @property
    def identity(self) -> Identity:
        """The identity of this manager."""
        return self._step.identity

    @property
    def life(self) -> tuple[bytes, int, int, bytes]:
        """Identifier and stamp of the present life, number and digest of the last act of
        administration: what other managers learn."""
        state = self._step.state
        return state.lives.id, state.stamp, state.trail.next - 1, state.trail.head

    def answers_to(self, host: str) -> str:
        """Return a name of a computer if it is one of this one's; else this one's own name."""
        names = self._step.names
        return host if is_one_of(host, names.own_names) else names.called

    @property
    def at_work(self) -> bool:
        """Whether a work of several steps is not over: each Tick continues it."""
        return bool(self._step.works)

    def portion_due(self, now: Now) -> bool:
        """Return whether the next Tick does a portion of a work that may take several steps."""
        step = self._step
        state = step.state
        return bool(step.works) or min(state.next_expiry, state.next_due) <= now.wall_s

    @property
    def position(self) -> int:
        """The position where the next record's frame will begin."""
        return self._step.position

    @property
    def state(self) -> State:
        """The durable state, read-only."""
        return self._step.state

    # ---- life ---------------------------------------------------------------------------

    def recover(
        self, now: Now, checkpoint: bytes | None, records: Iterable[tuple[int, memoryview]],
        position: int, *, entropy: bytes, made_ns: int = 0, orderly: bool | None = None,
    ) -> Decision:  # fmt: skip
        """Load what is durable; once, before the first step (I22).

        Args:
            checkpoint: What ``snapshot().encode()`` gave, or None for a new store.
            records: Position and payload of every record after it, in order.
            position: Where the next record will go.
            entropy: ENTROPY_BYTES random bytes, which no other start has had
                (``core/peers/lives.py``).
            made_ns: When the directory of the store was made, which is another time for a copy.
            orderly: Whether the store was closed in order before; None: unknown.

        Returns:
            What follows from the restart: open transactions that a crash has undone count as
            aborted (SND-24), and express messages are gone.

        Raises:
            DamagedRecord: The records do not fit together.
        """
        step = self._step
        replay(step.state, checkpoint, records)
        step.position, step.started_s = position, now.wall_s
        return self._wrapped(now, lambda step: restart(step, entropy, made_ns, orderly=orderly))

    def snapshot(self) -> StateSnapshot:
        """Return the durable state, for a checkpoint that covers all records before
        ``position``."""
        return StateSnapshot(self._step.state)

    # ---- steps --------------------------------------------------------------------------

    def step(self, now: Now, item: Input) -> Decision:
        """Decide about one input.

        A refused request is answered with its error. What its checks recorded before stays: an
        empty outgoing queue or subqueue, which is removed as others are, and the end of a
        transaction that failed.
        """
        step = self._step
        step.now = now
        decision = step.decision = Decision()
        try:
            if step.limited:
                self._judge(item)
            self._rules[type(item)](step, item)
        except OnceqError as error:
            if not isinstance(error, _NOT_REFUSED):
                step.counts.refused[error.code] += 1
            step.answer(getattr(item, "owner", 0), getattr(item, "request", 0), error)
            if type(item) in trail.TABLE and step.actors:
                trail.note(step, item, error)
        else:
            if type(item) in trail.TABLE and step.actors:
                trail.note(step, item, None)
        if step.touched and _tell_news(step):
            self.owing = True
        while step.sessions.served:
            sessions.ask_receivers(step)
            if step.touched and _tell_news(step):
                self.owing = True
        if step.emptied:
            lookup.tidy(step)
        return decision

    def _judge(self, item: Input) -> None:
        """Check the rights of a request; raises OnceqError if one is missing."""
        actor = self._step.limited.get(getattr(item, "owner", 0))
        if actor is not None and isinstance(item, Request):
            if actor.kind is ActorKind.TOKEN:
                rights.check_token(self._step, item.owner, actor)
            required_rights.judge(self._step, actor, item)

    def _wrapped(self, now: Now, work: Callable[[Step], None]) -> Decision:
        step = self._step
        step.now = now
        decision = step.decision = Decision()
        work(step)
        return decision

    def next_timer(self) -> int | None:
        """Return the monotonic microseconds at which a Tick is wanted, or None. May be early: a
        timer's reason can be over by then."""
        step = self._step
        if step.works:
            return step.now.mono_us
        soonest = step.timers[0][0] if step.timers else None
        expiry = step.state.next_expiry
        if expiry != NEVER_S:
            wall = max(expiry * SECOND_US - step.now.wall_us, 0)
            at = step.now.mono_us + wall
            soonest = at if soonest is None else min(soonest, at)
        due = step.state.next_due
        if due != NEVER_S:
            wall = max(due * SECOND_US - step.now.wall_us, 0)
            # The wall clock may be set meanwhile.
            at = step.now.mono_us + min(wall, DELAY_LOOK_S * SECOND_US)
            soonest = at if soonest is None else min(soonest, at)
        return soonest

    def acquainted(self) -> set[bytes]:
        """Return the managers (by GUID) that messages came from, and those that messages go to."""
        sources = {source for source, _ in self._step.state.progress}
        return sources.union(self._step.names.by_guid)

    def owed(self, bytes_max: int) -> LiveMessages | None:
        """Return messages whose acknowledgments are owed: read them, and hand in Compose."""
        found = acknowledgments.owed(self._step, bytes_max)
        self.owing = found is not None
        return found

    def foresee(self, item: Receive) -> tuple[Extent, ...]:
        """Return where the messages are that a receive would get now; changes nothing."""
        return receive.foresee(self._step, item)

    # ---- space --------------------------------------------------------------------------

    def live_bytes(self, base: int, end: int) -> int:
        """Return the bytes of messages needed in that part of the log (never too few)."""
        return self._step.state.space.live_bytes(base, end)

    def live(self, base: int, end: int) -> bool:
        """Return whether any message is needed in that part of the log."""
        return self.live_bytes(base, end) > 0

    def sparse(
        self, base: int, end: int, bytes_max: int, *, after: damage.Cursor | None = None,
        positions_max: int = SPARSE_POSITIONS_MAX,
    ) -> damage.Sparse:  # fmt: skip
        """Return messages to be moved so that this part of the log can go; a bounded search, which
        continues at ``after``."""
        return damage.search(
            self._step.state, base, end, bytes_max, after=after, positions_max=positions_max
        )


@rule_for(Remove)
def _remove(step: Step, item: Remove) -> None:
    """Receive single messages without their bytes, or take them out of an outgoing queue."""
    queue = find_source(step, item.queue)
    if isinstance(queue, OutgoingQueue):
        in_doubt.take_out(step, item, queue)
    else:
        assert isinstance(queue, Queue)
        receive.remove(step, item, queue)


def _tell_news(step: Step) -> bool:
    """Pass new and available messages on: to waiting readers, or out. Return whether there are more
    acknowledgments owed."""
    owing = False
    # Handing out may make more available: copies in journals, for example.
    while step.touched:
        number, _ = step.touched.popitem()
        owing = owing or number == ACKS_OWED
        queue = step.state.all_queues.get(number)
        if isinstance(queue, OutgoingQueue):
            directory_rules.go_on(step, queue)
        elif isinstance(queue, Queue) and queue.waiting:
            receive.serve_waiting(step, queue)
    return owing


@rule_for(Tick)
def _tick(step: Step, item: Tick) -> None:
    """Do everything that is due."""
    timers = step.timers
    now_us = step.now.mono_us
    while timers and timers[0][0] <= now_us:
        _, what, whom = heappop(timers)
        _TIMERS[what](step, whom)
    if step.state.next_due <= step.now.wall_s:
        delays.release(step)
    # One portion, no matter what waits: expiry and the other works take turns.
    if step.state.next_expiry <= step.now.wall_s and not (step.works and step.expired):
        jobs.expire(step)
        step.expired = True
    elif step.works:
        step.go_on()
        step.expired = False
    step.state.outcomes.forget(step.now.wall_s, step.settings.outcome_age_s)


_TIMERS: dict[Timer, Callable[[Step, Any], None]] = {
    Timer.RECEIVE: receive.timed_out,
    Timer.ORDER_ACK: order_acknowledgments.ack_due,
    Timer.RESEND: abandoned_streams.on_timer,
    Timer.CONNECT: outgoing_queue.retry,
    Timer.CONTACT: sessions.contact_due,
    Timer.INQUIRE: in_doubt.on_timer,
    Timer.RETRY: poison.on_timer,
    Timer.IDLE: unit_of_work.on_timer,
    Timer.UNDECIDED: second_phase.on_timer,
    Timer.ENDS: pending_outcomes.on_timer,
    Timer.TOKENS: rights.on_timer,
}


@rule_for(SpaceChanged)
def _space(step: Step, item: SpaceChanged) -> None:
    step.space_low = item.low


@rule_for(Relocate)
def _relocate(step: Step, item: Relocate) -> None:
    """Write messages again at the log's end, so that their old segment can go."""
    if item.queue not in step.state.all_queues:
        return
    change = Change(step.now.wall_s)
    change.moved.append(Relocated(item.queue, item.lane, array("Q", item.counters), item.packets))
    step.record(change, forced=True)
