"""The site builds without a warning, and that means that its links are good."""

from __future__ import annotations

import importlib.util
import inspect
import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from sphinx.util.inventory import InventoryFile

import docs_site
import onceq
import onceq.aio
import onceq.spark
import onceq.spark.operators

INTERNAL = ("live", "opened")
"""Methods that classes of the client have for each other."""
MODULES = (onceq, onceq.aio, onceq.directory, onceq.spark.operators)

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


@pytest.mark.slow
def test_everything_public_is_in_the_reference(site: Path) -> None:
    with (site / "objects.inv").open("rb") as file:
        listed = InventoryFile.load(file, "", posixpath.join)
    names = {name for kind, found in listed.items() if kind.startswith("py:") for name in found}
    missing = sorted({*public()} - names)
    assert not missing, f"add them to docs/reference/api: {missing}"


def public() -> Iterator[str]:
    """Dotted names of what applications may use: modules' ``__all__``, and methods of classes."""
    named: dict[type, str] = {
        kind: f"onceq.errors.{kind.__name__}" for kind in onceq.errors.every().values()
    }
    named[onceq.OnceqError] = "onceq.errors.OnceqError"
    yield from (f"onceq.spark.{name}" for name in onceq.spark._WHERE)
    for module in MODULES:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing):
                named.setdefault(thing, f"{module.__name__}.{name}")
            elif not inspect.ismodule(thing):
                yield f"{module.__name__}.{name}"
    for kind, name in named.items():
        yield name
        for member, value in inspect.getmembers(kind):
            function = value.fget if isinstance(value, property) else value
            if not inspect.isfunction(function) or not function.__module__.startswith("onceq."):
                continue
            having = [base for base in kind.__mro__ if getattr(base, member, None) is value]
            if not member.startswith("_") and member not in INTERNAL:
                yield f"{[named[base] for base in having if base in named][-1]}.{member}"


@pytest.fixture(scope="module")
def conf() -> ModuleType:
    """The module conf.py."""
    spec = importlib.util.spec_from_file_location("conf_of_the_site", CONF)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lists_of_the_index_are_the_contents(conf: ModuleType) -> None:
    index = "## A\n\n* [x](a/x.md): x.\n\nNo [entry](n.md).\n\n### B\n\n* [y](y.md)\n  [z](z.md)\n"
    assert re.findall(r"caption: (\w+)\n\n([^`]+)", conf.contents(index)) == [
        ("A", "a/x\n"),
        ("B", "y\n"),
    ]


def test_docstrings_are_made_ready_for_the_site(conf: ModuleType) -> None:
    lines = [
        "What it is.",
        "",
        "Attributes:",
        "    a, b: Both,",
        "        of it.",
        "    c: One.",
        "",
    ]
    assert conf.spread(lines) == [
        *lines[:3], "    a: Both,", "        of it.", "    b: Both,", "        of it.", *lines[5:]
    ]  # fmt: skip
    assert conf.spread(
        ["Do it.", "", "Raises:", "    NoSpace, Refused,", "    QueueNotFound."]
    ) == [
        "Do it.",
        "",
        "Raises ``NoSpace``, ``Refused``, ``QueueNotFound``.",
    ]
    kept = ["Raises:", "    NoSpace: There is none.", ""]
    assert conf.spread(kept) == kept


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
