"""Jobs of a real daemon: killed in the middle, stopped in order, told to applications."""

from __future__ import annotations

import random
import signal
from collections import Counter
from pathlib import Path

import pytest

import onceq
from onceq.client.stopping import pause
from onceq.errors import OnceqError, ReceiveTimeout
from onceq.model.letters import DEAD_XACT
from onceq.model.message import Journal
from onceq.model.views.looks import JobView
from proof.nodes import Node, free_port

Q = r"private$\q"
LETTERS = 3000
LOOKS = 20_000


def bodies(qm: onceq.QueueManager, queue: str) -> list[bytes]:
    found: list[bytes] = []
    after = 0
    while True:
        try:
            page = qm.peek_many(queue, 10_000, after=after, timeout=0)
        except ReceiveTimeout:
            return found
        found += page.bodies()
        after = page.lookup_ids[-1]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A daemon with dead letters: its queue was purged."""
    made = Node(tmp_path, "ALPHA", free_port(), {})
    made.start()
    with onceq.connect(str(made.path)) as qm:
        qm.create_queue(Q, transactional=True)
        made_of = [b"%d" % number for number in range(LETTERS)]
        qm.send_many(Q, made_of, transactional=True, journal=Journal.DEADLETTER)
        qm.purge(Q)
        assert qm.queue(DEAD_XACT).messages == LETTERS
    return made


def until(node: Node, number: int, looked: int) -> JobView:
    """The job when it has looked at so many, or is over."""
    with onceq.connect(str(node.path)) as qm:
        for _ in range(LOOKS):
            found = qm.jobs.get(number)
            if found.over or found.looked >= looked:
                return found
            pause(0.002)
    raise AssertionError(f"job {number} does not go on")


@pytest.mark.slow
@pytest.mark.tier("rest")
@pytest.mark.parametrize("action", ["return", "send-as-new"])
def test_killed_many_times_in_the_middle_it_does_each_letter_once(node: Node, action: str) -> None:
    rng = random.Random(action)
    try:
        with onceq.connect(str(node.path)) as qm:
            job = qm.jobs.start(action, DEAD_XACT)
        kills, looked = 0, 0
        while True:
            looked += rng.randrange(1, 300)
            seen = until(node, job.number, looked)
            if seen.over:
                break
            assert seen.done == seen.looked, "what is told is true"
            node.kill()
            kills += 1
            node.start()
            looked = seen.looked
        assert kills >= 5
        with onceq.connect(str(node.path)) as qm:
            over = qm.jobs.get(job.number)
            assert (over.state, over.done, over.looked) == ("done", LETTERS, LETTERS)
            went = [int(body) for body in bodies(qm, Q)]
            stands = [int(body) for body in bodies(qm, DEAD_XACT)]
        assert went == list(range(LETTERS)), "each once, and in order"
        assert stands == ([] if action == "return" else went)
    finally:
        node.kill()


@pytest.mark.slow
def test_stopped_in_order_it_goes_on_at_the_next_start(node: Node) -> None:
    try:
        with onceq.connect(str(node.path)) as qm:
            job = qm.jobs.start("return", DEAD_XACT)
        process = node.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        node.start()
        over = until(node, job.number, LETTERS + 1)
        assert (over.state, over.done) == ("done", LETTERS)
        with onceq.connect(str(node.path)) as qm:
            assert Counter(bodies(qm, Q)) == Counter(b"%d" % number for number in range(LETTERS))
    finally:
        node.kill()


@pytest.mark.slow
def test_an_application_hears_of_it_and_cancels_it(node: Node) -> None:
    try:
        with onceq.connect(str(node.path)) as qm:
            job = qm.jobs.start("return", DEAD_XACT)
            assert job.who.startswith("account:")
            over = qm.jobs.cancel(job.number)
            assert over.state in ("cancelled", "done")
            assert qm.jobs.get(job.number) == over
            assert [one.number for one in qm.jobs.list()] == [job.number]
            assert qm.queue(DEAD_XACT).messages == LETTERS - over.done
            acts = [(act.what, act.about) for act in qm.admin.trail()]
            assert ("start job", f"1: return {DEAD_XACT}") in acts
            with pytest.raises(OnceqError, match="no job 9"):
                qm.jobs.get(9)
    finally:
        node.kill()
