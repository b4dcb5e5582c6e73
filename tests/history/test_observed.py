"""What is seen and leaves no record: it reaches a file in time, also when nothing else happens."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from onceq.audit import files
from onceq.history.columns import span_of
from onceq.model.settings import Settings
from onceq.service import upkeep
from tests.conformance.world import Node
from tests.history.worlds import HISTORY, History, Kept

Q, LOCAL = r"DIRECT=OS:B\private$\q", r"private$\q"
SETTINGS = replace(HISTORY, resend_first_s=20.0, resend_second_s=20.0)


def unanswered(settings: Settings = SETTINGS) -> Kept:
    """A sends to B and hears nothing: all it does is to send again, which no record tells."""
    world = Kept("A", "B", settings=settings)
    world["B"].create("q")
    world.link("A", "B").policy = lambda p: [] if p.kind == 1 else [(0, p)]
    world["A"].once(Q, b"1")
    world.run(6)
    return world


def seen(node: Node) -> list[str]:
    """What files say of it, without asking the manager for more."""
    rows = History(node.files, "/store").rows(observed=True)
    return [row["event"] for row in rows if row["observed"]]


def test_an_idle_manager_writes_what_it_has_seen() -> None:
    world = unanswered()
    a, b = world["A"], world["B"]
    assert a.engine is not None
    before, end = seen(a).count("transmitted"), a.engine.store.position
    world.run(90)
    assert a.engine.store.position == end, "there is no record"
    assert seen(a).count("transmitted") >= before + 3
    assert seen(b).count("duplicate") >= 3
    story = History(a.files, "/store")
    assert all(one.end == other.start for one, other in pairwise(story.spans))
    assert len({span.name for span in story.spans}) == len(story.spans)


def test_what_was_seen_last_is_written_at_the_end() -> None:
    world = unanswered(replace(SETTINGS, history_roll_s=86_400))
    a = world["A"]
    assert a.engine is not None
    a.engine.checkpoint()
    before = seen(a).count("transmitted")
    world.run(90)
    assert seen(a).count("transmitted") == before, "no roll was due"
    a.engine.stop()
    assert seen(a).count("transmitted") >= before + 3


def test_files_of_what_was_seen_follow_each_other_over_restarts(tmp_path: Path) -> None:
    world = unanswered()
    a = world["A"]
    for _ in range(3):
        world.run(60)
        a.kill()
        a.start()
    a.once(Q, b"2")
    world.run(60)
    spans = world.told("A").spans
    assert sum(span.start == span.end for span in spans) >= 3
    assert all(one.end == other.start for one, other in pairwise(spans))
    assert all(span_of(span.name) == span for span in spans)
    (found,) = files.find([str(path) for path in world.save(tmp_path)[:1]])
    assert found.whole
    assert len(found.files) == len(world.told("A").spans)


def test_much_that_is_seen_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "HISTORY_NOTES_MAX", 4)
    world = Kept("A", "B", settings=replace(SETTINGS, history_roll_s=86_400))
    world["B"].create("q")
    for at in range(8):
        world["A"].once(Q, b"%d" % at)
        world.run(2)
    assert seen(world["A"]).count("transmitted") >= 6
