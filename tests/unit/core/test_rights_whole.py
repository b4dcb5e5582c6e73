"""Nobody weakens what is not theirs: what concerns the whole queue manager, or others at a queue,
needs a right over it.

Upholds: I28.
"""

from __future__ import annotations

import pytest

from onceq.core.inputs import OwnerCame
from onceq.errors import (
    AccessDenied,
    InvalidHandle,
    OnceqError,
    QueueNotFound,
    ReceiveTimeout,
    SharingViolation,
)
from onceq.model import requests
from onceq.model.policy import Door
from onceq.model.requests import Access, Share
from onceq.model.results import Opened
from onceq.model.rights import NOBODY, Actor, ActorKind, Right, grant_of_row
from tests.unit.core.alone import WAITS, Core
from tests.unit.core.somebody import (
    ALICE,
    BOB,
    KEY,
    ORDERS,
    RUNS,
    STRANGER,
    core,
    create,
    denied,
    grant,
)

MINE = "private$\\mine"
SUB = f"{ORDERS};parts"
HOLDS = (Access.PEEK, Share.DENY_RECEIVE)


def world() -> Core:
    """Alice owns a queue; Bob is there, too."""
    made = core()
    made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))
    grant(made, "create", MINE)
    assert not denied(create(made, ALICE, "mine"))
    return made


def admitted(made: Core) -> set[Door]:
    return {door for door in Door if made.manager.state.policy.admits_nobody(door)}


# ---- who lets strangers in ---------------------------------------------------------------------


@pytest.mark.parametrize("who", ["nobody", "address:10.1.2.3", "address:*"])
@pytest.mark.parametrize("words", ["get-properties", "send", "peek,receive"])
def test_who_owns_a_queue_opens_no_door(who: str, words: str) -> None:
    made = world()
    assert denied(grant(made, words, MINE, who=who, owner=ALICE))
    grant(made, "set-rights,send,peek,receive,get-properties", "private$\\*", who="bob")
    assert denied(grant(made, words, MINE, who=who, owner=BOB)), "nor who may give rights"
    assert admitted(made) == set()
    grant(made, "administer", who="bob")
    assert not denied(grant(made, words, MINE, who=who, owner=BOB))
    assert not denied(grant(made, words, MINE, who=who, owner=ALICE, take=True)), "closes it"
    assert admitted(made) == set()


def test_what_an_older_version_let_an_owner_give_to_strangers_lets_them_nowhere() -> None:
    made = world()
    policy = made.manager.state.policy
    for who in ("nobody", "address:10.1.2.3"):
        policy.grant(grant_of_row(who, ["send", "get-properties"], MINE, False, 20, "alice"))
    assert admitted(made) == set()
    assert denied(made.ask(requests.Look("queue", f".\\{MINE}"), owner=STRANGER))
    address = Actor(ActorKind.ADDRESS, "10.1.2.3")
    for actor in (NOBODY, address):
        assert not policy.allows_somewhere(actor, Right.SEND)


@pytest.mark.parametrize(
    ("words", "pattern", "doors"),
    [
        ("send", KEY, {Door.APPLICATIONS, Door.POSTS}),
        ("get-properties", KEY, {Door.APPLICATIONS}),
        ("peek", "*", {Door.APPLICATIONS}),
        ("monitor", "", {Door.APPLICATIONS, Door.METRICS}),
        ("forward", "", set()),
        ("administer", "", set(Door)),
    ],
)
def test_each_right_of_strangers_opens_the_doors_where_it_is_used(
    words: str, pattern: str, doors: set[Door]
) -> None:
    made = core()
    grant(made, words, pattern, who="*")
    assert admitted(made) == set(), "everybody who has a name"
    grant(made, words, pattern, who="nobody")
    assert admitted(made) == doors
    grant(made, words, pattern, who="nobody", take=True)
    assert admitted(made) == set()


def test_a_stranger_opens_transactions_if_he_may_do_something_in_them() -> None:
    made = world()
    grant(made, "get-properties", MINE, who="nobody")
    assert denied(made.ask(requests.Begin(1), owner=STRANGER))
    assert denied(made.ask(requests.Commit(0, then=1), owner=STRANGER))
    assert not made.manager.state.branches
    grant(made, "send", MINE, who="nobody")
    assert not denied(made.ask(requests.Begin(1), owner=STRANGER))
    assert not denied(made.ask(requests.Begin(1), owner=BOB)), "who has a name may"


# ---- who is in the way of others ---------------------------------------------------------------


def opens(made: Core, owner: int, name: str = ORDERS) -> object:
    return made.ask(requests.OpenQueue(name, *HOLDS, "a note"), owner=owner)


@pytest.mark.parametrize("words", ["peek,peek-body,get-properties", "monitor"])
def test_who_may_only_look_keeps_nobody_from_receiving(words: str) -> None:
    made = core()
    grant(made, words, KEY if "," in words else "")
    assert denied(opens(made, ALICE))
    assert isinstance(made.ask(requests.OpenQueue(ORDERS, Access.PEEK), owner=ALICE), Opened)
    assert not isinstance(made.ask(requests.Receive(ORDERS)), SharingViolation)


@pytest.mark.parametrize("words", ["receive", "operate"])
def test_who_may_take_or_operate_does_until_he_may_not(words: str) -> None:
    made = core()
    pattern = KEY if words == "receive" else ""
    grant(made, f"{words},peek" if pattern else words, pattern)
    assert isinstance(opens(made, ALICE), Opened)
    refused = made.ask(requests.Receive(ORDERS))
    assert isinstance(refused, SharingViolation)
    assert "held by account:alice, a note since " in refused.text
    grant(made, words, pattern, take=True)
    assert not isinstance(made.ask(requests.Receive(ORDERS)), SharingViolation)


def test_who_holds_a_queue_is_said_to_those_who_have_a_right_there() -> None:
    made = world()
    grant(made, "receive", KEY)
    opens(made, ALICE)
    refused = made.ask(requests.Receive(ORDERS), owner=BOB)
    assert isinstance(refused, AccessDenied)
    assert "alice" not in refused.text
    grant(made, "receive", KEY, who="bob")
    refused = made.ask(requests.OpenQueue(ORDERS, Access.RECEIVE), owner=BOB)
    assert isinstance(refused, SharingViolation)
    assert "account:alice" in refused.text


def release(made: Core, owner: int, name: str = ORDERS) -> object:
    return made.ask(requests.SteerOutgoing(name, requests.Steer.RELEASE), owner=owner)


def test_an_operator_ends_a_hold_and_it_stands_in_the_trail() -> None:
    made = world()
    grant(made, "receive", KEY)
    grant(made, "receive", KEY, who="bob")
    opened = opens(made, ALICE)
    assert isinstance(opened, Opened)
    assert denied(release(made, BOB)), "who may receive is no operator"
    grant(made, "operate", who="bob")
    assert release(made, BOB) == 1
    assert release(made, BOB) == 0, "nobody holds it any more"
    assert not isinstance(made.ask(requests.Receive(ORDERS), owner=BOB), SharingViolation)
    through = requests.Receive(ORDERS, peek=True, handle=opened.handle)
    assert isinstance(made.ask(through, owner=ALICE), InvalidHandle)
    assert isinstance(opens(made, ALICE), Opened), "its right is still there"
    act = made.manager.state.trail.behind(0, 1_000)[-1]
    assert (act.who, act.what, act.about) == ("account:bob", "release", ORDERS)
    assert isinstance(release(made, RUNS, ".\\private$\\none"), QueueNotFound)


def test_others_who_have_the_queue_open_keep_it() -> None:
    made = core()
    grant(made, "receive", KEY)
    opened = made.ask(requests.OpenQueue(ORDERS, Access.RECEIVE), owner=ALICE)
    assert isinstance(opened, Opened)
    assert release(made, RUNS) == 0
    through = requests.Receive(ORDERS, handle=opened.handle)
    assert isinstance(made.ask(through, owner=ALICE), ReceiveTimeout)


# ---- who looks makes nothing -------------------------------------------------------------------


def subqueues(made: Core) -> int:
    return len(made.manager.state.subqueues)


def looks(made: Core, owner: int) -> list[object]:
    waits = requests.Receive(SUB, peek=True, wait_ms=60_000)
    waits.wait_until_us = 1 << 60
    return [
        made.ask(requests.OpenQueue(SUB, Access.PEEK), owner=owner),
        made.ask(waits, owner=owner),
    ]


@pytest.mark.parametrize("words", ["peek,peek-body", "monitor,"])
def test_who_looks_at_a_subqueue_that_is_not_there_does_not_make_it(words: str) -> None:
    made = core()
    grant(made, words.strip(","), "" if words.endswith(",") else KEY)
    before = len(made.records)
    for answer in looks(made, ALICE):
        assert isinstance(answer, QueueNotFound) or denied(answer)
    assert subqueues(made) == 0
    assert len(made.records) == before


def test_who_may_receive_makes_it_and_others_look_then() -> None:
    made = core()
    grant(made, "receive", KEY)
    opened, waits = looks(made, ALICE)
    assert isinstance(opened, Opened)
    assert waits is WAITS
    assert subqueues(made) == 1
    made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))
    grant(made, "peek", KEY, who="bob")
    there = made.ask(requests.OpenQueue(SUB, Access.PEEK), owner=BOB)
    assert not isinstance(there, OnceqError)
    assert isinstance(made.ask(requests.OpenQueue(SUB, Access.PEEK), owner=RUNS), Opened)
