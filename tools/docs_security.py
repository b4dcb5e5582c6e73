"""docs/reference/security-tests.md: which tests hold which sentence of SECURITY.md."""

from __future__ import annotations

import sys
from pathlib import Path

from docs_states import table

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from tests.docs.security_claims import HEADING, HELD, MORE, NOT_HELD  # noqa: E402
from tests.docs.sentences import sentences  # noqa: E402

INTRODUCTION = """\
Each sentence of [SECURITY.md](../../SECURITY.md) that promises something, and the tests (below
`tests/`) that fail if it is not true. A sentence without a test says why.
"""
SKIPPED = (HEADING, MORE, "heads of the columns")
"""Sentences that only introduce others are left out."""


def _rows(heading: str, said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The sentences below a heading, and what holds each."""
    why = {one: text for text, ones in NOT_HELD.items() for one in ones}
    return [
        (one, "<br>".join(f"`{test}`" for test in HELD[one]) if one in HELD else f"*{why[one]}*")
        for where, one in said
        if where == heading and why.get(one) not in SKIPPED
    ]


def page(note: str) -> str:
    """The page."""
    said = list(sentences((ROOT / "SECURITY.md").read_text()))
    lines = ["# What holds SECURITY.md", "", note.rstrip(), "", INTRODUCTION]
    for heading in dict.fromkeys(where for where, _ in said):
        if rows := _rows(heading, said):
            lines += [f"## {heading}", "", table(("sentence", "tests"), rows), ""]
    return "\n".join(lines).rstrip("\n") + "\n"
