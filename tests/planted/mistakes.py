"""Mistakes that somebody could make, as patches of the running code (programme P15).

Each takes pytest's ``monkeypatch`` and breaks one rule. The simulator must find each of them within
a few seeds, and name an invariant that it breaks. The first ones have numbers of their own:

1 an acknowledgment before its sync, 2 a sync left out, 3 no sync of the directory, 4 progress and
message in two records, 5 a number given after sending, 6 a number used again after a restart,
7 streams compared by inequality, 8 an acknowledgment not matched on its stream, 9 a link not
renewed after an expiry, 10 a link to a message that was released, 11 "not delivered" after a
transmission, 12 a dead letter twice, 13 a commit in several records, 14 the order of beginnings,
15 what an abort gives back at the end of its queue, 16 the last record's checksum not looked at,
17 damage taken for a torn end, 18 a failed sync tried again, 19 actions before earlier records,
20 a quota not looked at on arrival, 21 a prepared branch undone at a restart, 22 a decision
forgotten too early, 23 the wall clock for resends, 24 stream identifiers from a clock, 25 XML
without its guard, 26 a refusal that tells what exists, 27 a Spark batch twice.

What is missing here belongs to other programmes (6: ``edges/lives.py``; 16, 17: the store's own
tests; 20: quotas; 22: ``shared_mistakes.py``; 25 and 26: XML, rights; 27: ``group_mistakes.py``)
or cannot be made any more (24: streams are numbered by a durable ordinal, not by a clock).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from onceq.core import manager, send
from onceq.core import manager as restart_rules
from onceq.core.decision import Decision
from onceq.core.ending import acknowledgments, ending
from onceq.core.ending.table import Ending
from onceq.core.manager import _TIMERS, Manager
from onceq.core.receive import poison, receive_exact
from onceq.core.state.queue_tables import ACKS_OWED, DEAD_XACT
from onceq.core.state.records import Change, Op, RangeChange
from onceq.core.state.state import State
from onceq.core.step.step import RULES, ChangeBuilder, Step, Timer
from onceq.core.transaction import unit_of_work, xa_branch
from onceq.core.transfer import arrival, ordered_arrival, outgoing_queue
from onceq.core.transfer.ordered_arrival import Judgment, Verdict, judge
from onceq.errors import StorageFailure
from onceq.model.directory import Snapshot
from onceq.model.names import Kind
from onceq.model.requests import Commit, MoveMessage, Reject
from onceq.model.resultcodes import MessageClass
from onceq.packet.acks import OrderAck, StreamMemory
from onceq.service.engine import Engine
from onceq.service.sessions import Sessions
from onceq.store.log import LogStore
from proof.sim.apps.operators import Operators
from proof.sim.apps.workload import Workload
from tests.planted.planted import edited

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mistake:
    """One of them.

    Attributes:
        number: In the list above; 0 if it is not in it.
        expected: What the violation may be called (``named``): nothing else counts.
        first: Seed at which the search begins: shortly before the first that notices it, where that
            is far. After a change of the workload it is a place like any other.
    """

    number: int
    plant: Plant
    expected: frozenset[str]
    first: int = 0


def actions_before_sync(patch: pytest.MonkeyPatch) -> None:
    """1, 19: actions are performed before their records are durable."""

    def settle(self: Engine, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            for record in decision.records:
                self.store.append(record.payload, record.head)
        for decision in decisions:
            for action in decision.actions:
                self._perform[type(action)](action)
        self.store.sync()

    patch.setattr(Engine, "settle", settle)


def sync_skipped(patch: pytest.MonkeyPatch) -> None:
    """2: a sync after a roll-over covers the last segment only."""

    def sync(self: LogStore) -> None:
        self.flush()
        del self._unsynced[:-1]
        original(self)

    original = LogStore.sync
    patch.setattr(LogStore, "sync", sync)


def never_synced(patch: pytest.MonkeyPatch) -> None:
    """2, as bad as can be: what is called a sync is a write."""
    patch.setattr(LogStore, "sync", LogStore.flush)


def message_and_progress_apart(patch: pytest.MonkeyPatch) -> None:
    """4: progress in one record, the message in the next, and a sync for each."""

    def record(self: Step, change: Change, *, forced: bool = True, held: bool = False) -> None:
        if change.advances and change.puts:
            original(self, Change(change.wall_s, advances=change.advances), forced=forced)
            change.advances = []
        original(self, change, forced=forced, held=held)

    def settle(self: Engine, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            for made in decision.records:
                self.store.append(made.payload, made.head)
                if made.forced:
                    self.store.sync()
        for decision in decisions:
            for action in decision.actions:
                self._perform[type(action)](action)

    original = Step.record
    patch.setattr(Step, "record", record)
    patch.setattr(Engine, "settle", settle)


def streams_by_inequality(patch: pytest.MonkeyPatch) -> None:
    """7: a stream that is merely different counts as newer."""

    def loose(**given: int) -> Judgment:
        judgment = judge(**given)
        if judgment.verdict is Verdict.STALE_STREAM and given["previous"] == 0:
            return Judgment(Verdict.ACCEPT)
        return judgment

    patch.setattr(ordered_arrival, "judge", loose)


def acks_by_number(patch: pytest.MonkeyPatch) -> None:
    """8: an order acknowledgment counts whatever stream it names."""
    known: dict[tuple[bytes, int], int] = {}

    def order_acked(step: Step, ack: OrderAck) -> None:
        for stream, queue in step.state.streams.items():
            known[step.identity.guid, stream] = queue.number
        named = step.state.all_queues.get(known.get((step.identity.guid, ack.stream), 0))
        current = getattr(named, "stream", ack.stream)
        original(step, replace(ack, stream=current))

    original = outgoing_queue.order_acked
    patch.setattr(arrival, "order_acked", order_acked)


def never_relinked(patch: pytest.MonkeyPatch) -> None:
    """9, 10: previous numbers stay as they were given."""

    def transmit(self: Sessions, action: Any) -> None:
        original(self, replace(action, relink=()))

    original = Sessions.transmit
    patch.setattr(Sessions, "transmit", transmit)


def always_not_delivered(patch: pytest.MonkeyPatch) -> None:
    """11: expiry claims "not delivered" also of what was transmitted."""

    def gave_up(build: ChangeBuilder, waiting: Any, *range_and_reason: Any) -> None:
        sent, waiting.transmitted = waiting.transmitted, {}
        original(build, waiting, *range_and_reason)
        waiting.transmitted = sent

    original = ending.gave_up
    patch.setattr(outgoing_queue, "gave_up", gave_up)


def two_dead_letters(patch: pytest.MonkeyPatch) -> None:
    """12: a dead letter is written twice."""

    def adopt(self: State, *what: Any) -> None:
        original(self, *what)
        original(self, *what)

    original = State._adopt
    patch.setattr(State, "_adopt", adopt)


def told_twice(patch: pytest.MonkeyPatch) -> None:
    """An acknowledgment message is made twice for one end."""

    def twice(mail: Any, packet: Any, reason: Any) -> bool:
        return original(mail, packet, reason) and original(mail, packet, reason)

    original = acknowledgments._acknowledge
    patch.setattr(acknowledgments, "_acknowledge", twice)


def told_in_doubt(patch: pytest.MonkeyPatch) -> None:
    """A negative acknowledgment for what was transmitted, and may have arrived."""

    def end_range(build: ChangeBuilder, move: Any, kind: Ending, reason: int) -> None:
        before = len(build.change.moves)
        original(build, move, kind, reason)
        if kind is Ending.IN_DOUBT:
            for one in build.change.moves[before:]:
                one.copies_to = ((ACKS_OWED, 0, MessageClass.NACK_REACH_QUEUE_TIMEOUT),)

    original = ending.end_range
    patch.setattr(ending, "end_range", end_range)


def journal_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Nothing is copied to the journal of a queue when several messages are received at once."""

    def copy(build: ChangeBuilder, queue: Any, move: RangeChange, **how: bool) -> Any:
        return original(build, queue, move, **how) if move.count == 1 else ()

    original = ending.journal_copy
    patch.setattr(ending, "journal_copy", copy)


def own_queue_ignored(patch: pytest.MonkeyPatch) -> None:
    """The dead-letter queue that a sender names is not looked at."""
    patch.setattr(ending, "own_or_system", lambda step, number, size, **more: DEAD_XACT)


def rejected_is_received(patch: pytest.MonkeyPatch) -> None:
    """A rejection is forgotten before the commit."""

    def reject(step: Step, item: Any) -> None:
        step.answer(item.owner, item.request, None)

    original = Manager.__init__

    def made(self: Manager, *arguments: Any, **more: Any) -> None:
        original(self, *arguments, **more)
        self._rules[Reject] = reject

    patch.setattr(Manager, "__init__", made)


def moved_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """What a transaction moves to a subqueue is received instead."""

    def move(step: Step, item: Any) -> None:
        if item.transaction:
            step.answer(item.owner, item.request, 0)
        else:
            original(step, item)

    original = receive_exact.move
    made_before = Manager.__init__

    def made(self: Manager, *arguments: Any, **more: Any) -> None:
        made_before(self, *arguments, **more)
        self._rules[MoveMessage] = move

    patch.setattr(Manager, "__init__", made)


def poison_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A message that failed too often is dropped instead of moved aside."""

    def shift(
        build: ChangeBuilder, queue: Any, index: int, counter: int, sub: str, **given: Any
    ) -> bool:
        build.move(RangeChange(Op.REMOVE, queue.number, index, counter, 1))
        return True

    patch.setattr(poison, "_shift", shift)


def list_cut_short(patch: pytest.MonkeyPatch) -> None:
    """A list is forgotten behind the first of its members."""

    def expand(self: Snapshot, names: Any) -> Any:
        found = original(self, names)
        return found[:1] if len(found) > 1 and any(n.kind is Kind.DL for n in names) else found

    original = Snapshot.expand
    patch.setattr(Snapshot, "expand", expand)


def commit_in_parts(patch: pytest.MonkeyPatch) -> None:
    """13: a commit makes one record for each destination."""

    def record(self: Step, change: Change, *, forced: bool = True, held: bool = False) -> None:
        if change.outcome is not None and len(change.puts) > 1:
            rest = change.puts
            for put in rest[:-1]:
                part = Change(change.wall_s, puts=[put])
                part.next_message, part.next_ordinal = change.next_message, change.next_ordinal
                original(self, part, forced=forced)
            change.puts = rest[-1:]
        original(self, change, forced=forced, held=held)

    original = Step.record
    patch.setattr(Step, "record", record)
    # A part cannot point to what stands in another one.
    edited(send, "if p.one_rest and not told and", "if False and")(patch)


def backwards(patch: pytest.MonkeyPatch) -> None:
    """14: the messages of a transaction are numbered in the wrong order."""

    def add_puts(build: ChangeBuilder, sends: list[Any], *, transaction: int) -> tuple[int, int]:
        return original(build, sends[::-1], transaction=transaction)

    original = send.add_puts
    patch.setattr(unit_of_work, "add_puts", add_puts)


def given_back_uncounted(patch: pytest.MonkeyPatch) -> None:
    """15, a kin of it: what is given back does not count as an abort."""

    def give_back(self: State, lane: Any, first: int, count: int, *, counted: bool) -> None:
        original(self, lane, first, count, counted=False)

    original = State._give_back
    patch.setattr(State, "_give_back", give_back)


def locks_forgotten(patch: pytest.MonkeyPatch) -> None:
    """15, another: a commit does not remove what it received."""

    def commit(step: Step, item: Any) -> None:
        tx = step.units.transactions.get((item.owner, item.transaction))
        if tx is not None:
            del tx.receives[1:]
        original(step, item)

    original = unit_of_work.commit
    kind: type[Any] = Commit
    patch.setitem(RULES, kind, commit)


def sync_tried_again(patch: pytest.MonkeyPatch) -> None:
    """18: a failed sync is simply tried again."""

    def sync(self: LogStore) -> None:
        try:
            original(self)
        except StorageFailure:
            self._dead = None
            original(self)

    original = LogStore.sync
    patch.setattr(LogStore, "sync", sync)


def outcome_forgotten(patch: pytest.MonkeyPatch) -> None:
    """I3a: the outcome of a commit is not on record."""

    def record(self: Step, change: Change, *, forced: bool = True, held: bool = False) -> None:
        change.outcome = None
        original(self, change, forced=forced, held=held)

    original = Step.record
    patch.setattr(Step, "record", record)


def quiet_workload(patch: pytest.MonkeyPatch) -> None:
    """28: the canary. Nobody sends anything, so nothing can go wrong."""
    patch.setattr(Workload, "next", lambda self, app: None)
    patch.setattr(Operators, "next", lambda self, app: None)


DAMAGED = "damaged"
"""The store itself refuses to start: what it had promised is not there (I23)."""
ASSERTED = "asserted"
"""One of the product's own assertions stopped the process first."""
UNTRUE = frozenset(
    {"I1", "I1 or I12", "I3", "I3a", "I4", "I7", "I9", "I12", "I14", "I17", "I23", DAMAGED}
)
"""Something was said that a crash made untrue; which of these shows first is chance."""


def all_passed_over(patch: pytest.MonkeyPatch) -> None:
    """CNF-22: the receiver says of what it accepted that it passed it over."""
    patch.setattr(StreamMemory, "arrived", lambda self, number: False)


def named(violation: str) -> str:
    """What a violation is called: the invariant at its beginning, exactly."""
    first = violation.strip().splitlines()[0]
    found = re.match(r"I\d+a?( or I\d+)*\b", first)
    if found:
        return found.group()
    if "DamagedRecord" in first:
        return DAMAGED
    return ASSERTED if "AssertionError" in first else first


def forgotten_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A transaction in which nothing happens keeps what it holds."""
    patch.setattr("onceq.core.manager._TIMERS", {**_TIMERS, Timer.IDLE: lambda step, nobody: None})


def promises_forgotten(patch: pytest.MonkeyPatch) -> None:
    """21: a prepared branch is rolled back at a restart."""
    restart = restart_rules.restart

    def forgetful(step: Step, *more: Any, **named: Any) -> None:
        for branch in list(step.state.branches):
            step.state.branches.drop(branch)
        restart(step, *more, **named)

    patch.setattr(manager, "restart", forgetful)


def promises_unlocked(patch: pytest.MonkeyPatch) -> None:
    """21: what a prepared branch has received is free again after a restart."""
    restore = xa_branch.restore

    def loose(step: Step, key: bytes) -> None:
        restore(step, key)
        for tx in step.units.open_branches.values():
            tx.receives = []

    patch.setattr(xa_branch, "restore", loose)


MISTAKES: dict[str, Mistake] = {
    "forgotten for ever": Mistake(0, forgotten_for_ever, frozenset({"I16"})),
    "promises forgotten": Mistake(21, promises_forgotten, UNTRUE | {"I16", "I20", "I21"}),
    "promises unlocked": Mistake(
        21, promises_unlocked, frozenset({"I16", "I4", "I17", "I1", "I20"})
    ),
    "actions before sync": Mistake(1, actions_before_sync, UNTRUE | {"I20", "I21"}),
    "only the last segment synced": Mistake(2, sync_skipped, UNTRUE | {"I13"}),
    "never synced": Mistake(2, never_synced, UNTRUE | {ASSERTED}),
    # A message that was accepted and is not there has no end that anybody could tell.
    "message and progress apart": Mistake(
        4, message_and_progress_apart, frozenset({"I1", "I1 or I12", "I11", "I26"}), first=80
    ),
    "streams by inequality": Mistake(7, streams_by_inequality, frozenset({"I4", "I5", "I9"})),
    # What is said of a stream counts for a later one: then the earlier one waits for ever.
    "acknowledgments by number": Mistake(8, acks_by_number, frozenset({"I1", "I1 or I12", "I26"})),
    "never relinked": Mistake(9, never_relinked, frozenset({"I8"})),
    "always not delivered": Mistake(11, always_not_delivered, frozenset({"I11", "I13"})),
    "two dead letters": Mistake(12, two_dead_letters, frozenset({"I12"})),
    "told twice": Mistake(0, told_twice, frozenset({"I13"})),
    "told in doubt": Mistake(0, told_in_doubt, frozenset({"I13"})),
    "journal forgotten": Mistake(0, journal_forgotten, frozenset({"I14"})),
    "own dead-letter queue ignored": Mistake(0, own_queue_ignored, frozenset({"I12"})),
    "rejected is received": Mistake(0, rejected_is_received, frozenset({"I13", "I14", "I12"})),
    "moved for nothing": Mistake(0, moved_for_nothing, frozenset({"I1", "I12", "I14", "I13"})),
    "poison forgotten": Mistake(
        0, poison_forgotten, frozenset({"I1", "I1 or I12", "I12", "I14", "I13", "I26"})
    ),
    "list cut short": Mistake(0, list_cut_short, frozenset({"I1", "I12"})),
    "commit in parts": Mistake(13, commit_in_parts, frozenset({"I2", "I3", "I3a"}), first=95),
    "wrong order": Mistake(14, backwards, frozenset({"I5"})),
    "given back uncounted": Mistake(15, given_back_uncounted, frozenset({"I17"})),
    # What it took stays locked: it is neither removed nor ever given back.
    "locks forgotten": Mistake(15, locks_forgotten, frozenset({"I17", "I26"})),
    # What is lost may be what would have made a queue move, or what the books have of a purge.
    "sync tried again": Mistake(18, sync_tried_again, UNTRUE | {"I13", "I26", ASSERTED}, first=145),
    "all passed over": Mistake(0, all_passed_over, frozenset({"I11", "I13"})),
    "outcome forgotten": Mistake(0, outcome_forgotten, frozenset({"I3a", "I3", "I21"})),
}
