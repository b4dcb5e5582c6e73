"""Recovery where a database is the last agent: branches of the manager get what its rows say.

A round asks the manager which of its prepared branches are decided by a row, and then the database
of each, unless its application is at work. The answer is for ever (``Agent.settle``), so whoever
asks at the same time hears the same, and a branch that is not there any more was told before.

Upholds: I21; XTX-5, XTX-14.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from onceq.errors import PartnerLost, UnknownBranch
from onceq.model.views.branches import BranchView
from onceq.model.xid import Xid
from onceq.partners.driving import Calls
from onceq.partners.last_agent import Agent, row_of


class Promiser(Protocol):
    """The queue manager whose branches rows decide, as recovery needs it."""

    def promises(self) -> Sequence[BranchView]:
        """Its prepared branches that rows decide."""

    def commit(self, xid: Xid) -> None:
        """Raises UnknownBranch if it is over."""

    def rollback(self, xid: Xid) -> None:
        """Raises UnknownBranch if it is over."""


class Settled(Protocol):
    """Where is noted what a round has done; see ``recovery.Report``."""

    committed: list[tuple[str, Xid]]
    rolled_back: list[tuple[str, Xid]]
    at_work: list[tuple[str, Xid]]


def promises_in(views: Sequence[BranchView]) -> list[BranchView]:
    """Of all branches those that are prepared and that a row decides."""
    return [view for view in views if view.agent and view.phase == "prepared"]


def settle(
    promiser: Promiser, agent: Agent, name: str, found: Sequence[BranchView], report: Settled, *,
    dry_run: bool,
) -> Calls[None]:  # fmt: skip
    """Bring the branches that rows of one database decide to their outcome.

    Raises:
        PartnerLost: That of one could not be found out yet; the others have theirs.
    """
    stuck: list[PartnerLost] = []
    for view in found:
        xid = Xid.parse(view.xid)
        if view.agent != name:
            continue
        if view.at_work:
            report.at_work.append((name, xid))
            continue
        if dry_run:
            stuck.append(PartnerLost("asking decides, so a dry run does not"))
            continue
        try:
            committed = yield partial(agent.settle, row_of(xid, view.number))
        except PartnerLost as error:
            # One whose commit may be under way does not keep the others waiting.
            stuck.append(error)
            continue
        try:
            yield partial(promiser.commit if committed else promiser.rollback, xid)
        except UnknownBranch:
            continue  # Whoever was at work has done it meanwhile.
        (report.committed if committed else report.rolled_back).append((name, xid))
    if stuck:
        raise stuck[0]
