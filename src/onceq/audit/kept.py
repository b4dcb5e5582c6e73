"""``onceq audit --proof``: what was judged and is finished is not read again.

Messages that are finished are put aside (``finished``), and what they add to the findings is kept
as counts. The next audit has in hand the rows that go on and those that are new. Its findings are
those of an audit of everything:

* a new row about a message that was put aside brings all rows back: nothing is judged by half of
  its rows;
* so does any violation: it is told with everything that is known, and nothing is put aside as long
  as the histories refute anything.

A new message that contradicts the order of such as were put aside contradicts the last of them as
well, which stays in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from onceq.audit import acts, measure, proof
from onceq.audit import events as events_of
from onceq.audit.arrays import NONE, Ints, Mask
from onceq.audit.copies import ledger, of_copies
from onceq.audit.events import ABSENT, Events
from onceq.audit.files import Coverage
from onceq.audit.finished import finished, reopens
from onceq.audit.judge import Verdicts, judge, violations
from onceq.audit.past import NUMBER, Keys, Past, keys_of, transactions_of
from onceq.audit.proof import ROW, TEXTS, Judged, Proof
from onceq.audit.sums import sums_of
from onceq.history.events import SCHEMA

MARGIN_US: Final = 300 * 1_000_000
"""What happened so shortly before the end of a history is not put aside yet: confirmations and
repetitions follow a message for a while, and other managers' files end earlier."""
HELD: Final = pa.schema(
    [
        field.with_type(pa.dictionary(pa.int32(), pa.string())) if field.name in TEXTS else field
        for field in SCHEMA
    ]
)
"""What rows have in memory."""

Begin = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class InHand:
    """The rows of an audit, manager after manager.

    Attributes:
        table: With all columns of a history.
        row: Place of each in the history of its manager.
        new: Which of them were not judged yet.
        whole: Nothing is put aside.
    """

    table: pa.Table
    events: Events
    row: Ints
    new: Mask
    whole: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """What an audit with a proof works with.

    Attributes:
        base: What the messages that are put aside add to the findings.
        past: What they are.
    """

    hand: InHand
    base: dict[str, Any]
    past: Past
    measured: measure.Measured
    verdicts: list[Verdicts]


def judged(
    histories: Sequence[Coverage], kept: Proof, fresh: dict[str, list[str]], *, settled: bool,
) -> Kept:  # fmt: skip
    """Judge what is in hand, or everything where that does not do."""
    for whole in (not kept.past, True):
        hand = _in_hand(histories, kept, fresh, whole=whole)
        past = Past() if whole else kept.past
        if not whole and reopens(hand.events, hand.new, past):
            continue
        measured, verdicts = _judged(hand.events, histories, past, settled=settled)
        if whole or not violations(verdicts):
            return Kept(hand, {} if whole else kept.base, past, measured, verdicts)
    raise AssertionError("the whole was judged")


def _judged(
    events: Events, histories: Sequence[Coverage], past: Past, *, settled: bool
) -> tuple[measure.Measured, list[Verdicts]]:
    copies = ledger(events, histories)
    none = np.where(copies.streamed, copies.number - 1, copies.number)
    before = Keys(NUMBER, copies.source, copies.stream, none)
    copies.follows[:] = past.has(copies.parties, before)
    return measure.measured(copies), judge(events, copies, settled=settled)


def _in_hand(
    histories: Sequence[Coverage], kept: Proof, fresh: dict[str, list[str]], *, whole: bool
) -> InHand:
    tables, rows, new = [], [], []
    for one in histories:
        before = kept.managers.get(one.id, Judged("", one.id, 0, 0, 0, 0, 0, []))
        parts = []
        known = kept.rows([before.open, *(before.closed if whole else [])])
        if known is not None:
            parts.append(known)
        at = before.rows
        for path in fresh[one.id]:
            table = _all_columns(path)
            number = pa.array(np.arange(at, at + len(table)))
            parts.append(table.append_column(ROW, number))
            at += len(table)
        if not parts:
            continue
        table = pa.concat_tables(parts)
        row = table[ROW].to_numpy()
        if (row[1:] < row[:-1]).any():
            table = table.take(pa.array(np.argsort(row, kind="stable")))
        tables.append(table)
        rows.append(table[ROW].to_numpy())
        new.append(rows[-1] >= before.rows)
    table = pa.concat_tables(tables)
    events = events_of.of_table(table.select(list(events_of.READ)))
    events_of.unread(events, histories)
    return InHand(table, events, np.concatenate(rows), np.concatenate(new), whole)


def _all_columns(path: str) -> pa.Table:
    """All columns of a file; raises ConfigurationError if it is damaged inside."""
    events_of.read_file(path)  # which says what is wrong with it
    table = pq.read_table(path, read_dictionary=TEXTS)
    for field in HELD:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(HELD.names).cast(HELD)


# ---- what is told ----------------------------------------------------------------------------


def add(said: dict[str, Any], found: Kept, kept: Proof) -> None:
    """Let findings about what is in hand be about everything, beside what is summed."""
    base, copies = found.base, found.measured.copies
    for one in said["managers"]:
        before = kept.managers.get(one["id"])
        if before is not None and before.from_s:
            one["from_s"] = min(before.from_s, one["from_s"] or before.from_s)
    if not base:
        return
    said["events"] += base["events"]
    known = found.past.has(copies.parties, transactions_of(copies))
    there = copies.put.transaction != NONE
    said["transactions"] = base["transactions"] + _distinct(
        copies.source[there & ~known], copies.put.transaction[there & ~known]
    )
    for one in said["checked"]:
        one["looked_at"] += base["checked"].get(_rule(one), 0)


def _distinct(*columns: Ints) -> int:
    return np.unique(np.stack(columns), axis=1).shape[1] if len(columns[0]) else 0


def _rule(one: dict[str, Any]) -> str:
    return f"{one['invariant']} {one['fault']}: {one['looks_at']}"


# ---- what is kept ----------------------------------------------------------------------------


def keep(
    kept: Proof, histories: Sequence[Coverage], found: Kept, *, margin_us: int = MARGIN_US
) -> None:
    """Put aside what is finished, and write the proof; raises ConfigurationError if it cannot."""
    gone, base, past = _put_aside(found, histories, margin_us)
    with proof.told_if_not_kept(kept.folder):
        kept.folder.mkdir(parents=True, exist_ok=True)
        _write(kept, histories, found.hand, gone)
        kept.base, kept.past = base, past
        kept.past_file = kept.add("past", "", past.table())
        kept.save()


def _put_aside(
    found: Kept, histories: Sequence[Coverage], margin_us: int
) -> tuple[Mask, dict[str, Any], Past]:
    """Which rows are put aside now; and base and past with them."""
    events, copies = found.hand.events, found.measured.copies
    nothing = np.zeros(len(events), np.bool_), found.base, found.past
    if violations(found.verdicts):
        return nothing
    of = np.full(len(events), ABSENT, np.int64)
    rows, groups, _ = of_copies(events)
    of[rows] = groups.of
    gone = finished(events, copies, of, margin_us)
    aside = np.zeros(len(copies), np.bool_)
    aside[of[gone & (of != ABSENT)]] = True
    past, there = Past(dict(found.past.spans)), events.take(gone)
    for keys in (*keys_of(there), transactions_of(copies.take(aside))):
        past.add(events.parties, keys)
    _, left = _judged(events.take(~gone), histories, past, settled=False)
    if violations(left):  # a rule needs what was to be put aside: all of it stays
        return nothing
    return gone, _base(found, gone, aside, left), past


def _base(found: Kept, gone: Mask, aside: Mask, left: Sequence[Verdicts]) -> dict[str, Any]:
    """What messages that are put aside add to the findings, now and earlier."""
    base, copies = found.base, found.measured.copies
    mine = measure.part_of(found.measured, aside)
    put, known = (
        mine.copies.put.transaction,
        found.past.has(copies.parties, transactions_of(mine.copies)),
    )
    new = (put != NONE) & ~known
    all_of_it = judge(found.hand.events, copies, settled=False)
    checked = dict(base.get("checked", {}))
    for one, rest in zip(all_of_it, left, strict=True):
        name = f"{one.invariant} {one.fault}: {one.looks_at}"
        checked[name] = checked.get(name, 0) + one.looked_at - rest.looked_at
    return {
        **(measure.sums(mine, late_us=NONE) + sums_of(base)).plain(),
        "events": base.get("events", 0) + int(gone.sum()),
        "transactions": base.get("transactions", 0)
        + _distinct(mine.copies.source[new], put[new]),
        "checked": checked,
    }  # fmt: skip


def _write(kept: Proof, histories: Sequence[Coverage], hand: InHand, gone: Mask) -> None:
    for one in histories:
        before = kept.managers.get(one.id)
        mine = hand.events.manager == _party(hand.events, one.id)
        table = hand.table.filter(pa.array(mine & ~gone))
        aside = hand.table.filter(pa.array(mine & gone))
        now = Judged(
            one.manager, one.id, one.start, one.end, one.up_to_us, _life(one, before), one.lives,
            [(a, b) for a, b in one.gaps],
        )  # fmt: skip
        now.rows = (before.rows if before else 0) + int((mine & hand.new).sum())
        now.from_s = _from_s(hand.events, mine, before)
        now.starts, now.silent = [astuple(start) for start in one.starts], one.silent
        now.files = {path.rpartition("/")[2]: proof.ends_of(path) for path in one.files}
        now.closed = [] if hand.whole or before is None else list(before.closed)
        now.open = kept.add("open", one.id, table)
        now.acts = kept.add("acts", one.id, acts.table_of(one.acts)) if one.acts else ""
        now.numbering = asdict(one.numbering)
        if len(aside):
            now.closed.append(kept.add("closed", one.id, aside))
        kept.managers[one.id] = now


def _party(events: Events, name: str) -> int:
    return events.parties.index(name) if name in events.parties else ABSENT - 1


def _life(one: Coverage, before: Judged | None) -> int:
    from onceq.history.columns import span_of

    lives = [span.life for path in one.files if (span := span_of(path.rpartition("/")[2]))]
    return max([*lives, before.life if before else 0])


def _from_s(events: Events, mine: Mask, before: Judged | None) -> int:
    first = int(events.time[mine].min()) // 1_000_000 if mine.any() else 0
    if before is not None and before.from_s:
        return min(first or before.from_s, before.from_s)
    return first
