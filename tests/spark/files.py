"""Parquet files that a stream of Spark's takes one after another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def write_files(folder: Path, *tables: Any) -> None:
    """A file for each table, in their order."""
    folder.mkdir()
    for number, table in enumerate(tables):
        file = folder / f"{number}.parquet"
        pq.write_table(table, file)
        # Spark takes files by the time of their last change, and in no order where that is equal.
        os.utime(file, (number + 1, number + 1))
