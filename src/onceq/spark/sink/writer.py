"""``write.format("onceq")`` and ``writeStream.format("onceq")``: rows as messages, exactly once.

Each task stages its rows in branches and prepares them (``task.py``); the driver has all of them
committed as one group, under a name and a number: a stream's are the query's id and the batch's
number, a batch write's are options. The queue manager remembers the last number of each name in the
very record that commits. So it does not matter how often Spark repeats a task, a batch or a commit,
or where anything dies: a batch is sent once, or not at all.

With several queue managers the first decides: the record there that commits its own branches and
the anchors of the tasks (``core/transaction/second_phase.py``) is the decision, and remembers the
version. Branches at the others have its name in their identifiers, so they wait for it, however
long that takes. They are told when it has decided, in the order of the partitions. If a driver died
before it told them, the next one does: the same batch when it is repeated, any later write through
the same queue managers, or ``onceq tx recover``. The others remember nothing.

Upholds: I2, I4, I5, I20 at the connector (delivery once, in the order of the rows of each
partition), I21 (one record decides).
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlparse

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from onceq.client.recovering import ManagerResource
from onceq.client.threads.manager import QueueManager
from onceq.errors import GroupDiffers, GroupIncomplete, ManagerAway, OnceqError, UsageError
from onceq.model.branches import GROUP_MARK, ONCEQ_FORMAT, Xid, group_of
from onceq.model.views.looks import GroupResult
from onceq.spark.argument_checks import coded, wrong
from onceq.spark.connections import connection
from onceq.spark.sink.branches import Line, asked_again
from onceq.spark.sink.options import SinkOptions
from onceq.spark.sink.rows import digest_of, target_of
from onceq.spark.sink.task import Staged, TaskBatch, stage

if TYPE_CHECKING:
    import pyarrow as pa


QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"

_CURE: Final = (
    "the number belongs to the name, for all queues, so give each write a txnAppId of its own, "
    "also two writes of one batch; if this is the same batch and its rows come out differently "
    "each time (rand(), the time), keep them with persist(), or set the option txnRows to any"
)

log = logging.getLogger("onceq.spark")
T = TypeVar("T")


@dataclass(frozen=True)
class StagedMessage(WriterCommitMessage):  # type: ignore[misc]
    """What a task tells the driver."""

    job: TaskBatch
    staged: Staged


class _SinkWriter:
    """What both kinds of write have in common."""

    def __init__(self, options: SinkOptions, names: Sequence[str]) -> None:
        self._options = options
        self._names = tuple(names)

    def _stage(self, batches: Iterator[pa.RecordBatch], job: TaskBatch) -> StagedMessage:
        return StagedMessage(job, stage(batches, self._names, self._options, job))

    def _ask(
        self, work: Callable[[list[QueueManager]], T], *, once: bool = False, alone: bool = False
    ) -> T:
        """Ask the queue managers; asking again does no harm.

        Args:
            once: Do not wait for one that is away.
            alone: Only the one that decides.
        """
        addresses = self._options.managers[:1] if alone else self._options.managers
        patience = self._options.patience
        if once:
            patience = replace(patience, retry_s=0.0)
        place = "queue manager at " + ", ".join(addresses)
        opened = partial(connection, credentials=self._options.credentials)
        with contextlib.ExitStack() as stack:
            lines = [stack.enter_context(Line(address, patience, opened)) for address in addresses]
            try:
                return asked_again(
                    lambda: work([line.manager for line in lines]), place, patience,
                    met=lambda: all(line.met for line in lines),
                )  # fmt: skip
            except OnceqError as error:
                raise coded(error, place) from None

    def _commit(self, messages: Sequence[Any]) -> None:
        """All that the tasks have staged, as one, in the order of the partitions.

        A write that was done before under this name and number is not done again; where it was
        another one, that is refused.
        """
        told: list[StagedMessage] = [m for m in messages if isinstance(m, StagedMessage)]
        if not told:
            return
        # Tasks end in any order: the messages are put into the order of partitions.
        told.sort(key=lambda message: message.job.partition)
        job = told[0].job
        xids = [Xid(ONCEQ_FORMAT, *branch) for m in told for branch in m.staged.branches]
        target = digest = ""
        if job.app == self._options.app and self._options.version >= 0:
            target = target_of(self._options.queue)
        if job.compared:
            rows, total = (sum(getattr(m.staged, n) for m in told) for n in ("rows", "total"))
            digest = digest_of(target, rows, total)

        def commit(manager: QueueManager) -> GroupResult:
            try:
                return manager.groups.commit(
                    job.app, job.version, xids, query=job.query, target=target, digest=digest
                )
            except GroupDiffers as error:
                raise GroupDiffers(f"{error.text}: {_CURE}") from None

        elsewhere = [
            (at, Xid(ONCEQ_FORMAT, *branch)) for m in told for at, *branch in m.staged.elsewhere
        ]

        def everywhere(managers: list[QueueManager]) -> GroupResult:
            if len(managers) == 1:
                return commit(managers[0])
            return decide(managers, job.app, job.version, elsewhere, commit)

        done = self._ask(everywhere)
        refused = sum(message.staged.refused for message in told)
        if done.already:
            log.info("batch %s of %s was sent before; nothing is sent twice", job.version, job.app)
        elif refused:
            log.warning(
                "%d rows of batch %s of %s could not be sent and are in %s",
                refused, job.version, job.app, self._options.errors,
            )  # fmt: skip

    def _abort(self, app: str, version: int, *, final: bool = False) -> None:
        """Undo what is prepared. What this cannot reach goes with the next commit, or by time.

        Args:
            final: The name is of this write alone, so nobody will come back to it.
        """
        with contextlib.suppress(OnceqError):
            # First where it is decided: then the answer that others hear is final.
            self._ask(
                lambda qms: qms[0].groups.rollback(app, version, final=final),
                once=True, alone=True,
            )  # fmt: skip
            if len(self._options.managers) > 1:
                self._ask(lambda qms: tell(qms[0], qms[1:]), once=True)


class OnceqWriter(_SinkWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """``write.format("onceq")``. One object plans; tasks and the commit have copies of it."""

    def __init__(self, options: SinkOptions, names: Sequence[str]) -> None:
        super().__init__(options, names)
        # Without a name of the user's the write is only once for Spark's own repetitions.
        self._app = options.app or f"write:{secrets.token_hex(16)}"
        self._version = max(options.version, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """The rows of one task, on an executor."""
        task = TaskContext.get()
        assert task is not None, "write is called in a task"
        query = (task.getLocalProperty(QUERY_ID) or "") if self._options.app else ""
        job = TaskBatch(self._app, self._version, query, task.partitionId(), self._options.compared)
        return self._stage(iterator, job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        self._commit(messages)
        if not self._options.app:
            with contextlib.suppress(OnceqError):
                self._ask(self._forget, alone=True)

    def _forget(self, managers: list[QueueManager]) -> None:
        manager = managers[0]
        with contextlib.suppress(UsageError):
            manager.groups.forget(self._app)
        manager.groups.rollback(self._app, self._version, final=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The write has failed."""
        self._abort(self._app, self._version, final=not self._options.app)


class OnceqStreamWriter(_SinkWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``writeStream.format("onceq")``. There is a new object for each commit."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """The rows of one task, on an executor."""
        task = TaskContext.get()
        assert task is not None, "write is called in a task"
        query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        assert query, "a task of a stream knows its query"
        assert batch, "and its batch"
        job = TaskBatch(self._app_of(query), int(batch), query, task.partitionId())
        return self._stage(iterator, job)

    def _app_of(self, query: str) -> str:
        return self._options.app or f"query:{query}"

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks are done; also asked for a batch that was committed before a crash."""
        assert all(
            message.job.version == batchId
            for message in messages
            if isinstance(message, StagedMessage)
        ), "a task has staged rows of another batch"
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The batch has failed, or the query was stopped; often no task has told anything."""
        told = [m.job.app for m in messages if isinstance(m, StagedMessage)]
        query = "" if told or self._options.app else query_of(self._options.checkpoint)
        if told or self._options.app or query:
            self._abort(told[0] if told else self._app_of(query), batchId)


def query_of(checkpoint: str) -> str:
    """The id of the query that has a checkpoint, if that is a directory here; else empty."""
    place = urlparse(checkpoint)
    if not checkpoint or place.scheme not in ("", "file"):
        return ""
    try:
        found = json.loads((Path(unquote(place.path)) / "metadata").read_text())
    except (OSError, ValueError):
        return ""
    return str(found.get("id", "")) if isinstance(found, dict) else ""


_NAME: Final = re.compile(re.escape(GROUP_MARK) + rb"(\d+)\.(\d+)")
log = logging.getLogger("onceq.spark")


def decide(
    managers: Sequence[QueueManager], app: str, version: int,
    elsewhere: Sequence[tuple[int, Xid]], commit: Callable[[QueueManager], GroupResult],
) -> GroupResult:  # fmt: skip
    """Have a group committed, with its parts at other queue managers, and tell these.

    Args:
        managers: Connections; the first decides.
        elsewhere: Branches that were prepared at others, with the index of each of these.
        commit: Asks the first for the decision. May be asked again.

    Raises:
        ConfigurationError: Another one than the first has decided before.
        GroupIncomplete: A part is gone. Nothing was decided.
        ServiceNotAvailable: It is decided, and one of the others does not know yet.
    """
    home, others = managers[0], managers[1:]
    _check_home(managers, app, version)
    if _last(home, app) < version:
        for at, other in enumerate(others, 1):
            here = {view.xid for view in other.admin.branches() if view.phase == "prepared"}
            gone = [str(xid) for where, xid in elsewhere if where == at and str(xid) not in here]
            if gone:
                raise GroupIncomplete(
                    f"version {version} of {app!r} cannot be committed: branch {gone[0]} is not "
                    f"prepared at {other.name} (rolled back, or decided by hand); nothing of it "
                    "was sent"
                )
    done = commit(home)
    tell(home, others)
    return done


def tell(home: QueueManager, others: Sequence[QueueManager]) -> None:
    """Bring what waits at others for the first to the outcome that it has decided.

    Raises:
        ServiceNotAvailable: One of them does not know yet.
    """
    recovery = home.recovery([_ManagerParts(other) for other in others])
    report = recovery.step(time.monotonic())
    for _, xid, said in report.by_hand:
        log.warning("part %s was decided by hand: %s", xid, said)
    if report.failed:
        ((name, why), *_) = report.failed.items()
        raise ManagerAway(
            f"{name} could not be told what {home.name} has decided ({why}). Nothing is lost, and "
            "it waits for that: write the same batch again, under the same txnAppId and "
            "txnVersion, or call onceq tx recover --other for it"
        )


def _check_home(managers: Sequence[QueueManager], app: str, version: int) -> None:
    if len({manager.id for manager in managers}) < len(managers):
        raise wrong("queueManager has two addresses of one queue manager")
    if _last(managers[0], app) >= version:
        return
    for other in managers[1:]:
        if _last(other, app) >= version:
            raise wrong(
                f"{other.name} has committed version {version} of {app!r}, and {managers[0].name}, "
                "the first address in queueManager, knows nothing of it: it would be sent a second "
                f"time. Put {other.name} first, where it has been"
            )


def _last(manager: QueueManager, app: str) -> int:
    return next((view.version for view in manager.groups.list() if view.app == app), -1)


class _ManagerParts(ManagerResource):
    """Parts at one queue manager: batches as they came, and each in the order of its partitions."""

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """Return the branches that are prepared here and can be ended from here, in their order."""
        found = [xid for xid in super().recover(prefix) if group_of(xid)]
        order: dict[bytes, int] = {}
        for xid in found:
            order.setdefault(group_of(xid), len(order))
        return sorted(found, key=lambda xid: (order[group_of(xid)], _place(xid)))


def _place(xid: Xid) -> tuple[int, int]:
    match = _NAME.fullmatch(xid.bqual)
    return (int(match[1]), int(match[2])) if match is not None else (0, 0)
