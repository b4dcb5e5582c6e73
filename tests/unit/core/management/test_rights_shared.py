"""Rights that stand in the directory: followed, kept, and never more than may be shared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceq.core.decision import Answer, Decision, Notice, RewriteRights
from onceq.core.inputs import DirectoryChanged, Input, OwnerCame, RightsRead
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.snapshot import snapshot
from onceq.errors import (
    AccessDenied,
    InvalidParameter,
    NoDirectory,
    SendFailed,
    UnsupportedOperation,
)
from onceq.model import requests
from onceq.model.directory import Snapshot
from onceq.model.patterns import QueueName
from onceq.model.policy import Door
from onceq.model.requests import Steer
from onceq.model.rights import NO_RIGHTS, Actor, ActorKind, Right, SharedRights, grant_of
from onceq.model.settings import Settings
from onceq.model.views.view import Page
from tests.unit.core.alone import IDENTITY, WAITS, Core
from tests.unit.core.somebody import ALICE, KEY, ORDERS, core, denied, grant, item

CARL, BOOK, OTHER = 7, b"B" * 16, b"O" * 16
WHO = "certificate:carl"


def book(*grants: tuple[str, str, str], number: int = 1, id: bytes = BOOK) -> SharedRights:
    return SharedRights(id, number, tuple(grant_of(w, r.split(","), p) for w, r, p in grants))


SENDS = book((WHO, "send", KEY))
NONE = book(number=2)


@pytest.fixture
def made() -> Core:
    found = core()
    found.step(OwnerCame(CARL, Actor(ActorKind.CERTIFICATE, "carl")))
    return found


def decided(core: Core, what: Input) -> Decision:
    decision = core.manager.step(core.now(), what)
    core.kept(decision)
    for action in decision.actions:
        if isinstance(action, Answer):
            core.answers[action.request] = action.result
    return decision


def read(core: Core, found: SharedRights | None, trouble: str = "") -> list[Notice]:
    """The rights are read; what the operator is told."""
    decision = decided(core, RightsRead(found, trouble))
    return [action for action in decision.actions if isinstance(action, Notice)]


def sends(core: Core, owner: int = CARL) -> object:
    return core.ask(requests.Send(0, [item()]), owner=owner)


def followed(core: Core) -> list[str]:
    found = core.manager.state.trail.behind(0, 1_000)
    return [act.about for act in found if act.what == "follow rights"]


def trouble(core: Core) -> str:
    view = core.ask(requests.Look("status"))
    return str(view.rights_trouble)  # type: ignore[attr-defined]


# ---- followed ------------------------------------------------------------------------------------


def test_what_stands_there_holds_and_goes_with_it(made: Core) -> None:
    assert denied(sends(made))
    assert read(made, SENDS) == []
    assert not denied(sends(made))
    assert denied(sends(made, ALICE)), "and nobody else has it"
    read(made, NONE)
    assert denied(sends(made))
    assert followed(made) == [
        rf"change 1; granted {WHO} send at {KEY}", rf"change 2; revoked {WHO} send at {KEY}"
    ]  # fmt: skip
    (last,) = [a for a in made.manager.state.trail.behind(1, 9) if a.what == "follow rights"]
    assert last.who == "directory"


def test_what_was_given_here_stays_when_the_directory_takes_it(made: Core) -> None:
    read(made, SENDS)
    grant(made, "send", KEY, who=WHO)
    read(made, NONE)
    assert not denied(sends(made))
    read(made, replace(SENDS, number=3))
    grant(made, "send", KEY, who=WHO, take=True)
    assert not denied(sends(made)), "and the other way round"


def test_a_change_that_is_none_is_not_put_on_record(made: Core) -> None:
    read(made, SENDS)
    before = made.manager.position
    read(made, SENDS)
    assert made.manager.position == before
    read(made, replace(SENDS, number=2))
    assert len(followed(made)) == 1, "nothing was given or taken"
    assert made.manager.state.policy.shared.number == 2, "but older copies are known from now on"


def test_who_waits_and_what_is_open_ends_with_the_right(made: Core) -> None:
    read(made, book((WHO, "receive,send", KEY)))
    waits = requests.Receive(ORDERS, wait_until_us=1 << 60)
    assert made.ask(waits, owner=CARL) is WAITS
    waiting = made.asked
    made.ask(requests.OpenQueue(ORDERS, requests.Access.RECEIVE), owner=CARL)
    assert made.manager._step.readers.handles
    made.ask(requests.Begin(1), owner=CARL)
    made.ask(requests.Send(1, [item()]), owner=CARL)
    read(made, NONE)
    assert denied(made.answers[waiting])
    assert not made.manager.waiting
    assert not made.manager._step.readers.handles
    assert isinstance(made.ask(requests.Commit(1), owner=CARL), SendFailed)
    assert made.present()["orders"] == 0


def test_other_queue_managers_are_meant_by_their_guid(made: Core) -> None:
    read(made, book(("peer:*", "send", KEY)))
    peer = Actor(ActorKind.PEER, "42424242-4242-4242-4242-424242424242")
    assert made.manager.state.policy.allows(peer, Right.SEND, QueueName(KEY))
    assert not made.manager.state.policy.allows(peer, Right.RECEIVE, QueueName(KEY))


# ---- never more than may be shared ---------------------------------------------------------------


@pytest.mark.parametrize("word", ["administer", "operate", "forward"])
def test_nobody_becomes_who_runs_a_queue_manager(made: Core, word: str) -> None:
    (told,) = read(made, book((WHO, word, "")))
    assert told.what == "a right in the directory is left out"
    assert told.values["right"] == f"{WHO} {word}"
    assert denied(made.ask(requests.SteerOutgoing("", Steer.TIDY), owner=CARL))
    assert made.manager.state.policy.shared.grants == ()
    assert followed(made) == []


def test_of_a_grant_the_rest_is_taken(made: Core) -> None:
    (told,) = read(made, book((WHO, "send,set-rights", "*")))
    assert told.values["right"] == f"{WHO} set-rights at *"
    assert not denied(sends(made))
    assert denied(grant(made, "send", KEY, who="mallory", owner=CARL))


@pytest.mark.parametrize("who", ["alice", "token:x", "address:10.0.0.1", "nobody", "account:*"])
def test_only_who_is_the_same_everywhere_is_meant(made: Core, who: str) -> None:
    (told,) = read(made, book((who, "send", "*")))
    assert told.what == "a right in the directory is left out"
    assert denied(sends(made, ALICE))
    assert not any(map(made.manager.state.policy.admits_nobody, Door))


def test_everybody_who_has_a_name_is_everybody_here(made: Core) -> None:
    read(made, book(("*", "send", KEY)))
    assert not denied(sends(made, ALICE))
    assert denied(sends(made, 3)), "whoever has none is not meant"


# ---- what cannot be read -------------------------------------------------------------------------


def test_what_cannot_be_read_neither_opens_nor_shuts_anything(made: Core) -> None:
    assert read(made, None) == []
    assert trouble(made) == "", "there was never anything"
    (told,) = read(made, None, "the disk is away")
    assert told.values["reason"] == "the disk is away"
    assert denied(sends(made))
    read(made, SENDS)
    assert trouble(made) == ""
    (told,) = read(made, None, "the disk is away")
    assert trouble(made) == "the disk is away"
    assert read(made, None, "the disk is away") == [], "it is told once"
    assert not denied(sends(made))


def test_rights_that_are_gone_are_kept_and_that_is_told(made: Core) -> None:
    read(made, SENDS)
    (told,) = read(made, None)
    assert "they are gone" in str(told.values["reason"])
    assert "--everywhere" in trouble(made)
    assert not denied(sends(made))
    read(made, SENDS)
    assert trouble(made) == ""


def test_an_older_copy_is_not_followed(made: Core) -> None:
    read(made, SENDS)
    read(made, NONE)
    (told,) = read(made, SENDS)
    assert "older copy (change 1 after 2)" in str(told.values["reason"])
    assert denied(sends(made)), "it was revoked since"
    read(made, replace(SENDS, number=3))
    assert not denied(sends(made)), "a newer one counts whatever it says"


def test_of_the_same_number_what_was_read_last_counts(made: Core) -> None:
    """People change the file, and may leave its number."""
    read(made, SENDS)
    read(made, replace(NONE, number=1))
    assert denied(sends(made))


def test_another_book_is_followed_and_so_is_none_any_more(made: Core) -> None:
    read(made, replace(NONE, number=90))
    read(made, replace(SENDS, id=OTHER))
    assert not denied(sends(made)), "numbers of two books say nothing of each other"
    read(made, NO_RIGHTS)
    assert denied(sends(made))
    assert followed(made)[-1].startswith("no directory any more; revoked")
    before = made.manager.position
    read(made, NO_RIGHTS)
    assert made.manager.position == before


# ---- durable -------------------------------------------------------------------------------------


def test_what_was_read_outlives_a_restart(made: Core) -> None:
    read(made, SENDS)
    assert made.again().state.policy.shared == SENDS


def test_what_was_read_outlives_a_checkpoint(made: Core) -> None:
    read(made, SENDS)
    whole = b"".join(map(bytes, snapshot(made.manager.state)))
    other = Manager(IDENTITY, Settings())
    other.recover(made.now(), whole, [], made.manager.position, entropy=bytes(ENTROPY_BYTES))
    assert other.state.policy.shared == SENDS


# ---- asked for here ------------------------------------------------------------------------------


def everywhere(who: str = WHO, words: str = "send", *, take: bool = False) -> requests.SetRights:
    request = requests.SetRights(who, words.split(","), KEY, take, everywhere=True)
    request.check()
    request.guid = OTHER
    return request


def test_the_directory_is_changed_and_not_this_manager(made: Core) -> None:
    read(made, SENDS)
    made.step(DirectoryChanged(Snapshot()))
    decision = decided(made, replace(everywhere(words="peek"), owner=1, request=5))
    (action,) = [a for a in decision.actions if isinstance(a, RewriteRights)]
    assert action.change.grant == grant_of(WHO, ["peek"], KEY)
    assert (action.change.take, action.change.known, action.change.id) == (False, SENDS, OTHER)
    assert decision.records == []
    assert made.manager.state.policy.shared == SENDS


def test_without_a_directory_it_is_refused(made: Core) -> None:
    assert isinstance(made.ask(everywhere()), UnsupportedOperation)
    made.step(DirectoryChanged(None, "away"))
    assert isinstance(made.ask(everywhere()), NoDirectory)


def test_only_an_administrator_gives_rights_everywhere(made: Core) -> None:
    made.step(DirectoryChanged(Snapshot()))
    grant(made, "set-rights,send", "*", who=WHO)
    grant(made, "operate", who=WHO)
    for take in (False, True):
        assert isinstance(made.ask(everywhere(take=take), owner=CARL), AccessDenied)
    grant(made, "administer", who=WHO)
    asked = made.ask(everywhere(), owner=CARL)
    assert asked is WAITS, "the service answers"
    acts = [(act.who, act.what, act.about) for act in made.manager.state.trail.behind(0, 99)]
    assert acts[-1] == (WHO, "grant everywhere", f"{WHO} send at {KEY}")


@pytest.mark.parametrize(
    ("who", "words", "pattern", "text"),
    [
        ("alice", "send", "*", "somebody else on every computer"),
        ("token:x", "send", "*", "that has made it"),
        ("address:10.0.0.1", "send", "*", "proves nothing"),
        ("nobody", "send", "*", "no name"),
        (WHO, "operate", "", "each queue manager for itself"),
        (WHO, "set-rights,send", "*", "set-rights is given by each"),
    ],
)
def test_what_cannot_be_shared_is_refused_with_the_way_out(
    who: str, words: str, pattern: str, text: str
) -> None:
    with pytest.raises(InvalidParameter, match=text):
        requests.SetRights(who, words.split(","), pattern, everywhere=True).check()
    requests.SetRights(who, words.split(","), pattern, take=True, everywhere=True).check()


# ---- told ----------------------------------------------------------------------------------------


def test_it_is_said_where_a_right_comes_from(made: Core) -> None:
    read(made, SENDS)
    grant(made, "peek", KEY, who=WHO)
    shown = made.ask(requests.Look("rights"))
    assert isinstance(shown, Page)
    assert [(v.who, v.rights, v.origin) for v in shown.views] == [
        (WHO, ("peek",), ""), (WHO, ("send",), "directory")
    ]  # fmt: skip
    ask = requests.ExplainRight(WHO, "send", KEY)
    ask.check()
    said = made.ask(ask)
    assert said.because == f"send at {KEY} was granted in the directory to {WHO}"  # type: ignore[attr-defined]
    grant(made, "send", KEY, who=WHO)
    assert made.ask(ask).because == f"send at {KEY} was granted to {WHO}"  # type: ignore[attr-defined]
