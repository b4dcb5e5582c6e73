"""Applications in simulated worlds that live on and forget a transaction.

After ``transaction_idle_s`` it is undone: what it took may be anybody's, and its commit must be
refused, with the reason. Between the last thing that it did and that refusal nobody outside can
say when it ended, so the books hold it for doubtful all the while.

Watches: I2, I3a, I16.
"""

from __future__ import annotations

from onceq.core.step.units import REFUSED_MAX
from onceq.errors import RolledBackByTime, TransactionOver
from onceq.model.requests import Begin, Commit
from onceq.model.results import Outcome
from proof.sim.apps.apps import App, Ask, Lost, Program, Sleep
from proof.sim.apps.work import Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import IDLE_US
from proof.sim.judge.books import Status

SHARE = 0.01
"""Share of units of work that are forgotten."""
ASLEEP_US = 2 * IDLE_US
"""Surely long enough, by any clock of the manager, and although it may stand still."""


def wanted(kernel: Kernel) -> bool:
    """Whether the next unit of work is one of these."""
    return kernel.stream("forgetful").random() < SHARE


def leave_idle(kernel: Kernel, work: Work, app: App) -> Program:
    """Begin, take and send something, and come back when it is too late."""
    ledger = work.ledger
    unit = ledger.unit(app.node.index)
    number = app.number()
    try:
        yield Ask(Begin(number))
        yield from work.receive(app.node, unit, number)
        yield from work.send(app.node, unit, number)
        ledger.doubt(unit)
        yield Sleep(ASLEEP_US)
        answer = yield Ask(Commit(number, ()))
    except Lost:
        if unit.status is not Status.DOUBT:
            ledger.doubt(unit)
    else:
        if isinstance(answer, RolledBackByTime):
            kernel.marks[marks.FORGOTTEN] += 1
        elif not (isinstance(answer, TransactionOver) and kernel.scale.REFUSED_MAX < REFUSED_MAX):
            # Where few reasons are kept, a later one may have taken its place.
            kernel.wrong(f"I16: a forgotten transaction was told of its commit: {answer!r}")
    unit.told = Outcome.ABORTED
    ledger.aborted(unit)
