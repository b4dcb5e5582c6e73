"""Parquet files of a queue (``onceq spark land``), each message once, wherever a run dies."""

from __future__ import annotations

import json
import os
import re
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from onceq.cli.main import run as cli
from onceq.spark.land.plan import LandPlan
from onceq.spark.land.run import LandedBatch, LandingResult, land

pytestmark = pytest.mark.spark


class Pump:
    """One queue, one folder, and runs of the same plan."""

    def __init__(self, spark: Any, daemon: Any, queue: str, to: Path) -> None:
        self.spark, self.daemon, self.queue, self.to = spark, daemon, queue, to
        self.steps: list[LandedBatch] = []
        self._sent = 0

    def send(self, count: int) -> None:
        bodies = [f"{self._sent + i}" for i in range(count)]
        self.daemon.manager.send_many(self.queue, bodies, transactional=True)
        self._sent += count

    def run(self, **more: Any) -> LandingResult:
        options: dict[str, Any] = {"batch_messages": 10, "columns": ("lookupId", "body"), **more}
        plan = LandPlan(str(self.daemon.path), self.queue, self.to, **options)
        return land(self.spark, plan, self.steps.append)

    def rows(self) -> list[str]:
        """All bodies in the files, as any reader of Parquet sees them."""
        import pyarrow.dataset as dataset

        table = dataset.dataset(str(self.to), partitioning="hive").to_table(
            columns=["lookupId", "body"]
        )
        return [body.decode() for body in table.sort_by("lookupId")["body"].to_pylist()]

    def check(self, count: int) -> None:
        """Every message once, and none left."""
        assert self.rows() == [f"{i}" for i in range(count)]
        assert self.left == 0

    @property
    def left(self) -> int:
        found: int = self.daemon.manager.queue(self.queue)["messages"]
        return found


@pytest.fixture
def pump(spark: Any, daemon: Any, tmp_path: Path, request: Any) -> Pump:
    queue = "private$\\" + re.sub(r"\W", "-", request.node.name)[:60]
    daemon.manager.create_queue(queue, transactional=True)
    return Pump(spark, daemon, queue, tmp_path / "files")


def test_everything_once_and_then_more(pump: Pump) -> None:
    pump.send(25)
    done = pump.run()
    assert (done.batches, done.messages, done.total, done.stopped) == (3, 25, 25, False)
    assert [(step.batch, step.messages) for step in pump.steps] == [(0, 10), (1, 10), (2, 5)]
    assert done.bytes == sum(path.stat().st_size for path in pump.to.glob("*.parquet"))
    pump.send(3)
    done = pump.run()
    assert (done.batches, done.messages, done.total) == (1, 3, 28)
    pump.check(28)
    assert pump.spark.read.parquet(str(pump.to)).count() == 28


def test_folders_by_date_and_messages_that_stay(pump: Pump) -> None:
    pump.send(5)
    zone = pump.spark.conf.get("spark.sql.session.timeZone")
    # A day ahead of UTC for half of each day, and a day behind for the other half.
    now = datetime.now(UTC)
    far = "Pacific/Kiritimati" if now.hour >= 12 else "Pacific/Pago_Pago"
    pump.spark.conf.set("spark.sql.session.timeZone", far)
    try:
        pump.run(keep=True, by_date=True)
    finally:
        pump.spark.conf.set("spark.sql.session.timeZone", zone)
    (day,) = pump.to.glob("date=*")
    arrived = pump.daemon.manager.peek(pump.queue).arrived_time
    assert day.name == f"date={datetime.fromtimestamp(arrived, UTC).date()}"
    frame = pump.spark.read.parquet(str(pump.to))
    assert frame.columns == ["lookupId", "body", "date"]
    assert {str(row.date) for row in frame.collect()} == {day.name.removeprefix("date=")}
    assert pump.rows() == [f"{i}" for i in range(5)]
    assert pump.left == 5


def test_spark_forgets_that_it_has_committed(pump: Pump) -> None:
    """After a loss of power its last note may be gone, and the messages as well."""
    pump.send(20)
    pump.run()
    assert pump.left == 0
    commits = pump.to / "_onceq" / "checkpoint" / "commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink()
    pump.send(5)
    assert pump.run().total == 25
    pump.check(25)


def test_a_signal_ends_it_and_it_goes_on(pump: Pump, monkeypatch: Any) -> None:
    pump.send(60)
    plain = pump.steps.append

    def interrupt(step: LandedBatch) -> None:
        plain(step)
        if step.batch == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(pump, "steps", type("Steps", (), {"append": staticmethod(interrupt)})())
    before = signal.getsignal(signal.SIGINT)
    first = pump.run(follow=True)
    assert first.stopped
    assert pump.left == 60 - first.total
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.undo()
    assert pump.run().total == 60
    pump.check(60)


def test_the_command_tells_what_it_did(pump: Pump, monkeypatch: Any, capsys: Any) -> None:
    import contextlib

    monkeypatch.setattr(
        "onceq.spark.runtime.quiet_session",
        lambda master, name, heard: contextlib.nullcontext(pump.spark),
    )
    pump.send(12)
    arguments = ["--qm", str(pump.daemon.path), "spark", "land", pump.queue, "--to"]
    arguments += ["parquet", str(pump.to), "--until-empty"]
    assert cli([*arguments, "--json", "--batch", "10"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["messages"] == 12
    lines = told.err.splitlines()
    queue = pump.queue.replace("\\", "/")
    assert lines[:2] == ["starting Spark", f"landing {queue} in {pump.to}"]
    assert lines[2].startswith("batch 0: 10 messages, ")
    assert cli(arguments) == 0
    assert "all that was there" in capsys.readouterr().out
    assert cli([*arguments, "--by-date"]) == 2
    assert capsys.readouterr().err.startswith("starting Spark\nonceq: error (configuration): ")
    pump.queue = "private$\\nowhere"
    assert cli([*arguments[:4], pump.queue, "--to", "parquet", str(pump.to) + "-2"]) != 0
    said = capsys.readouterr().err
    assert said.startswith("onceq: error (queue-not-found): there is no queue")
    assert "\n" not in said.strip()


def test_without_spark_it_says_what_to_install(tmp_path: Path, monkeypatch: Any, capsys: Any
                                               ) -> None:  # fmt: skip
    monkeypatch.setattr("onceq.cli.spark_loading.find_spec", lambda name: None)
    assert cli(["--qm", "x:1", "spark", "land", "q", "--to", "parquet", str(tmp_path)]) == 2
    assert "pip install 'onceq[spark,java]'" in capsys.readouterr().err
