"""What a terminal shows of the demo, as an SVG: what happened, and the table at its end.

Times are left out: they are those of one machine on one day. The counts are those of the run.

The file names no font, style or script of another place, so it can be shown without a network.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from demo.report import Findings, outcome, verdict

WIDTH_CHARS: Final = 108
SAID_MAX: Final = 18
"""Lines of what happened; more would push the table off the screen."""
FONT: Final = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"

THEME: Final = TerminalTheme(
    (24, 28, 36),
    (214, 219, 228),
    [
        (44, 49, 60), (233, 108, 117), (140, 200, 120), (229, 192, 123),
        (97, 175, 239), (198, 120, 221), (86, 182, 194), (171, 178, 191),
    ],
    [
        (92, 99, 112), (240, 125, 133), (158, 214, 138), (238, 205, 140),
        (120, 190, 245), (210, 140, 232), (110, 200, 210), (255, 255, 255),
    ],
)  # fmt: skip

_FONT_FACE = re.compile(r"\s*@font-face \{.*?\}\n", re.S)


def draw(path: Path, said: Sequence[str], found: Findings) -> None:
    """Write the picture.

    Args:
        path: Where to.
        said: What was told while it went on, as markup.
        found: What is in the table.
    """
    console = Console(
        record=True, width=WIDTH_CHARS, file=io.StringIO(), force_terminal=True,
        color_system="truecolor", legacy_windows=False,
    )  # fmt: skip
    console.print("[bold]$ make demo[/bold]", highlight=False)
    for line in chosen(said):
        console.print(f"  {line}", highlight=False, no_wrap=True, overflow="ellipsis")
    console.print()
    console.print(outcome(found, times=False))
    verdict(console, found)
    text = console.export_svg(title="onceq", theme=THEME, unique_id="demo")
    text = _FONT_FACE.sub("", text).replace("Fira Code, monospace", FONT)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def chosen(said: Sequence[str]) -> list[str]:
    """The lines that are shown: of the audit only how it ends."""
    audit = [line for line in said if line.startswith("audit: ")]
    return [line for line in said if line not in audit[:-1]][:SAID_MAX]
