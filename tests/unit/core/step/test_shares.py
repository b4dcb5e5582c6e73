"""What one application may have of the tables that all share.

Upholds: I24, I28.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.core.inputs.inputs import OwnerCame
from onceq.core.receive import cursors, handles, receive
from onceq.core.transaction import groups, unit_of_work, xa_branch
from onceq.errors import EnlistRefused, InsufficientResources, OnceqError, RolledBack
from onceq.model import requests
from onceq.model.results import Opened
from onceq.model.rights import Actor, ActorKind
from onceq.model.time import FOR_EVER_US
from onceq.model.xid import TAG_BYTES, anchor_xid, group_prefix
from tests.unit.core.alone import IDENTITY, Core
from tests.unit.core.rights.somebody import ALICE, BOB, KEY, ORDERS, RUNS, attempt, core, grant

MOST = 6
PREFIX = group_prefix(IDENTITY.guid, b"a" * TAG_BYTES)
Fill = Callable[[Core, int, int], object]
"""Adds one more entry of an owner, with that number; its answer."""


def _anchor(made: Core, owner: int, number: int) -> object:
    token = bytes((owner * 10 + number,))
    xid = anchor_xid(attempt(made, owner, PREFIX, token), bytes(16))
    made.ask(requests.StartBranch(number, xid), owner=owner)
    return made.ask(requests.PrepareBranch(xid, number), owner=owner)


def decide(made: Core, owner: int, number: int) -> object:
    made.ask(requests.Begin(number), owner=owner)
    drawn = b"%d-%d" % (owner, number)
    answer = made.ask(requests.Enlist(number, "partner", drawn=drawn), owner=owner)
    made.ask(requests.Commit(number), owner=owner)
    return answer


def name(made: Core, owner: int, number: int) -> object:
    asked = requests.CommitGroup(f"{owner}-{number}", "", 1, PREFIX, [])
    return made.ask(asked, owner=owner)


def open_(made: Core, owner: int, number: int) -> object:
    """The refusal of a begin is told to whatever comes next."""
    made.ask(requests.Begin(number), owner=owner)
    refused = made.manager._step.units.refused.get((owner, number))
    return refused


def hold(made: Core, owner: int, number: int) -> object:
    opened = requests.OpenQueue(ORDERS, requests.Access.PEEK)
    return made.ask(opened, owner=owner)


def point(made: Core, owner: int, number: int) -> object:
    held = made.ask(requests.OpenQueue(ORDERS, requests.Access.PEEK), owner=owner)
    assert isinstance(held, Opened)
    return made.ask(requests.OpenCursor(held.handle), owner=owner)


def wait(made: Core, owner: int, number: int) -> object:
    asked = requests.Receive(
        ORDERS, peek=True, pick=requests.PickBy.HEADS, wait_until_us=FOR_EVER_US
    )
    return made.ask(asked, owner=owner)


@pytest.mark.parametrize(
    ("fill", "error"),
    [
        (open_, InsufficientResources), (_anchor, RolledBack), (decide, EnlistRefused),
        (name, InsufficientResources), (hold, InsufficientResources),
        (point, InsufficientResources), (wait, InsufficientResources),
    ],
)  # fmt: skip
def test_nobody_fills_a_table_alone(
    fill: Fill, error: type[OnceqError], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, limit in (
        (unit_of_work, "OPEN_TRANSACTIONS_MAX"), (xa_branch, "PREPARED_MAX"),
        (xa_branch, "DECISIONS_MAX"), (groups, "GROUPS_MAX"), (cursors, "CURSORS_MAX"),
        (receive, "WAITING_READERS_MAX"),
    ):  # fmt: skip
        monkeypatch.setattr(module, limit, MOST)
    if fill is hold:
        monkeypatch.setattr(handles, "HANDLES_MAX", MOST)
    made = core()
    made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))
    grant(made, "peek", KEY, who="*")
    for number in range(1, MOST // 2 + 1):
        assert not isinstance(fill(made, BOB, number), OnceqError)
    assert isinstance(fill(made, BOB, MOST), error), "he has his half"
    for number in range(1, MOST // 2):
        assert not isinstance(fill(made, ALICE, number), OnceqError)
    assert not isinstance(fill(made, RUNS, 1), OnceqError)
    for owner in (ALICE, RUNS):
        assert isinstance(fill(made, owner, 50), error), "it is full"


def test_who_runs_the_manager_has_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUPS_MAX", MOST)
    made = core()
    for number in range(MOST):
        assert not isinstance(name(made, RUNS, number), OnceqError)
    assert isinstance(name(made, RUNS, MOST), InsufficientResources)
