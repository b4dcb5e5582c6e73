"""Requests about rights: give them, take them away, and ask why somebody may do something."""

from __future__ import annotations

from collections.abc import Sequence

from onceq.errors import InvalidParameter
from onceq.model.requests.request import Request
from onceq.model.rights import (
    Right,
    actor_pattern,
    check_given,
    grant_of,
    queue_pattern,
    rights_of,
)
from onceq.model.shared_rights import check_shareable


class _SetRights(Request, kw_only=True):
    """Of a change of rights, what the service fills in."""

    rights: frozenset[Right] = frozenset()
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
        rights: What the words say.
        guid: Of the directory's book of rights if this is its beginning, which the service draws.
    """

    who: str
    words: Sequence[str]
    pattern: str = ""
    take: bool = False
    everywhere: bool = False

    def check(self) -> None:
        """See Request."""
        grant = grant_of(self.who, self.words, self.pattern)
        if not self.take:
            check_given(grant)
            if self.everywhere:
                check_shareable(grant)
        self.who, self.rights, self.pattern = grant.who, grant.rights, grant.pattern


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

    who: str
    word: str
    queue: str = ""

    def check(self) -> None:
        """See Request."""
        self.who = actor_pattern(self.who) if self.who else ""
        if "*" in self.who:
            raise InvalidParameter("ask about one, not about a pattern")
        (self.right,) = rights_of([self.word])
        self.queue = queue_pattern(self.queue) if self.queue else ""
