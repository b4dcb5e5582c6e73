"""The verdicts: which invariants the histories refute, copy by copy, and what was compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onceq.audit.arrays import NONE, Ints, mixed
from onceq.audit.copies import Copies
from onceq.audit.events import ABSENT, Events
from onceq.audit.home_rules import RULES as HOME
from onceq.audit.letters import Finding, letters, told
from onceq.audit.rules import LANE, MESSAGE, QUEUE, RULES, Certain, Rule, certain


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What one rule has found.

    Attributes:
        invariant, fault, looks_at: See ``rules.Rule``.
        looked_at: How many copies or messages it has compared.
        copy: Row in the ledger of each that is wrong; ABSENT where the ledger does not have it.
        source, stream, number, message: Of each; NONE where there is none.
        said: Text, with names of counts in braces.
        counts: Those of each.
    """

    invariant: str
    fault: str
    looks_at: str
    looked_at: int
    copy: Ints
    source: Ints
    stream: Ints
    number: Ints
    message: Ints
    said: str
    counts: dict[str, Ints]

    def __len__(self) -> int:
        return len(self.copy)

    def told(self, at: int) -> str:
        """What is said of one of them."""
        return self.said.format_map({name: int(each[at]) for name, each in self.counts.items()})


def judge(events: Events, copies: Copies, *, settled: bool) -> list[Verdicts]:
    """Every rule over all events, in order of the invariants.

    Args:
        settled: Nothing was under way when the histories were taken: what is missing is lost.
    """
    found = by_rules(copies, (LANE, QUEUE, MESSAGE), settled=settled)
    about = (*letters(events, copies.known), *told(events, copies))
    found += [of_events(one, events, copies) for one in about]
    return sorted(found, key=lambda one: int(one.invariant[1:]))


def by_rules(copies: Copies, within: Sequence[str], *, settled: bool) -> list[Verdicts]:
    """The rules that look at these things together."""
    sure = certain(copies, settled=settled)
    return [_by_rule(rule, copies, sure) for rule in (*RULES, *HOME) if rule.within in within]


def _by_rule(rule: Rule, copies: Copies, sure: Certain) -> Verdicts:
    of = np.ones(len(copies), np.bool_) if rule.of is None else rule.of(copies, sure)
    rows = np.flatnonzero(of & rule.wrong(copies, sure))
    counts = {}
    if "{" in rule.said and len(rows):
        names = re.findall(r"\{(\w+)\}", rule.said)
        counts = {name: getattr(copies, name)[rows] for name in names}
    return Verdicts(
        rule.invariant, rule.fault, rule.looks_at, int(of.sum()), rows, copies.source[rows],
        copies.stream[rows], copies.number[rows], copies.message[rows], rule.said, counts,
    )  # fmt: skip


def of_events(one: Finding, events: Events, copies: Copies) -> Verdicts:
    """The same for a rule that is about events, with the copies that those belong to."""
    there = events.take(one.rows)
    source, stream, message = there.source.astype(np.int64), there.stream, there.message
    number = np.where(stream == NONE, message, there.number)
    copy = _rows_of(copies, source, stream, number)
    alone = _only_copy(copies, source, message)
    copy = np.where((copy == ABSENT) & (stream == NONE), alone, copy)
    found = copy != ABSENT
    stream = np.where(found, copies.stream[copy], stream) if len(copies) else stream
    number = np.where(found, copies.number[copy], number) if len(copies) else number
    return Verdicts(
        one.invariant, one.fault, one.looks_at, one.looked_at, copy, source, stream, number,
        message, one.said, one.counts,
    )  # fmt: skip


def _only_copy(copies: Copies, source: Ints, message: Ints) -> Ints:
    """The copy of each message that has one alone, as its row in the ledger; else ABSENT.

    An acknowledgment names a message, and not its place in a stream.
    """
    if not len(source):
        return np.zeros(0, np.int64)
    near = np.flatnonzero(
        np.isin(mixed(copies.source, copies.message), mixed(source, message))
        & (copies.message != NONE)
    )
    rows: dict[tuple[int, int], list[int]] = {}
    for at in near.tolist():
        rows.setdefault((int(copies.source[at]), int(copies.message[at])), []).append(at)
    each = zip(source.tolist(), message.tolist(), strict=True)
    found = [rows.get(key, []) for key in each]
    return np.array([one[0] if len(one) == 1 else ABSENT for one in found], np.int64)


def _rows_of(copies: Copies, source: Ints, stream: Ints, number: Ints) -> Ints:
    """Rows of the ledger by what names a copy; ABSENT where it has none."""
    if not len(source):
        return np.zeros(0, np.int64)
    near = np.flatnonzero(
        np.isin(mixed(copies.source, copies.stream, copies.number), mixed(source, stream, number))
    )
    keys = zip(*(each[near].tolist() for each in (copies.source, copies.stream, copies.number)),
               strict=True)  # fmt: skip
    places = dict(zip(keys, near.tolist(), strict=True))
    wanted = zip(source.tolist(), stream.tolist(), number.tolist(), strict=True)
    return np.array([places.get(key, ABSENT) for key in wanted], np.int64)


def violations(found: Sequence[Verdicts]) -> int:
    """How many there are."""
    return sum(len(one) for one in found)


def messages_violated(found: Sequence[Verdicts]) -> int:
    """How many copies they are about; one copy may contradict several rules."""
    rows = [np.stack([one.source, one.stream, one.number]) for one in found if len(one)]
    return np.unique(np.concatenate(rows, axis=1), axis=1).shape[1] if rows else 0
