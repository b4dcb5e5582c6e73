"""The trail of each manager: whole after each start and in the end, and as others hold it.

The product's own check compares them, the one of ``onceq trail verify``: it recounts the
digests of all acts, and holds the ends that other managers were told against them.

Watches: I28 (who did something is known).
"""

from __future__ import annotations

from onceq.core.management.trail import acts, end
from onceq.core.manager import Manager
from onceq.model.audit_trail import TrailCheck
from onceq.model.identity import guid_text
from onceq.model.views.managers import ActView
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node


class Trails:
    """See the module."""

    def __init__(self, kernel: Kernel, nodes: list[Node]) -> None:
        self.kernel, self.nodes = kernel, nodes

    def check(self, node: Node) -> None:
        """Check a manager that has started, or the world at its end."""
        assert node.engine is not None, "it runs"
        check, manager = TrailCheck(), node.engine.manager
        check.store(end(manager._step), _acts(manager))
        own = guid_text(node.guid)
        for other in self.nodes:
            if other is not node and other.engine is not None:
                held = end(other.engine.manager._step).heads
                check.heads([head for head in held if head.peer == own], other.name)
        if check.report.wrong:
            self.kernel.wrong(f"I28: the trail of {node.name}: {'; '.join(check.report.wrong)}")
        again = node.life > 1
        self.kernel.marks[marks.TRAIL_WHOLE] += again and check.report.acts > 0
        self.kernel.marks[marks.TRAIL_HELD] += again and check.report.heads > 0


def _acts(manager: Manager) -> list[ActView]:
    """All acts that are kept."""
    found: list[ActView] = []
    while more := acts(manager._step, str(found[-1].number) if found else ""):
        found += more
    return found
