"""An operator of one of two copies holds the messages there, and removes them on news of both.

The other one of the two delivers the messages that this one holds. The operator reads in the log
that there are two, and purges the outgoing queue: it must not be said then of what it held that it
was never delivered (``judge/siblings.py``).

Watches: I11 over copies.
"""

from __future__ import annotations

from typing import Final

from onceq.errors import OnceqError
from onceq.model.requests import Steer, SteerOutgoing
from proof.sim.apps.apps import App, Ask, Program, Sleep, look_at_all, once
from proof.sim.apps.operators import Operators
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import MINUTE, MS
from proof.sim.base.pair import Pair
from proof.sim.judge.books import Place
from proof.sim.judge.siblings import Siblings

SHARE: Final = 0.5
"""Of the worlds with two copies."""
LOOKS: Final = 120
"""So often the operator looks, once a minute, whether another copy is known of."""


class OnHold:
    """See the module."""

    def __init__(
        self, kernel: Kernel, pair: Pair, siblings: Siblings, operators: Operators,
    ) -> None:  # fmt: skip
        self.kernel, self.pair, self.siblings, self.operators = kernel, pair, siblings, operators
        self.rng = kernel.stream("on hold")

    def begin(self) -> list[App]:
        """The copy has just started; the operator, if there is one."""
        if self.rng.random() >= SHARE:
            return []
        return [once(self.rng.choice(self.pair.both), MS, self._hold)]

    def _hold(self, app: App) -> Program:
        views = yield from look_at_all("outgoing", safe=True)
        held: list[tuple[str, Place]] = []
        for view in () if isinstance(views, OnceqError) else views:
            place = self.operators.place_of(view.destination)
            if view.unacknowledged and place is not None:
                held.append((view.destination, place))
                yield Ask(SteerOutgoing(view.destination, Steer.PAUSE), safe=True)
        for _ in range(LOOKS):
            if self.siblings.knows(app.node):
                break
            yield Sleep(MINUTE)
        for name, place in held:
            yield from self.operators.purge_outgoing(app, name, place)
            yield Ask(SteerOutgoing(name, Steer.RESUME), safe=True)
