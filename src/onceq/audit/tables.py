"""What an audit has found as Parquet tables: of copies, violations and traffic."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from onceq.audit.engine import Engine
from onceq.audit.measure import TRAFFIC
from onceq.audit.rules import Rule

COUNTS: Final = {
    "committed": "committed", "accepted": "accepted", "refused": "refused",
    "acknowledged": "acknowledged", "received": "received", "expired": "expired",
    "rejected": "rejected", "purged": "purged", "deleted": "deleted", "queueEnds": "queue_ends",
    "notDelivered": "not_delivered", "inDoubt": "in_doubt", "removed": "removed",
    "givenUp": "given_up", "confirmed": "confirmed", "notReceived": "not_received",
    "transmitted": "transmitted", "repeated": "repeated",
}  # fmt: skip
"""Columns of ``messages`` that count events, and what they are called in ``copy``."""
MESSAGES: Final = {
    "source": "string", "stream": "bigint", "number": "bigint", "message": "bigint",
    "sender": "string", "destination": "string", "commitTime": "timestamp",
    "transaction": "bigint", "receiver": "string", "queue": "string", "acceptTime": "timestamp",
    "receiveTime": "timestamp", **dict.fromkeys(COUNTS, "bigint"), "state": "string",
    "route": "string",
}  # fmt: skip
"""Columns of ``messages``, and their SQL types."""
VIOLATIONS: Final = {
    "invariant": "string", "fault": "string", "source": "string", "stream": "bigint",
    "number": "bigint", "message": "bigint", "route": "string", "said": "string",
}  # fmt: skip
"""Columns of ``violations``, and their SQL types; the numbers and ``source`` join it with
``messages``."""
_FIRST, _SECOND = "\x01", "\x02"
"""Where the numbers of a violation stand in the text of its rule."""


def messages() -> str:
    """The ledger: one row for each copy, with its state and the counts behind it."""
    counts = ", ".join(f"c.{own} AS {name}" for name, own in COUNTS.items())
    return f"""
        SELECT
          i.id AS source, c.stream, c.number, c.message, coalesce(s.name, s.id) AS sender,
          d.name AS destination, c.put_time AS commitTime, c.put_transaction AS transaction,
          coalesce(r.name, r.id) AS receiver, q.name AS queue, c.taken_time AS acceptTime,
          c.got_time AS receiveTime, {counts}, f.state, f.route
        FROM copy c
        JOIN fate f ON f.copy = c.copy
        JOIN party i ON i.party = c.source
        LEFT JOIN party s ON s.party = c.put_manager
        LEFT JOIN party r ON r.party = c.taken_manager
        LEFT JOIN queue_name d ON d.queue = c.put_queue
        LEFT JOIN queue_name q ON q.queue = c.taken_queue
    """


def violations(engine: Engine, rules: Sequence[Rule]) -> str:
    """What is wrong, one row each."""
    engine.give("rule", pa.Table.from_pylist(
        [
            {"rule": at, "invariant": rule.invariant, "fault": rule.fault,
             "said": rule.text(_FIRST, _SECOND)}
            for at, rule in enumerate(rules)
        ],
        pa.schema([("rule", pa.int32()), ("invariant", pa.string()), ("fault", pa.string()),
                   ("said", pa.string())]),
    ))  # fmt: skip
    return """
        SELECT
          r.invariant, r.fault, i.id AS source, v.stream, v.number, v.message, f.route,
          replace(
            replace(r.said, chr(1), coalesce(CAST(v.one AS STRING), '')),
            chr(2), coalesce(CAST(v.two AS STRING), '')
          ) AS said
        FROM violation v
        JOIN rule r ON r.rule = v.rule
        JOIN party i ON i.party = v.source
        LEFT JOIN fate f ON f.copy = v.copy
    """


def write(
    engine: Engine, folder: str, rules: Sequence[Rule], traffic: Sequence[dict[str, Any]]
) -> None:
    """All tables into a new folder, or none."""
    engine.give("traffic", pa.Table.from_pylist(list(traffic), pa.schema([
        (name, pa.string() if kind == "string" else pa.int64()) for name, kind in TRAFFIC.items()
    ])))  # fmt: skip
    try:
        for name, query, columns in (
            ("messages", messages(), MESSAGES),
            ("violations", violations(engine, rules), VIOLATIONS),
            ("traffic", f"SELECT {', '.join(TRAFFIC)} FROM traffic", TRAFFIC),
        ):
            engine.write(query, os.path.join(folder, name), columns)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
