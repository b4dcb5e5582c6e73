"""The judge of a query that loses its checkpoint: what folders may hold of what was committed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from proof.torture.spark.kill_anew import judged, rows


def entry(folder: Path, name: str, *files: Path) -> None:
    log = folder / "_spark_metadata"
    log.mkdir(exist_ok=True)
    lines = [json.dumps({"path": f"file://{file}", "action": "add"}) for file in files]
    (log / name).write_text("\n".join(["v1", *lines]))


def written(folder: Path, name: str, *numbers: int) -> Path:
    path = folder / name
    parquet.write_table(pa.table({"body": [b"%d xx" % number for number in numbers]}), path)
    return path


def test_a_folder_has_what_its_log_names(tmp_path: Path) -> None:
    first = written(tmp_path, "a b.parquet", 0, 1)
    second, third = written(tmp_path, "b.parquet", 2), written(tmp_path, "c.parquet", 3, 4)
    written(tmp_path, "left-by-a-task-that-was-killed.parquet", 2)
    entry(tmp_path, "0", first)
    entry(tmp_path, "1.compact", first, second)
    assert rows(tmp_path) == ([0, 1, 2], [2])
    entry(tmp_path, "2", third)
    assert rows(tmp_path) == ([0, 1, 2, 3, 4], [3, 4])
    assert rows(tmp_path / "not there") == ([], [])


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ([([0, 1, 2], [2]), ([3, 4], [4])], ""),
        ([([0, 1, 2], [1, 2]), ([1, 2, 3, 4], [4])], ""),
        ([([0, 1, 2], [2]), ([1, 2, 3, 4], [4])], "repeated: 1 is in folders 0 and 1"),
        ([([0, 1], [1]), ([2], [2]), ([1, 3, 4], [4])], "repeated: 1 is in folders 0 and 2"),
        ([([0, 1, 1, 2], [2]), ([3, 4], [4])], "repeated: 1 has 2 rows in folder 0"),
        ([([0, 2], [2]), ([3, 4], [4])], "lost: 1 is nowhere"),
        ([([0, 1, 2], [2]), ([3, 4, 5], [5])], "phantom: 5 was never committed"),
    ],
)
def test_what_is_wrong(found: list[tuple[list[int], list[int]]], wrong: str) -> None:
    assert judged(found, 5) == ([wrong] if wrong else [])
