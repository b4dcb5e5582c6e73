"""The audit trail: which acts stand there, of whom, and for how long."""

from __future__ import annotations

import pytest

from onceq.core.inputs.inputs import OwnerCame, Witnessed
from onceq.core.management.trail import TABLE
from onceq.core.state.trail import Act, Trail
from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.limits import NOTICE_EVERY_S, TRAIL_CHARS_MAX, TRAIL_MAX, VIEWS_AT_ONCE
from onceq.model.requests import Grip, Request, Steer
from onceq.model.rights import NOBODY, Actor, ActorKind
from onceq.model.views.trail import ActView
from onceq.model.xid import Xid
from tests.unit.core.alone import WALL_S, Core

ADMIN, ALICE, STRANGER = 5, 6, 7
ORDERS = ".\\private$\\orders"


def core() -> Core:
    made = Core()
    made.step(OwnerCame(ADMIN, Actor(ActorKind.ACCOUNT, "mq", free=True), where="local"))
    made.step(OwnerCame(ALICE, Actor(ActorKind.ACCOUNT, "alice"), where="10.1.2.3"))
    made.step(OwnerCame(STRANGER, NOBODY, where="10.9.9.9"))
    return made


def create(made: Core, owner: int, name: str = "orders") -> object:
    request = requests.CreateQueue({"name": name}, instance=name.encode().ljust(16, b"\0"))
    request.check()
    return made.ask(request, owner=owner)


def told(made: Core) -> list[tuple[str, ...]]:
    return [act[2:] for act in made.manager.state.trail]


def test_who_did_what_from_where_and_with_what_result() -> None:
    made = core()
    create(made, ADMIN)
    rights = requests.SetRights("token:alice", ["send", "peek"], "private$\\orders")
    rights.check()
    made.ask(rights, owner=ADMIN)
    made.ask(requests.DeleteQueue(ORDERS), owner=ALICE)
    made.ask(requests.PurgeQueue(ORDERS), owner=ADMIN)
    assert told(made) == [
        ("account:mq", "local", "create queue", "private$\\orders", ""),
        ("account:mq", "local", "grant", "token:alice send,peek at private$\\orders", ""),
        ("account:alice", "10.1.2.3", "delete queue", ORDERS, "access-denied"),
        ("account:mq", "local", "purge", ORDERS, ""),
    ]
    assert [act.number for act in made.manager.state.trail] == [1, 2, 3, 4]
    assert {act.at_s - WALL_S for act in made.manager.state.trail} == {1}


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (requests.SteerOutgoing("", Steer.DISCONNECT), "disconnect"),
        (requests.SetQueue(ORDERS, {"label": "x"}), "set properties"),
        (requests.DeleteQueue(ORDERS), "delete queue"),
        (requests.HoldLog(Grip.BEGIN), "begin backup"),
    ],
)
def test_each_act_has_its_words(request_: Request, what: str) -> None:
    made = core()
    create(made, ADMIN)
    made.ask(request_, owner=ADMIN)
    assert told(made)[-1][2] == what


def test_what_only_looks_or_is_of_an_application_is_no_act() -> None:
    made = core()
    create(made, ADMIN)
    before = told(made)
    for request in (
        requests.Look("status"), requests.Begin(1), requests.Receive(ORDERS),
        requests.HoldLog(Grip.KEEP, 1), requests.ResetStream(ORDERS, "x", "why", dry_run=True),
        requests.RollbackBranch(Xid(1, b"g", b"b")),
    ):  # fmt: skip
        made.ask(request, owner=ADMIN)
    assert told(made) == before


def test_what_the_process_does_to_itself_stands_nowhere() -> None:
    made = core()
    create(made, 1)
    assert told(made) == []


def test_of_refusals_one_in_an_hour_is_noted_and_none_of_strangers() -> None:
    made = core()
    create(made, ADMIN)
    for _ in range(5):
        made.ask(requests.DeleteQueue(ORDERS), owner=ALICE)
        made.ask(requests.DeleteQueue(ORDERS), owner=STRANGER)
    assert [act[0] for act in told(made)] == ["account:mq", "account:alice"]
    made.pass_time(NOTICE_EVERY_S + 1)
    made.ask(requests.DeleteQueue(ORDERS), owner=ALICE)
    assert [act[0] for act in told(made)] == ["account:mq", "account:alice", "account:alice"]


def test_what_is_wrong_in_itself_is_no_act() -> None:
    made = core()
    made.ask(requests.DeleteQueue(ORDERS), owner=ADMIN)
    assert told(made) == []


def test_an_act_and_what_it_did_are_there_after_a_restart() -> None:
    made = core()
    create(made, ADMIN)
    made.ask(requests.PurgeQueue(ORDERS), owner=ADMIN)
    made.step(Witnessed("operator", "local", "join", "BETA"))
    assert list(made.again().state.trail) == list(made.manager.state.trail)
    assert told(made)[-1] == ("operator", "local", "join", "BETA", "")


def test_it_is_told_in_portions() -> None:
    made = core()
    for at in range(VIEWS_AT_ONCE + 5):
        made.step(Witnessed("operator", "local", "join", f"M{at}"))
    first = made.ask(requests.Look("trail", "0"), owner=ADMIN)
    assert isinstance(first, list)
    assert all(isinstance(one, ActView) for one in first)
    assert [one.number for one in first] == list(range(1, VIEWS_AT_ONCE + 1))
    rest = made.ask(requests.Look("trail", str(VIEWS_AT_ONCE)), owner=ADMIN)
    assert isinstance(rest, list)
    assert [one.about for one in rest] == [f"M{VIEWS_AT_ONCE + at}" for at in range(5)]
    assert made.ask(requests.Look("trail", "999"), owner=ADMIN) == []
    assert isinstance(made.ask(requests.Look("trail", "x"), owner=ADMIN), InvalidParameter)


def test_the_oldest_go_and_the_numbers_go_on() -> None:
    trail = Trail()
    for number in range(1, TRAIL_MAX + 11):
        trail.note(Act(number, 0, "a", "", "purge", "", ""))
    assert len(trail) == TRAIL_MAX
    assert [act.number for act in trail.behind(0, 3)] == [11, 12, 13]
    assert [act.number for act in trail.behind(TRAIL_MAX + 8, 9)] == [TRAIL_MAX + 9, TRAIL_MAX + 10]
    other = Trail()
    other.load(trail.dump())
    assert other.next == trail.next == TRAIL_MAX + 11


def test_long_names_are_cut() -> None:
    made = core()
    made.step(Witnessed("operator", "local", "join", "x" * 10_000))
    assert len(told(made)[-1][3]) == TRAIL_CHARS_MAX


def test_every_request_that_needs_an_operator_is_an_act() -> None:
    """Whoever adds one thinks about its words."""
    looks = {requests.AskDecision, requests.AskRows}
    acts = {
        kind
        for kind in Request.__subclasses__()
        if kind.__module__.rpartition(".")[2] in ("operations", "queues", "rights", "directory")
    }
    own = {requests.Look, requests.OpenQueue, requests.CloseQueue, requests.ExplainRight}
    assert acts - own - looks <= set(TABLE)
