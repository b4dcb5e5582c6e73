"""``onceq spark audit``: an audit of histories that are too large for one machine.

Spark runs the SQL of ``onceq.audit``, over events that its tasks read as that does. So both find
the same, and what this module adds is Spark as an engine, what is told while it works, and how it
is given up: the work goes on in a thread of its own, so that the main thread can look at Spark from
time to time, and Ctrl-C never comes in the middle of a talk with Java, which would go on with the
answer to another question.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from onceq.audit import acts, files
from onceq.audit.command import Say, StageProgress, Wish, audit, check, tell_reading
from onceq.errors import OnceqError
from onceq.spark.runtime import QUICK, quiet_session, stop_asked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_EVENTS: Final = 100_000
"""Histories below this are audited by a Spark made to start quickly."""
HEAP_SHARE: Final = 2
"""Half of the computer's memory for Java, which holds all tables."""
HEAP_BYTES_MAX: Final = 64 << 30
PART_EVENTS: Final = 500_000
"""Events of one part of a table."""
POLL_S: Final = 0.2
"""How long Ctrl-C waits at most until it is seen."""
LOOK_S: Final = 1.0
"""Between two looks at Spark's tasks."""

T = TypeVar("T")

# ---- Spark as an engine --------------------------------------------------------------------------


class SparkEngine:
    """Runs the SQL of an audit by Spark; see ``onceq.audit.engine.SqlEngine``.

    Its tables are views of a session of its own, which no other query of the same Spark sees. They
    name managers and queues by their texts.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()
        # As everybody reads them, and not as Spark once did.
        self._spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        self._names: dict[str, dict[Any, str]] = {}

    def load(self, some: Sequence[files.HistoryFile], managers: Sequence[str]) -> None:
        """Take in the events of files, which are those of managers, given by their GUIDs.

        Raises:
            ConfigurationError: When events are asked for: a file is damaged inside; with its code
                in its text, for Spark.
        """
        at_once = self._spark.sparkContext.defaultParallelism
        parts = max(sum(one.rows for one in some) // PART_EVENTS, at_once, 2)
        self._spark.conf.set("spark.sql.shuffle.partitions", str(parts))
        columns = ", ".join(f"{name} {kind}" for name, kind in files.KINDS.items())

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            wanted = [some[at] for batch in batches for at in batch.column(0).to_pylist()]
            try:
                for table in files.read(wanted):
                    yield from table.cast(files.SCHEMA).to_batches(max_chunksize=1 << 16)
            except OnceqError as error:
                raise type(error)(f"[{error.code}] {error.text}") from None

        numbers = self._spark.range(0, len(some), 1, min(len(some), parts))
        self._view("event", numbers.mapInArrow(read, columns), keep=True)
        parties = self._spark.sql("SELECT manager FROM event UNION SELECT source FROM event")
        queues = self._spark.sql("SELECT DISTINCT queue FROM event")
        for what, frame in (("party", parties), ("queue", queues)):
            texts = [row[0] for row in frame.collect() if row[0] is not None]
            self._names[what] = {text: text for text in sorted(texts)}
        for manager in managers:
            self.party_of(manager)

    def names(self, column: str) -> dict[Any, str]:
        """The texts of a column, which stand for themselves."""
        return self._names[column]

    def party_of(self, id: str) -> Any:
        """The GUID of a manager, also of one of which no event tells."""
        return self._names["party"].setdefault(id, id)

    def give(self, name: str, table: pa.Table) -> None:
        """Make a table of rows that Python has."""
        self._view(name, self._spark.createDataFrame(table), keep=False)

    def make(self, name: str, query: str) -> None:
        """Make a table of the rows of a query."""
        self._view(name, self._spark.sql(query), keep=True)

    def _view(self, name: str, frame: DataFrame, *, keep: bool) -> None:
        # A table is made at once and forgets what it was made of: else Spark would plan each query
        # from the files on, which takes longer than the query.
        (frame.localCheckpoint() if keep else frame).createOrReplaceTempView(name)

    def drop(self, name: str) -> None:
        """Let go of a table."""
        self._spark.catalog.dropTempView(name)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query, of which there are few."""
        return [row.asDict() for row in self._spark.sql(query).collect()]

    def write(self, query: str, folder: str, columns: Mapping[str, str]) -> None:
        """Write the rows of a query as Parquet files into a new folder."""
        made = {"timestamp": "timestamp_micros({0}) AS {0}", "string": "{0}"}
        names = (
            made.get(kind, f"CAST({{0}} AS {kind}) AS {{0}}").format(name)
            for name, kind in columns.items()
        )
        self._spark.sql(f"SELECT {', '.join(names)} FROM ({query})").write.parquet(folder)


# ---- the audit -----------------------------------------------------------------------------------


def run(folders: Sequence[str], wish: Wish, say: Say, *, master: str) -> dict[str, Any]:
    """Audit, in a Spark session of its own if there is none; see ``onceq spark audit --help``.

    Args:
        say: Is told how far it is.

    Returns:
        The findings, as JSON has them.

    Raises:
        ConfigurationError: There is no history, no Java, or a place cannot be written to.
        KeyboardInterrupt: Ctrl-C or SIGTERM; there is no report then, and all tables or none.
    """
    stages = Stages(say)
    histories = files.find(folders)
    check(wish)
    new = files.files_of(histories)
    active = SparkSession.getActiveSession()
    if active is not None:
        return _audit(active, histories, new, wish, stages)
    small = sum(one.rows for one in new) < SMALL_EVENTS
    stages.begin("starting Spark")
    with quiet_session(
        master, "onceq audit", QUICK if small else {"spark.driver.memory": _heap()}
    ) as spark:
        stages.watch(spark.sparkContext.statusTracker())
        return attended(
            lambda: _audit(spark, histories, new, wish, stages), stages,
            spark.sparkContext.cancelAllJobs,
        )  # fmt: skip


def _audit(
    spark: SparkSession, histories: Sequence[files.Coverage], new: Sequence[files.HistoryFile],
    wish: Wish, stages: Stages,
) -> dict[str, Any]:  # fmt: skip
    tell_reading(new, histories, stages.begin)
    acts.read(histories)
    engine = SparkEngine(spark)
    engine.load(new, [one.id for one in histories])
    found = audit(engine, histories, wish, stages.begin)
    stages.begin("done")
    return found


def _heap() -> str:
    """Memory for Java, as Spark writes it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(min(memory // HEAP_SHARE, HEAP_BYTES_MAX) >> 20, 1024)}m"


# ---- while it works ------------------------------------------------------------------------------


class AuditStopped(Exception):
    """Nobody wants the audit any more."""


class Tasks:
    """Counts Spark's tasks, by its status tracker."""

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker
        self._open: set[int] = set()
        self._counts: dict[int, tuple[int, int]] = {}

    def forget(self) -> None:
        """Start to count again."""
        self._open.clear()
        self._counts.clear()

    def count(self) -> tuple[int, int]:
        """Return the number of tasks that are done, and of all tasks that Spark knows."""
        active = set(self._tracker.getActiveStageIds())
        for number in self._open | active:
            info = self._tracker.getStageInfo(number)
            if info is not None:
                self._counts[number] = (info.numCompletedTasks, info.numTasks)
        self._open = active
        return sum(done for done, _ in self._counts.values()), sum(
            tasks for _, tasks in self._counts.values()
        )


class Stages:
    """Reports the stages of one audit to its listener. Any thread may call it.

    Args:
        say: The listener: is called for each stage that begins, and for the one that goes on.
        clock: Seconds that only rise.
    """

    def __init__(self, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._begun = self._looked = clock()
        self._stage = ""
        self._tasks: Tasks | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def watch(self, tracker: Any) -> None:
        """Spark has started.

        Args:
            tracker: Its status tracker.
        """
        self._tasks = Tasks(tracker)

    def begin(self, stage: str) -> None:
        """The next stage; raises Stopped if there shall be none."""
        with self._lock:
            if self._stopped:
                raise AuditStopped
            self._stage, self._looked = stage, self._clock()
            if self._tasks is not None:
                self._tasks.forget()
            self._say(StageProgress(stage, self._looked - self._begun, begins=True))

    def tick(self) -> None:
        """Tell how far the stage is, if it is time for that."""
        with self._lock:
            now = self._clock()
            if self._tasks is None or now - self._looked < LOOK_S:
                return
            self._looked = now
            done, tasks = self._tasks.count()
            self._say(
                StageProgress(self._stage, now - self._begun, begins=False, done=done, tasks=tasks)
            )

    def stop(self) -> None:
        """No further stage begins."""
        self._stopped = True


def attended(work: Callable[[], T], stages: Stages, cancel: Callable[[], None]) -> T:
    """Do work in a thread, tell how far it is, and give it up at Ctrl-C or SIGTERM.

    Args:
        cancel: Ends what Spark is doing; it is called until the work has ended.

    Raises:
        KeyboardInterrupt: It was given up; at the second signal it may not have ended yet.
        Exception: What the work raises.
    """
    future: Future[T] = Future()

    def carry_out() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            future.set_exception(error)

    with stop_asked() as asked:
        threading.Thread(target=carry_out, daemon=True).start()
        while not wait([future], POLL_S).done:
            if asked.is_set():
                stages.stop()
                cancel()
            else:
                stages.tick()
    if asked.is_set() and future.exception() is not None:
        raise KeyboardInterrupt
    return future.result()
