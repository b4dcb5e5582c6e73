"""Requests about tokens: make one, and take one back."""

from __future__ import annotations

from collections.abc import Sequence

from onceq.errors import InvalidParameter
from onceq.model.limits import TOKEN_AGE_S_MAX, TOKEN_GRANTS_MAX
from onceq.model.record import repr_without
from onceq.model.requests.request import Request
from onceq.model.requests.rights import SetRights
from onceq.model.rights import ActorKind, Right
from onceq.model.tokens import token_name
from onceq.model.views.managers import TokenMade


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
