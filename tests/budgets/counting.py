"""Counts what a queue manager does for an operation: calls, pumps, syncs, writes, clock reads.

The managers are engines of the conformance world, in one thread and with a time of its own: the
same work gives the same counts, on every machine. Whose work a call is says the manager that was
entered last: its pump, its timer, the data of its connections.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from onceq.service.api import ApiConnection
from onceq.service.engine import Engine
from onceq.store.log import LogStore
from onceq.testing.disk import SimFiles
from tests.budgets.daemon import Wire
from tests.conformance import world as worlds
from tests.conformance.clocks import HostClock
from tests.conformance.world import Node

SOURCE = str(Path(worlds.__file__).resolve().parents[2] / "src" / "onceq")
SIMULATED = f"{SOURCE}/testing/"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one operation costs one queue manager.

    Attributes:
        calls: Of Python functions of onceq, without those of the simulated disk and network.
        pumps: Turns of the engine.
        records: Appended to the log.
        syncs: Of files.
        writes: To files.
        packets: Writes to connections of other queue managers.
        clock: Reads of the clock.
        trips: Writes of a client, each followed by a wait for its answers.
        frames: Of a client and to it.
    """

    calls: float
    pumps: float
    records: float
    syncs: float
    writes: float
    packets: float
    clock: float
    trips: float = 0
    frames: float = 0

    def over(self, budget: Cost) -> list[str]:
        """What is more than a budget, in words."""
        return [
            f"{name}: {found:g}, and {allowed:g} is the budget"
            for name in self.__slots__
            if (found := getattr(self, name)) > (allowed := getattr(budget, name))
        ]


class Counting:
    """Counts for one manager at a time; see ``counted``."""

    def __init__(self) -> None:
        self.at = ""
        self.found: dict[str, Counter[CodeType]] = {}

    def heard(self, frame: FrameType, event: str, argument: object) -> None:
        """A profiler of Python calls this at each call and return."""
        if event == "call" and self.at:
            self.found.setdefault(self.at, Counter())[frame.f_code] += 1

    def cost(self, name: str, operations: int) -> Cost:
        """What each of so many operations has cost one manager."""
        found = self.found.get(name, Counter())

        def of(function: Any) -> float:
            return found[function.__code__] / operations

        calls = sum(
            count for code, count in found.items()
            if code.co_filename.startswith(SOURCE) and not code.co_filename.startswith(SIMULATED)
        )  # fmt: skip
        return Cost(
            calls=calls / operations, pumps=of(Engine.pump), records=of(LogStore.append),
            syncs=of(SimFiles.sync), writes=of(SimFiles.write), packets=of(worlds._End.write),
            clock=of(HostClock.read), trips=of(Wire.sendmsg),
            frames=of(ApiConnection._request) + of(ApiConnection._answer),
        )  # fmt: skip


def _entering(counting: Counting, name: Callable[..., str], entry: Callable[..., Any]) -> Any:
    def entered(*arguments: Any) -> Any:
        before, counting.at = counting.at, name(*arguments)
        try:
            return entry(*arguments)
        finally:
            counting.at = before

    return entered


@contextmanager
def counted(patch: Any) -> Iterator[Counting]:
    """Count what every manager does in this block.

    Args:
        patch: pytest's monkeypatch.
    """
    counting = Counting()

    def of_node(node: Node, *more: object) -> str:
        return node.identity.name

    def of_client(wire: Wire, *more: object) -> str:
        return wire.node.identity.name

    def of_side(wire: worlds._Wire, side: int, *more: object) -> str:
        return wire.names[side]

    with patch.context() as planted:
        for entry in ("pump", "_ring", "ask_as"):
            planted.setattr(Node, entry, _entering(counting, of_node, getattr(Node, entry)))
        planted.setattr(worlds._Wire, "deliver", _entering(counting, of_side, worlds._Wire.deliver))
        planted.setattr(Wire, "sendmsg", _entering(counting, of_client, Wire.sendmsg))
        before = sys.getprofile()
        sys.setprofile(counting.heard)
        try:
            yield counting
        finally:
            sys.setprofile(before)
