"""Make and revoke tokens, and end connections whose token is over.

A connection with a token loses its identity at the moment when the token is revoked or has expired:
no later request is carried out, none of its receives waits any longer, and the connection is ended
with the reason. What was open on it ends as when a connection is lost; a transaction whose commit
was answered before remains committed.

One timer serves all connections: for the token that expires first. Each request is checked when it
comes, so a wall clock that was set affects only a connection that waits, and that for TOKEN_LOOK_S.

Upholds: I28.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from onceq.core.decision import Answer
from onceq.core.inputs.inputs import OwnerCame
from onceq.core.management.paging import Listing, Order
from onceq.core.state.setups import TokenCreated, TokenRevoked
from onceq.core.step.step import Step, Timer, refusal
from onceq.errors import AccessDenied, InsufficientResources, InvalidParameter
from onceq.model.limits import TOKEN_LOOK_S, TOKENS_MAX
from onceq.model.requests import CreateToken, Look, RevokeToken
from onceq.model.rights import NOBODY, Actor, ActorKind, words_of
from onceq.model.shares import Thing
from onceq.model.time import FOR_EVER_US, SECOND_US
from onceq.model.tokens import Token, digest_of, salt_of, text_of
from onceq.model.views.managers import TokenMade, TokenView
from onceq.model.views.view import copy_by_name


def create(step: Step, item: CreateToken) -> None:
    """Make a token."""
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
    grants = [[words_of(one.grant.rights), one.pattern] for one in item.given]
    salt = salt_of(step.identity.guid, name)
    digest = digest_of(salt, item.secret)
    step.setup(TokenCreated(name, salt, digest, now_s, expires_s, grants))
    made = TokenMade(name, text_of(name, item.secret), expires_s)
    step.answer(item.owner, item.request, made)


def revoke(step: Step, item: RevokeToken) -> None:
    """Revoke a token."""
    name = item.name
    if step.state.tokens.get(name) is None:
        raise InvalidParameter(
            f"there is no token {name!r}; 'onceq token list' shows those there are"
        )
    step.setup(TokenRevoked(name))
    holders = [owner for owner, actor in step.actors.items() if _holds(actor, name)]
    for owner in holders:
        _send_away(step, owner, f"the token {name!r} was revoked")
    step.answer(item.owner, item.request, len(holders))


Used = tuple[Token, int]
"""A token, and how many connections came with it."""


def _all(step: Step, item: Look) -> Iterator[Used]:
    used = Counter(a.name for a in step.actors.values() if a.kind is ActorKind.TOKEN)
    return ((token, used.get(token.name, 0)) for token in list(step.state.tokens))


def _view(step: Step, one: Used) -> TokenView:
    token, used = one
    over = token.over(step.now.wall_s)
    return copy_by_name(TokenView, token, expired=over, connections=used)


TOKENS: Final[Listing[Used, TokenView]] = Listing(
    _all, _view, {"name": Order(lambda step, one: (one[0].name,), (str,))}
)
"""All tokens, without their secrets."""


# ---- connections that came with one ------------------------------------------------------------


def came(step: Step, item: OwnerCame) -> None:
    """Register an application that has connected and identified itself."""
    actor = item.actor
    step.known_as(item.owner, actor)
    if item.where:
        step.places[item.owner] = item.where
    if actor.kind is not ActorKind.TOKEN:
        return
    token = step.state.tokens.get(actor.name)
    # After its secret was checked, the token may have been revoked, and made again.
    if token is None or token.digest != item.proof:
        _send_away(step, item.owner, f"the token {actor.name!r} was revoked")
    else:
        _watch(step, token.expires_s)


def check(step: Step, owner: int, actor: Actor) -> None:
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
        token = step.state.tokens.get(actor.name) if actor.kind is ActorKind.TOKEN else None
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


def _holds(actor: Actor, name: str) -> bool:
    return actor.kind is ActorKind.TOKEN and actor.name == name


def _send_away(step: Step, owner: int, text: str) -> None:
    step.known_as(owner, NOBODY)
    # Nothing may be handed out any more: it would be lost with the connection.
    for key in list(step.readers.of.get(owner, ())):
        step.readers.leave(key)
        step.answer(*key, AccessDenied(f"access denied: {text}"))
    # Request 0 is the connection itself.
    step.act(Answer(owner, 0, AccessDenied(f"access denied: {text}")))
