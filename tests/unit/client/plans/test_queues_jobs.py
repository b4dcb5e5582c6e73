"""Where messages were going that a job could not do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq.client.link import Session
from onceq.client.plans import queues
from onceq.errors import AccessDenied, QueueNotFound
from onceq.model import requests
from onceq.model.letters import DEAD_XACT
from onceq.model.message import Journal
from onceq.model.views.looks import JobFailure, JobView
from tests.unit.client.script import Script

Q, FULL = r"private$\orders", r"private$\full"


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    """With three dead letters, and a queue in which there is no room for them."""
    with onceq.open(str(tmp_path / "qm"), name="ALPHA", create=True) as made:
        made.create_queue(Q, transactional=True)
        made.create_queue(FULL, transactional=True, quota_kb=0)
        for body in ("0", "1", "2"):
            made.send(Q, body, transactional=True, journal=Journal.DEADLETTER)
        made.purge(Q)
        yield made


def test_it_is_told_while_they_stand_where_they_stood(qm: onceq.QueueManager) -> None:
    job = qm.jobs.wait(qm.jobs.start("return", DEAD_XACT, to=FULL).number)
    assert (job.failed, job.done) == (3, 0)
    was = qm.peek(DEAD_XACT).destination
    assert was.endswith("orders")
    assert qm.jobs.destinations(job) == [was] * 3
    second = job.failures[1].lookup_id
    qm.remove(DEAD_XACT, second, second)
    assert qm.jobs.destinations(job) == [was, "", was], "the next one is not taken for it"
    qm.purge(DEAD_XACT)
    assert qm.jobs.destinations(job) == ["", "", ""]


@pytest.mark.parametrize("error", [AccessDenied("no"), QueueNotFound("there is none")])
def test_a_queue_that_may_not_be_seen_is_asked_once(
    script: Script, session: Session, error: onceq.OnceqError
) -> None:
    failures = tuple(JobFailure(DEAD_XACT, lookup) for lookup in (1, 2, 3))
    script.will(requests.Receive.code, error)
    assert script.run(queues.job_destinations(session, JobView(failures=failures))) == [""] * 3
    assert script.kinds() == ["Receive"]
