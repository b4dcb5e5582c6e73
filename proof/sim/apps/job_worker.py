"""Who works jobs off at a simulated manager, as its thread for jobs does (``service/jobs.py``).

What becomes of the next messages is decided by the product's own code. That asks, and waits for
answers; so here it is run again with what was answered so far, until it has no question left.
All that it does is entered into the books first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from onceq.core.inputs import JobBatch, JobFailed, NextJob
from onceq.core.state.job_table import Work
from onceq.core.state.queues import place_of
from onceq.errors import OnceqError
from onceq.model.letters import ALL, JobAction
from onceq.model.limits import JOB_RETRY_S
from onceq.model.requests import Look, Receive
from onceq.model.views import looks as looks
from onceq.packet.arrived import Batch
from onceq.packet.decode import decode
from onceq.service.engine import Engine
from onceq.service.jobs import Reader, next_batch
from proof.sim.apps.apps import App, Ask, Lost, Program, Sleep
from proof.sim.apps.work import Talk
from proof.sim.apps.work import Work as Works
from proof.sim.base.node import Node
from proof.sim.base.options import MS, SECOND
from proof.sim.judge.books import Copy, Message, Place
from proof.sim.judge.endings import IN_DOUBT, MISFIT
from proof.sim.judge.job_books import Deed, JobBooks, Known
from proof.sim.judge.worked import WITH_ITS_QUEUE

PAGE: Final = 1_000
SLOW: Final = 4
"""Times as slow as applications: somebody shall come between the look and the batch."""
SLOW_BATCHES: Final = 40
"""When the faults have stopped, that many batches are asked slowly, and the others fast."""
DIES: Final = 0.1
"""Of batches, in worlds with crashes: the manager dies soon after it was asked."""


class _Question(Exception):
    """Something that was not answered yet."""

    def __init__(self, request: Any) -> None:
        super().__init__(request)
        self.request = request


@dataclass(slots=True)
class _Heard:
    """Answers so far; asked again, each is given again."""

    answers: list[object] = field(default_factory=list)
    next: int = 0

    def ask(self, request: Any) -> object:
        if self.next == len(self.answers):
            raise _Question(request)
        answer = self.answers[self.next]
        self.next += 1
        if isinstance(answer, OnceqError):
            raise answer
        return answer


class Worker:
    """Works off the jobs of one manager."""

    def __init__(self, node: Node, works: Works, books: JobBooks) -> None:
        """Nothing is to be done yet."""
        self.node, self.works, self.books = node, works, books
        self.kernel = node.kernel
        self.app = App(node, node.kernel.options.think_us * SLOW, self._next)
        self.rng = node.kernel.stream("working jobs off")
        self._wanted = False
        self._calm_batches = 0
        node.on_up.append(self._up)

    def attach(self, engine: Engine) -> None:
        """A process has begun."""
        engine.run_jobs = self.soon

    def _up(self) -> None:
        engine = self.node.engine
        if engine is None:
            return
        if engine.manager.state.jobs.running() or self.books.open(self.node):
            self.soon()

    def soon(self) -> None:
        """There is a job."""
        self._wanted = True
        if self.app.idle:
            self.app.start(MS)

    def _next(self, app: App) -> Program | None:
        return self._run(app) if self._wanted else None

    def _run(self, app: App) -> Program:
        try:
            while self._wanted:
                self._wanted = False
                while (yield from self._round(app)):
                    yield Sleep(max(int(JOB_RETRY_S * SECOND), self.kernel.options.think_us))
        except Lost:
            return  # The next start goes on.

    def _round(self, app: App) -> Talk:
        """Work off what there is; whether some of it has to be tried again later."""
        stuck, behind = False, 0
        while True:
            over: dict[int, Any] = {}
            work = yield Ask(
                NextJob(behind),
                lambda over=over: over.update(self.books.is_cancelled(self.node)),  # type: ignore[misc]
                safe=True,
            )
            if work is None:
                break
            behind = work.number
            known = self.books.met(self.node, work, over.get(work.number))
            if known.pending is not None:
                view = yield Ask(Look(looks.JOB.what, str(work.number)), safe=True)
                self.books.settle(known, view, in_doubt=True)
            self.books.stands(known, work)
            stuck |= not (yield from self._work_off(app, known, work))
        if not stuck:
            # Some were cancelled, perhaps while a batch was under way whose answer was lost.
            for known in self.books.open(self.node):
                yield from self.ended(known)
        return stuck

    def _work_off(self, app: App, known: Known, at: Work) -> Talk:
        """Go on with a job until it is over; False: it cannot go on now."""
        while True:
            batch, pages = yield from self._batch(at)
            if isinstance(batch, OnceqError):
                yield Ask(JobFailed(at.number, batch.text, final=False), safe=True)
                return False
            deeds = yield from self._deeds(at, batch, pages)
            over: dict[int, Any] = {}
            self._hurry()

            def asked(
                batch: JobBatch = batch, deeds: Sequence[Deed] = deeds, over: Any = over
            ) -> None:
                over.update(self.books.is_cancelled(self.node))
                self.books.asking(known, batch, deeds)
                self._may_die()

            answer = yield Ask(batch, asked, safe=True)
            if isinstance(answer, OnceqError):
                self.books.undone(known)
                return False
            if answer is None:
                yield from self.ended(known)
                return True
            if at.number in over:
                self.kernel.wrong(f"I22: a batch of {at} is done, and it was cancelled before")
            if (answer.at, answer.after) != (batch.to_at, batch.after):
                self.kernel.wrong(f"I22: {batch} is done, and the job goes on at {answer}")
            if answer.done - known.done == len(deeds):
                self.books.all_done(known)
            else:
                view = yield Ask(Look(looks.JOB.what, str(at.number)), safe=True)
                self.books.settle(known, view)
            at = answer

    def _hurry(self) -> None:
        """Ask fast when many batches are left at the end."""
        self._calm_batches += not self.kernel.faulty
        if self._calm_batches > SLOW_BATCHES:
            self.app.think_us = MS

    def _may_die(self) -> None:
        options = self.kernel.options
        if self.kernel.faulty and options.crash_every_us and self.rng.random() < DIES:
            self.node.crash_within(self.rng.randint(1, 8))

    def ended(self, known: Known) -> Talk:
        """A job is not to go on: what it says of itself."""
        view = yield Ask(Look(looks.JOB.what, str(known.number)), safe=True)
        if known.pending is not None:
            self.books.settle(known, view)
        self.books.ended(known, view)
        order = known.work.order
        if view.state != "done" or order.action is not JobAction.PURGE or view.more or view.failed:
            return
        for source in known.work.sources if order.which == ALL else ():
            if not source.name.startswith("SYSTEM$"):
                continue
            left = yield Ask(Receive(source.name, peek=True), safe=True)
            for lookup in left.lookup_ids if isinstance(left, Batch) else ():
                lane, counter = place_of(lookup)
                if counter < dict(source.ends).get(lane, 0):
                    self.kernel.wrong(f"I26: {view} is done, and {lookup} is in {source.name}")

    # ---- a batch ----------------------------------------------------------------------------

    def _batch(self, at: Work) -> Talk:
        """The next batch, or an error; and the pages that were read for it."""
        engine = self.node.engine
        assert engine is not None
        here, heard = engine.manager.identity.guid, _Heard()
        while True:
            heard.next = 0
            try:
                batch: Any = next_batch(at, Reader(here, heard.ask))
            except _Question as question:
                heard.answers.append((yield Ask(question.request, safe=True)))
                continue
            except OnceqError as error:
                batch = error
            return batch, [page for page in heard.answers if isinstance(page, Batch)]

    def _deeds(self, at: Work, batch: JobBatch, pages: Sequence[Batch]) -> Talk:
        """What the books say of each message of a batch."""
        if not batch.deeds:
            return []
        source, order = at.sources[at.at], at.order
        if order.action is JobAction.PURGE and order.which == ALL:
            pages = yield from self._pages(source.name, at.after, batch.deeds[-1].lookup)
        packets = {
            lookup: bytes(packet)
            for page in pages
            for lookup, packet in zip(page.lookup_ids, page.run, strict=True)
        }
        return [
            self._deed(at, source.name, deed.lookup, packets.get(deed.lookup))
            for deed in batch.deeds
        ]

    def _pages(self, name: str, after: int, last: int) -> Talk:
        pages: list[Batch] = []
        while after < last:
            page = yield Ask(Receive(name, count_max=PAGE, peek=True, after=after), safe=True)
            if not isinstance(page, Batch):
                break
            pages.append(page)
            after = page.lookup_ids[-1]
        return pages

    def _deed(self, at: Work, queue: str, lookup: int, packet: bytes | None) -> Deed:
        books, action = self.works.books, at.order.action
        stands = books.places.get((self.node.index, queue))
        if packet is None:
            return Deed(lookup, stands)  # It was taken before anybody could look at it.
        found = decode(packet)
        message = books.messages.get(int.from_bytes(found.body[:8], "little"))
        if message is None or message.body != found.body:
            self.kernel.wrong(f"I12: {queue} of {self.node.name} holds what nobody sent")
        assert message is not None
        self.works.ledger.heard(memoryview(packet), message.uid)
        if stands is not None:
            given = self._moved_to(message, at.order.to) if at.order.to else None
            return Deed(lookup, stands, message, given=given)
        place = books.place_of(message, found.destination)
        copy = message.copies[place.key]
        copy.worked = True
        sends = action in (JobAction.RETURN, JobAction.SEND_AS_NEW)
        if sends and found.message_class == IN_DOUBT and not at.order.in_doubt:
            self.kernel.wrong(f"I4: a job sends message {message.uid} again, which is in doubt")
        home = message.unit is None or found.id.source == self.node.guid
        sure = home and found.message_class not in (IN_DOUBT, MISFIT, WITH_ITS_QUEUE)
        takes = action is not JobAction.SEND_AS_NEW
        return Deed(lookup, None, message, copy if takes else None, sure, copy if sends else None)

    def _moved_to(self, message: Message, to: str) -> Copy:
        """A queue to which a job sends a message that was sent elsewhere."""
        place = self._place(to)
        copy = message.copies.get(place.key)
        if copy is None:
            copy = message.copies[place.key] = Copy(own=0)
            message.names[place.key] = to.casefold()
            message.places += (place,)
        copy.worked = True
        return copy

    def _place(self, to: str) -> Place:
        places = self.works.books.places.values()
        return next(place for place in places if to in place.spellings)
