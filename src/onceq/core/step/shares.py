"""Whether an owner may have one more of what all of them share (``model/shares.py``).

To open a transaction, to decide for a partner or to use a name for a group takes no right at any
queue, only to be known; other things take one right at one queue. Each of them has one limit for
all, so whoever filled one would keep everybody else from working, and some entries wait for ever.
Every place that counts asks here. How many an owner has is kept with the things themselves: nothing
is counted when it is asked.

Upholds: I24.
"""

from __future__ import annotations

from onceq.core.step.step import Step
from onceq.errors import InsufficientResources
from onceq.model.identity import guid_text
from onceq.model.rights import Actor, ActorKind, Right
from onceq.model.shares import TABLE, OwnerCounts, Thing, why_not


def refusal(
    step: Step, by: str, thing: Thing, own: int, total: int, *, more: int = 1
) -> str:  # fmt: skip
    """Why an owner may not have one more; "": it may. See ``model.shares.why_not``.

    Args:
        by: Who it is, as ``Step.known_by`` or ``answered`` says it.
    """
    if total + more <= TABLE[thing].plenty:
        return ""
    return why_not(thing, by, own, total, administers=_administers(step, by), more=more)


def check(step: Step, by: str, thing: Thing, counts: OwnerCounts) -> None:
    """Raises InsufficientResources if an owner may not have one more."""
    text = refusal(step, by, thing, counts.of(by), counts.total)
    if text:
        raise InsufficientResources(text)


def _administers(step: Step, by: str) -> bool:
    """Whether an owner may use what is kept for administrators."""
    kind, _, name = by.partition(":")
    return not by or step.state.policy.allows(Actor(ActorKind(kind), name), Right.ADMINISTER)


def answered(source: bytes) -> str:
    """For whom answers to the messages of a queue manager are made: that manager, this one too, so
    that nobody who asks for answers comes near the reserve."""
    return str(Actor(ActorKind.PEER, guid_text(source)))
