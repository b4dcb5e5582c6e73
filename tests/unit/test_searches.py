"""Of a search a few parameters run with a commit, and more of it where its room has changed."""

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


def test_what_is_no_search_runs_whole_and_what_has_changed_runs_more() -> None:
    items = [*search_of(5, "tests/b.py::test_it", marked=False), *search_of(9), *search_of(1, "c")]
    assert len(searches.left_out(items, "a commit", set())) == 7
    assert len(searches.left_out(items, "a commit", {"worlds"})) == 7
    assert len(searches.left_out(items, "a commit", {"store"})) == 9 - 2 * searches.MORE
    assert searches.left_out(search_of(5), "a commit", {"store"}) == []


def test_a_mark_that_names_no_kind_is_an_error() -> None:
    with pytest.raises(pytest.UsageError, match="search"):
        searches.left_out([item("x", kind="stores")], "a commit", set())


def test_a_changed_file_runs_more_of_its_room() -> None:
    assert searches.rooms_changed(["README.md"]) == set()
    assert searches.rooms_changed(["src/onceq/store/log.py"]) == {"store"}
    assert searches.rooms_changed(None) == set(searches.ROOMS)


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

    assert searches.changed_files(tmp_path) is None, "no repository"
    git("init")
    for name, at_s in (("old", NOW_S - DAY_S - 1), ("new", NOW_S - 10), ("newest", NOW_S)):
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "-m", name, at_s=at_s)
    assert searches.changed_files(tmp_path) == ["new", "newest"]
