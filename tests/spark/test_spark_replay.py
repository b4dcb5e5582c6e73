"""``onceq spark replay``: each row once, in order, at its pace, whoever dies meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from onceq.cli.main import run as cli
from onceq.errors import InvalidParameter, ReceiveTimeout, ServiceNotAvailable, UsageError
from onceq.spark.land import memory
from onceq.spark.land.replay import Metronome, Replay, ReplayPace, ReplayPlan, ReplayProgress, run

pytestmark = pytest.mark.spark

_numbers = count(1)


class Died(Exception):
    """Where the process of a replay might end."""


class Target:
    """A queue of its own, and the replay into it."""

    def __init__(self, spark: Any, daemon: Any, queue: str, folder: Path) -> None:
        self.spark = spark
        self.where = str(daemon.path)
        self.manager = daemon.manager
        self.queue = queue
        self.folder = folder
        self.table = str(folder / "table")
        daemon.manager.create_queue(queue, transactional=True)

    def write(self, rows: int, *columns: str) -> None:
        """A table in three files, in the order of ``id``."""
        self.spark.range(0, rows, 1, 3).selectExpr(*columns).write.parquet(self.table)

    def replay(self, **wish: Any) -> Replay:
        """Begin, or go on."""
        made = ReplayPlan(**{"path": self.table, "to": self.queue, **wish})
        return Replay(self.spark, self.where, made, self.folder / "checkpoint")

    def bodies(self) -> list[str]:
        """What has come, in order."""
        found: list[str] = []
        after = 0
        while True:
            try:
                batch = self.manager.peek_many(self.queue, 1000, after=after, timeout=0.0)
            except ReceiveTimeout:
                return found
            found += [body.decode() for body in batch.bodies()]
            after = batch.lookup_ids[-1]


@pytest.fixture
def target(spark: Any, daemon: Any, tmp_path: Path) -> Iterator[Target]:
    """Rows are kept in one file here, so that steps are cut by their pace alone."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield Target(spark, daemon, f"private$\\replay-{next(_numbers)}", tmp_path)
    spark.conf.set("spark.sql.shuffle.partitions", "2")


def dying(after: int) -> Callable[[ReplayProgress], None]:
    """Ends the replay behind so many steps."""
    left = [after]

    def say(told: ReplayProgress) -> None:
        left[0] -= 1
        if not left[0]:
            raise Died

    return say


def never(seconds: float) -> None:
    """Time for tests that must not wait."""


def test_every_row_once_and_in_the_order_of_the_files(target: Target) -> None:
    target.write(300, "CAST(id AS STRING) AS body", "concat('label ', id) AS label")
    told: list[ReplayProgress] = []
    assert target.replay().run(ReplayPace(), told.append) == 300
    assert target.bodies() == [str(i) for i in range(300)]
    assert told[-1] == ReplayProgress(300, 300, 0.0)
    assert target.manager.peek(target.queue).label == "label 0"
    assert target.replay().run(ReplayPace()) == 0
    assert len(target.bodies()) == 300


def test_it_goes_on_where_it_was(target: Target) -> None:
    target.write(100, "CAST(id AS STRING) AS body")
    with pytest.raises(Died):
        target.replay().run(
            ReplayPace(rate=20), dying(2), Metronome(ReplayPace(rate=20), sleep=never)
        )
    assert target.bodies() == [str(i) for i in range(40)]
    # Another pace cuts the rest otherwise.
    assert target.replay().run(ReplayPace()) == 60
    assert target.bodies() == [str(i) for i in range(100)]


@pytest.mark.parametrize("committed", [False, True])
def test_a_step_that_was_under_way(
    target: Target, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known that it was begun, not whether it was sent: the queue manager knows."""
    target.write(60, "CAST(id AS STRING) AS body")
    writes: list[dict[str, Any]] = []
    write = memory.write_json

    def crash(place: Path, value: Any) -> None:
        if place.name == "step.json":
            writes.append(dict(value))
            if len(writes) == (4 if committed else 3):
                if not committed:
                    write(place, value)
                raise Died
        write(place, value)

    monkeypatch.setattr(memory, "write_json", crash)
    with pytest.raises(Died):
        target.replay().run(
            ReplayPace(rate=20), metronome=Metronome(ReplayPace(rate=20), sleep=never)
        )
    monkeypatch.setattr(memory, "write_json", write)
    assert len(target.bodies()) == (40 if committed else 20)
    state = json.loads((target.folder / "checkpoint" / "step.json").read_text())
    assert (state["number"], state["done"]) == (2, False)
    target.replay().run(ReplayPace())
    assert target.bodies() == [str(i) for i in range(60)]


def test_rows_by_a_column_and_whole_rows_as_json(target: Target) -> None:
    target.write(50, "49 - id AS place", "concat('flight ', id) AS name")
    target.replay(order=("place",)).run(ReplayPace())
    rows = [json.loads(body) for body in target.bodies()]
    assert [row["place"] for row in rows] == list(range(50))
    assert rows[0] == {"place": 0, "name": "flight 49"}


def test_each_row_to_its_own_queue(target: Target) -> None:
    other = target.queue + "-b"
    target.manager.create_queue(other, transactional=True)
    target.write(
        20, f"r'{target.queue}' || if(id % 2 = 0, '', '-b') AS queue", "CAST(id AS STRING) AS text"
    )
    target.replay(to="", body="text").run(ReplayPace())
    assert target.bodies() == [str(i) for i in range(0, 20, 2)]
    assert target.manager.queue(other)["messages"] == 10


def test_the_pace_of_a_time_column(target: Target) -> None:
    """Steps are as long as a second of it, and begin when their first row is due."""
    target.write(40, "CAST(id AS STRING) AS body", "timestamp_seconds(1000 + id / 10) AS at")
    pace, now, slept = ReplayPace(speed=2.0), [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        now[0] += seconds

    steps: list[int] = []
    metronome = Metronome(pace, clock=lambda: now[0], sleep=sleep)
    target.replay(time="at").run(pace, lambda told: steps.append(told.rows), metronome)
    assert target.bodies() == [str(i) for i in range(40)]
    assert steps == [21, 40]
    assert slept == [1.05]


def test_rows_without_a_time_do_not_hold_up_the_others(target: Target) -> None:
    """They stand first, and go with the first row that has a time."""
    target.write(
        30, "CAST(id AS STRING) AS body", "IF(id < 5, NULL, timestamp_seconds(1000000 + id)) AS at"
    )
    pace, slept = ReplayPace(speed=10.0), list[float]()
    metronome = Metronome(pace, clock=lambda: sum(slept), sleep=slept.append)
    target.replay(time="at").run(pace, metronome=metronome)
    assert target.bodies() == [str(i) for i in range(30)]
    assert sum(slept) <= 3.0


def test_a_column_without_any_time_keeps_no_pace(target: Target) -> None:
    target.write(3, "CAST(id AS STRING) AS body", "CAST(NULL AS timestamp) AS at")
    target.replay(time="at").run(
        ReplayPace(speed=1.0), metronome=Metronome(ReplayPace(speed=1.0), sleep=never)
    )
    assert len(target.bodies()) == 3


def test_a_replay_that_is_late_says_so() -> None:
    now = [0.0]
    metronome = Metronome(ReplayPace(rate=10), clock=lambda: now[0], sleep=never)
    assert metronome.wait([]) == 0.0
    metronome.sent(10)
    now[0] = 3.5
    assert metronome.wait([]) == 2.5


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"body": "text"}, "no column 'text'; it has body"),
        ({"time": "at"}, "no column 'at'"),
        ({"to": ""}, "say where to"),
    ],
)
def test_what_the_table_has_not(target: Target, wish: dict[str, Any], says: str) -> None:
    target.write(3, "CAST(id AS STRING) AS body")
    with pytest.raises(InvalidParameter, match=says):
        target.replay(**wish)
    target.replay().run(ReplayPace())
    assert len(target.bodies()) == 3


def test_rows_of_text_files_have_no_order(target: Target) -> None:
    target.spark.range(3).write.json(target.table)
    with pytest.raises(InvalidParameter, match="say --order-by"):
        target.replay(format="json")
    target.replay(format="json", order=("id",)).run(ReplayPace())
    assert target.bodies() == ['{"id":0}', '{"id":1}', '{"id":2}']


def test_a_checkpoint_belongs_to_one_replay(target: Target) -> None:
    target.write(3, "CAST(id AS STRING) AS body")
    target.replay().run(ReplayPace())
    with pytest.raises(UsageError, match="belongs to another replay"):
        target.replay(to=r"private$\elsewhere")
    full = target.folder / "full"
    full.mkdir()
    (full / "file").write_text("")
    with pytest.raises(UsageError, match="is not empty"):
        Replay(target.spark, target.where, ReplayPlan(target.table, to=target.queue), full)


def test_a_mistyped_queue_manager_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*args: object, **kwargs: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("onceq.spark.runtime.quiet_session", started)
    wish, said = ReplayPlan("table", to="q"), list[str]()
    with pytest.raises(ServiceNotAvailable, match="is it running"):
        run(
            "local",
            "127.0.0.1:9",
            wish,
            tmp_path / "to",
            pace=ReplayPace(),
            say=print,
            tell=said.append,
        )
    assert said == []


def test_a_replay_that_is_given_up_says_what_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def given_up(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("onceq.spark.land.replay.run", given_up)
    place = str(tmp_path / "checkpoint")
    words = ["--qm", "hub", "spark", "replay", "table", "--to", "q", "--checkpoint", place]
    assert cli(words) == 130
    assert capsys.readouterr().err == "interrupted; the same command goes on where it was\n"
