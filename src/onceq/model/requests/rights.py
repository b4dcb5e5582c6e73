"""Requests about rights: give them, take them away, and ask why somebody may do something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onceq.errors import InvalidParameter
from onceq.model.requests.request import Request
from onceq.model.rights import WHOLE, Right, actor_pattern, queue_pattern, rights_of, words_of


@dataclass(slots=True)
class SetRights(Request):
    """Give rights, or take them away. Answer: None, once durable.

    Attributes:
        who: As ``model/rights.py`` has it; a name alone is that of an account.
        words: Rights.
        pattern: Of names of queues; "" for rights over the whole queue manager.
        take: Take them away, instead.
        rights: What the words say.
    """

    who: str
    words: Sequence[str]
    pattern: str = ""
    take: bool = False
    rights: frozenset[Right] = field(default=frozenset(), kw_only=True)

    def check(self) -> None:
        """See Request."""
        self.who = actor_pattern(self.who)
        self.rights = rights_of(self.words)
        whole = self.rights & WHOLE
        if whole and (self.pattern or self.rights - WHOLE):
            raise InvalidParameter(
                f"{', '.join(words_of(whole))} is about the whole queue manager: grant it alone, "
                "and without a queue"
            )
        if not whole and not self.pattern:
            raise InvalidParameter(
                f"{', '.join(words_of(self.rights))} needs the name of a queue, or a pattern such "
                "as private$\\orders* ('*': every queue)"
            )
        self.pattern = queue_pattern(self.pattern) if self.pattern else ""


@dataclass(slots=True)
class ExplainRight(Request):
    """May somebody do something? Answer: a RightView.

    Attributes:
        who: One actor; "" for the one who asks.
        word: A right.
        queue: Name of a queue; "" for the whole queue manager.
    """

    who: str
    word: str
    queue: str = ""
    right: Right = field(default=Right.ADMINISTER, kw_only=True)

    def check(self) -> None:
        """See Request."""
        self.who = actor_pattern(self.who) if self.who else ""
        if "*" in self.who:
            raise InvalidParameter("ask about one, not about a pattern")
        (self.right,) = rights_of([self.word])
        self.queue = queue_pattern(self.queue) if self.queue else ""
