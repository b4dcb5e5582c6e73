"""How Sphinx makes the site of this folder (``make site``; why Sphinx: decisions/0016).

The pages are plain Markdown, which reads the same on a code host. The site's table of contents is
taken from the lists of ``index.md``, so that there is one table of contents, and a page that no
list names fails the build.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from pygments.lexers.special import TextLexer  # noqa: E402
from sphinx.highlighting import lexers  # noqa: E402

import onceq  # noqa: E402 - from this tree, wherever another one is installed

project = "onceq"
author = "the onceq developers"
copyright = author  # Sphinx's own name for it
version = release = onceq.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["conf.py"]

# ---- Markdown ----------------------------------------------------------------------------------

myst_heading_anchors = 4  # as code hosts do it; a link to an anchor that is not there is an error
myst_enable_extensions = ["attrs_inline"]
highlight_language = "none"
lexers["hex"] = lexers["bytes"] = TextLexer()  # marks of blocks that tests read

# ---- the reference from docstrings -------------------------------------------------------------

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

# ---- HTML --------------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"onceq {version}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
copybutton_exclude = ".linenos, .gp, .go"

SECTION = re.compile(r"^#{2,3} (.+)$")
OUTSIDE = re.compile(r"\]\((?=(?:\.\./)+[A-Z]+\.md\))")
ENTRY = re.compile(r"^\* \[[^\]]+\]\(([\w/.-]+)\.md\)")


def contents(index: str) -> str:
    """The table of contents of the site: a hidden one for each section of the index with a list.

    Args:
        index: Text of index.md. A line of a list that begins with a link to a page is an entry.
    """
    trees: dict[str, list[str]] = {}
    section = ""
    for line in index.splitlines():
        if heading := SECTION.match(line):
            section = heading[1]
        elif entry := ENTRY.match(line):
            trees.setdefault(section, []).append(entry[1])
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {section}\n\n" + "\n".join(pages) + "\n```\n"
        for section, pages in trees.items()
    )


NAMED = re.compile(r"^( +)(\w+(?:, \w+)+): (.*)$")
CONSTRUCTED = ("FileDirectory", "MemoryDirectory", "Xid")
"""Classes that applications construct; others are made by the calls that return them."""
_attributes: dict[str, list[str]] = {}


def _before(app: Any, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """What Napoleon would misread, said as it understands it."""
    if what in ("attribute", "data", "property"):
        _attributes[name] = list(lines)
        return
    lines[:] = spread(lines)


def _after(app: Any, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """An attribute has a sentence; Napoleon takes what stands before its colon for a type."""
    if name in _attributes:
        lines[:] = _attributes.pop(name)


def spread(lines: list[str]) -> list[str]:
    """Lines of a docstring; "a, b: text" as two entries, errors without reasons as a sentence."""
    found: list[str] = []
    rest = list(lines)
    while rest:
        line = rest.pop(0)
        named = NAMED.match(line)
        if named and "ttributes:" in "".join(found):
            more = []
            while rest and rest[0].startswith(named[1] + " "):
                more.append(rest.pop(0))
            for one in named[2].split(", "):
                found += [f"{named[1]}{one}: {named[3]}", *more]
        elif line == "Raises:" and not any(":" in text for text in rest):
            names = " ".join(text.strip() for text in rest).strip().rstrip(".")
            found.append("Raises " + ", ".join(f"``{one}``" for one in names.split(", ")) + ".")
            rest = []
        else:
            found.append(line)
    return found


def _skip(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Constructors of what applications do not construct say nothing to them."""
    made = getattr(thing, "__qualname__", "").partition(".")[0]
    return True if name == "__init__" and made not in CONSTRUCTED else None


def _read(app: Any, page: str, text: list[str]) -> None:
    if page == "index":
        text[0] += contents(text[0])
    text[0] = OUTSIDE.sub("](path:", text[0])  # as a file: it is no page of the site


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _before, priority=400)
    app.connect("autodoc-process-docstring", _after, priority=600)
    app.connect("autodoc-skip-member", _skip)
