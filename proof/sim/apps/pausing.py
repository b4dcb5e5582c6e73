"""Operators of simulated managers that pause queues, and resume them some time later.

Some worlds have them, one at each manager. While a queue is paused they look at it, and take out
messages by their places; some of them forget to resume it, or die of their manager, and another one
finds it paused. In the end the operators that drain the world resume everything (``operators.py``).
Worlds whose managers are put back or copied have none: nobody can say what such a life has of a
pause.

``judge/pauses.py`` says what is demanded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from onceq.errors import OnceqError, QueueNotFound, StorageReserve
from onceq.model.requests import Look, Receive, Seek, Steer, SteerOutgoing
from onceq.model.views import looks as looks
from onceq.model.views.queues import QueueView
from proof.sim.apps.apps import App, Ask, Lost, Program, Sleep
from proof.sim.apps.work import Talk, Work
from proof.sim.base.kernel import Kernel
from proof.sim.judge.books import Place
from proof.sim.judge.holds import Moment
from proof.sim.judge.pauses import NEVER

EVERYWHERE: Final = "ONCEQ_SIM_PAUSES"
"""Environment variable, for the processes of a batch: every world has pauses."""
SHARE = 1.0 if os.environ.get(EVERYWHERE) else 0.115
"""Of all worlds; 1 with ``make sim ARGS=--pauses``."""
FROM: Final = 0.2755
"""Where the draw of these worlds begins, between 0 and 1: so that no seed that was kept before
there were any (``tests/simulation/seeds.txt``) is among them, and all of those keep their stories.
"""
PROGRAMS_MIN: Final = 12
"""Of such operators in a world, or half as many as it has transactions."""
FORGETS: Final = 0.15
"""Of pauses: nobody resumes the queue before somebody comes again."""


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have pauses."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


class Pausing:
    """Programs of such operators."""

    def __init__(self, kernel: Kernel, work: Work, *, fit: bool) -> None:
        """Draw whether a world has them.

        Args:
            fit: Whether it may: no manager is put back or copied.
        """
        self.kernel, self.work, self.pauses = kernel, work, work.pauses
        self.active = fit and (kernel.fresh("paused queues").random() - FROM) % 1 < SHARE
        self.rng = kernel.fresh("pausing")
        self.left = max(kernel.options.transactions // 2, PROGRAMS_MIN)

    def next(self, app: App) -> Program | None:
        """The next thing that an operator does; None: nothing more to do now."""
        if self.left <= 0 or not self.kernel.faulty:
            return None
        places = [
            p for p in self.work.books.places.values()
            if p.node == app.node.index and p.created_us >= 0 > p.deleted_us
        ]  # fmt: skip
        if not places:
            return None
        self.left -= 1
        left = [p for p in places if self.pauses.of(p).open_us == NEVER]
        if left and self.rng.random() < 0.5:
            return self.come_again(app, self.rng.choice(left))
        return self.pause(app, self.rng.choice(places))

    def come_again(self, app: App, place: Place) -> Program:
        """Somebody finds a queue that may be paused, and resumes it."""
        try:
            yield from self.check_view(app, place)
            yield from self.resume(app, place)
        except Lost:
            return

    def pause(self, app: App, place: Place) -> Program:
        """Pause a queue, do something meanwhile, and resume it."""
        rng = self.rng
        try:
            if not (yield from self._steer(app, place, Steer.PAUSE)):
                return
            for _ in range(rng.choice([1, 2, 4])):
                yield Sleep(int(self.kernel.options.think_us * rng.choice([0.5, 2, 6])))
                yield from rng.choice(
                    [self.check_view, self.check_view, self._take_out, self._again]
                )(app, place)
            if rng.random() >= FORGETS:
                yield from self.resume(app, place)
        except Lost:
            return

    def resume(self, app: App, place: Place) -> Talk:
        """Let everybody receive again."""
        yield from self._steer(app, place, Steer.RESUME)

    def _again(self, app: App, place: Place) -> Talk:
        yield from self._steer(app, place, Steer.PAUSE)

    def _steer(self, app: App, place: Place, action: Steer) -> Talk:
        """Ask; whether it was done."""
        pause = action is Steer.PAUSE
        answer = yield Ask(
            SteerOutgoing(place.name, action), lambda: self.pauses.asking(place, pause=pause)
        )
        if not isinstance(answer, OnceqError):
            self.pauses.answered(place, app.node, pause=pause)
            return True
        gone = isinstance(answer, QueueNotFound) and place.deleted_us >= 0
        if not (gone or isinstance(answer, StorageReserve) or not place.number):
            self.kernel.wrong(f"I26: {place} cannot be paused or resumed: {answer!r}")
        return False

    # ---- meanwhile --------------------------------------------------------------------------

    def check_view(self, app: App, place: Place) -> Talk:
        """Check that the view of a queue says whether it is paused."""
        asked: list[int] = []
        view = yield Ask(Look(looks.QUEUE.what, place.name), lambda: asked.append(self.kernel.now))
        if isinstance(view, QueueView):
            self.pauses.check(place, app.node, view, asked[0])

    def _take_out(self, app: App, place: Place) -> Talk:
        """Look at messages, and receive one of them by its place: both is as ever."""
        answer = yield Ask(Receive(place.name, count_max=5, peek=True))
        if not self.work.take(place, answer, None, peek=True):
            return
        yield from self._named(app, place, answer.lookup_ids)

    def _named(self, app: App, place: Place, lookups: Sequence[int]) -> Talk:
        asked: list[Moment] = []
        request = Receive(place.name, lookup=self.rng.choice(lookups), seek=Seek.CURRENT)
        try:
            answer = yield Ask(request, lambda: asked.append(self.work.holds.moment(app.node)))
        except Lost as lost:
            place.leaks += lost.asked
            raise
        self.pauses.named(place, answer)
        if self.work.take(place, answer, None):
            self.work.holds.received(place, app.node, asked[0])
