"""Loops over queues, with the deaths of the application and of its manager at any point.

Nothing that a loop has finished is ever handed out again, nothing is lost, and what is handed out
again says so, by its ``abort_count`` or by the exception that ended the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.client import loops
from onceq.client.stopping import log
from onceq.client.threads.manager import QueueManager
from onceq.errors import InDoubt, ServiceNotAvailable
from onceq.model.message import Message
from onceq.testing import disk
from tests.conformance.world import Node, World
from tests.property.applications import Death, Deaths, kill, power_cut

QUEUE = r"private$\q"
MESSAGES = 6


def _at(point: str) -> Death:
    def arm(node: Node) -> None:
        if not node.dead:
            node.die_at(point)

    return arm


BEFORE = st.sampled_from([None, kill, power_cut, *map(_at, disk.STORE_POINTS)])
AFTER = st.sampled_from([None, kill, power_cut])
WAYS = ("messages", "work", "consume", "batches")
FATES = ("finish", "finish", "finish", "raise", "leave", "vanish")


class _Raised(Exception):
    """What the body of a loop raises."""


class _Told(logging.Handler):
    """Hears what ``consume`` says in the log: that it does something again."""

    def __init__(self, life: _Life) -> None:
        super().__init__(logging.WARNING)
        self._life = life

    def emit(self, record: logging.LogRecord) -> None:
        """See Handler."""
        if "queue=" in record.getMessage():
            self._life.over(told=True)


class _Life:
    """What the applications have seen of each message.

    Attributes:
        finished: A loop went on behind these.
        doubtful: These were at hand when a loop ended, or began anew, with an error.
    """

    def __init__(self, deaths: Deaths) -> None:
        self._deaths = deaths
        self._handed: set[bytes] = set()
        self._at_hand: list[bytes] = []
        self.finished: set[bytes] = set()
        self.doubtful: set[bytes] = set()

    def hand(self, batch: list[Message]) -> None:
        """These are handed out; what was before is finished with that."""
        self.finish()
        for message in batch:
            body = message.body
            assert body not in self.finished, f"{body!r} was finished, and is handed out again"
            # A power cut may take the count with it, which is written lazily (SND-24).
            if body in self._handed and body not in self.doubtful and not self._deaths.power_cuts:
                assert message.abort_count, f"{body!r} comes again, and nobody has said so"
            self._handed.add(body)
            self._at_hand.append(body)

    def finish(self) -> None:
        """The loop went on."""
        self.finished.update(self._at_hand)
        self._at_hand = []

    def over(self, *, told: bool) -> None:
        """It did not."""
        if told:
            self.doubtful.update(self._at_hand)
        self._at_hand = []


def _meet(qm: QueueManager, fate: str) -> None:
    """What becomes of the body of a loop."""
    if fate == "vanish":
        qm.close()  # Nothing that is done from here on reaches the manager.
    if fate != "finish":
        raise _Raised(fate)


def _loop(qm: QueueManager, life: _Life, way: str, fates: Iterator[str]) -> str:
    """One loop until its fate; "" if it has ended by itself."""
    if way in ("consume", "batches"):

        def handler(tx: object, found: Any) -> None:
            life.hand([found] if way == "consume" else list(found))
            _meet(qm, next(fates, "finish"))

        qm.consume(QUEUE, handler, batch=1 if way == "consume" else 3, timeout=0.0)
        life.finish()
        return ""
    loop: Iterator[Any] = qm.messages(QUEUE) if way == "messages" else qm.work(QUEUE, timeout=0.0)
    for found in loop:
        life.hand([found if way == "messages" else found[1]])
        fate = next(fates, "finish")
        if fate == "leave":
            life.over(told=False)
            return fate
        _meet(qm, fate)
    life.finish()
    return ""


def _process(deaths: Deaths, life: _Life, way: str, fates: list[str]) -> None:
    """One process of an application, until its loop is over in whatever way."""
    qm = deaths.client()
    try:
        _loop(qm, life, way, iter(fates))
    except _Raised:
        life.over(told=False)
    except (ServiceNotAvailable, InDoubt):
        life.over(told=True)
    finally:
        qm.close()


@settings(max_examples=150)
@given(
    transactional=st.booleans(),
    processes=st.lists(
        st.tuples(st.sampled_from(WAYS), st.lists(st.sampled_from(FATES), max_size=6)),
        min_size=1, max_size=5,
    ),
    deaths=st.dictionaries(st.integers(1, 60), st.tuples(BEFORE, AFTER), max_size=4),
)  # fmt: skip
def test_nothing_is_lost_and_nothing_comes_twice_unsaid(
    transactional: bool,
    processes: list[tuple[str, list[str]]],
    deaths: dict[int, tuple[Death | None, Death | None]],
) -> None:
    world = World("A")
    node = world["A"]
    node.create("q", transactional=transactional)
    sent = [b"%d" % n for n in range(MESSAGES)]
    if transactional:
        node.once(QUEUE, *sent)
    else:
        node.send(0, QUEUE, *sent)
    plan = Deaths(node, deaths)
    life = _Life(plan)
    told = _Told(life)
    log().addHandler(told)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loops, "AWAY_S", (0.0,))
            for way, fates in processes:
                _process(plan, life, way, fates)
            plan.over()
            _process(plan, life, "messages", [])
    finally:
        log().removeHandler(told)
    left = set(sent) - life.finished
    assert left <= life.doubtful, f"{left - life.doubtful} are lost"
    assert not node.bodies(QUEUE)
    assert not node.look("transactions")
