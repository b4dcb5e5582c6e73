"""docs/reference/security-tests.md: which tests hold which sentence of SECURITY.md."""

from __future__ import annotations

import sys
from pathlib import Path

from docs_states import table

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from tests.docs.security_claims import HELD, NOT_HELD  # noqa: E402
from tests.docs.sentences import sentences  # noqa: E402

INTRODUCTION = """\
[SECURITY.md](../../SECURITY.md) sentence by sentence, without its links: each has tests that fail
where it is not true, or promises nothing. A sentence that is changed there is not held until
somebody has looked at it here: a test compares the words. Tests are named below `tests/`.
"""


def _rows(heading: str, said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The sentences below a heading, and what holds each."""
    why = {one: text for text, ones in NOT_HELD.items() for one in ones}
    return [
        (one, "<br>".join(f"`{test}`" for test in HELD[one]) if one in HELD else f"*{why[one]}*")
        for where, one in said
        if where == heading
    ]


def page(note: str) -> str:
    """The page."""
    said = list(sentences((ROOT / "SECURITY.md").read_text()))
    lines = ["# What holds SECURITY.md", "", note.rstrip(), "", INTRODUCTION]
    for heading in dict.fromkeys(where for where, _ in said):
        lines += [f"## {heading}", "", table(("sentence", "tests"), _rows(heading, said)), ""]
    return "\n".join(lines).rstrip("\n") + "\n"
