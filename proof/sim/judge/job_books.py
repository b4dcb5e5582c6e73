"""The judge's books of jobs: how far each is, and what it has certainly, or perhaps, done.

Fed by the worker of jobs (``apps/job_worker.py``). A batch that is asked for may count already;
where its answer was lost, the counts of the job say later whether it does, and where a job goes on
must be where the last batch that counts has left it. So each message that a batch was about is
known to be done or not, but for batches of which something was gone before they came.

Watches: I22 (a job goes on where it was, with true numbers), I4 and I11 by what it enters into the
copies of messages (``worked.py``), I26 (a job that is done has done all).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onceq.core.inputs import JobBatch
from onceq.core.state.job_table import Work
from onceq.model.views.looks import JobView
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.judge.books import Copy, Message, Place
from proof.sim.judge.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Deed:
    """What a batch does to one message.

    Attributes:
        stands: The application's queue that it is in; None: it is a letter.
        taken: The copy whose end the letter is, if that is taken away.
        sure: Whether that letter is the only end that copy has.
        given: The copy of what is sent in its place.
        message: None: nobody has to know which it is.
    """

    lookup: int
    stands: Place | None = None
    message: Message | None = None
    taken: Copy | None = None
    sure: bool = True
    given: Copy | None = None

    def asked(self) -> None:
        """It may count already."""
        if self.taken is not None:
            self.taken.perhaps_fewer += 1
        if self.given is not None:
            self.given.perhaps_more += 1

    def over(self, *, done: bool) -> None:
        """It counts, or never will."""
        if self.taken is not None:
            self.taken.perhaps_fewer -= self.sure or not done
            self.taken.fewer += self.sure and done
        if self.given is not None:
            self.given.perhaps_more -= 1
            self.given.more += done


@dataclass(slots=True)
class Known:
    """One job of one manager.

    Attributes:
        at, after: Where it goes on; with a batch that does nothing ``other`` may be the place.
        life: Number of the process in which it was last met.
        pending: A batch that was asked for, and its deeds; its answer has not come.
        final: The last batch was carried out.
        over: It was held against what it says of itself.
    """

    number: int
    node: Node
    work: Work
    at: int
    after: int
    life: int
    other: tuple[int, int] | None = None
    looked: int = 0
    done: int = 0
    gone: int = 0
    failed: int = 0
    kept: int = 0
    pending: tuple[JobBatch, Sequence[Deed]] | None = None
    final: bool = False
    over: bool = False


class JobBooks:
    """See the module."""

    def __init__(self, kernel: Kernel, ledger: Ledger) -> None:
        self.kernel, self.ledger = kernel, ledger
        self._of: dict[tuple[int, int], Known] = {}
        self._cancelled: dict[tuple[int, int], JobView] = {}

    def known(self, node: Node, number: int) -> Known | None:
        """What is known of a job, if it was met."""
        return self._of.get((node.index, number))

    def open(self, node: Node) -> list[Known]:
        """Jobs of a manager that were met, and not yet held against what they say."""
        return [one for one in self._of.values() if one.node is node and not one.over]

    def _wrong(self, known: Known, what: str) -> None:
        self.kernel.wrong(f"I22: job {known.number} of {known.node.name} {what}")

    # ---- where it is ------------------------------------------------------------------------

    def met(self, node: Node, work: Work, cancelled: JobView | None) -> Known:
        """A job is to go on.

        Args:
            cancelled: It was known to be cancelled when somebody asked what there is to do.
        """
        known = self._of.get((node.index, work.number))
        if known is None:
            known = Known(work.number, node, work, 0, 0, node.life)
            self._of[node.index, work.number] = known
        if cancelled is not None:
            self._wrong(known, "was cancelled, and goes on")
        if known.life != node.life:
            self.kernel.marks[marks.JOB_KEPT] += 1
        known.life = node.life
        return known

    def stands(self, known: Known, work: Work) -> None:
        """No batch of it is under way: it goes on where the last one that counts has left it."""
        here = (work.at, work.after)
        if here not in ((known.at, known.after), known.other):
            self._wrong(known, f"was at {known.at, known.after}, and goes on at {here}")
        if work.done != known.done:
            self._wrong(known, f"has done {known.done}, and says {work.done}")
        known.at, known.after = here
        known.other = None

    # ---- a batch ----------------------------------------------------------------------------

    def asking(self, known: Known, batch: JobBatch, deeds: Sequence[Deed]) -> None:
        """It goes into the inbox: it may count already."""
        known.pending = batch, deeds
        for deed in deeds:
            deed.asked()
            if deed.stands is not None and deed.given is None:
                deed.stands.purged_us = self.kernel.now

    def undone(self, known: Known) -> None:
        """It was not carried out, and will not be."""
        _, deeds = self._end(known)
        for deed in deeds:
            deed.over(done=False)

    def _end(self, known: Known) -> tuple[JobBatch, Sequence[Deed]]:
        assert known.pending is not None
        pending, known.pending = known.pending, None
        return pending

    def settle(self, known: Known, view: JobView, *, in_doubt: bool = False) -> bool:
        """Settle a batch by the job's view; return whether the batch counts."""
        batch, deeds = known.pending or (None, ())
        assert batch is not None
        looked = view.looked - known.looked
        if looked not in (0, batch.looked):
            self._wrong(known, f"has looked at {known.looked} and {batch.looked}: {view}")
        if not batch.looked:
            known.pending, known.other = None, (batch.to_at, batch.after)
            known.final = batch.over and view.state == "done"
            return view.looked == known.looked
        if in_doubt:
            name = marks.JOB_FOUND_DONE if looked else marks.JOB_FOUND_NOT_DONE
            self.kernel.marks[name] += 1
        if not looked:
            self.undone(known)
            return False
        self._end(known)
        failures = {one.lookup_id for one in view.failures}
        done, gone = view.done - known.done, view.gone - known.gone
        failed = view.failed - known.failed
        if min(done, gone, failed) < 0 or done + gone + failed != len(deeds):
            counts = f"{done} done, {gone} gone and {failed} failed"
            self._wrong(known, f"had {len(deeds)} more to do, and says {counts}")
        self._settle(deeds, failures, done=done, gone=gone)
        self._count(known, batch, done, gone, failed)
        return True

    def all_done(self, known: Known) -> None:
        """It was carried out, with everything in it."""
        batch, deeds = self._end(known)
        for deed in deeds:
            self._done(deed)
        self._count(known, batch, len(deeds), 0, 0)

    def _count(self, known: Known, batch: JobBatch, done: int, gone: int, failed: int) -> None:
        known.looked += batch.looked
        known.done += done
        known.gone += gone
        known.failed += failed
        known.kept += sum(count for _, count in batch.kept)
        known.at, known.after, known.other = batch.to_at, batch.after, None
        known.final = batch.over
        self.kernel.marks[marks.JOB_GONE] += gone
        self.kernel.marks[marks.JOB_FAILED] += failed

    def _settle(self, deeds: Sequence[Deed], failures: set[int], *, done: int, gone: int) -> None:
        """Which of them were done: the others are named, or were gone before."""
        rest = [deed for deed in deeds if deed.lookup not in failures]
        for deed in deeds:
            if deed.lookup in failures:
                deed.over(done=False)
        for deed in rest:
            if not gone:
                self._done(deed)
            elif not done:
                deed.over(done=False)
            elif deed.stands is not None:
                deed.stands.leaks += 1  # Nobody can say who has it.

    def _done(self, deed: Deed) -> None:
        deed.over(done=True)
        if deed.stands is None or deed.message is None:
            return
        if deed.given is not None:
            self.kernel.marks[marks.JOB_MOVED] += 1
            self.ledger.taken(deed.stands, deed.lookup, deed.message.uid)
        else:
            deed.stands.gone.add(deed.lookup)

    # ---- its end ----------------------------------------------------------------------------

    def cancelled(self, node: Node, view: JobView) -> None:
        """Somebody was told that a job is over."""
        self._cancelled[node.index, view.number] = view

    def is_cancelled(self, node: Node) -> dict[int, JobView]:
        """The jobs of a manager that are known to be over, by number."""
        return {number: view for (at, number), view in self._cancelled.items() if at == node.index}

    def ended(self, known: Known, view: JobView) -> None:
        """A job is over: what it says of itself is what it has done."""
        if not view.over:
            self._wrong(known, f"is nowhere to be worked off, and runs: {view}")
        if view.state == "failed":
            if not self._target_is_gone(known, view):
                self._wrong(known, f"has failed, and nothing was in its way: {view}")
        elif (view.state == "done") != known.final:
            self._wrong(known, f"has ended, and nobody has done that: {view}")
        known.over = True
        said = (view.looked, view.done, view.gone, view.failed, sum(view.kept.values()))
        counted = (known.looked, known.done, known.gone, known.failed, known.kept)
        if said != counted:
            self._wrong(known, f"says {said} of itself, and has done {counted}")
        told = self._cancelled.get((known.node.index, known.number))
        if told is not None and (told.state, told.done) != (view.state, view.done):
            self._wrong(known, f"was told to be {told}, and now is {view}")
        # Places are those of a queue: two queues of a job may have the same.
        named = len({(one.queue, one.lookup_id) for one in view.failures})
        if named != view.failed:
            self._wrong(known, f"names {named} of {view.failed} that failed")
        self.kernel.marks[marks.JOB_ENDED] += view.state == "done" and view.done > 0
        cut = view.state == "cancelled" and 0 < view.looked < view.total
        self.kernel.marks[marks.JOB_CANCELLED] += cut

    def _target_is_gone(self, known: Known, view: JobView) -> bool:
        """Whether the queue here that a job sends to was deleted after the job began."""
        to = known.work.order.to
        gone = any(
            place.node == known.node.index and to in place.spellings and place.deleted_us >= 0
            for place in self.ledger.books.places.values()
        )
        return gone and view.why == f"{to} was deleted since the job began"
