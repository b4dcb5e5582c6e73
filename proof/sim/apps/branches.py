"""Branches of external transactions in simulated worlds: prepared, left in doubt, and decided.

The coordinator is the books: what it has decided it never forgets, and tells until it is heard. A
branch that has promised keeps what it holds through every crash; that nobody else gets it meanwhile
is what the books watch anyway (I16), and that it commits when it is told to is watched here.

Watches: I20 (a promise is kept), I21 (the outcome is the coordinator's), I2, I3, I16.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from onceq.errors import OnceqError, UnknownBranch
from onceq.model.branches import Leave, Xid
from onceq.model.requests import (
    CommitBranch,
    EndBranch,
    PrepareBranch,
    Request,
    RollbackBranch,
    StartBranch,
)
from onceq.model.results import Outcome, Sent
from proof.sim.apps.apps import App, Ask, Lost, Program, Sleep
from proof.sim.apps.work import Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import MINUTE, SECOND
from proof.sim.judge.books import Status, Unit


class Branching:
    """Programs of applications that work in branches."""

    def __init__(self, kernel: Kernel, work: Work) -> None:
        self.kernel, self.work, self.ledger = kernel, work, work.ledger
        self.rng = kernel.stream("branches")
        self._count = 0

    def wanted(self) -> bool:
        """Whether the next unit of work is a branch."""
        return self.rng.random() < self.kernel.options.branches

    def branch(self, app: App) -> Program:
        """Work in a branch, prepare it, then carry out what the coordinator decides."""
        self._count += 1
        xid = Xid(7, b"world", b"%d" % self._count)
        unit = self.ledger.unit(app.node.index)
        number = app.number()
        asked = [False]
        try:
            promised = yield from self._promise(app, unit, number, xid, asked)
        except Lost:
            if unit.status is Status.OPEN and not asked[0]:
                self.ledger.aborted(unit)
                return
            # The answer to prepare was lost: the coordinator counts that as a vote against.
            self.ledger.doubt(unit)
            yield from self._tell(xid, RollbackBranch(xid), first=False)
            self.ledger.resolved(unit, Outcome.ABORTED)
            return
        if not promised:
            return
        life = app.node.life
        wait_us = self.rng.choice([0, SECOND, MINUTE, 30 * MINUTE])
        yield from self.work.pass_time(wait_us)
        commit = self.rng.random() < 0.7
        if commit:
            yield from self._tell(xid, CommitBranch(xid), lambda: self._ask(unit))
            self.ledger.committed(unit)
        else:
            # From when it is asked for until it is heard, what it held may be anybody's.
            yield from self._tell(
                xid, RollbackBranch(xid),
                lost=lambda: self.ledger.doubt(unit) if unit.status is Status.OPEN else None,
            )  # fmt: skip
            if unit.status is Status.DOUBT:
                self.ledger.resolved(unit, Outcome.ABORTED)
            else:
                self.ledger.aborted(unit)
        if app.node.life != life:
            self.kernel.marks[marks.PROMISE_KEPT] += 1

    def _ask(self, unit: Unit) -> None:
        if unit.status is not Status.OPEN:
            unit.vague = True  # asked again: nobody knows which of the two it was
        self.ledger.ask(unit)

    def _promise(
        self, app: App, unit: Unit, number: int, xid: Xid, asked: list[bool]
    ) -> Generator[Ask | Sleep, Any, bool]:
        """Do the work and prepare; returns whether anything is to be decided."""
        rng, work = self.rng, self.work
        yield Ask(StartBranch(number, xid))
        for _ in range(rng.choice([0, 1, 1, 2])):
            yield from work.receive(app.node, unit, number)
        for _ in range(rng.choice([0, 1, 1, 3])):
            yield from work.send(app.node, unit, number)
        if rng.random() < 0.2:
            yield Ask(EndBranch(number, xid, Leave.FAIL))
            yield Ask(RollbackBranch(xid))
            self.ledger.aborted(unit)
            return False
        if rng.random() < 0.5:
            yield Ask(EndBranch(number, xid))
            number = 0

        def going() -> None:
            asked[0] = True

        return work.promised(unit, (yield Ask(PrepareBranch(xid, number), going)))

    def _tell(
        self, xid: Xid, request: Request, asked: Callable[[], None] | None = None, *,
        first: bool = True, lost: Callable[[], None] | None = None,
    ) -> Program:  # fmt: skip
        """Tell the outcome until it is heard. An answer that there is no such branch means that it
        was heard before: so the first telling may not get it."""
        while True:
            try:
                answer = yield Ask(request, asked)
            except Lost as broken:
                first = first and not broken.asked
                if broken.asked and lost is not None:
                    lost()
                while True:
                    try:
                        yield Sleep(self.rng.choice([SECOND, MINUTE]))
                    except Lost:
                        continue
                    break
                continue
            if isinstance(answer, UnknownBranch) and not first:
                return
            if isinstance(answer, OnceqError) or not (answer is None or isinstance(answer, Sent)):
                self.kernel.wrong(f"I20: prepared branch {xid} was told its outcome: {answer!r}")
            return
