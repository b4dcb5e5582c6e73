"""Which request of an operator makes one step that grows with the store: none, or it is named here
with its bound (finding U6). What is counted is calls in the longest step; no time is measured."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.state.client_memory import Read
from onceq.core.state.peer_table import Binding, Progress
from onceq.model import requests
from onceq.model.limits import VIEWS_AT_ONCE
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.requests import Access, Share, Steer
from onceq.model.run import Run
from onceq.model.views import looks
from onceq.model.views.view import Page
from tests.budgets.steps import longest
from tests.unit.core.alone import WALL_S, Core

FEW, MANY = 600, 2_400
"""Both are more than one step looks at."""
Q = r"private$\q0"
AWAY = r"PRIVATE=5a5a5a5a-0000-0000-0000-000000000001"

NAMES = {
    "queue": Q, "outgoing-queue": rf"{AWAY}\00000001", "eod-send": rf"{AWAY}\00000001",
    "range": f"0 {1 << 63} 0 0 {Q}", "consumers": Q, "management": rf"{AWAY}\00000001",
    "explain-name": Q, "copies": Q,
}  # fmt: skip
WHOLE = {
    "branches": "recovery takes a branch that is not in the list for one that is over, so it is "
    "told of all: OPEN_TRANSACTIONS_MAX at most",
    "decisions": "as of the branches; each is dropped when its partners were told",
    "eod-receive": "MSMQ's own call tells of every sender of a queue: STREAMS_MAX are looked at",
    "job": "JOB_FAILURES_MAX failures, and JOBS_RUNNING_MAX and JOBS_KEPT_MAX jobs",
    "jobs": "JOBS_RUNNING_MAX and JOBS_KEPT_MAX",
    "list": "DIRECTORY_MEMBERS_MAX members",
    "lists": "LISTS_AT_ONCE; needs a directory, see tests/unit/core/management",
    "metrics": "METRICS_QUEUES_MAX rows and METRICS_PEERS_MAX peers are put together at the end",
}
"""Looks that are not counted, and the bound of each."""


def build(count: int) -> Core:
    """So many of everything that there may be many of."""
    core = Core()
    state = core.manager.state
    for at in range(count):
        properties = QueueProperties(name=f"q{at}", transactional=True)
        core.ask(requests.CreateQueue(properties=properties, instance=b"%016d" % at))
    for at in range(count):
        item = requests.SendItem(rf"{AWAY}\{at + 1:08x}", Properties(), Run.of([b"a"]))
        core.ask(requests.Commit(0, (item,)))
        state.progress[b"%016d" % at, Q] = Progress(b"%016d" % at, "elsewhere")
        state.bindings.bind(f"os:n{at}", Binding(b"%016d" % at, WALL_S))
        state.damages.add(f"q{at}", at * 9, 1, first=0, bytes=1, address=at, at_s=1)
        state.readings.read(Read(4 + at, "reader", "", 1, ""), 1)
        core.ask(requests.Begin(at + 1), owner=1)
        rights = requests.SetRights(f"a{at}", ["send"], Q)
        rights.check()
        core.ask(rights)
        token = requests.CreateToken(f"t{at}")
        token.check()
        core.ask(token)
        core.ask(requests.OpenQueue(Q, Access.PEEK, Share.DENY_NONE))
    # The view of a queue sums up its subqueues, of which there are SUBQUEUES_MAX in all.
    for at in range(FEW):
        state.make_subqueue(1_000_000 + at, state.queues[r"private$\q1"].number, f"s{at}")
    return core


@pytest.fixture(scope="module")
def stores() -> tuple[Core, Core]:
    return build(FEW), build(MANY)


COUNTED = [look for look in looks.LOOKS.values() if look.what not in WHOLE]


def pages(what: str) -> list[dict[str, Any]]:
    """What is asked of a look: as it is, and in the other orders and parts of long lists."""
    found: list[dict[str, Any]] = [{}]
    if what in ("queues", "outgoing"):
        found += [{"sort": sort} for sort in ("name", "messages", "bytes", "oldest")]
        found += [{"only": "busy"}, {"part": "zzz"}, {"after": '["number", 500]'}]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("look", COUNTED, ids=lambda look: look.what)
def test_no_look_is_longer_the_more_there_is(
    stores: tuple[Core, Core], look: looks.LookEntry[object]
) -> None:
    for asked in pages(look.what):
        few, many = (
            longest(core, requests.Look(look.what, NAMES.get(look.what, ""), **asked))
            for core in stores
        )
        assert many[0] <= 1.1 * few[0] + 40, (asked, few[0], many[0])
        for _, answer in (few, many):
            assert not isinstance(answer, Exception), answer
            if isinstance(answer, Page):
                assert len(answer.views) <= VIEWS_AT_ONCE


@pytest.mark.slow
@pytest.mark.parametrize("action", [Steer.TIDY, Steer.CONNECT, Steer.FORGET_UNANSWERED])
def test_no_act_on_all_of_them_is_longer_the_more_there_is(
    stores: tuple[Core, Core], action: Steer
) -> None:
    few, many = (longest(core, requests.SteerOutgoing("", action))[0] for core in stores)
    assert many <= 1.1 * few + 40


def test_what_is_told_as_a_whole_is_a_look() -> None:
    assert set(WHOLE) <= set(looks.LOOKS)
