"""Branches, decisions and groups, as operators and coordinators see them.

An actor that may not look at the whole queue manager sees its own decisions and groups. Of a branch
that it may not decide it sees the existence, and nothing of its work: recovery takes a branch that
is not in the list for one that is over, and forgets the decision about it. A branch that was hidden
because a right was taken away would be rolled back then, although its transaction is committed.

Upholds: I21, I28.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from onceq.core.management.paging import Listing, Order
from onceq.core.rights.demands import MONITOR, to_decide
from onceq.core.rights.judge import may
from onceq.core.state.branch_table import Group
from onceq.core.step.step import Step
from onceq.core.step.units import Transaction
from onceq.model.requests import Look
from onceq.model.views.managers import TransactionView
from onceq.model.views.view import copy_by_name
from onceq.model.views.work import BranchView, DecisionView, GroupView
from onceq.model.xid import agent_of


def branches(step: Step, owner: int) -> list[BranchView]:
    """Return every branch: at work, ended, prepared, and decided by hand."""
    whole = may(step, owner, (MONITOR,))
    found = [
        _view(step, tx) if whole or may(step, owner, to_decide(step, owner, tx))
        else _that_it_is_there(_view(step, tx))
        for tx in step.units.branches.values()
    ]  # fmt: skip
    found += [
        BranchView(
            xid=str(b.xid),
            phase=b.by_hand.value,
            since=b.prepared_s,
            messages=0,
            bytes=0,
            received=0,
            queues=(),
            destinations=(),
            number=b.number,
            agent=agent_of(b.xid),
            at_work=False,
        )
        for b in step.state.branches
        if b.by_hand is not None
    ]
    return found


def _that_it_is_there(view: BranchView) -> BranchView:
    return replace(view, messages=0, bytes=0, received=0, queues=(), destinations=())


def _view(step: Step, tx: Transaction) -> BranchView:
    branch = step.state.branches.get(tx.xid) if tx.xid is not None else None
    found = [step.state.all_queues.get(held.queue) for held in tx.receives]
    titles = dict.fromkeys(getattr(queue, "title", "") for queue in found if queue)
    return BranchView(
        xid=str(tx.xid),
        phase=tx.phase.value,
        since=branch.prepared_s if branch is not None else tx.began_s,
        messages=sum(len(p.item.bodies) for p in tx.sends),
        bytes=sum(p.written.bytes if p.written else len(p.item.bodies.data) for p in tx.sends),
        received=sum(held.count for held in tx.receives),
        queues=tuple(titles),
        destinations=tuple(dict.fromkeys(p.item.destination for p in tx.sends)),
        number=tx.branch,
        agent=agent_of(tx.xid) if tx.xid is not None else "",
        at_work=tx.xid is not None and tx.xid.gtrid in step.units.telling,
    )


def decisions(step: Step, owner: int) -> list[DecisionView]:
    """Return commits that partners have still to learn."""
    whole, own = may(step, owner, (MONITOR,)), step.known_by(owner)
    return [
        DecisionView(
            gtrid=gtrid.decode("ascii", "backslashreplace"),
            since=made.at_s,
            partners=made.partners,
        )
        for gtrid, made in step.state.branches.decisions.items()
        if whole or made.by == own
    ]


def _group_view(step: Step, one: tuple[str, Group]) -> GroupView:
    app, group = one
    left = sum(one.by == group.by for one in step.state.branches.of_group(group.prefix))
    return copy_by_name(GroupView, group, app=app, since=group.at_s, left=left)


def _own_groups(step: Step, item: Look) -> Callable[[tuple[str, Group]], bool]:
    whole, own = may(step, item.owner, (MONITOR,)), step.known_by(item.owner)
    return lambda one: whole or one[1].by == own


GROUPS: Final[Listing[tuple[str, Group], GroupView]] = Listing(
    lambda step, item: list(step.state.groups),
    _group_view,
    {"name": Order(lambda step, one: (one[0],), (str,))},
    _own_groups,
)
"""Applications that commit groups of branches."""


def _own_transactions(step: Step, item: Look) -> Callable[[Transaction], bool]:
    whole, own = may(step, item.owner, (MONITOR,)), step.known_by(item.owner)
    return lambda one: whole or step.known_by(one.owner) == own


TRANSACTIONS: Final[Listing[Transaction, TransactionView]] = Listing(
    lambda step, item: list(step.units.transactions.values()),
    lambda step, tx: copy_by_name(
        TransactionView, tx, sent=sum(len(p.item.bodies) for p in tx.sends),
        received=sum(move.count for move in tx.receives),
        who=str(step.actors.get(tx.owner, "")), place=step.places.get(tx.owner, ""),
    ),
    {"number": Order(lambda step, tx: (tx.owner, tx.number), (int, int))},
    _own_transactions,
)  # fmt: skip
"""Transactions that are open."""
