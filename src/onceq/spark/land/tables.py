"""Kinds of tables: Parquet folders and Delta tables (``iceberg`` has the third).

A table takes in the files of a batch and reads them back. A Delta table takes them in by one entry
of its log, which has the number of the batch as Delta's own writers put it (``txn``: an application
and a version), so a batch that is repeated after a crash is recognized. The library deltalake
writes the entry: Delta's own connector for Spark is Java, and does not exist for every version of
Spark.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from onceq.spark.land import memory
from onceq.spark.land.memory import File
from onceq.spark.land.plan import DATE, DATED, LandPlan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class LandTable(Protocol):
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


def open_table(plan: LandPlan, app: str) -> LandTable:
    """The table of a plan.

    Args:
        app: Under which it remembers batches.
    """
    to = plan.to.absolute()
    if plan.table == "delta":
        return DeltaTable(to, app, by_date=plan.by_date)
    if plan.table == "iceberg":
        from onceq.spark.land.iceberg import IcebergTable

        return IcebergTable(to, app, by=plan.prefix + DATED if plan.by_date else "")
    return ParquetFolder(to)


def open_errors(plan: LandPlan, app: str) -> LandTable:
    """The error table of a plan; it is parted by nothing."""
    return open_table(replace(plan, to=plan.errors, by_date=False), app)


LOG: Final = "_delta_log"


class DeltaTable:
    """A Delta table in a folder, which takes in the files of batches."""

    reader = "deltalake"

    def __init__(self, to: Path, app: str, *, by_date: bool) -> None:
        self._to = to
        self._app = app
        self._by = [DATE] if by_date else []
        self._synced: set[str] = set()

    def _open(self) -> Any:
        """Load the table in its present state; None if there is none yet."""
        import deltalake

        if not (self._to / LOG).is_dir() or not deltalake.DeltaTable.is_deltatable(str(self._to)):
            return None
        return deltalake.DeltaTable(str(self._to))

    def has(self, batch: int) -> bool:
        """Whether the log has the number of this batch, or one behind it."""
        table = self._open()
        last = None if table is None else table.transaction_version(self._app)
        if last is None or last < batch:
            return False
        self._settle()
        return True

    def take(self, batch: int, files: Sequence[File], schema: StructType) -> None:
        """One entry of the log names them all."""
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction

        table = self._fitting(schema)
        actions = [
            AddAction(
                str(file.path.relative_to(self._to)), file.bytes, self._values(file.path),
                int(file.path.stat().st_mtime * 1000), True, json.dumps({"numRecords": file.rows}),
            )
            for file in files
        ]  # fmt: skip
        done = CommitProperties(app_transactions=[Transaction(self._app, batch)])
        table.create_write_transaction(
            actions, "append", table.schema(), self._by, commit_properties=done
        )
        self._settle()

    def _fitting(self, schema: StructType) -> Any:
        """The table, made if it is not there, with all columns of the batch."""
        import deltalake

        wanted = deltalake.Schema.from_json(schema.json())
        table = self._open()
        if table is None:
            return deltalake.DeltaTable.create(str(self._to), wanted, partition_by=self._by)
        known = {field.name for field in table.schema().fields}
        fresh = [field for field in wanted.fields if field.name not in known]
        if fresh:
            table.alter.add_columns(fresh)
        return table

    def _values(self, path: Path) -> dict[str, str]:
        return {DATE: path.parent.name.removeprefix(f"{DATE}=")} if self._by else {}

    def _settle(self) -> None:
        """Let the log survive a loss of power; its writer does not wait for the disk."""
        log = self._to / LOG
        fresh = {path.name for path in log.iterdir() if path.is_file()} - self._synced
        for name in fresh:
            with contextlib.suppress(FileNotFoundError):  # others may clean up
                memory.sync_path(log / name)
        memory.sync_path(log)
        memory.sync_path(self._to)
        self._synced |= fresh

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The files that the log names."""
        table = self._open()
        if table is not None:
            yield from table.to_pyarrow_dataset().to_batches(columns=list(columns))
