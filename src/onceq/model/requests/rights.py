"""Requests about rights: give them, take them away, and ask why somebody may do something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model.patterns import ActorPattern, queue_name
from onceq.model.requests.request import Needs, Request
from onceq.model.rights import (
    Grant,
    Right,
    actor_pattern,
    check_given,
    check_word,
    grant_of,
    rights_of,
)
from onceq.model.shared_rights import check_shareable
from onceq.model.views.managers import RightView

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
