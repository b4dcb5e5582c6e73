"""Every test has a tier, both tiers together are all tests, and nothing runs in both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import tiers

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
MIXED = ("conformance", "simulation", "crash", "planted")
"""Folders whose tests are of both tiers."""


def collected(*arguments: str) -> list[str]:
    """Node identifiers that pytest would run in the folders MIXED."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments]
    folders = [f"tests/{folder}" for folder in MIXED]
    done = subprocess.run([*command, *folders], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.slow
@pytest.mark.tier("rest")
def test_no_test_is_lost_and_none_runs_twice() -> None:
    everything = collected()
    quick, rest = (collected("--tier", tier) for tier in tiers.TIERS)
    for folder in MIXED:
        for tier in (quick, rest):
            assert any(name.startswith(f"tests/{folder}/") for name in tier), folder
    assert sorted(quick + rest) == sorted(everything)
    assert not [name for name in quick if tiers.PROCESSES in name.partition("[")[2]]


def test_every_folder_of_tests_stands_in_a_tier() -> None:
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")}
    assert folders == set(tiers.FOLDERS)


def test_files_with_a_tier_of_their_own_are_there_and_differ_from_their_folder() -> None:
    for name, tier in tiers.FILES.items():
        assert (TESTS / name).is_file(), name
        assert tier != tiers.FOLDERS[name.partition("/")[0]], name


def test_what_takes_long_begins_first_and_the_rest_keeps_its_order() -> None:
    paths = [
        "audit/test_audit.py",
        "partners/test_traps.py",
        "unit/test_tiers.py",
        "spark/test_x.py",
    ]
    items: list[Any] = [Item(path) for path in paths]
    ordered = tiers.longest_first(items, TESTS)
    assert [item.nodeid for item in ordered] == [items[index].nodeid for index in (3, 1, 0, 2)]
    assert [name for name in tiers.LONGEST if not (TESTS / name).exists()] == []


class Item:
    """A test, as far as its tier depends on it."""

    def __init__(self, path: str, *marks: pytest.MarkDecorator) -> None:
        self.path = TESTS / path
        self.nodeid = f"tests/{path}::test_it"
        self.marks = {decorator.name: decorator.mark for decorator in marks}

    def get_closest_marker(self, name: str) -> Any:
        """As pytest has it."""
        return self.marks.get(name)

    def add_marker(self, decorator: pytest.MarkDecorator) -> None:
        """As pytest has it."""
        self.marks[decorator.name] = decorator.mark


def tier_of(item: Item) -> str:
    return tiers.tier_of(item, TESTS)  # type: ignore[arg-type]


def test_a_mark_goes_before_the_folder() -> None:
    assert tier_of(Item("spark/test_x.py")) == tiers.REST
    assert tier_of(Item("spark/test_x.py", pytest.mark.tier("quick"))) == tiers.QUICK


@pytest.mark.parametrize("path", ["new/test_new.py", "test_new.py"])
def test_a_folder_without_a_tier_is_an_error(path: str) -> None:
    with pytest.raises(pytest.UsageError, match="stands in no tier"):
        tier_of(Item(path))


def test_a_mark_that_names_no_tier_is_an_error() -> None:
    with pytest.raises(pytest.UsageError, match="one of quick, rest"):
        tier_of(Item("unit/test_x.py", pytest.mark.tier("slow")))


def test_every_test_has_a_limit_of_time_and_its_own_counts() -> None:
    plain, own = Item("unit/test_x.py"), Item("unit/test_y.py", pytest.mark.timeout(7))
    tiers.limit([plain, own], TESTS)  # type: ignore[list-item]
    assert plain.marks["timeout"].args == (tiers.TIMEOUT_S[tiers.QUICK],)
    assert own.marks["timeout"].args == (7,)
