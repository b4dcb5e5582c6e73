"""What a queue manager tells of rights."""

from __future__ import annotations

from onceq.model.views.view import View


class GrantView(View, frozen=True):
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


class RightView(View, frozen=True):
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
