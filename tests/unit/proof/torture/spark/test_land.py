"""The judge of ``make spark-land``: it is handed tables with losses, repetitions and phantoms."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from proof.torture.spark import land_judge as spark_land_judge
from proof.torture.spark.land_judge import BAD_EVERY, body, judged, padding

Q = r"private$\in"
COMMITTED = 200
Rows = list[dict[str, Any]]
KINDS = ("parquet", "delta", "iceberg")


def row(number: int, **other: object) -> dict[str, Any]:
    """As it is landed, good or bad."""
    values: dict[str, Any] = {
        "queueManager": "ALPHA", "queue": Q, "lookupId": 10 * number,
        "messageId": b"%020d" % number,
    }  # fmt: skip
    if number % BAD_EVERY:
        values |= {"n": number, "padding": padding(number)}
    else:
        values |= {"body": body(number), "reason": "the body is not a JSON object"}
    return {**values, **other}


def write(kind: str, folder: Path, rows: Rows) -> None:
    table = pa.Table.from_pylist(rows)
    if kind == "delta":
        import deltalake

        deltalake.write_deltalake(str(folder), table)
    elif kind == "iceberg":
        from onceq.spark.land.iceberg import Folder

        Folder(folder).make(table.schema, "").append(table)
    else:
        folder.mkdir()
        half = len(rows) // 2
        parquet.write_table(table[:half], folder / "batch-000000000-00000.parquet")
        parquet.write_table(table[half:], folder / "batch-000000001-00000.parquet")


def found(kind: str, to: Path, change: Callable[[Rows, Rows], object]) -> list[str]:
    good = [row(n) for n in range(COMMITTED) if n % BAD_EVERY]
    bad = [row(n) for n in range(COMMITTED) if n % BAD_EVERY == 0]
    change(good, bad)
    write(kind, to / "t", good)
    write(kind, to / "t_errors", bad)
    rows, wrong = judged(kind, to / "t", COMMITTED, manager="ALPHA", queue=Q)
    assert rows == len(good) + len(bad)
    return wrong


@pytest.mark.parametrize("kind", KINDS)
def test_all_is_well(tmp_path: Path, kind: str) -> None:
    assert found(kind, tmp_path, lambda good, bad: None) == []


WRONG: list[tuple[str, Callable[[Rows, Rows], object], str]] = [
    ("lost", lambda good, bad: good.pop(), "lost: 199"),
    ("lost-bad", lambda good, bad: bad.pop(0), "lost: 0"),
    ("repeated", lambda good, bad: good.append(row(5)), "repeated (2 rows): 5"),
    ("repeated-bad", lambda good, bad: bad.append(row(97)), "repeated (2 rows): 97"),
    ("phantom", lambda good, bad: good.append(row(200)), "never committed: 200"),
    ("negative", lambda good, bad: good.append(row(-1)), "never committed: -1"),
    ("changed", lambda good, bad: good[3].update(padding=padding(5)), "changed: 4"),
    ("cut", lambda good, bad: bad[1].update(body=body(97)[:-1]), "changed: 97"),
    ("null", lambda good, bad: good[3].update(padding=None), "changed: 4"),
    ("no-reason", lambda good, bad: bad[0].update(reason=""), "without a reason: 0"),
    (
        "good-in-errors",
        lambda good, bad: bad.append({**row(97), **good.pop(0), "body": body(1)}),
        "in the error table, and nothing is wrong with it: 1",
    ),
    (
        "bad-in-table",
        lambda good, bad: good.append({**row(1), **bad.pop(1), "n": 97}),
        "landed, and its body is no JSON: 97",
    ),
    (
        "other-queue", lambda good, bad: good[3].update(queue=r"private$\other"),
        r"of another queue (private$\other of ALPHA): 4",
    ),
    (
        "other-manager", lambda good, bad: bad[1].update(queueManager="BETA"),
        rf"of another queue ({Q} of BETA): 97",
    ),
    (
        "one-identifier", lambda good, bad: good[3].update(messageId=good[2]["messageId"]),
        "identifiers that messages share: 1",
    ),
    (
        "order", lambda good, bad: good[3].update(lookupId=51),
        "by their places not in the order of the commits: rows",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_is_wrong_is_found(
    tmp_path: Path, change: Callable[[Rows, Rows], object], words: str
) -> None:
    assert found("parquet", tmp_path, change) == [words]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_what_is_wrong_is_found_in_other_tables(tmp_path: Path, kind: str) -> None:
    def change(good: Rows, bad: Rows) -> None:
        good.append(row(5))
        good[3].update(padding="")
        bad.pop(0)

    assert found(kind, tmp_path, change) == ["changed: 4", "lost: 0", "repeated (2 rows): 5"]


def test_rows_of_another_landing_are_found(tmp_path: Path) -> None:
    """Files of one that was landed in the same folder: each of its messages counts twice."""
    assert found("parquet", tmp_path, lambda good, bad: None) == []
    again = [row(n) for n in range(1, 31)]
    parquet.write_table(
        pa.Table.from_pylist(again), tmp_path / "t" / "batch-000000000-00001.parquet"
    )
    (wrong,) = judged("parquet", tmp_path / "t", COMMITTED, manager="ALPHA", queue=Q)[1]
    assert wrong.startswith("repeated (2 rows): 1, 2, 3")
    assert wrong.endswith(" and 10 more")


def test_no_table_has_nothing(tmp_path: Path) -> None:
    for kind in KINDS:
        assert judged(kind, tmp_path / "t", 1, manager="ALPHA", queue=Q) == (0, ["lost: 0"])


def test_the_reader_is_not_ours() -> None:
    tree = ast.parse(Path(spark_land_judge.__file__).read_text())
    named = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    named |= {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    assert not [name for name in named if (name or "").startswith(("onceq", "spark", "pyspark"))]
    assert {"deltalake", "pyiceberg.table", "pyarrow"} <= named


def test_most_bodies_are_json_and_some_are_not() -> None:
    assert body(96).startswith(b'{"n": 96, "padding": "760224-xxx')
    assert body(97) == b"97 768143-" + b"x" * 97
