"""``onceq spark land``: bodies as columns, each message one row of the table or of its errors."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.dataset as dataset
import pytest

from onceq.cli.main import run as cli
from onceq.cli.spark import _tell
from onceq.errors import ConfigurationError, QueueNotFound
from onceq.spark.land.plan import LIBRARIES, LandPlan
from onceq.spark.land.run import LandedBatch, LandingResult, _options, _remove_done, held, land, run
from onceq.spark.land.tables import open_table
from tests.spark.conftest import Daemon
from tests.unit.spark.orders import ROW, encoded
from tests.unit.spark.orders import SCHEMA as SCHEMA_OF_AVRO

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT NOT NULL, price DOUBLE, tags STRUCT<a: INT>"
GOOD = ('{"id": 1, "price": 2.5}', ' {"id": 2}\n', '{"id": 3, "price": null, "tags": {"a": 1}}')
BAD = {
    "": "the body is not a JSON object",
    "null": "the body is not a JSON object",
    "17": "the body is not a JSON object",
    '[{"id": 1}]': "the body is not a JSON object",
    '{"id": 1': "the body is not a JSON object",
    '{"id": 1} {"id": 2}': "more follows behind the JSON object",
    '{"id": 1}, {"id": 2}': "more follows behind the JSON object",
    '{"id": 1}] xyz': "more follows behind the JSON object",
    '{"id": 1, "id": 2}': "a field stands there twice",
    '{"id": 1, "colour": "red", "x": 1}': "not in the schema: colour, x",
    '{"ID": 1}': "not in the schema: ID",
    '{"id": 1.5}': "not of the type that the schema says: id",
    '{"id": "x", "price": "y"}': "not of the type that the schema says: id, price",
    '{"id": 99999999999999999999}': "not of the type that the schema says: id",
    '{"id": 1, "tags": {"a": "q"}}': "a field does not have the type of the schema",
    '{"price": 1}': "NOT NULL, and not there: id",
    '{"id": null}': "NOT NULL, and not there: id",
}
NO_UTF8 = b'{"id": 1, "x": "\xff"}'
NO_UTF16 = b'{\x00"\x00\x00\xd8}\x00'


class Pier:
    """One queue, one table, and runs of the same plan."""

    def __init__(self, spark: Any, daemon: Any, queue: str, to: Path) -> None:
        self.spark, self.daemon, self.queue, self.to = spark, daemon, queue, to
        self.steps: list[LandedBatch] = []

    def send(self, *bodies: str | bytes) -> None:
        self.daemon.manager.send_many(self.queue, bodies, transactional=True)

    def run(self, **more: Any) -> LandingResult:
        options = {"body": "json", "schema": SCHEMA, "identified": True, "proof": True, **more}
        plan = LandPlan(str(self.daemon.path), self.queue, self.to, **options)
        return land(self.spark, plan, self.steps.append)

    def rows(self, *columns: str, errors: bool = False) -> list[tuple[Any, ...]]:
        """Some columns, by place in the queue, as any reader of Parquet has them."""
        to = self.to.with_name(self.to.name + "_errors") if errors else self.to
        table = dataset.dataset(str(to), partitioning="hive").to_table()
        found = table.sort_by("lookupId").select(list(columns)).to_pylist()
        return [tuple(row.values()) for row in found]

    @property
    def left(self) -> int:
        found: int = self.daemon.manager.queue(self.queue)["messages"]
        return found


@pytest.fixture
def pier(spark: Any, daemon: Any, tmp_path: Path, request: Any) -> Iterator[Pier]:
    queue = "private$\\" + re.sub(r"\W", "-", request.node.name)[:60]
    daemon.manager.create_queue(queue, transactional=True)
    settings = "spark.sql.legacy.codingErrorAction", "spark.sql.parquet.outputTimestampType"
    before = [spark.conf.get(name, None) for name in settings]
    yield Pier(spark, daemon, queue, tmp_path / "table")
    assert [spark.conf.get(name, None) for name in settings] == before


def test_a_body_is_a_row_or_a_bad_row_that_says_why(pier: Pier) -> None:
    pier.send(*GOOD)
    pier.send(*BAD)
    pier.send(NO_UTF8)
    pier.daemon.manager.send(pier.queue, NO_UTF16, body_type=8, transactional=True)
    pier.daemon.manager.send(
        pier.queue, '{"id": 4}'.encode("utf-16le"), body_type=8, transactional=True
    )
    done = pier.run(batch_messages=12)
    bad = len(BAD) + 2
    assert (done.messages, done.bad, done.batches) == (bad + 4, bad, 2)
    assert pier.rows("id", "price", "tags") == [
        (1, 2.5, None), (2, None, None), (3, None, {"a": 1}), (4, None, None),
    ]  # fmt: skip
    wanted = [(body.encode(), reason) for body, reason in BAD.items()]
    encoding = "the body is not text in its encoding"
    assert pier.rows("body", "reason", errors=True) == [
        *wanted, (NO_UTF8, encoding), (NO_UTF16, encoding),
    ]  # fmt: skip
    assert done.proof is not None
    assert done.proof.holds
    assert done.proof.sentence() == (
        f"{bad + 4} committed, 4 rows and {bad} bad rows, none twice (read back by pyarrow)"
    )
    assert pier.left == 0


def test_bodies_that_are_avro(pier: Pier) -> None:
    if find_spec("fastavro") is None:
        pytest.skip("not run: fastavro is not installed, so no Avro was landed")
    schema = json.dumps(SCHEMA_OF_AVRO)
    pier.send(encoded(ROW), encoded(ROW) + b"more", b"none")
    done = pier.run(body="avro", schema=schema)
    names = [field["name"] for field in SCHEMA_OF_AVRO["fields"]]
    (row,) = pier.rows(*names)
    assert {**dict(zip(names, row, strict=True)), "more": dict(row[-1])} == ROW
    assert pier.rows("body", "reason", errors=True) == [
        (encoded(ROW) + b"more", "more follows behind the Avro record"),
        (b"none", "the body is not an Avro record of the schema"),
    ]
    assert done.proof is not None
    assert done.proof.holds


def test_a_schema_grows_and_unknown_fields_may_be_left_out(pier: Pier) -> None:
    pier.send('{"id": 1, "colour": "red"}', '{"id": 2, "size": 5}')
    pier.run(ignore_unknown=True, by_date=True)
    pier.send('{"id": 3, "colour": "blue"}')
    with pytest.raises(Exception, match="--evolve adds them"):
        pier.run(schema=SCHEMA + ", colour STRING", by_date=True)
    done = pier.run(schema=SCHEMA + ", colour STRING", by_date=True, evolve=True)
    assert (done.total, done.bad) == (3, 0)
    frame = pier.spark.read.option("mergeSchema", True).parquet(str(pier.to))
    assert [tuple(row) for row in frame.orderBy("id").select("id", "colour").collect()] == [
        (1, None), (2, None), (3, "blue"),
    ]  # fmt: skip


def columns_of(kind: str, to: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of a table, by place in the queue, as the library of its kind has them."""
    table = open_table(LandPlan("hub", "q", to, table=kind), "nobody")
    rows = [row for batch in table.read(["lookupId", *columns]) for row in batch.to_pylist()]
    rows.sort(key=lambda row: row["lookupId"])
    return [tuple(row[name] for name in columns) for row in rows]


@pytest.mark.parametrize("kind", LIBRARIES)
def test_a_table_takes_each_batch_once_and_grows(pier: Pier, kind: str) -> None:
    """Also one that Spark and the landing have forgotten to be in: the table knows it."""
    if find_spec(LIBRARIES[kind]) is None:
        pytest.skip(f"not run: {LIBRARIES[kind]} is not installed, so no {kind} table was landed")
    more: dict[str, Any] = {"table": kind, "by_date": True, "batch_messages": 2, "keep": True}
    pier.send(*GOOD, "bad")
    assert pier.run(**more).batches == 2
    hidden = pier.to / "_onceq"
    for name in ("checkpoint/commits/1", "checkpoint/commits/.1.crc", "done.json"):
        (hidden / name).unlink()
    (hidden / "done.json").write_text('{"batch": 0, "total": 2, "bad": 0}')
    again = pier.run(**more)
    assert (again.batches, again.messages, again.bad, again.total) == (1, 2, 1, 4)
    pier.send('{"id": 4, "colour": "red"}', '{"id": 5, "more": 1}')
    done = pier.run(**more, schema=SCHEMA + ", colour STRING", evolve=True)
    assert columns_of(kind, pier.to, "id", "price", "tags", "colour") == [
        (1, 2.5, None, None), (2, None, None, None), (3, None, {"a": 1}, None),
        (4, None, None, "red"),
    ]  # fmt: skip
    assert columns_of(kind, pier.to.with_name("table_errors"), "body", "reason") == [
        (b"bad", "the body is not a JSON object"),
        (b'{"id": 5, "more": 1}', "not in the schema: more"),
    ]
    assert done.proof is not None
    assert done.proof.sentence() == (
        f"6 committed, 4 rows and 2 bad rows, none twice (read back by {LIBRARIES[kind]})"
    )


def test_a_table_that_does_not_have_each_message_once_is_told(pier: Pier) -> None:
    """By what stands in the files, not by what the landing remembers."""
    pier.send(*GOOD)
    pier.run()
    (file,) = pier.to.glob("*.parquet")
    (pier.to / "batch-000000077-00000.parquet").write_bytes(file.read_bytes())
    again = pier.run().proof
    assert again is not None
    assert (again.rows, again.twice, again.holds) == (6, 3, False)
    file.unlink()
    (pier.to / "batch-000000077-00000.parquet").unlink()
    gone = pier.run().proof
    assert gone is not None
    assert "3 committed, 0 rows, none twice, 3 MISSING" in gone.sentence()


def test_the_command_lands_until_it_is_stopped(
    pier: Pier, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(
        "onceq.spark.runtime.quiet_session",
        lambda master, name, heard: contextlib.nullcontext(pier.spark),
    )
    (tmp_path / "schema.sql").write_text(SCHEMA)
    arguments = [
        "--qm", str(pier.daemon.path), "spark", "land", pier.queue, "--to", "parquet",
        str(pier.to), "--format", "json", "--schema", str(tmp_path / "schema.sql"), "--batch", "2",
    ]  # fmt: skip
    pier.send(*GOOD, "bad")

    class Stderr:
        """Interrupts when it is told of the second batch."""

        def write(self, text: str) -> None:
            if text.startswith("batch 1: 2 messages, 1 of them bad rows"):
                os.kill(os.getpid(), signal.SIGINT)

        def flush(self) -> None: ...

    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", Stderr())
        assert cli(arguments) == 130
    said = capsys.readouterr().out
    assert "stopped; the same command goes on" in said
    assert "4 committed, 3 rows and 1 bad row, none twice (read back by pyarrow)" in said
    assert pier.left == 0, "the last batch is removed, too"
    pier.send(GOOD[0])
    assert cli([*arguments, "--until-empty", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["messages"], found["total"], found["proof"]["holds"]) == (1, 5, True)
    assert cli([*arguments, "--prefix", "m_"]) == 2
    assert "was landed in with --prefix '', not 'm_'" in capsys.readouterr().err
    (tmp_path / "schema.sql").write_text("id BIGINT BIGINT")
    assert cli(arguments) == 2
    assert "neither JSON nor SQL's words" in capsys.readouterr().err
    (file,) = pier.to.glob("batch-000000000-*.parquet")
    file.unlink()
    (tmp_path / "schema.sql").write_text(SCHEMA)
    assert cli([*arguments, "--until-empty"]) == 8
    assert "MISSING" in capsys.readouterr().out


def test_a_mistyped_queue_is_told_before_anything_is_done(
    daemon: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither has Spark started, nor does the folder belong to a plan that nobody meant."""

    def started(*args: object, **kwargs: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("onceq.spark.runtime.quiet_session", started)
    to = tmp_path / "to"
    queue = r"private$\mistyped"
    with pytest.raises(QueueNotFound, match="mistyped"):
        run("local", LandPlan(str(daemon.path), queue, to), print, print)
    plain = r"private$\plain-to-land"
    daemon.manager.create_queue(plain)
    with pytest.raises(ConfigurationError, match="a stream needs a transactional queue"):
        run("local", LandPlan(str(daemon.path), plain, to), print, print)
    with pytest.raises(ConfigurationError, match="neither a directory nor an address"):
        run("local", LandPlan(str(tmp_path / "nohub"), queue, to), print, print)
    assert not to.exists()
    # One that is away may come back, and there is nothing wrong with the queue then.
    with pytest.raises(AssertionError, match="Spark was started"):
        run("local", LandPlan("127.0.0.1:9", queue, to), print, print)


def test_a_schema_that_is_not_there_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema, to = str(tmp_path / "no.sql"), str(tmp_path / "to")
    words = ["--qm", "hub", "spark", "land", "q", "--to", "parquet", to, "--format", "json"]
    assert cli([*words, "--schema", schema]) == 2
    says = f"the schema {schema} cannot be read: No such file or directory\n"
    assert capsys.readouterr().err == f"onceq: error (configuration): {says}"


def test_who_stops_does_not_wait_for_a_queue_manager_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What the last batch has read is removed by the next run as well."""

    def wait(seconds: float) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr("onceq.spark.connections.pause", wait)
    end = {"names": {"i": "q"}, "query": "x", "subscription": "s", "to": {"i": 1}}
    memory: Any = SimpleNamespace(end_of_last=lambda: end)
    _remove_done(memory, _options(LandPlan("127.0.0.1:9", "q", tmp_path), "s"))
    assert "messages of a committed batch are not removed yet" in caplog.text


def test_a_run_that_is_given_up_says_what_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a second Ctrl-C, or by one while Spark starts."""

    def given_up(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("onceq.spark.land.run.run", given_up)
    assert (
        cli(["--qm", "hub", "spark", "land", "q", "--to", "parquet", str(tmp_path / "to")]) == 130
    )
    assert capsys.readouterr().err == (
        "0 messages in 0 batches landed before this\n"
        "interrupted; the same command goes on where it was\n"
    )


def test_messages_behind_an_open_transaction_are_not_passed_over_in_silence(
    daemon: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = r"private$\landed-behind-a-lock"
    daemon.manager.create_queue(queue, transactional=True)
    with daemon.manager.transaction() as tx:
        tx.send_many(queue, [b"0", b"1", b"2"])
    plan = LandPlan(str(daemon.path), queue, tmp_path / "to")
    assert held(plan) == 0
    with daemon.manager.transaction() as tx:
        tx.receive(queue)
        assert held(plan) == 3
        tx.abort()
    _tell(LandingResult(held=3), tmp_path / "to")
    assert "3 messages are left: an open transaction has taken some" in capsys.readouterr().out


@pytest.mark.slow
def test_an_audit_proves_the_table_from_the_histories(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hub"
    path.mkdir(mode=0o700)
    (path / "onceq.toml").write_text("[settings]\nhistory = true\n")
    hub = Daemon(path)
    try:
        queue = r"private$\orders"
        hub.manager.create_queue(queue, transactional=True)
        pier = Pier(spark, hub, queue, tmp_path / "table")
        pier.send(*GOOD, "no order")
        hub.manager.receive(queue)  # By somebody else, who has no row and is accused of nothing.
        assert pier.run().messages == 3
    finally:
        hub.stop()
    audit = ["audit", str(path), "--landed", str(pier.to), "--settled"]
    assert cli(audit) == 0
    assert "3 committed, 2 rows and 1 bad row, none twice" in capsys.readouterr().out
    landed = next(path for path in pier.to.glob("*.parquet"))
    landed.unlink()
    assert cli([*audit, "--json"]) == 8
    (table,) = json.loads(capsys.readouterr().out)["landed"]
    assert (table["lost"], table["rows"], table["bad"]) == (2, 0, 1)
