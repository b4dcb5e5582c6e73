"""How simulated readers remove what they have written: in a transaction, or at once and for good.

In a transaction the outcome of its commit is asked for, as of any other. Of a removal at once whose
answer was lost nobody can ask: there what the manager remembers of the reader tells whether it
happened, and the messages must agree.

Watches: I2, I4, I16, I17.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from onceq.errors import InvalidHandle, OnceqError
from onceq.model.requests import Abort, Begin, TakeRead
from onceq.model.views import looks as looks
from onceq.model.views.queues import ReaderView
from proof.sim.apps.apps import App, Ask, Lost, Sleep, look_at_all
from proof.sim.apps.work import Talk, Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import MINUTE, SECOND
from proof.sim.judge.books import Place, Reading, Status, Unit
from proof.sim.judge.holds import Hold, Moment
from proof.sim.judge.memories import Memories

AT_ONCE: Final = 0.4
"""Of removals: outside a transaction."""
KEPT: Final = 0.25
"""Of removals: the journal of the queue is to keep copies."""
AGAIN: Final = 0.3
"""Of removals: they are asked for a second time."""


@dataclass(slots=True)
class Checkpoint:
    """How far a query is.

    Attributes:
        to: The last place that it has removed.
        planned: The last place of the batch that is planned; 0: none is.
    """

    query: str
    to: int = 0
    planned: int = 0

    @property
    def at(self) -> int:
        """The last place that it may have removed."""
        return self.planned or self.to


@dataclass(slots=True, eq=False)
class Life:
    """One life of a reader."""

    app: App
    place: Place
    name: str
    lease_us: int
    hold: Hold = field(init=False)
    checkpoint: Checkpoint = field(init=False)
    before: int = 0
    """The last place before the batch that was removed last."""


class Removing:
    """See the module."""

    def __init__(self, kernel: Kernel, work: Work) -> None:
        self.kernel, self.work = kernel, work
        self.ledger, self.holds = work.ledger, work.holds
        self.memories = Memories(kernel)
        self.rng = kernel.stream("reading")

    def remove(self, life: Life, seen: Sequence[int]) -> Talk:
        """Remove the batch that is planned; whether the reader may go on.

        Args:
            seen: What was looked at, and written.
        """
        keep = self.rng.random() < KEPT
        life.place.keeps = life.place.keeps or keep
        how = self._at_once if self.rng.random() < AT_ONCE else self._in_transaction
        if not (yield from how(life, seen, keep=keep)):
            return False
        if life.checkpoint.planned:
            return True  # Not all of it was there any more: it is planned again.
        return (yield from self._look_again(life))

    def try_in_vain(self, life: Life) -> Talk:
        """A reader that was replaced, and does not know it."""
        yield from self._take(life, 0, life.checkpoint.at)

    def _take(
        self, life: Life, number: int, to: int, *, keep: bool = False,
        going: Callable[[], None] | None = None,
    ) -> Talk:  # fmt: skip
        """Ask; how many were removed, or None: it was refused."""
        asked: list[Moment] = []

        def gone() -> None:
            asked.append(self.holds.moment(life.app.node))
            if going is not None:
                going()

        query = life.checkpoint.query
        answer = yield Ask(
            TakeRead(
                life.place.name, number, life.checkpoint.to + 1, to, life.hold.handle, life.name,
                query, "a reader", keep,
            ),
            gone,
        )  # fmt: skip
        if isinstance(answer, InvalidHandle):
            self.holds.denied(life.hold)
        if isinstance(answer, OnceqError):
            return None
        self.holds.used(life.hold, asked[0])
        return answer

    def _check(self, life: Life, took: int, seen: Sequence[int]) -> None:
        if took > len(seen):
            self.kernel.wrong(
                f"I4: {took} messages of {life.place} are removed, and {len(seen)} were written"
            )

    # ---- in a transaction -----------------------------------------------------------------

    def _in_transaction(self, life: Life, seen: Sequence[int], *, keep: bool) -> Talk:
        app, place, name, to = life.app, life.place, life.name, life.checkpoint.planned
        unit, number = self.ledger.unit(app.node.index), app.number()
        try:
            yield Ask(Begin(number))
            took = yield from self._take(life, number, to, keep=keep)
            if took is not None:
                self._check(life, took, seen)
            exact = took == len(seen)
            if exact:
                self._hold(place, unit, seen)
            if not exact or self.rng.random() < self.kernel.options.aborts:
                # Who had what was not there any more, nobody can say.
                place.slack += bool(took) and not exact
                yield Ask(Abort(number))
                self.ledger.aborted(unit)
                return took is not None
            self.memories.removing(place, name, Reading(life.checkpoint.query, to))
            yield from self.work.commit(app, unit, number, [])
        except Lost as lost:
            place.slack += lost.asked and not unit.takes
            yield from self.work.lost(app, unit)
            self._settle(life, unit, to, keep=keep)
            return False
        self._settle(life, unit, to, keep=keep)
        return unit.status is Status.COMMITTED

    def _hold(self, place: Place, unit: Unit, seen: Sequence[int]) -> None:
        for lookup in seen:
            if lookup in place.held:
                self.kernel.wrong(f"I16: {place} removes {lookup}, which a transaction holds")
            place.held[lookup] = unit
            unit.takes.append((place, lookup, place.lookups[lookup]))

    def _settle(self, life: Life, unit: Unit, to: int, *, keep: bool) -> None:
        """The outcome is known."""
        if unit.undone or unit.status is not Status.COMMITTED:
            self.memories.kept(life.place, life.name)
            return
        self._done(life, to, [lookup for _, lookup, _ in unit.takes] if keep else [])

    def _done(self, life: Life, to: int, kept: Sequence[int]) -> None:
        life.before = life.checkpoint.to
        life.checkpoint.to, life.checkpoint.planned = to, 0
        self.memories.removed(life.place, life.name)
        for lookup in kept:
            self.kernel.marks[marks.READ_KEPT] += 1
            uid = life.place.lookups[lookup]
            self.work.books.messages[uid].copies[life.place.key].kept = True

    # ---- at once --------------------------------------------------------------------------

    def _at_once(self, life: Life, seen: Sequence[int], *, keep: bool) -> Talk:
        place, to = life.place, life.checkpoint.planned
        unit = self.ledger.unit(life.app.node.index)  # While it is asked for nothing is copied.
        self.memories.removing(place, life.name, Reading(life.checkpoint.query, to))

        def going() -> None:
            unit.status = Status.ASKED

        try:
            took = yield from self._take(life, 0, to, keep=keep, going=going)
        except Lost as lost:
            if lost.asked:
                unit.status = Status.DOUBT
                yield from self._find_out(life, unit, seen)
            else:
                unit.status = Status.ABORTED
                self.memories.kept(place, life.name)
            return False
        unit.status = Status.ABORTED if took is None else Status.COMMITTED
        if took is None:
            self.memories.kept(place, life.name)
            return False
        self._check(life, took, seen)
        if took < len(seen):
            place.leaks += took
        else:
            for lookup in seen:
                self.ledger.taken(place, lookup, place.lookups[lookup])
        self._done(life, to, seen if keep and took == len(seen) else ())
        return True

    def _find_out(self, life: Life, unit: Unit, seen: Sequence[int]) -> Talk:
        """The answer was lost: what is remembered says whether it happened."""
        place, name, to = life.place, life.name, life.checkpoint.planned
        while True:
            try:
                yield Sleep(self.rng.choice([SECOND, MINUTE]))
                views = yield from look_at_all(looks.READERS.what, place.name)
            except Lost:
                continue
            break
        found = None if isinstance(views, OnceqError) else _of(views, name)
        old = place.readings.get(name)
        unit.status = Status.ABORTED
        if unit.undone:
            self.memories.kept(place, name)
        elif found is not None and found.query == life.checkpoint.query and found.to >= to:
            unit.status = Status.COMMITTED
            self.kernel.marks[marks.READ_FOUND_DONE] += 1
            place.gone.update(seen)
            place.leaks += len(seen)
            self._done(life, to, ())
        else:
            self.memories.kept(place, name)
            if (found and (found.query, found.to)) == old and not isinstance(views, OnceqError):
                self.kernel.marks[marks.READ_FOUND_NOT_DONE] += 1
            if found is None:  # It may have made room for another one since, or be deleted.
                place.leaks += len(seen)
        if not isinstance(views, OnceqError):
            self.memories.check(place, views)

    # ---- behind it ------------------------------------------------------------------------

    def _look_again(self, life: Life) -> Talk:
        """What was removed is remembered, and removing it again does nothing."""
        place, to = life.place, life.checkpoint.to
        if self.rng.random() < AGAIN:
            life.checkpoint.to = life.before
            self.memories.removing(place, life.name, Reading(life.checkpoint.query, to))
            try:
                took = yield from self._take(life, 0, to)
            finally:
                life.checkpoint.to = to
            if took is None:
                self.memories.kept(place, life.name)
                return False
            self._check(life, took, ())
            self.kernel.marks[marks.READ_TWICE] += 1
            self.memories.removed(place, life.name)
        views = yield from look_at_all(looks.READERS.what, place.name)
        if isinstance(views, OnceqError):
            return False
        self.memories.check(place, views)
        return True


def _of(views: Sequence[ReaderView], name: str) -> ReaderView | None:
    return next((view for view in views if view.reader == name), None)
