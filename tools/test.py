"""``make test``: every check and every test, as CI runs them.

Tests run in two processes; those with Spark stay together in one of them (``tests/conftest.py``).
The last line but for a failed check is that of pytest, and counts all tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import check

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = 2


def main(arguments: list[str]) -> int:
    """Run checks, then tests, also when a check fails.

    Args:
        arguments: More for pytest, such as ``-k names``.
    """
    failed = check.run(without=("tidy",))  # its tests are among the others
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--durations=15"]
    command += ["-n", str(PROCESSES), "--dist", "loadgroup", "tests", *arguments]
    tested = subprocess.run(command, cwd=ROOT, check=False).returncode
    if failed:
        print(f"make check failed: {', '.join(failed)} (see the beginning)", flush=True)
    return 1 if failed or tested else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
