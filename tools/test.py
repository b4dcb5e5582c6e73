"""``make test`` and ``make test-all``: the two tiers of tests (``tests/tiers.py``).

The quick tier comes with every check. Tests run in two processes; those with Spark stay together in
one of them (``tests/conftest.py``). Checks run beside their beginning, which leaves no core idle.
At the end stand the time of each group and of the whole run, set-up of the environment excluded.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import check

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = 2
SCRATCH_BYTES = 3 << 30
"""Room for what tests write: a few hundred megabytes at a time were seen, and Spark's files."""
MEMORY = "/dev/shm"
LIMIT_S = {"quick": 30 * 60, "rest": 75 * 60}
"""More than the slowest machine seen has needed: whatever takes longer hangs."""


def environment() -> dict[str, str]:
    """Ours, with temporary files in memory where the disk is nearly full and memory is not."""
    found = dict(os.environ)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < SCRATCH_BYTES:
        where = "there all the same"
        if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free >= SCRATCH_BYTES:
            found["TMPDIR"] = MEMORY
            where = f"to {MEMORY}"
        print(
            f"{tempfile.gettempdir()} has {free >> 20} MiB left; tests want {SCRATCH_BYTES >> 20}: "
            f"their files go {where}",
            flush=True,
        )
    return found


def main(arguments: list[str]) -> int:
    """Run a tier, and with the quick one the checks; the tests also when a check fails.

    Args:
        arguments: ``--tier quick`` (the default) or ``--tier rest``, and more for pytest, such as
            ``-k names``.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--tier", choices=sorted(LIMIT_S), default="quick")
    told, more = parser.parse_known_args(arguments)
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--durations=15"]
    command += ["-n", str(PROCESSES), "--dist", "loadscope", "--tier", told.tier, "tests", *more]
    # What takes long comes first (tests/tiers.py), not what has many tests.
    command += ["--no-loadscope-reorder"]
    # A worker that dies has found a bug, and its replacement is known to leave the run waiting.
    command += ["--max-worker-restart", "0"]
    began = time.monotonic()
    with ThreadPoolExecutor(1) as beside:
        checks = None
        if told.tier == "quick":
            checks = beside.submit(check.run, without=("tidy",))  # its tests are among the others
        try:
            tested = subprocess.run(
                command, cwd=ROOT, env=environment(), check=False, timeout=LIMIT_S[told.tier]
            ).returncode
        except subprocess.TimeoutExpired:
            minutes = LIMIT_S[told.tier] // 60
            print(f"tests were stopped: they hang, after {minutes} minutes", flush=True)
            tested = 1
        failed = checks.result() if checks is not None else []
    print(f"tier {told.tier}: {time.monotonic() - began:.0f} s", flush=True)
    if failed:
        print(f"make check failed: {', '.join(failed)} (see above)", flush=True)
    return 1 if failed or tested else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
