"""What a queue manager tells of tokens."""

from __future__ import annotations

from onceq.model.record import repr_without
from onceq.model.views.view import View


class TokenView(View, frozen=True):
    """A token, as everybody may see it who administers.

    Attributes:
        made_s, expires_s: Seconds since 1970; ``expires_s`` 0: it does not expire.
        expired: It is no longer good.
        connections: Applications that are connected with it now.
    """

    name: str = ""
    made_s: int = 0
    expires_s: int = 0
    expired: bool = False
    connections: int = 0


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
