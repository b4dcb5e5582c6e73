"""Mistakes in external transactions with our own coordinator, as patches (programme P15).

They break the decision procedure and recovery (``onceq.partners``), or what the deciding manager
keeps; see ``mistakes.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from onceq.core.state.branch_table import Branches
from onceq.core.state.records import Change
from onceq.core.step.step import Step
from onceq.core.transaction import unit_of_work
from onceq.errors import InDoubt, OnceqError
from onceq.model.branches import DecisionState, Vote
from onceq.partners import procedures
from onceq.partners.procedures import ProcedureStep as Deciding
from onceq.partners.procedures import Steps, What
from onceq.partners.recovery import Recovery
from tests.planted.mistakes import UNTRUE, Mistake

DONE = Deciding(What.DONE)


def _changed(steps: Steps, change: Callable[[Deciding], Deciding]) -> Steps:
    step = next(steps)
    try:
        while True:
            try:
                result = yield change(step)
            except OnceqError as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as stop:
        done: procedures.StepResult = stop.value
        return done


def forgotten_early(patch: pytest.MonkeyPatch) -> None:
    """22: a decision is forgotten although not all partners could be told."""

    def committing(count: int, *, idle: bool = False) -> Steps:
        steps = original(count, idle=idle)
        return (yield from _changed(steps, lambda s: DONE if s.what is What.LEAVE else s))

    original = procedures.committing
    patch.setattr(procedures, "committing", committing)


def forgotten_unseen(patch: pytest.MonkeyPatch) -> None:
    """22, of recovery: who cannot be asked counts as having carried it out."""

    def settle(self: Recovery, *arguments: Any, **more: Any) -> Generator[Any, Any, set[bytes]]:
        try:
            return (yield from original(self, *arguments, **more))
        except OnceqError:
            return set()

    original = Recovery._settle
    patch.setattr(Recovery, "_settle", settle)


def committed_before_decision(patch: pytest.MonkeyPatch) -> None:
    """A partner that has promised is told to commit at once."""

    def committing(count: int, *, idle: bool = False) -> Steps:
        steps = original(count, idle=idle)
        step = next(steps)
        try:
            while True:
                try:
                    result = yield step
                    if result is Vote.PREPARED:
                        yield Deciding(What.COMMIT, step.partner)
                except OnceqError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            done: procedures.StepResult = stop.value
            return done

    original = procedures.committing
    patch.setattr(procedures, "committing", committing)


def undone_in_doubt(patch: pytest.MonkeyPatch) -> None:
    """Partners are rolled back when the answer to the decision is lost."""

    def committing(count: int, *, idle: bool = False) -> Steps:
        try:
            return (yield from original(count, idle=idle))
        except InDoubt:
            yield from procedures.undoing(count)
            raise

    original = procedures.committing
    patch.setattr(procedures, "committing", committing)


def open_taken_for_aborted(patch: pytest.MonkeyPatch) -> None:
    """Recovery presumes an abort while the application is at work."""

    def settle(self: Recovery, *arguments: Any, **more: Any) -> Generator[Any, Any, set[bytes]]:
        return (yield from _answered(original(self, *arguments, **more)))

    def _answered(calls: Generator[Any, Any, set[bytes]]) -> Generator[Any, Any, set[bytes]]:
        call = next(calls)
        try:
            while True:
                try:
                    result = yield call
                except OnceqError as error:
                    call = calls.throw(error)
                else:
                    given = DecisionState.ABORTED if result is DecisionState.OPEN else result
                    call = calls.send(given)
        except StopIteration as stop:
            done: set[bytes] = stop.value
            return done

    original = Recovery._settle
    patch.setattr(Recovery, "_settle", settle)


def decision_unrecorded(patch: pytest.MonkeyPatch) -> None:
    """The commit record does not say for whom it decides."""
    patch.setattr(unit_of_work, "Marks", lambda **given: None)


def decisions_left_out(patch: pytest.MonkeyPatch) -> None:
    """Checkpoints have no decisions."""

    def dump(self: Branches) -> dict[str, Any]:
        return {**original(self), "decisions": []}

    original = Branches.dump
    patch.setattr(Branches, "dump", dump)


def branch_committed_in_passing(patch: pytest.MonkeyPatch) -> None:
    """The commit of a branch is answered before it is durable."""

    def record(self: Step, change: Change, *, forced: bool = True, held: bool = False) -> None:
        ends = change.marks is not None and change.marks.branch
        original(self, change, forced=forced and not ends, held=held and not ends)

    original = Step.record
    patch.setattr(Step, "record", record)


SHARED_MISTAKES: dict[str, Mistake] = {
    "decisions left out": Mistake(0, decisions_left_out, frozenset({"I21"}), first=230),
    # It comes back prepared, and nobody tells it again; or what it sent has left already.
    "branch committed in passing": Mistake(
        0, branch_committed_in_passing, frozenset({"I21", "I20"}) | UNTRUE, first=195
    ),
    "decision forgotten early": Mistake(22, forgotten_early, frozenset({"I21"}), first=155),
    "decision forgotten unseen": Mistake(22, forgotten_unseen, frozenset({"I21"}), first=970),
    "committed before the decision": Mistake(0, committed_before_decision, frozenset({"I21"})),
    "undone in doubt": Mistake(0, undone_in_doubt, frozenset({"I21"})),
    "open taken for aborted": Mistake(0, open_taken_for_aborted, frozenset({"I21"})),
    "decision unrecorded": Mistake(0, decision_unrecorded, frozenset({"I21"})),
}
