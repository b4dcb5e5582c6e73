"""``make check``: format, lint, types, import rules and tidiness."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = str(Path(sys.executable).parent) + "/"
CODE = ["src", "proof", "tests", "tools", "demo", "examples"]
CODE.append("docs/conf.py")  # not the folder: ruff would put the samples of its pages in order
CHECKS = {
    "format": [BIN + "ruff", "format", "--check", "--quiet", *CODE],
    "lint": [BIN + "ruff", "check", "--quiet", *CODE],
    "types": [BIN + "mypy", "--no-error-summary"],
    "imports": [BIN + "lint-imports", "--no-cache", "--no-logo"],
    "tidy": [sys.executable, "-m", "pytest", "-q", "--no-header", "tests/tidy"],
}


def run(*, without: Collection[str] = ()) -> list[str]:
    """Run every check, also when one fails; returns the names of those that did."""
    failed = []
    for name, command in CHECKS.items():
        if name in without:
            continue
        start = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        good = done.returncode == 0
        took = time.monotonic() - start
        print(f"{name:8} {'ok' if good else 'FAILED'}  {took:.1f} s", flush=True)
        if not good:
            failed.append(name)
            print(done.stdout + done.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(1 if run() else 0)
