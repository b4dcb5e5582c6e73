"""``onceq spark replay``: rows of a table into queues; ``onceq.spark.land.replay`` does it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from onceq.cli import out
from onceq.cli.common import Argument, Json, Option, Where, dumped, where
from onceq.cli.spark_loading import credential_files, interrupted, loaded, said
from onceq.errors import UsageError

Table = Annotated[
    str, Argument(metavar="TABLE", help="Path of the table, as Spark has it: files, folders.")
]
Checkpoint = Annotated[
    Path,
    Option(
        "--checkpoint", metavar="FOLDER",
        help="Where it is kept how far it is, and the rows in their order. Given again, it goes "
        "on.",
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
        help="Column of the time of each row: rows go as far apart as these are.",
    ),
]
Speed = Annotated[
    float,
    Option("--speed", metavar="X", min=0.0, help="With --time: how many times as fast."),
]
Rate = Annotated[
    float, Option("--rate", metavar="N", min=0.0, help="Most rows a second; 0: no limit.")
]
Format = Annotated[
    str, Option("--format", metavar="NAME", help="Of the table: parquet, csv, json, ...")
]
Options = Annotated[
    list[str] | None,
    Option(
        "--option", "-o", metavar="NAME=VALUE", show_default=False,
        help="For reading the table, such as header=true. May be given several times.",
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
Master = Annotated[
    str, Option("--master", metavar="URL", help="Spark master; it must see both folders.")
]


def replay(
    table: Table,
    checkpoint: Checkpoint,
    to: To = "",
    body: Body = "",
    order_by: OrderBy = "",
    time: TimeColumn = "",
    speed: Speed = 1.0,
    rate: Rate = 0.0,
    format: Format = "parquet",
    option: Options = None,
    error_queue: Errors = "",
    master: Master = "local[*]",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Send the rows of a table to queues, each exactly once, in order, also through crashes.

    Columns that the Spark sink knows (label, correlationId, ...) become properties of the
    messages. Interrupted or killed, it goes on where it was when it is given the same checkpoint.
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
        raise said(error) from error
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
