"""Run jobs, one after another, while a queue manager runs.

A job needs the content of messages, which the core does not have (``core/inputs/jobs.py``). So a
thread asks the engine for messages as an application would, decides about each, and hands the
decisions back, a batch at a time. It keeps nothing: the core has the position of a job. After a
stop or a crash, the job runs on at the next start.

The thread begins with the first job that there is to do.

Upholds: I22.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final, cast

from onceq.core.inputs.jobs import JobFailed, NextJob
from onceq.core.state.job_table import Work
from onceq.errors import OnceqError, ServiceNotAvailable, StorageFailure
from onceq.model.limits import JOB_RETRY_S
from onceq.service.job_batches import Ask, Reader, next_batch
from onceq.service.logs import event

GONE: Final = (ServiceNotAvailable, StorageFailure)
"""The errors of a manager that has stopped."""

log = logging.getLogger("onceq")


class JobThread:
    """The thread that runs the jobs of one manager."""

    def __init__(self, ask: Ask) -> None:
        """Prepare; nothing is asked yet."""
        self._ask = ask
        self._here = b""
        self._soon = threading.Event()
        self._over = False
        self._started = False
        self._lock = threading.Lock()

    def start(self, here: bytes, *, running: bool) -> None:
        """Begin: the manager runs from now on.

        Args:
            here: Its GUID.
            running: Whether there is a job to go on with.
        """
        self._here = here
        if running:
            self.soon()

    def soon(self) -> None:
        """Note that there is a job; from any thread, also in the middle of a pump."""
        self._soon.set()
        with self._lock:
            if self._started or self._over or not self._here:
                return
            self._started = True
        threading.Thread(target=self._run, name="onceq-jobs", daemon=True).start()

    def stop(self) -> None:
        """Begin no further batch. A batch under way is not waited for: it is recorded whole, or
        not at all."""
        with self._lock:
            self._over = True
        self._soon.set()

    def _run(self) -> None:
        wait_s: float | None = None
        while not self._over:
            self._soon.wait(wait_s)
            self._soon.clear()
            try:
                wait_s = JOB_RETRY_S if self.round() else None
            except GONE:
                return  # The next start goes on.
            except Exception as error:
                if self._over:
                    return
                # The manager does not answer, or a mistake of ours: the job stays where it is.
                log.warning("jobs cannot be worked off: %r", error, exc_info=True)
                wait_s = JOB_RETRY_S

    def round(self) -> bool:
        """Run the jobs that there are; return whether some of them have to be tried again later."""
        reader, stuck, behind = Reader(self._here, self._ask), False, 0
        while not self._over:
            work = cast(Work | None, self._ask(NextJob(behind)))
            if work is None:
                break
            behind = work.number
            stuck |= not self._work_off(work, reader)
        return stuck

    def _work_off(self, work: Work, reader: Reader) -> bool:
        """Go on with a job until it is over; return False if it cannot go on now."""
        reader.diverted.clear()
        try:
            return self._through(work, reader)
        finally:
            for was, count in reader.diverted.items():
                event(
                    "a job sends messages elsewhere than they were going", job=work.number,
                    to=work.order.to, instead_of=was, count=count,
                )  # fmt: skip

    def _through(self, work: Work, reader: Reader) -> bool:
        at: Work | None = work
        while at is not None and not self._over:
            try:
                batch: Any = next_batch(at, reader)
            except GONE:
                raise
            except OnceqError as error:
                self._ask(JobFailed(at.number, error.text, final=False))
                return False
            try:
                at = cast(Work | None, self._ask(batch))
            except GONE:
                raise
            except OnceqError:
                return False  # The core has noted why.
        return True
