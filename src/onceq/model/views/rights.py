"""What a queue manager tells of rights."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.model.views.view import View


@dataclass(frozen=True, slots=True)
class GrantView(View):
    """Rights that somebody was given.

    Attributes:
        who: ``kind:name``, a pattern of such, or ``*``.
        rights: Words.
        pattern: Of names of queues; "" for rights over the whole queue manager.
        owner: He has them because he has made the queue.
        origin: ``directory``: they hold at every queue manager that shares the directory; "": they
            were given here.
    """

    who: str = ""
    rights: tuple[str, ...] = ()
    pattern: str = ""
    owner: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class RightView(View):
    """May somebody do something, and why or why not.

    Attributes:
        who, right, queue: What was asked.
        because: One sentence.
    """

    who: str = ""
    right: str = ""
    queue: str = ""
    allowed: bool = False
    because: str = ""
