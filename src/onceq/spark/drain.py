"""``onceq spark drain``: messages of queues as Parquet files, each exactly once.

It is a stream of its own: Spark plans batches and remembers them in a checkpoint inside the
target, the source removes what was committed, and this module makes files of a batch such that
doing it twice is doing it once. For batch N, in this order:

1. Spark's record of what N has (``offsets/N``) is made durable, so that N never becomes anything
   else.
2. The rows are written under ``_onceq/staging``, which is cleared first.
3. Files that an earlier attempt at N has left are removed; the new ones are made durable, and
   moved to their place under the name of the batch.
4. ``_onceq/done.json`` says that N is done; an attempt that finds this does nothing at all, also
   where the messages are gone already.

Only after that Spark hears that N is written, and only after that messages are removed. So what is
gone from a queue stands in durable files (after a loss of power, too), and every reader of the
folder sees each message once, when no drain is under way.

Upholds: I4 at the connector; I24 (a batch at a time).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onceq.spark import state_files
from onceq.spark.options import parse
from onceq.spark.runtime import stop_asked
from onceq.spark.source_columns import COLUMNS
from onceq.spark.targets import wrong

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HIDDEN: Final = "_onceq"
"""Our folder inside the target; readers of Parquet pass over what begins with a line."""
DATE: Final = "date"
POLL_S: Final = 0.2
FORMAT: Final = 1
SUBSCRIPTION: Final = "onceq spark drain"
DAY_S: Final = 86_400
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@dataclass(frozen=True)
class Plan:
    """What to drain, and how.

    Attributes:
        manager, queues: As the options ``queueManager`` and ``queue`` of the source.
        to: Folder for the files; made if it is not there.
        columns: Which columns; empty: all.
        batch_messages: Messages of one batch; each batch is at least one file.
        batch_bytes: Bytes of packets of one batch; 0: no limit.
        by_date: Whether files go into a folder for each day (UTC) on which messages arrived.
        keep: Leave the messages in their queues.
        follow: Go on with what comes, until stopped.
        ignore_loss: Go on where messages are missing.
    """

    manager: str
    queues: str
    to: Path
    columns: tuple[str, ...] = ()
    batch_messages: int = 100_000
    batch_bytes: int = 0
    by_date: bool = False
    keep: bool = False
    follow: bool = False
    ignore_loss: bool = False


@dataclass
class Done:
    """What was done in this run, and (``total``) by all runs with this target."""

    batches: int = 0
    messages: int = 0
    files: int = 0
    bytes: int = 0
    total: int = 0
    stopped: bool = False


@dataclass(frozen=True)
class Step:
    """One batch that is done."""

    batch: int
    messages: int
    bytes: int


def drain(spark: SparkSession, plan: Plan, say: Callable[[Step], None]) -> Done:
    """Carry a plan out; SIGINT and SIGTERM end it between two batches, or give the batch up.

    Args:
        say: Is told of each batch that is done.

    Raises:
        ConfigurationError: The target is not a folder for this, or was drained into otherwise.
    """
    target = _Target(plan, say)
    target.prepare()
    columns = plan.columns or tuple(COLUMNS)
    wanted = dict.fromkeys([*columns, *(["arrivedTime"] if plan.by_date else [])])
    options = _options(plan)
    source = (
        spark.readStream.format("onceq")
        .schema(", ".join(f"`{name}` {COLUMNS[name]}" for name in wanted))
        .options(**options)
    )
    trigger: dict[str, Any] = (
        {"processingTime": "1 second"} if plan.follow else {"availableNow": True}
    )
    with stop_asked() as asked:
        query = (
            source.load()
            .writeStream.foreachBatch(target.write)
            .option("checkpointLocation", str(target.checkpoint))
            .trigger(**trigger)
            .start()
        )
        while not query.awaitTermination(POLL_S):
            if asked.is_set():
                query.stop()
                target.done.stopped = True
                _remove_done(target, options)
                break
    return target.done


def _options(plan: Plan) -> dict[str, str]:
    """Of the source."""
    options = {
        "queueManager": plan.manager,
        "queue": plan.queues,
        "maxMessagesPerTrigger": str(plan.batch_messages),
        "readMode": "peek" if plan.keep else "receive",
        "failOnDataLoss": str(not plan.ignore_loss).lower(),
        "subscription": SUBSCRIPTION,
    }
    if plan.batch_bytes:
        options["maxBytesPerTrigger"] = str(plan.batch_bytes)
    return options


def _remove_done(target: _Target, options: Mapping[str, str]) -> None:
    """Remove what the last batch has read: Spark would only ask for it at the next start."""
    end = target.end_of_last()
    if end is not None:
        from onceq.spark.stream import OnceqStreamReader

        reader = OnceqStreamReader(parse(options, stream=True), ())
        try:
            reader.commit(end)
        finally:
            reader.stop()


class _Target:
    """The folder that files go to."""

    def __init__(self, plan: Plan, say: Callable[[Step], None]) -> None:
        self._plan = plan
        self._say = say
        self._to = plan.to.absolute()
        self._hidden = self._to / HIDDEN
        self._state = self._hidden / "done.json"
        self._staging = self._hidden / "staging"
        self.checkpoint = self._hidden / "checkpoint"
        self.done = Done()

    def prepare(self) -> None:
        """Look whether this folder can be drained into; raises ConfigurationError."""
        if _URL.match(str(self._plan.to)):
            raise wrong(f"{self._plan.to} is not a folder of this computer; drain to one that is")
        plan = self._plan
        unknown = [name for name in plan.columns if name not in COLUMNS]
        if unknown:
            raise wrong(f"there is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
        if self._to.exists() and not self._to.is_dir():
            raise wrong(f"{self._to} is a file; name a folder")
        fixed = {
            "format": FORMAT, "queues": plan.queues, "columns": list(plan.columns),
            "by_date": plan.by_date, "keep": plan.keep,
        }  # fmt: skip
        path = self._hidden / "plan.json"
        if path.exists():
            before = json.loads(path.read_text())
            for name, value in fixed.items():
                if before[name] != value:
                    raise wrong(
                        f"{self._to} was drained into with {name} {before[name]!r}, not "
                        f"{value!r}; go on in the same way, or into another folder"
                    )
            if self._state.exists():
                self.done.total = json.loads(self._state.read_text())["total"]
                self._check_checkpoint()
            return
        if self._to.is_dir() and any(self._to.iterdir()):
            raise wrong(
                f"{self._to} has files already, and not from a drain; name an empty or new folder"
            )
        state_files.make(self._hidden)
        state_files.write(path, fixed)

    def _last(self) -> int:
        """The last batch that is done; -1 for none."""
        if not self._state.exists():
            return -1
        return int(json.loads(self._state.read_text())["batch"])

    def _check_checkpoint(self) -> None:
        """Raises ConfigurationError if Spark's record of the last batch is gone: without it the
        numbers of batches begin anew, and new messages would be taken for those that are done."""
        if not (self.checkpoint / "offsets" / str(self._last())).exists():
            raise wrong(
                f"the checkpoint {self.checkpoint} is gone, and without it nobody knows what was "
                "drained; put it back, or drain into another folder"
            )

    def end_of_last(self) -> dict[str, Any] | None:
        """Where the last batch that is done ends; None if there is none."""
        batch = self._last()
        if batch < 0:
            return None
        # Spark's log: a version, what it notes itself, and a line for each source.
        lines = (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()
        return dict(json.loads(lines[-1]))

    def write(self, frame: DataFrame, batch: int) -> None:
        """Make the files of a batch; see the module."""
        if batch <= self._last():
            return
        # Spark writes it and does not wait for the disk: without it a power cut could give this
        # number to other messages, and `done.json` would pass them over.
        state_files.sync(self.checkpoint / "offsets" / str(batch))
        state_files.sync(self.checkpoint / "offsets")
        state_files.sync(self.checkpoint)
        shutil.rmtree(self._staging, ignore_errors=True)
        self._stage(frame)
        # Names alone do not replace them: the earlier attempt may have made more files.
        for left in self._to.rglob(f"{_prefix(batch)}*.parquet"):
            left.unlink()
        step, files = self._move(batch)
        self.done.total += step.messages
        state_files.write(self._state, {"batch": batch, "total": self.done.total})
        shutil.rmtree(self._staging)
        self.done.batches += 1
        self.done.messages += step.messages
        self.done.bytes += step.bytes
        self.done.files += files
        self._say(step)

    def _stage(self, frame: DataFrame) -> None:
        from pyspark.sql import functions as sql

        columns = list(self._plan.columns) or list(COLUMNS)
        if self._plan.by_date:
            # Not to_date: that goes by the time zone of the session.
            days = sql.floor(sql.unix_seconds("arrivedTime") / DAY_S).cast("int")
            dated = frame.withColumn(DATE, sql.date_from_unix_date(days))
            dated.select(*columns, DATE).write.partitionBy(DATE).parquet(str(self._staging))
        else:
            frame.select(*columns).write.parquet(str(self._staging))

    def _move(self, batch: int) -> tuple[Step, int]:
        """Put staged files in their place; what is in them, and how many there are."""
        import pyarrow.parquet as parquet

        messages = size = 0
        folders = {self._to}
        staged = sorted(self._staging.rglob("*.parquet"))
        for number, file in enumerate(staged):
            rows = parquet.read_metadata(file).num_rows
            folder = self._to / file.parent.relative_to(self._staging)
            if folder not in folders:
                folder.mkdir(exist_ok=True)
                folders.add(folder)
            messages += rows
            size += file.stat().st_size
            state_files.sync(file)
            # Spark writes a file for each task, also for those without rows.
            if rows:
                file.replace(folder / f"{_prefix(batch)}{number:05}.parquet")
        for folder in folders:
            state_files.sync(folder)
        return Step(batch, messages, size), len(staged)


def _prefix(batch: int) -> str:
    return f"batch-{batch:09}-"


def run(master: str, plan: Plan, say: Callable[[Step], None]) -> dict[str, Any]:
    """``drain`` in a session of its own."""
    from onceq.spark.runtime import quiet_session

    with quiet_session(master, "onceq spark drain") as spark:
        return asdict(drain(spark, plan, say))
