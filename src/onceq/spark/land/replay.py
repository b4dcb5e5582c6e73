"""From a table into queues, each row exactly once, in order, at a pace: ``onceq spark replay``.

The rows are put in order once and kept beside the checkpoint, in files of some thousand rows each.
Then they are sent in *steps*: consecutive rows of one file, one Spark write each, under the name of
the replay and the number of the step. A step is written down before it is sent, and the queue
manager remembers the number of the last one that it has taken. So a replay that was stopped or
killed goes on where it was, and a step whose answer was lost is not sent a second time.

Upholds: I4 at the connector (each row once, in order, whichever process dies meanwhile).
"""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onceq.client.opening import connect_for_job
from onceq.client.stopping import pause
from onceq.errors import InvalidParameter, UsageError
from onceq.spark.connections import FROM_ENVIRONMENT, CredentialFiles
from onceq.spark.land import memory
from onceq.spark.sink.options import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FILE_ROWS: Final = 200_000
"""Rows of one file that is kept, and the most of one step, which is one transaction."""
STEP_S: Final = 1.0
"""With a pace, the seconds of it that make one step: a step costs some tenths of a second."""
CONNECT_S_MAX: Final = 10.0
_TIME: Final = "_onceq_time"
_PART: Final = re.compile(r"part-(\d+)-.*?(?:-c|\.c)(\d+)\.")


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What is to be replayed; a checkpoint belongs to one wish.

    Attributes:
        path: Of the table, as Spark has it.
        format: Of the table, as Spark names it.
        options: For reading it.
        to: Destination of every row; empty: the column ``queue`` says it.
        body: Column of the body; empty: ``body``, or else all columns as JSON.
        order: Columns that rows are ordered by; empty: the files' own order (Parquet only).
        time: Column of the time of each row; empty: none.
        errors: Queue for rows that cannot be sent; empty: such a row ends the replay.
    """

    path: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    to: str = ""
    body: str = ""
    order: tuple[str, ...] = ()
    time: str = ""
    errors: str = ""


@dataclass(frozen=True, slots=True)
class ReplayPace:
    """How fast.

    Attributes:
        rate: Most rows a second; 0: no limit.
        speed: Seconds of the time column in one second; 0: its times are not kept.
    """

    rate: float = 0.0
    speed: float = 0.0


@dataclass(slots=True)
class ReplayStep:
    """Rows of one file, from one to before another; its number is the version of the write."""

    number: int = 0
    file: int = 0
    first: int = 0
    end: int = 0
    done: bool = True
    rows: int = 0
    """Sent before it."""


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """How far it is."""

    rows: int
    of: int
    behind_s: float
    """How much later than its pace it is."""


Say = Callable[[ReplayProgress], None]
Tell = Callable[[str], None]


class Replay:
    """One replay with its checkpoint, a folder on this computer."""

    def __init__(
        self, spark: SparkSession, manager: str, wish: ReplayPlan, checkpoint: Path,
        *, credentials: CredentialFiles = FROM_ENVIRONMENT,
    ) -> None:  # fmt: skip
        """Begin it, or go on with it.

        Args:
            credentials: Who sends; a checkpoint goes on as anybody.

        Raises:
            UsageError: The checkpoint belongs to another replay.
            InvalidParameter: The table has not the columns that are asked for.
        """
        self._spark = spark
        self._manager = manager
        self._credentials = credentials
        self._wish = wish
        self._folder = checkpoint.absolute()
        self._plan = self._agreed()
        self._step = ReplayStep()
        with contextlib.suppress(FileNotFoundError):
            self._step = ReplayStep(**json.loads((self._folder / "step.json").read_text()))
        self._files = self._kept()
        self._timed = -1
        """The file whose times are at hand."""
        self._file_times: list[float] = []

    # ---- the plan -------------------------------------------------------------------------

    def _agreed(self) -> dict[str, Any]:
        """The plan of this checkpoint: a new one, or the same as was asked for before."""
        home = _home(self._manager, self._credentials)
        wish = {**json.loads(json.dumps(asdict(self._wish))), "queue manager": home}
        place = self._folder / "plan.json"
        if place.exists():
            plan: dict[str, Any] = json.loads(place.read_text())
            other = [name for name in wish if plan["wish"].get(name) != wish[name]]
            if other:
                raise UsageError(
                    f"the checkpoint {self._folder} belongs to another replay ({', '.join(other)} "
                    "differs); take a new checkpoint for a new replay"
                )
            return plan
        _prepared(self._spark, self._wish)  # a mistake must not leave a checkpoint
        memory.make_folder(self._folder)
        if any(self._folder.iterdir()):
            raise UsageError(f"{self._folder} is not empty, and not the checkpoint of a replay")
        plan = {"id": f"replay-{uuid.uuid4()}", "wish": wish}
        memory.write_json(place, plan)
        return plan

    def _kept(self) -> list[tuple[str, int]]:
        """The rows in order, as files with their numbers of rows."""
        rows = self._folder / "rows"
        if not (rows / "_SUCCESS").exists():
            ordered = _prepared(self._spark, self._wish)
            writer = ordered.write.mode("overwrite").option("maxRecordsPerFile", FILE_ROWS)
            writer.parquet(str(rows))
        import pyarrow.parquet as pq

        names = sorted((path for path in rows.iterdir() if _PART.match(path.name)), key=_place)
        return [(str(path), pq.read_metadata(path).num_rows) for path in names]

    # ---- sending --------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """All rows of the table."""
        return sum(count for _, count in self._files)

    def run(
        self, pace: ReplayPace, say: Say = lambda told: None, metronome: Metronome | None = None
    ) -> int:
        """Send what is left; returns how many rows that were.

        Raises:
            OnceqError, pyspark's errors: A step was refused; the next run begins with it again.
        """
        metronome = metronome or Metronome(pace)
        sent = 0
        if not self._step.done:
            sent += self._send(self._step, say, 0.0)
        for step in self._steps(pace):
            behind = metronome.wait(self._times(step) if pace.speed else [])
            memory.write_json(self._folder / "step.json", asdict(step))
            count = self._send(step, say, behind)
            metronome.sent(count)
            sent += count
        return sent

    def _steps(self, pace: ReplayPace) -> Iterator[ReplayStep]:
        """What comes after the last step that was sent."""
        while True:
            last = self._step
            file, first = last.file, last.end
            while file < len(self._files) and first >= self._files[file][1]:
                file, first = file + 1, 0
            if file == len(self._files):
                return
            end = self._files[file][1]
            if pace.rate:
                end = min(end, first + max(int(pace.rate * STEP_S), 1))
            step = ReplayStep(last.number + 1, file, first, end, False, last.rows)
            if pace.speed:
                # The rows that are due within a span of the first one; at least one.
                times = self._times(step)
                until = times[0] + STEP_S * pace.speed if times else 0.0
                late = (index for index, at in enumerate(times) if at > until)
                step.end = first + next(late, max(len(times), 1))
            yield step

    def _times(self, step: ReplayStep) -> list[float]:
        """The times of its rows, in seconds; empty if no row of its file has one.

        A row without a time goes with the row before it; those before the first one that has, with
        that.
        """
        if self._timed != step.file:
            import pyarrow.parquet as pq

            column = pq.read_table(self._files[step.file][0], columns=[_TIME])[_TIME].to_pylist()
            known = [at for at in column if at is not None]
            last: float = known[0] if known else 0.0
            self._file_times = []
            for at in column if known else ():
                last = last if at is None else at
                self._file_times.append(last)
            self._timed = step.file
        return self._file_times[step.first : step.end]

    def _send(self, step: ReplayStep, say: Say, behind_s: float) -> int:
        """Write one step down as sent, once it is."""
        rows = (
            self._spark.read.parquet(self._files[step.file][0])
            .where(f"_metadata.row_index >= {step.first} AND _metadata.row_index < {step.end}")
            .coalesce(1)
            .sortWithinPartitions("_metadata.row_index")
            .drop(_TIME)
        )
        writer = (
            rows.write.format("onceq")
            .mode("append")
            .option("queueManager", self._manager)
            .option("txnAppId", self._plan["id"])
            .option("txnVersion", step.number)
            .options(**self._credentials.options())
        )
        if self._wish.to:
            writer = writer.option("queue", self._wish.to)
        if self._wish.errors:
            writer = writer.option("errorQueue", self._wish.errors)
        writer.save()
        count = step.end - step.first
        step.done, step.rows = True, step.rows + count
        memory.write_json(self._folder / "step.json", asdict(step))
        self._step = step
        say(ReplayProgress(step.rows, self.rows, behind_s))
        return count


class Metronome:
    """When a step may go. Time begins with the end of the first step: Spark needs some to start."""

    def __init__(
        self,
        pace: ReplayPace,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = pause,
    ) -> None:
        self._pace = pace
        self._clock = clock
        self._sleep = sleep
        self._rows = 0
        self._began: float | None = None
        self._first = 0.0

    def wait(self, times: list[float]) -> float:
        """Sleep until it is time for a step; returns how late it is (seconds).

        Args:
            times: Of its rows, if these are kept (seconds of the time column).
        """
        if self._began is None:
            self._first = times[0] if times else 0.0
            return 0.0
        due = 0.0
        if self._pace.rate:
            due = self._rows / self._pace.rate
        if times:
            due = max(due, (times[0] - self._first) / self._pace.speed)
        late = self._clock() - self._began - due
        if late < 0:
            self._sleep(-late)
        return max(late, 0.0) if due else 0.0

    def sent(self, rows: int) -> None:
        """A step is over."""
        self._rows += rows
        if self._began is None:
            self._began = self._clock()


def _prepared(spark: SparkSession, wish: ReplayPlan) -> DataFrame:
    """The rows in order, with the columns of the sink alone; raises InvalidParameter."""
    from pyspark.sql import functions as F

    frame = spark.read.format(wish.format).options(**wish.options).load(wish.path)
    columns = frame.columns
    asked = [*wish.order, *filter(None, (wish.time, wish.body))]
    for name in asked:
        if name not in columns:
            raise InvalidParameter(
                f"the table {wish.path} has no column {name!r}; it has {', '.join(columns)}"
            )
    if not wish.to and "queue" not in columns:
        raise InvalidParameter("say where to: --to QUEUE, or a column 'queue' in the table")
    if wish.body or "body" in columns:
        body = F.col(wish.body or "body")
    else:
        body = F.to_json(F.struct(*[name for name in columns if name != "queue"]))
    taken = [
        name for name in [column.name for column in COLUMNS] if name in columns and name != "body"
    ]
    if wish.to:
        taken = [name for name in taken if name != "queue"]
    order: list[Any] = [F.col(name) for name in wish.order or filter(None, [wish.time])]
    if wish.format == "parquet":
        order += [F.col("_metadata.file_path"), F.col("_metadata.row_index")]
    elif not order:
        raise InvalidParameter(
            f"rows of a table in format {wish.format} have no order of their own: say --order-by"
        )
    when = F.col(wish.time).cast("timestamp").cast("double") if wish.time else F.lit(0.0)
    chosen = [body.alias("body"), *taken, when.alias(_TIME)]
    return frame.orderBy(*order).select(*chosen)


def _home(manager: str, credentials: CredentialFiles) -> str:
    """The identity of a queue manager; raises ServiceNotAvailable, AccessDenied."""
    shown = credentials.credentials()
    with connect_for_job(manager, timeout=CONNECT_S_MAX, credentials=shown) as connection:
        return connection.id


def _place(path: Path) -> tuple[int, int]:
    """Order of a file among those that one write has made."""
    match = _PART.match(path.name)
    assert match is not None
    return int(match[1]), int(match[2])


def run(
    master: str, manager: str, wish: ReplayPlan, checkpoint: Path, *, pace: ReplayPace, say: Say,
    tell: Tell, credentials: CredentialFiles = FROM_ENVIRONMENT,
) -> dict[str, int]:  # fmt: skip
    """A replay in a session of its own; returns how many rows were sent now, and are in all.

    Args:
        tell: Is told what is done before rows are sent, and what the sink says meanwhile, which may
            be in another thread.
    """
    from onceq.spark.runtime import quiet_session

    _home(manager, credentials)  # a mistyped one is told before Spark starts
    tell("starting Spark")
    with quiet_session(master, "onceq spark replay", heard=tell) as spark:
        tell(f"putting the rows of {wish.path} in their order")
        replay = Replay(spark, manager, wish, checkpoint, credentials=credentials)
        return {"sent": replay.run(pace, say), "rows": replay.rows}
