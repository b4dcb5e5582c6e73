"""The page about audits and the report know every rule."""

from __future__ import annotations

import re
from pathlib import Path

from onceq.audit.acts import ADDED, MISSING
from onceq.audit.engine import blocks
from onceq.audit.landed import FAULTS as LANDED
from onceq.audit.measure import DIFFERS, NAMES
from onceq.audit.report import INVARIANTS
from onceq.audit.rules import RULES

ACTS = {rule[:2] for rule in (MISSING, ADDED)}
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "audit.md"
PROMISES = Path(__file__).parents[2] / "docs" / "guarantees.md"


def known() -> set[tuple[str, str]]:
    rules = {(rule.invariant, rule.fault) for rule in RULES}
    return rules | set(LANDED) | ACTS | {DIFFERS}


def test_the_page_lists_every_fault_with_its_invariant() -> None:
    rows = re.findall(r"^\* (`[^(:]+`)\s+\((I\d+)\):\s", PAGE.read_text(), re.MULTILINE)
    listed = {(invariant, fault) for faults, invariant in rows
              for fault in re.findall(r"`([a-z-]+)`", faults)}  # fmt: skip
    assert listed == known()


def test_the_page_says_of_every_promise_whether_it_is_judged() -> None:
    """A promise that has a rule is judged, and one that has none says why not (finding P3a)."""
    section = PAGE.read_text().split("### Which promise is judged")[1]
    said = {
        promise: words
        for names, words in re.findall(r"^\* (I\d[^:]*): (.+)$", section, re.M)
        for promise in names.split(", ")
    }
    promises = re.findall(r"^\* (I\d+a?): ", PROMISES.read_text(), re.M)
    assert list(said) == promises
    unjudged = {promise for promise, words in said.items() if words.startswith("no: ")}
    assert set(promises) - unjudged == {invariant for invariant, _ in known()}


def test_the_report_says_what_each_invariant_is() -> None:
    assert {invariant for invariant, _ in known()} == set(INVARIANTS)


def test_every_state_has_a_name() -> None:
    states = re.findall(
        r"THEN '([a-z ]+)'|ELSE '([a-z]+)'", blocks("ledger.sql", settled=False)["fate"]
    )
    assert {one or other for one, other in states} == set(NAMES)


def test_every_fault_is_planted_by_somebody() -> None:
    """A rule that no planted fault has ever broken may be one that never speaks."""
    folder = Path(__file__).parent
    names = (
        "corruptions.py", "test_acts.py", "test_audit.py", "test_landed.py", "test_planted.py",
        "test_sentences.py", "test_waiting.py",
    )  # fmt: skip
    texts = "".join((folder / name).read_text() for name in names)
    named = {fault for _, fault in known() if f'"{fault}"' in texts}
    assert named == {fault for _, fault in known()}
