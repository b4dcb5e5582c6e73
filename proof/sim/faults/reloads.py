"""Operators of simulated managers that change the settings and have them read again.

Some worlds have them. Each manager has its settings in a file, as it were; they change at random
moments, and the running manager reads them again, by the product's own code (``service/reloading``,
what ``onceq qm reload`` does). After a start they hold as well.

Watches: I26 (nothing waits without end because the settings have changed).
"""

from __future__ import annotations

from collections.abc import Mapping

from onceq.errors import OnceqError
from onceq.model.requests import Steer, SteerOutgoing
from onceq.service.config import Configuration
from onceq.service.engine import Engine
from onceq.service.peer_transports import Doors
from onceq.service.reloading import reloading
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import draw_settings

SHARE = 0.3
"""Of the worlds with lives (``lives.py``)."""


class Reloads:
    """Plans the next change of settings after each one."""

    def __init__(self, kernel: Kernel, nodes: list[Node], *, lives: bool) -> None:
        self.kernel, self.nodes = kernel, nodes
        self.rng = kernel.stream("reloads")
        self.active = lives and self.rng.random() < SHARE
        if self.active:
            every_us = kernel.options.safety_us // self.rng.randint(4, 20)
            kernel.at_times(self.rng, every_us, self._reload)

    def _reload(self) -> None:
        """A file says something else now; a manager that runs is told to read it."""
        node = self.rng.choice(self.nodes)
        node.settings = draw_settings(self.rng, self.kernel.options.safety_us)
        self.kernel.note("reload", node.name)
        node.run(self._ask)

    def _ask(self, engine: Engine) -> None:
        def answered(request: int, result: object) -> None:
            if isinstance(result, OnceqError):
                self.kernel.wrong(f"settings are not reloaded: {result!r}")
            self.kernel.marks[marks.RELOADED] += 1

        engine.submit(SteerOutgoing("", Steer.RELOAD, owner=engine.owner(answered), request=1))


class _NoAddresses:
    """A network whose addresses do not change."""

    doors = Doors()

    def reconfigure(self, peers: Mapping[str, str]) -> None:
        """See ``service.reloading.Reconfigured``."""


def reads_again(node: Node, engine: Engine) -> None:
    """Let an engine have the settings of its node, now and when it is told to read them again."""
    held = Configuration(settings=node.settings)
    reloading(engine, _NoAddresses(), held, lambda: Configuration(settings=node.settings))
