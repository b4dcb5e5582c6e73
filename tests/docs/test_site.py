"""The site builds without a warning, and that means that its links are good."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import docs_site

CONF = docs_site.PAGES / "conf.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this tree."""
    out = tmp_path_factory.mktemp("site") / "site"
    code, said = docs_site.build(docs_site.PAGES, out)
    assert code == 0, said
    return out


@pytest.mark.slow
def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {page.relative_to(docs_site.PAGES) for page in docs_site.PAGES.rglob("*.md")}
    built = {page.relative_to(site).with_suffix(".md") for page in site.rglob("*.html")}
    assert pages <= built


@pytest.mark.slow
def test_the_site_takes_nothing_from_elsewhere(site: Path) -> None:
    """No script, style, font or picture of another server: it reads without a network."""
    for page in site.rglob("*.html"):
        taken = re.findall(
            r"<(?:script|link|img)\b[^>]*?(?:src|href)=\"([^\"]+)\"", page.read_text()
        )
        assert not [name for name in taken if re.match(r"(https?:)?//", name)], page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("[gone](gone.md)", "'gone.md'"),
        ("[gone](other.md#gone)", "'gone'"),
        ("[gone](#gone)", "'gone'"),
        ("![gone](gone.svg)", "gone.svg"),
        ("```{eval-rst}\n.. autoclass:: onceq.Gone\n```", "attribute 'Gone'"),
    ],
)
def test_what_leads_nowhere_ends_the_build(page: str, complaint: str, tmp_path: Path) -> None:
    small(tmp_path, page)
    code, said = docs_site.build(tmp_path / "docs", tmp_path / "site")
    assert (code != 0, complaint in said) == (True, True), said


@pytest.mark.slow
def test_a_page_that_the_index_does_not_list_ends_the_build(tmp_path: Path) -> None:
    small(tmp_path, "A page.")
    code, said = docs_site.build(tmp_path / "docs", tmp_path / "site")
    assert code == 0, said
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n")
    code, said = docs_site.build(tmp_path / "docs", tmp_path / "site")
    assert code != 0
    assert "lost.md" in said


def small(folder: Path, page: str) -> None:
    """A site of three pages, built as ours is."""
    docs = folder / "docs"
    docs.mkdir()
    shutil.copy(CONF, docs)
    (docs / "index.md").write_text(
        "# Small\n\n## Pages\n\n* [One](one.md)\n* [Other](other.md): 2\n"
    )
    (docs / "one.md").write_text(f"# One\n\n{page}\n")
    (docs / "other.md").write_text("# Other\n\n## A heading\n\n[Back](one.md#one)\n")
