"""What an audit tells of itself, and that it can be given up, also while Spark starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from onceq.audit import measure
from onceq.audit.command import StageProgress
from onceq.spark import audit as stages
from onceq.spark import runtime
from onceq.spark.argument_checks import original
from onceq.spark.audit import AuditStopped, Stages, Tasks, attended
from tests import nursery
from tests.audit.histories import peopled
from tests.scratch import scratch

pytestmark = pytest.mark.spark


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 100.0
        self._step = step

    def __call__(self) -> float:
        self.now += self._step
        return self.now


@dataclass
class Info:
    """Of one of Spark's stages."""

    numCompletedTasks: int
    numTasks: int


class Tracker:
    """In place of Spark's status tracker."""

    def __init__(self) -> None:
        self.active: list[int] = []
        self.infos: dict[int, Info] = {}

    def getActiveStageIds(self) -> list[int]:
        return self.active

    def getStageInfo(self, number: int) -> Info | None:
        return self.infos.get(number)


# ---- stages --------------------------------------------------------------------------------------


def test_tasks_are_counted_over_all_that_was_seen_active() -> None:
    tracker = Tracker()
    tasks = Tasks(tracker)
    assert tasks.count() == (0, 0)
    tracker.active, tracker.infos = [1], {1: Info(3, 8)}
    assert tasks.count() == (3, 8)
    tracker.active, tracker.infos = [2], {1: Info(8, 8), 2: Info(0, 4)}
    assert tasks.count() == (8, 12), "the end of one that is over counts"
    tracker.active, tracker.infos = [], {}
    assert tasks.count() == (8, 12), "Spark forgets old ones"
    tasks.forget()
    assert tasks.count() == (0, 0)


def test_a_stage_is_told_when_it_begins_and_each_second() -> None:
    said: list[StageProgress] = []
    clock, tracker = Clock(), Tracker()
    told_by = Stages(said.append, clock)
    told_by.begin("starting")
    clock.now += 5
    told_by.tick()
    assert said == [StageProgress("starting", 0.0, begins=True)], "there is no Spark to look at"
    told_by.watch(tracker)
    tracker.active, tracker.infos = [1], {1: Info(3, 8)}
    told_by.tick()
    clock.now += 0.5
    told_by.tick()
    clock.now += 0.5
    tracker.infos = {1: Info(5, 8)}
    told_by.tick()
    tracker.active = []
    told_by.begin("judging")
    clock.now += 1
    told_by.tick()
    assert said[1:] == [
        StageProgress("starting", 5.0, begins=False, done=3, tasks=8),
        StageProgress("starting", 6.0, begins=False, done=5, tasks=8),
        StageProgress("judging", 6.0, begins=True),
        StageProgress("judging", 7.0, begins=False),
    ]


# ---- work that is attended -----------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "POLL_S", 0.001)


def watched(say: Callable[[StageProgress], None]) -> Stages:
    """Stages for which it is always time to be told."""
    made = Stages(say, Clock(step=10.0))
    made.watch(Tracker())
    return made


def unwanted() -> None:
    raise AssertionError("nobody has given it up")


def test_what_the_work_gives_is_given(quick: None) -> None:
    heard = threading.Event()
    made = watched(lambda _: heard.set())
    assert attended(lambda: heard.wait(60), made, unwanted), "the one that waits tells"


def test_what_the_work_raises_is_raised(quick: None) -> None:
    def work() -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        attended(work, watched(lambda _: None), unwanted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_until_the_work_has_ended(quick: None, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    made = watched(lambda told: None if told.begins else signal.raise_signal(number))
    cancelled = threading.Semaphore(0)

    def work() -> None:
        made.begin("first")
        for _ in range(2):  # Spark's jobs
            assert cancelled.acquire(timeout=60)
        made.begin("second")

    with pytest.raises(KeyboardInterrupt):
        attended(work, made, cancelled.release)
    with pytest.raises(AuditStopped):
        made.begin("third")
    assert signal.getsignal(number) == before


def test_a_second_signal_does_not_wait(quick: None) -> None:
    ended = threading.Event()
    made = watched(lambda _: signal.raise_signal(signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            attended(lambda: ended.wait(60), made, lambda: signal.raise_signal(signal.SIGINT))
        assert not ended.is_set()
    finally:
        ended.set()


def test_what_was_found_before_a_signal_is_given(quick: None) -> None:
    cancelled = threading.Event()
    made = watched(lambda _: signal.raise_signal(signal.SIGINT))
    assert attended(lambda: cancelled.wait(60), made, cancelled.set)


def test_a_signal_waits_until_spark_has_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Java that was left alone in the middle of its start stayed for ever."""
    done = []

    class Session:
        def stop(self) -> None:
            done.append("stopped")

    def start(*_: object) -> Session:
        signal.raise_signal(signal.SIGINT)
        done.append("started")
        return Session()

    monkeypatch.setattr(runtime, "prepare", lambda: None)
    monkeypatch.setattr(runtime, "_session", start)
    with (
        pytest.raises(KeyboardInterrupt),
        runtime.quiet_session("local[1]", "test", folder=tmp_path / "spark"),
    ):
        done.append("used")
    assert done == ["started", "stopped"]


def test_a_handler_of_spark_stays() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with runtime.stop_asked():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


# ---- tables and errors ---------------------------------------------------------------------------


class Engine:
    """In place of one that writes tables."""

    def __init__(self, fault: Exception | None = None) -> None:
        self._fault = fault

    def give(self, name: str, table: object) -> None:
        """Nobody asks for it."""

    def write(self, query: str, folder: str, columns: object) -> None:
        if self._fault is not None and folder.endswith("violations"):
            raise self._fault
        Path(folder).mkdir(parents=True)


def test_all_tables_are_written_or_none(tmp_path: Path) -> None:
    whole, half = tmp_path / "whole", tmp_path / "half"
    measure.write(Engine(), str(whole), (), [])  # type: ignore[arg-type]
    assert sorted(path.name for path in whole.iterdir()) == ["messages", "traffic", "violations"]
    fault = OSError("the disk is full")
    with pytest.raises(OSError, match="disk is full"):
        measure.write(Engine(fault), str(half), (), [])  # type: ignore[arg-type]
    assert not half.exists()


IN_A_BATCH = (
    "[STREAM_FAILED] Query terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error "
    "occurred in the user provided function. Return Message: Traceback (most recent call last):\n"
)
CALLING = "An error occurred while calling o1102.collectToPython.\n: java.util.Concurrent: "


@pytest.mark.parametrize(
    ("said", "part"),
    [
        (f"{CALLING}org.Spark: [FAILED_READ_FILE.NO_HINT] Reading file:///x.  SQLSTATE: KD001\n at",
         "gave up: [FAILED_READ_FILE.NO_HINT] Reading file:///x.  SQLSTATE: KD001"),
        (f"{CALLING}java.lang.OutOfMemoryError: heap\n\tat a.b", "Concurrent: java.lang.OutOfMem"),
        ("the first line\nthe second", "gave up: the first line"),
        (f"{IN_A_BATCH}  File x\npy4j.protocol.Py4JJavaError: An error occurred while calling o9.\n"
         ": org.SparkException: Job aborted.\n\tat a.b\nCaused by: java.io.IOException: No space "
         "left on device\n\tat c.d", "gave up: java.io.IOException: No space left on device"),
        (f"{IN_A_BATCH}  File x\nOSError: [Errno 28] No space left on device\n\n\tat py4j.c",
         "gave up: OSError: [Errno 28] No space left on device"),
        ("", "gave up: ValueError"),
    ],
)  # fmt: skip
def test_an_error_out_of_java_says_what_happened(said: str, part: str) -> None:
    text = original(ValueError(said)).text
    assert part in text
    assert "\n" not in text


# ---- the command as a process --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "number"), [("starting Spark", signal.SIGTERM), ("reading ", signal.SIGINT)]
)
def test_ctrl_c_ends_it_with_130_and_one_line(
    tmp_path_factory: pytest.TempPathFactory, stage: str, number: signal.Signals
) -> None:
    with scratch(tmp_path_factory, "stop") as place:
        peopled(place / "true")
        (place / "tmp").mkdir()
        process = nursery.Popen(
            [sys.executable, "-m", "onceq.cli.main", "spark", "audit", str(place / "true")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "TMPDIR": str(place / "tmp")},
        )  # fmt: skip
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if stage in line:
                    break
            process.send_signal(number)
            # Java has the same stdout, so this waits for its end too.
            output, errors = process.communicate(timeout=120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 130
        assert output == ""
        assert errors.splitlines()[-1] == "interrupted: nothing is proven"
        assert "Traceback" not in errors
        assert list((place / "tmp").glob("onceq-spark-*")) == []
