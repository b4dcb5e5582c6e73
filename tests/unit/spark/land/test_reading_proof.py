"""A landed table is counted by what tells messages apart."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from onceq.spark.land.reading import COUNTED, LandProof, RowCount, count
from onceq.spark.land.tables import ParquetFolder

GUID = b"0123456789abcdef"


def batch(*rows: tuple[str, str, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row[0] for row in rows], pa.string()),
            pa.array([row[1] for row in rows], pa.string()),
            pa.array([GUID + row[2].to_bytes(4, "little") for row in rows], pa.binary()),
        ],
        list(COUNTED),
    )


def test_nothing_is_nothing() -> None:
    assert count([]) == RowCount(0, 0)
    assert count([batch()]) == RowCount(0, 0)


def test_the_same_message_twice_is_found_in_and_over_batches() -> None:
    one = batch(("A", "q", 1), ("A", "q", 2), ("A", "q", 1))
    assert count([one]) == RowCount(3, 1)
    assert count([one, batch(("B", "q", 7)), one]) == RowCount(7, 4)
    assert count([one.slice(1), one.slice(0, 1)]) == RowCount(3, 1)


def test_queues_and_managers_have_messages_of_their_own() -> None:
    """A copy for each destination has the same identifier."""
    assert count([batch(("A", "q", 1), ("A", "r", 1), ("B", "q", 1))]) == RowCount(3, 0)
    assert count([batch(("A", "q", 1)), batch(("B", "r", 1), ("A", "q", 1))]) == RowCount(3, 1)


def test_rows_that_somebody_else_has_added_are_no_fault_of_ours() -> None:
    """They may have no identifier, or another kind of it."""
    added = pa.RecordBatch.from_arrays(
        [
            pa.array([None, "A", "A", "A", "A"], pa.string()),
            pa.array([None, "q", "q", "q", "q"], pa.string()),
            pa.array([None, None, b"mine", b"yours", b""], pa.binary()),
        ],
        list(COUNTED),
    )
    assert count([added, batch(("A", "q", 1))]) == RowCount(6, 0)
    assert count([added, added.slice(2, 1)]) == RowCount(6, 1)


def test_many_are_told_apart_by_every_byte() -> None:
    rows = [("A", f"q{number % 3}", number * 977) for number in range(5_000)]
    assert count([batch(*rows[:3_000]), batch(*rows[3_000:])]) == RowCount(5_000, 0)
    assert count([batch(*rows), batch(rows[17])]) == RowCount(5_001, 1)


def test_the_verdict_says_what_is_wrong() -> None:
    good = LandProof(5, 4, 1, 0, "pyarrow")
    assert good.holds
    assert good.sentence() == (
        "5 committed, 4 rows and 1 bad row, none twice (read back by pyarrow)"
    )
    assert (
        LandProof(5, 5, 0, 0, "x").sentence() == "5 committed, 5 rows, none twice (read back by x)"
    )
    twice = LandProof(5, 6, 0, 1, "x")
    assert (twice.holds, twice.sentence().split(" (")[0]) == (
        False, "5 committed, 6 rows, 1 TWICE",
    )  # fmt: skip
    lost = LandProof(5, 5, 0, 1, "x")
    assert not lost.holds
    assert "1 TWICE, 1 MISSING" in lost.sentence()
    assert "2 that no batch counts" in LandProof(5, 7, 0, 0, "x").sentence()


def test_a_folder_is_read_without_what_is_hidden_in_it(tmp_path: Path) -> None:
    folder = ParquetFolder(tmp_path)
    assert list(folder.read(COUNTED)) == []
    hidden = tmp_path / "_onceq" / "staging"
    hidden.mkdir(parents=True)
    dated = tmp_path / "date=2026-11-24"
    dated.mkdir()
    table = pa.Table.from_batches([batch(("A", "q", 1))])
    for path in (hidden / "part-0.parquet", dated / "batch-000000000-00000.parquet"):
        parquet.write_table(table, path)
    assert count(folder.read(COUNTED)) == RowCount(1, 0)
