"""Every request, asked by those who may and by those who may not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from onceq.core import inputs
from onceq.core.inputs import OwnerCame, OwnerGone
from onceq.core.rights import TABLE
from onceq.errors import OnceqError, QueueNotFound, SendFailed, SharingViolation, TransactionOver
from onceq.model import requests
from onceq.model.branches import TAG_BYTES, Join, group_prefix, xid_by_row
from onceq.model.message import PLAIN, Acknowledge, Journal
from onceq.model.requests import Access, PickBy, Request, Steer
from onceq.model.requests.request import Needs
from onceq.model.results import Opened, Sent
from onceq.model.rights import OWNS, Actor, ActorKind
from onceq.model.views.looks import GroupResult
from onceq.model.views.managers import GrantView, RightView
from onceq.model.views.queues import RangeAsked
from onceq.model.views.view import Page
from tests.unit.core.alone import IDENTITY, WAITS
from tests.unit.core.kinds import kinds
from tests.unit.core.somebody import (
    ALICE,
    BOB,
    KEY,
    ORDERS,
    RUNS,
    STRANGER,
    XID,
    core,
    create,
    denied,
    grant,
    item,
    prepared,
)


def test_every_request_says_what_it_needs() -> None:
    silent = [kind for kind in kinds() if "needs" not in vars(kind)]
    assert not silent, "what does it need, and where?"
    assert {kind for kind in kinds() if kind.needs is Needs.STATE} == set(TABLE)
    assert Request in get_args(inputs.Input)


NEEDS: list[tuple[Request, str]] = [
    (requests.Send(0, [item()]), "send"),
    (requests.Commit(0, [item()]), "send"),
    (requests.OpenQueue(ORDERS, Access.SEND), "send"),
    (requests.OpenQueue(ORDERS, Access.RECEIVE), "receive"),
    (requests.OpenQueue(ORDERS, Access.PEEK), "peek"),
    (requests.Receive(ORDERS), "receive"),
    (requests.Receive(ORDERS, peek=True), "peek-body"),
    (requests.Receive(ORDERS, peek=True, pick=PickBy.HEADS), "peek"),
    (requests.Receive(ORDERS, peek=True, pick=PickBy.BODILESS), "peek"),
    (requests.Receive(ORDERS + ";journal"), "journal"),
    (requests.Remove(ORDERS, 0, 1, 2), "receive"),
    (requests.TakeRead(ORDERS, 0, 1, 2), "receive"),
    (requests.MoveMessage(ORDERS, ORDERS + ";later", 1), "receive"),
    (requests.Reject(ORDERS, 1, [1]), "receive"),
    (requests.Claim(ORDERS, 1, [(1, 2)]), "receive"),
    (requests.Fetch(ORDERS, 1, 1, 2), "receive"),
    (requests.ForgetReader(ORDERS, "x"), "receive"),
    (requests.PurgeQueue(ORDERS), "receive"),
    (requests.SetQueue(ORDERS, {"label": "x"}), "set-properties"),
    (requests.DeleteQueue(ORDERS), "delete"),
    (requests.Look("queue", ORDERS), "get-properties"),
    (requests.Look("range", RangeAsked(ORDERS, 1, 2).text()), "peek"),
    (requests.Look("readers", ORDERS), "get-properties"),
    (requests.Look("consumers", ORDERS), "get-properties"),
    (requests.Look("rights", KEY), "get-rights"),
]


@pytest.mark.parametrize(("request_", "needed"), NEEDS, ids=lambda v: str(v)[:60])
def test_at_a_queue_exactly_its_right_is_needed(request_: Request, needed: str) -> None:
    made = core()
    assert denied(made.ask(request_, owner=ALICE))
    others = [right.value for right in OWNS]
    includes = {"receive": ["peek", "peek-body"], "peek-body": ["peek"],
                "set-properties": ["get-properties"], "set-rights": ["get-rights"]}  # fmt: skip
    for other in others:
        if other != needed and needed not in includes.get(other, ()):
            grant(made, other, KEY)
            assert denied(made.ask(request_, owner=ALICE)), other
            grant(made, other, KEY, take=True)
    grant(made, needed, "private$\\stock")
    assert denied(made.ask(request_, owner=ALICE)), "at another queue"
    grant(made, needed, KEY)
    assert not denied(made.ask(request_, owner=ALICE))


OPERATES: list[Request] = [
    requests.SteerOutgoing("", Steer.DISCONNECT),
    requests.ResetStream(ORDERS, "beta", "why"),
    requests.ForgetPeer("os:beta"),
    requests.AcceptClock("beta", "why"),
    requests.ForgetBranch(XID),
    requests.CommitBranch(XID, by_hand=True),
    requests.RollbackBranch(XID, by_hand=True),
    requests.PurgeQueue(ORDERS),
    requests.Receive("DIRECT=OS:.\\SYSTEM$;DEADLETTER"),
]


@pytest.mark.parametrize("request_", OPERATES, ids=lambda v: str(v)[:60])
def test_what_operators_do(request_: Request) -> None:
    made = core()
    grant(made, "monitor")
    assert denied(made.ask(request_, owner=ALICE))
    grant(made, "operate")
    assert not denied(made.ask(request_, owner=ALICE))


def test_who_may_look_at_everything_sees_no_body() -> None:
    made = core()
    made.ask(requests.Commit(0, [item()]))
    grant(made, "monitor")
    assert not denied(made.ask(requests.Look("status"), owner=ALICE))
    heads = requests.Receive(ORDERS, peek=True, pick=PickBy.HEADS)
    assert not denied(made.ask(heads, owner=ALICE))
    assert denied(made.ask(requests.Receive(ORDERS, peek=True), owner=ALICE))


@pytest.mark.parametrize(
    "request_", [*(one for one, _ in NEEDS), *OPERATES], ids=lambda v: str(v)[:60]
)
def test_a_stranger_gets_nothing_and_learns_nothing(request_: Request) -> None:
    """The same answer whether a queue is there or not."""
    made = core()
    there: Any = made.ask(request_, owner=STRANGER)
    assert denied(there)
    assert "orders" not in there.text
    made.ask(requests.DeleteQueue(ORDERS))
    gone: Any = made.ask(request_, owner=STRANGER)
    assert denied(gone)
    assert gone.text == there.text


def test_without_a_right_a_queue_that_is_not_there_looks_like_one_that_is() -> None:
    made = core()
    nowhere = requests.Receive(".\\private$\\nowhere")
    assert denied(made.ask(nowhere, owner=ALICE))
    grant(made, "receive", "private$\\*")
    assert isinstance(made.ask(nowhere, owner=ALICE), QueueNotFound)


def test_other_queue_managers_are_places_too() -> None:
    made = core()
    there = requests.Commit(0, [item("DIRECT=OS:BETA\\private$\\stock")])
    grant(made, "send", "private$\\*")
    assert denied(made.ask(there, owner=ALICE))
    assert not made.manager.state.outgoing, "a refusal makes no outgoing queue"
    grant(made, "send", "direct=os:beta\\*")
    assert isinstance(made.ask(there, owner=ALICE), Sent)


def test_a_send_to_several_needs_the_right_at_each() -> None:
    made = core()
    create(made, RUNS, "stock")
    both = requests.Commit(0, [item(f"DIRECT=OS:.\\private$\\stock,DIRECT=OS:{ORDERS}")])
    grant(made, "send", KEY)
    assert denied(made.ask(both, owner=ALICE))
    assert not made.present()
    grant(made, "send", "private$\\stock")
    assert isinstance(made.ask(both, owner=ALICE), Sent)


# ---- what is open when a right goes ------------------------------------------------------------


ANSWERED = [
    {"admin_queue": ".\\private$\\boss", "acknowledge": Acknowledge.NEGATIVE_ARRIVAL},
    {"dead_letter_queue": ".\\private$\\boss", "journal": Journal.DEADLETTER},
]


@pytest.mark.parametrize("values", ANSWERED, ids=["acknowledgments", "dead letters"])
def test_what_the_queue_manager_writes_for_him_is_judged_as_if_he_sent_it(
    values: dict[str, Any],
) -> None:
    """Both may have the body of the message in them."""
    made = core()
    create(made, RUNS, "boss")
    grant(made, "send", KEY)
    asks = replace(item(), properties=replace(PLAIN, **values))
    assert denied(made.ask(requests.Send(0, [asks]), owner=ALICE))
    made.ask(requests.Begin(1), owner=ALICE)
    grant(made, "send", "private$\\boss")
    assert not isinstance(made.ask(requests.Send(1, [asks]), owner=ALICE), OnceqError)
    grant(made, "send", "private$\\boss", take=True)
    assert isinstance(made.ask(requests.Commit(1), owner=ALICE), SendFailed)


def test_an_administration_queue_that_is_asked_for_nothing_needs_no_right() -> None:
    made = core()
    grant(made, "send", KEY)
    silent = replace(item(), properties=replace(PLAIN, admin_queue=".\\private$\\boss"))
    assert not isinstance(made.ask(requests.Commit(0, [silent]), owner=ALICE), OnceqError)


@pytest.mark.parametrize("gone", ["send", "receive"])
def test_a_commit_is_judged_at_its_time_and_undone(gone: str) -> None:
    made = core()
    grant(made, "send,receive", KEY)
    made.ask(requests.Commit(0, [item()]))
    made.ask(requests.Begin(1), owner=ALICE)
    made.ask(requests.Send(1, [item(count=2)]), owner=ALICE)
    made.ask(requests.Receive(ORDERS, 1), owner=ALICE)
    grant(made, gone, KEY, take=True)
    answer = made.ask(requests.Commit(1), owner=ALICE)
    assert isinstance(answer, SendFailed)
    assert f"granted {gone} at {KEY}" in answer.text
    assert made.present() == {"orders": 1}, "it is undone"
    grant(made, gone, KEY)
    assert isinstance(made.ask(requests.Commit(1), owner=ALICE), TransactionOver)


def test_a_commit_of_what_is_still_allowed() -> None:
    made = core()
    grant(made, "send,receive", KEY)
    made.ask(requests.Commit(0, [item()]))
    made.ask(requests.Begin(1), owner=ALICE)
    made.ask(requests.Send(1, [item(count=2)]), owner=ALICE)
    made.ask(requests.Receive(ORDERS, 1), owner=ALICE)
    grant(made, "send,receive", KEY, take=True)
    grant(made, "send,receive", "*", who="*")
    assert isinstance(made.ask(requests.Commit(1), owner=ALICE), Sent)
    assert made.present() == {"orders": 2}


def test_a_send_that_is_refused_dooms_its_transaction() -> None:
    """S0: whoever does not look at its answer must not commit the rest."""
    made = core()
    create(made, RUNS, "stock")
    grant(made, "send", KEY)
    made.ask(requests.Begin(1), owner=ALICE)
    made.ask(requests.Send(1, [item()]), owner=ALICE)
    assert denied(made.ask(requests.Send(1, [item(".\\private$\\stock")]), owner=ALICE))
    answer = made.ask(requests.Commit(1), owner=ALICE)
    assert isinstance(answer, SendFailed)
    assert "send at private$\\stock" in answer.text
    assert not made.present()


def test_a_receive_that_is_refused_does_not() -> None:
    made = core()
    grant(made, "send", KEY)
    made.ask(requests.Begin(1), owner=ALICE)
    made.ask(requests.Send(1, [item()]), owner=ALICE)
    assert denied(made.ask(requests.Receive(ORDERS, 1), owner=ALICE))
    assert isinstance(made.ask(requests.Commit(1), owner=ALICE), Sent)


def test_what_a_commit_brings_along_is_judged_with_it() -> None:
    made = core()
    made.ask(requests.Begin(1), owner=ALICE)
    assert isinstance(made.ask(requests.Commit(1, [item()]), owner=ALICE), SendFailed)
    assert denied(made.ask(requests.Commit(0, [item()]), owner=ALICE))
    assert not made.present()


def test_a_promise_is_judged_and_whoever_may_do_its_work_decides_it() -> None:
    made = core()
    grant(made, "send", KEY)
    for may in (False, True):
        made.ask(requests.StartBranch(1, XID), owner=ALICE)
        made.ask(requests.Send(1, [item()]), owner=ALICE)
        grant(made, "send", KEY, take=not may)
        answer = made.ask(requests.PrepareBranch(XID, 1), owner=ALICE)
        assert isinstance(answer, SendFailed) is not may
        grant(made, "send", KEY)
    made.step(OwnerCame(7, Actor(ActorKind.TOKEN, "other")))
    for request in (requests.CommitBranch(XID), requests.RollbackBranch(XID)):
        assert denied(made.ask(request, owner=7))
        assert denied(made.ask(request, owner=STRANGER))
    assert not isinstance(made.ask(requests.CommitBranch(XID), owner=ALICE), OnceqError)
    assert made.present() == {"orders": 1}


@pytest.mark.parametrize("verb", [requests.CommitBranch, requests.RollbackBranch])
def test_an_operator_decides_by_hand_what_he_could_not_do_himself(verb: Any) -> None:
    made = core()
    prepared(made, XID)
    assert denied(made.ask(verb(XID, by_hand=True), owner=ALICE))
    grant(made, "send", KEY)
    assert denied(made.ask(verb(XID, by_hand=True), owner=ALICE)), "that is the operator's word"
    grant(made, "send", KEY, take=True)
    grant(made, "operate")
    assert not isinstance(made.ask(verb(XID, by_hand=True), owner=ALICE), OnceqError)
    assert made.present() == ({"orders": 1} if verb is requests.CommitBranch else {})


@pytest.mark.parametrize("how", Join)
def test_who_takes_part_in_a_branch_may_do_its_work(how: Join) -> None:
    """Else anybody could join one, and say that it has failed."""
    made = core()
    made.ask(requests.StartBranch(1, XID))
    made.ask(requests.Send(1, [item()]))
    made.ask(requests.EndBranch(1, XID))
    assert denied(made.ask(requests.StartBranch(1, XID, how), owner=ALICE))
    grant(made, "send", KEY)
    assert not denied(made.ask(requests.StartBranch(1, XID, how), owner=ALICE))


def test_a_promise_of_a_last_agent_is_judged_like_a_commit() -> None:
    made = core()
    grant(made, "send", KEY)
    made.ask(requests.Begin(1), owner=ALICE)
    made.ask(requests.Send(1, [item()]), owner=ALICE)
    grant(made, "send", KEY, take=True)
    xid = xid_by_row(bytes(16), 1, "sqlite:x")
    assert isinstance(made.ask(requests.Promise(1, xid), owner=ALICE), SendFailed)
    assert not made.present()


def test_a_receive_that_waits_ends_when_its_right_goes() -> None:
    made = core()
    grant(made, "receive", KEY)
    waits = requests.Receive(ORDERS, wait_ms=60_000)
    waits.wait_until_us = 1 << 60
    assert made.ask(waits, owner=ALICE) is WAITS
    number = made.asked
    grant(made, "receive", KEY, take=True)
    assert denied(made.answers[number])
    made.ask(requests.Commit(0, [item()]))
    assert made.present() == {"orders": 1}, "nobody has taken it"


def test_a_queue_that_is_held_is_let_go_when_the_right_goes() -> None:
    made = core()
    grant(made, "receive", KEY)
    alone = requests.OpenQueue(ORDERS, Access.RECEIVE, requests.Share.DENY_RECEIVE)
    assert isinstance(made.ask(alone, owner=ALICE), Opened)
    assert isinstance(made.ask(requests.Receive(ORDERS)), SharingViolation)
    grant(made, "receive", KEY, take=True)
    assert not isinstance(made.ask(requests.Receive(ORDERS)), SharingViolation)


def test_who_was_granted_otherwise_goes_on_waiting() -> None:
    made = core()
    grant(made, "receive", KEY)
    grant(made, "receive", "private$\\*", who="*")
    waits = requests.Receive(ORDERS, wait_ms=60_000)
    waits.wait_until_us = 1 << 60
    made.ask(waits, owner=ALICE)
    number = made.asked
    grant(made, "receive", KEY, take=True)
    assert number not in made.answers


# ---- owners, and giving rights on ----------------------------------------------------------------


def test_who_makes_a_queue_owns_it_until_it_is_gone() -> None:
    made = core()
    assert denied(create(made, ALICE, "mine"))
    grant(made, "create", "private$\\m*")
    assert denied(create(made, ALICE, "other"))
    assert not denied(create(made, ALICE, "mine"))
    mine = ".\\private$\\mine"
    assert isinstance(made.ask(requests.Commit(0, [item(mine)]), owner=ALICE), Sent)
    assert not denied(made.ask(requests.SetQueue(mine, {"label": "x"}), owner=ALICE))
    assert not denied(made.ask(requests.DeleteQueue(mine), owner=ALICE))
    create(made, RUNS, "mine")
    assert denied(made.ask(requests.Receive(mine), owner=ALICE)), "it is another queue"


def test_who_may_give_rights_gives_only_what_he_has() -> None:
    made = core()
    grant(made, "set-rights,send", KEY)
    assert not denied(grant(made, "send", KEY, who="token:x", owner=ALICE))
    assert denied(grant(made, "receive", KEY, who="token:x", owner=ALICE))
    assert denied(grant(made, "send", "private$\\*", who="token:x", owner=ALICE))
    assert denied(grant(made, "administer", who="alice", owner=ALICE))
    assert not denied(grant(made, "send", KEY, who="token:x", take=True, owner=ALICE))


def test_grants_are_shown_and_explained() -> None:
    made = core()
    grant(made, "send", KEY)
    assert made.ask(requests.Look("rights")) == Page(
        (GrantView("account:alice", ("send",), KEY),), "", 1
    )
    assert made.ask(requests.Look("rights", "private$\\stock")) == Page((), "", 0)
    asked = requests.ExplainRight("", "send", KEY)
    asked.check()
    found = made.ask(asked, owner=ALICE)
    assert isinstance(found, RightView)
    assert found.allowed
    assert found.because == f"send at {KEY} was granted to account:alice"
    other = requests.ExplainRight("token:x", "send", KEY)
    other.check()
    assert denied(made.ask(other, owner=ALICE)), "what others may is for monitors"
    assert not made.ask(other)["allowed"]  # type: ignore[index]


def test_rights_outlive_the_process_and_a_checkpoint() -> None:
    made = core()
    grant(made, "send,peek", KEY)
    grant(made, "peek", KEY, take=True)
    grant(made, "monitor", who="*")
    create(made, RUNS, "stock")
    there = list(made.manager.state.policy)
    assert list(made.again().state.policy) == there


def test_an_owner_that_is_gone_is_nobody_any_more() -> None:
    made = core()
    made.step(OwnerGone(ALICE))
    assert ALICE not in made.manager._step.actors


def test_what_is_refused_leaves_no_record_but_that_somebody_has_tried() -> None:
    made = core()
    before = len(made.records)
    for request, _ in NEEDS * 2:
        made.ask(request, owner=STRANGER)
    assert len(made.records) == before
    for request, _ in NEEDS * 2:
        made.ask(request, owner=ALICE)
    acts = [act.what for act in made.manager.state.trail]
    assert acts == ["forget reader", "purge", "set properties", "delete queue"]
    assert len(made.records) == before + len(acts)


def test_versions_of_an_application_are_of_who_has_committed_first_under_its_name() -> None:
    """Another one could have its next batch taken for one that was committed before."""
    made = core()
    made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))
    prefix = group_prefix(IDENTITY.guid, b"a" * TAG_BYTES)
    far = requests.CommitGroup("job", "", 1 << 62, prefix, [])
    ours = [requests.CommitGroup("job", "", version, prefix, []) for version in (1, 2, 3)]
    assert not denied(made.ask(ours[0], owner=ALICE))
    assert denied(made.ask(far, owner=BOB))
    again = made.ask(ours[1], owner=ALICE)
    assert isinstance(again, GroupResult)
    assert not again.already
    grant(made, "operate", who="bob")
    assert not denied(made.ask(ours[2], owner=BOB)), "an operator does it for her"
    made.manager = made.again()
    made.step(OwnerCame(ALICE, Actor(ActorKind.ACCOUNT, "alice")))
    made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "carol")))
    assert denied(made.ask(far, owner=BOB)), "it is hers still"
    assert not denied(made.ask(far, owner=ALICE))
