"""A Delta table: one entry of its log takes a batch's files in, and has the number of the batch.

The number stands there as Delta's own writers put it (``txn``: an application and a version), so a
batch that is repeated after a crash is seen to be in. Spark's tasks have written the files, and the
library deltalake writes the entry: Delta's own connector for Spark is Java, and there is none for
every version of Spark.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onceq.spark import state_files
from onceq.spark.land.files import File
from onceq.spark.land.plan import DATE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

LOG: Final = "_delta_log"


class DeltaTable:
    """See the module."""

    reader = "deltalake"

    def __init__(self, to: Path, app: str, *, by_date: bool) -> None:
        self._to = to
        self._app = app
        self._by = [DATE] if by_date else []
        self._synced: set[str] = set()

    def _open(self) -> Any:
        """The table as it is now; None if there is none yet."""
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
                state_files.sync(log / name)
        state_files.sync(log)
        state_files.sync(self._to)
        self._synced |= fresh

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The files that the log names."""
        table = self._open()
        if table is not None:
            yield from table.to_pyarrow_dataset().to_batches(columns=list(columns))
