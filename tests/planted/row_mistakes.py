"""Mistakes in transactions that a row in a database decides, as patches (programme P15).

They break the procedure and its recovery (``onceq.partners``), or what the database keeps; see
``mistakes.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from onceq.core.transaction import xa_branch
from onceq.errors import DatabaseRestored, OnceqError
from onceq.partners import procedures, recovery
from onceq.partners.contract import COMMITTED, Row
from onceq.partners.procedures import Calls, ProcedureStep, StepResult, Steps, What
from proof.sim.apps.last_agents import SimulatedAgent
from proof.sim.apps.row_databases import RowDatabase
from tests.planted.mistakes import Mistake

ONE_OUTCOME = frozenset({"I21"})


def fulfilled_early(patch: pytest.MonkeyPatch) -> None:
    """The branch is committed before the row is seen."""

    def committing_by_row(count: int = 1, votes: Any = None, *, idle: bool = False) -> Steps:
        steps = original(count, votes, idle=idle)
        step = next(steps)
        try:
            while True:
                try:
                    if step.what is What.RECORD:
                        yield ProcedureStep(What.FULFIL)
                    result = yield step
                except OnceqError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            done: StepResult = stop.value
            return done

    original = procedures.committing_by_row
    patch.setattr(procedures, "committing_by_row", committing_by_row)


def lost_taken_for_refused(patch: pytest.MonkeyPatch) -> None:
    """The branch is rolled back when the answer of the database is lost."""

    def committing_by_row(count: int = 1, votes: Any = None, *, idle: bool = False) -> Steps:
        try:
            return (yield from original(count, votes, idle=idle))
        except OnceqError:
            if not idle:
                yield ProcedureStep(What.BREAK)
            raise

    original = procedures.committing_by_row
    patch.setattr(procedures, "committing_by_row", committing_by_row)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """Recovery looks for the row, and writes none."""

    def settle(self: RowDatabase, row: Row) -> bool:
        return self.decisions.get(row) == COMMITTED

    patch.setattr(RowDatabase, "settle", settle)


def settled_unasked(patch: pytest.MonkeyPatch) -> None:
    """Recovery rolls a branch back without asking its database."""

    def settle(self: SimulatedAgent, row: Row) -> Any:
        yield from ()
        return False

    patch.setattr(SimulatedAgent, "settle", settle)


def rows_removed_early(patch: pytest.MonkeyPatch) -> None:
    """Rows are removed of branches that are still prepared."""

    def remove(self: RowDatabase, manager: str, below: int, but: Sequence[int]) -> None:
        original(self, manager, below, ())

    original = RowDatabase.remove
    patch.setattr(RowDatabase, "remove", remove)


def set_back_unnoticed(patch: pytest.MonkeyPatch) -> None:
    """It is not looked whether the rows are there that must be."""

    def look_for_rows(promiser: Any, manager: str, agent: Any, name: str) -> Calls[Any]:
        try:
            return (yield from original(promiser, manager, agent, name))
        except DatabaseRestored:
            return (yield lambda: promiser.rows(name))

    original = recovery.look_for_rows
    patch.setattr(recovery, "look_for_rows", look_for_rows)


def told_before_the_row(patch: pytest.MonkeyPatch) -> None:
    """Others commit before the row is there."""

    def committing_by_row(count: int = 1, votes: Any = None, *, idle: bool = False) -> Steps:
        steps = original(count, votes, idle=idle)
        step = next(steps)
        try:
            while True:
                try:
                    if step.what is What.RECORD and count > 1:
                        yield ProcedureStep(What.COMMIT, 0)
                    result = yield step
                except OnceqError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as stop:
            done: StepResult = stop.value
            return done

    original = procedures.committing_by_row
    patch.setattr(procedures, "committing_by_row", committing_by_row)


def others_undone(patch: pytest.MonkeyPatch) -> None:
    """What follows a branch is undone while that waits for its row."""

    def put_on_record(step: Any, tx: Any, by: str) -> Any:
        branch = original(step, tx, by)
        step.units.deciding.pop(tx.gtrid, None)
        step.units.telling.pop(tx.gtrid, None)
        tx.gtrid = b""
        return branch

    original = xa_branch.put_on_record
    patch.setattr("onceq.core.transaction.xa_branch.put_on_record", put_on_record)


ROW_MISTAKES: dict[str, Mistake] = {
    "row: fulfilled early": Mistake(0, fulfilled_early, ONE_OUTCOME),
    "row: lost taken for refused": Mistake(0, lost_taken_for_refused, ONE_OUTCOME),
    "row: no fence": Mistake(0, no_fence, ONE_OUTCOME),
    "row: settled unasked": Mistake(0, settled_unasked, ONE_OUTCOME),
    "row: removed early": Mistake(0, rows_removed_early, ONE_OUTCOME, first=1320),
    "row: others told before it": Mistake(0, told_before_the_row, ONE_OUTCOME),
    "row: others undone": Mistake(0, others_undone, ONE_OUTCOME),
    "row: set back unnoticed": Mistake(0, set_back_unnoticed, ONE_OUTCOME),
}
