"""``onceq spark audit``: what histories prove that are too large for one process."""

from __future__ import annotations

from typing import Annotated, Any

from onceq.cli.audit import Folders, Html, Settled, Stuck, Teller, To, told
from onceq.cli.common import Json, Option
from onceq.cli.spark_loading import loaded, said
from onceq.errors import UsageError

Proof = Annotated[str, Option("--proof", metavar="FOLDER", hidden=True)]
Tables = Annotated[list[str] | None, Option("--landed", metavar="TABLE", hidden=True)]
ELSEWHERE = {
    "--proof": "onceq spark audit keeps no proof: take onceq audit --proof. Where there are more "
    "events than it takes at once, give it the oldest files of each manager first, in a folder of "
    "their own, and then the next ones with the same --proof",
    "--landed": "onceq spark audit judges no landed table: take onceq audit --landed, of the "
    "managers whose queues the table is of; and onceq spark audit without it for all managers",
}
"""Options of ``onceq audit`` that the other one does not have, and what to do instead."""


def audit(
    folders: Folders, settled: Settled = False, html: Html = "", to: To = "",
    stuck: Stuck = 300.0,
    master: Annotated[
        str, Option("--master", metavar="URL", help="Spark to use.")
    ] = "local[*]",
    proof: Proof = "", landed: Tables = None, json: Json = False,
) -> int:  # fmt: skip
    """The same as onceq audit, done by Spark: for histories that do not fit into memory.

    It keeps no proof (--proof) and judges no landed table (--landed). Ends with 0 if nothing
    contradicts the promises, and with 8 if anything does.
    """
    for name, given in (("--proof", proof), ("--landed", landed)):
        if given:
            raise UsageError(ELSEWHERE[name])

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
