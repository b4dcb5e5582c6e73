"""Commits, and what became of them.

Upholds: I3a (a commit whose answer is lost has a name under which its outcome can be asked for).
"""

from __future__ import annotations

from typing import Final

from onceq.client.plans.plan import Plan, ask
from onceq.client.session import Session
from onceq.errors import (
    InDoubt,
    InvalidParameter,
    LinkLost,
    OnceqError,
    StorageFailure,
    TransactionOver,
)
from onceq.model import requests
from onceq.model.identity import TransactionId
from onceq.model.results import Outcome

UNANSWERED: Final = (LinkLost, StorageFailure)
"""Errors after which nobody knows whether a request was carried out."""


def not_committed(session: Session, id: TransactionId, error: OnceqError) -> None:
    """A commit has ended with an error, which the caller raises if this does not.

    Raises:
        InDoubt: Its answer was lost: says under which identifier to ask.
    """
    if isinstance(error, UNANSWERED):
        raise InDoubt(
            f"the answer to the commit was lost ({error.text}); ask outcome({str(id)!r}), and "
            "send again only if it says aborted",
            transaction=str(id),
        ) from error
    if isinstance(error, TransactionOver):
        session.barred(id)


def outcome(session: Session, transaction: str) -> Plan[str]:
    """What became of a commit: "committed", "aborted", or "unknown" if it is too long ago.

    The answer is final: once "aborted" was said, that commit can no longer happen.

    Args:
        transaction: The ``id`` of the transaction, or ``transaction`` of an ``InDoubt``.
    """
    try:
        id = TransactionId.parse(transaction)
    except ValueError as error:
        raise InvalidParameter(str(error)) from None
    if not 0 < id.number < 1 << 62:
        raise InvalidParameter(f"not a transaction identifier: {transaction!r}")
    session.check(id)
    return (yield from ask(requests.AskOutcome(id), Outcome))
