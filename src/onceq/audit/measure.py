"""What an audit reports beside its verdicts: ends, latencies, repetitions and traffic.

It also writes them as Parquet tables, and compares how many messages wait in a queue with what the
history says. A living queue manager is asked before its history is read: it answers with counts,
and with the place of its log at which they are true (``core/management/work_views.py``). The
history is counted up to that place; a difference is a message that came or went without a record.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from onceq.audit import files
from onceq.audit.engine import OWN_GRAVES_FROM, SqlEngine, literal, one_row, union
from onceq.audit.files import Coverage
from onceq.audit.rules import Rule
from onceq.errors import ConfigurationError
from onceq.model.limits import AUDIT_ASK_WAIT_S
from onceq.model.views.queues import WaitingView
from onceq.model.wording import plural

# ---- measure -------------------------------------------------------------------------------------


ROUTES_MAX: Final = 50
"""Routes in one table; those with most messages."""
PIECES_MAX: Final = 128
"""Pieces of time in a picture of traffic, at most; there are more than half of them."""
SECOND_US: Final = 1_000_000
NAMES: Final = {
    "received": "received by an application",
    "waiting": "waiting in its queue",
    "in flight": "on its way",
    "rejected": "refused by its reader",
    "expired": "expired in its queue",
    "purged": "purged from its queue by an operator",
    "queue deleted": "deleted with its queue",
    "refused": "refused by the receiver, told to the sender",
    "not delivered": "not delivered, told to the sender",
    "not received": "arrived, not received, told to the sender",
    "removed": "purged at the sender by an operator",
    "in doubt": "in doubt",
    "untold": "arrived; what came then is in a part of the history that is missing",
    "unverified": "acknowledged by a manager whose history is missing or too short",
    "unknown": "its beginning is not in these histories",
}
"""Every state of a copy, in the order of tables, and how it is called there."""
_WAYS: Final = {
    "committed": ("put_time", "committed"),
    "accepted": ("taken_time", "accepted"),
    "received": ("got_time", "received"),
    "transmitted again": ("sent_time", "greatest(transmitted - 1, 0)"),
    "came again": ("came_time", "repeated"),
}
"""What is counted by time: when, and how often. What happened to a message more than once counts at
the time of the first or the last."""
_PARTS: Final = (
    ("commit", "acceptance", "put_time", "taken_time"),
    ("acceptance", "reception", "coalesce(taken_time, put_time)", "got_time"),
)
"""Parts of the way whose latencies are told."""


def as_of_us(histories: Sequence[Coverage]) -> int:
    """The latest time that any history tells of."""
    return max(one.up_to_us for one in histories)


def late_us(histories: Sequence[Coverage], after_s: float) -> int:
    """What was committed up to that time waits too long for its acknowledgment.

    Args:
        after_s: Seconds up to the latest time that any history tells of: a manager that waits tells
            nothing.
    """
    return math.floor(as_of_us(histories) - after_s * SECOND_US)


def measured(engine: SqlEngine, histories: Sequence[Coverage], *, stuck_s: float) -> dict[str, Any]:
    """Return the findings about all copies, for JSON."""
    counts = {
        row["state"]: row["found"]
        for row in engine.rows("SELECT state, count(*) AS found FROM fate GROUP BY state")
    }
    size = one_row(engine, """
        SELECT
          count(DISTINCT CASE WHEN stream IS NOT NULL THEN concat(source, ' ', stream) END)
            AS streams,
          count(DISTINCT CASE WHEN put_transaction IS NOT NULL
            THEN concat(source, ' ', put_transaction) END) AS transactions
        FROM (SELECT DISTINCT source, stream, put_transaction FROM copy)
    """)  # fmt: skip
    as_of, late = as_of_us(histories), late_us(histories, stuck_s)
    # Streams with messages that have waited long for an order acknowledgment.
    stuck = engine.rows(f"""
        SELECT
          f.route, c.stream, count(*) AS messages, min(c.number) AS first_number,
          min(c.put_time) AS since
        FROM copy c JOIN fate f ON f.copy = c.copy
        WHERE f.state = 'in flight' AND c.stream IS NOT NULL AND c.put_time <= {late}
        GROUP BY f.route, c.stream ORDER BY since, stream, route
    """)
    return {
        "messages": sum(counts.values()),
        "states": {words: counts[name] for name, words in NAMES.items() if name in counts},
        "latencies": _latencies(engine),
        # Routes on which anything was transmitted more than once, as far as that was observed.
        "resends": engine.rows("""
            SELECT
              f.route, count(*) AS messages,
              CAST(sum(greatest(c.transmitted - 1, 0)) AS BIGINT) AS times,
              CAST(sum(c.repeated) AS BIGINT) AS came_again
            FROM copy c JOIN fate f ON f.copy = c.copy
            WHERE c.transmitted > 1 OR c.repeated > 0
            GROUP BY f.route ORDER BY times DESC, route
        """),
        "stuck": [
            {
                "route": row["route"],
                "stream": row["stream"],
                "messages": row["messages"],
                "first_number": row["first_number"],
                "since_s": row["since"] // SECOND_US,
                "waits_s": (as_of - row["since"]) / SECOND_US,
            }
            for row in stuck
        ],
        "notes": _notes(engine, histories, counts.get("in doubt", 0)),
        **size,
    }


def _latencies(engine: SqlEngine) -> list[dict[str, Any]]:
    """Percentiles in seconds, by route; those with most messages of each part of the way."""
    made = []
    for begin, end, first, last in _PARTS:
        percentiles = ", ".join(
            f"percentile_disc({share}) WITHIN GROUP (ORDER BY took) AS {name}"
            for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        )
        rows = engine.rows(f"""
            SELECT route, count(*) AS messages, {percentiles}, max(took) AS longest
            FROM (
              SELECT f.route, {last} - {first} AS took FROM copy c JOIN fate f ON f.copy = c.copy
            )
            WHERE took IS NOT NULL GROUP BY route ORDER BY messages DESC, route LIMIT {ROUTES_MAX}
        """)
        made += [
            {"route": row["route"], "from": begin, "to": end, "messages": row["messages"],
             **{f"{name}_s": round(row[own] / SECOND_US, 3) for name, own in
                (("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("max", "longest"))}}
            for row in rows
        ]  # fmt: skip
    return made


def _notes(engine: SqlEngine, histories: Sequence[Coverage], doubts: int) -> list[str]:
    """What could not be known, and why."""
    untold = engine.rows(
        "SELECT p.id FROM (SELECT DISTINCT source FROM copy) c JOIN party p ON p.party = c.source "
        "WHERE NOT p.told ORDER BY p.id"
    )
    blind = engine.rows(
        "SELECT DISTINCT q.name FROM copy c JOIN fate f ON f.copy = c.copy "
        "JOIN queue_name q ON q.queue = c.put_queue "
        "WHERE f.state = 'unverified' AND NOT f.receiver_told ORDER BY q.name"
    )
    notes = [f"{one.manager}: {limit}" for one in histories for limit in one.limits()]
    notes += [f"there is no history of the sender {row['id']}" for row in untold]
    notes += [f"there is no history of the receiver of {row['name']}" for row in blind]
    if doubts:
        notes.append(f"{doubts:,} message(s) in doubt: nobody knows whether they arrived")
    return notes


# ---- traffic -------------------------------------------------------------------------------------


def traffic(engine: SqlEngine) -> list[dict[str, Any]]:
    """Messages by time: ``route``, ``event``, ``second`` (where a piece of time begins) and
    ``messages``. Pieces are powers of two that begin at their multiples."""
    ways = union(
        f"SELECT f.route, '{what}' AS event, {when} / {SECOND_US}.0 AS second, {often} AS messages "
        f"FROM copy c JOIN fate f ON f.copy = c.copy WHERE {when} IS NOT NULL AND {often} > 0"
        for what, (when, often) in _WAYS.items()
    )
    ways = f"SELECT route, event, CAST(floor(second) AS BIGINT) AS second, messages FROM ({ways})"
    ends = one_row(engine, f"SELECT min(second) AS first, max(second) AS last FROM ({ways})")
    if ends["first"] is None:
        return []
    step = step_of(ends["first"], ends["last"])
    return engine.rows(f"""
        SELECT
          route, event, second - second % {step} AS second,
          CAST(sum(messages) AS BIGINT) AS messages
        FROM ({ways}) GROUP BY route, event, second - second % {step}
        ORDER BY route, event, second
    """)


def step_of(first: int, last: int) -> int:
    """Seconds of one piece of time between these seconds."""
    step = 1
    while last // step - first // step >= PIECES_MAX:
        step *= 2
    return step


TRAFFIC: Final[Mapping[str, str]] = {
    "route": "string", "event": "string", "second": "bigint", "messages": "bigint",
}  # fmt: skip
"""Columns of what ``traffic`` tells, and their SQL types."""


# ---- tables --------------------------------------------------------------------------------------
#
# What an audit has found as Parquet tables: of copies, violations and traffic.


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
"""They mark the places of a violation's numbers in the text of its rule."""


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


def violations(engine: SqlEngine, rules: Sequence[Rule]) -> str:
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
    engine: SqlEngine, folder: str, rules: Sequence[Rule], traffic: Sequence[dict[str, Any]]
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


# ---- waiting -------------------------------------------------------------------------------------
#
# Only transactional messages are compared: of others a history does not tell each arrival. A
# history whose beginning is cut off proves one half: what came since and has not gone is there.


DIFFERS: Final = "I1", "waiting-differs"
_COMES: Final = ("committed", "accepted", "moved")
_GOES: Final = (
    "acknowledged", "released", "confirmed", "not-received", "not-delivered", "in-doubt",
    "received", "expired", "rejected", "purged", "deleted", "lost",
)  # fmt: skip
_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Asked:
    """What a living queue manager has counted.

    Attributes:
        name: How it was called when it was asked.
        pages: In the order of the numbers of queues, each at a place of the log of its own.
        keeps: Whether it keeps a history now; one that does not goes on writing none.
    """

    name: str
    pages: Sequence[WaitingView]
    keeps: bool = True

    @property
    def manager(self) -> str:
        """Its GUID."""
        return self.pages[0].manager

    @property
    def position(self) -> int:
        """The last place at which something was counted."""
        return max(page.position for page in self.pages)


@dataclass(frozen=True, slots=True)
class Counted:
    """What was found about those that were asked.

    Attributes:
        looked_at: Queues that were compared.
        differ: Each queue with both numbers, as JSON has it.
        notes: What could not be compared, and why.
    """

    looked_at: int
    differ: list[dict[str, Any]]
    notes: list[str]


def until_told(
    folders: Sequence[str], asked: Sequence[Asked], pause: Callable[[float], object]
) -> None:
    """Wait, for AUDIT_ASK_WAIT_S at most, until histories in folders tell of what was counted.

    Raises:
        ConfigurationError: They are not there, and it is no first file that is still to come; or
            somebody was asked whose history is neither there nor to come.
    """
    silent = [one for one in asked if not one.keeps]
    if silent:
        there = [folder for folder in folders if not files.is_to_come([folder])]
        known = {history.id for history in files.find(there)} if there else set()
        for one in silent:
            if one.manager not in known:
                raise ConfigurationError(
                    f"--ask {one.name}: that queue manager, {one.manager}, keeps no history "
                    "(history = true in [settings] of its onceq.toml), and none of these is of it"
                )
    keeps = [one for one in asked if one.keeps]
    for _ in range(int(AUDIT_ASK_WAIT_S / _PAUSE_S) if keeps else 0):
        if not files.is_to_come(folders) and tell_enough(files.find(folders), keeps):
            return
        pause(_PAUSE_S)


def tell_enough(histories: Sequence[files.Coverage], asked: Sequence[Asked]) -> bool:
    """Whether they tell of what was counted; raises ConfigurationError where one is not there."""
    ends = {history.id: history.end for history in histories}
    for one in asked:
        if one.manager not in ends:
            raise ConfigurationError(
                f"--ask {one.name}: none of these histories is of that queue manager, {one.manager}"
            )
    return all(ends[one.manager] >= one.position for one in asked)


def compared(
    engine: SqlEngine, histories: Sequence[files.Coverage], asked: Sequence[Asked]
) -> Counted:
    """Compare what managers have counted with their histories."""
    found = Counted(0, [], [])
    looked_at = 0
    for one in asked:
        (history,) = (each for each in histories if each.id == one.manager)
        reason = _untold(history, one)
        if reason:
            found.notes.append(f"what waits in {history.manager} was not compared: {reason}")
            continue
        if history.start:
            found.notes.append(
                f"of what waits in {history.manager}, what had come before log position "
                f"{history.start:,} is not in its history: more may wait there, and less may not"
            )
        looked_at += _compare(engine, history, one, found)
    return Counted(looked_at, found.differ, found.notes)


def _untold(history: files.Coverage, asked: Asked) -> str:
    """Why a history does not tell what had come in and gone; "" if it does."""
    if not history.unbroken:
        return "parts of its history are missing"
    if history.end < asked.position:
        return (
            f"its history ends at log position {history.end:,}, and it has counted at "
            f"{asked.position:,}; name its data directory, or copy the history later"
        )
    first = min(page.at for page in asked.pages)
    if any(start.at_us // 1_000_000 > first for start in history.starts):
        return "it was started again after it had counted"
    return ""


def _compare(engine: SqlEngine, history: files.Coverage, asked: Asked, found: Counted) -> int:
    """Add what differs in one manager; how many of its queues were compared."""
    manager = literal(engine.party_of(history.id))
    engine.make("stay", _stays(manager))
    looked_at, after = 0, 0
    for page in asked.pages:
        here = {row.number: row for row in page.rows}
        last = max(here, default=after) if page.more else None
        told = {row["place"]: row["messages"] for row in engine.rows(f"""
            SELECT place, count(*) AS messages FROM stay
            WHERE place > {after} AND {'true' if last is None else f'place <= {last}'}
              AND came < {page.position} AND coalesce(went >= {page.position}, true)
            GROUP BY place
        """)}  # fmt: skip
        looked_at += len(here)
        for number in sorted(here.keys() | told.keys()):
            row, by_history = here.get(number), told.get(number, 0)
            counted = row.messages if row else 0
            if counted < by_history or (counted > by_history and not history.start):
                found.differ.append({
                    "manager": history.manager, "place": number,
                    "queue": row.name if row else _name(engine, manager, number),
                    "position": page.position, "counted": counted, "told": by_history,
                })  # fmt: skip
        after = last or after
    return looked_at


def _stays(manager: str) -> str:
    """Of each place that a transactional message has stood in at a manager: where the record lies
    by which it came, and where the one by which it went; NULL: it is there."""
    buried = f"event = 'dead-lettered' AND place >= {OWN_GRAVES_FROM}"
    of = f"FROM event WHERE manager = {manager} AND NOT observed AND transactional AND"
    return f"""
        SELECT
          place, lookup, min(position) FILTER (WHERE enters) AS came,
          min(position) FILTER (WHERE NOT enters) AS went
        FROM (
          SELECT place, lookup, position, true AS enters {of} (event IN {_COMES} OR ({buried}))
          UNION ALL
          SELECT place, lookup, position, false AS enters {of} event IN {_GOES}
          UNION ALL
          SELECT from_place, from_lookup, position, false AS enters {of} event = 'moved'
        )
        GROUP BY place, lookup
        HAVING min(position) FILTER (WHERE enters) IS NOT NULL
    """


def sentence(one: Mapping[str, Any]) -> str:
    """A difference in words."""
    return (
        f"{one['queue']} of {one['manager']} has {plural(one['counted'], 'message')} waiting, and "
        f"{one['told']:,} by its history (at log position {one['position']:,})"
    )


def _name(engine: SqlEngine, manager: str, number: int) -> str:
    """What a history calls a queue that its manager does not have."""
    (row,) = engine.rows(
        "SELECT q.name FROM event e JOIN queue_name q ON q.queue = e.queue "
        f"WHERE e.manager = {manager} AND e.place = {number} ORDER BY e.event_row LIMIT 1"
    )
    return str(row["name"])
