"""What the mistakes of ``edges`` name as their finders is there, and finds them.

``make planted`` plants all of them, which takes more than an hour. Each commit draws some, so that
a finder that a later change has made blind does not stay so for long.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.planted.in_worlds import ALL
from tests.planted.mistakes import Mistake
from tests.planted.planted import SIM, Planted, all_planted

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = 3


@cache
def functions_of(path: Path) -> set[str]:
    """Node identifiers of a file's tests, without parameters."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{n.name}" for n in node.body if isinstance(n, ast.FunctionDef)}
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


def fault_of_finder(mistake: Planted) -> str:
    """Return why the finder of a mistake cannot be run, or ""."""
    file, _, test = mistake.found_by.partition("::")
    if mistake.found_by != SIM and not (ROOT / file).is_file():
        return f"there is no {file}"
    if mistake.found_by != SIM and test not in functions_of(ROOT / file):
        return f"{file} has no {test}"
    return ""


def fault_of_planting(mistake: Planted | Mistake) -> str:
    """Return why a mistake cannot be planted, or ""."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            mistake.plant(patch)
    except (
        AssertionError,
        AttributeError,
        ImportError,
        LookupError,
        NameError,
        TypeError,
        ValueError,
    ) as error:
        return f"the code that it changes is not where it looks for it: {error!r}"
    return ""


def test_each_can_be_planted_and_its_finder_exists() -> None:
    mistakes: dict[str, Planted | Mistake] = {**all_planted(), **ALL}
    faults = {name: fault for name, one in mistakes.items() if (fault := fault_of_planting(one))}
    for one in all_planted().values():
        if fault := fault_of_finder(one):
            faults[one.name] = fault
    assert not faults, "\n".join(f"{name}: {fault}" for name, fault in faults.items())


def test_no_two_have_one_name() -> None:
    """``all_planted`` sees to it among its own."""
    assert not set(all_planted()) & set(ALL)


@pytest.mark.slow
@pytest.mark.search("planted", few=SAMPLE)
@pytest.mark.parametrize("name", sorted(all_planted()))
def test_it_is_found(name: str) -> None:
    command = [sys.executable, "-m", "proof", "planted", "-k", f"^{re.escape(name)}$"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    ended = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 mistake planted, 0 not found" in ended.stdout
