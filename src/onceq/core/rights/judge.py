"""Whether an actor may have what its request asks for: checked before the rule for the request.

An owner that was never introduced is this process itself, which may do everything. A refused
request has no effect. An actor that may not know whether a queue exists gets the same answer
whether it does or not.

Upholds: I28.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceq.core.rights.required_rights import NAMED, Demand, demands, whose
from onceq.core.state.peer_table import Peer
from onceq.core.step.step import Step
from onceq.core.step.units import Transaction
from onceq.errors import AccessDenied, OnceqError, SendFailed
from onceq.hidden import quote_word
from onceq.model.identity import guid_text
from onceq.model.patterns import ActorPattern, QueueName, QueuePattern
from onceq.model.policy import Policy
from onceq.model.requests import Commit, PrepareBranch, Promise, Request, Send
from onceq.model.results import dooms
from onceq.model.rights import Actor, ActorKind, Right


def judge(step: Step, actor: Actor, item: Request) -> None:
    """Refuse what an actor has no right to. A send that is refused so dooms its transaction, as any
    other refusal does (S0); a forbidden end of a transaction is left to its rule, which undoes it
    and reports the reason.

    Raises:
        AccessDenied: A right is missing; the text says which, and how it is granted.
        OnceqError: A name in the request makes no sense.
    """
    try:
        check(step, actor, item)
    except OnceqError as error:
        tx = _unit_of(step, item)
        if tx is None or not dooms(error):
            raise
        if tx.doomed is None:
            tx.doomed = SendFailed(
                f"nothing of this transaction happened ({error.code}): {error.text}"
            )
        if isinstance(item, Send):
            raise


def _unit_of(step: Step, item: Request) -> Transaction | None:
    """Return the unit of work in which something is sent, or which ends."""
    if isinstance(item, (Send, Commit)):
        return step.units.transactions.get((item.owner, item.transaction))
    if isinstance(item, (PrepareBranch, Promise)):
        at_work = step.units.transactions.get((item.owner, item.transaction))
        branch = step.units.branches.get(item.xid)
        # An actor that may not even prepare another one's unit cannot doom it.
        own = branch is not None and whose(step, branch) == step.known_by(item.owner)
        return at_work or (branch if own else None)
    return None


def check(step: Step, actor: Actor, item: Request) -> None:
    """Refuse what an actor has no right to; see ``judge``."""
    if actor.free:
        return
    try:
        for demand in demands(step, item):
            _require(step, actor, demand)
    except AccessDenied:
        raise
    except OnceqError:
        if actor.kind is ActorKind.NOBODY:
            raise _nobody() from None
        raise


def check_all(step: Step, actor: Actor, needed: Iterable[Demand]) -> None:
    """Raise AccessDenied for the first of these that an actor does not have."""
    for demand in needed:
        _require(step, actor, demand)


def _require(step: Step, actor: Actor, demand: Demand) -> None:
    if actor.kind is ActorKind.NOBODY and not granted(step, actor, demand):
        raise _nobody()
    if demand is NAMED or granted(step, actor, demand):
        return
    first, said = demand.rights[0], demand.said or str(demand.queue)
    judged = step.state.policy.judge(actor, first, demand.queue, said=said)
    raise AccessDenied(
        f"access denied: {judged.because}; an administrator can grant it: onceq grant "
        f"{quote_word(str(ActorPattern.exactly(str(actor))))} {first.value}{_place(demand)}"
    )


def _place(demand: Demand) -> str:
    """Return the place where a right is missing, as a command names it."""
    if isinstance(demand.queue, QueuePattern):
        return f" {quote_word(str(demand.queue))}"
    called = demand.said or demand.queue
    return f" {quote_word(str(QueuePattern.exactly(called)))}" if called else ""


def granted(step: Step, actor: Actor, demand: Demand) -> bool:
    """Return whether the actor has one of the sufficient rights."""
    policy = step.state.policy
    if demand.somewhere:
        return any(policy.allows_somewhere(actor, right) for right in demand.rights)
    return any(policy.allows(actor, right, demand.queue) for right in demand.rights)


def may(step: Step, owner: int, needed: Iterable[Demand]) -> bool:
    """Return whether an owner has all that is needed."""
    actor = step.limited.get(owner)
    return actor is None or all(granted(step, actor, one) for one in needed)


def _nobody() -> AccessDenied:
    """Return the same error for every request of an unknown actor: it reveals nothing."""
    return AccessDenied("access denied: whoever asks has not said who he is, and has no right here")


def may_deliver(step: Step, peer: Peer, source: bytes, queue: QueueName) -> bool:
    """Return whether messages of a manager that come on this session may enter a queue here.

    The session's manager is proven, or is on this computer; ``passes_on`` has checked before
    whether it may bring another manager's messages. Over HTTP the message itself names its source,
    which proves nothing: the actor that has posted it counts.
    """
    return step.state.policy.allows(sender_of(peer, source), Right.SEND, queue)


def may_deliver_somewhere(step: Step, peer: Peer, source: bytes) -> bool:
    """Return whether messages of a manager on this session may enter any queue here."""
    return step.state.policy.allows_somewhere(sender_of(peer, source), Right.SEND)


def may_post(policy: Policy, actor: Actor) -> bool:
    """Return whether an actor may send to any queue here, or have messages passed on."""
    if actor.free or policy.allows_somewhere(actor, Right.SEND):
        return True
    return policy.judge(actor, Right.FORWARD).allowed


def sender_of(peer: Peer, source: bytes) -> Actor:
    """Return the actor whose rights count for a manager's messages that come on a session."""
    own = peer.actor.free or peer.http or source == peer.peer
    return peer.actor if own else Actor(ActorKind.PEER, guid_text(source))


def passes_on(step: Step, peer: Peer) -> str:
    """Return why a manager may not bring others' messages, or messages for others; "" if it may."""
    if peer.actor.free:
        return ""
    judged = step.state.policy.judge(peer.actor, Right.FORWARD)
    return "" if judged.allowed else f"it may pass nothing on: {judged.because}"
