"""What an audit is at, told while it works: its stages, and the tasks that Spark has done of each.

Large histories take minutes. The work goes on in a thread of its own, so that the one that waits
can look at Spark from time to time, and Ctrl-C never comes in the middle of a talk with Java,
which would go on with the answer to another question.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from onceq.audit.progress import Say, StageProgress
from onceq.spark.runtime import stop_asked

POLL_S: Final = 0.2
"""How long Ctrl-C waits at most until it is seen."""
LOOK_S: Final = 1.0
"""Between two looks at Spark's tasks."""

T = TypeVar("T")


class Stopped(Exception):
    """Nobody wants the audit any more."""


class Tasks:
    """Counts Spark's tasks, by its status tracker."""

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker
        self._open: set[int] = set()
        self._counts: dict[int, tuple[int, int]] = {}

    def forget(self) -> None:
        """Count anew."""
        self._open.clear()
        self._counts.clear()

    def look(self) -> tuple[int, int]:
        """How many are done, and how many there are as far as Spark knows."""
        active = set(self._tracker.getActiveStageIds())
        for number in self._open | active:
            info = self._tracker.getStageInfo(number)
            if info is not None:
                self._counts[number] = (info.numCompletedTasks, info.numTasks)
        self._open = active
        return sum(done for done, _ in self._counts.values()), sum(
            tasks for _, tasks in self._counts.values()
        )


class Stages:
    """The stages of one audit, told to whoever listens. Any thread may call it.

    Args:
        say: Is told of each stage that begins, and of the one that goes on.
        clock: Seconds that only rise.
    """

    def __init__(self, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._begun = self._looked = clock()
        self._stage = ""
        self._tasks: Tasks | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def watch(self, tracker: Any) -> None:
        """Spark has started.

        Args:
            tracker: Its status tracker.
        """
        self._tasks = Tasks(tracker)

    def begin(self, stage: str) -> None:
        """The next stage; raises Stopped if there shall be none."""
        with self._lock:
            if self._stopped:
                raise Stopped
            self._stage, self._looked = stage, self._clock()
            if self._tasks is not None:
                self._tasks.forget()
            self._say(StageProgress(stage, self._looked - self._begun, begins=True))

    def tick(self) -> None:
        """Tell how far the stage is, if it is time for that."""
        with self._lock:
            now = self._clock()
            if self._tasks is None or now - self._looked < LOOK_S:
                return
            self._looked = now
            done, tasks = self._tasks.look()
            self._say(
                StageProgress(self._stage, now - self._begun, begins=False, done=done, tasks=tasks)
            )

    def stop(self) -> None:
        """No further stage begins."""
        self._stopped = True


def attended(work: Callable[[], T], stages: Stages, cancel: Callable[[], None]) -> T:
    """Do work in a thread, tell how far it is, and give it up at Ctrl-C or SIGTERM.

    Args:
        cancel: Ends what Spark is doing; it is called until the work has ended.

    Raises:
        KeyboardInterrupt: It was given up; at the second signal it may not have ended yet.
        Exception: What the work raises.
    """
    future: Future[T] = Future()

    def carry_out() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            future.set_exception(error)

    with stop_asked() as asked:
        threading.Thread(target=carry_out, daemon=True).start()
        while not wait([future], POLL_S).done:
            if asked.is_set():
                stages.stop()
                cancel()
            else:
                stages.tick()
    if asked.is_set() and future.exception() is not None:
        raise KeyboardInterrupt
    return future.result()
