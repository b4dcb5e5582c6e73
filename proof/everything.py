"""``python -m proof all``: every test, and of each search all of it. It takes hours.

CI runs a few of each search with a commit (``tests/searches.py``); this is for a night, or before a
release.
"""

from __future__ import annotations

import subprocess
import sys

from proof import ROOT

AT_ONCE = 2


def main(arguments: list[str]) -> int:
    """Run them.

    Args:
        arguments: More for pytest, such as ``-k names``.
    """
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--durations=30", "--all"]
    command += ["-n", str(AT_ONCE), "--dist", "loadscope", "--max-worker-restart", "0"]
    command += ["--no-loadscope-reorder"]  # as in tools/test.py: what takes long comes first
    return subprocess.run([*command, "tests", *arguments], cwd=ROOT, check=False).returncode
