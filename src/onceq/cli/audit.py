"""``onceq audit``: what histories prove. The work is in ``onceq.audit``.

``onceq spark audit`` asks and tells the same; there Spark does the work, in ``onceq.spark.audit``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

from onceq.cli import out
from onceq.cli.common import Argument, Exit, Json, Option, asking, dumped
from onceq.cli.spark_loading import INTERRUPTED, Missing, loaded, unwrap_error
from onceq.cli.terminal import Interruptible
from onceq.client.stopping import pause
from onceq.errors import UsageError
from onceq.hidden import show_hidden
from onceq.model.wording import plural

VIOLATED = 8
"""Exit code of an audit that has found an invariant violated."""
LINE_S = 5.0
"""Between two lines about one stage where stderr is no terminal."""


Folders = Annotated[
    list[str], Argument(
        metavar="FOLDER...", help="Data directories of queue managers with history = true, "
        "copies of their history folders, or a folder of several; also *."
    ),
]  # fmt: skip
Settled = Annotated[
    bool, Option(
        "--settled", help="Nothing was under way when the histories were taken: what is "
        "missing in them is lost."
    ),
]  # fmt: skip
Html = Annotated[
    str, Option("--html", metavar="FILE", show_default=False,
                      help="Write a report with plots, in one file.")
]  # fmt: skip
To = Annotated[
    str, Option("--out", metavar="FOLDER", show_default=False,
                      help="Write the tables as Parquet into a new folder.")
]  # fmt: skip
Stuck = Annotated[
    float, Option("--stuck", metavar="S", min=0.0,
                        help="Seconds without an acknowledgment after which a stream counts "
                        "as stuck.")
]  # fmt: skip


Proof = Annotated[
    str, Option("--proof", metavar="FOLDER", show_default=False,
                      help="Keep the proof in a folder, and go on from the one that is there; "
                      "histories may have lost what came before it.")
]  # fmt: skip


Tables = Annotated[
    list[str] | None, Option("--landed", metavar="TABLE", show_default=False,
                            help="Also prove a table that onceq spark land has written from their "
                            "queues; may be repeated.")
]  # fmt: skip


Ask = Annotated[
    list[str] | None, Option("--ask", metavar="QM", show_default=False,
                            help="Also ask this running queue manager how many messages wait in "
                            "its queues, and compare; may be repeated.")
]  # fmt: skip


def audit(
    folders: Folders, settled: Settled = False, html: Html = "", to: To = "",
    stuck: Stuck = 300.0, proof: Proof = "", landed: Tables = None, ask: Ask = None,
    json: Json = False,
) -> int:  # fmt: skip
    """Prove or refute from queue managers' own histories that each committed message met exactly
    one end, once and in order. Progress goes to stderr.

    Exit code 8: something contradicts that. Messages on their way are no violation, nor is what a
    history that was cut off cannot tell.
    """

    def work(say: Teller) -> dict[str, Any]:
        with Missing("onceq[audit]"):
            command = import_module("onceq.audit.command")
            import_module("onceq.audit.proof")
            if html:
                import_module("onceq.audit.report")
            tables = import_module("onceq.spark.land.reading") if landed else None
        asked = _asked(folders, ask or ())
        wish = command.Wish(
            settled=settled, html=html, to=to, stuck_s=stuck, proof=proof,
            landed=() if tables is None else tuple(map(tables.opened, landed or ())),
            asked=asked,
        )  # fmt: skip
        found: dict[str, Any] = command.run(folders, wish, say)
        return found

    return report_audit(work, json=json)


def _asked(folders: list[str], places: Sequence[str]) -> tuple[Any, ...]:
    """What living queue managers count, when their histories tell of it; raises
    UnsupportedOperation for an older one."""
    from onceq.client.plans import operate

    waiting, found = import_module("onceq.audit.measure"), {}
    for place in places:
        with asking(place) as qm:
            if qm.id not in found:  # it may be named twice, in two ways
                keeps = any(one.name == "history" and one.value for one in qm.admin.settings())
                counted = qm._run(operate.waiting(qm._state))
                found[qm.id] = waiting.Asked(place, counted, bool(keeps))
    asked = tuple(found.values())
    waiting.until_told(folders, asked, pause)
    return asked


def report_audit(work: Callable[[Teller], dict[str, Any]], *, json: bool) -> int:
    """Audit, report each stage meanwhile, print the findings; returns the exit code.

    Args:
        work: Also loads what it needs: that takes a second, in which it may be given up.
    """
    teller = Teller()
    try:
        with Interruptible():
            found = work(teller)
    except KeyboardInterrupt:
        teller.clear()
        out.note("interrupted: nothing is proven")
        raise Exit(INTERRUPTED) from None
    except Exception:
        teller.clear()
        raise
    teller.clear()
    if not dumped(found, json):
        _print(found)
    return VIOLATED if found["violations"] else 0


class Teller:
    """What an audit is doing, on stderr: a line for each stage, and how far that is.

    The latter is one line that changes on a terminal, and a line from time to time elsewhere.
    """

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._said_s = 0.0

    def __call__(self, told: Any) -> None:
        """Write how far the audit is."""
        far = f"{told.done:,} of {told.tasks:,} tasks" if told.tasks else "Spark plans it"
        what = told.stage if told.begins else f"  {far}"
        line = f"{told.seconds:6.1f} s  {show_hidden(what)}"
        if self._live:
            sys.stderr.write(f"\r\x1b[K{line}" + ("\n" if told.begins else ""))
        elif told.begins or told.seconds - self._said_s >= LINE_S:
            sys.stderr.write(f"{line}\n")
            self._said_s = told.seconds
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line that changes away."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _starts(manager: dict[str, Any]) -> str:
    """How many are told; there may be more where older files tell none."""
    return f"{len(manager['starts'])}{'+' if manager['files_without_starts'] else ''}"


def _print(found: dict[str, Any]) -> None:
    out.table(
        ("queue manager", "files", "starts", "rows from", "up to", "told"),
        [(m["manager"], m["files"], _starts(m), out.when(m["from_s"]),
          out.when(m["up_to_us"] // 1_000_000),
          "whole" if not m["limits"] else "; ".join(m["limits"])) for m in found["managers"]],
    )  # fmt: skip
    out.line("")
    out.table(
        ("what became of them", "messages"),
        [(name, count) for name, count in found["states"].items()],
    )
    if found["latencies"]:
        out.line("")
        out.table(
            ("route", "from", "to", "messages", "50 % s", "90 % s", "99 % s", "most s"),
            [(r["route"], r["from"], r["to"], r["messages"], r["p50_s"], r["p90_s"], r["p99_s"],
              r["max_s"]) for r in found["latencies"]],
        )  # fmt: skip
    if found["stuck"]:
        out.line("")
        out.table(
            ("stuck stream", "stream", "messages", "first number", "since", "waits s"),
            [(s["route"], s["stream"], s["messages"], s["first_number"], out.when(s["since_s"]),
              s["waits_s"]) for s in found["stuck"]],
        )  # fmt: skip
    if found["resends"]:
        out.line("")
        out.table(
            ("sent again on", "messages", "times", "came again"),
            [(r["route"], r["messages"], r["times"], r["came_again"]) for r in found["resends"]],
        )
    _print_acts(found["acts"])
    for table in found.get("landed", ()):
        out.line("")
        out.line(f"{table['table']}: {table['sentence']}")
        out.line(
            f"  {table['waiting']:,} written and still in their queues, "
            f"{table['received']:,} received by the landing, "
            f"{table['received_by_others']:,} among them by others"
        )
    for story in found["stories"]:
        out.line("")
        out.line(f"{story['title']}:")
        for fault in story["faults"]:
            out.line(f"  {fault['invariant']} {fault['fault']}: {fault['said']}")
        for row in story["rows"]:
            out.line(f"    {row}")
    out.line("")
    out.line(
        f"{len(found['checked'])} comparisons of {plural(found['events'], 'event')}: "
        + ", ".join(
            plural(found[f"{noun}s"], noun) for noun in ("message", "transaction", "stream")
        )
    )
    for note in found["notes"]:
        out.line(f"! {note}")
    for name in found["written"]:
        out.line(f"wrote {name}")
    out.line(found["verdict"])


def _print_acts(acts: dict[str, Any]) -> None:
    """Who did what, and which acts are missing."""
    if acts["by"]:
        out.line("")
        out.table(
            ("who", "did what", "at", "done", "refused"),
            [(one["actor"], one["action"], one["manager"], one["done"], one["refused"])
             for one in acts["by"]],
        )  # fmt: skip
    for word, fault in (
        ("missing", "not told, and were removed"),
        ("added", "told once too often"),
    ):
        for one in acts[word]:
            out.line(f"! acts {one['first']} to {one['last']} of {one['manager']} are {fault}")


HiddenProof = Annotated[str, Option("--proof", metavar="FOLDER", hidden=True)]


def audit_on_spark(
    folders: Folders, settled: Settled = False, html: Html = "", to: To = "",
    stuck: Stuck = 300.0,
    master: Annotated[
        str, Option("--master", metavar="URL", help="Spark to use.")
    ] = "local[*]",
    proof: HiddenProof = "", landed: Tables = None, json: Json = False,
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
            raise unwrap_error(error) from error
        return found

    return report_audit(work, json=json)
