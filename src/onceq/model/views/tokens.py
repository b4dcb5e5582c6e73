"""What a queue manager tells of tokens."""

from __future__ import annotations

from typing import Annotated

from onceq.model.record import repr_without
from onceq.model.views.view import Column, View


class TokenView(View, frozen=True):
    """A token, as everybody may see it who administers.

    Attributes:
        name: Rights are granted to ``token:NAME``.
        made_s: When it was made (seconds since 1970).
        expires_s: When it expires (seconds since 1970); 0: never.
        expired: Whether it has expired.
        connections: Applications that are connected with it now.
    """

    name: Annotated[str, Column("token")] = ""
    made_s: Annotated[int, Column("made", "moment")] = 0
    expires_s: Annotated[int, Column("expires", "moment")] = 0
    expired: bool = False
    connections: Annotated[int, Column("connections")] = 0


class TokenMade(View, frozen=True):
    """A new token, and the only time that its secret is told.

    Attributes:
        token: What its holder shows to the queue manager; it does not stand in a ``repr``.
        expires_s: Seconds since 1970; 0: it does not expire.
    """

    name: str = ""
    token: str = ""
    expires_s: int = 0

    __repr__ = repr_without("token")
