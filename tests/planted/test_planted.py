"""What the mistakes of ``edges`` name as their finders is there (``make planted``)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.planted.in_worlds import ALL
from tests.planted.planted import SIM, all_planted

ROOT = Path(__file__).resolve().parents[2]


def functions_of(path: Path) -> set[str]:
    """Node identifiers of a file's tests, without parameters."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{n.name}" for n in node.body if isinstance(n, ast.FunctionDef)}
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


@pytest.mark.parametrize("name", sorted(all_planted()))
def test_its_finder_exists(name: str) -> None:
    finder = all_planted()[name].found_by
    if finder != SIM:
        file, _, test = finder.partition("::")
        assert (ROOT / file).is_file(), f"there is no {file}"
        assert test in functions_of(ROOT / file), f"{file} has no {test}"


@pytest.mark.parametrize("name", sorted(all_planted()))
def test_it_can_be_planted(name: str) -> None:
    """The code that it changes is still where the mistake looks for it."""
    with pytest.MonkeyPatch.context() as patch:
        all_planted()[name].plant(patch)


def test_no_two_have_one_name() -> None:
    """``all_planted`` sees to it among its own."""
    assert not set(all_planted()) & set(ALL)
