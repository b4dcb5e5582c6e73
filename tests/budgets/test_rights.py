"""What a judgement costs: the same with 10,000 grants and queues as with ten (finding S10). What is
counted is calls of Python functions; no time is measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from onceq.core.inputs import OwnerCame
from onceq.errors import InsufficientResources
from onceq.model import requests
from onceq.model.limits import ALIKE_PATTERNS_MAX
from onceq.model.patterns import ActorPattern, QueueName, queue_pattern
from onceq.model.policy import Door, Policy
from onceq.model.rights import OWNS, Actor, ActorKind, Right, grant_of, grant_of_row
from tests.budgets.steps import calls, longest
from tests.unit.core.alone import Core
from tests.unit.core.somebody import create, grant

FEW, MANY = 10, 10_000
TENANT = Actor(ActorKind.ACCOUNT, "tenant5")
NONE = Actor(ActorKind.ACCOUNT, "without-rights")
Q5 = QueueName("private$\\q5")


def policy(count: int) -> Policy:
    """Owners of so many queues, a tenant who has given rights at his to so many accounts, and as
    many patterns as may begin alike."""
    made = Policy()
    for at in range(count):
        words = [right.value for right in OWNS]
        made.grant(grant_of_row(f"account:tenant{at}", words, f"private$\\q{at}", True, at + 20))
        made.grant(grant_of_row(f"account:a{at}", ["send"], str(Q5), False, 25, "account:tenant5"))
        made.grant(grant_of(f"token:t{at}", ["peek"], f"private$\\t{at}-*"))
    made.grant(grant_of("certificate:*", ["peek"], "private$\\q*"))
    return made


QUESTIONS: dict[str, Callable[[Policy], object]] = {
    "owner": lambda one: one.judge(TENANT, Right.RECEIVE, Q5),
    "nobody has granted it": lambda one: one.judge(NONE, Right.RECEIVE, Q5),
    "pattern": lambda one: one.judge(Actor(ActorKind.CERTIFICATE, "x"), Right.PEEK, Q5),
    "whole": lambda one: one.judge(NONE, Right.MONITOR),
    "at a pattern": lambda one: one.judge(TENANT, Right.SEND, queue_pattern("private$\\*")),
    "somewhere": lambda one: one.allows_somewhere(NONE, Right.SEND),
    "a door": lambda one: [one.admits_nobody(door) for door in Door],
    "what stays": lambda one: one.stays(TENANT, OWNS, Q5),
    "give": lambda one: one.grant(grant_of("x", ["send"], "private$\\q6")),
    "take": lambda one: one.revoke(ActorPattern.read("account:x"), OWNS, queue_pattern(Q5)),
    "a queue goes": lambda one: one.forget_queue("private$\\q7", 27),
    "an actor goes": lambda one: one.forget_actor(ActorPattern.exactly("account:a8")),
}


@pytest.fixture(scope="module")
def policies() -> tuple[Policy, Policy]:
    return policy(FEW), policy(MANY)


@pytest.mark.parametrize("question", QUESTIONS)
def test_it_costs_the_same_however_many_grants_there_are(
    policies: tuple[Policy, Policy], question: str
) -> None:
    few, many = (calls(partial(QUESTIONS[question], one)) for one in policies)
    # Beginnings of patterns have as many lengths as their numbers have digits.
    assert many <= few + 12, (few, many)


def test_the_second_answer_costs_a_look(policies: tuple[Policy, Policy]) -> None:
    for one in policies:
        assert not one.allows(NONE, Right.DELETE, Q5)
        assert calls(partial(one.allows, NONE, Right.DELETE, Q5)) <= 4 + 8
        one.grant(grant_of(str(NONE), ["delete"], str(Q5)))
        assert one.allows(NONE, Right.DELETE, Q5), "it is not kept for longer than it holds"
        one.revoke(ActorPattern.exactly(str(NONE)), OWNS, queue_pattern(Q5))
        assert not one.allows(NONE, Right.DELETE, Q5)


def test_patterns_that_begin_alike_are_few_and_hold_up_nobody_elsewhere() -> None:
    """Of queues, and of actors at one queue: each name that begins so is compared with them."""
    made = Core()
    for name in ("mine", "other"):
        create(made, 1, name)
    for at in range(ALIKE_PATTERNS_MAX):
        assert grant(made, "send", f"private$\\*-{at}", who="x") is None
        assert grant(made, "send", "private$\\mine", who=f"account:*-{at}") is None
    for who, pattern in (("x", "private$\\*-more"), ("account:*-more", "private$\\mine")):
        refused = grant(made, "send", pattern, who=who)
        assert isinstance(refused, InsufficientResources)
    assert grant(made, "peek", "private$\\*-7", who="y") is None, "it is compared already"
    assert grant(made, "send", "private$\\other", who="account:*-more") is None
    assert grant(made, "send", "private$\\mine", who="account:x") is None
    for who, right in (("x", "send"), ("y", "peek")):
        assert grant(made, right, "private$\\*-7", who=who, take=True) is None
    assert grant(made, "send", "private$\\*-more", who="y") is None


@pytest.mark.slow
def test_no_step_of_a_look_at_queues_is_longer_the_more_grants_there_are() -> None:
    """For an account without a right, which is judged at each queue."""
    found = []
    for count in (300, 1_500):
        made = Core()
        for at in range(count):
            made.step(OwnerCame(2, Actor(ActorKind.ACCOUNT, f"tenant{at}")))
            grant(made, "create", f"private$\\q{at}", who=f"tenant{at}")
            create(made, 2, f"q{at}")
        made.step(OwnerCame(3, NONE))
        found.append(longest(made, requests.Look("queues"), owner=3)[0])
    assert found[1] <= 1.1 * found[0] + 40, found
