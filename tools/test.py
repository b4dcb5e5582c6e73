"""``make test``: every check and every test, as CI runs them.

Tests run in two processes; those that measure nothing but need the machine's memory (Spark) run
after the others, alone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run checks, then tests; the first failure decides."""
    checked = subprocess.run([sys.executable, "tools/check.py"], cwd=ROOT, check=False).returncode
    pytest = [sys.executable, "-m", "pytest", "-q", "--no-header"]
    tested = subprocess.run(
        [*pytest, "-n", "2", "--dist", "loadgroup", "-m", "not spark", "tests"],
        cwd=ROOT, check=False,
    ).returncode  # fmt: skip
    spark = subprocess.run([*pytest, "-m", "spark", "tests"], cwd=ROOT, check=False).returncode
    return checked or tested or spark


if __name__ == "__main__":
    sys.exit(main())
