"""The figures of the documentation: written from a run that is kept beside them, between marks. A
test compares them; ``make bench-peers ARGS=--write`` keeps another run."""

from __future__ import annotations

import hashlib
import textwrap
from pathlib import Path

import msgspec

from proof import ROOT
from proof.bench.peers import summary
from proof.bench.peers.run import Figures, Run

PAGE = ROOT / "docs" / "explanation" / "speed-beside-others.md"
KEPT = PAGE.with_suffix(".json")
PICTURE = ROOT / "docs" / "pictures" / "speed-beside-others.svg"
README = ROOT / "README.md"
BEGIN = "<!-- Figures: written by `make bench-peers ARGS=--write`. -->\n"
END = "<!-- End of figures. -->\n"
ALT = (
    "Messages a second by messages a transaction, onceq beside other systems: sent by one client,\n"
    "received by one client, and both at once"
)
COLUMNS = 100
DIGITS = 5
"""Of every figure that is kept."""


def encoded(run: Run) -> bytes:
    """A run as JSON."""
    for outcome in run.outcomes.values():
        outcome.rounds = [_short(found) for found in outcome.rounds]
    return msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n"


def _short(found: Figures) -> Figures:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in found.items()}


def decoded(text: bytes) -> Run:
    """The same back."""
    return msgspec.json.decode(text, type=Run)


def mark(text: bytes) -> str:
    """Return the mark in the picture of a run."""
    return f"run {hashlib.sha256(text).hexdigest()[:16]}"


def texts() -> dict[Path, str]:
    """The pages with the figures of the run that is kept; none if there is none."""
    if not KEPT.exists():
        return {}
    run = decoded(KEPT.read_bytes())
    return {
        path: between(path.read_text(), figures(run))
        for path, figures in ((PAGE, _all), (README, _few))
    }


def between(page: str, figures: str) -> str:
    """A page with other figures between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"a page has no place for figures, from {BEGIN.strip()} to {END.strip()}")
    return f"{before}{BEGIN}{figures}{END}{after}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, COLUMNS, break_on_hyphens=False, break_long_words=False)


def _wrapped_item(line: str) -> str:
    return textwrap.fill(
        line, COLUMNS, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    )


def _all(run: Run) -> str:
    parts = ["## A run", _wrapped(summary.preface(run)), f"![{ALT}](../pictures/{PICTURE.name})"]
    for title, columns in summary.TABLES.items():
        parts += [f"### {title}", summary.table(run, columns)]
    parts.append(_wrapped(summary.STAR))
    if any(summary.ratios(run)):
        parts += [
            "### onceq and the fastest with transactions, times as fast",
            summary.ratio_table(run),
        ]
    parts += ["### What ran", "\n".join(map(_wrapped_item, summary.settings_list(run).split("\n")))]
    missing = summary.absences(run)
    if missing:
        parts += ["Not measured:", "\n".join(_wrapped(f"* {line}") for line in missing)]
    return "\n\n".join(parts) + "\n"


def _few(run: Run) -> str:
    parts = [
        f"![{ALT}](docs/pictures/{PICTURE.name})",
        summary.table(run, summary.SMALL, whole=False),
        _wrapped(summary.STAR),
    ]
    return "\n\n".join(parts) + "\n"
