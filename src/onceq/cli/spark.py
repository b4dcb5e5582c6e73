"""``onceq spark land``: messages of queues into a table. ``onceq.spark.land`` does it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from onceq.cli import out
from onceq.cli.common import (
    Argument,
    DryRun,
    Exit,
    Json,
    Option,
    Where,
    Yes,
    agreed,
    dumped,
    manager,
    where,
)
from onceq.cli.spark_loading import INTERRUPTED, credential_files, interrupted, loaded, unwrap_error
from onceq.errors import ConfigurationError, UsageError
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.model.views.queues import ReaderView


# ---- spark land ----------------------------------------------------------------------------------


BATCH_MESSAGES_MAX = 2_000_000
"""One transaction removes no more."""
CONTRADICTED = 8
"""Exit code, as of an audit."""
Queues = Annotated[
    list[str], Argument(metavar="QUEUE", help="Queues, journals, dead-letter queues.")
]
Table = Annotated[
    tuple[str, Path],
    Option(
        "--to", metavar="parquet|delta|iceberg FOLDER",
        help="What the table is, and where. Given again, it goes on.",
    ),
]  # fmt: skip
Format = Annotated[
    str,
    Option(
        "--format", metavar="json|avro", show_default=False,
        help="What bodies are; needs --schema [bytes, left as they are].",
    ),
]  # fmt: skip
Schema = Annotated[
    Path | None,
    Option(
        "--schema", metavar="FILE", show_default=False,
        help="The columns of bodies: SQL's words or the JSON of a StructType; of Avro its schema.",
    ),
]  # fmt: skip
Prefix = Annotated[
    str,
    Option(
        "--prefix", metavar="TEXT", show_default=False,
        help="Stands before the names of the message's columns.",
    ),
]  # fmt: skip
Evolve = Annotated[
    bool, Option("--evolve", help="Add columns that the schema has and the table lacks.")
]
IgnoreUnknown = Annotated[
    bool,
    Option(
        "--ignore-unknown",
        help="Leave out fields that the schema lacks; else such a message is a bad row.",
    ),
]
UntilEmpty = Annotated[
    bool, Option("--until-empty", help="End when what has arrived by now is landed.")
]
NoProof = Annotated[
    bool,
    Option(
        "--no-proof",
        help="Do not read the table back; a new table then has only those of --columns.",
    ),
]  # fmt: skip
Columns = Annotated[
    str,
    Option(
        "--columns", metavar="NAME,NAME...", show_default=False,
        help="More columns of the Spark source to keep [the usual ones; with --schema only "
        "arrivedTime].",
    ),
]  # fmt: skip
ByDate = Annotated[bool, Option("--by-date", help="A folder for each day (UTC) of arrival.")]
BatchMessages = Annotated[
    int,
    Option(
        "--batch", metavar="N", min=1, max=BATCH_MESSAGES_MAX,
        help="Most messages of one batch, which is at least one file.",
    ),
]  # fmt: skip
BatchBytes = Annotated[
    int,
    Option(
        "--batch-bytes", metavar="N", min=0, help="Most bytes of one batch; 0: no limit."
    ),
]  # fmt: skip
Keep = Annotated[bool, Option("--keep", help="Leave the messages in the queue.")]
IgnoreLoss = Annotated[bool, Option("--ignore-loss", help="Go on where messages are missing.")]
Master = Annotated[
    str,
    Option("--master", metavar="URL", help="Spark master; its executors must see the folder."),
]


def land(
    queues: Queues,
    to: Table,
    format: Format = "",
    schema: Schema = None,
    columns: Columns = "",
    prefix: Prefix = "",
    evolve: Evolve = False,
    ignore_unknown: IgnoreUnknown = False,
    by_date: ByDate = False,
    batch: BatchMessages = 100_000,
    batch_bytes: BatchBytes = 0,
    keep: Keep = False,
    until_empty: UntilEmpty = False,
    ignore_loss: IgnoreLoss = False,
    no_proof: NoProof = False,
    master: Master = "local[*]",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Move messages of queues into a table as they come, each exactly once, through crashes.

    With a schema bodies become columns; what does not fit goes with the reason into the table
    FOLDER_errors. Ctrl-C ends it between two batches; the same command goes on. At the end the
    table is read back: exit code 8 if it does not have each message once.
    """
    table, folder = to
    work = loaded("onceq.spark.land.run")
    plan = loaded("onceq.spark.land.plan").LandPlan(
        manager=where(qm), queues=",".join(queues), to=folder, table=table, body=format,
        schema=_text(schema), columns=_names(columns), identified=not no_proof, prefix=prefix,
        evolve=evolve, ignore_unknown=ignore_unknown, batch_messages=batch,
        batch_bytes=batch_bytes, by_date=by_date, keep=keep, follow=not until_empty,
        ignore_loss=ignore_loss, proof=not no_proof, credentials=credential_files(),
    )  # fmt: skip
    done = _done(work, master, plan)
    if not dumped({**done.plain(), "to": str(folder)}, json):
        _tell(done, folder)
        if done.proof is not None:
            out.line(done.proof.sentence())
    if done.proof is not None and not done.proof.holds:
        raise Exit(CONTRADICTED)
    if done.stopped:
        raise Exit(INTERRUPTED)


def _done(work: Any, master: str, plan: Any) -> Any:
    """Carry a plan out."""

    batches, messages = 0, 0

    def say(step: Any) -> None:
        nonlocal batches, messages
        batches, messages = batches + 1, messages + step.messages
        mib = step.bytes / (1 << 20)
        bad = f", {step.bad:,} of them bad rows" if step.bad else ""
        out.note(f"batch {step.batch}: {step.messages:,} messages{bad}, {mib:,.1f} MiB")

    try:
        return work.run(master, plan, say, out.note)
    except KeyboardInterrupt:
        _note_landed(messages, batches)
        raise interrupted() from None
    except Exception as error:
        if batches:
            _note_landed(messages, batches)
        raise unwrap_error(error) from error


def _note_landed(messages: int, batches: int) -> None:
    """Say what is in the table, where a landing ends in the middle."""
    count = f"{batches:,} batch{'' if batches == 1 else 'es'}"
    out.note(f"{plural(messages, 'message')} in {count} landed before this")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _text(schema: Path | None) -> str:
    if schema is None:
        return ""
    try:
        text = schema.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"the schema {schema} cannot be read: {why}") from None
    if not text.strip():
        raise ConfigurationError(f"the schema {schema} is empty")
    return text


def _tell(done: Any, to: Path) -> None:
    end = "stopped; the same command goes on" if done.stopped else "all that was there"
    if done.held:
        end = (
            f"{done.held:,} messages are left: an open transaction has taken some of them ('onceq "
            "tx list'), and what stands behind these waits for it; the same command goes on"
        )
    bad = (("of them bad rows", done.bad),) if done.bad else ()
    out.facts(
        (
            ("messages", done.messages), *bad, ("files", done.files),
            ("MiB", done.bytes / (1 << 20)), ("in the folder", done.total),
            ("folder", str(to)), ("end", end),
        )
    )  # fmt: skip


# ---- spark readers -------------------------------------------------------------------------------
#
# What is remembered of streams of Spark: `onceq spark forget` and `tx forget-group`.
#
# It keeps a stream with a new checkpoint from losing messages beside an old folder, and a batch
# that is written twice from being sent twice, so both ask before they forget. Needs no Spark.


ReadQueues = Annotated[list[str], Argument(metavar="QUEUE...", help="Names of the queues.")]
Some = Annotated[
    list[str] | None, Argument(metavar="[QUEUE...]", help="Names of the queues [all].")
]
Subscription = Annotated[
    str, Option("--subscription", metavar="NAME", help="Of the stream; without: no name.")
]


def forget(
    queues: ReadQueues, subscription: Subscription = "", dry_run: DryRun = False, yes: Yes = False,
    qm: Where = None,
) -> None:  # fmt: skip
    """Let a stream begin again: forget that one of that subscription has read these queues.

    Only for a new stream with a new checkpoint AND a new folder or table. With the old one its sink
    takes the first batches for those that it has written, and their messages are lost.
    """
    from onceq.client.plans import receive

    with manager(qm) as connection:
        known = [_known(connection, queue, subscription) for queue in queues]
        for one in known:
            name = f" by subscription {one.reader!r}" if one.reader else ""
            who = one.who or "nobody said who"
            said = f"that {out.name(one.queue)} was read{name} up to {one.to} ({who})"
            if dry_run:
                out.line(f"would be forgotten: {said}")
                continue
            if not yes:
                out.note("a stream that starts again must write to a new folder or table.")
            agreed(f"forget {said}?", yes=yes)
            connection._run(receive.forget(connection._state, one.queue, one.reader))
            out.line(f"forgotten: {said}")


def _readers(connection: QueueManager, queue: str) -> list[ReaderView]:
    from onceq.client.plans import receive

    found = connection._run(receive.readers(connection._state, queue))
    return sorted(found, key=lambda one: -one.since)  # who has read last comes first


def _known(connection: QueueManager, queue: str, subscription: str) -> ReaderView:
    found = _readers(connection, queue)
    for one in found:
        if one.reader == subscription:
            return one
    whom = f"of subscription {subscription!r}" if subscription else "without a subscription"
    named = (f"--subscription {o.reader!r}" if o.reader else "no --subscription" for o in found)
    cure = f"say {' or '.join(named)}" if found else "nobody has read and removed its messages"
    raise UsageError(f"no stream {whom} is remembered of {queue}; {cure}")


App = Annotated[str, Argument(metavar="APP", help="As the list shows it: txnAppId, or query:...")]


def forget_group(app: App, dry_run: DryRun = False, yes: Yes = False, qm: Where = None) -> None:
    """Forget the last version of an application: its next batch is sent, of any version."""
    with manager(qm) as connection:
        group = next((g for g in connection.groups.list() if g.app == app), None)
        if group is None:
            raise UsageError(f"no version is remembered of {app!r}; 'tx groups' shows the others")
        said = f"version {group.version} of {app}"
        if dry_run:
            out.line(f"would be forgotten: {said}")
            return
        if not yes:
            out.note(
                "if it is still at work, or is started again with its old checkpoint, a batch that "
                "was sent may be sent a second time."
            )
        agreed(f"forget {said}?", yes=yes)
        connection.groups.forget(app)
    out.line(f"forgotten: {said}")


# ---- spark replay --------------------------------------------------------------------------------
#
# `onceq spark replay`: rows of a table into queues; `onceq.spark.land.replay` does it.


ReplayedTable = Annotated[
    str, Argument(metavar="TABLE", help="Path of the table, as Spark has it: files, folders.")
]
Checkpoint = Annotated[
    Path,
    Option(
        "--checkpoint", metavar="FOLDER",
        help="Keeps the progress and the order of rows; given again, it goes on.",
    ),
]  # fmt: skip
To = Annotated[
    str,
    Option(
        "--to", metavar="DEST", show_default=False, help="Where all rows go [the column queue]."
    ),
]
Body = Annotated[
    str,
    Option(
        "--body", metavar="COLUMN", show_default=False,
        help="Column of the body [body, or else the whole row as JSON].",
    ),
]  # fmt: skip
OrderBy = Annotated[
    str,
    Option(
        "--order-by", metavar="NAME,NAME...", show_default=False,
        help="Columns that give the order [else the files, and the rows in them].",
    ),
]  # fmt: skip
TimeColumn = Annotated[
    str,
    Option(
        "--time",
        metavar="COLUMN",
        show_default=False,
        help="Column of times: rows go as far apart as these.",
    ),
]
Speed = Annotated[
    float,
    Option("--speed", metavar="X", min=0.0, help="With --time: how many times as fast."),
]
Rate = Annotated[
    float, Option("--rate", metavar="N", min=0.0, help="Most rows a second; 0: no limit.")
]
ReplayFormat = Annotated[
    str, Option("--format", metavar="NAME", help="Of the table: parquet, csv, json, ...")
]
Options = Annotated[
    list[str] | None,
    Option(
        "--option", "-o", metavar="NAME=VALUE", show_default=False,
        help="For reading the table, such as header=true. May be repeated.",
    ),
]  # fmt: skip
Errors = Annotated[
    str,
    Option(
        "--error-queue",
        metavar="QUEUE",
        show_default=False,
        help="Where rows go that cannot be sent [such a row ends the replay].",
    ),
]
ReplayMaster = Annotated[
    str, Option("--master", metavar="URL", help="Spark master; it must see both folders.")
]


def replay(
    table: ReplayedTable,
    checkpoint: Checkpoint,
    to: To = "",
    body: Body = "",
    order_by: OrderBy = "",
    time: TimeColumn = "",
    speed: Speed = 1.0,
    rate: Rate = 0.0,
    format: ReplayFormat = "parquet",
    option: Options = None,
    error_queue: Errors = "",
    master: ReplayMaster = "local[*]",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Send the rows of a table to queues, each exactly once, in order, also through crashes.

    Columns that the Spark sink knows (label, correlationId, ...) become properties. With the same
    checkpoint it goes on where it was.
    """
    work = loaded("onceq.spark.land.replay")
    wish = work.ReplayPlan(
        path=table, format=format, options=_pairs(option or []), to=to, body=body,
        order=tuple(name.strip() for name in order_by.split(",") if name.strip()), time=time,
        errors=error_queue,
    )  # fmt: skip
    pace = work.ReplayPace(rate=rate, speed=speed if time else 0.0)

    def say(told: Any) -> None:
        late = f", {told.behind_s:.1f} s late" if told.behind_s >= 1 else ""
        out.note(f"{told.rows:,} of {told.of:,} rows sent{late}")

    try:
        done = work.run(
            master, where(qm), wish, checkpoint, pace=pace, say=say, tell=out.note,
            credentials=credential_files(),
        )  # fmt: skip
    except KeyboardInterrupt:
        raise interrupted() from None
    except Exception as error:
        raise unwrap_error(error) from error
    if not dumped({**done, "checkpoint": str(checkpoint)}, json):
        out.facts(
            (("sent now", done["sent"]), ("rows", done["rows"]), ("checkpoint", str(checkpoint)))
        )


def _pairs(options: list[str]) -> dict[str, str]:
    found = {}
    for text in options:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise UsageError(f"--option is NAME=VALUE, not {text!r}")
        found[name] = value
    return found
