"""Figures of the documentation are those of the run that is kept with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.bench.peers import pages, plot
from proof.bench.peers.contract import About
from proof.bench.peers.run import SIZES, Outcome, Run, Scale

ROUND = {f"{way} {per}": 1234.5678 * per for way in ("send", "receive") for per in SIZES}
ROUND["yard"] = 9_000.0


def run() -> Run:
    outcome = Outcome("onceq", About("1.0", "synced"), [dict(ROUND)])
    gone = Outcome("redis", reason="no redis-server on the PATH")
    return Run("2026-01-01", "a machine", Scale(rounds=1), {"onceq": outcome, "redis": gone})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pages of the test's own."""
    for name in ("PAGE", "README", "KEPT"):
        monkeypatch.setattr(pages, name, tmp_path / name)
    for path in (pages.PAGE, pages.README):
        path.write_text(f"# Title\n\n{pages.BEGIN}old\n{pages.END}\nMore.\n")
    return tmp_path


def test_both_pages_show_the_run_that_is_kept(place: Path) -> None:
    pages.KEPT.write_bytes(pages.encoded(run()))
    written = pages.texts()
    assert set(written) == {pages.PAGE, pages.README}
    for text in written.values():
        assert text.startswith("# Title\n\n<!--")
        assert text.endswith("\nMore.\n")
        assert "old" not in text
        assert "| onceq, daemon |" in text
    assert "Redis, stream: no redis-server on the PATH" in written[pages.PAGE]
    assert "12.3 k (12.3–12.3)" in written[pages.PAGE]


def test_nothing_is_written_where_no_run_is_kept(place: Path) -> None:
    assert pages.texts() == {}


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for figures"):
        pages.between("# Title\n", "figures")


def test_what_is_kept_can_be_read_back() -> None:
    found = pages.decoded(pages.encoded(run()))
    assert found.outcomes["onceq"].rounds[0]["send 1"] == 1234.6
    assert pages.encoded(found) == pages.encoded(run())


def test_the_same_run_is_drawn_the_same_with_its_mark(tmp_path: Path) -> None:
    paths = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for path in paths:
        plot.draw(run(), path, pages.mark(b"run"))
    one, two = (path.read_text() for path in paths)
    assert one == two
    assert pages.mark(b"run") in one
    assert "onceq, daemon" in one


def test_the_picture_of_the_documentation_shows_the_run_that_is_kept() -> None:
    assert pages.KEPT.exists() == pages.PICTURE.exists()
    if pages.KEPT.exists():
        assert pages.mark(pages.KEPT.read_bytes()) in pages.PICTURE.read_text()
