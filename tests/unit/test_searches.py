"""Of a search a few parameters run with a commit, and all where code of its room has changed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import searches

DAY_S = searches.DAY_S
NOW_S = 1_800_000_000


def item(name: str, *, kind: str = "store", few: int = 2, marked: bool = True) -> Any:
    mark = pytest.mark.search(kind, few=few).mark if marked else None
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda _: mark)


def search_of(count: int, name: str = "tests/a.py::test_it", **more: Any) -> list[Any]:
    return [item(f"{name}[{number}]", **more) for number in range(count)]


def test_a_commit_draws_a_few_and_every_one_has_its_turn() -> None:
    items = search_of(9)
    kept = set[str]()
    for commit in map(str, range(60)):
        left = {id(one) for one in searches.left_out(items, commit, set())}
        here = {one.nodeid for one in items if id(one) not in left}
        assert len(here) == 2
        kept |= here
    assert len(kept) == 9


def test_the_same_commit_draws_the_same_in_any_order() -> None:
    items = search_of(9)
    names = [
        {one.nodeid for one in searches.left_out(order, "a commit", set())}
        for order in (items, items[::-1])
    ]
    assert names[0] == names[1]


def test_what_is_no_search_and_what_has_changed_runs_whole() -> None:
    items = [*search_of(5, "tests/b.py::test_it", marked=False), *search_of(5), *search_of(1, "c")]
    assert len(searches.left_out(items, "a commit", set())) == 3
    assert searches.left_out(items, "a commit", {"store"}) == []


def test_a_mark_that_names_no_kind_is_an_error() -> None:
    with pytest.raises(pytest.UsageError, match="search"):
        searches.left_out([item("x", kind="stores")], "a commit", set())


@pytest.mark.parametrize(
    ("after", "same"),
    [
        ('"""Else."""\nclass A:\n    """B."""\n    x = 1  # Else.\n', True),
        ('"""What."""\nclass A:\n    "C."\n    x = (\n        1\n    )\n', True),
        ('"""What."""\nclass A:\n    """B."""\n    x = 2\n', False),
        ('"""What."""\nclass A:\n    """B."""\n    y = 1\n', False),
    ],
)
def test_texts_are_no_code(after: str, same: bool) -> None:
    before = '"""What."""\nclass A:\n    """B."""\n    x = 1\n'
    assert searches.is_same_code(before, after) == same


def test_every_folder_that_is_named_is_there() -> None:
    folders = [folder for room in searches.ROOMS.values() for folder in room]
    assert [one for one in folders if not (searches.ROOT / one).is_dir()] == []


def test_the_history_says_what_has_changed_within_a_day(tmp_path: Path) -> None:
    def git(*arguments: str, at_s: int = NOW_S) -> None:
        times = {f"GIT_{who}_DATE": f"{at_s} +0000" for who in ("AUTHOR", "COMMITTER")}
        names = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER")
                 for what in ("NAME", "EMAIL")}  # fmt: skip
        subprocess.run(
            ["git", *arguments], cwd=tmp_path, check=True, capture_output=True,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **times, **names},
        )  # fmt: skip

    everything = set(searches.ROOMS)
    assert searches.changed_rooms(tmp_path) == everything, "no repository"
    git("init")
    rooms = ("src/onceq/store", "src/onceq/partners", "docs")
    for room in rooms:
        (tmp_path / room).mkdir(parents=True)
    git("commit", "--allow-empty", "-m", "young", at_s=NOW_S - DAY_S + 1)
    assert searches.changed_rooms(tmp_path) == everything, "it is younger than a day"

    def write(*texts: str, at_s: int) -> None:
        for room, text in zip(rooms, texts, strict=True):
            (tmp_path / room / "a.py").write_text(text)
        git("add", ".")
        git("commit", "-m", "x", at_s=at_s)

    git("commit", "--amend", "--allow-empty", "-m", "old", at_s=NOW_S - DAY_S - 9)
    write("a = 1", "a = 1", "a = 1", at_s=NOW_S - DAY_S - 1)
    write("a = 1  # Why.", "a = 2", "a = 2", at_s=NOW_S)
    assert searches.changed_rooms(tmp_path) == {"partners"}
    write("a = 2", "a = 1", "a = 2", at_s=NOW_S)
    assert searches.changed_rooms(tmp_path) == {"store"}, "the other is as it was a day before"
    (tmp_path / rooms[1] / "b.py").write_text("")
    git("add", ".")
    git("commit", "-m", "new")
    assert searches.changed_rooms(tmp_path) == {"store", "partners"}
