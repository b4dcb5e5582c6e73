"""Errors of branches that an operator has decided before their outcome was known (XTX-8).

Applications find them in ``onceq.errors``, the table of all.
"""

from __future__ import annotations

from onceq.errors.base import OnceqError


class DecidedByHand(OnceqError):
    """An operator has decided a branch before its outcome was known (XTX-8)."""

    __module__ = "onceq.errors"

    code, exit_code, xa = "decided-by-hand", 6, 5
    cure = "Compare with the decision (`tx show`); mend by hand what differs, then `tx forget`."


class CommittedByHand(DecidedByHand):
    """An operator has committed the branch (XA_HEURCOM)."""

    __module__ = "onceq.errors"

    code, xa = "committed-by-hand", 7


class RolledBackByHand(DecidedByHand):
    """An operator has rolled the branch back (XA_HEURRB)."""

    __module__ = "onceq.errors"

    code, xa = "rolled-back-by-hand", 6
