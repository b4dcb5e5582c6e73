"""Kinds of tables: what takes files of a batch in, and reads them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from onceq.spark.land.files import File
from onceq.spark.land.plan import DATED, Plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class Table(Protocol):
    """A table in a folder, to which batches are added."""

    reader: str
    """What reads it here."""

    def has(self, batch: int) -> bool:
        """Whether the table took a batch in before, and its files must stay as they are."""

    def take(self, batch: int, files: Sequence[File], schema: StructType) -> None:
        """Take the files of a batch in, durably and at once; columns that it lacks are added."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, by a library that is not ours and not Spark's."""


class ParquetFolder:
    """Files are the table: a batch that is repeated replaces its files."""

    reader = "pyarrow"

    def __init__(self, to: Path) -> None:
        self._to = to

    def has(self, batch: int) -> bool:
        """Never: files that are put in their place again are the same rows."""
        return False

    def take(self, batch: int, files: Sequence[File], schema: StructType) -> None:
        """They are where they belong, and each says itself which columns it has."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """By pyarrow."""
        from pyarrow import dataset

        if not any(self._to.rglob("batch-*.parquet")):
            return
        table = dataset.dataset(str(self._to), format="parquet", partitioning="hive")
        yield from table.to_batches(columns=list(columns))


def open_table(plan: Plan, app: str) -> Table:
    """The table of a plan.

    Args:
        app: Under which it remembers batches.
    """
    to = plan.to.absolute()
    if plan.table == "delta":
        from onceq.spark.land.delta import DeltaTable

        return DeltaTable(to, app, by_date=plan.by_date)
    if plan.table == "iceberg":
        from onceq.spark.land.iceberg import IcebergTable

        return IcebergTable(to, app, by=plan.prefix + DATED if plan.by_date else "")
    return ParquetFolder(to)


def open_errors(plan: Plan, app: str) -> Table:
    """The error table of a plan; it is parted by nothing."""
    return open_table(replace(plan, to=plan.errors, by_date=False), app)
