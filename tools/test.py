"""``make test``: every check and every test, as CI runs them.

Tests run in two processes; those with Spark stay together in one of them (``tests/conftest.py``).
Checks run beside their beginning, which leaves no core idle. The last line of a whole run, but for
a failed check, is that of pytest, and counts all tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import check

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = 2
SCRATCH_BYTES = 3 << 30
"""Room for what tests write: a few hundred megabytes at a time were seen, and Spark's files."""
MEMORY = "/dev/shm"
LIMIT_S = 45 * 60
"""Several times what the slowest machine seen has needed: whatever takes longer hangs."""


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
    """Run checks and tests, these also when a check fails.

    Args:
        arguments: More for pytest, such as ``-k names``.
    """
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--durations=15"]
    command += ["-n", str(PROCESSES), "--dist", "loadscope", "tests", *arguments]
    with ThreadPoolExecutor(1) as beside:
        checks = beside.submit(check.run, without=("tidy",))  # its tests are among the others
        try:
            tested = subprocess.run(
                command, cwd=ROOT, env=environment(), check=False, timeout=LIMIT_S
            ).returncode
        except subprocess.TimeoutExpired:
            print(f"tests were stopped: they hang, after {LIMIT_S // 60} minutes", flush=True)
            tested = 1
        failed = checks.result()
    if failed:
        print(f"make check failed: {', '.join(failed)} (see above)", flush=True)
    return 1 if failed or tested else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
