"""What a queue manager answers to requests that send, commit and open.

These cross a connection as arrays, the values in this order.

Also here:

* A refused send dooms its transaction: whether one does, and what the commit says then.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from onceq.errors import BodyTooLarge, OnceqError, Refused, SendFailed


class Sent(NamedTuple):
    """A send or a commit is done.

    Attributes:
        first_message: Number of the first message sent; the others follow in the order of
            sending, one number a message with any number of destinations (FN-14).
        messages: How many.
        transaction: Number of the transaction in XACTID (SND-11); 0 outside a transaction.
    """

    first_message: int = 0
    messages: int = 0
    transaction: int = 0


class Promised(NamedTuple):
    """A transaction is a prepared branch; a row in a database decides it.

    Attributes:
        number: Of the branch: later ones of this manager have higher numbers.
        first_message: Number of the first message that it sends; 0 if its commit gives that.
        messages: How many.
        transaction: As of ``Sent``; 0 if its commit gives that.
    """

    number: int
    first_message: int = 0
    messages: int = 0
    transaction: int = 0


class Opened(NamedTuple):
    """A queue is open: the handle, and what the name led to.

    Attributes:
        handle: Number of the handle.
        local: Whether all its queues are of this manager.
        transactional: Whether those of this manager are; None: it has none here.
        turn: How many have kept others from receiving from it, this one included, since the
            queue manager was started; so who comes back sees whether anybody was there meanwhile.
            0: it keeps nobody from it.
        places: Opened to send: numbers of the queues, here or outgoing, that the name leads to.
            Order is kept between messages that have one of them in common.
    """

    handle: int
    local: bool
    transactional: bool | None
    turn: int = 0
    places: tuple[int, ...] = ()


class Outcome(StrEnum):
    """What became of a commit. UNKNOWN: longer ago than outcomes are remembered."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


# ---- a refused send dooms its transaction --------------------------------------------------------


_SHOWN_CHARS: Final = 200
"""Of a destination in a text; names with many elements are long."""


def dooms(error: OnceqError) -> bool:
    """Whether this refusal of a send dooms its transaction: the call itself is not wrong.

    A call with a too large body is always wrong; the sender may go on, and send it in parts.
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
