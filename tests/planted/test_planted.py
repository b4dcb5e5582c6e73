"""What the mistakes of ``edges`` name as their finders is there, and finds them.

``make planted`` plants all of them, which takes more than an hour. Some are planted with each
commit, which chooses them, so that a finder that a later change has made blind does not stay so for
long.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from proof.sim.simulate import commit_of
from tests.planted.in_worlds import ALL
from tests.planted.planted import SIM, all_planted

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = 12
CHOSEN = Random(commit_of(str(ROOT))).sample(sorted(all_planted()), SAMPLE)


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


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_it_is_found(name: str) -> None:
    command = [sys.executable, "-m", "proof", "planted", "-k", f"^{re.escape(name)}$"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    ended = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 mistake planted, 0 not found" in ended.stdout
