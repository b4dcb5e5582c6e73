"""``onceq spark drain``: messages of queues into files. The work is in ``onceq.spark.drain``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from onceq.cli import out
from onceq.cli.common import Json, Where, dumped, where
from onceq.cli.spark_loading import INTERRUPTED, loaded, said

BATCH_MESSAGES_MAX = 2_000_000
"""One transaction removes no more."""
Queues = Annotated[
    list[str], typer.Argument(metavar="QUEUE", help="Queues, journals, dead-letter queues.")
]
Folder = Annotated[
    Path,
    typer.Option("--to", metavar="FOLDER", help="Where Parquet files go. Given again, it goes on."),
]
Columns = Annotated[
    str,
    typer.Option(
        "--columns", metavar="NAME,NAME...", show_default=False,
        help="Columns of the Spark source to keep [all].",
    ),
]  # fmt: skip
ByDate = Annotated[bool, typer.Option("--by-date", help="A folder for each day (UTC) of arrival.")]
BatchMessages = Annotated[
    int,
    typer.Option(
        "--batch", metavar="N", min=1, max=BATCH_MESSAGES_MAX,
        help="Most messages of one batch, which is at least one file.",
    ),
]  # fmt: skip
BatchBytes = Annotated[
    int,
    typer.Option(
        "--batch-bytes", metavar="N", min=0, help="Most bytes of one batch; 0: no limit."
    ),
]  # fmt: skip
Keep = Annotated[bool, typer.Option("--keep", help="Leave the messages in the queue.")]
Follow = Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")]
IgnoreLoss = Annotated[
    bool, typer.Option("--ignore-loss", help="Go on where messages are missing.")
]  # fmt: skip
Master = Annotated[
    str,
    typer.Option(
        "--master", metavar="URL", help="Spark master; its executors must see the folder."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("drain")(drain)


def drain(
    queues: Queues,
    to: Folder,
    columns: Columns = "",
    by_date: ByDate = False,
    batch: BatchMessages = 100_000,
    batch_bytes: BatchBytes = 0,
    keep: Keep = False,
    follow: Follow = False,
    ignore_loss: IgnoreLoss = False,
    master: Master = "local[*]",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Move messages of queues into Parquet files, each exactly once, also through crashes.

    What has arrived by now is drained, and removed as soon as it is durable in files. Interrupted
    or killed, it goes on where it was when it is given the same folder again.
    """
    work = loaded("onceq.spark.drain")
    plan = work.Plan(
        manager=where(qm), queues=",".join(queues), to=to,
        columns=tuple(name.strip() for name in columns.split(",") if name.strip()),
        batch_messages=batch, batch_bytes=batch_bytes, by_date=by_date, keep=keep, follow=follow,
        ignore_loss=ignore_loss,
    )  # fmt: skip

    def say(step: Any) -> None:
        mib = step.bytes / (1 << 20)
        sys.stderr.write(f"batch {step.batch}: {step.messages:,} messages, {mib:,.1f} MiB\n")
        sys.stderr.flush()

    try:
        done = work.run(master, plan, say)
    except Exception as error:
        raise said(error) from error
    if not dumped({**done, "to": str(to)}, json):
        _tell(done, to)
    if done["stopped"] and not follow:
        raise typer.Exit(INTERRUPTED)


def _tell(done: dict[str, Any], to: Path) -> None:
    end = "stopped; --to the same folder goes on" if done["stopped"] else "all that was there"
    out.facts(
        (
            ("messages", done["messages"]), ("files", done["files"]),
            ("MiB", done["bytes"] / (1 << 20)), ("in the folder", done["total"]),
            ("folder", str(to)), ("end", end),
        )
    )  # fmt: skip
