"""Counters of the service, which complete the metrics of the core.

Durations are taken for each sync, not for each message. The committer updates them itself: a few
reads of a machine counter and two steps in arrays. The disk is read only when somebody asks for
metrics.
"""

from __future__ import annotations

import platform
import sys
from collections import Counter
from dataclasses import replace
from typing import Final, Protocol

from onceq.core.decision import Measured
from onceq.model.views.metrics import Durations
from onceq.store.contract import Store
from onceq.version import __version__

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


class Host(Protocol):
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

    def __init__(self, host: Host) -> None:
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
