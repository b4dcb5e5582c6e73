"""Tokens in the core: made, used, revoked while in use, expired; and after a restart."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from onceq.core.inputs import OwnerCame, OwnerGone
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.errors import AccessDenied, InsufficientResources, InvalidParameter, OnceqError
from onceq.model import limits, requests
from onceq.model.message import PLAIN
from onceq.model.rights import NOBODY, Actor, ActorKind, Right
from onceq.model.run import LENGTH_TYPE, Run
from onceq.model.settings import Settings
from onceq.model.tokens import digest_of, salt_of, text_of
from onceq.model.views.looks import TOKENS
from onceq.model.views.managers import TokenMade, TokenView
from onceq.model.views.view import Page
from tests.unit.core.alone import IDENTITY, WAITS, WALL_S, Core

RUNS = 1
"""This process itself."""
HOLDER, OTHER = 2, 3
ORDERS = ".\\private$\\orders"
KEY = "private$\\orders"
SECRET = b"S" * 32
SALT = salt_of(IDENTITY.guid, "billing")


def create(core: Core, name: str = "billing", *, age_s: int = 0, grants: Any = (),
           owner: int = RUNS) -> object:  # fmt: skip
    request = requests.CreateToken(name, age_s, grants)
    request.check()
    request.secret = SECRET
    return core.ask(request, owner=owner)


def revoke(core: Core, name: str = "billing", *, owner: int = RUNS) -> object:
    return core.ask(requests.RevokeToken(name), owner=owner)


def come(core: Core, owner: int = HOLDER, name: str = "billing") -> None:
    actor = Actor(ActorKind.TOKEN, name)
    core.step(OwnerCame(owner, actor, digest_of(salt_of(IDENTITY.guid, name), SECRET)))


def listed(core: Core) -> list[TokenView]:
    found = core.ask(requests.Look(TOKENS.what), owner=RUNS)
    assert isinstance(found, Page)
    return list(found.views)


@pytest.fixture
def core() -> Core:
    made = Core()
    request = requests.CreateQueue({"name": "orders", "transactional": True})
    request.check()
    request.instance = b"o" * 16
    made.ask(request, owner=RUNS)
    return made


def waits(core: Core, owner: int = HOLDER) -> int:
    """The request of a receive that waits."""
    receive = requests.Receive(ORDERS, wait_ms=-1)
    receive.wait_until_us = 1 << 62
    assert core.ask(receive, owner=owner) is WAITS
    return core.asked


def denied(answer: object) -> bool:
    return isinstance(answer, AccessDenied)


def test_its_text_is_told_once_and_the_record_has_only_its_hash(core: Core) -> None:
    made = create(core, age_s=60)
    assert made == TokenMade("billing", text_of("billing", SECRET), WALL_S + 1 + 60)
    assert text_of("billing", SECRET) not in repr(made)
    kept = b"".join(bytes(payload) for _, payload in core.records)
    assert digest_of(SALT, SECRET).hex().encode() in kept
    assert SECRET not in kept
    assert SECRET.hex().encode() not in kept
    assert listed(core) == [TokenView("billing", WALL_S + 1, WALL_S + 61, False, 0)]
    assert "hash" not in repr(listed(core))
    assert SALT.hex() not in repr(listed(core))


def test_a_name_is_given_once(core: Core) -> None:
    create(core)
    again = create(core)
    assert isinstance(again, InvalidParameter)
    assert "there is a token 'billing' already" in again.text
    other = revoke(core, "other")
    assert isinstance(other, InvalidParameter)
    assert "onceq token list" in other.text


def test_there_are_only_so_many(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceq.core.management.rights.TOKENS_MAX", 1)
    create(core)
    assert isinstance(create(core, "other"), InsufficientResources)
    assert limits.TOKENS_MAX > 1


def test_it_may_do_what_was_granted_with_it_and_nothing_else(core: Core) -> None:
    create(core, grants=[("receive,get-properties", KEY), ("monitor", "")])
    come(core)
    waits(core)
    assert not denied(core.ask(requests.Look("status"), owner=HOLDER))
    assert denied(core.ask(requests.DeleteQueue(ORDERS), owner=HOLDER))
    create(core, "other")
    come(core, OTHER, "other")
    assert denied(core.ask(requests.Look("status"), owner=OTHER)), "of another token"


@pytest.mark.parametrize("right", [right.value for right in Right if right is not Right.ADMINISTER])
def test_only_administrators_make_see_and_revoke_tokens(core: Core, right: str) -> None:
    whole = right in ("forward", "monitor", "operate")
    create(core, grants=[(right, "" if whole else "*")])
    come(core)
    assert denied(create(core, "other", owner=HOLDER))
    assert denied(revoke(core, owner=HOLDER))
    assert denied(core.ask(requests.Look(TOKENS.what), owner=HOLDER))
    assert [token.name for token in listed(core)] == ["billing"]


def test_one_that_administers_may_revoke_itself(core: Core) -> None:
    create(core, grants=[("administer", "")])
    come(core)
    assert revoke(core, owner=HOLDER) == 1
    assert denied(core.ask(requests.Look("status"), owner=HOLDER))


def test_a_connection_is_nobodys_and_ends_when_its_token_is_revoked(core: Core) -> None:
    create(core, grants=[("receive,send", KEY)])
    come(core)
    come(core, OTHER)
    waiting = waits(core)
    assert listed(core)[0].connections == 2
    assert revoke(core) == 2
    assert denied(core.answers[waiting]), "a message given to it now would be lost with it"
    assert denied(core.answers[0])
    assert "'billing' was revoked" in str(core.answers[0])
    assert not core.manager._step.readers.waiting
    for owner in (HOLDER, OTHER):
        assert denied(core.ask(requests.Receive(ORDERS), owner=owner))
    core.step(OwnerGone(HOLDER))
    core.step(OwnerGone(OTHER))
    assert not core.manager._step.actors


def test_what_was_granted_to_a_token_goes_with_it(core: Core) -> None:
    create(core, grants=[("receive", KEY)])
    pattern = requests.SetRights("token:bill*", ["peek"], KEY)
    pattern.check()
    core.ask(pattern, owner=RUNS)
    revoke(core)
    create(core)
    come(core)
    assert denied(core.ask(requests.Receive(ORDERS), owner=HOLDER)), "another of the same name"
    assert not denied(core.ask(requests.OpenQueue(ORDERS, requests.Access.PEEK), owner=HOLDER))


def test_a_token_that_was_made_anew_on_the_way_is_another_one(core: Core) -> None:
    """Its secret was looked at before; the connection comes after it was revoked."""
    create(core, grants=[("receive", KEY)])
    revoke(core)
    request = requests.CreateToken("billing", 0, [("receive", KEY)])
    request.check()
    request.secret = b"T" * 32
    core.ask(request, owner=RUNS)
    core.answers.pop(0, None)
    come(core)
    assert denied(core.answers[0])
    assert denied(core.ask(requests.Receive(ORDERS), owner=HOLDER))
    assert core.manager._step.actors[HOLDER] == NOBODY


def test_a_transaction_of_a_token_that_was_revoked_does_not_commit(core: Core) -> None:
    create(core, grants=[("receive,send", KEY)])
    come(core)
    bodies = Run(b"m", array(LENGTH_TYPE, [1]))
    core.ask(requests.Commit(0, [requests.SendItem(ORDERS, PLAIN, bodies=bodies)]), owner=RUNS)
    core.ask(requests.Begin(7), owner=HOLDER)
    core.ask(requests.Receive(ORDERS, 7), owner=HOLDER)
    assert core.present() == {"orders held": 1}
    revoke(core)
    answer = core.ask(requests.Commit(7, []), owner=HOLDER)
    assert isinstance(answer, OnceqError), answer
    core.step(OwnerGone(HOLDER))
    assert core.present() == {"orders": 1}, "undone, as when a connection is lost"


def test_who_only_waits_is_sent_away_when_the_token_expires(core: Core) -> None:
    create(core, grants=[("receive", KEY)], age_s=60)
    create(core, "late", grants=[("receive", KEY)], age_s=100)
    come(core)
    come(core, OTHER, "late")
    first, second = waits(core), waits(core, OTHER)
    core.pass_time(59)
    assert first not in core.answers
    core.pass_time(1)
    assert denied(core.answers[first])
    assert "has expired" in str(core.answers[0])
    assert second not in core.answers
    core.pass_time(40)
    assert denied(core.answers[second])
    assert [token.expired for token in listed(core)] == [True, True]
    due = core.manager.next_timer()
    assert due is None, "nothing is left to wait for"


def test_a_timer_stands_for_the_first_of_many_and_no_more_than_an_hour(core: Core) -> None:
    create(core, "year", age_s=365 * 86_400)
    create(core, "week", age_s=7 * 86_400)
    step = core.manager._step
    for _ in range(50):
        come(core, HOLDER, "year")
        come(core, OTHER, "week")
        core.step(OwnerGone(HOLDER))
        core.step(OwnerGone(OTHER))
    assert len(step.timers) == 1
    assert step.timers[0][0] == core.now_us + int(limits.TOKEN_LOOK_S * 1_000_000)


def test_each_request_is_looked_at_by_the_clock_of_then(core: Core) -> None:
    create(core, grants=[("monitor", "")], age_s=60)
    come(core)
    assert not denied(core.ask(requests.Look("status"), owner=HOLDER))
    core.now_us += 60 * 1_000_000  # and nobody has ticked
    assert denied(core.ask(requests.Look("status"), owner=HOLDER))
    assert denied(core.answers[0])


def test_tokens_and_their_grants_outlive_a_restart(core: Core) -> None:
    create(core, age_s=60, grants=[("receive", KEY)])
    create(core, "gone", grants=[("send", KEY)])
    revoke(core, "gone")
    for other in (core.again(), restored(core)):
        assert other.state.tokens.all() == core.manager.state.tokens.all()
        assert list(other.state.policy) == list(core.manager.state.policy)
        assert [str(grant.who) for grant in other.state.policy] == ["token:billing"]


def restored(core: Core) -> Any:
    other = Manager(IDENTITY, Settings())
    checkpoint = b"".join(core.manager.snapshot().encode())
    other.recover(core.now(), checkpoint, [], core.manager.position, entropy=bytes(ENTROPY_BYTES))
    return other
