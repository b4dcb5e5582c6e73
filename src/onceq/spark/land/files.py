"""The Parquet files of a batch: written by Spark's tasks beside the table, then moved into it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onceq.spark import state_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class File:
    """One file of a table, where it stands there, and what is in it."""

    path: Path
    rows: int
    bytes: int


def prefix(batch: int) -> str:
    """How the names of a batch's files begin."""
    return f"batch-{batch:09}-"


def stage(frame: DataFrame, folder: Path, by: str = "") -> None:
    """Let Spark write a frame's rows; what an earlier attempt has left is cleared before.

    Args:
        by: Column whose values become folders; empty: none.
    """
    shutil.rmtree(folder, ignore_errors=True)
    writer = frame.write
    (writer.partitionBy(by) if by else writer).parquet(str(folder))


def place(staged: Path, to: Path, batch: int) -> list[File]:
    """Put staged files in their place, durably, instead of those of an earlier attempt."""
    import pyarrow.parquet as parquet

    # Names alone do not replace them: the earlier attempt may have made more files.
    for left in to.rglob(f"{prefix(batch)}*.parquet"):
        left.unlink()
    found = []
    folders = set()
    for number, file in enumerate(sorted(staged.rglob("*.parquet"))):
        rows = parquet.read_metadata(file).num_rows
        # Spark writes a file for each task, also for those without rows.
        if rows:
            folder = to / file.parent.relative_to(staged)
            state_files.make(folder)
            folders.add(folder)
            path = folder / f"{prefix(batch)}{number:05}.parquet"
            found.append(File(path, rows, file.stat().st_size))
            state_files.sync(file)
            file.replace(path)
    for folder in folders:
        state_files.sync(folder)
    return found


def placed(to: Path, batch: int) -> list[File]:
    """The files of a batch that were put in their place before."""
    import pyarrow.parquet as parquet

    return [
        File(path, parquet.read_metadata(path).num_rows, path.stat().st_size)
        for path in sorted(to.rglob(f"{prefix(batch)}*.parquet"))
    ]
