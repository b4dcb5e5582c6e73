"""A living queue manager says how much waits, and its history says the same at that place."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from onceq.audit import command
from onceq.audit.command import Wish
from onceq.audit.measure import Asked, until_told
from onceq.errors import ConfigurationError
from onceq.model import requests
from onceq.model.message import Journal
from onceq.model.views.queues import WaitingRow, WaitingView
from tests.audit.planting import Planter
from tests.conformance.world import Node
from tests.history.worlds import Kept
from tests.scratch import scratch

OWN, LATE, POISON, GRAVE = (f"private$\\{name}" for name in ("own", "late", "poison", "grave"))
THERE = r"DIRECT=OS:B\private$\q"
AWAY = r"DIRECT=OS:C\private$\q"


def ask(node: Node) -> Asked:
    """All pages, of which each is of its own moment."""
    pages = [node.look("waiting")]
    while pages[-1].more:
        pages.append(node.look("waiting", str(pages[-1].rows[-1].number)))
    return Asked(node.identity.name, pages)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Asked]]]:
    """Histories of A and B, and what A has counted again and again meanwhile."""
    with scratch(tmp_path_factory, "waiting") as path:
        world = Kept("A", "B")
        a, b = world["A"], world["B"]
        b.create("q")
        for name in ("own", "late", "grave"):
            a.create(name)
        a.create("poison", poison_attempts=1, poison_retry_after=5)
        found = [ask(a)]

        def then(what: Callable[[], object], seconds: float = 3) -> None:
            what()
            found.append(ask(a))
            world.run(seconds)
            found.append(ask(a))

        then(lambda: a.once(OWN, b"1", b"2", b"3", b"4"))
        then(lambda: a.once(LATE, b"one", delay=10))
        then(lambda: a.once(LATE, b"two"))
        world.cut("A", "B")
        then(lambda: a.once(THERE, b"1", b"2", journal=Journal.JOURNAL))
        world.mend("A", "B")
        world.run(20)
        then(lambda: b.receive(r"private$\q"), 20)
        then(lambda: a.once(AWAY, b"never", time_to_reach_queue=5, dead_letter_queue=GRAVE,
                            journal=Journal.DEADLETTER), 10)  # fmt: skip
        tx = a.begin()
        then(lambda: a.receive(OWN, tx=tx, count=2))
        then(lambda: a.abort(tx))
        then(lambda: a.receive(OWN))
        a.once(POISON, b"bad")
        for _ in range(6):
            tx = a.begin()
            if a.look("queue", POISON).available:
                a.receive(POISON, tx=tx)
            then(partial(a.abort, tx), 6)
        then(lambda: a.once(OWN, b"soon over", time_to_be_received=2), 10)
        then(lambda: a.purge(LATE))
        then(lambda: a.once(AWAY, b"waits"))
        then(lambda: a.ask(requests.PurgeQueue(AWAY)))
        then(lambda: a.once(AWAY, b"waits"))
        then(lambda: a.once(GRAVE, b"in a queue"))
        then(lambda: a.delete(GRAVE))
        world.save(path / "all")
        yield path / "all", found


def audited(folder: Path, *asked: Asked, **more: Any) -> dict[str, Any]:
    wish = Wish(asked=asked, **more)
    return command.run([str(folder / "*")], wish, lambda _: None)


def compared(found: dict[str, Any]) -> int:
    (looked,) = (one["looked_at"] for one in found["checked"] if one["fault"] == "waiting-differs")
    return int(looked)


def test_at_every_moment_both_say_the_same(told: tuple[Path, list[Asked]]) -> None:
    """Delays, retries, poison, an open transaction, expiry, purges, graves, a deleted queue."""
    folder, asked = told
    assert len(asked) > 30
    found = audited(folder, *asked)
    assert found["waiting"] == []
    assert found["violations"] == 0, found["stories"]
    assert not [note for note in found["notes"] if "compared" in note]
    assert compared(found) == sum(len(page.rows) for one in asked for page in one.pages)
    seen = {(row.name, row.messages) for one in asked for page in one.pages for row in page.rows}
    names = {name for name, messages in seen if messages}
    assert names >= {OWN, LATE, f"{LATE};delayed", POISON, f"{POISON};retry", f"{POISON};poison",
                     GRAVE, THERE, AWAY}  # fmt: skip


def test_of_several_pages_each_has_its_place(told: tuple[Path, list[Asked]]) -> None:
    """As of a manager with very many queues."""
    folder, asked = told
    pages: list[WaitingView] = []
    for one in asked[-8:]:
        (page,) = one.pages
        after = pages[-1].rows[-1].number if pages else 0
        pages.append(replace_rows(page, [row for row in page.rows if row.number > after][:1]))
    pages = [page for page in pages if page.rows]
    pages[-1] = replace_rows(asked[-1].pages[0], [
        row for row in asked[-1].pages[0].rows if row.number >= pages[-1].rows[0].number
    ], more=False)  # fmt: skip
    assert len({page.position for page in pages}) > 2
    found = audited(folder, Asked("A", pages))
    assert found["waiting"] == []
    assert compared(found) == sum(len(page.rows) for page in pages)


def replace_rows(page: WaitingView, rows: list[WaitingRow], *, more: bool = True) -> WaitingView:
    return replace(page, rows=tuple(rows), more=more)


@pytest.mark.parametrize("event", ["committed", "received"])
def test_a_row_that_is_missing_is_a_difference(
    told: tuple[Path, list[Asked]], tmp_path: Path, event: str
) -> None:
    """A message came, or went, and no record says so: nothing else contradicts that."""
    folder, asked = told
    shutil.copytree(folder, tmp_path / "all")
    planter = Planter(tmp_path / "all" / "A")
    gone = next(r for r in planter.rows if r["event"] == event and r["queue"] == OWN)
    if event == "committed":
        planter.rows = [
            r for r in planter.rows
            if (r["place"], r["lookupId"]) != (gone["place"], gone["lookupId"])
        ]  # fmt: skip
    else:
        planter.rows.remove(gone)
    planter.save()
    found = audited(tmp_path / "all", asked[-1])
    if event == "committed":
        # It was received, too, so that only what was counted in between tells it.
        assert found["waiting"] == []
        found = audited(tmp_path / "all", asked[2])
    (differs,) = found["waiting"]
    assert (differs["queue"], differs["manager"]) == (OWN, "A")
    assert differs["counted"] - differs["told"] == (1 if event == "committed" else -1)
    assert "VIOLATED: 1 violation of I1" in found["verdict"]


def test_a_queue_that_its_manager_does_not_have_has_nothing(
    told: tuple[Path, list[Asked]],
) -> None:
    folder, asked = told
    (page,) = asked[-1].pages
    without = replace_rows(page, [r for r in page.rows if r.name != POISON + ";poison"], more=False)
    (differs,) = audited(folder, Asked("A", [without]))["waiting"]
    assert (differs["queue"], differs["counted"], differs["told"]) == (POISON + ";poison", 0, 1)


@pytest.mark.parametrize("more", [1, 0, -1])
def test_of_a_history_that_begins_later_one_half_is_proven(
    told: tuple[Path, list[Asked]], tmp_path: Path, more: int
) -> None:
    """What had come before may wait there beside what it tells."""
    folder, asked = told
    shutil.copytree(folder, tmp_path / "all")
    planter = Planter(tmp_path / "all" / "A")
    start = next(r["position"] for r in planter.rows if r["queue"] == POISON)
    planter.rows = [row for row in planter.rows if row["position"] >= start]
    planter.span = replace(planter.span, start=start)
    planter.spans = [planter.span]
    planter.save()
    (page,) = asked[-1].pages
    rows = [
        replace(row, messages=row.messages + more) if row.name == POISON + ";poison" else row
        for row in page.rows
    ]
    found = audited(tmp_path / "all", Asked("A", [replace_rows(page, rows, more=False)]))
    assert [one["queue"] for one in found["waiting"]] == [POISON + ";poison"][: int(more < 0)]
    assert any("more may wait there" in note for note in found["notes"])


def test_what_cannot_be_compared_is_said(told: tuple[Path, list[Asked]], tmp_path: Path) -> None:
    folder, asked = told
    (page,) = asked[-1].pages

    def note(page: WaitingView, where: Path = folder) -> str:
        found = audited(where, Asked("A", [page]))
        assert (found["waiting"], compared(found)) == ([], 0)
        (said,) = (one for one in found["notes"] if "what waits in A was not compared" in one)
        return str(said)

    assert "its history ends at" in note(replace(page, position=1 << 40))
    assert "started again" in note(replace(page, at=1))
    shutil.copytree(folder, tmp_path / "all")
    planter = Planter(tmp_path / "all" / "A")
    planter.split(planter.rows[9]["position"], missing=1)
    planter.save()
    assert "parts of its history are missing" in note(page, tmp_path / "all")
    with pytest.raises(ConfigurationError, match="none of these histories"):
        audited(folder, Asked("X", [replace(page, manager="x")]))
    for _ in range(2):
        assert audited(folder, asked[-1], proof=str(tmp_path / "proof"))["waiting"] == []


def test_a_history_without_an_event_is_compared(
    told: tuple[Path, list[Asked]], tmp_path: Path
) -> None:
    """Of a manager that nobody has sent anything in."""
    folder, asked = told
    shutil.copytree(folder, tmp_path / "all")
    for other in (tmp_path / "all").iterdir():
        if other.name != "A":
            shutil.rmtree(other)
    planter = Planter(tmp_path / "all" / "A")
    planter.rows = []
    planter.save()
    (page,) = asked[-1].pages
    found = audited(tmp_path / "all", Asked("A", [replace_rows(page, [], more=False)]))
    assert found["waiting"] == []


def test_only_a_first_file_that_is_to_come_is_waited_for(
    told: tuple[Path, list[Asked]], tmp_path: Path
) -> None:
    folder, asked = told
    pauses: list[float] = []
    with pytest.raises(ConfigurationError, match="there is no folder"):
        until_told([str(tmp_path / "none")], asked[:1], pauses.append)
    with pytest.raises(ConfigurationError, match="none of these histories is of"):
        until_told([str(folder / "B")], asked[:1], pauses.append)
    assert not pauses

    def copied(seconds: float) -> None:
        pauses.append(seconds)
        shutil.copytree(folder / "A", tmp_path / "a" / "A", dirs_exist_ok=True)

    (tmp_path / "a").mkdir()
    until_told([str(tmp_path / "a")], asked[:1], copied)
    assert len(pauses) == 1
