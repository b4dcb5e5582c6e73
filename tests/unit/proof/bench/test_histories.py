"""Histories that are made: an audit proves what it makes, and finds what it plants, no more."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from onceq.audit import command
from onceq.audit import files as files_of
from onceq.history.columns import META, span_of
from onceq.history.events import SCHEMA
from proof.bench import histories as make_histories
from proof.bench.histories import PLANTS, Wish, make
from proof.bench.history_files import RECORD_ROWS
from tests.audit.histories import audited, peopled


@pytest.mark.parametrize("managers", [2, 4])
def test_an_audit_proves_them(tmp_path: Path, managers: int) -> None:
    make(tmp_path, Wish(40_000, managers=managers, file_rows=3_000))
    found = audited(tmp_path, settled=True)
    assert found["verdict"].startswith(f"PROVEN: of {found['messages']:,} messages each met")
    assert not found["notes"]
    assert found["events"] == pytest.approx(40_000, rel=0.05)
    assert found["streams"] == 3 * (managers - 1)
    assert found["resends"]
    for one in files_of.find([str(tmp_path)]):
        assert len(one.files) > 1
    silent = {(c["invariant"], c["fault"]) for c in found["checked"] if not c["looked_at"]}
    assert {fault for invariant, fault in silent if invariant in ("I2", "I3", "I4", "I6")} == set()


FOLLOWING = {("I2", "torn-commit"), ("I3", "resized")}
"""What a planted fault makes wrong elsewhere: a message that names another transaction tears that
one, and one whose size was changed was received with another."""


@pytest.mark.parametrize("count", [1, len(PLANTS), 2 * len(PLANTS)])
def test_an_audit_finds_what_is_planted(tmp_path: Path, count: int) -> None:
    planted = make(tmp_path / "all", Wish(60_000, managers=3, corrupt=count))
    wish = command.Wish(to=str(tmp_path / "tables"))
    found = command.run([str(tmp_path / "all")], wish, lambda _: None)
    named = pq.read_table(tmp_path / "tables" / "violations").to_pylist()
    assert found["violations"] == len(named)
    torn = [row for row in named if row["fault"] == "torn-commit"]
    # Of the transaction that it leaves, and of the one that it names.
    assert len(torn) <= 2 * RECORD_ROWS * sum(one.fault == "torn" for one in planted)
    named = [row for row in named if (row["invariant"], row["fault"]) not in FOLLOWING]
    assert len(named) == count <= found["messages_violated"]
    columns = ("invariant", "fault", "source", "stream", "number")
    assert sorted(tuple(row[name] for name in columns) for row in named) == sorted(
        tuple(getattr(one, name) for name in columns) for one in planted
    )
    assert {(one.invariant, one.fault) for one in planted} == {
        (one.invariant, one.fault) for one in PLANTS[:count]
    }


def test_files_are_like_those_of_a_manager(tmp_path: Path) -> None:
    make(tmp_path / "made", Wish(2_000))
    peopled(tmp_path / "true")
    (made, true) = (min(tmp_path.glob(f"{name}/*/*.parquet")) for name in ("made", "true"))
    schema = pq.read_schema(made)
    assert schema.remove_metadata() == SCHEMA
    assert set(schema.metadata) == {META}
    assert span_of(made.name)
    one, other = (pq.ParquetFile(path).metadata for path in (made, true))
    assert one.row_group(0).column(0).compression == other.row_group(0).column(0).compression


def test_the_same_seed_makes_the_same_files(tmp_path: Path) -> None:
    def files(name: str, seed: int) -> list[bytes]:
        make(tmp_path / name, Wish(5_000, seed=seed, lost=0.1))
        return [path.read_bytes() for path in sorted((tmp_path / name).glob("*/*"))]

    assert files("one", 7) == files("two", 7)
    assert files("three", 8) != files("one-more", 7)


def test_too_many_corruptions_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        make_histories.main([str(tmp_path / "x"), "--events", "1000", "--corrupt", "900"])
    assert "900 corruptions are too many for" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
