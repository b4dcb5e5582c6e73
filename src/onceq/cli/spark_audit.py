"""``onceq spark audit``: what histories prove that are too large for one process."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onceq.cli.audit import Folders, Html, Settled, Stuck, Teller, To, told
from onceq.cli.common import Json
from onceq.cli.spark_loading import loaded, said


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(audit)


def audit(
    folders: Folders, settled: Settled = False, html: Html = "", to: To = "",
    stuck: Stuck = 300.0,
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="Spark to use.")
    ] = "local[*]",
    json: Json = False,
) -> int:  # fmt: skip
    """The same as onceq audit, done by Spark: for histories that do not fit into memory.

    Ends with 0 if nothing contradicts the promises, and with 8 if anything does.
    """

    def work(say: Teller) -> dict[str, Any]:
        command = loaded("onceq.spark.audit.command", "audit,spark,java")
        wish = loaded("onceq.audit.command", "audit,spark,java").Wish(
            settled=settled, html=html, to=to, stuck_s=stuck
        )
        try:
            found: dict[str, Any] = command.run(folders, wish, say, master=master)
        except Exception as error:
            raise said(error) from error
        return found

    return told(work, json=json)
