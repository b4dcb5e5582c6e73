"""Numbers of rules: which there are, where texts cite them, and links to them.

``docs/reference/rules.md`` is the definition. Each rule has a heading that is its number, a text,
and a last paragraph that names its source. Invariants (I), open questions of the wire (U) and
conformance cases have pages of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "rules.md"
INVARIANTS = ROOT / "docs" / "guarantees.md"
QUESTIONS = ROOT / "docs" / "reference" / "formats" / "mqqb.md"

HEADING = re.compile(r"^### (\S+)$", re.M)
NEXT = re.compile(r"^##", re.M)
CITED = re.compile(r"(?<![\w-])([A-Z]{1,5})-(\d{1,3})\b(?!\.\d)(?: to \1-(\d{1,3})\b)?")
SHORT = re.compile(
    r"(?<![\w.-])(?<!finding )(?<!findings )(?<!^### )(?:[PS]\d{1,2}|I\d{1,2}a?)(?!\.?\w|-)",
    re.M,
)
"""Rules and promises; "finding P1" is an entry of docs/findings.md, where it is a heading."""
STANDARDS = frozenset({"CRC", "CVE", "ISO", "P", "RFC", "S", "SHA", "UTF"})
"""What looks like a family of rules and is none; S-1 begins a security identifier of Windows, and
P-256 is a curve."""


@dataclass(frozen=True)
class Rule:
    """One rule of the page.

    Attributes:
        number: As it is cited: ``EOD-3``.
        text: What the rule says.
        source: Published documents, or ``onceq``.
    """

    number: str
    text: str
    source: str


def rules() -> dict[str, Rule]:
    """The rules of the page, by number.

    Raises:
        ValueError: A rule stands there twice, or without a text or a source.
    """
    page = PAGE.read_text()
    found: dict[str, Rule] = {}
    for heading in HEADING.finditer(page):
        number = heading[1]
        end = NEXT.search(page, heading.end())
        body = page[heading.end() : end.start() if end else len(page)].strip()
        text, _, source = body.rpartition("\n\n")
        if not text or not source.startswith("*") or not source.endswith(".*"):
            raise ValueError(f"{number}: a text, and a paragraph in italics with its source")
        if number in found:
            raise ValueError(f"{number} stands there twice")
        found[number] = Rule(number, text, " ".join(source.split()).strip("*"))
    return found


def elsewhere() -> frozenset[str]:
    """Numbers that have a page of their own: invariants, and open questions of the wire."""
    rows = re.findall(r"^\* (I\d+a?): ", INVARIANTS.read_text(), re.M)
    rows += re.findall(r"^\* (U\d+): ", QUESTIONS.read_text(), re.M)
    return frozenset(rows)


def cited(text: str) -> set[str]:
    """Numbers that a text cites; "EOD-31 to EOD-33" cites three."""
    found = set(SHORT.findall(text))
    for family, first, last in CITED.findall(text):
        if family not in STANDARDS:
            found |= {f"{family}-{n}" for n in range(int(first), int(last or first) + 1)}
    return found


def linked(text: str) -> str:
    """A text of a page of the reference, with a link at every number of a rule."""

    def link(match: re.Match[str]) -> str:
        number = match[0]
        return f"[{number}](rules.md#{number.lower()})" if number in known else number

    known = rules()
    return re.sub(r"(?<![\w`-])[A-Z]{1,5}-\d{1,3}\b", link, text)
