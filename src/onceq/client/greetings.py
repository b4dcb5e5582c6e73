"""Who answers at the other end of a connection."""

from __future__ import annotations

from typing import Any

from onceq.errors import UnsupportedOperation
from onceq.model.limits import OUTCOME_AGE_S
from onceq.model.record import Record
from onceq.wire.app import frames


class Greeting(Record, frozen=True):
    """Who is at the other end, for how long it answers for old commits, and what it knows
    (``frames.REVISION``)."""

    name: str
    id: bytes
    now_s: int
    outcome_age_s: int = OUTCOME_AGE_S
    revision: int = 0


def greeting(head: Any) -> Greeting:
    """Who answers a hello."""
    said = frames.decode_head(head, frames.Welcome)
    return Greeting(said.name, said.id, said.now_s, said.outcome_age_s, said.revision)


def check_jobs(revision: int) -> None:
    """Raises UnsupportedOperation if a queue manager that knows so much has no jobs."""
    _check(revision, frames.REVISION_JOBS, "has no jobs")


def check_pages(revision: int) -> None:
    """Raises UnsupportedOperation if a queue manager that knows so much tells no list in pages."""
    _check(revision, frames.REVISION_PAGES, "does not tell a list in pages")


def check_identifiers(revision: int) -> None:
    """Raises UnsupportedOperation if a queue manager that knows so much wants the identifiers of
    transactions made for it."""
    _check(revision, frames.REVISION_IDENTIFIERS, "makes no identifiers of transactions")


def _check(revision: int, needed: int, why: str) -> None:
    if revision < needed:
        raise UnsupportedOperation(
            f"this queue manager is older than its client and {why}; bring it to the same version "
            "of onceq"
        )
