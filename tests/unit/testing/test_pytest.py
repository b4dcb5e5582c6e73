"""The fixtures, as the page for users shows them: its tests are run by a pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "test-an-application.md"


@pytest.mark.slow
def test_every_test_on_the_page_passes(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python no-run\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    (tmp_path / "test_page.py").write_text("\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "onceq.testing.pytest", "-p",
         "no:cacheprovider", "--rootdir", str(tmp_path), "test_page.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = sum(block.count("def test_") for block in blocks)
    assert wanted >= 5
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= wanted
