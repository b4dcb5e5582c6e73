"""Groups of branches from the application's side: what both kinds of client ask, and how.

A job with many tasks has each of them prepare branches, on connections of their own, and then
commits all of them as one (``core/transaction/second_phase.py``). What the tasks and the one who
commits have in common is the application's name and the number of the batch: everything else
follows from these.

Upholds: I2, I4 (asked again, a version is not committed again).
"""

from __future__ import annotations

from collections.abc import Sequence

from onceq.client.link import Session
from onceq.client.plans.plan import Plan, ask, do, look_at_all
from onceq.model import requests
from onceq.model.branches import TAG_BYTES, Xid, anchor_xid, group_prefix, group_xid
from onceq.model.views import looks
from onceq.model.views.looks import GroupResult, GroupView


def prefix_of(session: Session, app: str, version: int) -> bytes:
    """What all branches of a batch begin with."""
    import hashlib  # which loads OpenSSL

    digest = hashlib.sha256(f"{version}\0{app}".encode()).digest()
    return group_prefix(session.source, digest[:TAG_BYTES])


class BatchAttempt:
    """One attempt at a batch, or at a part of it, with branches that nobody else has."""

    def __init__(self, gtrid: bytes) -> None:
        self._gtrid = gtrid

    def branch(self, name: str) -> Xid:
        """The identifier of one of its branches, for ``QueueManager.branch``."""
        return group_xid(self._gtrid, name)

    def anchor(self, manager: bytes) -> Xid:
        """The branch that stands for those of this attempt at another queue manager.

        It is prepared here, with nothing in it, before the first of them is prepared there under
        ``branch``; and it is in the list that is committed.

        Args:
            manager: GUID of that queue manager.
        """
        return anchor_xid(self._gtrid, manager)


def attempt(session: Session, app: str, version: int) -> Plan[BatchAttempt]:
    """Begin an attempt.

    Args:
        app: Who commits batches one after another; up to 200 printable characters.
        version: Number of the batch, higher than any before.
    """
    asked = requests.BeginAttempt(prefix_of(session, app, version))
    return BatchAttempt((yield from ask(asked, bytes)))


def commit_group(
    session: Session, app: str, version: int, branches: Sequence[Xid], *, query: str = "",
    target: str = "", digest: str = "",
) -> Plan[GroupResult]:  # fmt: skip
    """Commit prepared branches as one, in this order, or find that this was done before.

    May be asked again, with any branches: a version takes effect once.

    Args:
        query: Which life of the application asks. Another one than before is refused.
        target: Where the branches go, in up to 100 characters. A version that was committed before
            for another target is refused, if both have said one.
        digest: What is in them, in up to 100 characters. The last version with another digest is
            refused, if both have said one.

    Raises:
        GroupDiffers: The version was committed before, and was something else.
        GroupIncomplete: A branch is not prepared (any more); none was committed.
        GroupOfAnotherQuery: The application was at work for another query.
    """
    prefix = prefix_of(session, app, version)
    asked = requests.CommitGroup(app, query, version, prefix, branches, target, digest)
    return ask(asked, GroupResult)


def rollback_group(session: Session, app: str, version: int, *, final: bool = False) -> Plan[int]:
    """Roll back what is prepared of a batch, by anybody; returns how many branches.

    Args:
        final: No attempt at it will follow: branches that are still at work are refused when they
            prepare, as long as the queue manager runs.
    """
    return ask(requests.RollbackGroup(prefix_of(session, app, version), final), int)


def applications(session: Session) -> Plan[list[GroupView]]:
    """Applications with their last version, those that have committed last first."""
    found = yield from look_at_all(session, looks.GROUPS)
    return sorted(found, key=lambda one: -one.since)


def forget_group(session: Session, app: str) -> Plan[None]:
    """Forget an application: its next batch is committed, of any version.

    Raises:
        UsageError: Nothing is remembered of it.
    """
    return do(requests.ForgetGroup(app))
