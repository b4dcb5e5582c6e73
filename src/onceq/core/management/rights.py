"""Grant rights, take them away, and explain why an actor may do something.

The account that makes a queue owns it: that is a grant like others, which goes when the queue goes.
So does what an owner grants further: the next queue of that name may have another owner. What an
administrator grants is about a name, and stays (``Policy.stays``). When rights are taken away,
receives that wait for a message are checked again; an open transaction is judged when it commits.

Upholds: I28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from onceq.core.decision import RewriteRights
from onceq.core.inputs.inputs import OwnerGone
from onceq.core.management.paging import Listing, Order
from onceq.core.names.resolve import read_directory
from onceq.core.receive.handles import close_handle
from onceq.core.rights.demands import held, to_see_rights
from onceq.core.rights.judge import check, granted, may
from onceq.core.rights.places import place_of
from onceq.core.state.queues import Queue
from onceq.core.state.setups import RightsGiven, RightsTaken
from onceq.core.step.step import Step
from onceq.core.step.step import check as check_share
from onceq.core.transaction.unit_of_work import owner_gone
from onceq.errors import OnceqError
from onceq.model.identity import guid_text
from onceq.model.patterns import ActorPattern, QueueName, QueuePattern, queue_name
from onceq.model.policy import MANAGER
from onceq.model.requests import ExplainRight, Look, SetRights
from onceq.model.rights import (
    OWNS,
    Actor,
    ActorKind,
    Grant,
    Right,
    row_of_grant,
    words_of,
)
from onceq.model.shared_rights import Regrant
from onceq.model.shares import Thing
from onceq.model.views.managers import GrantView, RightView
from onceq.model.views.view import copy_by_name


def gone(step: Step, item: OwnerGone) -> None:
    """Clean up after an application that is lost or has left."""
    owner_gone(step, item)
    step.actors.pop(item.owner, None)
    step.places.pop(item.owner, None)
    step.limited.pop(item.owner, None)
    step.who.pop(item.owner, None)


def set_rights(step: Step, item: SetRights) -> None:
    """Grant rights, or take them away."""
    policy = step.state.policy
    if item.everywhere:
        _everywhere(step, item)
        return
    grant = item.grant
    before = policy.given(grant.who, grant.pattern)
    if item.take:
        taken = _rights(before) & grant.rights
        if taken:
            step.setup(RightsTaken(item.who, words_of(taken), item.pattern))
            look_again(step)
        step.answer(item.owner, item.request, None)
        return
    queue = _bound_to(step, item.owner, grant)
    # A grant that goes with a queue does not suffice for one that is to stay.
    enough = [one for one in before if not one.owner and one.queue in (0, queue)]
    if not grant.rights <= _rights(enough):
        if not any(one.queue == queue for one in enough):
            check_share(step, step.known_by(item.owner), Thing.GRANTS, policy.given_by)
            policy.check_room(grant)
        _give(step, replace(grant, queue=queue, by=step.known_by(item.owner)))
    step.answer(item.owner, item.request, None)


def _rights(grants: Iterable[Grant]) -> frozenset[Right]:
    return frozenset().union(*(one.rights for one in grants))


def _give(step: Step, grant: Grant) -> None:
    """Store a grant."""
    who, words, pattern, owner, queue, by = row_of_grant(grant)
    step.setup(RightsGiven(who, words, pattern, owner=owner, queue=queue, by=by))


def _bound_to(step: Step, giver: int, grant: Grant) -> int:
    """Return the queue's number that a grant goes with, as its giver has no more; 0: it stays."""
    actor = step.limited.get(giver)
    needed = (Right.SET_RIGHTS, *grant.rights)
    if actor is None or step.state.policy.stays(actor, needed, grant.pattern):
        return 0
    name = grant.pattern.name
    assert name is not None, "who has rights at names that a pattern matches has them at all queues"
    return step.state.queues[name].number


def _everywhere(step: Step, item: SetRights) -> None:
    """Change the rights in the directory; this manager follows when it has read that
    (``shared_rights.py``)."""
    read_directory(step, "a right that holds everywhere")
    change = Regrant(item.grant, item.take, step.state.policy.shared, item.guid)
    step.act(RewriteRights(item.owner, item.request, change))


def own(step: Step, owner: int, queue: Queue) -> None:
    """Make an application the owner of the queue that it has made."""
    actor = step.actors.get(owner)
    if actor is None or actor.free or actor.kind is ActorKind.NOBODY:
        return
    who = ActorPattern.exactly(str(actor))
    where = QueuePattern.exactly(place_of(queue).queue)
    _give(step, Grant(who, OWNS, where, owner=True, queue=queue.number))


def look_again(step: Step) -> None:
    """End waits and open handles whose right was taken away."""
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
    """Answer why an actor may do something, or not."""
    asks = step.actors.get(item.owner)
    actor = asks if not item.who else _named(item.who)
    if actor is None:
        actor = Actor(ActorKind.ACCOUNT, "the one that runs this queue manager", free=True)
    queue = QueueName(item.queue)
    judged = step.state.policy.judge(actor, item.right, queue)
    known = not item.who or _is_known(step, actor)
    shown = RightView(str(actor), item.right.value, queue, judged.allowed, judged.because, known)
    step.answer(item.owner, item.request, shown)


def _is_known(step: Step, actor: Actor) -> bool:
    """Return whether an actor of that name was ever here, as far as that is remembered."""
    if actor.kind is ActorKind.TOKEN:
        return step.state.tokens.get(actor.name) is not None
    if actor.kind in (ActorKind.NOBODY, ActorKind.ADDRESS):
        return True
    who = str(actor)
    if actor.kind is ActorKind.PEER:
        met = {guid_text(guid) for guid in (*step.sessions.of, *step.state.first_heard)}
        met.update(guid_text(bound.guid) for _, bound in step.state.bindings.items())
        return actor.name in met
    return (
        any(str(one) == who for one in step.actors.values())
        or any(one.owner and one.who.name == who for one in step.state.policy)
        or any(act.who == who for act in step.state.trail)
    )


def _named(who: str) -> Actor:
    kind, _, name = who.partition(":")
    return Actor(ActorKind(kind), name)


Given = tuple[Grant, str]
"""A grant, and its place."""


def _asked(step: Step, item: Look) -> Callable[[Given], bool]:
    """Return a filter for all grants, or those about a queue; an actor that may not see all of them
    gets those that were given to it."""
    queue = queue_name(item.name) if item.name else MANAGER
    policy = step.state.policy
    asks = None if may(step, item.owner, (to_see_rights(queue),)) else step.limited[item.owner]

    def fits(one: Given) -> bool:
        concerned = not queue or policy.concerns(one[0], queue)
        return concerned and (asks is None or policy.means(one[0], asks))

    return fits


def _view(step: Step, given: Given) -> GrantView:
    one, origin = given
    rights = tuple(words_of(one.rights))
    who, queues = str(one.who), str(one.pattern)
    return copy_by_name(GrantView, one, who=who, rights=rights, pattern=queues, origin=origin)


def _all(step: Step, item: Look) -> list[Given]:
    policy = step.state.policy
    return [(one, "") for one in policy] + [(one, "directory") for one in policy.shared.grants]


GRANTS: Final[Listing[Given, GrantView]] = Listing(
    _all,
    _view,
    {
        "name": Order(
            lambda step, one: (
                str(one[0].who),
                str(one[0].pattern),
                one[1],
                one[0].owner,
                one[0].queue,
            ),
            (str, str, str, bool, int),
        )
    },
    _asked,
)
"""The list of grants."""
