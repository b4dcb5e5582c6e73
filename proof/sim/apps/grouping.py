"""Groups of branches in simulated worlds: prepared one after another, committed as one, once.

An application does what a job of Spark does: it prepares some branches, has them committed as one
under a name and a version, and asks again until it is heard; an attempt that breaks is given up and
made again. Now and then it writes a version a second time, as after a crash of its own: none of
that may ever be seen.

Watches: I2 (all branches or none), I3, I4 (a version once), I5, I20, I21.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from onceq.errors import GroupIncomplete
from onceq.model.branches import TAG_BYTES, Xid, group_prefix, group_xid
from onceq.model.requests import (
    BeginAttempt,
    CommitGroup,
    PrepareBranch,
    Request,
    RollbackGroup,
    StartBranch,
)
from onceq.model.results import Outcome
from onceq.model.settings import Settings
from onceq.model.views.looks import GroupResult
from proof.sim.apps.apps import App, Ask, Lost, Program, Sleep
from proof.sim.apps.work import Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import MINUTE, SECOND
from proof.sim.judge.books import Status, Unit

SHARE = 0.04
"""Share of units of work that are groups."""
SOON_US = Settings().undecided_s * SECOND // 2
"""Within this time no promise may be gone, by any clock of the manager."""


@dataclass(slots=True)
class Attempt:
    """Branches of one version: their units of work, in order."""

    prefix: bytes
    began_us: int
    units: list[Unit] = field(default_factory=list)
    xids: list[Xid] = field(default_factory=list)


class Grouping:
    """Programs of applications that commit groups."""

    def __init__(self, kernel: Kernel, work: Work, *, apart: bool) -> None:
        self.kernel, self.work, self.ledger = kernel, work, work.ledger
        self._apart = apart
        self.rng = kernel.stream("groups")
        self._count = 0
        self._attempts = 0

    def wanted(self) -> bool:
        """Whether the next unit of work is a group."""
        return self.rng.random() < SHARE and not self._apart

    def group(self, app: App) -> Program:
        """Some versions, each until it is heard that it is committed; and some of them again."""
        self._count += 1
        number = self._count
        for version in range(self.rng.choice([1, 1, 2])):
            done = False
            while not done:
                made = yield from self._attempt(app, number, version)
                if made is not None:
                    wait_us = self.rng.choice([0, SECOND, MINUTE, 10 * MINUTE])
                    yield from self.work.pass_time(wait_us)
                    done = yield from self._commit(app, number, version, made)
            if self.rng.random() < 0.4:
                made = yield from self._attempt(app, number, version)
                if made is not None:
                    yield from self._repeat(number, version, made)

    # ---- an attempt -----------------------------------------------------------------------

    def _attempt(
        self, app: App, number: int, version: int
    ) -> Generator[Ask | Sleep, Any, Attempt | None]:
        """Prepare some branches; None: something broke, and all of it was given up."""
        self._attempts += 1
        tag = number.to_bytes(4, "big") + version.to_bytes(2, "big")
        made = Attempt(group_prefix(app.node.guid, tag), self.kernel.now)
        asked = BeginAttempt(made.prefix, drawn=self._attempts.to_bytes(TAG_BYTES, "big"))
        try:
            gtrid = yield Ask(asked)
            for task in range(self.rng.choice([1, 2, 3])):
                unit = self.ledger.unit(app.node.index)
                made.units.append(unit)
                xid = group_xid(gtrid, str(task))
                if (yield from self._branch(app, unit, xid)):
                    made.xids.append(xid)
                else:
                    made.units.pop()
        except Lost:
            yield from self._give_up(made)
            return None
        return made

    def _branch(self, app: App, unit: Unit, xid: Xid) -> Generator[Ask | Sleep, Any, bool]:
        number = app.number()
        yield Ask(StartBranch(number, xid))
        for _ in range(self.rng.choice([1, 1, 3])):
            yield from self.work.send(app.node, unit, number)
        return self.work.promised(unit, (yield Ask(PrepareBranch(xid, number))))

    def _give_up(self, made: Attempt) -> Program:
        """What of it is prepared is rolled back, also where the answer to prepare was lost."""
        for unit in made.units:
            self.ledger.doubt(unit)
        yield from self._ask(RollbackGroup(made.prefix), int)
        for unit in made.units:
            self.ledger.resolved(unit, Outcome.ABORTED)

    # ---- its end --------------------------------------------------------------------------

    def _commit(
        self, app: App, number: int, version: int, made: Attempt
    ) -> Generator[Ask | Sleep, Any, bool]:
        """Until it is heard; False: time has undone it."""
        asked = [0]

        def going() -> None:
            asked[0] += 1
            for unit in made.units:
                unit.vague = unit.vague or unit.status is not Status.OPEN
                self.ledger.ask(unit)

        life = app.node.life
        answer = yield from self._ask(
            _commit(number, version, made), (GroupResult, GroupIncomplete), going
        )
        if isinstance(answer, GroupIncomplete):
            if self.kernel.now - made.began_us < SOON_US:
                self.kernel.wrong(f"I20: a promise was forgotten: {answer.text}")
            yield from self._give_up(made)
            return False
        if answer.already and asked[0] == 1:
            self.kernel.wrong(f"I4: version {version} was committed before, by nobody")
        if answer.already:
            self.kernel.marks[marks.GROUP_FOUND_DONE] += 1
        if app.node.life != life:
            self.kernel.marks[marks.GROUP_KEPT] += 1
        for unit in made.units:
            self.ledger.committed(unit)
        return True

    def _repeat(self, number: int, version: int, made: Attempt) -> Program:
        """It was committed: no later request may ever show anything of this attempt."""
        answer = yield from self._ask(_commit(number, version, made), GroupResult)
        if not answer.already:
            self.kernel.wrong(f"I4: version {version} was committed a second time")
        self.kernel.marks[marks.GROUP_TWICE] += 1
        for unit in made.units:
            self.ledger.aborted(unit)

    def _ask(
        self, request: Request, kinds: Any, asked: Callable[[], None] | None = None
    ) -> Generator[Ask | Sleep, Any, Any]:
        """Ask until there is an answer, of one of these kinds."""
        while True:
            try:
                answer = yield Ask(request, asked)
            except Lost:
                yield from self.work.pass_time(self.rng.choice([SECOND, MINUTE]))
                continue
            if not isinstance(answer, kinds):
                self.kernel.wrong(f"I20: a group was told its outcome: {answer!r}")
            return answer


def _commit(number: int, version: int, made: Attempt) -> CommitGroup:
    return CommitGroup(f"job {number}", "", version, made.prefix, tuple(made.xids))
