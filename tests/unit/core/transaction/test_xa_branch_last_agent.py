"""A transaction becomes a branch that a row in a database decides; and what that is worth here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceq.core.inputs import OwnerGone, Reconfigure
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.branch_table import decode_branch
from onceq.errors import (
    BranchState,
    DuplicateBranch,
    NoCoordinator,
    OnceqError,
    SendFailed,
    TransactionOver,
    UnknownBranch,
)
from onceq.model import requests
from onceq.model.branches import DecisionState, Xid, make_gtrid, xid_by_row
from onceq.model.message import PLAIN, Acknowledge, Delivery
from onceq.model.queue import QueueProperties
from onceq.model.results import Promised, Sent
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.model.views.looks import BranchView
from tests.unit.core.alone import IDENTITY, WAITS, Core

Q, IN = "private$\\q", "private$\\in"
NAME = "sqlite:/shop.db"
XID = xid_by_row(IDENTITY.guid, 1, NAME)
WEEK_S = 7 * 86_400


def item(destination: str = Q, body: bytes = b"x") -> requests.SendItem:
    return requests.SendItem(destination, PLAIN, Run.of([body]))


@pytest.fixture
def core() -> Core:
    made = Core()
    for name in ("q", "in"):
        properties = QueueProperties(name, transactional=True, quota_kb=100)
        made.ask(requests.CreateQueue(properties=properties, instance=b"I" * 16))
    made.ask(requests.Commit(0, (item(IN),)))
    return made


def at_work(core: Core, *items: requests.SendItem) -> None:
    """A transaction, number 1, that has taken a message."""
    core.ask(requests.Begin(1))
    taken = core.ask(requests.Receive(IN, 1))
    assert not isinstance(taken, OnceqError)
    assert taken is not WAITS
    if items:
        assert core.ask(requests.Send(1, items)) is None


def views(core: Core) -> list[BranchView]:
    found = core.ask(requests.Look("branches"))
    assert isinstance(found, list)
    return found


def test_it_is_prepared_in_one_record_and_says_what_its_messages_are_called(core: Core) -> None:
    at_work(core, item())
    before = len(core.records)
    promised = core.ask(requests.Promise(1, XID, (item(), item())))
    assert isinstance(promised, Promised)
    assert len(core.records) == before + 1
    assert promised.messages == 3
    (view,) = views(core)
    assert (view.phase, view.agent, view.at_work) == ("prepared", NAME, True)
    assert view.number == promised.number
    assert core.present() == {"in held": 1}
    sent = core.ask(requests.CommitBranch(XID))
    assert sent == Sent(promised.first_message, 3, promised.transaction)
    assert core.present() == {"q": 3}
    assert views(core) == []


def test_what_is_all_sent_at_the_last_needs_no_begin(core: Core) -> None:
    promised = core.ask(requests.Promise(0, XID, (item(), item())))
    assert isinstance(promised, Promised)
    assert promised.messages == 2
    (view,) = views(core)
    assert (view.phase, view.at_work) == ("prepared", True)
    reborn(core)
    sent = core.ask(requests.CommitBranch(XID), owner=2)
    assert sent == Sent(promised.first_message, 2, promised.transaction)
    assert core.present() == {"in": 1, "q": 2}


def test_what_needs_no_begin_leaves_nothing_if_it_is_refused(core: Core) -> None:
    assert core.ask(requests.Promise(0, XID)) is None
    full = item(body=b"x" * 200_000)
    assert isinstance(core.ask(requests.Promise(0, XID, (item(), full))), SendFailed)
    wrong = requests.SendItem("DIRECT=", PLAIN, Run.of([b"x"]))
    assert isinstance(core.ask(requests.Promise(0, XID, (item(), wrong))), OnceqError)
    assert views(core) == []
    assert core.present() == {"in": 1}
    units = core.manager._step.units
    assert (units.promised, units.open_bytes, units.transactions) == ({}, 0, {})


def test_it_is_there_after_a_restart_and_time_does_not_end_it(core: Core) -> None:
    at_work(core)
    core.ask(requests.Promise(1, XID, (item(),)))
    core.step(OwnerGone(owner=1))
    core.pass_time(WEEK_S)
    (view,) = views(core)
    assert (view.phase, view.at_work) == ("prepared", False)
    again = core.again()
    assert [branch.xid for branch in again.state.branches] == [XID]
    assert core.ask(requests.RollbackBranch(XID), owner=2) is None
    assert core.present() == {"in": 1}


def test_an_application_that_leaves_is_not_at_work(core: Core) -> None:
    at_work(core)
    core.ask(requests.Promise(1, XID, (item(),)))
    assert core.ask(requests.LeaveDecision(XID.gtrid)) is None
    (view,) = views(core)
    assert not view.at_work


@pytest.mark.parametrize("end", [requests.CommitBranch(XID), requests.RollbackBranch(XID)])
def test_what_is_over_is_not_at_work(core: Core, end: requests.Request) -> None:
    at_work(core)
    core.ask(requests.Promise(1, XID, (item(),)))
    core.ask(end)
    assert core.ask(requests.AskDecision(XID.gtrid)) is DecisionState.ABORTED
    assert isinstance(core.ask(requests.CommitBranch(XID)), UnknownBranch)


def test_nothing_to_decide_is_over_at_once(core: Core) -> None:
    core.ask(requests.Begin(1))
    before = len(core.records)
    assert core.ask(requests.Promise(1, XID)) is None
    assert len(core.records) == before
    assert views(core) == []
    assert isinstance(core.ask(requests.Promise(1, XID)), TransactionOver)


def test_messages_that_leave_get_their_identifiers_at_the_commit(core: Core) -> None:
    core.ask(requests.Begin(1))
    promised = core.ask(requests.Promise(1, XID, (item("DIRECT=OS:B\\private$\\x"),)))
    assert isinstance(promised, Promised)
    assert promised[1:] == (0, 1, 0)
    sent = core.ask(requests.CommitBranch(XID))
    assert isinstance(sent, Sent)
    assert sent.first_message
    assert sent.messages == 1


def test_a_refused_send_undoes_all_of_it(core: Core) -> None:
    at_work(core, item())
    full = item(body=b"x" * 200_000)
    assert isinstance(core.ask(requests.Promise(1, XID, (full,))), SendFailed)
    assert core.present() == {"in": 1}
    assert views(core) == []


def test_a_wrong_send_changes_nothing(core: Core) -> None:
    at_work(core, item())
    wrong = requests.SendItem("DIRECT=", PLAIN, Run.of([b"x"]))
    assert isinstance(core.ask(requests.Promise(1, XID, (wrong,))), OnceqError)
    assert isinstance(core.ask(requests.Promise(1, XID)), Promised)


def test_who_may_not(core: Core) -> None:
    assert isinstance(core.ask(requests.Promise(5, XID)), TransactionOver)
    other = Xid(7, b"g", b"b")
    core.ask(requests.StartBranch(2, other))
    assert isinstance(core.ask(requests.Promise(2, XID)), BranchState)
    at_work(core)
    core.ask(requests.Promise(1, XID, (item(),)))
    core.ask(requests.Begin(4))
    assert isinstance(core.ask(requests.Promise(4, XID, (item(),))), DuplicateBranch)
    core.step(Reconfigure(Settings(external_transactions=False), {}))
    assert isinstance(core.ask(requests.Promise(4, XID)), NoCoordinator)


OTHERS = make_gtrid(IDENTITY.guid, 77)


def promised_with_others(core: Core, *items: requests.SendItem) -> Promised:
    """A transaction that a row decides, and two others follow."""
    core.ask(requests.Begin(3))
    for name in ("one", "two"):
        assert core.ask(requests.Enlist(3, name, drawn=b"\x4d")) == OTHERS
    promised = core.ask(requests.Promise(3, XID, items))
    assert isinstance(promised, Promised)
    return promised


def decided(core: Core) -> DecisionState:
    found = core.ask(requests.AskDecision(OTHERS))
    assert isinstance(found, DecisionState)
    return found


def test_others_follow_what_the_row_has_decided(core: Core) -> None:
    """Also where this manager itself has nothing to do, and whoever recovers it."""
    for items in ((), (item(),)):
        promised_with_others(core, *items)
        assert decided(core) is DecisionState.OPEN
        core.step(OwnerGone(owner=1))
        assert decided(core) is DecisionState.OPEN
        reborn(core)
        assert decided(core) is DecisionState.OPEN, "the row decides, and nobody has asked for it"
        assert isinstance(core.ask(requests.CommitBranch(XID), owner=2), Sent)
        assert decided(core) is DecisionState.COMMITTED
        reborn(core)
        found = core.ask(requests.Look("decisions"))
        assert isinstance(found, list)
        (view,) = found
        assert (view.gtrid, view.partners) == (OTHERS.decode(), ("one", "two"))
        assert core.manager.state.branches.rows.get(NAME).last > 0, "the row is looked for"
        core.ask(requests.DecisionDone(OTHERS), owner=2)
        assert decided(core) is DecisionState.ABORTED
        assert core.ask(requests.Look("decisions")) == []


def test_others_are_undone_with_the_branch(core: Core) -> None:
    promised_with_others(core, item())
    assert isinstance(core.ask(requests.Enlist(3, "three")), TransactionOver)
    core.ask(requests.Begin(4))
    assert isinstance(core.ask(requests.Enlist(4, "one", drawn=b"\x4d")), DuplicateBranch)
    assert core.ask(requests.RollbackBranch(XID)) is None
    assert decided(core) is DecisionState.ABORTED
    promised_with_others(core)
    core.step(OwnerGone(owner=1))
    assert core.ask(requests.RollbackBranch(XID, by_hand=True), owner=2) is None
    assert decided(core) is DecisionState.ABORTED


def test_an_operator_decides_for_others_too(core: Core) -> None:
    promised_with_others(core)
    core.step(OwnerGone(owner=1))
    core.ask(requests.CommitBranch(XID, by_hand=True), owner=2)
    assert decided(core) is DecisionState.COMMITTED


def test_an_application_at_work_tells_the_others_itself(core: Core) -> None:
    promised_with_others(core)
    core.ask(requests.CommitBranch(XID))
    assert decided(core) is DecisionState.OPEN
    core.ask(requests.LeaveDecision(OTHERS))
    assert decided(core) is DecisionState.COMMITTED


def test_a_checkpoint_keeps_who_follows(core: Core) -> None:
    promised_with_others(core, item())
    again = core.again()
    (branch,) = again.state.branches
    assert (branch.decides, branch.partners) == (OTHERS, ("one", "two"))
    encoded = memoryview(b"".join(branch.encode()))
    assert decode_branch(encoded).partners == branch.partners


@pytest.mark.parametrize("kind", ["decided by a row", "by its coordinator", "leaves", "asks"])
def test_what_a_row_says_is_not_synced_for_its_own_sake_unless_it_leaves(
    core: Core, kind: str
) -> None:
    destination = "DIRECT=OS:B\\private$\\q" if kind == "leaves" else Q
    properties = replace(
        PLAIN, acknowledge=Acknowledge.POSITIVE_ARRIVAL, admin_queue="DIRECT=OS:B\\private$\\adm"
    ) if kind == "asks" else PLAIN  # fmt: skip
    sent = requests.SendItem(destination, properties, Run.of([b"x"]))
    at_work(core, sent)
    if kind == "by its coordinator":
        foreign = Xid(1, b"g", b"b")
        core.ask(requests.StartBranch(2, foreign))
        core.ask(requests.Send(2, (sent,)))
        core.ask(requests.PrepareBranch(foreign, 2))
        decision = core.manager.step(core.now(), requests.CommitBranch(foreign, owner=1))
    else:
        core.ask(requests.Promise(1, XID))
        decision = core.manager.step(core.now(), requests.CommitBranch(XID, owner=1))
    found = {(record.forced, record.held) for record in decision.records}
    assert found == {(False, True)} if "row" in kind else (True, False) in found
    assert (False, True) not in found or "row" in kind


def reborn(core: Core) -> None:
    """It crashes, and starts again."""
    made = Manager(IDENTITY, Settings())
    entropy = bytes(ENTROPY_BYTES)
    core.kept(made.recover(core.now(), None, core.records, core.manager.position, entropy=entropy))
    core.manager = made


@pytest.mark.parametrize("crashes", [1, 2])
@pytest.mark.parametrize("end", [requests.CommitBranch(XID), requests.RollbackBranch(XID)])
def test_express_messages_that_a_branch_holds_are_gone_with_a_restart(
    core: Core, crashes: int, end: requests.Request
) -> None:
    """Either outcome then does what is left of it; it had stopped the manager."""
    properties = QueueProperties("plain", transactional=False)
    core.ask(requests.CreateQueue(properties=properties, instance=b"P" * 16))
    core.ask(requests.Commit(0, (item(IN),)))
    for delivery in (Delivery.EXPRESS, Delivery.RECOVERABLE, Delivery.EXPRESS):
        plain = replace(PLAIN, delivery=delivery)
        sent = requests.SendItem("private$\\plain", plain, Run.of([b"p"]))
        assert not isinstance(core.ask(requests.Send(0, (sent,))), OnceqError)
    at_work(core, item())
    for _ in range(3):
        held = core.ask(requests.Receive("private$\\plain", 1, hold=True))
        assert not isinstance(held, OnceqError)
    assert isinstance(core.ask(requests.Promise(1, XID, ())), Promised)
    assert core.present()["plain held"] == 3
    for _ in range(crashes):
        reborn(core)
    assert core.present()["plain held"] == 1
    assert not isinstance(core.ask(end, owner=2), OnceqError)
    committed = isinstance(end, requests.CommitBranch)
    expected = {"in": 1, "q": 1} if committed else {"in": 2, "plain": 1}
    assert core.present() == expected
    reborn(core)
    assert core.present() == expected
