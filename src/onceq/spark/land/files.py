"""Files of landings and replays that survive a loss of power, and the Parquet files of a batch.

Spark's tasks write the files of a batch beside the table. They are made durable, and moved to their
place under the number of the batch, instead of those of an earlier attempt.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sync_path(path: Path) -> None:
    """Make a file, or the names in a folder, survive a loss of power."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing; all of them survive a loss of power."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_path(folder.parent)


def write_json(path: Path, value: Any) -> None:
    """Replace a file by a value as JSON: after a crash it is the old one or the new one."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value))
    # The contents before the name: else a power cut could leave an empty file under it.
    sync_path(fresh)
    fresh.replace(path)
    sync_path(path.parent)


@dataclass(frozen=True, slots=True)
class File:
    """One file of a table, where it stands there, and what is in it."""

    path: Path
    rows: int
    bytes: int


def batch_prefix(batch: int) -> str:
    """How the names of a batch's files begin."""
    return f"batch-{batch:09}-"


def stage_files(frame: DataFrame, folder: Path, by: str = "") -> None:
    """Let Spark write a frame's rows; what an earlier attempt has left is cleared before.

    Args:
        by: Column whose values become folders; empty: none.
    """
    shutil.rmtree(folder, ignore_errors=True)
    writer = frame.write
    (writer.partitionBy(by) if by else writer).parquet(str(folder))


def place_files(staged: Path, to: Path, batch: int) -> list[File]:
    """Put staged files in their place, durably, instead of those of an earlier attempt."""
    import pyarrow.parquet as parquet

    # Names alone do not replace them: the earlier attempt may have made more files.
    for left in to.rglob(f"{batch_prefix(batch)}*.parquet"):
        left.unlink()
    found = []
    folders = set()
    for number, file in enumerate(sorted(staged.rglob("*.parquet"))):
        rows = parquet.read_metadata(file).num_rows
        # Spark writes a file for each task, also for those without rows.
        if rows:
            folder = to / file.parent.relative_to(staged)
            make_folder(folder)
            folders.add(folder)
            path = folder / f"{batch_prefix(batch)}{number:05}.parquet"
            found.append(File(path, rows, file.stat().st_size))
            sync_path(file)
            file.replace(path)
    for folder in folders:
        sync_path(folder)
    return found


def placed_files(to: Path, batch: int) -> list[File]:
    """The files of a batch that were put in their place before."""
    import pyarrow.parquet as parquet

    return [
        File(path, parquet.read_metadata(path).num_rows, path.stat().st_size)
        for path in sorted(to.rglob(f"{batch_prefix(batch)}*.parquet"))
    ]
