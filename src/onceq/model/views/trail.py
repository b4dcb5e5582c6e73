"""What a queue manager tells of its audit trail."""

from __future__ import annotations

from onceq.model.views.view import View


class HeadView(View, frozen=True):
    """The end of another queue manager's trail, as that manager has told it.

    Attributes:
        peer: GUID of the other queue manager.
        name: Its computer name; "": not known.
        number: Of its last act then.
        digest: Of that act, hexadecimal.
        at: When it was told, in seconds since 1970.
    """

    peer: str = ""
    name: str = ""
    number: int = 0
    digest: str = ""
    at: int = 0


class TrailView(View, frozen=True):
    """The end of a trail, and what is held of others'.

    Attributes:
        id: GUID of the queue manager.
        number: Of its last act; 0: there is none.
        digest: Of that act, hexadecimal; "": it has none.
        broken: Number of the first act that does not go on from the act before it, as the log has
            it; 0: all do.
        heads: What others have told of theirs.
    """

    id: str = ""
    number: int = 0
    digest: str = ""
    broken: int = 0
    heads: tuple[HeadView, ...] = ()


class ActView(View, frozen=True):
    """An act of administration.

    Attributes:
        number: They rise by one, for ever.
        at: Second since 1970.
        who: ``kind:name``.
        where: Address, or "local", with the process if that is known; before that the person for
            whom the program there says that it works (``local for anna, process 12``).
        what, about: What was done, and to what.
        result: "" for done or begun; else the code of the error.
        times: How often it was done within the hour that follows it, itself included.
        last: When last, in seconds since 1970.
        before, digest: Digest of the act before it, and its own, hexadecimal; "": it is of a
            version without digests.
    """

    number: int = 0
    at: int = 0
    who: str = ""
    where: str = ""
    what: str = ""
    about: str = ""
    result: str = ""
    times: int = 1
    last: int = 0
    before: str = ""
    digest: str = ""
