"""A queue that is called like a pattern is one queue, however rights at it are given.

Upholds: I28.
"""

from __future__ import annotations

import shlex

import pytest

from onceq.core.inputs import OwnerCame, RightsRead
from onceq.core.state.setups import RightsGiven, RightsTaken
from onceq.core.state.snapshot import restore
from onceq.core.state.state import State
from onceq.errors import AccessDenied
from onceq.model import requests
from onceq.model.patterns import ActorPattern, QueueName, QueuePattern
from onceq.model.rights import OWNS, Actor, ActorKind, Right, SharedRights, grant_of
from tests.unit.core.alone import IDENTITY, Core
from tests.unit.core.somebody import ALICE, BOB, RUNS, core, create, denied, grant
from tests.unit.names_like_patterns import LEGAL, NASTY

PAYROLL = QueueName("private$\\payroll")
CAROL = 5
ALICE_IS, BOB_IS, CAROL_IS = (Actor(ActorKind.ACCOUNT, name) for name in ("alice", "bob", "carol"))
CALLED = [*LEGAL, *NASTY, "payrol*", "p*l", "pay[*]"]


def world() -> Core:
    """Alice may make queues of any name; payroll is of the account of the queue manager."""
    made = core()
    for owner, actor in ((ALICE, ALICE_IS), (BOB, BOB_IS), (CAROL, CAROL_IS)):
        made.step(OwnerCame(owner, actor))
    create(made, RUNS, "payroll")
    grant(made, "create", "private$\\*")
    return made


def only_there(made: Core, actor: Actor, name: str, expected: set[Right]) -> None:
    """Somebody has rights at a queue, and at no other that its name could mean."""
    key = f"private$\\{name}".casefold()
    others = {PAYROLL, *(f"private$\\{other}".casefold() for other in CALLED)} - {key}
    kept = () if name.isalnum() else (made.again().state, restored(made))
    for state in (made.manager.state, *kept):
        for queue in (key, *others):
            may = {r for r in OWNS if state.policy.allows(actor, r, QueueName(queue))}
            assert may == (expected if queue == key else set()), queue


def restored(made: Core) -> State:
    state = State(IDENTITY)
    restore(state, b"".join(made.manager.snapshot().encode()))
    return state


@pytest.mark.parametrize("name", CALLED)
def test_its_owner_and_those_whom_he_gives_rights_have_them_there_alone(name: str) -> None:
    made = world()
    assert not denied(create(made, ALICE, name))
    only_there(made, ALICE_IS, name, set(OWNS))
    pattern = str(QueuePattern.exactly(f"private$\\{name}"))
    assert not denied(grant(made, "send", pattern, who="bob", owner=ALICE))
    only_there(made, BOB_IS, name, {Right.SEND})


@pytest.mark.parametrize("name", CALLED)
def test_what_an_administrator_grants_at_its_name_holds_there_alone(name: str) -> None:
    """By a grant, and in the directory."""
    made = world()
    pattern = str(QueuePattern.exactly(f"private$\\{name}"))
    grant(made, "receive", pattern, who="carol")
    reads = {Right.RECEIVE, Right.PEEK, Right.PEEK_BODY}
    only_there(made, CAROL_IS, name, reads)
    certificate = Actor(ActorKind.CERTIFICATE, "carol")
    shared = SharedRights(b"B" * 16, 1, (grant_of(str(certificate), ["receive"], pattern),))
    made.step(RightsRead(shared))
    only_there(made, certificate, name, reads)


@pytest.mark.parametrize("name", CALLED)
def test_a_right_to_give_rights_there_gives_none_elsewhere(name: str) -> None:
    made = world()
    assert not denied(create(made, ALICE, name))
    for pattern in (f"private$\\{name}", "private$\\*", "*", "private$\\pay*", PAYROLL):
        if QueuePattern.read(pattern.casefold()).matches(PAYROLL):
            assert denied(grant(made, "send", pattern, who="bob", owner=ALICE))
            assert denied(grant(made, "send", pattern, who="bob", owner=ALICE, take=True))
    assert not any(made.manager.state.policy.allows(BOB_IS, r, PAYROLL) for r in Right)


def test_a_token_for_one_queue_is_good_there_alone() -> None:
    made = world()
    request = requests.CreateToken("t", grants=[("send", "private$\\[*]")])
    request.check()
    request.secret = b"S" * 32
    made.ask(request)
    only_there(made, Actor(ActorKind.TOKEN, "t"), "*", {Right.SEND})


@pytest.mark.parametrize("who", ["*", "a*", "[*]", "*e"])
def test_an_owner_who_is_called_like_a_pattern_is_one_actor(who: str) -> None:
    made = world()
    grant(made, "create", "private$\\*", who="account:*")
    made.step(OwnerCame(ALICE, Actor(ActorKind.ACCOUNT, who)))
    assert not denied(create(made, ALICE, "his"))
    only_there(made, Actor(ActorKind.ACCOUNT, who), "his", set(OWNS))
    only_there(made, BOB_IS, "his", set())
    assert not denied(made.ask(requests.Look("rights", "private$\\his"), owner=ALICE))


def test_records_of_older_versions_say_names_as_they_are() -> None:
    """Of owners, and of what goes with a queue; and what took it away."""
    made = world()
    create(made, ALICE, "*")
    (owner,) = [one for one in made.manager.state.policy if one.owner]
    assert (owner.who, owner.pattern) == (
        ActorPattern.exactly("account:alice"), QueuePattern.exactly("private$\\*")
    )  # fmt: skip
    state = State(IDENTITY)
    star, number = "private$\\*", 20
    state.apply_setup(RightsGiven("account:alice", ["delete"], star, owner=True, queue=number))
    state.apply_setup(RightsGiven("account:bob", ["send"], star, queue=number))
    state.apply_setup(RightsGiven("account:carol", ["send"], star))
    for name, at_star, at_payroll in (("alice", 0, 0), ("bob", 1, 0), ("carol", 1, 1)):
        actor = Actor(ActorKind.ACCOUNT, name)
        assert state.policy.allows(actor, Right.SEND, QueueName(star)) == bool(at_star)
        assert state.policy.allows(actor, Right.SEND, PAYROLL) == bool(at_payroll)
    for who in ("account:alice", "account:bob", "account:carol"):
        state.apply_setup(RightsTaken(who, ["send", "delete"], star))
    assert not list(state.policy)


@pytest.mark.parametrize("name", ["a'b", "$(reboot)", "a|b", "`id`", "*", "it's*", "[*]", "a&b"])
def test_what_a_refusal_says_to_type_gives_the_right_there_alone(name: str) -> None:
    made = world()
    create(made, RUNS, name)
    refused = made.ask(requests.Receive(f".\\private$\\{name}", peek=True), owner=ALICE)
    assert isinstance(refused, AccessDenied)
    who, right, pattern = shlex.split(refused.text.partition("onceq grant ")[2])
    assert not denied(grant(made, right, pattern, who=who))
    only_there(made, ALICE_IS, name, {Right.PEEK_BODY, Right.PEEK})
