"""What is durable of jobs: what a batch adds, and what is kept of those that are over."""

from __future__ import annotations

import json

import pytest

from onceq.core.state.job_table import OTHERS, Failed, Job, JobMark, Jobs, Source
from onceq.core.state.setups import encode_rows
from onceq.model.letters import Filter, JobAction, JobState, Order
from onceq.model.limits import JOB_FAILURES_MAX, JOB_REASONS_MAX, JOBS_KEPT_MAX

SOURCE = Source(16, "q", ((0, 6), (3, 2)))
ORDER = Order(
    JobAction.RETURN, Filter(label="rush", older_s=60), "r", 5, 9, in_doubt=True, second=True
)


def job(number: int = 1, order: Order = ORDER) -> Job:
    return Job(number, (SOURCE,), order, "account:alice", "local", False, 1_700_000_000, 5)


def failed(lookup: int = 1) -> Failed:
    return Failed(0, lookup, "g/1", "queue-not-found", "there is none")


def full() -> Jobs:
    jobs = Jobs()
    jobs.start(job())
    jobs.start(job(2, Order(JobAction.PURGE)))
    jobs.advance(JobMark(1, 0, 7, 4, 1, 1, 1, kept=(("why", 1),), failures=(failed(),)), 9)
    jobs.advance(JobMark(2, 1, 0, 5, 5, over=True, more=True), 11)
    return jobs


def test_what_batches_have_done_adds_up() -> None:
    jobs = full()
    jobs.advance(JobMark(1, 0, 8, 2, 1, kept=(("why", 2), ("else", 1))), 10)
    first, second = jobs
    assert (first.looked, first.done, first.gone, first.failed) == (6, 2, 1, 1)
    assert (first.kept, first.work.after) == ({"why": 3, "else": 1}, 8)
    assert first.running
    assert (second.state, second.ended_s, second.more) == (JobState.DONE, 11, True)
    assert jobs.running() == [first]


def test_a_checkpoint_has_all_of_it() -> None:
    jobs, again = full(), Jobs()
    again.load(json.loads(encode_rows(jobs.dump())))
    again.next = jobs.next
    assert list(again) == list(jobs)
    assert again.next == jobs.next == 3


def test_a_checkpoint_of_before_there_were_jobs_has_none() -> None:
    jobs = Jobs()
    jobs.load([])
    assert (list(jobs), jobs.next) == ([], 1)


def test_reasons_and_failures_are_bounded() -> None:
    jobs = full()
    for number in range(JOB_REASONS_MAX + 5):
        jobs.advance(JobMark(1, 0, 8, kept=((f"reason {number}", 2),)), 10)
    one = jobs.get(1)
    assert one is not None
    assert len(one.kept) == JOB_REASONS_MAX + 1
    assert one.kept[OTHERS] == 2 * 6, "every one is counted"
    jobs.advance(JobMark(1, 0, 8, failures=tuple(map(failed, range(JOB_FAILURES_MAX)))), 10)
    assert len(one.failures) == JOB_FAILURES_MAX


def test_of_those_that_are_over_the_oldest_are_forgotten_and_none_that_runs() -> None:
    jobs = full()
    for number in range(3, JOBS_KEPT_MAX + 4):
        jobs.start(job(number))
        jobs.end(number, JobState.CANCELLED, 20 + number, "")
    assert jobs.get(2) is jobs.get(3) is None
    assert jobs.get(1) is not None
    assert len(jobs) == JOBS_KEPT_MAX + 1
    assert jobs.next == JOBS_KEPT_MAX + 4


@pytest.mark.parametrize("order", [ORDER, Order(JobAction.PURGE), Order(JobAction.MOVE, to="q")])
def test_an_order_is_kept_as_it_was_said(order: Order) -> None:
    assert Order.load(json.loads(json.dumps(order.dump()))) == order


def test_an_order_leaves_out_what_nobody_said() -> None:
    assert Order(JobAction.PURGE).dump() == {"action": "purge"}


def test_of_a_later_version_what_is_not_known_is_passed_over() -> None:
    assert Order.load({"action": "purge", "colour": "red"}) == Order(JobAction.PURGE)
