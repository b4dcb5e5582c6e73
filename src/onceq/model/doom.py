"""A refused send dooms its transaction: whether one does, and what the commit says then."""

from __future__ import annotations

from typing import Final

from onceq.errors import BodyTooLarge, OnceqError, Refused, SendFailed

_SHOWN_CHARS: Final = 200
"""Of a destination in a text; names with many elements are long."""


def dooms(error: OnceqError) -> bool:
    """Whether a send that is refused so dooms its transaction: it is not the call that is wrong.

    A body that is too large always is; whoever sends it may go on, and send it in parts.
    """
    return isinstance(error, Refused) and not isinstance(error, BodyTooLarge)


def send_failed(destination: str, error: OnceqError) -> SendFailed:
    """What the commit of a transaction says after a send in it was refused."""
    if isinstance(error, SendFailed):
        return error
    to = destination if len(destination) <= _SHOWN_CHARS else destination[:_SHOWN_CHARS] + "..."
    return SendFailed(
        f"nothing of this transaction happened, because its send to {to} was refused "
        f"({error.code}): {error.text}"
    )
