"""What a queue manager tells of its audit trail."""

from __future__ import annotations

from onceq.model.views.view import View


class ActView(View, frozen=True):
    """An act of administration.

    Attributes:
        number: They rise by one, for ever.
        at: Second since 1970.
        who: ``kind:name``.
        where: Address, or "local", with the process if that is known.
        what, about: What was done, and to what.
        result: "" for done or begun; else the code of the error.
    """

    number: int = 0
    at: int = 0
    who: str = ""
    where: str = ""
    what: str = ""
    about: str = ""
    result: str = ""
