"""A history is followed from file to file: each row once, in order, and no more than was wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onceq.errors import ConfigurationError
from onceq.history.columns import Span
from onceq.history.following import Following


def kept(folder: Path, span: Span, *numbers: int) -> Path:
    path = folder / span.name
    pq.write_table(pa.table({"number": list(numbers)}), path)
    return path


class Reader:
    """Follows, and notes what had gone."""

    def __init__(self, folder: Path, *, odd: bool = False) -> None:
        self.gone: list[str] = []
        self._made = Following(
            str(folder), lambda row: not odd or bool(row["number"] % 2), self.gone.append
        )

    def last(self, count: int) -> list[int]:
        return [row["number"] for row in self._made.last(count)]

    def new(self) -> list[int]:
        return [row["number"] for row in self._made.new()]


def test_each_row_is_told_once_and_in_order(tmp_path: Path) -> None:
    kept(tmp_path, Span(1, 0, 10), 1, 2, 3)
    kept(tmp_path, Span(1, 10, 16), 4, 5)
    reader = Reader(tmp_path)
    assert reader.last(4) == [2, 3, 4, 5]
    assert reader.new() == []
    kept(tmp_path, Span(2, 12, 20), 7)
    kept(tmp_path, Span(1, 16, 16, 1), 6)
    assert reader.new() == [6, 7]
    assert reader.new() == []


@pytest.mark.parametrize(("count", "told"), [(0, []), (1, [5]), (2, [3, 5]), (9, [1, 3, 5])])
def test_the_last_are_counted_of_those_that_are_wanted(
    tmp_path: Path, count: int, told: list[int]
) -> None:
    kept(tmp_path, Span(1, 0, 10), 1, 2, 3)
    kept(tmp_path, Span(1, 10, 16), 4, 5, 6)
    assert Reader(tmp_path, odd=True).last(count) == told


def test_a_folder_that_is_not_there_yet_and_files_of_others(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "history")
    assert (reader.last(5), reader.new()) == ([], [])
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "notes.parquet").write_text("mine")
    kept(tmp_path / "history", Span(1, 0, 4), 1)
    assert reader.new() == [1]


def test_a_file_that_goes_meanwhile_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kept(tmp_path, Span(1, 0, 10), 1)
    kept(tmp_path, Span(1, 10, 16), 2)
    reader, read = Reader(tmp_path), pq.ParquetFile

    def late(path: str, **more: Any) -> Any:
        first.unlink(missing_ok=True)
        return read(path, **more)

    monkeypatch.setattr(pq, "ParquetFile", late)
    assert reader.new() == [2]
    assert reader.gone == [first.name]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = kept(tmp_path, Span(1, 0, 10), 1)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ConfigurationError, match=path.name):
        Reader(tmp_path).new()
