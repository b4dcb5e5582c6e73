"""``make planted``: mistakes are planted one by one, and something must find each.

Programme P15. Every mistake gets a process of its own, and a bounded time: those of
``tests/planted/edges`` are looked for by the test that they name, or in simulated worlds; those of
``tests/planted/*mistakes.py`` in simulated worlds, and must be called by the right name. What is
not found is a hole in the programmes: the run fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module

from proof import ROOT

plural = import_module("onceq.model.wording").plural
# Not imported by name: patches of the running code are not for mypy.
_planted = import_module("tests.planted.planted")
ALL = import_module("tests.planted.in_worlds").ALL

AT_ONCE = 2
LIMIT_S = 600
WORLDS = 300
PASSED, FAILED = 0, 1
"""What pytest answers; anything else is no answer to whether a mistake was found."""
OF_WORLDS = "tests/planted/test_mistakes.py::test_the_mistake_is_found"

_running: set[int] = set()
"""Sessions of the runs that are under way."""


@dataclass(frozen=True, slots=True)
class Case:
    """One mistake, and the process that looks for it.

    Attributes:
        found: Exit code of that process if it has found it.
    """

    name: str
    finder: str
    command: tuple[str, ...]
    found: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it; ``trouble`` is "" if it was found."""

    case: Case
    seconds: float
    trouble: str = ""


def cases() -> Iterator[Case]:
    """Every mistake that is planted anywhere."""
    pytest: tuple[str, ...] = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "--no-header",
        "-p",
        "no:cacheprovider",
    )
    for name, planted in _planted.all_planted().items():
        if planted.found_by == _planted.SIM:
            search = (sys.executable, "-m", "tests.planted.search", name, str(WORLDS))
            yield Case(name, f"worlds from {planted.first}", search, FAILED)
        else:
            command = (*pytest, "-p", "tests.planted.plugin", planted.found_by)
            yield Case(name, planted.found_by, command, FAILED)
    for name in sorted(ALL):
        finder = f"worlds from {ALL[name].first}"
        yield Case(name, finder, (*pytest, f"{OF_WORLDS}[{name}]"), PASSED)


def look_for(case: Case, limit_s: float) -> Outcome:
    """Plant it, and see whether it is found."""
    begun = time.monotonic()
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "ONCEQ_PLANT": case.name if case.found == FAILED else "",
    }
    try:
        code, said = _run(case.command, env, limit_s)
    except subprocess.TimeoutExpired:
        return Outcome(case, time.monotonic() - begun, f"nothing found in {limit_s:.0f} s")
    took = time.monotonic() - begun
    if code == case.found:
        return Outcome(case, took)
    if code in (PASSED, FAILED):
        return Outcome(case, took, "NOT FOUND")
    last = said.strip().splitlines()[-1:]
    return Outcome(case, took, f"exit code {code}: {' '.join(last)}")


def _run(command: tuple[str, ...], env: dict[str, str], limit_s: float) -> tuple[int, str]:
    """Exit code, and what was said. It is a session of its own, of which nothing is left: a mistake
    may keep a test from ending the daemons that it has started."""
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        _running.add(process.pid)
        try:
            said, _ = process.communicate(timeout=limit_s)
        finally:
            _end(process.pid)
    return process.returncode, said


def _end(session: int) -> None:
    """End a run, and all that it has started."""
    _running.discard(session)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """The command; 1 if a mistake was not found, 2 if there is none of that name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-k", dest="pattern", default="", help="only mistakes whose name has it")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for each")
    options = parser.parse_args(arguments)
    chosen = [case for case in cases() if re.search(options.pattern, case.name)]
    if not chosen:
        sys.stderr.write(f"no planted mistake is called {options.pattern!r}\n")
        return 2
    wide = max(len(case.name) for case in chosen)
    missed = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(look_for, case, options.limit) for case in chosen]
        try:
            for future in as_completed(running):
                outcome = future.result()
                if outcome.trouble:
                    missed.append(outcome)
                finder = outcome.trouble or f"found by {outcome.case.finder}"
                name = f"{outcome.case.name:{wide}}"
                sys.stdout.write(f"{name}  {outcome.seconds:6.1f} s  {finder}\n")
                sys.stdout.flush()
        except KeyboardInterrupt:
            # Sessions of their own do not hear of Ctrl-C, and the pool waits for them.
            pool.shutdown(wait=False, cancel_futures=True)
            for session in tuple(_running):
                _end(session)
            return 130
    sys.stdout.write(f"{plural(len(chosen), 'mistake')} planted, {len(missed)} not found\n")
    for outcome in missed:
        sys.stdout.write(f"    {outcome.case.name}: {outcome.trouble} ({outcome.case.finder})\n")
    return 1 if missed else 0
