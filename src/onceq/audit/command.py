"""``onceq audit``: from folders to findings, a report and tables, in this process.

Everything is held in memory, some 150 bytes an event at the highest, and with a proof some 550;
``onceq.spark.audit`` does the same by parts where that is too much.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from onceq.audit import acts, files, kept, measure, proof, story, sums, tables, waiting
from onceq.audit import events as events_of
from onceq.audit.arrays import NONE, coded
from onceq.audit.copies import Copies, ledger
from onceq.audit.judge import Verdicts, judge, messages_violated, violations
from onceq.audit.landed import Landed
from onceq.audit.landed_rules import MISSING, Found, Tables
from onceq.audit.progress import Say, StageProgress
from onceq.errors import ConfigurationError
from onceq.model.limits import AUDIT_EVENTS_MAX, AUDIT_PROOF_EVENTS_MAX
from onceq.model.wording import plural

COUNTING: Final = "counting ends, latencies, resends and stuck streams"

WAITING_TOLD_MAX: Final = 20
"""Queues that are told in a sentence each; all are in ``waiting``."""

Begin = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of an audit.

    Attributes:
        settled: Nothing was under way when the histories were taken: what is missing is lost.
        html: File of the report; "" for none.
        to: New folder of the tables; "" for none.
        stuck_s: A stream waits too long for its acknowledgment after so many seconds.
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
    asked: Sequence[waiting.Asked] = ()


def run(folders: Sequence[str], wish: Wish, say: Say) -> dict[str, Any]:
    """Audit histories; see ``onceq audit --help``.

    Args:
        folders: Of histories, or of managers that have one.
        say: Is told what it does.

    Returns:
        The findings, as JSON has them.

    Raises:
        ConfigurationError: There is no history, one is damaged or too large, or a place cannot be
            written to.
        StoreLocked: Another audit goes on from the proof.
    """
    begun = time.monotonic()

    def begin(stage: str) -> None:
        say(StageProgress(stage, time.monotonic() - begun))

    check(wish)
    histories = files.find(folders)
    waiting.tell_enough(histories, wish.asked)
    if not wish.proof:
        return _run(histories, None, wish, begin)
    with proof.held(wish.proof) as before:
        return _run(histories, before, wish, begin)


def _run(
    histories: Sequence[files.Coverage], before: proof.Proof | None, wish: Wish, begin: Begin
) -> dict[str, Any]:
    fresh = [path for one in histories for path in one.files]
    if before is not None:
        new = proof.join(histories, before)
        fresh = [path for paths in new.values() for path in paths]
    count = sum(pq.read_metadata(path).num_rows for path in fresh)
    most = AUDIT_EVENTS_MAX if before is None else AUDIT_PROOF_EVENTS_MAX
    if count > most:
        raise ConfigurationError(_too_many(count, most, wish))
    size = sum(os.path.getsize(path) for path in fresh) / (1 << 20)
    begin(f"reading {plural(count, 'event')} in {size:,.1f} MiB of "
          f"{plural(len(histories), 'queue manager')}")  # fmt: skip
    acts.read(histories, None if before is None else new)
    if before is not None:
        return _go_on(before, histories, new, wish, begin)
    return audit(events_of.read(histories), histories, wish, begin)


def _too_many(count: int, most: int, wish: Wish) -> str:
    """What does not fit into memory, and what to do, which depends on what is wished."""
    more = f"{count:,} events, and {most:,} fit into memory"
    if wish.proof:
        return (
            f"what is new in the histories has {more}: copy fewer files of each manager into a "
            "folder, the oldest first, audit that with the same --proof, and so on with the next"
        )
    if wish.landed:
        return (
            f"the histories have {more}, and onceq spark audit judges no landed table: name only "
            "the managers whose queues the tables are of, and audit all by onceq spark audit "
            "without --landed"
        )
    return f"the histories have {more}: use onceq spark audit, or fewer managers at a time"


def check(wish: Wish) -> None:
    """Raise ConfigurationError for what cannot be written, or not be judged together."""
    if wish.landed and wish.proof:
        raise ConfigurationError(
            "--landed needs whole histories, and --proof leaves out what was judged before; give "
            "one of them"
        )
    if wish.asked and wish.proof:
        raise ConfigurationError(
            "--ask needs whole histories, and --proof leaves out what was judged before; give one "
            "of them"
        )
    if wish.to and os.path.exists(wish.to):
        raise ConfigurationError(f"--out {wish.to} is there already; name a folder that is not")
    if wish.html and not Path(wish.html).resolve().parent.is_dir():
        raise ConfigurationError(f"--html {wish.html}: there is no such folder")
    if wish.html and Path(wish.html).is_dir():
        raise ConfigurationError(f"--html {wish.html} is a folder; name a file")


def audit(
    events: events_of.Events, histories: Sequence[files.Coverage], wish: Wish, begin: Begin
) -> dict[str, Any]:
    """The findings about events.

    Args:
        begin: Is told what is done next.
    """
    if wish.landed:
        begin(f"reading {', '.join(one.name for one in wish.landed)}")
    # After the histories: what those tell as received was landed before.
    landed = Tables(wish.landed, events, histories, settled=wish.settled) if wish.landed else None
    begin(f"following messages through {plural(len(events), 'event')}")
    copies = ledger(events, histories)
    begin(f"judging {plural(len(copies), 'message')} and their streams")
    verdicts = judge(events, copies, settled=wish.settled)
    told = [] if landed is None else landed.judge(copies)
    verdicts += [verdict for one in told for verdict in one.verdicts]
    begin(COUNTING)
    found = measure.measured(copies)
    counted = measure.sums(found, late_us=measure.late_us(histories, wish.stuck_s))
    stories = story.stories(
        events, found, verdicts, story.lines_of_files(histories, acts.Acts(histories))
    )
    said = findings(
        histories, found.copies, verdicts, stories=stories, events=events, counted=counted
    )
    acts.add(said, histories)
    _add_landed(said, told)
    if wish.asked:
        begin("comparing what waits")
        _add_waiting(said, waiting.compared(events, histories, wish.asked))
    _written(said, found, verdicts, counted, wish, begin)
    return said


def _add_waiting(said: dict[str, Any], found: waiting.Counted) -> None:
    """What living managers have counted otherwise than their histories."""
    said["waiting"] = found.differ
    said["notes"] += [*map(waiting.sentence, found.differ[:WAITING_TOLD_MAX]), *found.notes]
    said["violations"] += len(found.differ)
    said["checked"].append(
        {"invariant": waiting.DIFFERS[0], "fault": waiting.DIFFERS[1],
         "violations": len(found.differ), "looked_at": found.looked_at,
         "looks_at": "messages that wait in each queue, beside those that its manager counts"}
    )  # fmt: skip
    said["checked"].sort(key=lambda one: int(one["invariant"].rstrip("a")[1:]))
    said["verdict"] = verdict(said)


def _add_landed(said: dict[str, Any], tables: Sequence[Found]) -> None:
    """What was found about landed tables, beside what rules have found about their messages."""
    said["landed"] = [one.said for one in tables]
    for one in tables:
        said["notes"] += one.notes
        said["violations"] += one.missing
        said["messages_violated"] += one.missing
        said["checked"].append(
            {"invariant": MISSING[0], "fault": MISSING[1], "violations": one.missing,
             "looks_at": f"what the landing of {one.said['table']} counts with its rows",
             "looked_at": one.said["committed"]}
        )  # fmt: skip
    said["checked"].sort(key=lambda one: int(one["invariant"][1:]))
    said["verdict"] = verdict(said)


def _go_on(
    before: proof.Proof, histories: Sequence[files.Coverage], new: dict[str, list[str]],
    wish: Wish, begin: Begin,
) -> dict[str, Any]:  # fmt: skip
    """The findings about what a proof has judged and what is new, and the next proof."""
    begin("judging what is new, beside what goes on")
    kept_of = kept.judged(histories, before, new, settled=wish.settled)
    found, verdicts, hand = kept_of.measured, kept_of.verdicts, kept_of.hand
    begin(COUNTING)
    counted = measure.sums(found, late_us=measure.late_us(histories, wish.stuck_s))
    counted += sums.sums_of(kept_of.base)
    lines = story.lines_of(hand.table, acts.Acts(histories))
    said = findings(
        histories, found.copies, verdicts, events=hand.events, counted=counted,
        stories=story.stories(hand.events, found, verdicts, lines),
    )  # fmt: skip
    kept.add(said, kept_of, before)
    acts.add(said, histories)
    said["verdict"] = verdict(said)
    _written(said, found, verdicts, counted, wish, begin)
    begin(f"keeping the proof in {wish.proof}")
    kept.keep(before, histories, kept_of, margin_us=kept.MARGIN_US)
    said["written"].append(wish.proof)
    begin("done")
    return said


def _written(
    said: dict[str, Any], found: measure.Measured, verdicts: Sequence[Verdicts],
    counted: sums.Sums, wish: Wish, begin: Begin,
) -> None:  # fmt: skip
    """Write what is asked for."""
    moved = sums.points(counted.traffic)
    if wish.to:
        begin(f"writing tables into {wish.to}")
        with told_if_lost(wish.to, said):
            tables.write(wish.to, {
                "messages": tables.messages(found), "violations": tables.violated(found, verdicts),
                "traffic": tables.points(moved),
            })  # fmt: skip
        said["written"].append(wish.to)
    if wish.html:
        from onceq.audit.report import page

        begin(f"writing the report {wish.html}")
        save(wish.html, page(said, moved), said)
        said["written"].append(wish.html)
    if not wish.proof:
        begin("done")


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


def findings(
    histories: Sequence[files.Coverage], copies: Copies, verdicts: Sequence[Verdicts],
    *, events: events_of.Events, stories: list[dict[str, Any]], counted: sums.Sums,
) -> dict[str, Any]:  # fmt: skip
    """Everything that is told, as JSON has it."""
    first = _first_times(events)
    said: dict[str, Any] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "managers": [{**one.plain(), "from_s": first.get(one.id, 0)} for one in histories],
        **measure.told(counted, histories),
        "events": len(events),
        "streams": int((copies.stream[copies.lanes.starts] != NONE).sum()),
        "transactions": _transactions(copies),
        "violations": violations(verdicts),
        "messages_violated": messages_violated(verdicts),
        "checked": [
            {"invariant": one.invariant, "fault": one.fault, "looks_at": one.looks_at,
             "looked_at": one.looked_at, "violations": len(one)}
            for one in verdicts
        ],
        "stories": stories,
        "written": [],
    }  # fmt: skip
    said["verdict"] = verdict(said)
    return said


def _first_times(events: events_of.Events) -> dict[str, int]:
    """Seconds of the first event of each manager."""
    found = {}
    for at in np.unique(events.manager).tolist():
        mine = events.manager == at
        found[events.parties[at]] = int(events.numbers("time")[mine].min()) // 1_000_000
    return found


def _transactions(copies: Copies) -> int:
    """How many different transactions were committed, as far as packets name them."""
    named = copies.put.transaction != NONE
    return len(coded(copies.source[named], copies.put.transaction[named])[1][0])


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
