"""Tokens through a connection: make them, look at them, revoke them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from onceq.client.plans.plan import Plan, ask, look_at_all
from onceq.client.plans.rights import Words, words_of
from onceq.client.session import Session
from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.views import looks
from onceq.model.views.managers import TokenMade, TokenView


def create_token(
    session: Session,
    name: str,
    *,
    expires: float | timedelta | None = None,
    grants: Mapping[str, Words] | None = None,
) -> Plan[TokenMade]:
    """Make a token, by which an application says that it is ``token:NAME``.

    Args:
        name: Of the token, by which rights are granted to it: letters, digits, ``.``, ``_``, ``-``.
        expires: Seconds after which it is no longer good; None: it does not expire.
        grants: Rights that it has from the first moment on: by the name of a queue, or a pattern,
            ``"send,peek"``; by "" rights over the whole queue manager. More can be granted later.

    Returns:
        name, token, expires_s. The token is told this once: whoever loses it makes another one.

    Raises:
        AccessDenied: The caller does not administer the queue manager.
        InvalidParameter: There is one of that name; or it is no name, no right, or no time.
    """
    seconds = expires.total_seconds() if isinstance(expires, timedelta) else expires
    if seconds is not None and seconds < 1:
        raise InvalidParameter(f"a token is good for a second or longer, not for {seconds} s")
    given = [(",".join(words_of(rights)), queue) for queue, rights in (grants or {}).items()]
    return ask(requests.CreateToken(name, int(seconds or 0), given), TokenMade)


def tokens(session: Session) -> Plan[list[TokenView]]:
    """All tokens, by name: name, made_s, expires_s, expired, connections. Nobody is told a secret
    again."""
    return look_at_all(session, looks.TOKENS)


def revoke_token(session: Session, name: str) -> Plan[int]:
    """Take a token back, and with it what was granted to ``token:NAME``.

    Connections that came with it are cut at once; what was open on them ends as it does when an
    application is lost.

    Returns:
        How many connections those were.

    Raises:
        AccessDenied: The caller does not administer the queue manager.
        InvalidParameter: There is none of that name.
    """
    return ask(requests.RevokeToken(name), int)
