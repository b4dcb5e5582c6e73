"""What a queue manager tells of rights."""

from __future__ import annotations

from typing import Annotated

from onceq.model.views.view import Column, View


class GrantView(View, frozen=True):
    """Rights that somebody was given.

    Attributes:
        who: ``kind:name``, a pattern of such, or ``*``.
        rights: The rights, as ``onceq grant`` takes them.
        pattern: Pattern of names of queues; "" for rights over the whole queue manager.
        owner: Whether they come from having made the queue.
        origin: ``directory``: they hold at every queue manager that shares the directory; "": they
            were given here.
        of_one_queue: They go with the queue of that name: its owner has given them, or has them.
        by: Who has granted them; "": the account that runs the queue manager, or a version that did
            not keep it.
    """

    who: Annotated[str, Column("who")] = ""
    rights: Annotated[tuple[str, ...], Column("rights", "words")] = ()
    pattern: Annotated[str, Column("queues", "name", empty="(queue manager)")] = ""
    owner: bool = False
    origin: str = ""
    of_one_queue: bool = False
    by: str = ""

    @property
    def why(self) -> Annotated[str, Column("why")]:
        """Why they hold, in a few words."""
        if self.owner:
            return "has made it"
        everywhere = " everywhere" if self.origin else ""
        by = f" by {self.by}" if self.by else ""
        return f"granted{everywhere}{by}{', goes with the queue' if self.of_one_queue else ''}"


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
