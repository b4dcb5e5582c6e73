"""docs/reference/simulator.md: the modules of the simulator by folder, each in its own words."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

SIMULATOR: Final = Path(__file__).resolve().parent.parent / "proof" / "sim"
FOLDERS: Final = ("faults", "apps", "judge", "base", "process")
"""From the one that knows all others down; the import rules hold the order."""


def _says(path: Path) -> str:
    """The first sentence of a module."""
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(said.split("\n\n")[0].split()).replace("``", "`")


def page(note: str) -> str:
    """The page, from the first sentences of all modules.

    Raises:
        ValueError: A folder of the simulator stands in no row.
    """
    folders = {path.parent.name for path in SIMULATOR.glob("*/__init__.py")}
    if folders != set(FOLDERS):
        raise ValueError(f"folders of the simulator: {', '.join(sorted(folders))}; name them here")
    tops = [
        f"| `{path.stem}` | {_says(path)} |"
        for path in sorted(SIMULATOR.glob("*.py"), reverse=True)
        if path.stem != "__init__"
    ]
    parts = ["## On top\n\n| module | what it is |\n|---|---|\n" + "\n".join(tops)]
    for folder in FOLDERS:
        home = SIMULATOR / folder
        rows = [
            f"| `{path.stem}` | {_says(path)} |"
            for path in sorted(home.glob("*.py"))
            if path.stem != "__init__"
        ]
        parts.append(
            f"## {folder}\n\n{_says(home / '__init__.py')}\n\n"
            "| module | what it is |\n|---|---|\n" + "\n".join(rows)
        )
    return (
        "# The simulator\n\n" + note + "What stands in `proof.sim`; each folder knows only "
        "those below it on this page. [Simulate](../how-to/simulate.md) says how it is used, and "
        "what it demands.\n\n" + "\n\n".join(parts) + "\n"
    )
