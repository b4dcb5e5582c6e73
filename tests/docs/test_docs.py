"""The documentation says what the code does: generated pages, links, and samples that run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import docs as generated
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.M | re.S)


def test_generated_pages_are_current() -> None:
    assert generated.stale() == [], "run make docs"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page}: {target}"


def blocks() -> list[tuple[str, str]]:
    """Python samples by page: all blocks of a page run one after another, as a reader would."""
    found = []
    for page in PAGES:
        samples = [text for kind, text in FENCE.findall(page.read_text()) if kind == "python"]
        if samples:
            found.append((page.relative_to(ROOT).as_posix(), "\n".join(samples)))
    return found


def test_every_python_block_is_marked() -> None:
    """A block either runs here, or says in its first line why not."""
    for page in PAGES:
        for kind, text in FENCE.findall(page.read_text()):
            if kind.startswith("python") and kind != "python":
                assert kind == "python no-run", f"{page}: unknown mark {kind!r}"
                assert text.startswith("# "), f"{page}: a block that does not run must say why"


@pytest.mark.slow
@pytest.mark.parametrize(("page", "text"), blocks(), ids=[page for page, _ in blocks()])
def test_samples_run(page: str, text: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{page}:\n{done.stdout}{done.stderr}"
