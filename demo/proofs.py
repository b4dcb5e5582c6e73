"""What Spark's operator and the managers' own histories say in the end."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import IO

from rich.markup import escape

from demo.managers import Network
from demo.report import Findings
from demo.watch import Watch

AUDIT_PAGE = "audit.html"
LOOK_S = 0.2
"""Between two looks at what the audit tells of itself."""


class Off(Exception):
    """The demo cannot go on."""


def check_filter(found: Findings, verdicts: dict[str, int]) -> None:
    """A feed that repeats and knows no order gives every message once."""
    repeated = verdicts.pop("repeated rows")
    found.filtered, found.turned_away = verdicts.get("accept", 0), verdicts.get("duplicate", 0)
    wanted = {"accept": found.flights, "duplicate": repeated}
    if {name: count for name, count in verdicts.items() if count} != {
        name: count for name, count in wanted.items() if count
    }:
        found.troubles.append(f"the filter over the repeated feed said {verdicts}")


def pass_on(log: IO[str], watch: Watch) -> None:
    """Say what an audit has told of its stages since the last time; the time is ours."""
    while line := log.readline():
        _, stage, text = line.rstrip().partition(" s  ")
        if stage:
            watch.say(escape(f"audit: {text}"))


def prove(network: Network, found: Findings, watch: Watch, place: Path, *, keep: bool) -> None:
    """The managers' histories prove it once more, message by message.

    Args:
        place: Directory of the report.
        keep: The managers go on, so their histories may end in the middle.

    Raises:
        Off: There is no answer.
    """
    if not keep:
        watch.say("all queue managers stop in order")
        network.rest()
    watch.say("the audit reads the histories of all five")
    place.mkdir(parents=True, exist_ok=True)
    page = place / AUDIT_PAGE
    folders = [str(daemon.directory) for daemon in network.daemons]
    more = [] if keep else ["--settled"]
    child = network.spawn(
        ["-m", "onceq.cli.main", "audit", *folders, "--html", str(page), "--json", *more],
        "history",
        pipe=True,
    )
    begun = time.monotonic()
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(child.output.read()), daemon=True)
    reader.start()
    with child.log.open() as log:
        while reader.is_alive():
            reader.join(LOOK_S)
            pass_on(log, watch)
    child.process.wait()
    try:
        result = json.loads("".join(said))
    except ValueError:
        raise Off(f"the audit has failed: {child.complain()}") from None
    found.audit_s = time.monotonic() - begun
    found.audited, found.verdict = result["messages"], result["verdict"]
    found.page = str(page)
    wanted = 2 * found.flights + found.late
    if found.audited != wanted and not keep:
        found.troubles.append(f"the audit knows {found.audited:,} messages of {wanted:,}")
    if result["violations"]:
        found.troubles.append(f"the audit: {found.verdict}; see {page}")
