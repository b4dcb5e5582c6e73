"""The verdicts: which rules are broken, by which messages, and what was compared.

``violation`` is the table of what is wrong: the number of the rule, the copy where the ledger has
it, what names the message, and the numbers that are said of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from onceq.audit.engine import Engine, one_row, union
from onceq.audit.rules import RULES, Rule

KEY: Final = "source, stream, number"
"""What names the message of a violation, beside its identifier."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule has found.

    Attributes:
        looked_at: How many rows it has compared.
        violations: How many of these are wrong.
    """

    rule: Rule
    looked_at: int
    violations: int

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "invariant": self.rule.invariant, "fault": self.rule.fault,
            "looks_at": self.rule.looks_at, "looked_at": self.looked_at,
            "violations": self.violations,
        }  # fmt: skip


def judge(engine: Engine, rules: Sequence[Rule] = RULES) -> list[Verdict]:
    """Judge by each rule, and make ``violation``."""
    looked, some = _count(engine, rules)
    _make_violations(engine, [(at, rule) for at, rule in enumerate(rules) if at in some])
    wrong = {
        row["rule"]: row["wrong"]
        for row in engine.rows("SELECT rule, count(*) AS wrong FROM violation GROUP BY rule")
    }
    return [Verdict(rule, looked[at], wrong.get(at, 0)) for at, rule in enumerate(rules)]


def _count(engine: Engine, rules: Sequence[Rule]) -> tuple[dict[int, int], set[int]]:
    """How many rows each rule looks at, and which rules may have found something: one look at each
    table answers both for all rules without windows."""
    looked, some = dict[int, int](), set[int]()
    for table in dict.fromkeys(rule.table for rule in rules):
        here = [(at, rule) for at, rule in enumerate(rules) if rule.table == table]
        counts = [f"count(*) FILTER (WHERE {rule.of}) AS of{at}" for at, rule in here]
        counts += [
            f"count(*) FILTER (WHERE ({rule.of}) AND ({rule.wrong})) AS wrong{at}"
            for at, rule in here if not rule.steps
        ]  # fmt: skip
        row = one_row(engine, f"SELECT {', '.join(counts)} FROM {table}")
        looked |= {at: row[f"of{at}"] for at, _ in here}
        some |= {at for at, _ in here if row.get(f"wrong{at}", 1)}
    return looked, some


def _make_violations(engine: Engine, rules: Sequence[tuple[int, Rule]]) -> None:
    """Make ``violation``, of events as well: with the copies that those belong to."""
    nothing = {
        "copy": "SELECT copy, source, stream, number, message, home, CAST(NULL AS BIGINT) AS one, "
        "CAST(NULL AS BIGINT) AS two FROM copy WHERE false",
        "about_row": "SELECT about_row, source, message, CAST(NULL AS BIGINT) AS one, "
        "CAST(NULL AS BIGINT) AS two FROM word WHERE false",
    }
    for name, key in (("wrong_copy", "copy"), ("wrong_event", "about_row")):
        queries = [
            f"SELECT {at} AS rule, * FROM ({rule.query()})" for at, rule in rules
            if (rule.table == "copy") == (key == "copy")
        ]  # fmt: skip
        engine.make(name, union([f"SELECT 0 AS rule, * FROM ({nothing[key]})", *queries]))
    # An acknowledgment names a message, and not its place in a stream: it is about the copy in a
    # queue of its own manager, or the only copy.
    engine.make(
        "wrong_message",
        "SELECT w.rule, w.about_row, w.one, w.two, coalesce(e.source, w.source) AS source, "
        "e.stream, coalesce(e.message, w.message) AS message, "
        "CASE WHEN e.stream IS NULL THEN coalesce(e.message, w.message) ELSE e.number END "
        "AS number "
        "FROM wrong_event w LEFT JOIN event e ON e.event_row = w.about_row",
    )
    engine.make(
        "wrong_candidate",
        "SELECT w.rule, w.about_row, max(c.copy) AS copy FROM wrong_message w JOIN copy c "
        "ON c.source = w.source AND c.stream = w.stream AND c.number = w.number "
        "GROUP BY w.rule, w.about_row UNION ALL "
        "SELECT w.rule, w.about_row, coalesce(max(c.copy) FILTER (WHERE c.stream IS NULL), "
        "CASE WHEN count(*) = 1 THEN max(c.copy) END) AS copy FROM wrong_message w JOIN copy c "
        "ON c.source = w.source AND c.message = w.message "
        "WHERE w.stream IS NULL AND w.about_row IS NOT NULL "
        "GROUP BY w.rule, w.about_row",
    )
    engine.make(
        "violation",
        "SELECT rule, copy, source, stream, number, message, home, one, two, copy AS place "
        "FROM wrong_copy UNION ALL "
        "SELECT w.rule, c.copy, w.source, "
        "CASE WHEN c.copy IS NULL THEN w.stream ELSE c.stream END AS stream, "
        "CASE WHEN c.copy IS NULL THEN w.number ELSE c.number END AS number, "
        "w.message, c.home, w.one, w.two, w.about_row AS place "
        "FROM wrong_message w "
        "LEFT JOIN wrong_candidate n ON n.rule = w.rule AND n.about_row = w.about_row "
        "LEFT JOIN copy c ON c.copy = n.copy",
    )


def count_messages(engine: Engine) -> int:
    """How many messages the violations are about; one may contradict several rules."""
    query = f"SELECT count(*) AS found FROM (SELECT DISTINCT {KEY} FROM violation)"
    return int(one_row(engine, query)["found"])
