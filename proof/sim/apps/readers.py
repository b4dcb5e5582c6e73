"""Readers in simulated worlds: they look at messages, write them elsewhere, and then remove them.

Each does what a stream of Spark does. It has a name and a checkpoint, holds its queue by a lease,
plans a batch (noted in the checkpoint before anything else), looks at it, writes it, and removes it
with the record of who has read. A checkpoint may be lost, or be an old copy: then what the manager
remembers must keep the reader out. Drivers die without closing anything, or stand still for longer
than their lease while a second one of the same checkpoint takes their place.

A removal may take only messages that were looked at: any other message that it takes would be
nowhere. The judge's books are ``judge/holds.py`` and ``judge/memories.py``.

Watches: I2, I4 (nothing is removed that was not written; nothing twice), I16, I17, I22, I24.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from onceq.errors import InvalidHandle, OnceqError, SharingViolation
from onceq.model.limits import LEASE_MS_MAX
from onceq.model.requests import (
    Access,
    CloseQueue,
    ForgetReader,
    Look,
    OpenQueue,
    Receive,
    RenewHold,
    Share,
)
from onceq.model.results import Opened
from onceq.model.views import looks as looks
from onceq.model.views.queues import RangeAsked, RangeView, ReaderView
from proof.sim.apps.apps import App, Ask, Lost, Program, Sleep, look_at_all
from proof.sim.apps.removing import Checkpoint, Life, Removing
from proof.sim.apps.work import Talk, Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import MS, SECOND
from proof.sim.judge.books import Key, Place
from proof.sim.judge.holds import Moment

EVERYWHERE: Final = "ONCEQ_SIM_READERS"
"""Environment variable, for the processes of a batch: every world has readers."""
SHARE = 1.0 if os.environ.get(EVERYWHERE) else 0.095
"""Of all worlds; 1 with ``make sim ARGS=--readers``."""
FROM: Final = 0.8485
"""Where the draw of these worlds begins, between 0 and 1: so that no seed that was kept before
there were any (``tests/simulation/seeds.txt``) is among them, and all of those keep their stories.
"""
LIVES_MIN: Final = 16
"""Of readers in a world, or half as many as it has transactions."""
NAMES: Final = ("", "one", "two")
NEW: Final = 0.15
"""Of lives: they begin without a checkpoint."""
OLD: Final = 0.15
"""Of lives: they begin with an old copy of theirs."""
DEAD: Final = 0.3
"""Of lives: they end, and nobody closes their connection."""
HANGS: Final = 0.15
"""Of batches: the reader stands still before it removes what it has written."""
LAST: Final = (1 << 62) - 1


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have readers."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


@dataclass(slots=True, eq=False)
class Stream:
    """A reader of a queue, over all its lives.

    Attributes:
        old: A copy of the checkpoint, made before a batch.
        by: The application that runs it now.
        life: Number of the manager's process when it last removed something.
    """

    name: str
    checkpoint: Checkpoint | None = None
    old: Checkpoint | None = None
    by: App | None = None
    life: int = 0

    @property
    def runs(self) -> bool:
        """Whether a driver has it."""
        return self.by is not None


class Readers:
    """Programs of applications that read so."""

    def __init__(self, kernel: Kernel, work: Work) -> None:
        self.kernel, self.work, self.holds = kernel, work, work.holds
        self.active = (kernel.fresh("readers").random() - FROM) % 1 < SHARE
        self.rng = kernel.stream("reading")
        self.removing = Removing(kernel, work)
        self.memories = self.removing.memories
        self.left = max(kernel.options.transactions // 2, LIVES_MIN)
        self._streams: dict[tuple[Key, str], Stream] = {}
        self._queries = 0

    def next(self, app: App) -> Program | None:
        """The next life of a reader; None: nothing more to do now."""
        if self.left <= 0 or not self.kernel.faulty:
            return None
        places = [
            p for p in self.work.books.places.values()
            if p.node == app.node.index and p.created_us >= 0 > p.deleted_us and p.transactional
        ]  # fmt: skip
        if not places:
            return None
        place = self.rng.choice([places[0], *places])  # They meet at the first one.
        free = [stream for stream in self._of(place) if not stream.runs]
        if not free:
            return None
        self.left -= 1
        return self.read(app, place, self.rng.choice(free))

    def _of(self, place: Place) -> list[Stream]:
        return [self._streams.setdefault((place.key, name), Stream(name)) for name in NAMES]

    # ---- a life -----------------------------------------------------------------------------

    def read(self, app: App, place: Place, stream: Stream) -> Program:
        """From the hold on the queue to its end."""
        stream.by = app
        try:
            yield from self._live(app, place, stream)
        except Lost:
            return
        finally:
            if stream.by is app:
                stream.by = None

    def _live(self, app: App, place: Place, stream: Stream) -> Talk:
        rng = self.rng
        lease_us = max(int(self.kernel.options.think_us * rng.choice([0.5, 2, 8])), SECOND)
        life = Life(app, place, stream.name, min(lease_us // MS, LEASE_MS_MAX) * MS)
        if not (yield from self._open(life)):
            return
        if (yield from self._may_begin(life, stream)):
            for _ in range(rng.choice([1, 1, 2, 4])):
                if not (yield from self._batch(life, stream)):
                    break
        if rng.random() < DEAD:
            return
        self.holds.ending(life.hold)
        yield Ask(CloseQueue(life.hold.handle))
        self.holds.ended(life.hold)

    def _open(self, life: Life) -> Talk:
        """Hold the queue, by a lease."""
        app, place = life.app, life.place
        request = OpenQueue(place.name, Access.RECEIVE, Share.DENY_RECEIVE, "a reader")
        for _ in range(self.rng.choice([1, 2, 6])):
            asked: list[Moment] = []

            def going(asked: list[Moment] = asked) -> None:
                asked.append(self.holds.moment(app.node))

            answer = yield Ask(request, going)
            if isinstance(answer, Opened):
                life.hold = hold = self.holds.granted(place, app.node, answer)
                app.ends.append(partial(self.holds.ended, hold))
                return (yield from self._renew(life))
            if not isinstance(answer, SharingViolation):
                return False  # It was deleted.
            self.holds.refused(place, asked[0])
            yield Sleep(self.kernel.options.think_us)
        return False

    def _renew(self, life: Life) -> Talk:
        """Say that one is still there; whether one is."""
        hold, asked = life.hold, list[Moment]()

        def going() -> None:
            asked.append(self.holds.moment(life.app.node))
            self.holds.renewing(hold, life.lease_us)

        answer = yield Ask(RenewHold(hold.handle, life.lease_us // MS), going)
        if answer is None:
            self.holds.renewed(hold, asked[0])
        elif isinstance(answer, InvalidHandle):
            self.holds.denied(hold)
        else:
            self.kernel.wrong(f"I16: a hold is renewed: {answer!r}")
        return answer is None

    # ---- where it begins ----------------------------------------------------------------------

    def _may_begin(self, life: Life, stream: Stream) -> Talk:
        """Whether what the manager remembers lets a checkpoint begin, or go on."""
        place, rng = life.place, self.rng
        views = yield from look_at_all(looks.READERS.what, place.name)
        if isinstance(views, OnceqError):
            return False
        self.memories.check(place, views)
        found = next((view for view in views if view.reader == stream.name), None)
        if found is not None and stream.life not in (0, life.app.node.life):
            self.kernel.marks[marks.READ_ELSEWHERE] += 1
        draw = rng.random()
        if stream.checkpoint is None or draw < NEW:
            if found is not None and not (yield from self._allowed(life, found)):
                return False
            self._queries += 1
            stream.checkpoint, stream.old = Checkpoint(f"query {self._queries}"), None
        elif draw < NEW + OLD and stream.old is not None:
            self.kernel.marks[marks.OLD_CHECKPOINT] += _behind(stream.old, found)
            return False  # And its people look for the newest one.
        elif _behind(stream.checkpoint, found):
            self.kernel.wrong(f"I4: {place} knows {found}, and that is {stream.checkpoint}")
        life.checkpoint = stream.checkpoint
        return True

    def _allowed(self, life: Life, found: ReaderView) -> Talk:
        """One of its name has read before: somebody must allow it to start again."""
        self.kernel.marks[marks.READ_BEFORE] += 1
        if self.rng.random() < 0.5:
            return False  # They take the checkpoint that they have.
        self.memories.forgetting(life.place, found.reader)
        answer = yield Ask(ForgetReader(life.place.name, found.reader))
        return answer is None

    # ---- a batch ------------------------------------------------------------------------------

    def _batch(self, life: Life, stream: Stream) -> Talk:
        """Plan, look, write, remove; whether there may be another one."""
        place, at, rng = life.place, life.checkpoint, self.rng
        if not (yield from self._renew(life)):
            return False
        most = 0 if at.planned else rng.choice([1, 3, 10])
        asked = RangeAsked(place.name, at.to, at.planned or LAST, most)
        view = yield Ask(Look(looks.RANGE.what, asked.text()))
        if isinstance(view, OnceqError) or (at.planned and (view.locked or view.more)):
            return False
        seen = yield from self._look_up(life, view)
        if not seen and not at.planned:
            yield Sleep(self.kernel.options.think_us)
            return True
        if not at.planned:
            stream.old, at.planned = replace(at), seen[-1]
        if rng.random() < HANGS:
            if not (yield from self._hang(life, stream)):
                return False
        elif rng.random() < 0.5 and not (yield from self._renew(life)):
            return False
        stream.life = life.app.node.life
        return (yield from self.removing.remove(life, seen))

    def _look_up(self, life: Life, view: RangeView) -> Talk:
        """The lookup identifiers of a range that is free of locks, by looking at its messages."""
        place, after = life.place, life.checkpoint.to
        seen: list[int] = []
        while len(seen) < view.messages and after < view.to:
            answer = yield Ask(Receive(place.name, count_max=10, peek=True, after=after))
            if not self.work.take(place, answer, None, peek=True):
                break
            after = answer.lookup_ids[-1]
            seen += [lookup for lookup in answer.lookup_ids if lookup <= view.to]
        if view.to == LAST:
            del seen[view.messages :]  # They came since.
        elif len(seen) > view.messages:
            self.kernel.wrong(f"I18: {place} has {view} in a range, and {seen}")
        return seen

    def _hang(self, life: Life, stream: Stream) -> Talk:
        """Stand still; another driver may take the place of this one. Whether none did."""
        stream.by = None
        yield Sleep(int(life.lease_us * self.rng.choice([0.5, 2, 6])))
        if life.hold.over:
            yield from self.removing.try_in_vain(life)
            return False
        if stream.runs:
            return False
        stream.by = life.app
        return True


def _behind(checkpoint: Checkpoint, found: ReaderView | None) -> bool:
    """Whether a checkpoint is older than what was removed by it."""
    known: Sequence[ReaderView] = [found] if found is not None else []
    return any(one.query == checkpoint.query and one.to > checkpoint.at for one in known)
