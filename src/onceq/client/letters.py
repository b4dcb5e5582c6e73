"""Dead letters and journal copies: find them, send them home, remove them.

To find them a client reads their queues, page by page. To send them home and to remove them are
jobs of the queue manager (``plans/queues``): if something crashes in between, each letter is in
exactly one place.

Written once for threads and tasks, as generators of calls (``partners/procedures.py``);
``threads/letters`` and ``tasks/letters`` are the faces.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from onceq.errors import InvalidParameter, OnceqError, ReceiveTimeout, Refused, every
from onceq.model import letters as rules
from onceq.model.identity import guid_bytes
from onceq.model.letters import Filter, JobAction, Letter
from onceq.model.limits import RETURN_MESSAGES_MAX, RETURNS_MAX
from onceq.model.views.looks import JobView
from onceq.model.views.queues import QueueView
from onceq.packet.arrived import Batch
from onceq.partners.procedures import Calls, call

PAGE: Final = 256
"""Messages that are read at once."""


class Peekable(Protocol):
    """A queue manager whose messages can be read, of either face."""

    @property
    def id(self) -> str: ...

    def peek_many(self, queue: str, max: int, /, *, after: int) -> Awaitable[Batch] | Batch: ...


class AnyJobs(Protocol):
    """The jobs of a queue manager, of either face."""

    def start(
        self, action: str, /, *queues: str, which: Filter, to: str, limit: int, returns_max: int,
        in_doubt: bool, second: bool,
    ) -> Awaitable[JobView] | JobView: ...  # fmt: skip

    def cancel(self, number: int, /) -> Awaitable[JobView] | JobView: ...

    def wait(
        self, number: int, /, *, progress: Callable[[JobView], object] | None
    ) -> Awaitable[JobView] | JobView: ...


class JobsManager(Peekable, Protocol):
    """A queue manager that carries jobs out, of either face."""

    def queue(self, name: str, /) -> Awaitable[QueueView] | QueueView: ...

    @property
    def jobs(self) -> AnyJobs: ...


@dataclass(slots=True)
class Returned:
    """What became of dead letters that were to go home.

    Attributes:
        sent: How many went.
        kept: How many stayed, by the reason.
        more: Whether there were more than the limit.
        were_for: Of a dry run: destinations of those that would go, each with how many. A letter
            that is sent to another destination does not say its own any more.
    """

    sent: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    more: bool = False
    were_for: dict[str, int] = field(default_factory=dict)


class Search:
    """Goes through the messages of queues, page by page."""

    def __init__(self, queues: Iterable[str], which: Filter, now_s: int) -> None:
        """Nothing is read yet; ``now_s`` is the second since 1970 from which ages count."""
        self._queues = deque(queues)
        self._which, self._now_s = which, now_s
        self._after = 0

    @property
    def over(self) -> bool:
        """Whether everything was looked at."""
        return not self._queues

    def page(self, qm: Peekable) -> Calls[list[Letter]]:
        """Those of the next page that fit."""
        queue, here = self._queues[0], guid_bytes(qm.id)
        try:
            page = yield from call(qm.peek_many, queue, PAGE, after=self._after)
        except ReceiveTimeout:
            self._queues.popleft()
            self._after = 0
            return []
        self._after = page.lookup_ids[-1]
        found = (Letter(queue, message, here) for message in page)
        return [letter for letter in found if self._which.fits(letter, self._now_s)]


def give_back(
    qm: JobsManager, queues: Sequence[str], which: Filter, now_s: int, *, to: str = "",
    limit: int = RETURN_MESSAGES_MAX, returns_max: int = RETURNS_MAX, in_doubt: bool = False,
    second: bool = False, dry_run: bool = False, progress: Callable[[int], object] | None = None,
) -> Calls[Returned]:  # fmt: skip
    """Send dead letters home, as a job of the queue manager, and wait until it is over.

    Args:
        now_s: Second since 1970 from which a dry run counts ages; a job counts from its start.
        to: Another destination for all of them.
        limit: At most this number.
        returns_max: None that was returned as often as this.
        in_doubt: Also those that may have been received.
        second: Also those of which their sender has another dead letter.
        dry_run: Only say what would happen.
        progress: Called with the number of those that went, whenever it grows.

    Raises:
        OnceqError: Some could not be sent, and stay; the others went. It is the error of the first
            of them.
        Refused: The queue manager cannot go on now, and the job was cancelled; what went before
            has gone.
    """
    if limit < 1 or returns_max < 1:
        raise InvalidParameter("a limit is a number from 1")
    if dry_run:
        return (yield from _preview(
            qm, Search(queues, which, now_s), to, limit, returns_max, in_doubt=in_doubt,
            second=second,
        ))  # fmt: skip
    job = yield from _carry_out(
        qm, JobAction.RETURN, queues, which, progress, to=to, limit=limit,
        returns_max=returns_max, in_doubt=in_doubt, second=second,
    )  # fmt: skip
    return Returned(job.done, dict(job.kept), job.more)


def discard(
    qm: JobsManager, queues: Sequence[str], which: Filter, now_s: int, *, dry_run: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Calls[int]:  # fmt: skip
    """Remove messages for good, as a job of the queue manager; returns how many.

    Args:
        now_s: See ``give_back``; so are the errors.
        dry_run: Only count them.
        progress: Called with the number of those that are removed, whenever it grows.
    """
    if not dry_run:
        job = yield from _carry_out(qm, JobAction.PURGE, queues, which, progress)
        return job.done
    count, search = 0, Search(queues, which, now_s)
    while not search.over:
        count += len((yield from search.page(qm)))
    return count


def _preview(
    qm: JobsManager, search: Search, to: str, limit: int, returns_max: int, *, in_doubt: bool,
    second: bool,
) -> Calls[Returned]:  # fmt: skip
    """What a job that sends letters home would do."""
    would, kept, were_for = Returned(), Counter[str](), Counter[str]()
    while not (search.over or would.more):
        for letter in (yield from search.page(qm)):
            why = rules.stays(letter, in_doubt=in_doubt, second=second, returns_max=returns_max)
            if not (why or to) and rules.is_foreign(letter):
                queue, transactional = letter.message.destination, None
                with contextlib.suppress(OnceqError):
                    transactional = (yield from call(qm.queue, queue)).transactional
                why = rules.cannot_go_back(letter.message, transactional)
            if why:
                kept[why] += 1
            elif would.sent == limit:
                would.more = True
                break
            else:
                would.sent += 1
                were_for[letter.message.destination] += 1
    would.kept, would.were_for = dict(kept), dict(were_for)
    return would


def _carry_out(
    qm: JobsManager, action: JobAction, queues: Sequence[str], which: Filter,
    progress: Callable[[int], object] | None, *, to: str = "", limit: int = 0,
    returns_max: int = RETURNS_MAX, in_doubt: bool = False, second: bool = False,
) -> Calls[JobView]:  # fmt: skip
    """Start a job and wait until all of it is done; raises what ``give_back`` says."""
    count = 0

    def watch(job: JobView) -> None:
        nonlocal count
        if job.trouble and not job.over:
            raise Refused(job.trouble)
        if progress is not None and job.done > count:
            count = job.done
            progress(count)

    job = yield from call(
        qm.jobs.start, action.value, *queues, which=which, to=to, limit=limit,
        returns_max=returns_max, in_doubt=in_doubt, second=second,
    )  # fmt: skip
    try:
        job = yield from call(qm.jobs.wait, job.number, progress=watch)
    except Refused:
        # Nobody would see that the job waits, and it would go on by surprise.
        yield from call(qm.jobs.cancel, job.number)
        raise
    if job.failures:
        one = job.failures[0]
        raise every().get(one.code, Refused)(
            f"{one.text}; {job.failed:,} of {job.looked:,} messages stay where they are, and "
            f"'onceq job show {job.number}' names them"
        )
    if job.state != "done":
        raise Refused(f"job {job.number} is {job.state}: {job.why}")
    return job
