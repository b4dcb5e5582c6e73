"""What a queue manager tells of its audit trail."""

from __future__ import annotations

from typing import Annotated

from onceq.model.views.view import Column, View


class HeadView(View, frozen=True):
    """The end of another queue manager's trail, as that manager has told it.

    Attributes:
        peer: GUID of the other queue manager.
        name: Its computer name; "": not known.
        number: Number of its last act at that moment.
        digest: Digest of that act, in hexadecimal digits.
        at: When it was told (seconds since 1970).
    """

    peer: Annotated[str, Column("queue manager")] = ""
    name: Annotated[str, Column("name", leaves=1)] = ""
    number: Annotated[int, Column("act")] = 0
    digest: Annotated[str, Column("digest")] = ""
    at: Annotated[int, Column("told", "moment", leaves=2)] = 0


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
        number: Number of the act; each has the next one.
        at: When it was done (seconds since 1970).
        who: Who did it, as ``kind:name``.
        where: From where: an address, or "local", with the process if that is known; before that
            the person for whom the program there says that it works (``local for anna, process
            12``).
        what: What was done.
        about: What it was done to, such as a queue.
        result: The code of the error; "": it was done, or begun.
        times: How often it was done within the hour that follows it, itself included.
        last: When it was done last (seconds since 1970).
        before, digest: Digest of the act before it, and its own, hexadecimal; "": it is of a
            version without digests.
    """

    number: Annotated[int, Column("number")] = 0
    at: Annotated[int, Column("when", "moment", leaves=4)] = 0
    who: Annotated[str, Column("who")] = ""
    where: Annotated[str, Column("from", leaves=1)] = ""
    what: Annotated[str, Column("what")] = ""
    about: Annotated[str, Column("about", "name", cut=True, empty="")] = ""
    result: Annotated[str, Column("result", leaves=3, cut=True, empty="done")] = ""
    times: Annotated[int, Column("times")] = 1
    last: Annotated[int, Column("last", "moment", leaves=2)] = 0
    before: str = ""
    digest: str = ""
