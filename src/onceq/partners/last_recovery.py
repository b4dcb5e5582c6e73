"""Recovery where a database is the last agent: branches of the manager get what its rows say.

A round asks the manager which of its prepared branches are decided by a row, and then the database
of each, unless its application is at work. The answer is for ever (``Agent.settle``), so whoever
asks at the same time hears the same, and a branch that is not there any more was told before.

Before that it is looked whether the database still has the rows that the manager has seen. If not
it was set back, and nothing is decided by what it lacks. What was seen holds for one connection: a
database is set back while nobody is connected. So it is looked again when a call was lost, before
the next branch is decided. Afterwards the database is given a note that is younger than all rows
that were found, and these are removed: the next time it is the note that must be there.

Upholds: I21; XTX-5, XTX-14.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from onceq.errors import AccessDenied, DatabaseRestored, OnceqError, PartnerLost, UnknownBranch
from onceq.model.requests.xa import ROWS_MISSING
from onceq.model.views.work import BranchView, RowsView
from onceq.model.xid import Xid
from onceq.partners.driving import Calls
from onceq.partners.last_agent import Agent, Counts, row_of


class Rows(Protocol):
    """What tells which rows a queue manager has seen."""

    def rows(self, agent: str, found: int = 0) -> Any:
        """What rows of a database it has seen: ``RowsView`` (``AskRows``)."""


class Promiser(Rows, Protocol):
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
    promiser: Promiser, manager: str, agent: Agent, name: str, found: Sequence[BranchView],
    report: Settled, *, dry_run: bool,
) -> Calls[RowsView]:  # fmt: skip
    """Bring the branches that rows of one database decide to their outcome.

    Returns:
        What must be there, and is; see ``look_for_rows``.

    Raises:
        PartnerLost: That of one could not be found out yet; the others have theirs.
        AccessDenied: One is not for this application to decide; the others have theirs.
        DatabaseRestored: See ``look_for_rows``.
    """
    seen = yield from look_for_rows(promiser, manager, agent, name)
    stuck: list[OnceqError] = []
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
            yield from look_for_rows(promiser, manager, agent, name)
            continue
        try:
            yield partial(promiser.commit if committed else promiser.rollback, xid)
        except UnknownBranch:
            continue  # Whoever was at work has done it meanwhile.
        except AccessDenied as error:
            stuck.append(error)  # Its own application brings it to its outcome, or an operator.
            continue
        (report.committed if committed else report.rolled_back).append((name, xid))
    if stuck:
        raise stuck[0]
    return seen


def look_for_rows(asked: Rows, manager: str, agent: Counts, name: str) -> Calls[RowsView]:
    """See whether the rows are there that must be; returns which these were.

    Raises:
        DatabaseRestored: They are not.
    """
    while True:
        view: RowsView = yield partial(asked.rows, name)
        if not (view.kept or view.mark):
            return view
        upto = max(view.kept, view.mark)
        unsure = (*view.open, *view.late)
        found = yield partial(agent.count, manager, view.kept, upto, unsure, view.late, view.note)
        if found >= view.count:
            return view
        again: RowsView = yield partial(asked.rows, name)
        # Whoever recovers beside this one may have written a later note, and removed rows.
        if again.kept == view.kept and again.mark >= view.mark:
            # The manager keeps it, so that applications in other processes hear of it, too.
            yield partial(asked.rows, name, ROWS_MISSING)
            raise restored(name, upto)


def restored(name: str, upto: int) -> DatabaseRestored:
    """What a database is told to be that lacks rows.

    Args:
        upto: Number of the last row that was looked for.
    """
    return DatabaseRestored(
        f"{name} has not all rows of decisions that this queue manager has seen, up to number "
        f"{upto}: it was set back to an earlier state, or the queue manager was"
    )


def look_before_work(asked: Rows, manager: str, last: Counts, name: str) -> Calls[None]:
    """See, over the connection that is to work, whether its database has all rows that it must.

    A connection is to one database, but the next connection of an application may be to another
    server: a standby that was promoted may lack the last commits of the server before it.

    Raises:
        DatabaseRestored: It has not, or somebody has found that before and no operator has accepted
            the database since.
    """
    view: RowsView = yield partial(asked.rows, name)
    if view.missing:
        raise restored(name, max(view.kept, view.mark))
    yield from look_for_rows(asked, manager, last, name)


def remove_rows(promiser: Promiser, manager: str, agent: Agent, view: RowsView) -> Calls[None]:
    """Note what was found, and remove what nobody needs any more; ``view``: what was found."""
    if not view.mark:
        if view.missing:  # They are there again.
            yield partial(promiser.rows, view.agent, view.kept)
        return
    yield partial(agent.note, manager, view.mark)
    now: RowsView = yield partial(promiser.rows, view.agent, view.mark)
    # Whoever recovers beside this one may look for more; he needs these until he has found them.
    if now.kept >= view.mark:
        yield partial(agent.remove, manager, view.mark, sorted({*view.open, *now.open, *now.late}))
