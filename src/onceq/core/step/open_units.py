"""Units of work that are open, found by those who work in them; and why others are refused.

A client does not wait for the answer to its begin. Why a unit of work was not begun, or was ended
by this manager, is therefore remembered for a while, and said to whatever is asked of it next.

Upholds: I17.
"""

from __future__ import annotations

from onceq.core.step.step import Step, Transaction
from onceq.errors import OnceqError, TransactionOver
from onceq.model.xid import Xid

REFUSED_MAX = 1_024
"""Transactions not begun, or over, of which it is remembered why; the oldest go first."""


def find(step: Step, owner: int, number: int) -> Transaction:
    """An open transaction; raises TransactionOver, or why it could not be begun."""
    tx = step.transactions.get((owner, number))
    if tx is None:
        refused = step.refused.get((owner, number))
        if refused is not None:
            raise refused
        raise TransactionOver("this transaction is over, or was never begun")
    tx.used_us = step.now.mono_us
    return tx


def refused_from_now_on(step: Step, what: tuple[int, int] | Xid | bytes, why: OnceqError) -> None:
    """Say why to whatever is asked next of a transaction or branch that is not there."""
    step.refused[what] = why
    if len(step.refused) > REFUSED_MAX:
        del step.refused[next(iter(step.refused))]
