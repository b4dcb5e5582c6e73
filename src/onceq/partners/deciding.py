"""The decision: who is asked, when it is made, who is told. Pure: a generator of steps.

All partners prepare, in the order in which they were enlisted. Then the home manager commits: its
commit record *is* the decision (it is the last agent, and needs no record beside the one that it
writes anyway). Then all partners commit. If anything fails before the decision, all roll back;
there is no record of that, because no record is an abort (presumed abort). After the decision
nothing can fail any more: a partner that cannot be reached is told later (``recovery.py``).

The drivers in the client carry the steps out, from threads and from tasks; tests carry them out on
models, with a failure and a crash at each of them.

Upholds: I21 (nobody commits before the decision is durable, nobody is told of a commit before it,
nobody rolls back after it).
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from enum import Enum
from typing import Any

from onceq.errors import (
    InDoubt,
    OnceqError,
    PartnerEnded,
    PartnerRefused,
    RolledBack,
    RolledBackByPartner,
    UnknownBranch,
)
from onceq.model.branch import Vote
from onceq.model.record import MutableRecord, Record, field


class What(Enum):
    """What a step asks for: of one partner, or (partner -1) of the home manager."""

    PREPARE = "prepare"
    """Result: a Vote."""
    DECIDE = "decide"
    """Commit the home manager's transaction. Result: what its commit gives."""
    COMMIT = "commit"
    COMMIT_ONE_PHASE = "commit_one_phase"
    ROLLBACK = "rollback"
    PROMISE = "promise"
    """Prepare the home manager's transaction as a branch. Result: ``Promised``; None: it has
    nothing to decide. This and what follows: only with a last agent (``last_agent.py``)."""
    RECORD = "record"
    """Commit a partner with the row that decides."""
    FULFIL = "fulfil"
    """Commit the home manager's branch. Result: what its commit gives."""
    BREAK = "break"
    """Roll the home manager's branch back."""
    DONE = "done"
    """All partners have carried the decision out: the manager may forget it."""
    LEAVE = "leave"
    """Not all could be told: recovery may go on with it."""


class Step(Record, frozen=True):
    """One thing to do.

    Attributes:
        partner: Index of the partner; -1: the home manager.
    """

    what: What
    partner: int = -1


class Made(MutableRecord):
    """How it went.

    Attributes:
        result: What the commit of the home manager gave; None: it had nothing to do.
        pending: Partners that are still to be told, with what happened instead.
    """

    result: Any = None
    pending: list[tuple[int, BaseException]] = field(default_factory=list)


Steps = Generator[Step, Any, Made]


def committing(count: int, votes: list[Vote] | None = None, *, idle: bool = False) -> Steps:
    """The steps of a commit with ``count`` partners; exceptions of a step are thrown in.

    Args:
        votes: Where what partners have voted is kept, for whoever rolls them back if this is left
            in the middle.
        idle: The home manager has nothing to commit itself.

    Raises:
        RolledBack: A partner would not; everything was undone.
        InDoubt: Nobody knows whether the home manager has committed; partners stay prepared, and
            recovery will tell them.
        OnceqError: The home manager refused its commit; everything was undone.
    """
    if idle and count == 1:
        return (yield from one_phase())
    votes = [] if votes is None else votes
    yield from preparing(count, votes, count)
    try:
        made = Made((yield Step(What.DECIDE)))
    except InDoubt:
        raise
    except OnceqError:
        yield from undoing(count, votes)
        raise
    yield from telling(made, votes)
    return made


def preparing(first: int, votes: list[Vote], count: int) -> Generator[Step, Any, None]:
    """Let the first of ``count`` partners prepare; raises RolledBack if one cannot."""
    for index in range(first):
        try:
            votes.append((yield Step(What.PREPARE, index)))
        except Exception as error:
            # Who has refused has rolled back, and its connection is free: it is not told again.
            refused = isinstance(error, (PartnerRefused, RolledBack))
            yield from undoing(count, votes, but=index if refused else -1)
            raise rolled_back(
                f"partner {index + 1} of {count} could not promise to commit, and everything was "
                "undone",
                error,
            ) from error


def rolled_back(what: str, error: Exception) -> RolledBack:
    """What a commit says after a partner would not: to do it again is safe, unless the application
    has ended the share there by itself, and maybe committed it."""
    kind = RolledBack if isinstance(error, PartnerEnded) else RolledBackByPartner
    return kind(f"{what}: {error}")


def telling(made: Made, votes: Sequence[Vote]) -> Generator[Step, Any, None]:
    """It is decided: those that have promised commit, or are told later."""
    for index, vote in enumerate(votes):
        if vote is Vote.PREPARED:
            try:
                yield Step(What.COMMIT, index)
            except UnknownBranch:
                continue  # It is decided, so it can only have been told before.
            except Exception as error:  # noqa: BLE001 - it is decided: it will be told later
                made.pending.append((index, error))
    with contextlib.suppress(OnceqError):  # Recovery finds out.
        yield Step(What.LEAVE if made.pending else What.DONE)


def one_phase() -> Steps:
    """There is one partner and nobody else: no promise is needed."""
    try:
        yield Step(What.COMMIT_ONE_PHASE, 0)
    except InDoubt:
        raise
    except (PartnerRefused, RolledBack) as error:
        raise rolled_back("the only partner could not commit, and was undone", error) from error
    except Exception as error:
        raise InDoubt(
            f"the answer of the only partner to its commit was lost: {error}; look there whether "
            "it is done, and do it again only if it is not"
        ) from error
    return Made()


def undoing(count: int, votes: Sequence[Vote] = (), *, but: int = -1) -> Generator[Step, Any, None]:
    """Roll all partners back but one, and those whose share was over when they had voted; who
    cannot be told will find no decision, which is the same."""
    for index in range(count):
        if index == but or Vote.READ_ONLY in votes[index : index + 1]:
            continue
        try:
            yield Step(What.ROLLBACK, index)
        except Exception:  # noqa: BLE001 - presumed abort: recovery will do it
            continue
