"""Transactions: open, prepared, in doubt, decided; and to decide one by hand.

Each line says what can safely be done. To decide by hand is the last resort: nobody asks the
coordinator, and if that decides otherwise, the partners differ for ever. The manager keeps the
decision until it is told to forget it (XTX-8).
"""

from __future__ import annotations

from onceq.client.tasks.manager import AsyncQueueManager
from onceq.client.why import branch_advice
from onceq.console.given import Given
from onceq.console.reading import Told, may
from onceq.errors import InvalidParameter, UnknownBranch, UsageError
from onceq.model.identity import guid_bytes
from onceq.model.rights import Right
from onceq.model.views.work import BranchView
from onceq.model.xid import Xid

OUTCOMES = ("commit", "abort")


async def transactions(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """Transactions at work, branches with what can be done about each, and decisions of which
    partners are still to be told; the oldest first."""
    branches = sorted(await qm.branches(), key=lambda one: (one.since, one.xid))
    open_ = sorted(await qm.transactions(), key=lambda one: (one.began, one.owner, one.number))
    here = guid_bytes(qm.id)
    return {
        "transactions": [one.as_dict() for one in open_],
        "branches": [{**one.as_dict(), "advice": branch_advice(one, here)} for one in branches],
        "decisions": [one.as_dict() for one in await qm.decisions()],
        "may_act": await may(qm, Right.OPERATE),
    }


async def branch_of(qm: AsyncQueueManager, given: Given) -> BranchView:
    """The branch that a request names; raises UnknownBranch, InvalidParameter."""
    text = given.text("branch", needed=True)
    wanted = str(Xid.parse(text))
    for view in await qm.branches():
        if view.xid == wanted:
            return view
    raise UnknownBranch(f"there is no branch {text} here any more")


async def preview_decision(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """What ``transactions/decide`` would do; nothing is changed."""
    outcome = given.text("outcome", needed=True)
    if outcome not in OUTCOMES:
        raise InvalidParameter(f"outcome is one of {', '.join(OUTCOMES)}, and not {outcome!r}")
    view = await branch_of(qm, given)
    if view.phase != "prepared":
        raise UsageError(f"branch {view.xid} is {view.phase}: only a prepared one is decided")
    told = {**view.as_dict(), "advice": branch_advice(view, guid_bytes(qm.id))}
    return {"branch": told, "outcome": outcome, "dry_run": True}


async def decide(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """Commit a prepared branch by hand, or roll it back."""
    told = await preview_decision(qm, given, now_s)
    if given.flag("dry_run"):
        return told
    xid = Xid.parse(told["branch"]["xid"])
    if told["outcome"] == "commit":
        await qm.xa.commit(xid, by_hand=True)
    else:
        await qm.xa.rollback(xid, by_hand=True)
    return {**told, "dry_run": False}


async def forget(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """Drop the memory of a branch that was decided by hand, once all partners were compared."""
    view = await branch_of(qm, given)
    if not view.phase.endswith("by hand"):
        raise UsageError(f"branch {view.xid} is {view.phase}: only one that was decided by hand "
                         "is forgotten")  # fmt: skip
    await qm.xa.forget(Xid.parse(view.xid))
    return {"branch": view.as_dict(), "forgotten": True}
