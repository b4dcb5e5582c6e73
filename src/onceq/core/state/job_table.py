"""Jobs of a queue manager: what is durable of them (``core/management/jobs.py``).

A job goes through its queues in the order of their places. One record has the changes of a batch
together with the job's progress (``JobMark``, a mark of the change). So a crash can neither lose
progress nor let a message be processed twice, or counted twice.

The messages of a job are those that stood in its queues when it began: of each lane the counter
behind the last of them is kept. What goes away and comes back is not met again.

Upholds: I2, I22, I24 (JOBS_KEPT_MAX, JOBS_RUNNING_MAX, JOB_FAILURES_MAX, JOB_REASONS_MAX).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from onceq.core.state.setups import JobEnded, JobStarted, Setup, read_fields, row_of
from onceq.model.letters import JobState, Order
from onceq.model.limits import JOB_FAILURES_MAX, JOB_REASONS_MAX, JOBS_KEPT_MAX
from onceq.model.record import MutableRecord, field, names

OTHERS: Final = "other reasons"
"""Under which messages are counted when there are JOB_REASONS_MAX reasons already."""


class Source(NamedTuple):
    """A queue of a job.

    Attributes:
        number: Of the queue, which no other gets.
        name: As the user who started the job has written it.
        ends: Pairs of a lane and the counter behind its last message at the start.
    """

    number: int
    name: str
    ends: tuple[tuple[int, int], ...]


class Work(NamedTuple):
    """Where a job goes on; see Job."""

    number: int
    sources: tuple[Source, ...]
    order: Order
    began_s: int
    at: int
    after: int
    done: int


class Failed(NamedTuple):
    """A message that could not be done: queue (index in the job), place, identifier, error."""

    at: int
    lookup: int
    id: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class JobMark:
    """What one batch of a job adds, and where the job goes on.

    Attributes:
        at, after: Index of the queue, and the lookup identifier behind which it goes on.
        looked, done, gone, failed: See ``JobView``.
        over: That was all.
        more: It ends because of its limit, and there was more.
        kept: Pairs of a reason and how many messages stay for it.
        failures: As many as are kept.
        torn: How many were sent without others of their transaction.
    """

    job: int
    at: int
    after: int
    looked: int = 0
    done: int = 0
    gone: int = 0
    failed: int = 0
    over: bool = False
    more: bool = False
    kept: tuple[tuple[str, int], ...] = ()
    failures: tuple[Failed, ...] = ()
    torn: int = 0

    def dump(self) -> list[Any]:
        """As JSON has it."""
        return [
            self.job, self.at, self.after, self.looked, self.done, self.gone, self.failed,
            int(self.over), int(self.more), list(self.kept), list(self.failures),
            *([self.torn] if self.torn else ()),
        ]  # fmt: skip

    @classmethod
    def load(cls, values: Sequence[Any]) -> JobMark:
        """Read it back; raises TypeError or ValueError."""
        job, at, after, looked, done, gone, failed, over, more, kept, failures, *rest = values
        (torn,) = rest or (0,)
        for number in (job, at, after, looked, done, gone, failed, torn):
            if not isinstance(number, int):
                raise TypeError(f"{number!r} counts nothing")
        reasons = tuple((str(why), int(count)) for why, count in kept)
        found = tuple(Failed(*row) for row in failures)
        return cls(
            job, at, after, looked, done, gone, failed, bool(over), bool(more), reasons, found,
            torn,
        )  # fmt: skip


class Job(MutableRecord):
    """One job.

    Attributes:
        who, where: The actor that has started it, and from where; "": this process itself.
        free: That actor runs the queue manager, and may do everything.
        began_s, ended_s: Second since 1970; 0: not yet.
        at, after: Index of its queue, and the lookup identifier behind which it goes on.
        why: The reason for its end, if it was not done.
        into: Numbers of the queues here that it sends to; empty in older stores.

    The others: see ``JobView``.
    """

    number: int
    sources: tuple[Source, ...]
    order: Order
    who: str
    where: str
    free: bool
    began_s: int
    total: int
    state: JobState = JobState.RUNNING
    ended_s: int = 0
    at: int = 0
    after: int = 0
    looked: int = 0
    done: int = 0
    gone: int = 0
    failed: int = 0
    more: bool = False
    kept: dict[str, int] = field(default_factory=dict)
    failures: list[Failed] = field(default_factory=list)
    why: str = ""
    into: tuple[int, ...] = ()
    torn: int = 0

    @property
    def running(self) -> bool:
        """Whether it is not over."""
        return self.state is JobState.RUNNING

    @property
    def work(self) -> Work:
        """Where it goes on."""
        return Work(
            self.number, self.sources, self.order, self.began_s, self.at, self.after, self.done
        )

    def advance(self, mark: JobMark) -> None:
        """What a batch has added."""
        self.at, self.after, self.more = mark.at, mark.after, mark.more
        self.looked += mark.looked
        self.done += mark.done
        self.gone += mark.gone
        self.failed += mark.failed
        self.torn += mark.torn
        for why, count in mark.kept:
            known = why in self.kept or len(self.kept) < JOB_REASONS_MAX
            name = why if known else OTHERS
            self.kept[name] = self.kept.get(name, 0) + count
        self.failures += mark.failures[: JOB_FAILURES_MAX - len(self.failures)]


class Jobs:
    """All jobs that run, and the last of those that are over."""

    __slots__ = ("_jobs", "next")

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self.next = 1
        """Number of the next job."""

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, number: int) -> Job | None:
        """One that runs, or is remembered."""
        return self._jobs.get(number)

    def running(self) -> list[Job]:
        """Those that are not over, in the order in which they were started."""
        return [job for job in self._jobs.values() if job.running]

    def apply(self, setup: Setup) -> None:
        """Apply a setup."""
        match setup:
            case JobStarted():
                s = setup
                self.start(
                    Job(s.number, sources_of(s.sources), Order.load(s.order), s.who, s.where,
                        s.free, s.at_s, s.total, into=tuple(s.into))
                )  # fmt: skip
            case JobEnded(number, state, at_s, why):
                self.end(number, JobState(state), at_s, why)

    def start(self, job: Job) -> None:
        """One begins."""
        self._jobs[job.number] = job
        self.next = job.number + 1

    def advance(self, mark: JobMark, wall_s: int) -> None:
        """A record says what a batch has done."""
        job = self._jobs[mark.job]
        job.advance(mark)
        if mark.over:
            self.end(mark.job, JobState.DONE, wall_s, "")

    def end(self, number: int, state: JobState, at_s: int, why: str) -> None:
        """One is over; the oldest of those that are too many is forgotten."""
        job = self._jobs[number]
        job.state, job.ended_s, job.why = state, at_s, why
        over = [one for one in self._jobs.values() if not one.running]
        over.sort(key=lambda one: (one.ended_s, one.number))
        for one in over[: max(len(over) - JOBS_KEPT_MAX, 0)]:
            del self._jobs[one.number]

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        rows = []
        for job in self:
            row = dict(zip(names(Job), row_of(job), strict=True))
            row["order"], row["kept"] = job.order.dump(), list(job.kept.items())
            row["failures"] = job.failures.copy()
            rows.append(list(row.values()))
        return rows

    def load(self, rows: Sequence[Sequence[Any]]) -> None:
        """Take the rows of a checkpoint."""
        for row in rows:
            given = dict(zip(names(Job), row, strict=False))
            given |= {"order": Order.load(given["order"]), "kept": dict(given["kept"])}
            job = read_fields(Job, given)
            self._jobs[job.number] = job


def sources_of(rows: Sequence[Sequence[Any]]) -> tuple[Source, ...]:
    """The queues of a job from JSON; raises TypeError or ValueError."""
    return tuple(
        Source(number, name, tuple((lane, end) for lane, end in ends))
        for number, name, ends in rows
    )
