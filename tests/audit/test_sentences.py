"""Sentences of guarantees.md that an audit judges, each with a history that breaks it alone.

A corruption here passed as PROVEN before its rule was made (finding P3a).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceq.audit import command
from onceq.audit.command import Wish
from onceq.model.message import Journal
from tests.audit.planting import Planter, Row
from tests.history.worlds import Kept
from tests.scratch import scratch

OWN = r"private$\own"
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A has a queue of its own, and sends to B; transactions of two messages."""
    with scratch(tmp_path_factory, "sentences") as path:
        world = Kept("A", "B")
        a, b = world["A"], world["B"]
        a.create("own")
        a.create("late")
        b.create("q")
        # A message that is delayed gets its place when its time has come.
        a.once(r"private$\late", b"one", delay=10)
        a.once(r"private$\late", b"two")
        for at in range(4):
            a.once(OWN, b"%d" % at, b"and %d" % at)
            a.once(r"DIRECT=OS:B\private$\q", b"%d" % at, b"and %d" % at)
        a.once(r"DIRECT=OS:B\private$\none", b"refused", journal=Journal.DEADLETTER)
        world.run(30)
        a.receive(OWN, count=5)
        a.receive(r"private$\late", count=2)
        b.receive(r"private$\q", count=5)
        world.run(30)
        world.save(path / "all")
        yield path / "all"


def of_own(planter: Planter, event: str) -> list[Row]:
    rows = [r for r in planter.rows if r["event"] == event and r["queue"] == OWN]
    return sorted(rows, key=lambda row: (row["position"], row["ordinal"]))


def swap_places(a: Planter, b: Planter) -> None:
    """Of the second and the third message, in all that is told of them."""
    for event in ("committed", "received"):
        one, other = of_own(a, event)[1:3]
        one["lookupId"], other["lookupId"] = other["lookupId"], one["lookupId"]


def share_place(a: Planter, b: Planter) -> None:
    sent, got = of_own(a, "committed"), of_own(a, "received")
    sent[1]["lookupId"] = got[1]["lookupId"] = sent[2]["lookupId"]


def tear_commit(a: Planter, b: Planter) -> None:
    """The second message of a transaction is committed by a record of its own."""
    of_own(a, "committed")[1]["position"] += 1


def grow_at_home(a: Planter, b: Planter) -> None:
    of_own(a, "received")[3]["bytes"] += 40


def grow_before_the_reception(a: Planter, b: Planter) -> None:
    next(row for row in b.rows if row["event"] == "received")["bytes"] += 40


def misname(a: Planter, b: Planter) -> None:
    """A dead letter whose message was refused for another reason."""
    a.find("dead-lettered")["class"] = 0x8003


BROKEN: dict[Callable[[Planter, Planter], None], str] = {
    swap_places: "own-out-of-order", share_place: "own-place-shared", tear_commit: "torn-commit",
    grow_at_home: "resized", grow_before_the_reception: "resized",
    misname: "dead-letter-misnamed",
}  # fmt: skip


def audited(path: Path) -> dict[str, int]:
    found: dict[str, Any] = command.run([str(path)], Wish(), lambda _: None)
    return {one["fault"]: one["violations"] for one in found["checked"] if one["violations"]}


def test_what_happened_is_proven(place: Path) -> None:
    assert audited(place) == {}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_each_is_named(
    place: Path, tmp_path: Path, broken: Callable[[Planter, Planter], None]
) -> None:
    shutil.copytree(place, tmp_path / "all")
    both = Planter(tmp_path / "all" / "A"), Planter(tmp_path / "all" / "B")
    broken(*both)
    for planter in both:
        planter.save()
    assert set(audited(tmp_path / "all")) == {BROKEN[broken]}
