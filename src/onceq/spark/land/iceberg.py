"""An Iceberg table: a snapshot takes a batch's files in, and says in its summary which batch it is.

The table lies in its folder as Iceberg's Hadoop tables do: ``metadata/v7.metadata.json`` is the
table, and ``version-hint.text`` says 7. So every engine reads it by its path, and there is no
catalog that has to be there. Spark's tasks have written the files, and the library pyiceberg writes
manifests and metadata: Iceberg's own connector is Java, and there is none for this Spark.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import update_table_metadata

from onceq.spark.land import memory
from onceq.spark.land.memory import File
from onceq.spark.land.plan import DATE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


APP: Final = "onceq.app"
BATCH: Final = "onceq.batch"
HINT: Final = "version-hint.text"
_VERSION: Final = re.compile(r"v(\d+)\.metadata\.json")
NAME: Final = ("onceq", "table")
"""Such tables have no name but their path; the library asks for one."""
PROPERTIES: Final = {
    # Each batch adds a manifest and a version: without these two they only grow.
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}


class Folder(NoopCatalog):  # type: ignore[misc]
    """One table in one folder, whose versions are files of which each can be made only once."""

    def __init__(self, to: Path) -> None:
        super().__init__(str(to))
        self._to = to
        self.metadata = to / "metadata"
        self._synced: set[str] = set()

    def version(self) -> int:
        """The newest; 0: there is no table. The hint is for others, and may be behind."""
        names = (path.name for path in self.metadata.glob("v*.metadata.json"))
        return max((int(found[1]) for found in map(_VERSION.match, names) if found), default=0)

    def _path(self, version: int) -> Path:
        return self.metadata / f"v{version}.metadata.json"

    def load_table(self, identifier: Any) -> Table:
        """Load the table in its present state."""
        from pyiceberg.io import load_file_io
        from pyiceberg.serializers import FromInputFile

        place = str(self._path(self.version()))
        io = load_file_io({}, place)
        return Table(identifier, FromInputFile.table_metadata(io.new_input(place)), place, io, self)

    def make(self, schema: pa.Schema, by: str) -> Table:
        """A new table.

        Args:
            by: Column of times by whose days it is parted; empty: by nothing.
        """
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.schema import assign_fresh_schema_ids
        from pyiceberg.table.metadata import new_table_metadata
        from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
        from pyiceberg.transforms import DayTransform

        memory.make_folder(self.metadata)
        # A table knows its columns by numbers.
        found = assign_fresh_schema_ids(self._convert_schema_if_needed(schema))
        parts = []
        if by:
            field = found.find_field(by)
            parts = [PartitionField(field.field_id, 1000, DayTransform(), DATE)]
        spec = PartitionSpec(*parts)
        made = new_table_metadata(found, spec, UNSORTED_SORT_ORDER, str(self._to), PROPERTIES)
        self._write(1, made)
        return self.load_table(NAME)

    def commit_table(
        self, table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]
    ) -> CommitTableResponse:
        """A new version, if the table is what it was when the change was prepared."""
        for requirement in requirements:
            requirement.validate(table.metadata)
        made = update_table_metadata(
            table.metadata, updates, metadata_location=table.metadata_location
        )
        at = _VERSION.match(Path(table.metadata_location).name)
        assert at is not None
        version = int(at[1]) + 1
        self._write(version, made)
        return CommitTableResponse(
            metadata=made, metadata_location=str(self._path(version))
        )  # fmt: skip

    def _write(self, version: int, made: Any) -> None:
        # What it names comes first: a power cut must not leave a version without its manifests.
        self.settle()
        fresh = self.metadata / f"v{version}.{os.getpid()}.new"
        fresh.write_text(made.model_dump_json(exclude_none=True))
        memory.sync_path(fresh)
        try:
            os.link(fresh, self._path(version))
        except FileExistsError:
            raise CommitFailedException(f"somebody else has made version {version}") from None
        finally:
            fresh.unlink()
        self.settle()
        hint = self.metadata / f"{HINT}.new"
        hint.write_text(str(version))
        memory.sync_path(hint)
        hint.replace(self.metadata / HINT)
        memory.sync_path(self.metadata)

    def settle(self) -> None:
        """Let all that is there survive a loss of power."""
        there = {path.name for path in self.metadata.iterdir() if path.name != HINT}
        for name in there - self._synced:
            with contextlib.suppress(FileNotFoundError):  # others may clean up
                memory.sync_path(self.metadata / name)
        memory.sync_path(self.metadata)
        memory.sync_path(self._to)
        self._synced |= there


class IcebergTable:
    """An Iceberg table in a folder, which takes in the files of batches."""

    reader = "pyiceberg"

    def __init__(self, to: Path, app: str, *, by: str) -> None:
        self._folder = Folder(to)
        self._app = app
        self._by = by

    def _open(self) -> Table | None:
        """Load the table in its present state; None if there is none yet."""
        return self._folder.load_table(NAME) if self._folder.version() else None

    def has(self, batch: int) -> bool:
        """Whether a snapshot has the number of this batch, or one behind it."""
        table = self._open()
        if table is None:
            return False
        self._folder.settle()
        for snapshot in reversed(table.metadata.snapshots):
            found = snapshot.summary.additional_properties if snapshot.summary else {}
            if found.get(APP) == self._app:
                return int(found[BATCH]) >= batch
        return False

    def take(self, batch: int, files: Sequence[File], schema: StructType) -> None:
        """One snapshot names them all."""
        table = self._fitting(files[0].path)
        table.add_files(
            [str(file.path) for file in files], {APP: self._app, BATCH: str(batch)},
            check_duplicate_files=False,
        )  # fmt: skip

    def _fitting(self, path: Path) -> Table:
        """The table, made if it is not there, with all columns of a file."""
        import pyarrow as pa
        import pyarrow.parquet as parquet

        # The schema of the file itself, and not the one of Spark: the table must match the file.
        arrow = pa.schema([field.with_nullable(True) for field in parquet.read_schema(path)])
        table = self._open()
        if table is None:
            return self._folder.make(arrow, self._by)
        known = {field.name for field in table.schema().fields}
        if not known.issuperset(arrow.names):
            with table.update_schema() as update:
                update.union_by_name(arrow)
        return table

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The files that the newest snapshot names."""
        table = self._open()
        if table is not None:
            yield from table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader()
