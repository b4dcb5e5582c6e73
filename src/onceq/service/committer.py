"""Make decisions durable, all together, and only then carry them out.

Beside it are the counters of the service, the history of this manager, and the hold that a backup
has on the files of the log.

Decisions come with records and actions. Records are appended, and synced if one of them is forced.
Actions are performed in order after that sync, never before. A record that is held is synced when
there is an action, of its own decision or of a later one; if there is none, after a moment. If the
sync fails no action is performed, ever. Inputs go into the inbox, which the engine processes
(``engine.py``).

Upholds: I1, I9 (by the order of persisting and acting), I24 (a lost backup keeps segments for a
bounded time only).
"""

from __future__ import annotations

import importlib
import logging
import platform
import sys
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar, cast

from onceq import errors
from onceq.core.decision import Answer, Decision, Handed, HistoryWanted, Hold, Measured, Observed
from onceq.core.inputs import Input, Spoiled
from onceq.core.manager import Manager
from onceq.model.identity import Identity
from onceq.model.limits import BACKUP_HOLD_S
from onceq.model.marks import SECOND_US, Now
from onceq.model.requests import Grip, Receive
from onceq.model.settings import Settings
from onceq.model.views.managers import BackupHold
from onceq.model.views.view import Durations
from onceq.service.answers import Verifying, delivered
from onceq.service.clock import NEVER, Clock, Due, at, ticks_ns
from onceq.service.logs import event
from onceq.service.pacing import Rates
from onceq.store.contract import Recovered, Store
from onceq.store.files import Files
from onceq.store.log import LogStore
from onceq.version import __version__

# ---- metrics -------------------------------------------------------------------------------------
#
# Counters of the service, which complete the metrics of the core.


NS: Final = 1_000_000_000
BOUNDS_NS: Final = tuple(
    int(bound * NS)
    for bound in (
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
        10,
    )
)  # fmt: skip
"""Upper bounds of the classes: from a good solid-state disk to a hung one."""
IMPL: Final = f"{sys.implementation.name}-{platform.python_version()}"


class Histogram:
    """Durations of one kind of work. Callers add to it directly, because each commit waits for
    that."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_NS) + 1)
        self.total_ns = 0

    def view(self) -> Durations:
        """Return the current counts."""
        bounds = tuple(bound / NS for bound in BOUNDS_NS)
        return Durations(bounds, tuple(self.counts), self.total_ns / NS)


class MeteredEngine(Protocol):
    """The part of the engine that metrics need."""

    @property
    def store(self) -> Store:
        """Return its store."""

    def answer(self, owner: int, request: int, result: object) -> None:
        """Answer a request whose result is not the core's."""


class Measuring:
    """Counters of the service of one queue manager.

    Attributes:
        commits: From the beginning of a turn of work until what it decided was durable.
        syncs: Waits for the disk in these.
        turned_away: Connections that were not let in, by kind.
    """

    def __init__(self, host: MeteredEngine) -> None:
        self._host = host
        self.commits = Histogram()
        self.syncs = Histogram()
        self.turned_away: Counter[str] = Counter()

    def perform(self, action: Measured) -> None:
        """Add what only the service knows, and answer."""
        store = self._host.store
        view = replace(
            action.view,
            version=__version__,
            impl=IMPL,
            commits=self.commits.view(),
            syncs=self.syncs.view(),
            turned_away=dict(self.turned_away),
            store_bytes=_kinds(store),
            disk_free=store.free_bytes(),
        )
        self._host.answer(action.owner, action.request, view)


def _kinds(store: Store) -> dict[str, int]:
    """Return what a store takes on the disk, by kind."""
    parts = getattr(store, "disk_parts", None)
    return dict(parts()) if parts is not None else {"log": store.disk_bytes()}


# ---- history -------------------------------------------------------------------------------------
#
# The history of this manager, if its setting asks for one: found by name, fed by the engine.


class History(Protocol):
    """What keeps a history: ``onceq.history.keeper.Keeper``."""

    @property
    def position(self) -> int:
        """Return the position before which everything is recorded, or known to be missing."""

    @property
    def notes(self) -> int:
        """Return the number of events in memory, which wait even if the log has nothing more to
        report."""

    def mark(self, position: int, wall_us: int) -> None:
        """Note that everything before a log position is durable at that time."""

    def observe(self, position: int, wall_us: int, what: Observed) -> None:
        """Note an event that has no record."""

    def covered(self, position: int) -> None:
        """Note that a checkpoint is in force."""

    def needs(self, base: int, end: int) -> bool:
        """Return True if a part of the log must stay; not to be called while ``project`` runs."""

    def project(self, upto: int, wall_us: int) -> None:
        """Go on up to a position that is durable; slow, in any thread, never raises."""


def history_of(store: LogStore, files: Files, settings: Settings) -> History | None:
    """Return the history of the manager in a store; None if none is wanted.

    Raises:
        ConfigurationError: A library is missing.
        StorageFailure: Its folder cannot be used.
    """
    if not settings.history:
        return None
    try:
        made = importlib.import_module("onceq.history.keeper").keeper
    except ModuleNotFoundError as error:
        raise errors.ConfigurationError(
            f"settings.history needs the package {error.name}: pip install 'onceq[history]', or "
            "set history = false"
        ) from None
    return cast(History, made(store, files, store.path, Identity.unpack(store.identity), settings))


# ---- committer -----------------------------------------------------------------------------------


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
            new = self.verifying.read_handed(new)
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

    def set_aside(self, pieces: tuple[errors.DamagedPiece, ...]) -> None:
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
            except errors.DamagedRecord as error:
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


# ---- holding -------------------------------------------------------------------------------------
#
# A hold on the files of the log, for a backup that a client process copies.


class Holding:
    """At most one hold."""

    def __init__(self, committer: Committer, reclaim: Callable[[], None]) -> None:
        self._committer, self._reclaim = committer, reclaim
        self._owner = 0
        self._number = 0
        self._until_us = 0
        """When (monotonic us) it ends by itself; 0 if nothing is held."""
        self._low = False
        self._over = "it is not known to this queue manager, which may have been started since"
        """Why the last one is over."""

    def perform(self, action: Hold) -> None:
        """Perform a request about the hold, and answer."""
        try:
            result: object = None
            if action.grip == Grip.BEGIN.value:
                result = self._begin(action)
            else:
                self._go_on(action)
        except errors.OnceqError as error:
            if error.exit_code == 7:  # a disk that fails is everybody's matter
                raise
            result = error
        self._committer.answer(action.owner, action.request, result)

    def _begin(self, action: Hold) -> BackupHold:
        if self._until_us:
            raise errors.InsufficientResources(
                "a backup of this queue manager is being made; wait until it has ended"
            )
        if self._low:
            raise errors.StorageReserve(
                "the disk is nearly full, and a backup would keep the log from being given back; "
                "free some space first"
            )
        cut = self._committer.store.hold()
        self._owner = action.owner
        self._number += 1
        self._hold_on()
        event("backup begun", position=cut.position)
        return BackupHold(self._number, cut, BACKUP_HOLD_S)

    def _hold_on(self) -> None:
        self._until_us = self._committer.clock.read().mono_us + int(BACKUP_HOLD_S * SECOND_US)
        self._committer.due.by(self._until_us)

    def _go_on(self, action: Hold) -> None:
        mine = (action.owner, action.number) == (self._owner, self._number)
        if not (self._until_us and mine):
            raise errors.BackupOver(f"the backup cannot be finished: {self._over}")
        if action.grip == Grip.KEEP.value:
            self._hold_on()
        else:
            self._let_go("it was ended")

    def _let_go(self, why: str, level: int = logging.INFO) -> None:
        self._until_us = 0
        self._over = why
        self._committer.store.release()
        self._reclaim()
        event("backup let go", level=level, reason=why)

    # ---- how it ends otherwise ----------------------------------------------------------------

    def gone(self, owner: int) -> None:
        """End the hold of an application that is gone."""
        if self._until_us and owner == self._owner:
            # Not here: this may be called outside of a pump, where segments must not be given back.
            self._until_us = 1  # with the next pump, which has the engine to itself
            self._committer.due.by(self._until_us)
            self._over = "its connection was lost"

    def check_hold(self, now: Now, *, low: bool) -> None:
        """End a hold that lasts too long, or is on a disk that is nearly full."""
        self._low = low
        if not self._until_us:
            return
        if low:
            self._let_go("the disk got nearly full meanwhile", logging.WARNING)
        elif self._until_us <= now.mono_us:
            lost = self._until_us == 1
            why = self._over if lost else f"nothing was heard of it for {BACKUP_HOLD_S:.0f} s"
            self._let_go(why, logging.WARNING)

    def due(self) -> Due:
        """Return when it ends by itself."""
        return at(self._until_us or None)
