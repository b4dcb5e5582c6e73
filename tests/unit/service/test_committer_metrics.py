"""What the service adds to what the core has counted."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from onceq.core.decision import Measured
from onceq.model.requests import Look
from onceq.model.views.view import MetricsView
from onceq.service import committer, engine
from onceq.service.committer import BOUNDS_NS, NS, Histogram, Measuring
from onceq.store.log import LogStore
from onceq.store.memory import MemoryStore
from onceq.testing.links import faithful
from onceq.version import __version__
from tests.conformance.world import World

ORDER_ACK = 1
"""Kind of a packet on its way."""


@dataclass
class Host:
    """In place of an engine."""

    store: Any = field(default_factory=MemoryStore)
    answers: list[tuple[int, int, object]] = field(default_factory=list)

    def answer(self, owner: int, request: int, result: object) -> None:
        self.answers.append((owner, request, result))


def view_of(host: Host, measuring: Measuring) -> MetricsView:
    measuring.perform(Measured(7, 9, MetricsView(sent=3)))
    owner, request, view = host.answers.pop()
    assert (owner, request) == (7, 9)
    assert isinstance(view, MetricsView)
    return view


def test_what_the_core_has_counted_is_completed() -> None:
    host = Host()
    measuring = Measuring(host)
    measuring.turned_away["peers"] += 2
    view = view_of(host, measuring)
    assert (view.sent, view.version, view.turned_away) == (3, __version__, {"peers": 2})
    assert view.impl.startswith("cpython-") or "-" in view.impl
    assert view.disk_free == host.store.free_bytes()
    assert view.store_bytes == {"log": host.store.disk_bytes()}


def test_a_sync_falls_into_the_class_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("A")
    node = world["A"]
    node.create("q")
    measuring = node.running.measuring
    before = sum(measuring.syncs.counts)
    ticks = count(0, BOUNDS_NS[3])
    monkeypatch.setattr(committer, "ticks_ns", lambda: next(ticks))
    monkeypatch.setattr(engine, "ticks_ns", lambda: next(ticks))
    node.once("private$\\q", b"a")
    assert sum(measuring.syncs.counts) == before + 1
    assert measuring.syncs.counts[3] >= 1, "an upper bound belongs to its class"
    assert sum(measuring.commits.counts) == before + 1
    view = node.ask(Look("metrics"))
    assert isinstance(view, MetricsView)
    assert view.commits.total_s > view.syncs.total_s > 0
    assert len(view.syncs.counts) == len(view.syncs.bounds) + 1


def test_what_takes_longest_has_a_class_too() -> None:
    assert bisect_left(BOUNDS_NS, 3_600 * NS) == len(Histogram().counts) - 1


def test_what_is_sent_again_is_counted() -> None:
    world = World("A", "B")
    world["B"].create("q")
    link = world.link("A", "B")
    link.policy = lambda passing: [] if passing.kind == ORDER_ACK else faithful(passing)
    world["A"].once("DIRECT=OS:B\\private$\\q", b"a", b"b")
    world.run(100)
    view = world["A"].ask(Look("metrics"))
    assert isinstance(view, MetricsView)
    assert view.resent >= 2
    assert view.outgoing[0].peer == "b"
    there = world["B"].ask(Look("metrics"))
    assert isinstance(there, MetricsView)
    assert there.accepted == 2


def test_the_parts_of_a_store_are_all_of_it() -> None:
    store = World("A")["A"].running.store
    assert isinstance(store, LogStore)
    parts = store.disk_parts()
    assert sum(parts.values()) == store.disk_bytes()
    assert set(parts) == {"log", "ready", "checkpoint"}
