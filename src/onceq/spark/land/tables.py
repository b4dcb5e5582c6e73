"""Kinds of tables: what takes files of a batch in, and reads them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from onceq.spark.land.files import File
from onceq.spark.land.schemas import Field

if TYPE_CHECKING:
    import pyarrow as pa


class Table(Protocol):
    """A table in a folder, to which batches are added."""

    reader: str
    """What reads it here."""

    def has(self, batch: int) -> bool:
        """Whether the table took a batch in before, and its files must stay as they are."""

    def take(self, batch: int, files: Sequence[File]) -> None:
        """Take the files of a batch in, durably and at once."""

    def add(self, fields: Sequence[Field]) -> None:
        """Add columns that may be null; those that are there stay."""

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

    def take(self, batch: int, files: Sequence[File]) -> None:
        """They are where they belong."""

    def add(self, fields: Sequence[Field]) -> None:
        """Each file says what it has; readers give null for columns that it lacks."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """By pyarrow."""
        from pyarrow import dataset

        if not any(self._to.rglob("batch-*.parquet")):
            return
        table = dataset.dataset(str(self._to), format="parquet", partitioning="hive")
        yield from table.to_batches(columns=list(columns))


def open_table(kind: str, to: Path) -> Table:
    """A table of a kind in a folder."""
    return {"parquet": ParquetFolder}[kind](to)
