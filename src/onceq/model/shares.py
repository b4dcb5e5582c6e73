"""What one owner may have of each thing that all of them share: one table, and one answer.

Each thing that a queue manager counts has three limits: of the whole, of one owner, and a reserve
that only administrators may use. An owner is the actor that has made the thing: an account, a
token, a certificate, another queue manager. An owner other than an administrator may have one more
as long as

* it has less than its share,
* what would be left for all others, without the reserve, is no less than what it has itself.

The second rule is why a few owners together shut nobody out: the first one takes a half of what is
there at most, the next one a half of the rest. Administrators, such as the account that runs the
queue manager, may use everything.

The table in ``docs/reference/limits.md`` is generated from here.

Upholds: I24 (finding S10).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from onceq.model import limits
from onceq.model.record import Record

RESERVE_PART: Final = 8
"""Administrators keep this fraction of the whole: one part in ``RESERVE_PART``."""


class Thing(StrEnum):
    """What is counted; the values are the words of texts, in the plural."""

    QUEUES = "queues"
    SUBQUEUES = "subqueues"
    OUTGOING = "outgoing queues"
    GRANTS = "grants"
    JOBS = "running jobs"
    HANDLES = "queues held open"
    CURSORS = "cursors"
    WAITS = "waiting receives"
    TRANSACTIONS = "open transactions"
    BRANCHES = "prepared branches"
    DECISIONS = "decisions that partners have not carried out"
    GROUPS = "names of applications"
    STREAMS = "incoming streams"


class ThingLimits(Record, frozen=True):
    """The limits of one thing.

    Attributes:
        whole: All of them together.
        share: Those of one owner at most.
        reserve: How many of the whole only administrators may use.
        owner: Whose one is, as the documentation says it.
        cure: What somebody does who is refused.
        plenty: As long as all of them together are fewer, nobody is refused.
    """

    whole: int
    share: int
    reserve: int
    owner: str
    cure: str
    plenty: int


def line(whole: int, part: int, owner: str, cure: str, *, reserved: bool = True) -> ThingLimits:
    """A line of the table.

    Args:
        part: One owner has one part in ``part`` of the unreserved rest.
        reserved: Whether administrators make such things at all.
    """
    reserve = whole // RESERVE_PART if reserved else 0
    share = (whole - reserve) // part
    return ThingLimits(whole, share, reserve, owner, cure, min(share, (whole - reserve) // 2))


TABLE: Final[dict[Thing, ThingLimits]] = {
    Thing.QUEUES: line(
        limits.QUEUES_MAX, 4, "who has made it",
        "delete some ('onceq queue delete')",
    ),
    Thing.SUBQUEUES: line(
        limits.SUBQUEUES_MAX, 4,
        "who has opened it first, or moved the first message to it; of those that the queue "
        "manager makes itself for poison messages who has made the queue",
        "close those that are empty, and receive what is in the others",
    ),
    Thing.OUTGOING: line(
        limits.OUTGOING_QUEUES_MAX, 4,
        "whose send or open has made it; of one for answers the queue manager whose messages are "
        "answered; of one for messages that are passed on their sender",
        "send to fewer destinations, and let those go that are empty ('onceq outgoing tidy')",
    ),
    Thing.GRANTS: line(
        limits.GRANTS_MAX, 4, "who has given it; what owners have by making queues is not counted",
        "use patterns, or revoke some ('onceq revoke')",
    ),
    Thing.JOBS: line(
        limits.JOBS_RUNNING_MAX, 4, "who has started it",
        "wait until one of them is done, or cancel one ('onceq job list' shows them)",
    ),
    Thing.HANDLES: line(limits.HANDLES_MAX, 2, "who has opened it", "close some"),
    Thing.CURSORS: line(limits.CURSORS_MAX, 2, "who has opened it", "close some"),
    Thing.WAITS: line(
        limits.WAITING_READERS_MAX, 2, "who waits", "wait with fewer receives at one time"
    ),
    Thing.TRANSACTIONS: line(
        limits.OPEN_TRANSACTIONS_MAX, 2,
        "who has begun it; branches of external transactions among them, until they are prepared",
        "end some ('onceq tx list' shows them)",
    ),
    Thing.BRANCHES: line(
        limits.PREPARED_MAX, 2, "who has promised it",
        "recover those that wait for their outcomes ('onceq tx list' shows them)",
    ),
    Thing.DECISIONS: line(
        limits.DECISIONS_MAX, 2, "who has decided it",
        "recover these first ('onceq tx list' shows them)",
    ),
    Thing.GROUPS: line(
        limits.GROUPS_MAX, 2, "who has committed first under the name",
        "'onceq tx groups' shows them, 'onceq tx forget-group' forgets one that is gone",
    ),
    Thing.STREAMS: line(
        limits.STREAMS_MAX, 2, "the queue manager that sends it",
        "send to fewer queues of this queue manager", reserved=False,
    ),
}  # fmt: skip
"""The limits of everything that is counted by owner."""


def why_not(
    thing: Thing, by: str, own: int, total: int, *, administers: bool, more: int = 1
) -> str:  # fmt: skip
    """Why an owner may not have one more of a thing; "": it may.

    Args:
        by: Who it is; "": the account that runs the queue manager.
        own: How many the owner has.
        total: How many there are.
        administers: Whether the owner is an administrator.
        more: How many more at once.

    Returns:
        The text of the refusal: which limit, how many the owner has, and what to do.
    """
    limit = TABLE[thing]
    if total + more > limit.whole:
        return f"there are {total:,} {thing} already, of at most {limit.whole:,}: {limit.cure}"
    if administers:
        return ""
    if own + more > limit.share:
        return (
            f"{by} has {own:,} {thing}, and one owner may have {limit.share:,} of the "
            f"{limit.whole:,}: {limit.cure}"
        )
    left = max(limit.whole - limit.reserve - total, 0)
    if own + more > left:
        return (
            f"{by} has {own:,} {thing} of {total:,}, and {left:,} are left for everybody; "
            f"{limit.reserve:,} of the {limit.whole:,} are kept for administrators, and nobody "
            f"else may have more than is left for others: {limit.cure}"
        )
    return ""


class OwnerCounts:
    """How many of a thing each owner has, and how many there are."""

    __slots__ = ("_of", "total")

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self.total = 0

    def add(self, by: str) -> None:
        """An owner has one more."""
        self.total += 1
        self._of[by] = self._of.get(by, 0) + 1

    def drop(self, by: str) -> None:
        """An owner has one less."""
        self.total -= 1
        left = self._of[by] - 1
        if left:
            self._of[by] = left
        else:
            del self._of[by]

    def of(self, by: str) -> int:
        """How many an owner has."""
        return self._of.get(by, 0)

    def all(self) -> dict[str, int]:
        """Those of every owner that has any."""
        return dict(self._of)
