"""Rights are given and taken away, and it is said why somebody may do something.

Who makes a queue owns it: that is a grant like others, which goes when the queue goes. When rights
are taken away, receives that wait for a message are looked at again; a transaction that is open is
judged when it commits.

Upholds: I28.
"""

from __future__ import annotations

from onceq.core.decision import RewriteRights
from onceq.core.inputs.inputs import OwnerGone
from onceq.core.names.resolve import read_directory
from onceq.core.receive.handles import close_handle
from onceq.core.rights.demands import held, to_see_rights
from onceq.core.rights.judge import check, granted, may
from onceq.core.rights.places import place_of
from onceq.core.state.queues import Queue
from onceq.core.state.setups import RightsGiven, RightsTaken
from onceq.core.step.step import Step
from onceq.core.transaction.unit_of_work import owner_gone
from onceq.errors import InsufficientResources, OnceqError
from onceq.model.limits import GRANTS_MAX
from onceq.model.requests import ExplainRight, Look, SetRights
from onceq.model.rights import (
    OWNS,
    Actor,
    ActorKind,
    Grant,
    queue_pattern,
    words_of,
)
from onceq.model.shared_rights import Regrant
from onceq.model.views.rights import GrantView, RightView


def gone(step: Step, item: OwnerGone) -> None:
    """An application is lost or has left."""
    owner_gone(step, item)
    step.actors.pop(item.owner, None)
    step.places.pop(item.owner, None)
    step.limited.pop(item.owner, None)


def set_rights(step: Step, item: SetRights) -> None:
    """Give rights, or take them away."""
    policy = step.state.policy
    if item.everywhere:
        _everywhere(step, item)
        return
    before = policy.has(item.who, item.pattern, owner=False)
    if item.take:
        taken = (before | policy.has(item.who, item.pattern, owner=True)) & item.rights
        if taken:
            step.setup(RightsTaken(item.who, words_of(taken), item.pattern))
            look_again(step)
    elif not item.rights <= before:
        if not before and len(policy) >= GRANTS_MAX:
            raise InsufficientResources(
                f"there are {GRANTS_MAX} grants already: use patterns, or revoke some"
            )
        step.setup(RightsGiven(item.who, words_of(item.rights), item.pattern))
    step.answer(item.owner, item.request, None)


def _everywhere(step: Step, item: SetRights) -> None:
    """It is the directory that is changed; this manager follows when it has read that
    (``shared_rights.py``)."""
    read_directory(step, "a right that holds everywhere")
    grant = Grant(item.who, item.rights, item.pattern)
    change = Regrant(grant, item.take, step.state.policy.shared, item.guid)
    step.act(RewriteRights(item.owner, item.request, change))


def own(step: Step, owner: int, queue: Queue) -> None:
    """An application has made a queue: it is his."""
    actor = step.actors.get(owner)
    if actor is None or actor.free or actor.kind is ActorKind.NOBODY:
        return
    pattern = place_of(queue).queue
    step.setup(RightsGiven(str(actor), words_of(OWNS), pattern, owner=True))


def look_again(step: Step) -> None:
    """Rights were taken away: what waits, or is held open, with a right that is gone, ends."""
    for key, item in list(step.readers.waiting.items()):
        actor = step.limited.get(key[0])
        if actor is None:
            continue
        try:
            check(step, actor, item)
        except OnceqError as error:
            step.answer(*key, error)
            step.readers.leave(key)
    for number, handle in list(step.readers.handles.items()):
        actor = step.limited.get(handle.owner)
        if actor is not None and not all(granted(step, actor, one) for one in held(step, handle)):
            close_handle(step, number)


def explain(step: Step, item: ExplainRight) -> None:
    """Say why somebody may do something, or not."""
    asks = step.actors.get(item.owner)
    actor = asks if not item.who else _named(item.who)
    if actor is None:
        actor = Actor(ActorKind.ACCOUNT, "the one that runs this queue manager", free=True)
    queue = item.queue.casefold()
    judged = step.state.policy.judge(actor, item.right, queue)
    shown = RightView(str(actor), item.right.value, queue, judged.allowed, judged.because)
    step.answer(item.owner, item.request, shown)


def _named(who: str) -> Actor:
    kind, _, name = who.partition(":")
    return Actor(ActorKind(kind), name)


def grants(step: Step, item: Look) -> list[GrantView]:
    """All grants, or those that are about a queue; whoever may not look at all of them is shown
    those that were given to him."""
    queue = queue_pattern(item.name) if item.name else ""
    policy = step.state.policy
    asks = None if may(step, item.owner, (to_see_rights(queue),)) else step.limited[item.owner]
    return [
        GrantView(one.who, tuple(words_of(one.rights)), one.pattern, one.owner, origin)
        for found, origin in ((policy, ""), (policy.shared.grants, "directory"))
        for one in found
        if not queue or policy.concerns(one, queue)
        if asks is None or policy.means(one, asks)
    ]
