"""Jobs are worked off by a queue manager that dies at any point: nothing twice, nothing lost, and
what is told is true."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import onceq
from onceq.client.stopping import pause
from onceq.core.inputs import JobFailed, NextJob
from onceq.errors import OnceqError, ReceiveTimeout, ServiceNotAvailable, StorageFailure
from onceq.model.letters import DEAD, DEAD_XACT, JobAction
from onceq.model.message import Journal
from onceq.service.jobs import JobThread
from onceq.testing.managers import POINTS, Manager

Q, P, TO = r"private$\q", r"private$\p", r"private$\to"
LETTERS = 100
"""Of each kind: more than one batch."""
TRIES = 1000


def bodies(manager: Manager, queue: str) -> list[bytes]:
    found: list[bytes] = []
    after = 0
    while True:
        try:
            page = manager.qm.peek_many(queue, 1000, timeout=0, after=after)
        except ReceiveTimeout:
            return found
        found += page.bodies()
        after = page.lookup_ids[-1]


def died(name: str) -> list[bytes]:
    return [b"%s%d" % (name.encode(), number) for number in range(LETTERS)]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """With dead letters of both kinds, in all priorities."""
    with Manager(tmp_path) as made:
        for name, transactional in ((Q, True), (P, False), (TO, True)):
            made.qm.create_queue(name, transactional=transactional)
        wanted = {"journal": Journal.DEADLETTER, "time_to_be_received": 1000}
        made.qm.send_many(Q, died("q"), transactional=True, **wanted)  # type: ignore[arg-type]
        for number, body in enumerate(died("p")):
            made.qm.send(P, body, priority=number % 8, delivery="recoverable", **wanted)  # type: ignore[arg-type]
        made.put_forward(2000)
        assert len(bodies(made, DEAD_XACT)) == len(bodies(made, DEAD)) == LETTERS
        yield made


def until_over_or_dead(manager: Manager, number: int) -> bool:
    """Whether the job is over."""
    for _ in range(TRIES):
        # What the core has decided may not be durable yet: who is told of it, waits for that.
        job = manager._host.engine.manager.state.jobs.get(number)
        if not manager.running:
            return False
        if job is None or not job.running:
            return True
        pause(0.005)
    raise AssertionError(f"job {number} does not go on")


def start_again(manager: Manager) -> None:
    """A start that nothing disturbs."""
    manager._points._armed.clear()
    manager.start()


def through_deaths(manager: Manager, number: int, seed: int) -> int:
    """Let it die at random points until the job is over; returns how often it did."""
    rng = random.Random(seed)
    deaths = 0
    while True:
        manager.die_at(rng.choice(POINTS), count=rng.randrange(1, 4), seed=rng.randrange(99))
        try:
            if until_over_or_dead(manager, number) and manager.qm.jobs.get(number).over:
                return deaths
        except (ServiceNotAvailable, StorageFailure):
            pass
        if not manager.running:
            deaths += 1
            start_again(manager)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("action", list(JobAction))
def test_each_letter_is_done_once_however_often_the_manager_dies(
    manager: Manager, action: JobAction, seed: int
) -> None:
    to = TO if action is JobAction.MOVE else ""
    job = manager.qm.jobs.start(action.value, DEAD_XACT, DEAD, to=to)
    assert job.total == 2 * LETTERS
    through_deaths(manager, job.number, seed)
    manager.crash()
    start_again(manager)
    for _ in range(TRIES):
        over = manager.qm.jobs.get(job.number)
        if over.over:
            break
        pause(0.005)
    assert (over.state, over.looked, over.done) == ("done", 2 * LETTERS, 2 * LETTERS)
    stands = {queue: Counter(bodies(manager, queue)) for queue in (Q, P, TO, DEAD_XACT, DEAD)}
    ordered, plain = Counter(died("q")), Counter(died("p"))
    nothing: Counter[bytes] = Counter()
    expected = {
        JobAction.RETURN: (ordered, plain, nothing, nothing, nothing),
        JobAction.PURGE: (nothing,) * 5,
        JobAction.MOVE: (nothing, nothing, ordered + plain, nothing, nothing),
        JobAction.SEND_AS_NEW: (ordered, plain, nothing, ordered, plain),
    }[action]
    assert tuple(stands.values()) == expected
    if expected[0]:
        assert bodies(manager, Q) == died("q"), "in their order"


def test_a_returned_one_is_counted_and_a_new_one_is_not(manager: Manager) -> None:
    which = onceq.letters.filter_of(reason="expired")
    for action, returned in (("send-as-new", 0), ("return", 1)):
        job = manager.qm.jobs.start(action, DEAD_XACT, which=which)
        assert manager.qm.jobs.wait(job.number).done == LETTERS
        messages = manager.qm.receive_many(Q, 1000, timeout=0)
        assert {message.returned for message in messages} == {returned}
        assert {Journal(message.journal) for message in messages} == {Journal.DEADLETTER}


def test_what_dies_again_does_not_go_round(manager: Manager) -> None:
    manager.qm.delete_queue(Q)
    job = manager.qm.jobs.wait(manager.qm.jobs.start("return", DEAD_XACT).number)
    assert (job.done, job.failed, len(job.failures)) == (0, LETTERS, 100)
    assert {one.code for one in job.failures} == {"queue-not-found"}
    assert len(bodies(manager, DEAD_XACT)) == LETTERS


def test_a_limit_ends_it_and_a_filter_passes_over(manager: Manager) -> None:
    manager.qm.send(TO, b"mine", transactional=True, label="Rush", journal=1, time_to_be_received=9)
    manager.put_forward(20)
    which = onceq.letters.filter_of(label="rush")
    job = manager.qm.jobs.wait(manager.qm.jobs.start("purge", DEAD_XACT, which=which).number)
    assert (job.done, job.looked, job.more, job.which) == (
        1, LETTERS + 1, False, {"label": "rush"},
    )  # fmt: skip
    job = manager.qm.jobs.wait(manager.qm.jobs.start("return", DEAD_XACT, DEAD, limit=70).number)
    assert (job.done, job.more, job.limit) == (70, True, 70)
    job = manager.qm.jobs.wait(manager.qm.jobs.start("purge", DEAD_XACT, limit=30).number)
    assert (job.done, job.more) == (30, False)
    assert bodies(manager, DEAD_XACT) == []


def test_letters_that_stay_are_counted_by_reason(manager: Manager) -> None:
    job = manager.qm.jobs.start("return", DEAD_XACT)
    manager.qm.jobs.wait(job.number)
    manager.put_forward(2000)
    job = manager.qm.jobs.wait(manager.qm.jobs.start("return", DEAD_XACT, returns_max=1).number)
    assert job.kept == {"it was returned 1 times already (--max-returns)": LETTERS}
    assert (job.done, job.looked) == (0, LETTERS)


def test_cancelled_it_stops_and_what_is_done_stays_done(manager: Manager) -> None:
    job = manager.qm.jobs.start("return", DEAD_XACT, DEAD)
    over = manager.qm.jobs.cancel(job.number)
    assert over.state == "cancelled"
    stand = len(bodies(manager, DEAD_XACT)) + len(bodies(manager, DEAD))
    went = len(bodies(manager, Q)) + len(bodies(manager, P))
    assert (stand, went) == (2 * LETTERS - over.done, over.done)
    assert manager.qm.jobs.get(job.number) == over


def test_several_jobs_are_done_one_after_another(manager: Manager) -> None:
    made = [manager.qm.jobs.start("purge", queue) for queue in (DEAD_XACT, DEAD)]
    assert [manager.qm.jobs.wait(job.number).done for job in made] == [LETTERS, LETTERS]
    assert [job.number for job in manager.qm.jobs.list()] == [1, 2]


def test_progress_is_told_and_a_wait_can_end_before(manager: Manager) -> None:
    looked: list[int] = []
    job = manager.qm.jobs.start("return", DEAD_XACT, DEAD)
    manager.qm.jobs.wait(job.number, timeout=0)
    over = manager.qm.jobs.wait(job.number, progress=lambda one: looked.append(one.looked))
    assert looked == sorted(looked)
    assert looked[-1] == over.looked == 2 * LETTERS


# ---- the thread ----------------------------------------------------------------------------------


class Told:
    """Answers of a manager, in order; an error is raised."""

    def __init__(self, *answers: object) -> None:
        self.answers, self.asked = list(answers), list[object]()
        self.over = threading.Event()

    def __call__(self, asked: object) -> object:
        self.asked.append(asked)
        if not self.answers:
            self.over.set()
            return None
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_no_thread_begins_before_there_is_a_job() -> None:
    told = Told()
    jobs = JobThread(told)
    jobs.start(b"g" * 16, running=False)
    assert not told.asked
    jobs.soon()
    assert told.over.wait(10)
    jobs.stop()
    assert told.asked == [NextJob(0)]


def test_stopped_it_begins_nothing() -> None:
    told = Told()
    jobs = JobThread(told)
    jobs.start(b"g" * 16, running=False)
    jobs.stop()
    jobs.soon()
    assert not jobs.round()
    assert not told.asked


def test_a_job_that_cannot_be_read_waits_and_the_others_go_on(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    state: Callable[[int], object] = manager._host.engine.manager.state.jobs.get
    manager.qm.jobs.start("purge", DEAD_XACT, limit=1)
    work = state(1).work  # type: ignore[attr-defined]
    told = Told(work, OnceqError("cannot be read"), None, None)
    jobs = JobThread(told)
    jobs.start(b"g" * 16, running=False)
    assert jobs.round(), "it is to be tried again"
    assert told.asked[2] == JobFailed(1, "cannot be read", final=False)
    assert told.asked[3] == NextJob(1)
