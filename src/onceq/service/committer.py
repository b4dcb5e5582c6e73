"""Make decisions durable, all together, and only then carry them out.

Decisions come with records and actions. Records are appended, and synced if one of them is forced.
Actions are performed in order after that sync, never before. A record that is held is synced when
there is an action, of its own decision or of a later one; if there is none, after a moment. If the
sync fails no action is performed, ever. Inputs go into the inbox, which the engine processes
(``engine.py``).

Upholds: I1, I9 (by the order of persisting and acting).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeVar

from onceq.core.decision import Answer, Decision, Handed, HistoryWanted, Observed
from onceq.core.inputs.inputs import Input, Spoiled
from onceq.core.manager import Manager
from onceq.errors import DamagedPiece, DamagedRecord
from onceq.model.requests import Receive
from onceq.model.settings import Settings
from onceq.service.clock import Clock, ticks_ns
from onceq.service.delivered import delivered
from onceq.service.due import NEVER, Due
from onceq.service.history import History
from onceq.service.metrics import BOUNDS_NS, Measuring
from onceq.service.rates import Rates
from onceq.service.verifying import Verifying
from onceq.store.contract import Recovered, Store

T = TypeVar("T")

AnswerTo = Callable[[int, object], None]
"""Takes a request number and its result; an OnceqError instance is to be raised."""
Takes = Callable[[int, Handed], bool]
"""Returns whether messages may be fetched for a request."""

HELD_US: Final = 100_000
"""Microseconds that a held record may wait for an action before it is synced."""


class OpenStore(Store, Protocol):
    """A store that was opened."""

    @property
    def recovered(self) -> Recovered:
        """Return what recovery found."""


class Background(Protocol):
    """Runs something slow that does not use the engine, elsewhere."""

    def __call__(self, work: Callable[[], T]) -> Future[T]:
        """Begin ``work`` in another thread, and cause a pump when it is done."""


class Committer:
    """The part of the engine that persists and acts. It has one caller at a time; hosts ensure
    that."""

    def __init__(
        self, *, manager: Manager, store: OpenStore, clock: Clock, settings: Settings,
        wake: Callable[[], None] | None, history: History | None, background: Background | None,
    ) -> None:  # fmt: skip
        self.manager = manager
        self.store = store
        self.clock = clock
        self.settings = settings
        self.history = history
        self.background = background
        self.rates = Rates(clock)
        self.measuring = Measuring(self)
        self._turn_ns = ticks_ns()
        """When the present turn of work began."""
        self.pumping = False
        self._wake = wake
        self.inbox: deque[Input] = deque()
        self._owners: dict[int, AnswerTo] = {}
        self._asking: dict[int, Takes] = {}
        self.due = Due()
        """When housekeeping is due."""
        self.history_wanted = False
        """True if the next part of the history is to be written without waiting for more."""
        self._behind = False
        """True if the log has records that are not written yet."""
        self._held_us = NEVER
        """When held records are synced if there is no action before; NEVER if there are none."""
        self.verifying = Verifying(manager, store, clock, self.submit)
        self.fetch = self.verifying.read
        self._perform: dict[type[object], Callable[[Any], None]] = {
            Answer: self._answer,
            Observed: self._observe,
            HistoryWanted: self._want_history,
        }
        """The performer of each kind of action."""

    # ---- what has happened ------------------------------------------------------------------

    def submit(self, item: Input) -> None:
        """Put an input into the inbox. May be called from any thread."""
        self.inbox.append(item)
        if self._wake is not None and len(self.inbox) == 1 and not self.pumping:
            self._wake()

    def nudge(self) -> None:
        """Cause a pump although nothing was put into the inbox."""
        if self._wake is not None and not self.pumping:
            self._wake()

    # ---- what was decided -------------------------------------------------------------------

    def settle(self, decisions: Sequence[Decision]) -> None:
        """Make the records of decisions durable, all together; then perform their actions.

        Records that promise nothing (``forced=False``) are written at the end of the pump: a client
        that waits for an answer does not wait for them.

        Raises:
            StorageFailure: Nothing of it was performed, nor may be, ever.
        """
        append = self.store.append
        any_record = forced = held = False
        new = decisions
        while new:
            for decision in new:
                for record in decision.records:
                    position = append(record.payload, record.head)
                    # The core has already noted addresses that begin there.
                    assert position == record.position, (
                        f"the store put a record at {position}, the core expected {record.position}"
                    )
                    any_record = True
                    forced = forced or record.forced
                    held = held or record.held
            # Between append and sync: if a message to be handed out is damaged, the record that
            # sets it aside gets into the same sync, and the answers can still be changed.
            new = self.verifying.look(new)
            if new:
                decisions = [*decisions, *new]
        if held or self._held_us != NEVER:
            forced = forced or any(decision.actions for decision in decisions)
        if forced:
            self._make_durable()
        elif any_record:
            self._behind = True
            if held and self._held_us == NEVER:
                self._held_us = self.clock.read().mono_us + HELD_US
                self.due.by(self._held_us)
        perform = self._perform
        for decision in decisions:
            for action in decision.actions:
                perform[type(action)](action)
        if self.verifying.kept:
            self.verifying.done()

    def _make_durable(self) -> None:
        """Sync all records up to now."""
        begun_ns = ticks_ns()
        self.store.sync()
        # By hand, without a call: each commit waits for this.
        now_ns, syncs, commits = ticks_ns(), self.measuring.syncs, self.measuring.commits
        sync_ns = now_ns - begun_ns
        syncs.counts[bisect_left(BOUNDS_NS, sync_ns)] += 1
        syncs.total_ns += sync_ns
        commit_ns = now_ns - self._turn_ns if self.pumping else sync_ns
        commits.counts[bisect_left(BOUNDS_NS, commit_ns)] += 1
        commits.total_ns += commit_ns
        self._behind, self._held_us = False, NEVER
        if self.history is not None:
            self.history.mark(self.store.position, self.clock.read().wall_us)

    def set_aside(self, pieces: tuple[DamagedPiece, ...]) -> None:
        """Let the core set messages aside that lie in damaged bytes."""
        self.settle([self.manager.step(self.clock.read(), Spoiled(pieces))])

    def _catch_up(self) -> None:
        """Write the records of the log that are not written yet."""
        self._behind = False
        self.store.flush()

    def _observe(self, action: Observed) -> None:
        if self.history is not None:
            self.history.observe(self.store.position, self.clock.read().wall_us, action)
            self.due.by(0)

    def _want_history(self, action: HistoryWanted) -> None:
        self.history_wanted = self.history is not None
        self.due.by(0)

    # ---- what is handed out -----------------------------------------------------------------

    def answer(self, owner: int, request: int, result: object) -> None:
        """Answer a request whose result is not the core's."""
        if request:
            self._answer(Answer(owner, request, result))

    def _answer(self, action: Answer) -> None:
        to = self._owners.get(action.owner)
        # It has left: OwnerGone aborts its transactions, and nobody hears the rest.
        if to is None:
            return
        result = action.result
        if isinstance(result, Handed):
            takes = self._asking.get(action.owner)
            if takes is not None and not takes(action.request, result):
                return
            handed = result
            try:
                result = delivered(handed, self.fetch)
            except DamagedRecord as error:
                # It was undamaged a moment ago; a client that asks again finds it set aside.
                self._unread(action.owner, handed)
                result = error
        to(action.request, result)

    def _unread(self, owner: int, handed: Handed) -> None:
        """Handle messages that cannot be handed out as decided: a transaction that has taken
        them must not commit."""
        asked = handed.asked
        untold = asked.transaction if isinstance(asked, Receive) else 0
        self.submit(Spoiled(self.verifying.damaged(handed.pieces), owner, untold=untold))
