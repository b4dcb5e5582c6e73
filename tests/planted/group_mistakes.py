"""Mistakes in groups of branches, as patches (programme P15); see ``mistakes.py``.

What a cut between the records of a group does is found by ``tests/crash/test_groups.py``.
"""

from __future__ import annotations

import pytest

from onceq.core.state.branch_table import GroupTable
from onceq.core.step.step import Step
from onceq.core.step.units import OpenTransaction
from onceq.core.transaction import second_phase
from onceq.core.transaction.second_phase import carry_out as carry_out_promised
from onceq.core.transaction.second_phase import undo_promised
from onceq.model.results import Sent
from tests.planted.mistakes import Mistake


def written_twice(patch: pytest.MonkeyPatch) -> None:
    """27: nobody remembers which version was committed."""
    patch.setattr(GroupTable, "get", lambda self, app: None)


def by_half(patch: pytest.MonkeyPatch) -> None:
    """The last of several branches is left out, and nobody hears of it."""

    several = False

    def carry_out(step: Step, tx: OpenTransaction) -> Sent:
        nonlocal several
        if len(step.state.groups.pending) > 1:
            several = True
        elif several:
            several = False
            undo_promised(step, tx)
            return Sent()
        return original(step, tx)

    original = carry_out_promised
    patch.setattr(second_phase, "carry_out", carry_out)


GROUP_MISTAKES: dict[str, Mistake] = {
    "batch written twice": Mistake(27, written_twice, frozenset({"I4", "I3", "I20"})),
    "group by half": Mistake(0, by_half, frozenset({"I1", "I1 or I12", "I12", "I20"})),
}
