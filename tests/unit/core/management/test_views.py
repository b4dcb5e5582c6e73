"""Lists of queues: all at once, and some at a time."""

from __future__ import annotations

import pytest

from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.limits import VIEWS_AT_ONCE
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from tests.unit.core.alone import Core

MANY = 2 * VIEWS_AT_ONCE + 7
AWAY = r"PRIVATE=5a5a5a5a-0000-0000-0000-000000000001"


def pages(core: Core, what: str) -> list[list[object]]:
    """All pages that there are."""
    found: list[list[object]] = []
    after = 0
    while True:
        some = core.ask(requests.Look(what, str(after)))
        assert isinstance(some, list)
        if not some:
            return found
        found.append(some)
        after = [view.number for view in some if not getattr(view, "parent", "")][-1]


def by_number(views: object) -> list[object]:
    assert isinstance(views, list)
    return sorted(views, key=lambda view: int(view.number))


@pytest.fixture
def core() -> Core:
    """Many queues, one of which has subqueues, and many outgoing queues, made in turn."""
    made = Core()
    for at in range(MANY):
        properties = QueueProperties(name=f"q{at}", transactional=True)
        made.ask(requests.CreateQueue(properties=properties, instance=b"%016d" % at))
        item = requests.SendItem(rf"{AWAY}\{at + 1:08x}", Properties(), Run.of([b"a"]))
        made.ask(requests.Commit(0, (item,)))
    return made


@pytest.mark.parametrize("what", ["queues", "outgoing"])
def test_some_at_a_time_are_all_and_never_many(core: Core, what: str) -> None:
    whole = core.ask(requests.Look(what))
    some = pages(core, f"{what}-behind")
    assert len(some) > 2
    assert all(len(page) <= VIEWS_AT_ONCE for page in some)
    assert [view for page in some for view in page] == by_number(whole)


def test_the_next_ones_are_found_behind_one_that_is_gone(core: Core) -> None:
    first = core.ask(requests.Look("queues-behind", "0"))
    assert isinstance(first, list)
    last = first[-1]
    expected = core.ask(requests.Look("queues-behind", str(last.number)))
    assert core.ask(requests.DeleteQueue(last.path)) == 0
    assert core.ask(requests.Look("queues-behind", str(last.number))) == expected


def test_a_queue_comes_with_its_subqueues(core: Core) -> None:
    core.manager.state.make_subqueue(9_000, core.manager.state.queues[r"private$\q5"].number, "s")
    (page, *_) = pages(core, "queues-behind")
    names = [getattr(view, "name", "") for view in page]
    assert names.index("q5;s") == names.index("q5") + 1


@pytest.mark.parametrize("after", ["", "x", "-1"])
def test_what_is_no_number_is_refused(core: Core, after: str) -> None:
    assert isinstance(core.ask(requests.Look("queues-behind", after)), InvalidParameter)
