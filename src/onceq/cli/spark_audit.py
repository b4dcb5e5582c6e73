"""``onceq spark audit``: what histories prove that are too large for one machine."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

from onceq.cli.audit import Folders, Html, Settled, Stuck, Tables, Teller, To, told
from onceq.cli.common import Json, Option
from onceq.cli.spark_loading import loaded, said
from onceq.errors import UsageError

Proof = Annotated[str, Option("--proof", metavar="FOLDER", hidden=True)]


def audit(
    folders: Folders, settled: Settled = False, html: Html = "", to: To = "",
    stuck: Stuck = 300.0,
    master: Annotated[
        str, Option("--master", metavar="URL", help="Spark to use.")
    ] = "local[*]",
    proof: Proof = "", landed: Tables = None, json: Json = False,
) -> int:  # fmt: skip
    """Do what onceq audit does on Spark, for histories that are too large for one machine.

    It keeps no proof (--proof). Exit code 8: something contradicts the promises.
    """
    if proof:
        raise UsageError("onceq spark audit keeps no proof: take onceq audit --proof")

    def work(say: Teller) -> dict[str, Any]:
        command = loaded("onceq.spark.audit", "audit,spark,java")
        wish = loaded("onceq.audit.command", "audit,spark,java").Wish
        tables = import_module("onceq.spark.land.reading") if landed else None
        try:
            found: dict[str, Any] = command.run(
                folders, wish(
                    settled=settled, html=html, to=to, stuck_s=stuck,
                    landed=() if tables is None else tuple(map(tables.opened, landed or ())),
                ), say, master=master,
            )  # fmt: skip
        except Exception as error:
            raise said(error) from error
        return found

    return told(work, json=json)
