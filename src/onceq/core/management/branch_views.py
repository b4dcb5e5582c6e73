"""Branches and decisions, as operators and coordinators see them."""

from __future__ import annotations

from onceq.core.step.step import Step
from onceq.core.step.units import Transaction
from onceq.model.views.branches import BranchView, DecisionView, GroupView
from onceq.model.xid import agent_of


def branches(step: Step) -> list[BranchView]:
    """Every branch: at work, ended, prepared, and decided by hand."""
    found = [_view(step, tx) for tx in step.units.branches.values()]
    found += [
        BranchView(
            str(b.xid),
            b.by_hand.value,
            b.prepared_s,
            0,
            0,
            0,
            (),
            (),
            b.number,
            agent_of(b.xid),
            False,
        )
        for b in step.state.branches
        if b.by_hand is not None
    ]
    return found


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


def decisions(step: Step) -> list[DecisionView]:
    """Commits that partners are still to be told of."""
    return [
        DecisionView(gtrid.decode("ascii", "backslashreplace"), made.partners, made.at_s)
        for gtrid, made in step.state.branches.decisions.items()
    ]


def groups(step: Step) -> list[GroupView]:
    """Applications that commit groups of branches, those that did so last first."""
    branches = step.state.branches
    found = [
        GroupView(app, group.query, group.version, group.at_s, len(branches.of_group(group.prefix)))
        for app, group in step.state.groups
    ]
    return found[::-1]
