"""Operators of simulated managers that start jobs, and cancel some of them.

Some worlds have them, one at each manager. Dead letters are returned, sent as new and purged;
application queues are purged, and emptied into others, while everybody is at work. The product's
own code decides about messages (``job_worker.py``), and managers die in the middle. Left out are
worlds whose managers are put back or copied, and those in which somebody has to have rights.

``judge/job_books.py`` and ``judge/worked.py`` say what is demanded.
"""

from __future__ import annotations

import os
from typing import Any, Final

from onceq.errors import (
    InsufficientResources,
    InvalidParameter,
    OnceqError,
    QueueNotFound,
    StorageReserve,
)
from onceq.model.letters import DEAD, DEAD_XACT
from onceq.model.requests import CancelJob, StartJob
from onceq.model.views.looks import JobView
from onceq.service.engine import Engine
from proof.sim.apps.apps import App, Ask, Lost, Program
from proof.sim.apps.job_worker import Worker
from proof.sim.apps.work import Work
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.judge.books import OWN_DEAD, Place
from proof.sim.judge.job_books import JobBooks

EVERYWHERE: Final = "ONCEQ_SIM_JOBS"
"""Environment variable, for the processes of a batch: every world has jobs."""
SHARE = 1.0 if os.environ.get(EVERYWHERE) else 0.105
"""Of all worlds; 1 with ``make sim ARGS=--jobs``."""
FROM: Final = 0.962
"""Where the draw of these worlds begins, between 0 and 1: so that no seed that was kept before
there were any (``tests/simulation/seeds.txt``) is among them, and all of those keep their stories.
"""
PROGRAMS_MIN: Final = 16
"""Of such operators in a world, or half as many as it has transactions."""
CANCELS: Final = 0.25
OF_LETTERS: Final = 0.65
"""Of jobs: they are about dead letters."""
LETTERS: Final = ((DEAD_XACT,), (DEAD_XACT, DEAD), (DEAD,))


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have jobs."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


class Jobs:
    """Programs of such operators, and who works their jobs off."""

    def __init__(self, kernel: Kernel, work: Work, *, fit: bool) -> None:
        """Draw whether a world has them.

        Args:
            fit: Whether it may: no manager is put back or copied, and nobody needs a right.
        """
        self.kernel, self.work = kernel, work
        self.books = JobBooks(kernel, work.ledger)
        self.active = fit and (kernel.fresh("bulk work").random() - FROM) % 1 < SHARE
        self.rng = kernel.fresh("jobs")
        self.left = max(kernel.options.transactions // 2, PROGRAMS_MIN)
        self._workers: dict[int, Worker] = {}
        self._started: dict[int, list[int]] = {}

    def attach(self, node: Node, engine: Engine) -> None:
        """A process of a manager begins."""
        if self.active:
            if node.index not in self._workers:
                self._workers[node.index] = Worker(node, self.work, self.books)
            self._workers[node.index].attach(engine)

    def worker(self, node: Node) -> App:
        """Who works the jobs of a manager off."""
        return self._workers[node.index].app

    def next(self, app: App) -> Program | None:
        """The next thing that an operator does; None: nothing more to do now."""
        if self.left <= 0 or not self.kernel.faulty:
            return None
        self.left -= 1
        started = self._started.get(app.node.index, [])
        if started and self.rng.random() < CANCELS:
            return self.cancel(app, started[-1])
        return self.start(app)

    def cancel(self, app: App, number: int) -> Program:
        """Let a job end."""
        try:
            answer = yield Ask(CancelJob(number))
        except Lost:
            return
        if not isinstance(answer, JobView) or not answer.over:
            self.kernel.wrong(f"I26: job {number} cannot be cancelled: {answer!r}")
        self.books.cancelled(app.node, answer)

    def start(self, app: App) -> Program:
        """Begin a job."""
        of_letters = self.rng.random() < OF_LETTERS
        made = self._of_letters() if of_letters else self._of_messages(app.node)
        if made is None:
            return
        made.check()
        try:
            answer = yield Ask(made)
        except Lost:
            return
        if isinstance(answer, JobView):
            self._started.setdefault(app.node.index, []).append(answer.number)
        elif not isinstance(
            answer, (InsufficientResources, InvalidParameter, QueueNotFound, StorageReserve)
        ):
            self.kernel.wrong(f"I26: no job can be started: {answer!r}")
        if isinstance(answer, OnceqError):
            self.kernel.note("no job", app.node.name, answer.code)

    def _of_letters(self) -> StartJob:
        rng = self.rng
        queues = (OWN_DEAD,) if rng.random() < 0.2 else rng.choice(LETTERS)
        action = rng.choice(["return", "return", "return", "send-as-new", "purge"])
        given: dict[str, Any] = {}
        if rng.random() < 0.25:
            given["limit"] = rng.choice([1, 3])
        if rng.random() < 0.25:
            given["reason"] = rng.choice(["expired", "refused", "purged"])
        if action == "return":
            given["returns_max"] = rng.choice([1, 2, 4])
        return StartJob(action, queues, **given)

    def _of_messages(self, node: Node) -> StartJob | None:
        rng = self.rng
        places = self._places(node)
        if not places:
            return None
        place = rng.choice(places)
        others = [p for p in places if p is not place and p.transactional == place.transactional]
        given: dict[str, Any] = {"label": "label"} if rng.random() < 0.3 else {}
        if rng.random() < 0.25:
            given["limit"] = rng.choice([1, 3])
        if not others:
            return StartJob("purge", (place.name,), **given) if rng.random() < 0.3 else None
        to = next(one for one in rng.choice(others).spellings if "OS:" in one)
        return StartJob("move", (place.name,), to=to, **given)

    def _places(self, node: Node) -> list[Place]:
        return [
            p for p in self.work.books.places.values()
            if p.node == node.index and p.created_us >= 0 > p.deleted_us
        ]  # fmt: skip
