"""``onceq spark land``: messages of queues into a table. ``onceq.spark.land`` does it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from onceq.cli import out
from onceq.cli.common import Argument, Exit, Json, Option, Where, dumped, where
from onceq.cli.spark_loading import INTERRUPTED, credential_files, interrupted, loaded, said
from onceq.errors import ConfigurationError
from onceq.model.wording import plural

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
        help="Do not read the table back at the end; a new table then has no columns beside those "
        "of --columns.",
    ),
]  # fmt: skip
Columns = Annotated[
    str,
    Option(
        "--columns", metavar="NAME,NAME...", show_default=False,
        help="Columns of the Spark source to keep beside those that identify a message [the usual "
        "ones; with --schema only arrivedTime].",
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

    With a schema bodies become columns, and what does not fit goes with the reason into the error
    table, FOLDER_errors. Ctrl-C ends it between two batches; the same command goes on. At the end
    the table is read back and counted; the exit code is 8 if it does not have each message once.
    """
    table, folder = to
    work = loaded("onceq.spark.land.run")
    plan = loaded("onceq.spark.land.plan").Plan(
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
        raise said(error) from error


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
