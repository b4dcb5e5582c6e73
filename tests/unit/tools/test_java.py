"""A Java is found, also in an installed package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_java_is_found_without_one_on_the_path(tmp_path: Path) -> None:
    """The packaged runtime, behind a script that drops the module which it lacks."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH")
    }
    done = subprocess.run(
        [sys.executable, "tools/java.py"],
        cwd=ROOT, env={**environment, "PATH": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    java = Path(done.stdout.strip()) / "bin" / "java"
    asked = [str(java), "--add-modules=jdk.incubator.vector", "-version"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    match = re.search(r'version "(\d+)', said.stderr)
    assert match is not None
    assert int(match.group(1)) >= 17
