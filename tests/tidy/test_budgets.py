"""Each room of the house has a budget of code, and the house has budgets of its habits."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import measure_house as house

HINT = (
    "say in the commit what the change takes away, or raise the number in budgets.toml and why; "
    "python tools/measure_house.py --rooms prints what there is"
)


def test_no_room_is_over_its_budget() -> None:
    budgets = tomllib.loads(house.BUDGETS.read_text())
    found = house.compare_rooms(house.measure_rooms(house.ROOT), budgets)
    assert not found, "\n".join(["", *found, HINT])


def test_code_is_counted_by_room_without_blank_lines_and_docstrings(tmp_path: Path) -> None:
    for name, text in {
        "src/onceq/core/deep/a.py": '"""A."""\n\nx = 1\n\n\ndef f():\n    """B."""\n    return x\n',
        "src/onceq/version.py": "VERSION = 1\n",
        "proof/sim/b.py": "import os\nprint(os)\n",
        "proof/__main__.py": "x = 1\n",
        "tests/unit/c.py": "a = 1\nb = 2\n",
        "tools/d.py": "a = 1\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "src/onceq/py.typed").touch()
    measured = house.measure_rooms(tmp_path)
    assert measured["rooms"] == {
        "src/onceq/core": 3, "src/onceq": 1, "proof/sim": 2, "proof": 1, "tests": 2, "tools": 1,
    }  # fmt: skip
    assert measured["house"]["modules"] == 2


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ({"rooms": {"a": 102}, "house": {"modules": 10}}, []),
        ({"rooms": {"a": 103}, "house": {"modules": 10}}, ["a: 103, and its budget is 100"]),
        ({"rooms": {"a": 1}, "house": {"modules": 11}}, ["modules: 11, and its budget is 10"]),
        ({"rooms": {"a": 1, "b": 1}, "house": {"modules": 1}}, ["b has no budget"]),
        ({"rooms": {}, "house": {"modules": 1}}, ["a has a budget, and is not there"]),
    ],
)
def test_what_is_over_is_found(now: dict[str, dict[str, float]], found: list[str]) -> None:
    assert house.compare_rooms(now, {"rooms": {"a": 100}, "house": {"modules": 10}}) == found
