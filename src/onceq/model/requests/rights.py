"""Requests about rights: give them, take them away, and ask why somebody may do something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model.limits import TOKEN_AGE_S_MAX, TOKEN_GRANTS_MAX
from onceq.model.patterns import ActorPattern, queue_name
from onceq.model.record import repr_without
from onceq.model.requests.request import Needs, Request
from onceq.model.rights import (
    ActorKind,
    Grant,
    Right,
    actor_pattern,
    check_given,
    check_word,
    grant_of,
    rights_of,
)
from onceq.model.shared_rights import check_shareable
from onceq.model.tokens import token_name
from onceq.model.views.managers import RightView, TokenMade

# ---- rights --------------------------------------------------------------------------------------


_UNCHECKED: Final = Grant(ActorPattern.exactly(""), frozenset())
"""What nobody has asked for yet."""


class _SetRights(Request, kw_only=True):
    """Of a change of rights, what the service fills in."""

    grant: Grant = _UNCHECKED
    guid: bytes = b""


class SetRights(_SetRights):
    """Give rights, or take them away. Answer: None, once durable (``everywhere``: once the
    directory says so).

    Attributes:
        who: As ``model/rights.py`` has it; a name alone is that of an account.
        words: Rights.
        pattern: Of names of queues; "" for rights over the whole queue manager.
        take: Take them away, instead.
        everywhere: In the directory, for every queue manager that shares it.
        grant: What the words say.
        guid: Of the directory's book of rights if this is its beginning, which the service draws.
    """

    code = 35
    needs = Needs.STATE
    who: str
    words: Sequence[str]
    pattern: str = ""
    take: bool = False
    everywhere: bool = False

    def check(self) -> None:
        """See Request."""
        if not self.take:
            check_word(self.who)
        grant = grant_of(self.who, self.words, self.pattern)
        if not self.take:
            check_given(grant)
            if self.everywhere:
                check_shareable(grant)
        self.who, self.pattern, self.grant = str(grant.who), str(grant.pattern), grant


class _ExplainRight(Request, kw_only=True):
    """Of a question about a right, what the service fills in."""

    right: Right = Right.ADMINISTER


class ExplainRight(_ExplainRight):
    """May somebody do something? Answer: a RightView.

    Attributes:
        who: One actor; "" for the one who asks.
        word: A right.
        queue: Name of a queue; "" for the whole queue manager.
    """

    code = 36
    needs = Needs.STATE
    answer = RightView
    who: str
    word: str
    queue: str = ""

    def check(self) -> None:
        """See Request."""
        if self.who:
            who = actor_pattern(self.who).name
            if who is None:
                raise InvalidParameter("ask about one, not about a pattern")
            self.who = who
        (self.right,) = rights_of([self.word])
        self.queue = queue_name(self.queue) if self.queue else ""


# ---- tokens --------------------------------------------------------------------------------------
#
# Requests about tokens: make one, and take one back.


class _CreateToken(Request, kw_only=True):
    """Of the making of a token, what the service fills in."""

    secret: bytes = b""
    given: Sequence[SetRights] = ()


class CreateToken(_CreateToken):
    """Make a token. Answer: a TokenMade, once durable; nobody can be told its secret later.

    Attributes:
        name: Of the token; grants to it are made to ``token:NAME``.
        age_s: Seconds after which it is no longer good; 0: it does not expire.
        grants: Rights that it has from the first moment on: their words with commas, and the
            names of queues as ``SetRights`` has them.
        secret: Random bytes.
        given: What the grants say.
    """

    code = 37
    needs = Right.ADMINISTER
    answer = TokenMade
    name: str
    age_s: int = 0
    grants: Sequence[tuple[str, str]] = ()

    __repr__ = repr_without("secret")

    def check(self) -> None:
        """See Request."""
        self.name = token_name(self.name)
        if not 0 <= self.age_s <= TOKEN_AGE_S_MAX:
            raise InvalidParameter(
                f"a token is good for 1 to {TOKEN_AGE_S_MAX} seconds, or for ever (0)"
            )
        if len(self.grants) > TOKEN_GRANTS_MAX:
            raise InvalidParameter(
                f"more than {TOKEN_GRANTS_MAX} grants with a token; use patterns, or grant later"
            )
        who = f"{ActorKind.TOKEN.value}:{self.name}"
        self.given = [SetRights(who, words.split(","), queue) for words, queue in self.grants]
        for one in self.given:
            one.check()


class RevokeToken(Request):
    """Take a token back, and what was granted to it by its name. Connections that came with it are
    cut. Answer: how many those were, once durable.
    """

    code = 38
    needs = Right.ADMINISTER
    name: str

    def check(self) -> None:
        """See Request."""
        self.name = token_name(self.name)
