"""The sentences of a page, without its marks: each row of a table is one, and each sentence of a
paragraph or a list."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_HOW = re.compile(r" ?\(\[(?:how|open|what that proves|which)[^\]]*\]\([^)]+\)\)")
_END = re.compile(r"(?<=[.?])(?:\*\*)? (?=\*{0,2}[A-Z])")
_NOT_AN_END = re.compile(r"(?:e\.g|i\.e|etc)\.$")


def sentences(page: str) -> Iterator[tuple[str, str]]:
    """Heading, and sentence, of each sentence of a page."""
    heading, lines = "", page.split("\n")
    block: list[str] = []
    for line in [*lines, ""]:
        begins = line.startswith(("* ", "#", "|"))
        if block and (begins or not line.strip()):
            yield from ((heading, one) for one in _split(" ".join(block)))
            block = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|"):
            if not re.fullmatch(r"[|\s:-]+", line):
                yield heading, _plain(line.strip("| ").replace(" | ", ": "))
        elif line.strip():
            block.append(line.removeprefix("* ").strip())


def _split(text: str) -> Iterator[str]:
    held = ""
    for part in _END.split(text):
        held = f"{held} {part}".strip()
        if not _NOT_AN_END.search(held):
            yield _plain(held)
            held = ""
    if held:
        yield _plain(held)


def _plain(text: str) -> str:
    """Without links, emphasis and pages that say how."""
    text = _LINK.sub(r"\1", _HOW.sub("", text))
    return " ".join(text.replace("**", "").split())
