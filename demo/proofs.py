"""What Spark's operator and the managers' own histories say in the end."""

from __future__ import annotations

import json
import time
from pathlib import Path

from demo.managers import Network
from demo.report import Findings
from demo.watch import Watch

AUDIT_PAGE = "audit.html"


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
        ["-m", "onceq.cli.main", "spark", "audit", *folders, "--html", str(page), "--json", *more],
        "history",
        pipe=True,
    )
    begun = time.monotonic()
    said = child.output.read()
    child.process.wait()
    try:
        result = json.loads(said)
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
