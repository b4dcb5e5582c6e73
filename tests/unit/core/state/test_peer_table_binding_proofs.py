"""For whom a session counts: a queue manager with a proof speaks over TLS alone, an address is one
queue manager, and a certificate answers under its own names."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.decision import CloseSession, Decision
from onceq.core.inputs import SessionOpened, TellDoors
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.positions import Link
from onceq.errors import InvalidParameter, QueueNotFound
from onceq.model import requests
from onceq.model.identification import (
    Claims,
    House,
    Identification,
    Over,
    Shown,
    certified,
    identify_peer,
)
from onceq.model.identity import guid_text
from onceq.model.message import PLAIN
from onceq.model.run import Run
from tests.unit.core.alone import Core

BETA, MALLORY = b"B" * 16, b"M" * 16
BY_NAME, BY_GUID = r"DIRECT=OS:BETA\private$\q", rf"PRIVATE={guid_text(BETA)}\00000001"
HOST = "10.1.2.3"


def member(guid: bytes, name: str) -> Identification:
    """With a certificate for that name."""
    found = certified(Claims(guid, name))
    assert found is not None
    return found


def plain(*guids: bytes, address: str = HOST) -> Identification:
    """At an address of ``plain_peers``."""
    found = identify_peer(Shown(Over.TCP, address), House(True, {address: frozenset(guids)}))
    assert isinstance(found, Identification)
    return found


class Guarded(Core):
    """A queue manager with an identity, and what it closes."""

    def __post_init__(self) -> None:
        self.closed: dict[int, str] = {}
        super().__post_init__()
        self.step(TellDoors(identity=True, plain_peers=(HOST,)))

    def kept(self, decision: Decision) -> None:
        super().kept(decision)
        for action in decision.actions:
            if isinstance(action, CloseSession):
                self.closed[action.session] = action.reason

    def comes(self, session: int, guid: bytes, who: Identification, outgoing: int = 0) -> str:
        """A session opens; why it is closed."""
        self.step(SessionOpened(session, guid, HOST, outgoing, who=who))
        return self.closed.get(session, "")

    def restarted(self) -> Guarded:
        """The same, from its records."""
        self.manager = self.again()
        self.step(TellDoors(identity=True, plain_peers=(HOST,)))
        return self

    def send(self, name: str) -> OutgoingQueue:
        """A message waits for a name."""
        self.ask(requests.Commit(0, (requests.SendItem(name, PLAIN, bodies=Run.of([b"x"])),)))
        return next(o for o in self.manager.state.outgoing.values() if str(o.name) == name)

    def meets(self, outgoing: OutgoingQueue, session: int, guid: bytes, who: Identification) -> str:
        """Somebody is where a name leads to; why it is given nothing."""
        return self.comes(session, guid, who, outgoing.number)


def test_one_that_has_proven_itself_is_believed_with_a_certificate_alone() -> None:
    core = Guarded()
    assert core.comes(1, BETA, plain()) == "", "nothing is known of it"
    assert core.comes(2, BETA, member(BETA, "BETA")) == ""
    assert "over TLS alone" in core.closed[1], "the session that nobody had proven ends"
    assert "over TLS alone" in core.comes(3, BETA, plain())
    assert "over TLS alone" in core.restarted().comes(4, BETA, plain()), "also after a restart"


@pytest.mark.parametrize("how", ["issued", "granted"])
def test_so_is_one_with_a_certificate_of_ours_or_a_right_of_its_own(how: str) -> None:
    core = Guarded()
    if how == "issued":
        assert core.comes(1, BETA, plain()) == ""
        core.step(TellDoors(identity=True, issued=frozenset((BETA,))))
        assert 1 in core.closed
    else:
        right = requests.SetRights(f"peer:{guid_text(BETA)}", ["send"], "*")
        right.check()
        core.ask(right)
    assert "over TLS alone" in core.comes(2, BETA, plain())
    assert core.comes(3, MALLORY, plain(address="10.1.2.4")) == ""


def test_what_waits_for_it_goes_over_tls_and_says_so() -> None:
    core = Guarded()
    core.comes(1, BETA, member(BETA, "BETA"))
    waits = core.send(BY_NAME)
    assert "over TLS alone" in core.meets(waits, 2, BETA, plain())
    assert waits.link is Link.PUT_OFF
    assert "over TLS alone" in waits.trouble.reason
    assert len(waits) == 1
    by_guid = core.send(BY_GUID)
    assert by_guid.session == 1, "the certificate that is there will do"


def test_an_address_is_the_queue_manager_that_it_first_said() -> None:
    core = Guarded()
    assert core.comes(1, BETA, plain()) == ""
    assert f"onceq peer forget {HOST}" in core.comes(2, MALLORY, plain())
    core = core.restarted()
    assert "is the address of" in core.comes(3, MALLORY, plain())
    assert core.comes(4, MALLORY, plain(MALLORY)) == "", "the configuration names it"
    assert core.comes(5, MALLORY, plain(address="10.1.2.4")) == "", "another address"
    page: Any = core.ask(requests.Look("peers"))
    found = {one.name: one.id for one in page.views}
    assert found[f"address:{HOST}"] == guid_text(BETA)
    core.ask(requests.ForgetPeer(HOST))
    assert core.comes(6, MALLORY, plain()) == ""


def test_a_member_answers_under_its_own_name_alone() -> None:
    core = Guarded()
    secret = core.send(BY_NAME)
    said = core.meets(secret, 1, MALLORY, member(MALLORY, "MALLORY"))
    assert "is not for BETA, but for mallory" in said
    assert "--to" in said
    assert (len(secret), secret.session) == (1, 0)
    assert core.meets(secret, 2, BETA, member(BETA, "BETA")) == ""
    assert secret.session == 2


def test_a_name_stays_with_its_queue_manager_until_an_operator_says_otherwise() -> None:
    core = Guarded()
    waits = core.send(BY_NAME)
    assert core.meets(waits, 1, BETA, member(BETA, "BETA")) == ""
    again = core.send(r"DIRECT=OS:BETA\private$\other")
    assert again.session == 1
    said = core.meets(waits, 2, MALLORY, member(MALLORY, "BETA"))
    assert "onceq peer forget os:beta" in said, "not even with a certificate for the name"
    assert "than before" in core.meets(waits, 3, b"O" * 16, plain(address="10.1.2.4"))
    core.ask(requests.ForgetPeer("BETA"))
    assert core.meets(waits, 4, MALLORY, member(MALLORY, "BETA")) == ""


def test_an_operator_says_whose_name_it_is() -> None:
    """One more name of a queue manager stands in no certificate."""
    core = Guarded()
    alias = core.send(r"DIRECT=OS:ALIAS\private$\q")
    assert "is not for ALIAS" in core.meets(alias, 1, BETA, member(BETA, "BETA"))
    assert isinstance(core.ask(requests.ForgetPeer("ALIAS")), QueueNotFound)
    assert isinstance(core.ask(requests.ForgetPeer("ALIAS", to="BETA")), InvalidParameter)
    core.ask(requests.ForgetPeer("ALIAS", to=guid_text(BETA)))
    assert core.meets(alias, 2, BETA, member(BETA, "BETA")) == ""
    assert "than before" in core.meets(alias, 3, MALLORY, member(MALLORY, "ALIAS"))
