"""Long lists: a page at a time, chosen, sorted and cut at the queue manager (finding U6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.core.inputs import Tick
from onceq.core.management import work_views
from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.limits import VIEWS_AT_ONCE
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.requests import Access, Share
from onceq.model.run import Run
from onceq.model.views.managers import StatusView
from onceq.model.views.queues import EVERY_FAILS, FAILING_SHOWN, WaitingView
from onceq.model.views.view import MetricsView, Page
from tests.unit.core.alone import WAITS, Core

MANY = 3 * VIEWS_AT_ONCE + 7
AWAY = r"PRIVATE=5a5a5a5a-0000-0000-0000-000000000001"
SORTS = ("number", "name", "messages", "bytes", "oldest")


def page(core: Core, what: str, **asked: Any) -> Page[Any]:
    """One page, however many steps that takes."""
    found = core.ask(requests.Look(what, **asked))
    if found is WAITS:
        core.pass_time(0)
        while (found := core.answers.get(core.asked, WAITS)) is WAITS:
            core.pass_time(0)
    assert isinstance(found, Page), found
    return found


def everything(core: Core, what: str, **asked: Any) -> list[Any]:
    """All pages that there are."""
    found: list[Any] = []
    after = ""
    while True:
        one = page(core, what, after=after, **asked)
        assert len(one.views) <= VIEWS_AT_ONCE
        found += one.views
        after = one.next
        if not after:
            return found
        assert one.views, "a page that is not the last one is not empty"


def send(core: Core, name: str, count: int) -> None:
    item = requests.SendItem(name, Properties(), Run.of([b"abc"] * count))
    core.ask(requests.Commit(0, (item,)))


@pytest.fixture
def core() -> Core:
    """Many queues, one of which has subqueues, and many outgoing queues, made in turn."""
    made = Core()
    for at in range(MANY):
        properties = QueueProperties(name=f"q{at * 7 % MANY}", transactional=True)
        made.ask(requests.CreateQueue(properties=properties, instance=b"%016d" % at))
        send(made, rf"{AWAY}\{at + 1:08x}", 1 + at % 3)
    for at in range(0, MANY, 5):
        send(made, rf"private$\q{at}", 1 + at % 4)
        made.now_us += 1_000_000
    return made


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("what", ["queues", "outgoing"])
def test_pages_are_everything_once_in_order(core: Core, what: str, sort: str) -> None:
    found = everything(core, what, sort=sort)
    keys = {
        "number": lambda one: one.number,
        "name": lambda one: getattr(one, "path", "") or one.destination,
        "messages": lambda one: (-one.messages, one.number),
        "bytes": lambda one: (-one.bytes, one.number),
        "oldest": lambda one: (one.oldest or 1 << 40, -one.messages, one.number),
    }
    assert found == sorted(found, key=keys[sort])
    assert len({one.number for one in found}) == len(found) == MANY + (3 if what == "queues" else 0)
    total = None if sort == "number" else len(found)
    assert page(core, what, sort=sort).of == total


def test_a_page_is_cut_where_whoever_asks_wants(core: Core) -> None:
    found = page(core, "queues", sort="messages", limit=3)
    assert len(found.views) == 3
    assert found.of == MANY + 3
    again = page(core, "queues", sort="messages", limit=3, after=found.next)
    assert {one.path for one in again.views}.isdisjoint({one.path for one in found.views})


def test_a_list_goes_on_behind_one_that_is_gone(core: Core) -> None:
    for sort in ("number", "messages"):
        first = page(core, "queues", sort=sort, only="used")
        expected = page(core, "queues", sort=sort, only="used", after=first.next)
        last = first.views[-1]
        assert isinstance(core.ask(requests.DeleteQueue(last.path)), int)
        assert (
            page(core, "queues", sort=sort, only="used", after=first.next).views == expected.views
        )


def test_only_what_is_asked_for_is_told(core: Core) -> None:
    core.ask(requests.SteerOutgoing(r"private$\q1", requests.Steer.PAUSE))
    busy = everything(core, "queues", only="busy")
    assert {one.path for one in busy if not one.messages} == {r"private$\q1"}
    assert len(busy) == len(range(0, MANY, 5)) + 1
    assert [one.path for one in everything(core, "queues", only="paused")] == [r"private$\q1"]
    assert not [one for one in everything(core, "queues", only="used") if one.system]
    assert {one.path for one in everything(core, "queues", part="PRIVATE$/q30")} == {
        rf"private$\q{number}" for number in range(MANY) if str(number).startswith("30")
    }
    core.ask(requests.SetQueue(r"private$\q5", {"quota_kb": 0}))
    (full,) = everything(core, "queues", only="full")
    assert (full.path, full.quota_used) == (r"private$\q5", 1.0)


def test_subqueues_count_as_views(core: Core) -> None:
    """One queue with very many of them was one step of all of their views."""
    parent = core.manager.state.queues[r"private$\q5"].number
    for at in range(MANY):
        core.manager.state.make_subqueue(9_000 + at, parent, f"s{at}")
    pages = 0
    after, names = "", []
    while True:
        one = page(core, "queues", after=after)
        names += [view.name for view in one.views]
        pages, after = pages + 1, one.next
        assert len(one.views) <= VIEWS_AT_ONCE
        if not after:
            break
    assert len(names) == 2 * MANY + 3
    assert pages == -(-len(names) // VIEWS_AT_ONCE)
    core.manager.state.drop_subqueue(9_000)
    assert len(everything(core, "queues")) == len(names) - 1


@pytest.mark.parametrize(
    "asked",
    [
        {"after": "x"}, {"after": "[]"}, {"after": '["number", "a"]'}, {"after": "[1]"},
        {"after": '["number", 1, 2]'}, {"after": '["name", 1]', "sort": "name"}, {"sort": "size"},
        {"only": "mine"}, {"after": '["number", true]'}, {"after": "[" * 100_000},
    ],
    ids=range(10),
)  # fmt: skip
def test_what_is_no_page_is_refused(core: Core, asked: dict[str, str]) -> None:
    found = core.ask(requests.Look("queues", **asked))  # type: ignore[arg-type]
    assert isinstance(found, InvalidParameter)
    assert len(found.text) < 400


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        requests.Look("queues", limit=-1).check()


def test_what_is_kept_from_moving_is_a_part_of_the_list(core: Core) -> None:
    """What an overview names: each reason by itself."""
    by_number = list(core.manager.state.outgoing.values())
    paused, unreachable, turned, stranded, empty = by_number[:5]
    core.ask(requests.SteerOutgoing(str(paused.name), requests.Steer.PAUSE))
    unreachable.trouble.reason = "connection refused"
    turned.turned_away = ("of the past", 1, 1)
    stranded.stranded_s = 1
    core.ask(requests.PurgeQueue(str(empty.name)))
    empty.trouble.reason = "connection refused"
    found = {one.destination for one in everything(core, "outgoing", only="stuck")}
    assert found == {str(one.name) for one in (paused, unreachable, turned, stranded)}
    core.ask(requests.PurgeQueue(str(paused.name)))
    found = {one.destination for one in everything(core, "outgoing", only="stuck")}
    assert str(paused.name) in found, "what an operator has paused is told, whatever is in it"
    busy = {one.destination for one in everything(core, "outgoing", only="busy")}
    assert not busy & {str(paused.name), str(empty.name)}
    assert str(paused.name) in {
        one.destination for one in everything(core, "outgoing", only="noted")
    }


def test_a_consumer_that_can_handle_nothing_is_in_the_status(core: Core) -> None:
    says = f"{EVERY_FAILS}, the next is tried in 1 s: ValueError: x"
    opened = requests.OpenQueue(r"private$\q7", Access.PEEK, Share.DENY_NONE, note=says)
    core.ask(opened)
    core.ask(replace(opened, note="a tool"))
    found = core.ask(requests.Look("status"))
    while found is WAITS:
        core.pass_time(0)
        found = core.answers.get(core.asked, WAITS)
    assert isinstance(found, StatusView)
    assert found.failing == {r"private$\q7": says}
    assert found.failing_others == 0


def test_of_many_queues_that_fail_some_are_named_and_all_are_counted(core: Core) -> None:
    says = f"{EVERY_FAILS}, the next is tried in 1 s: ValueError: x"
    for _ in range(2):  # two consumers of each
        for at in range(FAILING_SHOWN + 5):
            core.ask(requests.OpenQueue(rf"private$\q{at}", Access.PEEK, note=says))
    found = finished(core, core.ask(requests.Look("status")))
    assert isinstance(found, StatusView)
    assert (len(found.failing), found.failing_others) == (FAILING_SHOWN, 5)
    measured = finished(core, core.ask(requests.Look("metrics")))
    assert isinstance(measured, MetricsView)
    assert measured.queues_failing == FAILING_SHOWN + 5


def test_where_nothing_waits_for_an_audit_the_queues_are_looked_at_in_several_steps(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_views, "QUEUES_MEASURED_AT_ONCE", 3)
    steps = 0
    core.ask(requests.Look("waiting"))
    while core.asked not in core.answers:
        core.step(Tick())
        steps += 1
    found = core.answers[core.asked]
    assert isinstance(found, WaitingView)
    assert 3 * steps >= VIEWS_AT_ONCE


def finished(core: Core, answer: object) -> object:
    """An answer that takes several steps."""
    while answer is WAITS:
        core.pass_time(0)
        answer = core.answers.get(core.asked, WAITS)
    return answer


def test_a_page_of_one_order_is_no_page_of_another(core: Core) -> None:
    """Their places look alike: rows would be missing without a word."""
    found = page(core, "queues", sort="messages", limit=2)
    assert found.next
    answer = core.ask(requests.Look("queues", sort="bytes", limit=2, after=found.next))
    assert isinstance(answer, InvalidParameter)
    assert "no page of this list in this order" in answer.text


def test_a_destination_over_http_is_found_by_a_part_of_its_name() -> None:
    core = Core()
    name = "DIRECT=HTTP://far.example/msmq/private$/Orders"
    send(core, name, 1)
    for part in ("far.example/msmq", r"msmq\private$\orders"):
        assert [one.destination for one in page(core, "outgoing", part=part).views] == [name]
