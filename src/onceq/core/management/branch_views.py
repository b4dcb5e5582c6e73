"""Branches and decisions, as operators and coordinators see them."""

from __future__ import annotations

from onceq.core.step.step import Desk, Transaction
from onceq.model.branch import BranchView, DecisionView, GroupView


def branches(desk: Desk) -> tuple[BranchView, ...]:
    """Every branch: at work, ended, prepared, and decided by hand."""
    found = [_view(desk, tx) for tx in desk.branches.values()]
    found += [
        BranchView(str(b.xid), b.by_hand.value, b.prepared_s, 0, 0, 0, (), ())
        for b in desk.state.branches
        if b.by_hand is not None
    ]
    return tuple(found)


def _view(desk: Desk, tx: Transaction) -> BranchView:
    branch = desk.state.branches.get(tx.xid) if tx.xid is not None else None
    holders = [desk.state.holders.get(held.holder) for held in tx.receives]
    titles = dict.fromkeys(getattr(holder, "title", "") for holder in holders if holder)
    return BranchView(
        xid=str(tx.xid),
        phase=tx.phase.value,
        since=branch.prepared_s if branch is not None else tx.began_s,
        messages=sum(len(p.item.bodies) for p in tx.sends),
        bytes=sum(p.written.bytes if p.written else len(p.item.bodies.data) for p in tx.sends),
        received=sum(held.count for held in tx.receives),
        queues=tuple(titles),
        destinations=tuple(dict.fromkeys(p.item.destination for p in tx.sends)),
    )


def decisions(desk: Desk) -> tuple[DecisionView, ...]:
    """Commits that partners are still to be told of."""
    return tuple(
        DecisionView(gtrid.decode("ascii", "backslashreplace"), made.partners, made.at_s)
        for gtrid, made in desk.state.branches.decisions.items()
    )


def groups(desk: Desk) -> tuple[GroupView, ...]:
    """Applications that commit groups of branches, those that did so last first."""
    branches = desk.state.branches
    found = [
        GroupView(app, group.query, group.version, group.at_s, len(branches.of_group(group.prefix)))
        for app, group in desk.state.groups
    ]
    return tuple(reversed(found))
