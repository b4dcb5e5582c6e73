"""``onceq audit --landed``: a table beside the histories of its queue, true and with mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onceq.cli.main import run
from onceq.errors import ConfigurationError
from onceq.model.identity import guid_bytes
from onceq.spark.land.memory import DRAINED, HIDDEN
from onceq.spark.land.plan import IDENTITY
from onceq.spark.land.reading import opened
from tests.audit.landings import (
    KINDS,
    LANDED,
    OTHERS,
    WAITING,
    Q,
    R,
    accepted,
    audited,
    faults,
    landed,
    lived,
    planned,
)
from tests.audit.planting import Planter, Row
from tests.history.worlds import Kept
from tests.scratch import scratch

FOREIGN = guid_bytes("0ddba115-0000-4000-8000-0123456789ab") + bytes(4)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "landed") as path:
        yield lived(path / "histories")


@pytest.fixture(scope="module")
def rows(place: Path) -> list[Row]:
    """What the table should have."""
    return accepted(place)[:LANDED]


def test_the_history_tells_who_has_read(place: Path) -> None:
    events = [
        row for file in sorted((place / "B").iterdir()) for row in pq.read_table(file).to_pylist()
    ]
    readers = [row["reader"] for row in events if row["event"] == "received"]
    assert readers == ["onceq spark land 1"] * LANDED + [None] * OTHERS
    assert {row["reader"] for row in events if row["event"] != "received"} == {None}


@pytest.mark.parametrize("prefix", ["", "mq_"])
def test_a_true_table_is_proven(place: Path, rows: list[Row], tmp_path: Path, prefix: str) -> None:
    table = landed(tmp_path / "t", rows, prefix=prefix)
    found = audited(place, table, html=str(tmp_path / "report.html"))
    assert found["violations"] == 0, found["stories"]
    assert found["verdict"].startswith("PROVEN: ")
    (said,) = found["landed"]
    assert said["sentence"] == "12 committed, 12 rows, none twice (read back by pyarrow)"
    assert (said["received"], said["waiting"], said["received_by_others"]) == (LANDED, 0, 0)
    looked = {one["fault"]: one["looked_at"] for one in found["checked"]}
    assert looked["landed-lost"] == looked["landed-twice"] == LANDED
    assert looked["landed-from-nowhere"] == looked["landed-elsewhere"] == LANDED
    assert looked["landed-missing"] == LANDED
    report = (tmp_path / "report.html").read_text()
    assert "Landed tables" in report
    assert "12 committed, 12 rows, none twice" in report


def test_rows_of_messages_that_wait_and_bad_rows_are_true(
    place: Path, rows: list[Row], tmp_path: Path
) -> None:
    """The last batch is written, and removed with the next one; what others have received among
    them is no row of the landing's."""
    waits = accepted(place)[LANDED + OTHERS :]
    table = landed(tmp_path / "t", [*rows[3:], *waits], bad=rows[:3], body="json")
    found = audited(place, table, settled=True)
    assert found["violations"] == 0, found["stories"]
    (said,) = found["landed"]
    assert said["sentence"] == (
        "17 committed, 14 rows and 3 bad rows, none twice (read back by pyarrow)"
    )
    assert (said["waiting"], said["received_by_others"]) == (WAITING, OTHERS)


def planted(rows: list[Row], kind: str) -> tuple[list[Row], list[Row]]:
    """Rows, and bad rows, with a mistake."""
    one = rows[6]
    elsewhere = {**one, "queue": R}
    return {
        "landed-lost": ([*rows[:6], *rows[7:]], []),
        "landed-twice": ([*rows, one], []),
        "twice over both": (rows, [one]),
        "landed-from-nowhere": ([*rows, {**one, "messageId": FOREIGN}], []),
        "landed-elsewhere": ([*rows, elsewhere], []),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("landed-lost", "landed-lost"), ("landed-twice", "landed-twice"),
        ("twice over both", "landed-twice"), ("landed-from-nowhere", "landed-from-nowhere"),
        ("landed-elsewhere", "landed-elsewhere"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_own_fault_and_story(
    place: Path, rows: list[Row], tmp_path: Path, kind: str, fault: str
) -> None:
    good, bad = planted(rows, kind)
    found = audited(place, landed(tmp_path / "t", good, bad=bad, total=LANDED, body="json"))
    assert faults(found) == {fault: 1}
    (story,) = found["stories"]
    assert [one["fault"] for one in story["faults"]] == [fault]
    assert str(tmp_path / "t") in story["faults"][0]["said"]
    if kind == "landed-from-nowhere":
        assert "message 0 of 0ddba115-0000-4000-8000-0123456789ab" in story["title"]
    else:
        number = int.from_bytes(rows[6]["messageId"][16:], "little")
        assert story["title"].startswith(f"message {number} of A, number ")
        assert any(" received " in line for line in story["rows"])
    assert found["verdict"].startswith("VIOLATED: 1 violation of ")


def test_a_row_of_another_queue_that_is_true_there_is_elsewhere(
    place: Path, rows: list[Row], tmp_path: Path
) -> None:
    table = landed(tmp_path / "t", [*rows, *accepted(place, R)], total=LANDED)
    assert faults(audited(place, table)) == {"landed-elsewhere": 2}
    both = landed(tmp_path / "u", [*rows, *accepted(place, R)], queues=f"{Q},{R}")
    assert faults(audited(place, both)) == {}


def test_rows_that_the_landing_counts_and_nobody_can_name_are_missing(
    place: Path, rows: list[Row], tmp_path: Path
) -> None:
    found = audited(place, landed(tmp_path / "t", rows, total=LANDED + 2))
    assert faults(found) == {"landed-missing": 2}
    assert found["landed"][0]["sentence"].startswith("14 committed, 12 rows, none twice, 2 MISSING")
    assert found["verdict"] == "VIOLATED: 2 violations of I6 by 2 messages"


def test_without_readers_in_the_history_nobody_is_accused(
    place: Path, rows: list[Row], tmp_path: Path
) -> None:
    for name in ("A", "B"):
        (tmp_path / "old" / name).mkdir(parents=True)
        for file in (place / name).iterdir():
            table = pq.read_table(file)
            pq.write_table(table.drop_columns(["reader"]), tmp_path / "old" / name / file.name)
    table = landed(tmp_path / "t", [*rows[:6], *rows[7:]])
    found = audited(tmp_path / "old", table)
    assert faults(found) == {}
    assert found["landed"][0]["received_untold"] == 1
    assert any("1 message(s) in no row were received among those" in n for n in found["notes"])
    assert "as far as the histories tell" in found["verdict"]


def test_a_name_that_other_landings_have_accuses_nobody(
    place: Path, rows: list[Row], tmp_path: Path
) -> None:
    """As ``onceq spark drain`` had it at first."""
    for name in ("A", "B"):
        (tmp_path / "old" / name).mkdir(parents=True)
        for file in (place / name).iterdir():
            (tmp_path / "old" / name / file.name).write_bytes(file.read_bytes())
    b = Planter(tmp_path / "old" / "B")
    for row in b.rows:
        row["reader"] = row["reader"] and DRAINED["subscription"]
    b.save()
    table = landed(tmp_path / "t", rows[:6], subscription=DRAINED["subscription"])
    found = audited(tmp_path / "old", table)
    assert faults(found) == {}
    assert any("reads under a name that others have" in note for note in found["notes"])


def test_what_the_history_does_not_reach_is_a_note(
    place: Path, rows: list[Row], tmp_path: Path
) -> None:
    later = {**rows[0], "lookupId": rows[-1]["lookupId"] + 1_000, "messageId": FOREIGN}
    other = {**rows[1], "queueManager": "GAMMA"}
    added = {"queueManager": None, "queue": None, "lookupId": None, "messageId": None}
    table = landed(tmp_path / "t", [*rows, later, other, added], total=LANDED)
    found = audited(place, table)
    assert faults(found) == {}
    said = " ".join(found["notes"])
    assert "1 row(s) are of messages that came after the end of the history" in said
    assert "1 row(s) are of GAMMA, whose history is not here" in said
    assert "1 row(s) say no message" in said
    assert faults(audited(place, table, settled=True)) == {"landed-from-nowhere": 1}


def test_acknowledgments_that_the_manager_has_made_are_not_accused(
    place: Path, rows: list[Row], tmp_path: Path
) -> None:
    """What stands in a queue of them came there without a row that has its identifier."""
    events = pq.read_table(sorted((place / "B").iterdir())[0]).to_pylist()
    own = guid_bytes(events[0]["managerId"]) + bytes(4)
    free = {**rows[0], "lookupId": rows[0]["lookupId"] - 1, "messageId": own}
    found = audited(place, landed(tmp_path / "t", [*rows, free], total=LANDED))
    assert faults(found) == {}
    assert any("1 row(s) may be of acknowledgments or reports" in n for n in found["notes"])
    taken = {**rows[0], "messageId": own}
    found = audited(place, landed(tmp_path / "u", [*rows, taken], total=LANDED))
    assert faults(found) == {"landed-from-nowhere": 1}


def test_a_send_by_two_names_has_two_rows(tmp_path: Path) -> None:
    """Both copies have one identifier, and each came into the queue once."""
    world = Kept("A", "B")
    world["B"].create("q")
    world["A"].once(rf"DIRECT=OS:B\{Q},DIRECT=TCP:10.0.0.2\{Q}", b"by two ways")
    world.run(30)
    world.save(tmp_path / "both")
    rows = accepted(tmp_path / "both")
    assert len(rows) == 2
    assert rows[0]["messageId"] == rows[1]["messageId"]
    found = audited(tmp_path / "both", landed(tmp_path / "t", rows))
    assert faults(found) == {}
    third = {**rows[0], "lookupId": rows[0]["lookupId"] - 1}
    table = landed(tmp_path / "u", [*rows, third, rows[1]], total=2)
    assert faults(audited(tmp_path / "both", table)) == {"landed-twice": 2}


def test_two_tables_are_judged_each_for_itself(
    place: Path, rows: list[Row], tmp_path: Path
) -> None:
    good, bad = landed(tmp_path / "t", rows), landed(tmp_path / "u", [*rows, rows[0]])
    found = audited(place, good, bad)
    assert [one["twice"] for one in found["landed"]] == [0, 1]
    assert "none twice" in found["landed"][0]["sentence"]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_delta_and_iceberg_are_read_by_their_own_libraries(
    place: Path, rows: list[Row], tmp_path: Path, kind: str
) -> None:
    to = planned(tmp_path / "t", LANDED, table=kind)
    table = pa.Table.from_pylist([*rows, rows[2]], KINDS)
    if kind == "delta":
        import deltalake

        deltalake.write_deltalake(str(to), table)
    else:
        from onceq.spark.land.iceberg import IcebergTable
        from onceq.spark.land.memory import File

        path = to / "batch-000000000-00000.parquet"
        pq.write_table(table, path)
        made = IcebergTable(to.absolute(), "it", by="")
        made.take(0, [File(path, len(table), path.stat().st_size)], None)
    found = audited(place, to)
    assert faults(found) == {"landed-twice": 1}
    assert found["landed"][0]["library"] == ("deltalake" if kind == "delta" else "pyiceberg")


def test_what_is_no_table_is_refused(place: Path, rows: list[Row], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such folder"):
        opened(str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=r"is no table that onceq spark land .*plan\.json"):
        opened(str(place))
    lacking = planned(tmp_path / "lacking", 0, columns=["body", "messageId"])
    with pytest.raises(ConfigurationError, match="has no column queueManager"):
        opened(str(lacking))
    newer = planned(tmp_path / "newer", 0, format=99)
    with pytest.raises(ConfigurationError, match="a newer onceq has landed"):
        opened(str(newer))
    broken = planned(tmp_path / "broken", 0)
    (broken / HIDDEN / "done.json").write_text("{")
    with pytest.raises(ConfigurationError, match=r"done\.json cannot be read"):
        opened(str(broken))
    half = landed(tmp_path / "half", rows)
    (file, *_) = sorted(half.glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(
        ConfigurationError, match=r"cannot be read back by pyarrow .*copy the table"
    ):
        audited(place, half)
    other = landed(tmp_path / "other", [{**row, "queueManager": "GAMMA"} for row in rows])
    with pytest.raises(ConfigurationError, match="rows of GAMMA, and no history here tells of it"):
        audited(place, other)


def test_a_proof_keeps_what_a_table_is_compared_with(
    place: Path, rows: list[Row], tmp_path: Path
) -> None:
    table, proof = landed(tmp_path / "t", rows), str(tmp_path / "proof")
    for _ in range(2):
        found = audited(place, table, proof=proof)
        assert faults(found) == {}
        assert found["landed"][0]["received"] == LANDED


def test_an_empty_table_is_true_where_nothing_was_landed(place: Path, tmp_path: Path) -> None:
    found = audited(place, planned(tmp_path / "t", 0, subscription="somebody else"))
    assert faults(found) == {}
    assert found["landed"][0]["sentence"].startswith("0 committed, 0 rows, none twice")
    assert faults(audited(place, planned(tmp_path / "u", 0))) == {"landed-lost": LANDED}


def test_spark_is_not_needed() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import onceq.spark.land.reading"
    subprocess.run([sys.executable, "-c", code], check=True)


def said(row: Row, at: int, *names: str) -> Row:
    """A row that says the body of its message, which is its number."""
    body = b"%d" % at
    whole = {"body": body, "bodyCrc": crc32(body)}
    return {**row, **{name: whole[name] for name in names}}


@pytest.mark.parametrize("names", [("body",), ("bodyCrc",), ("body", "bodyCrc")], ids=str)
def test_rows_say_what_their_messages_said(
    place: Path, rows: list[Row], tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Rows whose bodies, sums or identities were exchanged passed as proven (finding P3a)."""
    good = [said(row, at, *names) for at, row in enumerate(rows)]
    columns = [*IDENTITY, *names]
    assert faults(audited(place, landed(tmp_path / "good", good, columns=columns))) == {}
    swaps = [*((name,) for name in names), ("lookupId", "messageId")]
    for at, swapped in enumerate(swaps):
        bad = [dict(row) for row in good]
        for name in swapped:
            bad[3][name], bad[7][name] = bad[7][name], bad[3][name]
        found = faults(audited(place, landed(tmp_path / f"{at}", bad, columns=columns)))
        assert found == {"landed-altered": 2}, swapped


def test_a_bad_row_says_what_its_message_said(place: Path, rows: list[Row], tmp_path: Path) -> None:
    columns = [*IDENTITY, "bodyCrc"]
    good = [said(row, at, "bodyCrc") for at, row in enumerate(rows)]
    for at, body in enumerate((b"11", b"12")):
        bad = [{**rows[11], "body": body}]
        table = landed(tmp_path / f"{at}", good[:11], bad=bad, columns=columns, body="json")
        assert faults(audited(place, table)) == ({} if body == b"11" else {"landed-altered": 1})


def test_rows_say_their_queue_in_any_spelling(place: Path, rows: list[Row], tmp_path: Path) -> None:
    """As it was typed for the landing, of this version or of one before (finding P3)."""
    for at, name in enumerate(("private$/q", r"B\Private$\Q", r"DIRECT=OS:b\private$\q")):
        named = [{**row, "queue": name} for row in rows]
        to = landed(tmp_path / f"{at}", named, queues="private$/q")
        assert faults(audited(place, to)) == {}, name
    twice = [*rows, {**rows[0], "queue": "private$/q"}]
    assert faults(audited(place, landed(tmp_path / "t", twice, total=len(rows)))) == {
        "landed-twice": 1
    }


def test_the_command(
    place: Path, rows: list[Row], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = landed(tmp_path / "t", rows), landed(tmp_path / "u", [*rows, rows[0]])
    assert run(["audit", str(place), "--landed", str(good)]) == 0
    assert "12 committed, 12 rows, none twice (read back by pyarrow)" in capsys.readouterr().out
    assert run(["audit", str(place), "--landed", str(good), "--landed", str(bad), "--json"]) == 8
    found = json.loads(capsys.readouterr().out)
    assert [one["twice"] for one in found["landed"]] == [0, 1]
