"""Small files and names that survive a loss of power: what drain and replay remember."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a loss of power."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def make(folder: Path) -> None:
    """Make a folder, and those above it that are missing; all of them survive a loss of power."""
    if not folder.is_dir():
        make(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def write(path: Path, value: Any) -> None:
    """Replace a file by a value as JSON: after a crash it is the old one or the new one."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value))
    # The contents before the name: else a power cut could leave an empty file under it.
    sync(fresh)
    fresh.replace(path)
    sync(path.parent)
