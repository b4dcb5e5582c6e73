"""What an operator does from the console: pause, resume, try queues; decide transactions by hand.

To decide by hand is the last resort: nobody asks the coordinator, and if that decides otherwise,
the partners differ. The manager keeps the decision until it is told to forget it (XTX-8).
"""

from __future__ import annotations

import json

from onceq.client.properties import SendProperties
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.client.why import branch_advice, why
from onceq.console.form_values import FormValues
from onceq.console.reading import Told, may
from onceq.errors import InvalidParameter, UnknownBranch, UsageError
from onceq.model.branches import Xid
from onceq.model.identity import guid_bytes
from onceq.model.rights import Right
from onceq.model.views.looks import BranchView

FORMS = ("text", "json")
"""What a body is given as."""


async def pause_queue(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Let nobody receive the next message of a queue."""
    return await _queue(qm, given, paused=True)


async def resume_queue(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Let messages of a queue be received again."""
    return await _queue(qm, given, paused=False)


async def _queue(qm: AsyncQueueManager, given: FormValues, *, paused: bool) -> Told:
    name = given.text("queue", needed=True)
    await qm.queue(name)  # of an outgoing queue the way out would be paused
    await (qm.pause(name) if paused else qm.resume(name))
    view = await qm.queue(name)
    return {"queue": view.path, "paused_since": view.paused_since, "why": why(view)}


async def release_queue(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """End the holds that keep others from receiving from a queue."""
    name = given.text("queue", needed=True)
    return {"queue": name, "released": await qm.release_queue(name)}


async def pause_outgoing(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Transmit nothing more to a destination; messages gather, and may expire."""
    return await _outgoing(qm, given, paused=True)


async def resume_outgoing(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Transmit again."""
    return await _outgoing(qm, given, paused=False)


async def _outgoing(qm: AsyncQueueManager, given: FormValues, *, paused: bool) -> Told:
    name = given.text("destination", needed=True)
    await qm.outgoing_queue(name)
    await (qm.pause(name) if paused else qm.resume(name))
    view = await qm.outgoing_queue(name)
    return {
        "destination": view.destination,
        "paused_since": view.paused_since,
        "why": why(view),
    }


async def preview_send(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """What ``queue/send`` would send; nothing is changed.

    Raises:
        InvalidParameter: A value is none that can be sent.
    """
    name = given.text("queue", needed=True)
    view = await qm.queue(name)
    form = given.text("form") or FORMS[0]
    if form not in FORMS:
        raise InvalidParameter(f"form is one of {', '.join(FORMS)}, and not {form[:40]!r}")
    body = given.text("body")
    if form == "json" and "body" in given.values:
        try:
            body = json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":"))
        except ValueError as error:
            raise InvalidParameter(f"the body is no JSON: {error}") from None
    return {
        "queue": view.path,
        "transactional": view.transactional,
        "label": given.text("label"),
        "body": body,
        "body_bytes": len(body.encode()),
        "form": form,
        "delay": given.seconds("delay"),
        "dry_run": True,
    }


async def send(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Send one message to a queue of this queue manager, to try what receives from it."""
    told = await preview_send(qm, given, now_s)
    if given.flag("dry_run"):
        return told
    properties = SendProperties(label=told["label"], delay=told["delay"] or None)
    if told["form"] == "json":
        identifier = await qm.send(
            told["queue"], json=json.loads(told["body"]), transactional=told["transactional"],
            **properties,
        )  # fmt: skip
    else:
        identifier = await qm.send(
            told["queue"], told["body"], transactional=told["transactional"], **properties
        )
    return {**told, "id": str(identifier), "dry_run": False}


OUTCOMES = ("commit", "abort")


async def transactions(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
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


async def branch_of(qm: AsyncQueueManager, given: FormValues) -> BranchView:
    """The branch that a request names; raises UnknownBranch, InvalidParameter."""
    text = given.text("branch", needed=True)
    wanted = str(Xid.parse(text))
    for view in await qm.branches():
        if view.xid == wanted:
            return view
    raise UnknownBranch(f"there is no branch {text} here any more")


async def preview_decision(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """What ``transactions/decide`` would do; nothing is changed."""
    outcome = given.text("outcome", needed=True)
    if outcome not in OUTCOMES:
        raise InvalidParameter(f"outcome is one of {', '.join(OUTCOMES)}, and not {outcome!r}")
    view = await branch_of(qm, given)
    if view.phase != "prepared":
        raise UsageError(f"branch {view.xid} is {view.phase}: only a prepared one is decided")
    told = {**view.as_dict(), "advice": branch_advice(view, guid_bytes(qm.id))}
    return {"branch": told, "outcome": outcome, "dry_run": True}


async def decide(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
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


async def forget(qm: AsyncQueueManager, given: FormValues, now_s: int) -> Told:
    """Drop the memory of a branch that was decided by hand, once all partners were compared."""
    view = await branch_of(qm, given)
    if not view.phase.endswith("by hand"):
        raise UsageError(f"branch {view.xid} is {view.phase}: only one that was decided by hand "
                         "is forgotten")  # fmt: skip
    await qm.xa.forget(Xid.parse(view.xid))
    return {"branch": view.as_dict(), "forgotten": True}
