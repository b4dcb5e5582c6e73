"""``make check``: format, lint, types, import rules and tidiness, in seconds."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
CODE = [name for name in ("src", "tests", "tools", "demo") if (ROOT / name).is_dir()]
CHECKS = {
    "format": [BIN / "ruff", "format", "--check", "--quiet", *CODE],
    "lint": [BIN / "ruff", "check", "--quiet", *CODE],
    "types": [BIN / "mypy", "--no-error-summary"],
    "imports": [BIN / "lint-imports", "--no-cache"],
    "tidy": [sys.executable, "-m", "pytest", "-q", "tests/tidy", "--no-header"],
}


def main() -> int:
    """Run every check, also when one fails; returns how many did."""
    failed = 0
    for name, command in CHECKS.items():
        start = time.monotonic()
        done = subprocess.run(
            list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False
        )
        good = done.returncode == 0
        print(
            f"{name:8} {'ok' if good else 'FAILED'}  {time.monotonic() - start:.1f} s", flush=True
        )
        if not good:
            failed += 1
            print(done.stdout + done.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
