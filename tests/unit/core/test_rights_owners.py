"""What the owner of a queue has, and gives on, is about that queue, and goes with it (finding J1).

Upholds: I28.
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.inputs import OwnerCame
from onceq.core.state.records import decode
from onceq.core.state.setups import QueueDropped, RightsGiven
from onceq.core.state.snapshot import restore
from onceq.core.state.state import State
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.results import Sent
from onceq.model.rights import Actor, ActorKind
from onceq.model.views.managers import GrantView
from tests.unit.core.alone import IDENTITY, Core
from tests.unit.core.somebody import ALICE, BOB, RUNS, core, create, denied, grant, item

NAME, KEY = ".\\private$\\payroll", "private$\\payroll"
CAROL = 5


def two() -> Core:
    """Alice and Bob may make queues, and Alice has made one; Carol has no right."""
    made = core()
    come(made)
    for who in ("alice", "bob"):
        grant(made, "create", "private$\\*", who=who)
    assert not denied(create(made, ALICE, "payroll"))
    return made


def come(made: Core) -> None:
    for owner, name in ((ALICE, "alice"), (BOB, "bob"), (CAROL, "carol")):
        made.step(OwnerCame(owner, Actor(ActorKind.ACCOUNT, name)))


def made_again(made: Core, by: int) -> None:
    """The queue is deleted, and somebody makes one of the same name, and puts a message there."""
    assert not isinstance(made.ask(requests.DeleteQueue(NAME)), OnceqError)
    create(made, by, "payroll")
    assert isinstance(made.ask(requests.Commit(0, [item(NAME)]), owner=by), Sent)


def may_receive(made: Core, owner: int) -> bool:
    return not denied(made.ask(requests.Receive(NAME, peek=True), owner=owner))


@pytest.mark.parametrize("restart", ["no", "before", "after", "checkpoint"])
def test_what_an_owner_has_given_goes_with_the_queue(restart: str) -> None:
    made = two()
    for who in ("alice", "carol"):
        assert not denied(grant(made, "receive,delete", KEY, who=who, owner=ALICE))
    assert may_receive(made, CAROL)
    if restart == "before":
        made.manager = made.again()
        come(made)
    made_again(made, BOB)
    if restart == "after":
        made.manager = made.again()
        come(made)
    if restart == "checkpoint":
        again = State(IDENTITY)
        restore(again, b"".join(made.manager.snapshot().encode()))
        assert list(again.policy) == list(made.manager.state.policy)
    for owner in (ALICE, CAROL):
        assert not may_receive(made, owner)
        assert denied(made.ask(requests.DeleteQueue(NAME), owner=owner))
    assert may_receive(made, BOB)


def test_so_does_what_was_given_on_by_those_who_have_it_from_the_owner() -> None:
    made = two()
    grant(made, "set-rights,receive", KEY, who="bob", owner=ALICE)
    assert not denied(grant(made, "receive", KEY, who="carol", owner=BOB))
    made_again(made, RUNS)
    assert not may_receive(made, CAROL)


def test_and_also_where_only_a_part_of_it_was_his_by_that_queue() -> None:
    """Bob may give rights at the name for good; to receive he has from the owner."""
    made = two()
    grant(made, "set-rights,send", KEY, who="bob")
    grant(made, "receive", KEY, who="bob", owner=ALICE)
    grant(made, "receive", KEY, who="carol", owner=BOB)
    grant(made, "send", KEY, who="carol", owner=BOB)
    made_again(made, RUNS)
    assert not may_receive(made, CAROL)
    sent = made.ask(requests.Commit(0, [item(NAME)]), owner=CAROL)
    assert isinstance(sent, Sent), "that was given by who may for good"


@pytest.mark.parametrize("first", [ALICE, RUNS])
def test_what_an_administrator_grants_is_about_the_name_and_stays(first: int) -> None:
    """Also where the owner has given the same, before or after."""
    made = two()
    for owner in (first, ALICE + RUNS - first):
        grant(made, "receive", KEY, who="carol", owner=owner)
    made_again(made, BOB)
    assert may_receive(made, CAROL)


def test_what_is_taken_away_is_gone_however_it_was_given() -> None:
    made = two()
    for owner in (ALICE, RUNS):
        grant(made, "receive", KEY, who="carol", owner=owner)
    grant(made, "receive", KEY, who="carol", take=True)
    assert not may_receive(made, CAROL)


def test_whose_word_it_is_and_how_long_it_holds_is_shown() -> None:
    made = two()
    grant(made, "receive", KEY, who="carol", owner=ALICE)
    found: Any = made.ask(requests.Look("rights", KEY))
    assert (
        GrantView("account:carol", ("receive",), KEY, False, "", True, "account:alice")
        in found.views
    )
    (own,) = [one for one in found.views if one.owner]
    assert (own.who, own.of_one_queue) == ("account:alice", True)


def test_who_owns_a_queue_called_like_a_pattern_owns_that_one_alone() -> None:
    made = two()
    create(made, BOB, "*")
    assert denied(grant(made, "send", "private$\\*", who="carol", owner=BOB)), "a pattern"
    grant(made, "send", "private$\\[*]", who="carol", owner=BOB)
    assert not may_receive(made, BOB)
    assert denied(made.ask(requests.Commit(0, [item(NAME)]), owner=CAROL))
    assert isinstance(made.ask(requests.Commit(0, [item(".\\private$\\*")]), owner=CAROL), Sent)


def test_records_of_older_versions_give_an_owner_what_goes_with_the_queue_of_that_name() -> None:
    """What others were given was not told apart: it stays, as it did."""
    made = two()
    state = made.manager.state
    old = (
        b'\x02\x01["rights-given",{"owner":true,"pattern":"private$\\\\orders","rights":["receive"],'
        b'"who":"account:bob"}]',
        b'\x02\x01["rights-given",{"owner":false,"pattern":"private$\\\\orders","rights":["send"],'
        b'"who":"account:bob"}]',
    )
    for raw in old:
        given = decode(memoryview(raw), 0)
        assert isinstance(given, RightsGiven)
        state.apply_setup(given)
    state.apply_setup(QueueDropped("private$\\orders"))
    left = [one for one in state.policy if str(one.pattern) == "private$\\orders"]
    assert [(str(one.who), one.owner) for one in left] == [("account:bob", False)]
