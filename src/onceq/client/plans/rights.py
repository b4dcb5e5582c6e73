"""Rights and tokens through a connection: give them, take them away, look at them, ask why; and the
trail of who did what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from onceq.client.plans.plan import Plan, ask, do, look, look_at_all
from onceq.client.session import Session
from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.rights import Right
from onceq.model.views import looks
from onceq.model.views.managers import (
    ActView,
    GrantView,
    RightView,
    TokenMade,
    TokenView,
    TrailView,
)

Words = str | Right | Iterable[str | Right]
"""One right or several: their words, with commas between them or one by one."""


def grant(
    session: Session, who: str, rights: Words, queue: str = "", *, everywhere: bool = False
) -> Plan[None]:
    """Let somebody do something from now on.

    Args:
        who: Name of an account, or ``token:NAME``, ``certificate:NAME``, ``peer:GUID``; ``*`` in
            it stands for any characters, and alone for everybody who has a name.
        rights: Such as ``"send,peek"``; the reference lists them.
        queue: Its name, or a pattern such as ``private$\\\\orders*``; "" for rights over the whole
            queue manager.
        everywhere: In the directory, for every queue manager that shares it: to certificates, other
            queue managers and ``*`` alone, and no right to run a queue manager or to give rights.

    Raises:
        AccessDenied: The caller may not give these rights.
        InvalidParameter: It is no name, no right, or no place for these rights.
        DirectoryError: The directory could not be changed.
        NoDirectory, UnsupportedOperation: It cannot be read, or there is none.
    """
    return do(requests.SetRights(who, words_of(rights), queue, everywhere=everywhere))


def revoke(
    session: Session, who: str, rights: Words, queue: str = "", *, everywhere: bool = False
) -> Plan[None]:
    """Take rights away that were given by these words; see ``grant``.

    What is open is looked at again: receives that wait end, and a transaction is judged when it
    commits. What was given in the directory is taken away with ``everywhere`` alone, and what was
    given here without it.
    """
    request = requests.SetRights(who, words_of(rights), queue, take=True, everywhere=everywhere)
    return do(request)


def rights(session: Session, queue: str = "") -> Plan[list[GrantView]]:
    """All grants, or those that are about a queue."""
    return look_at_all(session, looks.RIGHTS, queue)


def explain_right(
    session: Session, right: str | Right, queue: str = "", *, who: str = ""
) -> Plan[RightView]:
    """Whether somebody may do something, and why or why not, in one sentence.

    Args:
        queue: Its name, as patterns have it; "" for the whole queue manager.
        who: "": the one who asks.
    """
    (word,) = words_of(right)
    return ask(requests.ExplainRight(who, word, queue), RightView)


def trail(session: Session, after: int = 0) -> Plan[list[ActView]]:
    """The audit trail: the acts of administration that are kept, in their order.

    Args:
        after: Only those behind this number.
    """
    found: list[ActView] = []
    while some := (yield from look(looks.TRAIL, str(found[-1].number if found else after))):
        found += some
    return found


def trail_end(session: Session) -> Plan[TrailView]:
    """The digest of the last act of administration, and what is held of the trails of others."""
    return look(looks.TRAIL_END)


def words_of(rights: Words) -> list[str]:
    """The words of one right or several."""
    if isinstance(rights, Right):
        return [rights.value]
    if isinstance(rights, str):
        return [word for part in rights.split(",") if (word := part.strip())]
    return [one.value if isinstance(one, Right) else one for one in rights]


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
        name, token, expires_s. The token is shown this once; make another one if it is lost.

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
