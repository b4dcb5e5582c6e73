"""What carries jobs out: which one is next, batches of them, and their ends.

A job needs what messages say, which the core does not have. So the service reads them, decides
what becomes of each (``service/jobs.py``), and hands that in, a batch at a time. No application
can: these are no requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from onceq.model.requests import SendItem


@dataclass(frozen=True, slots=True)
class NextJob:
    """Which job is to be worked off. Answer: a Work (``core/state/job_table.py``), or None.

    Attributes:
        behind: Those up to this number have had their turn.
    """

    behind: int
    owner: int = 0
    request: int = 0


@dataclass(frozen=True, slots=True)
class JobDeed:
    """What is to become of one message.

    Attributes:
        lookup: Its place.
        id: Message identifier, as text.
        item: What is sent in its place; None: nothing.
        transactional: Whether that is a transaction.
        together: Those with the same number, side by side and all there, are one transaction again;
            0: it is one of its own.
        apart: It was sent with others, and is sent without them: as a part of a transaction that
            nobody takes for complete.
    """

    lookup: int
    id: str
    item: SendItem | None = None
    transactional: bool = False
    together: int = 0
    apart: bool = False


@dataclass(frozen=True, slots=True)
class JobBatch:
    """The next messages of a job. Answer: a Work, where it goes on then; None: it is over.

    Attributes:
        at, before: Where the job has to be, or nothing happens: the index of its queue, and the
            lookup identifier behind which it goes on.
        to_at, after: Where it goes on then.
        looked: Messages that were looked at; of others than those of ``deeds`` and ``kept`` nothing
            is meant.
        kept: Pairs of a reason and how many messages stay for it.
        over: That was all; with ``more`` as far as its limit goes.
    """

    job: int
    at: int
    before: int
    to_at: int
    after: int
    looked: int
    deeds: tuple[JobDeed, ...] = ()
    kept: tuple[tuple[str, int], ...] = ()
    over: bool = False
    more: bool = False
    owner: int = 0
    request: int = 0


@dataclass(frozen=True, slots=True)
class JobFailed:
    """A job cannot go on, for that reason. Answer: None.

    Attributes:
        final: It is over; else it is tried again.
    """

    job: int
    why: str
    final: bool = True
    owner: int = 0
    request: int = 0
