"""Partners of a transaction: the steps of its commit, carried out from threads and from tasks.

What is done in which order is decided in ``partners/deciding.py``; here is only who does it.

Upholds: I21.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from onceq.model.branch import Vote
from onceq.model.xid import Xid
from onceq.partners.contract import AnyPartner
from onceq.partners.deciding import Made, Step, Steps, What
from onceq.partners.driving import drive


async def settled(result: Any) -> Any:
    """What a verb of a partner gives, whether it is awaited or not."""
    return await result if inspect.isawaitable(result) else result


class Partners:
    """Those of one transaction, in the order in which they were enlisted."""

    def __init__(self) -> None:
        self._all: list[tuple[AnyPartner, Xid]] = []
        self.open = True
        """Whether they may still be rolled back from here."""
        self._over: set[int] = set()
        """Those that have voted read-only: they are told nothing more."""

    def __len__(self) -> int:
        return len(self._all)

    def add(self, partner: AnyPartner, xid: Xid) -> None:
        """It is at work from now on."""
        self._all.append((partner, xid))

    def names(self, pending: list[tuple[int, BaseException]]) -> list[str]:
        """Those that are still to be told of the decision."""
        return [self._all[index][0].name for index, _ in pending]

    def heard(self, step: Step, result: Any) -> None:
        """What a partner has answered."""
        if step.what is What.PREPARE and result is Vote.READ_ONLY:
            self._over.add(step.partner)

    def _left(self) -> list[tuple[AnyPartner, Xid]]:
        return [pair for index, pair in enumerate(self._all) if index not in self._over]

    def verb(self, step: Step) -> Callable[[], Any]:
        """What a step asks of a partner."""
        partner, xid = self._all[step.partner]
        call = getattr(partner, step.what.value)
        return lambda: call(xid)

    def abandon(self, indices: Iterable[int] | None = None) -> None:
        """Cut the connections of those (or all) whose outcome will come from recovery: some
        databases let nobody else end a branch whose own connection lives."""
        for index, (partner, _) in enumerate(self._all):
            if indices is None or index in set(indices):
                with contextlib.suppress(Exception):
                    partner.abandon()

    def rollback(self) -> None:
        """Undo all of them, once."""
        if self.open:
            self.open = False
            for partner, xid in self._left():
                with contextlib.suppress(Exception):  # Presumed abort: recovery will do it.
                    partner.rollback(xid)

    async def rollback_async(self) -> None:
        """Undo all of them, once."""
        if self.open:
            self.open = False
            for partner, xid in self._left():
                with contextlib.suppress(Exception):
                    await settled(partner.rollback(xid))


def carry_out(steps: Steps, partners: Partners, home: Callable[[What], Any]) -> Made:
    """Do all steps from a thread.

    Args:
        home: Does those of the home manager: DECIDE and DONE.
    """

    def do(step: Step) -> Any:
        result = home(step.what) if step.partner < 0 else partners.verb(step)()
        partners.heard(step, result)
        return result

    return drive(steps, do)


async def carry_out_async(
    steps: Steps, partners: Partners, home: Callable[[What], Awaitable[Any]]
) -> Made:
    """Do all steps from a task."""
    try:
        step = next(steps)
        while True:
            try:
                if step.partner < 0:
                    result = await home(step.what)
                else:
                    result = await settled(partners.verb(step)())
                    partners.heard(step, result)
            except Exception as error:  # noqa: BLE001 - the steps see every error
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as stop:
        made: Made = stop.value
        return made
