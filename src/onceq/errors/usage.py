"""Errors in how a program uses transactions; ``errors`` has all others, and repeats these."""

from __future__ import annotations

from onceq.errors.base import UsageError


class TransactionUsage(UsageError):
    """This may not be done inside (or outside) a transaction."""

    __module__ = "onceq.errors"
    code, hresult = "transaction-usage", 0xC00E0050
    cure = "Use a transaction with a transactional queue, and none with another, nor to peek."


class WrongQueueKind(TransactionUsage):
    """The queue is of this queue manager, and does not take messages that are sent so (Q-4)."""

    __module__ = "onceq.errors"
    code = "wrong-queue-kind"
    cure = (
        "Leave `transactional` out: a send without it is what the queue takes. In a transaction "
        "only transactional queues are sent to; send to the others with the queue manager."
    )


def not_transactional(what: str) -> WrongQueueKind:
    """A send in a transaction to such a queue (Q-4).

    Args:
        what: The queue, or what a send named, for people.
    """
    return WrongQueueKind(
        f"{what} is not transactional, and takes nothing that is sent in a transaction; send to it "
        "outside of transactions, or make another queue with transactional=True"
    )


class TransactionOver(UsageError):
    """The transaction is unknown or already over."""

    __module__ = "onceq.errors"
    code, hresult = "transaction-over", 0xC00E0051
    cure = "Begin a new one; after a lost connection ask for the `outcome` of the old one first."


class NotCarriedOut(UsageError):
    """What a program has given cannot have run, so nothing of the transaction happens."""

    __module__ = "onceq.errors"
    code = "not-carried-out"
    cure = (
        "Await what the text names. Handlers of `onceq.aio` are `async def`, those for threads are "
        "plain functions that do their work before they return."
    )
