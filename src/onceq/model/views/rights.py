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
        of_one_queue: They go with the queue of that name: its owner has given them, or has them.
        by: Who has given them; "": the account that runs the queue manager, or a version that did
            not keep it.
    """

    who: str = ""
    rights: tuple[str, ...] = ()
    pattern: str = ""
    owner: bool = False
    origin: str = ""
    of_one_queue: bool = False
    by: str = ""


class RightView(View, frozen=True):
    """May somebody do something, and why or why not.

    Attributes:
        who, right, queue: What was asked.
        because: One sentence.
        known: Whether somebody of that name was ever here: is connected, has acted or made a queue,
            or has a token, or is a queue manager that was met.
    """

    who: str = ""
    right: str = ""
    queue: str = ""
    allowed: bool = False
    because: str = ""
    known: bool = True
