"""What is published can be built, has what it needs, and works where nothing else is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_packages_are_built_and_the_wheel_works_alone(tmp_path: Path) -> None:
    """An environment is made and its dependencies are installed, as ``make dist`` does."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "dist.py", "--folder", tmp_path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name.endswith(kind) for name, kind in zip(names, (".whl", ".tar.gz"), strict=True)]
