"""Recovery where a database is the last agent: branches of the manager get what its rows say.

A round asks the manager which of its prepared branches are decided by a row, and then the database
of each, unless its application is at work. The answer is for ever (``Agent.settle``), so whoever
asks at the same time hears the same, and a branch that is not there any more was told before.

Before that it is looked whether the database still has the rows that the manager has seen. If not
it was set back, and nothing is decided by what it lacks. Afterwards those that nobody needs any
more are removed: all before one that is kept to be looked for the next time.

Upholds: I21; XTX-5, XTX-14.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from onceq.errors import DatabaseRestored, PartnerLost, UnknownBranch
from onceq.model.views.branches import BranchView, RowsView
from onceq.model.xid import Xid
from onceq.partners.driving import Calls
from onceq.partners.last_agent import Agent, row_of


class Promiser(Protocol):
    """The queue manager whose branches rows decide, as recovery needs it."""

    def promises(self) -> Sequence[BranchView]:
        """Its prepared branches that rows decide."""

    def rows(self, agent: str, found: int = 0) -> RowsView:
        """What rows of a database it has seen (``AskRows``)."""

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


def look_for_rows(promiser: Promiser, manager: str, agent: Agent, name: str) -> Calls[RowsView]:
    """See whether the rows are there that must be; returns which these were.

    Raises:
        DatabaseRestored: They are not.
    """
    while True:
        view: RowsView = yield partial(promiser.rows, name)
        if not (view.kept or view.mark):
            return view
        upto = max(view.kept, view.mark)
        found = yield partial(agent.count, manager, view.kept, upto, view.open)
        if found >= view.count:
            return view
        again: RowsView = yield partial(promiser.rows, name)
        # Whoever recovers beside this one may have kept a later row, and removed this one.
        if again.kept == view.kept:
            raise DatabaseRestored(
                f"{name} has not all rows of decisions that this queue manager has seen, up to "
                f"number {upto}: it was set back to an earlier state, or the queue manager was"
            )


def remove_rows(promiser: Promiser, manager: str, agent: Agent, view: RowsView) -> Calls[None]:
    """Remove what nobody needs any more; ``view``: what was found."""
    if not view.mark:
        return
    now: RowsView = yield partial(promiser.rows, view.agent, view.mark)
    # Whoever recovers beside this one may look for more; he needs these until he has found them.
    if now.kept >= view.mark:
        yield partial(agent.remove, manager, view.mark, view.open)
