"""``make conformance``: the cases, unchanged, with one thing turned that must not matter.

Each turn (``tests/conformance/turns.py``) runs all cases that have their managers in one process,
in a process of its own. A case that fails by a turn has found where two capabilities meet that
nothing has joined.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

from proof import ROOT

# Not imported by name: tests are not for mypy here.
_turns = import_module("tests.conformance.turns")

AT_ONCE = 2
LIMIT_S = 1_800


def run(turn: str, more: list[str]) -> tuple[int, str]:
    """One turn: what pytest ends with, and what is to be said of it."""
    began = time.monotonic()
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "tests/conformance", *more],
        cwd=ROOT, env={**os.environ, _turns.VARIABLE: turn}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    lines = [one for one in found.stdout.splitlines() if one.startswith("turn ")]
    line = lines[-1] if lines else f"turn {turn}: no case was run"
    said = f"{line}; {time.monotonic() - began:.0f} s"
    return found.returncode, said if not found.returncode else f"{found.stdout}\n{said}: FAILED"


def main(arguments: list[str]) -> int:
    """The exit code.

    Args:
        arguments: ``--turn public``, again and again; every turn without it. More for pytest.
    """
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("--turn", action="append", choices=sorted(_turns.TURNS))
    told, more = parser.parse_known_args(arguments)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        results = list(threads.map(lambda turn: run(turn, more), told.turn or _turns.TURNS))
    for _, said in results:
        print(said)
    failed = sum(code != 0 for code, _ in results)
    print(f"{len(results)} turns, {failed} failed")
    return 1 if failed else 0
