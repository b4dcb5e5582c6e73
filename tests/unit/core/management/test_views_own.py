"""Who has a name sees what is his, and what he may look at, without being a monitor."""

from __future__ import annotations

from typing import Any

from onceq.core.inputs import OwnerCame
from onceq.model import requests
from onceq.model.rights import Actor, ActorKind
from onceq.model.views.view import Page
from tests.unit.core.alone import WAITS, Core
from tests.unit.core.somebody import (
    ALICE,
    BOB,
    KEY,
    RUNS,
    STRANGER,
    core,
    create,
    denied,
    grant,
    item,
)


def looked(made: Core, what: str, owner: int, name: str = "") -> list[Any]:
    found: Any = made.ask(requests.Look(what, name), owner=owner)
    while found is WAITS:
        made.pass_time(0)
        found = made.answers.get(made.asked, WAITS)
    return list(found.views if isinstance(found, Page) else found)


def two() -> Core:
    made = core()
    made.step(OwnerCame(BOB, Actor(ActorKind.CERTIFICATE, "bob")))
    create(made, RUNS, "stock")
    return made


def test_queues_are_listed_as_far_as_one_may_look_at_them() -> None:
    made = two()
    everything = [queue["path"] for queue in looked(made, "queues", RUNS)]
    assert {KEY, "private$\\stock"} <= set(everything)
    assert looked(made, "queues", ALICE) == []
    grant(made, "get-properties", KEY)
    assert [queue["path"] for queue in looked(made, "queues", ALICE)] == [KEY]
    grant(made, "monitor")
    assert [queue["path"] for queue in looked(made, "queues", ALICE)] == everything
    assert denied(made.ask(requests.Look("queues"), owner=STRANGER))


def test_a_name_is_explained_as_far_as_one_may_see() -> None:
    """Nobody learns by asking which queues there are, or where other managers are."""
    made = two()
    far = "DIRECT=OS:FAR\\private$\\q"

    def told(owner: int) -> list[tuple[str, str, str]]:
        found: list[Any] = []
        for name in (KEY, "private$\\no", far):
            said = made.ask(requests.Look("explain-name", name), owner=owner)
            assert isinstance(said, list)
            found += said
        return [(one["leads_to"], one["queue"], one["address"]) for one in found]

    assert told(ALICE) == [("here", "", ""), ("here", "", ""), ("elsewhere", "private$\\q", "")]
    grant(made, "get-properties", KEY)
    assert told(ALICE)[0] == ("here", KEY, "")
    assert told(RUNS) == [
        ("here", KEY, ""), ("nobody", "", ""), ("elsewhere", "private$\\q", "FAR:1801"),
    ]  # fmt: skip
    assert denied(made.ask(requests.Look("explain-name", far), owner=STRANGER))


def test_a_page_of_queues_is_not_empty_because_others_fill_it() -> None:
    made = core()
    for number in range(300):
        create(made, RUNS, f"n{number:03}")
    create(made, RUNS, "wanted")
    grant(made, "get-properties", "private$\\wanted")
    found = looked(made, "queues", ALICE)
    assert [queue["path"] for queue in found] == ["private$\\wanted"]


def test_who_is_no_monitor_sees_the_grants_that_mean_him() -> None:
    made = two()
    grant(made, "send", KEY)
    grant(made, "peek", KEY, who="certificate:b*")
    grant(made, "get-properties", KEY, who="*")
    assert [one["who"] for one in looked(made, "rights", ALICE)] == ["*", "account:alice"]
    assert [one["who"] for one in looked(made, "rights", BOB)] == ["*", "certificate:b*"]
    assert len(looked(made, "rights", RUNS)) == 3
    assert denied(made.ask(requests.Look("rights", KEY), owner=BOB)), "of one queue: get-rights"
    grant(made, "get-rights", KEY, who="certificate:bob")
    assert len(looked(made, "rights", BOB, KEY)) == 4, "who may see them there sees all"
    assert len(looked(made, "rights", BOB, "Private$/Orders")) == 4, "either slash will do"
    assert denied(made.ask(requests.Look("rights"), owner=STRANGER))


def test_one_asks_about_oneself_by_name() -> None:
    made = two()
    grant(made, "send", KEY)
    asked = requests.ExplainRight("account:alice", "send", KEY)
    asked.check()
    found = made.ask(asked, owner=ALICE)
    assert not isinstance(found, Exception), found
    assert denied(made.ask(asked, owner=BOB))


def test_open_transactions_of_others_are_not_shown() -> None:
    made = two()
    grant(made, "send", KEY)
    for owner in (ALICE, RUNS):
        made.ask(requests.Begin(7), owner=owner)
        made.ask(requests.Send(7, [item()]), owner=owner)
    assert [tx["owner"] for tx in looked(made, "transactions", ALICE)] == [ALICE]
    assert looked(made, "transactions", BOB) == []
    assert len(looked(made, "transactions", RUNS)) == 2
