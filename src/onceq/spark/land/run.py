"""A landing: one query from queues into a table, until nothing is left or somebody stops it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from onceq.errors import OnceqError, ServiceNotAvailable
from onceq.spark.argument_checks import wrong
from onceq.spark.connections import SourceTarget
from onceq.spark.land import decoding
from onceq.spark.land import memory as files
from onceq.spark.land.memory import LandMemory, began
from onceq.spark.land.plan import DATE, IDENTITY, Field, LandPlan, check_names, fields_of
from onceq.spark.land.reading import COUNTED, LandProof, count, rows_of
from onceq.spark.land.tables import LandTable, open_errors, open_table
from onceq.spark.runtime import stop_asked
from onceq.spark.source.access import LazyConnection
from onceq.spark.source.offsets import QueueSample
from onceq.spark.source.options import ddl, parse
from onceq.spark.source.queue_matching import unsteady

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


POLL_S: Final = 0.2
TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"


@dataclass
class LandingResult:
    """What was done in this run, and (``total``) by all runs with this table.

    Attributes:
        bad: Of ``messages``, those that went into the error table.
        stopped: Whether somebody stopped it before everything was landed.
        held: Messages that were left behind, because an open transaction has taken some of them:
            what stands behind these is not read before they are.
        proof: What was read back at the end; None: nothing was.
    """

    batches: int = 0
    messages: int = 0
    bad: int = 0
    files: int = 0
    bytes: int = 0
    total: int = 0
    stopped: bool = False
    held: int = 0
    proof: LandProof | None = None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        proof = self.proof
        said = None if proof is None else {
            **asdict(proof), "holds": proof.holds, "sentence": proof.sentence(),
        }  # fmt: skip
        return {**asdict(self), "proof": said}


@dataclass(frozen=True)
class LandedBatch:
    """One batch that is done."""

    batch: int
    messages: int
    bytes: int
    bad: int = 0


class LandStopped(Exception):
    """A batch came when no more were wanted; Spark gives it up and plans it again."""


def land(
    spark: SparkSession, plan: LandPlan, say: Callable[[LandedBatch], None],
    tell: Callable[[str], None] = lambda stage: None,
) -> LandingResult:  # fmt: skip
    """Carry a plan out; SIGINT and SIGTERM end it between two batches.

    Args:
        say: Is called for each batch that is done.
        tell: Is called with a sentence for each step before and after the batches.

    Raises:
        ConfigurationError: The folder is not one for this, or was landed in otherwise.
        KeyboardInterrupt: It was stopped twice, and gave up a batch, which the next run repeats.
    """
    plan.check()
    plan = plan.going_on(began(plan.to))
    fields = _fields(plan)
    with _settings(spark) as setting:
        landing = Landing(plan, fields, say)
        landing.prepare()
        for name, value in decoding.SETTINGS.items():
            setting(name, value)
        if not landing.memory.first:
            # As other tables have times; those of the first kind keep the type that they began
            # with, because one folder should not have two.
            setting(TIMESTAMPS, "TIMESTAMP_MICROS")
        tell(f"landing {plan.queues} in {plan.to}")
        _run(spark, plan, landing, tell)
    if not plan.follow and not landing.done.stopped:
        landing.done.held = held(plan)
    if plan.proof:
        tell(f"reading {plan.to} back")
        landing.done.proof = landing.prove()
    return landing.done


def _fields(plan: LandPlan) -> list[Field] | None:
    if not plan.body:
        return None
    if plan.body == "avro":
        fields = decoding.avro_fields_of(plan.schema)
    else:
        fields = fields_of(plan.schema, _ddl)
    check_names(plan, fields)
    return fields


def _ddl(text: str) -> Mapping[str, Any]:
    """SQL's words as JSON; needs a session."""
    from pyspark.errors import ParseException
    from pyspark.sql.types import StructType

    try:
        return dict(StructType.fromDDL(text).jsonValue())
    except ParseException as error:
        said = str(error).strip().splitlines()[0]
        raise wrong(f"the schema is neither JSON nor SQL's words for columns: {said}") from None


@contextmanager
def _settings(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Settings of a session, which end with the block."""
    before: dict[str, str | None] = {}

    def setting(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    try:
        yield setting
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def _run(
    spark: SparkSession, plan: LandPlan, landing: Landing, tell: Callable[[str], None]
) -> None:
    options = _options(plan, landing.memory.subscription)
    source = spark.readStream.format("onceq").schema(ddl(plan.read)).options(**options)
    trigger: dict[str, Any] = (
        {"processingTime": "1 second"} if plan.follow else {"availableNow": True}
    )
    with stop_asked() as asked:
        query = (
            source.load()
            .writeStream.foreachBatch(landing.write)
            .option("checkpointLocation", str(landing.memory.checkpoint))
            .trigger(**trigger)
            .start()
        )
        while not query.awaitTermination(POLL_S):
            if asked.is_set():
                tell("stopping behind the batch that is under way; Ctrl-C again gives it up")
                landing.close()
                query.stop()
                landing.done.stopped = True
                _remove_done(landing.memory, options)
                break


def _options(plan: LandPlan, subscription: str) -> dict[str, str]:
    """Of the source."""
    options = {
        "queueManager": plan.manager,
        "queue": plan.queues,
        "maxMessagesPerTrigger": str(plan.batch_messages),
        "readMode": "peek" if plan.keep else "receive",
        "failOnDataLoss": str(not plan.ignore_loss).lower(),
        "skipFinished": str(not plan.keep).lower(),  # The landing's memory has its number.
        "subscription": subscription,
        **plan.credentials.options(),
    }
    if plan.batch_bytes:
        options["maxBytesPerTrigger"] = str(plan.batch_bytes)
    return options


def _remove_done(memory: LandMemory, options: Mapping[str, str]) -> None:
    """Remove the messages of the last batch: Spark would only ask for it at the next start.

    A user who has asked for the end does not wait for a queue manager that is away: then the next
    start removes them.
    """
    end = memory.end_of_last()
    if end is not None:
        from onceq.spark.source.stream import OnceqStreamReader

        once = {**options, "numRetries": "0"}
        reader = OnceqStreamReader(parse(once, stream=True), ())
        try:
            reader.commit(end)
        finally:
            reader.stop()


class Landing:
    """The table that a plan is about, and the one beside it for what is bad."""

    def __init__(
        self, plan: LandPlan, fields: Sequence[Field] | None, say: Callable[[LandedBatch], None]
    ) -> None:
        self._plan = plan
        self._fields = fields
        self._say = say
        self._to = plan.to.absolute()
        self._errors = plan.errors.absolute()
        self.memory = LandMemory(plan)
        self._table: LandTable
        self._bad: LandTable
        self._busy = threading.Lock()
        self._closed = False
        self.done = LandingResult()

    def prepare(self) -> None:
        """Look whether this folder can be landed in; raises ConfigurationError."""
        self.memory.prepare(self._fields)
        name = self.memory.subscription
        self._table = open_table(self._plan, name)
        self._bad = open_errors(self._plan, name)
        self.done.total = self.memory.counts.total

    def close(self) -> None:
        """Wait for the end of a batch that is written; there will be none after it."""
        with self._busy:
            self._closed = True

    def write(self, frame: DataFrame, batch: int) -> None:
        """Make the rows of a batch; see the package."""
        with self._busy:
            if self._closed:
                raise LandStopped
            if batch <= self.memory.counts.batch:
                return
            self.memory.settle(batch)
            self._write(frame, batch)

    def _write(self, frame: DataFrame, batch: int) -> None:
        if self._fields is None:
            good = self._put(decoding.rows(frame, self._plan, None), batch)
            bad: list[files.File] = []
        else:
            judged = decoding.judge_bodies(frame, self._plan, self._fields).persist()
            try:
                good = self._put(decoding.rows(judged, self._plan, self._fields), batch)
                # From what is decoded now; before, a single task would have to decode it all.
                bad = self._put_errors(decoding.refused(judged), batch)
            finally:
                judged.unpersist()
        refused = sum(file.rows for file in bad)
        messages = sum(file.rows for file in good) + refused
        self.memory.done(batch, messages, refused)
        shutil.rmtree(self.memory.staging, ignore_errors=True)
        size = sum(file.bytes for file in [*good, *bad])
        self.done.batches += 1
        self.done.messages += messages
        self.done.bad += refused
        self.done.bytes += size
        self.done.files += len(good) + len(bad)
        self.done.total = self.memory.counts.total
        self._say(LandedBatch(batch, messages, size, refused))

    def _put(self, frame: DataFrame, batch: int) -> list[files.File]:
        if self._table.has(batch):
            return files.placed_files(self._to, batch)
        files.stage_files(frame, self.memory.staging, DATE if self._plan.by_date else "")
        placed = files.place_files(self.memory.staging, self._to, batch)
        if placed:
            self._table.take(batch, placed, _loose(frame))
        return placed

    def _put_errors(self, frame: DataFrame, batch: int) -> list[files.File]:
        if self._bad.has(batch):
            return files.placed_files(self._errors, batch)
        files.stage_files(frame.coalesce(1), self.memory.staging)
        placed = files.place_files(self.memory.staging, self._errors, batch)
        if placed:
            self._bad.take(batch, placed, _loose(frame))
        return placed

    def prove(self) -> LandProof | None:
        """Read the tables back; None if they lack what tells messages apart."""
        plan = self._plan
        if not set(IDENTITY) <= set(plan.kept):
            return None
        bad = list(rows_of(self._bad, COUNTED)) if plan.body else []
        found = count(chain(rows_of(self._table, COUNTED, plan.prefix), bad))
        refused = sum(batch.num_rows for batch in bad)
        total = self.memory.counts.total
        return LandProof(total, found.rows - refused, refused, found.twice, self._table.reader)


def _loose(frame: DataFrame) -> StructType:
    """What a table has: columns that may be null, so that there may be more of them one day."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, field.dataType) for field in frame.schema.fields])


def check_queues(plan: LandPlan) -> None:
    """Check the queues, so that a wrong name, or one of no stream, fails before Spark starts.

    A queue manager that is away may come back; the query waits for it.

    Raises:
        OnceqError: There is no such queue, or no such queue manager, or messages come in between
            others there.
    """
    for target, sight in _sights(plan):
        if not sight.steady:
            raise wrong(unsteady(target, sight))


def held(plan: LandPlan) -> int:
    """Messages in queues of which an open transaction has taken some: ``--until-empty`` has passed
    over them."""
    if plan.keep:
        return 0
    try:
        return sum(sight.messages for _, sight in _sights(plan) if sight.locked)
    except OnceqError:
        return 0  # The landing is complete, even if a queue is gone meanwhile.


def _sights(plan: LandPlan) -> Iterator[tuple[SourceTarget, QueueSample]]:
    """Yield the present state of each queue; nothing of a queue manager that does not answer."""
    options = parse({**_options(plan, ""), "numRetries": "0"}, stream=True)
    for target in options.targets:
        with (
            contextlib.suppress(ServiceNotAvailable),
            LazyConnection(target.manager, options.patience, options.credentials) as access,
        ):
            yield target, access.sample(target.queue)


def run(
    master: str, plan: LandPlan, say: Callable[[LandedBatch], None], tell: Callable[[str], None]
) -> LandingResult:
    """``land`` in a session of its own.

    Args:
        tell: Is called with a sentence for each step before and after the batches, and for each one
            of the source meanwhile, maybe in another thread.
    """
    from onceq.spark.runtime import quiet_session

    plan.check()
    check_queues(plan)
    # What a batch died of comes as an error; py4j would print it in the middle of ours as well,
    # and the end of a batch that is given up.
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    tell("starting Spark")
    with quiet_session(master, "onceq spark land", heard=tell) as spark:
        return land(spark, plan, say, tell)
