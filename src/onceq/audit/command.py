"""``onceq audit``: from folders to findings, a report and tables.

It also tells the story of one message: one line for each event.

What DuckDB has no memory for goes to temporary files; ``onceq.spark.audit`` does the same on a
cluster, with the same rules.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from onceq.audit import acts, files, measure
from onceq.audit import rules as judge
from onceq.audit.acts import Acts
from onceq.audit.engine import (
    COUNTING,
    FOLLOWING,
    JUDGING,
    SqlEngine,
    count_unread,
    give_names,
    make_ledger,
    one_row,
)
from onceq.audit.files import Coverage
from onceq.audit.landed import Landed, Tables
from onceq.audit.rules import RULES, Rule
from onceq.errors import ConfigurationError
from onceq.model.wording import plural

# ---- story ---------------------------------------------------------------------------------------
#
# The story of a message: everything that any manager tells of it, one line an event.


STORIES_MAX: Final = 50
"""Messages whose stories are told; all violations are counted and written as Parquet."""
LINES_MAX: Final = 60
Key = tuple[str, int | None, int | None]
"""Source, stream and number of a copy."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def stories(
    engine: SqlEngine, rules: Sequence[Rule], histories: Sequence[Coverage]
) -> list[dict[str, Any]]:
    """The first messages that contradict an invariant, with what is wrong and their events."""
    wrong = engine.rows(f"""
        SELECT v.*, i.id, coalesce(i.name, i.id) AS sender, f.route
        FROM (
          SELECT v.*, row_number() OVER (
            PARTITION BY v.rule ORDER BY i.id, v.stream NULLS FIRST, v.home, v.number, v.place
          ) AS nth
          FROM violation v JOIN party i ON i.party = v.source
        ) v
        JOIN party i ON i.party = v.source
        LEFT JOIN fate f ON f.copy = v.copy
        WHERE v.nth <= {STORIES_MAX}
        ORDER BY v.rule, v.nth
    """)
    by_message: dict[Key, list[dict[str, Any]]] = {}
    for row in wrong:
        key = (row["id"], row["stream"], row["number"])
        if key in by_message or len(by_message) < STORIES_MAX:
            by_message.setdefault(key, []).append(row)
    told = _lines(engine, [rows[0] for rows in by_message.values()], Acts(histories))
    return [
        {
            "title": _title(rows[0], next((row["route"] for row in rows if row["route"]), "")),
            "key": {"source": rows[0]["id"], **{name: rows[0][name] for name in
                    ("stream", "number", "message")}},
            "faults": [
                {"invariant": rules[row["rule"]].invariant, "fault": rules[row["rule"]].fault,
                 "said": rules[row["rule"]].text(row["one"], row["two"])}
                for row in rows
            ],
            "rows": told[at],
        }
        for at, rows in enumerate(by_message.values())
    ]  # fmt: skip


def _title(row: Mapping[str, Any], route: str) -> str:
    """Which message, for people."""
    place = "" if row["stream"] is None else f", number {row['number']} of stream {row['stream']}"
    which = "" if row["message"] is None else f"message {row['message']} "
    return f"{which}of {row['sender']}{place} ({route or 'route unknown'})"


def _lines(engine: SqlEngine, messages: Sequence[Mapping[str, Any]], acts: Acts) -> list[list[str]]:
    """The events of each message, and those that name it and no place in a stream."""
    if not messages:
        return []
    keys = [
        {"story": at, **{name: row[name] for name in ("source", "stream", "number", "message")}}
        for at, row in enumerate(messages)
    ]
    kind = pa.string() if isinstance(keys[0]["source"], str) else pa.int32()
    engine.give("wanted", pa.Table.from_pylist(keys, pa.schema([
        ("story", pa.int32()), ("source", kind), ("stream", pa.int64()), ("number", pa.int64()),
        ("message", pa.int64()),
    ])))  # fmt: skip
    rows = engine.rows("""
        SELECT
          s.story, e.time, e.exact, coalesce(p.name, p.id) AS manager, p.id AS manager_id, e.event,
          q.name AS queue, e.lookup, e.class_name, e.observed, e.position, e.ordinal
        FROM (
          SELECT w.story, e.event_row FROM event e JOIN wanted w
          ON e.source = w.source AND e.stream = w.stream AND e.number = w.number
          UNION ALL
          SELECT w.story, e.event_row FROM event e JOIN wanted w
          ON e.source = w.source AND e.message = w.message WHERE e.stream IS NULL
        ) s
        JOIN event e ON e.event_row = s.event_row
        JOIN party p ON p.party = e.manager
        LEFT JOIN queue_name q ON q.queue = e.queue
        ORDER BY s.story, e.time, p.id, e.position, e.ordinal, e.event_row
    """)
    told: list[list[str]] = [[] for _ in messages]
    for row in rows:
        if len(told[row["story"]]) < LINES_MAX:
            told[row["story"]].append(line(row, acts.why(row)))
    return told


def line(row: Mapping[str, Any], why: str) -> str:
    """One event.

    Args:
        why: The act of administration that did it; "" where there is none.
    """
    time = _EPOCH + timedelta(microseconds=row["time"])
    when = time.strftime("%Y-%m-%d %H:%M:%S.%f" if row["exact"] else "%Y-%m-%d %H:%M:%S")
    parts = [f"{when:26}", f"{row['manager']:10}", f"{row['event']:14}"]
    if row["queue"]:
        parts.append(row["queue"])
    if row["lookup"] is not None:
        parts.append(f"lookup {row['lookup'] % (1 << 64)}")
    if row["class_name"]:
        parts.append(row["class_name"])
    parts.append("(observed)" if row["observed"] else f"@{row['position']}")
    if why:
        parts.append(f"({why})")
    return " ".join(parts)


# ---- command -------------------------------------------------------------------------------------


COUNTING_TOLD: Final = "counting ends, latencies, resends and stuck streams"
WAITING_TOLD_MAX: Final = 20
"""Queues that are told in a sentence each; all are in ``waiting``."""


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far an audit is.

    Attributes:
        stage: What is being done.
        seconds: Since the audit began.
        begins: The stage begins now; else it goes on.
        done, tasks: Of Spark in this stage, where Spark does it; it finds out by and by how many
            there will be.
    """

    stage: str
    seconds: float
    begins: bool = True
    done: int = 0
    tasks: int = 0


Say = Callable[[StageProgress], None]
Begin = Callable[[str], None]
"""Is told what is done next, and may raise to end the audit there."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of an audit.

    Attributes:
        settled: Nothing was under way when the histories were taken: what is missing is lost.
        html: File of the report; "" for none.
        to: New folder of the tables; "" for none.
        stuck_s: Seconds after which a stream waits too long for its acknowledgment.
        proof: Folder of the proof that is gone on with, and kept; "" for none.
        landed: Tables that landings have written from queues of these managers.
        asked: What living managers among these have counted.
    """

    settled: bool = False
    html: str = ""
    to: str = ""
    stuck_s: float = 300.0
    proof: str = ""
    landed: Sequence[Landed] = ()
    asked: Sequence[measure.Asked] = ()


def run(folders: Sequence[str], wish: Wish, say: Say) -> dict[str, Any]:
    """Audit histories by DuckDB; see ``onceq audit --help``.

    Args:
        folders: Of histories, or of managers that have one.
        say: Is told what it does.

    Returns:
        The findings, as JSON has them.

    Raises:
        ConfigurationError: There is no history, one is damaged, or a place cannot be written to.
        StoreLocked: Another audit goes on from the proof.
    """
    # Here, as an audit by Spark uses the rest of this module without DuckDB.
    from onceq.audit import proof
    from onceq.audit import proof as duck

    begun = time.monotonic()

    def begin(stage: str) -> None:
        say(StageProgress(stage, time.monotonic() - begun))

    check(wish)
    histories = files.find(folders)
    measure.tell_enough(histories, wish.asked)
    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(proof.held(wish.proof)) if wish.proof else None
        if kept is None:
            engine, fresh = stack.enter_context(duck.in_memory()), None
            new = files.files_of(histories)
        else:
            engine, fresh = kept.engine, proof.join(histories, kept)
            new = kept.files(fresh)
        tell_reading(new, histories, begin)
        acts.read(histories, fresh)
        engine.load(new, [one.id for one in histories])
        said = audit(engine, histories, wish, begin)
        if kept is not None:
            begin(f"keeping the proof in {wish.proof}")
            kept.keep(histories)
            said["written"].append(wish.proof)
    begin("done")
    return said


def tell_reading(
    new: Sequence[files.HistoryFile], histories: Sequence[files.Coverage], begin: Begin
) -> None:
    """Begin the stage in which files are read."""
    size = sum(os.path.getsize(one.path) for one in new) / (1 << 20)
    begin(f"reading {plural(sum(one.rows for one in new), 'event')} in {size:,.1f} MiB of "
          f"{plural(len(histories), 'queue manager')}")  # fmt: skip


def check(wish: Wish) -> None:
    """Raise ConfigurationError for what cannot be written."""
    if wish.to and os.path.exists(wish.to):
        raise ConfigurationError(f"--out {wish.to} is there already; name a folder that is not")
    if wish.html and not Path(wish.html).resolve().parent.is_dir():
        raise ConfigurationError(f"--html {wish.html}: there is no such folder")
    if wish.html and Path(wish.html).is_dir():
        raise ConfigurationError(f"--html {wish.html} is a folder; name a file")


def audit(
    engine: SqlEngine, histories: Sequence[files.Coverage], wish: Wish, begin: Begin
) -> dict[str, Any]:
    """The findings about the events of an engine, written to where they are wished."""
    settled = wish.settled
    if wish.landed:
        begin(f"reading {', '.join(one.name for one in wish.landed)}")
    # After the histories: what those tell as received was landed before. And before the ledger is
    # made: senders that only a row names are parties as well.
    landed = Tables(engine, wish.landed, histories)
    count_unread(engine, histories)
    give_names(engine, histories)
    first = {row["manager"]: row["first"] // measure.SECOND_US for row in engine.rows(
        "SELECT manager, min(time) AS first FROM event GROUP BY manager"
    )}  # fmt: skip
    count = one_row(engine, "SELECT count(*) AS found FROM event")["found"]
    begin(f"following messages through {plural(count, 'event')}")
    make_ledger(engine, FOLLOWING, settled=settled)
    copies = one_row(engine, "SELECT count(*) AS found FROM copy")["found"]
    begin(f"judging {plural(copies, 'message')} and their streams")
    make_ledger(engine, JUDGING, settled=settled)
    rules = (*RULES, *landed.rules(settled=settled))
    verdicts = judge.judge(engine, rules)
    begin(COUNTING_TOLD)
    make_ledger(engine, COUNTING, settled=settled)
    said: dict[str, Any] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "managers": [
            {**one.plain(), "from_s": first.get(engine.party_of(one.id), 0)} for one in histories
        ],
        **measure.measured(engine, histories, stuck_s=wish.stuck_s),
        "events": count,
        "violations": sum(one.violations for one in verdicts),
        "messages_violated": judge.count_messages(engine),
        "checked": [one.plain() for one in verdicts],
        "stories": stories(engine, rules, histories),
        "written": [],
    }
    acts.add(said, histories)
    if wish.landed:
        landed.tell(said)
    if wish.asked:
        begin("comparing what waits")
        waiting = measure.compared(engine, histories, wish.asked)
        said["waiting"] = waiting.differ
        said["notes"] += [
            *map(measure.sentence, waiting.differ[:WAITING_TOLD_MAX]), *waiting.notes,
        ]  # fmt: skip
        said["violations"] += len(waiting.differ)
        said["checked"].append(
            {"invariant": measure.DIFFERS[0], "fault": measure.DIFFERS[1],
             "violations": len(waiting.differ), "looked_at": waiting.looked_at,
             "looks_at": "messages that wait in each queue, beside those that its manager counts"}
        )  # fmt: skip
        said["checked"].sort(key=lambda one: int(one["invariant"][1:]))
    said["verdict"] = verdict(said)
    _write(engine, said, rules, wish, begin)
    return said


def _write(
    engine: SqlEngine, said: dict[str, Any], rules: Sequence[Rule], wish: Wish, begin: Begin
) -> None:
    """Write what is asked for."""
    moved = measure.traffic(engine) if wish.to or wish.html else []
    if wish.to:
        begin(f"writing tables into {wish.to}")
        with told_if_lost(wish.to, said):
            measure.write(engine, wish.to, rules, moved)
        said["written"].append(wish.to)
    if wish.html:
        from onceq.audit.report import page

        begin(f"writing the report {wish.html}")
        save(wish.html, page(said, moved), said)
        said["written"].append(wish.html)


@contextlib.contextmanager
def told_if_lost(place: str, said: Mapping[str, Any]) -> Iterator[None]:
    """What an audit has found is told also where it cannot be written.

    Raises:
        ConfigurationError: The place cannot be written, or has no room.
    """
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{place} cannot be written ({error.strerror or error}), and nothing of it was left; "
            f"the audit ended with: {said['verdict']}"
        ) from None


def save(place: str, report: str, said: Mapping[str, Any]) -> None:
    """Write a report, whole or not at all; raises ConfigurationError."""
    path = Path(place)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    with told_if_lost(place, said):
        try:
            fresh.write_text(report, encoding="utf-8")
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)


def verdict(said: dict[str, Any]) -> str:
    """What is proven or refuted, in one sentence."""
    broken = [one for one in said["checked"] if one["violations"]]
    if broken:
        names = ", ".join(dict.fromkeys(one["invariant"] for one in broken))
        messages = said["messages_violated"]
        by = f" by {plural(messages, 'message')}" if messages else ""
        return f"VIOLATED: {plural(said['violations'], 'violation')} of {names}{by}"
    limited = " as far as the histories tell" if said["notes"] else ""
    return (
        f"PROVEN{limited}: of {plural(said['messages'], 'message')} each met at most one end, "
        "once and in order, and nothing is lost"
    )
