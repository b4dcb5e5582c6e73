"""Grant rights, take them away, and explain why an actor may do something.

The account that makes a queue owns it: that is a grant like others, which goes when the queue goes.
So does what an owner grants further: the next queue of that name may have another owner. What an
administrator grants is about a name, and stays (``Policy.stays``). When rights are taken away,
receives that wait for a message are checked again; an open transaction is judged when it commits.

Also here:

* A manager follows the rights in its directory, and keeps what it has read.
* Make and revoke tokens, and end connections whose token is over.

Upholds: I28.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from onceq.core.decision import Answer, RewriteRights
from onceq.core.inputs import OwnerCame, OwnerGone, RightsRead
from onceq.core.management.paging import PagedListing, PageOrder
from onceq.core.names import read_directory
from onceq.core.receive.entrance import close_handle
from onceq.core.rights import check, granted, held, may, place_of, to_see_rights
from onceq.core.state import setups
from onceq.core.state.queues import Queue
from onceq.core.step.step import AuditEntry, Step, Timer, record_act, refusal, rule_for
from onceq.core.step.step import check as check_share
from onceq.core.transaction.unit_of_work import owner_gone
from onceq.errors import AccessDenied, InsufficientResources, InvalidParameter, OnceqError
from onceq.model import rights
from onceq.model.identity import guid_text
from onceq.model.limits import TOKEN_LOOK_S, TOKENS_MAX
from onceq.model.marks import FOR_EVER_US, SECOND_US
from onceq.model.patterns import ActorPattern, QueueName, QueuePattern, queue_name
from onceq.model.policy import MANAGER
from onceq.model.requests import CreateToken, ExplainRight, Look, RevokeToken, SetRights
from onceq.model.shares import Thing
from onceq.model.tokens import Token, digest_of, salt_of, text_of
from onceq.model.views.managers import GrantView, RightView, TokenMade, TokenView
from onceq.model.views.view import copy_by_name

# ---- rights --------------------------------------------------------------------------------------


@rule_for(OwnerGone)
def gone(step: Step, item: OwnerGone) -> None:
    """Clean up after an application that is lost or has left."""
    owner_gone(step, item)
    step.actors.pop(item.owner, None)
    step.places.pop(item.owner, None)
    step.limited.pop(item.owner, None)
    step.who.pop(item.owner, None)


@rule_for(SetRights)
def set_rights(step: Step, item: SetRights) -> None:
    """Grant rights, or take them away."""
    policy = step.state.policy
    if item.everywhere:
        # This manager applies the right when it reads it in the directory.
        read_directory(step, "a right that holds everywhere")
        change = rights.Regrant(item.grant, item.take, policy.shared, item.guid)
        step.act(RewriteRights(item.owner, item.request, change))
        return
    grant = item.grant
    before = policy.given(grant.who, grant.pattern)
    if item.take:
        taken = _rights(before) & grant.rights
        if taken:
            step.setup(setups.RightsTaken(item.who, rights.words_of(taken), item.pattern))
            look_again(step)
        step.answer(item.owner, item.request, None)
        return
    # The number of the queue that the grant goes with, as its giver has no more; 0: it stays.
    queue, actor = 0, step.limited.get(item.owner)
    needed = (rights.Right.SET_RIGHTS, *grant.rights)
    if actor is not None and not policy.stays(actor, needed, grant.pattern):
        name = grant.pattern.name
        assert name is not None, "rights by a pattern hold at all queues that it matches"
        queue = step.state.queues[name].number
    # A grant that goes with a queue does not suffice for one that is to stay.
    enough = [one for one in before if not one.owner and one.queue in (0, queue)]
    if not grant.rights <= _rights(enough):
        if not any(one.queue == queue for one in enough):
            check_share(step, step.known_by(item.owner), Thing.GRANTS, policy.given_by)
            policy.check_room(grant)
        _give(step, replace(grant, queue=queue, by=step.known_by(item.owner)))
    step.answer(item.owner, item.request, None)


def _rights(grants: Iterable[rights.Grant]) -> frozenset[rights.Right]:
    return frozenset().union(*(one.rights for one in grants))


def _give(step: Step, grant: rights.Grant) -> None:
    """Store a grant."""
    who, words, pattern, owner, queue, by = rights.row_of_grant(grant)
    step.setup(setups.RightsGiven(who, words, pattern, owner=owner, queue=queue, by=by))


def own(step: Step, owner: int, queue: Queue) -> None:
    """Make an application the owner of the queue that it has made."""
    actor = step.actors.get(owner)
    if actor is None or actor.free or actor.kind is rights.ActorKind.NOBODY:
        return
    who = ActorPattern.exactly(str(actor))
    where = QueuePattern.exactly(place_of(queue).queue)
    _give(step, rights.Grant(who, rights.OWNS, where, owner=True, queue=queue.number))


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


@rule_for(ExplainRight)
def explain(step: Step, item: ExplainRight) -> None:
    """Answer why an actor may do something, or not."""
    asks = step.actors.get(item.owner)
    actor = asks if not item.who else _named(item.who)
    if actor is None:
        actor = rights.Actor(
            rights.ActorKind.ACCOUNT, "the one that runs this queue manager", free=True
        )
    queue = QueueName(item.queue)
    judged = step.state.policy.judge(actor, item.right, queue)
    known = not item.who or _is_known(step, actor)
    shown = RightView(str(actor), item.right.value, queue, judged.allowed, judged.because, known)
    step.answer(item.owner, item.request, shown)


def _is_known(step: Step, actor: rights.Actor) -> bool:
    """Return whether an actor of that name was ever here, as far as that is remembered."""
    if actor.kind is rights.ActorKind.TOKEN:
        return step.state.tokens.get(actor.name) is not None
    if actor.kind in (rights.ActorKind.NOBODY, rights.ActorKind.ADDRESS):
        return True
    who = str(actor)
    if actor.kind is rights.ActorKind.PEER:
        met = {guid_text(guid) for guid in (*step.sessions.of, *step.state.first_heard)}
        met.update(guid_text(bound.guid) for _, bound in step.state.bindings.items())
        return actor.name in met
    return (
        any(str(one) == who for one in step.actors.values())
        or any(one.owner and one.who.name == who for one in step.state.policy)
        or any(act.who == who for act in step.state.trail)
    )


def _named(who: str) -> rights.Actor:
    kind, _, name = who.partition(":")
    return rights.Actor(rights.ActorKind(kind), name)


Given = tuple[rights.Grant, str]
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


GRANTS: Final[PagedListing[Given, GrantView]] = PagedListing(
    lambda step, item: [
        *((one, "") for one in step.state.policy),
        *((one, "directory") for one in step.state.policy.shared.grants),
    ],
    lambda step, given: copy_by_name(
        GrantView,
        given[0],
        who=str(given[0].who),
        rights=tuple(rights.words_of(given[0].rights)),
        pattern=str(given[0].pattern),
        origin=given[1],
    ),
    {
        "name": PageOrder(
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


# ---- shared rights -------------------------------------------------------------------------------


_DIRECTORY = "directory"
"""The actor in the trail: the trail of the queue manager that was asked to change the directory
names the one that has changed it."""


@rule_for(RightsRead)
def read(step: Step, item: RightsRead) -> None:
    """Apply rights in the directory that were read, or that cannot be read.

    What was read is durable: a directory that is away, or damaged, neither opens nor shuts
    anything, even over restarts, and the operator is notified. A copy older than what was read
    before is not followed; otherwise what was taken away since would come back. Without a directory
    there are none.
    """
    known = step.state.policy.shared
    trouble = item.trouble or _doubt(item.book, known)
    if trouble and trouble != step.names.rights_trouble:
        step.act_notice("rights of the directory are not followed", reason=trouble,
                        goes_on_with=f"what was read before (change {known.number})")  # fmt: skip
    step.names.rights_trouble = trouble
    if not trouble and item.book is not None:
        _follow(step, item.book, known)


def _doubt(book: rights.SharedRights | None, known: rights.SharedRights) -> str:
    """Return why what was read is not followed; "" if it is."""
    if book is None:
        return (
            "they are gone; put their file back from a copy that has the last change, or repeat "
            "'onceq grant ... --everywhere' here, which writes it again"
            if known.id
            else ""
        )
    if book.older_than(known):
        return (
            f"they are an older copy (change {book.number} after {known.number}), which may have "
            "what was revoked since; repeat the last 'onceq grant ... --everywhere' here, which "
            "writes them again as this queue manager knows them"
        )
    return ""


def _follow(step: Step, book: rights.SharedRights, known: rights.SharedRights) -> None:
    grants, left = rights.believed(book.grants)
    for what in left:
        step.notice("a right in the directory is left out", what, right=what,
                    reason="it cannot be given to all queue managers at once")  # fmt: skip
    if (book.id, book.number, grants) == (known.id, known.number, known.grants):
        return
    step.setup(setups.RightsShared(book.id, book.number, rights.dump_grants(grants)))
    given, taken = rights.difference(grants, known.grants), rights.difference(known.grants, grants)
    if given or taken:
        record_act(step, _DIRECTORY, "", AuditEntry("follow rights", _change(book, given, taken)))
    if taken:
        look_again(step)


def _change(book: rights.SharedRights, given: list[rights.Grant], taken: list[rights.Grant]) -> str:
    """Return what has changed, the most important first, because room for it is limited."""
    said = [f"change {book.number}" if book.id else "no directory any more"]
    said += [f"revoked {rights.described(one)}" for one in taken]
    said += [f"granted {rights.described(one)}" for one in given]
    return "; ".join(said)


# ---- tokens --------------------------------------------------------------------------------------


@rule_for(CreateToken)
def create(step: Step, item: CreateToken) -> None:
    """Make a token.

    A connection with a token loses its identity at the moment when the token is revoked or has
    expired: no later request is carried out, none of its receives waits any longer, and the
    connection is ended with the reason. What was open on it ends as when a connection is lost; a
    transaction whose commit was answered before remains committed.

    One timer serves all connections: for the token that expires first. Each request is checked when
    it comes, so a wall clock that was set affects only a connection that waits, and that for
    TOKEN_LOOK_S.
    """
    tokens, name = step.state.tokens, item.name
    if tokens.get(name) is not None:
        raise InvalidParameter(
            f"there is a token {name!r} already; give the new one another name, or revoke that "
            "one first, and with it what was granted to it"
        )
    if len(tokens) >= TOKENS_MAX:
        raise InsufficientResources(f"there are {TOKENS_MAX} tokens already: revoke some")
    if item.given:
        granted = step.state.policy.given_by
        by = step.known_by(item.owner)
        own, more = granted.of(by), len(item.given)
        full = refusal(step, by, Thing.GRANTS, own, granted.total, more=more)
        if full:
            raise InsufficientResources(full)
    now_s = step.now.wall_s
    expires_s = now_s + item.age_s if item.age_s else 0
    grants = [[rights.words_of(one.grant.rights), one.pattern] for one in item.given]
    salt = salt_of(step.identity.guid, name)
    digest = digest_of(salt, item.secret)
    step.setup(setups.TokenCreated(name, salt, digest, now_s, expires_s, grants))
    made = TokenMade(name, text_of(name, item.secret), expires_s)
    step.answer(item.owner, item.request, made)


@rule_for(RevokeToken)
def revoke(step: Step, item: RevokeToken) -> None:
    """Revoke a token."""
    name = item.name
    if step.state.tokens.get(name) is None:
        raise InvalidParameter(
            f"there is no token {name!r}; 'onceq token list' shows those there are"
        )
    step.setup(setups.TokenRevoked(name))
    holders = [owner for owner, actor in step.actors.items() if _holds(actor, name)]
    for owner in holders:
        _send_away(step, owner, f"the token {name!r} was revoked")
    step.answer(item.owner, item.request, len(holders))


Used = tuple[Token, int]
"""A token, and how many connections came with it."""


def _all_tokens(step: Step, item: Look) -> Iterator[Used]:
    used = Counter(a.name for a in step.actors.values() if a.kind is rights.ActorKind.TOKEN)
    return ((token, used.get(token.name, 0)) for token in list(step.state.tokens))


TOKENS: Final[PagedListing[Used, TokenView]] = PagedListing(
    _all_tokens,
    lambda step, one: copy_by_name(
        TokenView, one[0], expired=one[0].over(step.now.wall_s), connections=one[1]
    ),
    {"name": PageOrder(lambda step, one: (one[0].name,), (str,))},
)
"""All tokens, without their secrets."""


# ---- connections that came with one ------------------------------------------------------------


@rule_for(OwnerCame)
def register_owner(step: Step, item: OwnerCame) -> None:
    """Register an application that has connected and identified itself."""
    actor = item.actor
    step.known_as(item.owner, actor)
    if item.where:
        step.places[item.owner] = item.where
    if actor.kind is not rights.ActorKind.TOKEN:
        return
    token = step.state.tokens.get(actor.name)
    # After its secret was checked, the token may have been revoked, and made again.
    if token is None or token.digest != item.proof:
        _send_away(step, item.owner, f"the token {actor.name!r} was revoked")
    else:
        _watch(step, token.expires_s)


def check_token(step: Step, owner: int, actor: rights.Actor) -> None:
    """Raise AccessDenied for a request of an actor whose token is over."""
    token = step.state.tokens.get(actor.name)
    if token is None or token.over(step.now.wall_s):
        text = f"the token {actor.name!r} has expired"
        _send_away(step, owner, text)
        raise AccessDenied(f"access denied: {text}")


def on_timer(step: Step, nobody: object) -> None:
    """End connections whose tokens have expired."""
    if step.now.mono_us < step.tokens_due_us:
        return  # set for a token that was to expire before others did
    step.tokens_due_us = FOR_EVER_US
    now_s, next_s = step.now.wall_s, 0
    for owner, actor in list(step.actors.items()):
        token = step.state.tokens.get(actor.name) if actor.kind is rights.ActorKind.TOKEN else None
        if token is None or not token.expires_s:
            continue
        if token.over(now_s):
            _send_away(step, owner, f"the token {token.name!r} has expired")
        else:
            next_s = min(next_s or token.expires_s, token.expires_s)
    _watch(step, next_s)


def _watch(step: Step, expires_s: int) -> None:
    if not expires_s:
        return
    left_us = max(expires_s * SECOND_US - step.now.wall_us, 0)
    due_us = step.now.mono_us + min(left_us, int(TOKEN_LOOK_S * SECOND_US))
    if due_us < step.tokens_due_us:
        step.tokens_due_us = due_us
        step.timer(due_us, Timer.TOKENS, None)


def _holds(actor: rights.Actor, name: str) -> bool:
    return actor.kind is rights.ActorKind.TOKEN and actor.name == name


def _send_away(step: Step, owner: int, text: str) -> None:
    step.known_as(owner, rights.NOBODY)
    # Nothing may be handed out any more: it would be lost with the connection.
    for key in list(step.readers.of.get(owner, ())):
        step.readers.leave(key)
        step.answer(*key, AccessDenied(f"access denied: {text}"))
    # Request 0 is the connection itself.
    step.act(Answer(owner, 0, AccessDenied(f"access denied: {text}")))
