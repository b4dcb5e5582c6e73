"""What the measure of the house counts, in trees of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

import measure_house as house

MODULE = '''"""A module."""

import json
from typing import Any, cast


class Place:
    """A class."""

    size: int = 1
    """An attribute."""

    def _read(self, text: str) -> Any:
        """Docstring
        of two lines."""
        return cast("int", json.loads(text))


def _alone() -> None: ...
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two packages, each with a class of the same name, and two pages."""
    for name in ("one", "two"):
        package = tmp_path / "src" / "onceq" / name
        package.mkdir(parents=True)
        (package / "place.py").write_text(MODULE)
    (tmp_path / "src" / "onceq" / "two" / "user.py").write_text("print(Place()._read('1'))\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# A page\n\nWhoever reads it\nin vain.\n")
    (tmp_path / "README.md").write_text("# It\n\nHe waits for\never.\n")
    return tmp_path


def test_figures_of_a_tree(tree: Path) -> None:
    assert house.measure_tree(tree) == {
        "src: lines": "39",
        "src: lines of code": "15",
        "src: modules": "3",
        "src: imports per 100 statements": "30.8",
        "src: import lines, % of code": "26.7",
        "src: private functions used once": "2",
        "src: Any": "4",
        "src: casts": "2",
        "src: class names in several modules": "1",
        "src: words of the list": "0",
        "tests: words of the list": "0",
        "docs: words of the list": "2",
        "everything: words of the list": "4",
        "docs: words": "8",
    }


def test_trees_are_shown_side_by_side(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert house.main([str(tree), str(tree / "docs")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [tree.name, "docs"]
    assert lines[1].split() == ["src:", "lines", "39", "-"]


@pytest.mark.tier("rest")
def test_a_run_counts_what_a_commit_and_a_message_enter() -> None:
    found = house.run_tree(house.ROOT)
    assert list(found) == [
        f"{work}: {name}" for work in ("commit", "message") for name in house.RUN_FIGURES
    ]
    assert 20 < found["commit: files entered"] < found["message: files entered"]
    assert 20 < found["commit: calls of Python"] < found["message: calls of Python"]
