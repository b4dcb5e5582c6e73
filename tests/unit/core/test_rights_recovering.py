"""Recovery by an application that may do its own work and no more: two real cores, and its rights.

One queue manager has decided, the other one has promised. Whoever runs them is somebody else.

Upholds: I21, I28; XTX-5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onceq.core.inputs import OwnerCame, OwnerGone
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.branches import ONCEQ_FORMAT, DecisionState, Vote, Xid, make_gtrid
from onceq.model.requests import Request
from onceq.model.results import Sent
from onceq.model.rights import Actor, ActorKind
from onceq.partners.recovery import Recovery
from tests.unit.core.alone import IDENTITY, Core
from tests.unit.core.somebody import ALICE, BOB, KEY, core, grant, item
from tests.unit.partners.agents import NoRows

GTRID = make_gtrid(IDENTITY.guid, 5)
XID = Xid(ONCEQ_FORMAT, GTRID, b"there")
PARTNER = "onceq:there"


@dataclass
class Line(NoRows):
    """An application's connection to a queue manager: as decider and as resource."""

    at: Core
    owner: int
    name: str = PARTNER
    guid: bytes = IDENTITY.guid

    def _ask(self, request: Request) -> Any:
        answer = self.at.ask(request, owner=self.owner)
        if isinstance(answer, OnceqError):
            raise answer
        return answer

    def decision(self, gtrid: bytes) -> DecisionState:
        answer = self._ask(requests.AskDecision(gtrid))
        assert isinstance(answer, DecisionState)
        return answer

    def open_decisions(self) -> dict[bytes, tuple[str, ...]]:
        views = self._ask(requests.Look("decisions"))
        return {view.gtrid.encode(): view.partners for view in views}

    def done(self, gtrid: bytes) -> None:
        self._ask(requests.DecisionDone(gtrid))

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        found = [Xid.parse(view.xid) for view in self._ask(requests.Look("branches"))]
        return [xid for xid in found if xid.gtrid.startswith(prefix)]

    def commit(self, xid: Xid) -> None:
        self._ask(requests.CommitBranch(xid))

    def rollback(self, xid: Xid) -> None:
        self._ask(requests.RollbackBranch(xid))

    def forget(self, xid: Xid) -> None:
        self._ask(requests.ForgetBranch(xid))

    def close(self) -> None:
        """The core stays."""


def both(promises: int = ALICE) -> tuple[Core, Core]:
    """Alice has decided at one, and died before she told it to the other, where she, or Bob, has
    promised; then both have restarted, and she and Bob are there."""
    here, there = core(), core()
    there.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))
    for made in (here, there):
        grant(made, "send", KEY)
    grant(there, "send", KEY, who="bob")
    there.ask(requests.StartBranch(1, XID), owner=promises)
    there.ask(requests.Send(1, [item()]), owner=promises)
    assert there.ask(requests.PrepareBranch(XID, 1), owner=promises) is Vote.PREPARED
    grant(there, "send", KEY, who="bob", take=True)
    here.ask(requests.Begin(1), owner=ALICE)
    here.ask(requests.Send(1, [item()]), owner=ALICE)
    here.ask(requests.Enlist(1, PARTNER, drawn=b"\5"), owner=ALICE)
    assert isinstance(here.ask(requests.Commit(1), owner=ALICE), Sent)
    for made in (here, there):
        made.step(OwnerGone(ALICE))
        made.manager = made.again()
        made.step(OwnerCame(ALICE, Actor(ActorKind.ACCOUNT, "alice")))
        made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))
    return here, there


def recovery(here: Core, there: Core, owner: int) -> Recovery:
    return Recovery(Line(here, owner), [Line(there, owner)])


def test_who_has_decided_brings_it_to_its_end_with_the_rights_of_its_work() -> None:
    here, there = both()
    report = recovery(here, there, ALICE).step(0.0)
    assert report.committed == [(PARTNER, XID)]
    assert report.forgotten == [GTRID]
    assert report.clean
    assert here.present() == there.present() == {"orders": 1}
    assert here.ask(requests.AskDecision(GTRID)) is DecisionState.ABORTED, "nothing is on record"


def test_a_right_that_was_taken_away_breaks_no_promise() -> None:
    """The promise was judged when it was made, and the decision relies on it (finding J2)."""
    here, there = both()
    grant(there, "send", KEY, take=True)
    report = recovery(here, there, ALICE).step(0.0)
    assert (report.forgotten, report.clean) == ([GTRID], True)
    assert there.present() == {"orders": 1}


def test_a_right_at_the_promise_of_another_that_is_gone_keeps_the_decision_until_it_is_back() -> (
    None
):
    """If the branch were not even shown, its decision would be forgotten, and it rolled back."""
    here, there = both(promises=BOB)
    grant(there, "send", KEY, take=True)
    looks = recovery(here, there, ALICE)
    report = looks.step(0.0)
    assert "send at private$\\orders" in report.failed[PARTNER]
    assert report.waiting == {GTRID: (PARTNER,)}
    assert here.ask(requests.AskDecision(GTRID)) is DecisionState.COMMITTED
    grant(there, "send", KEY)
    report = looks.step(100.0)
    assert (report.forgotten, report.clean) == ([GTRID], True)
    assert there.present() == {"orders": 1}


def test_recovery_of_another_neither_ends_nor_forgets_it() -> None:
    here, there = both()
    for _ in range(2):
        report = recovery(here, there, BOB).step(0.0)
        assert report.committed == report.rolled_back == []
        assert report.forgotten == []
        assert not there.present()
        assert here.ask(requests.AskDecision(GTRID)) is DecisionState.COMMITTED
        grant(here, "monitor", who="bob")  # He sees the decision now, and it is not his.
    assert recovery(here, there, ALICE).step(0.0).forgotten == [GTRID]
    assert there.present() == {"orders": 1}
