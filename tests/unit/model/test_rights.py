"""Actors, rights and grants: the words that are taken, and the table that answers."""

from __future__ import annotations

import pytest

from onceq.errors import InvalidParameter
from onceq.model.patterns import QueueName, queue_pattern
from onceq.model.policy import MANAGER, Policy
from onceq.model.requests import ExplainRight, SetRights
from onceq.model.rights import (
    MEANING,
    NOBODY,
    WHOLE,
    Actor,
    ActorKind,
    Grant,
    Right,
    actor_pattern,
    grant_of,
    grant_of_row,
    words_of,
)

ALICE = Actor(ActorKind.ACCOUNT, "alice")
BILLING = Actor(ActorKind.TOKEN, "billing")
RUNS = Actor(ActorKind.ACCOUNT, "mq", free=True)
ALICE_ALONE = actor_pattern("alice")
ORDERS = QueueName("private$\\orders")


def given(
    who: str, rights: frozenset[Right], pattern: str, *, owner: bool = False, queue: int = 0,
    by: str = "",
) -> Grant:  # fmt: skip
    return grant_of_row(who, words_of(rights), pattern, owner, queue, by)


def policy(*grants: tuple[str, str, str]) -> Policy:
    made = Policy()
    for who, words, pattern in grants:
        made.grant(grant_of(who, words.split(","), pattern))
    return made


def test_without_a_grant_only_the_account_that_runs_it_may_do_anything() -> None:
    empty = policy()
    for right in Right:
        for queue in (MANAGER, ORDERS):
            assert empty.allows(RUNS, right, queue)
            assert not empty.allows(ALICE, right, queue)
            assert not empty.allows(NOBODY, right, queue)


@pytest.mark.parametrize(
    ("pattern", "covers", "not_covers"),
    [
        (ORDERS, [ORDERS], [ORDERS + "2", "orders", ""]),
        ("private$/Orders", [ORDERS], ["private$/orders"]),
        ("direct=http://beta/msmq/*", ["direct=http://beta/msmq/private$/q"], [ORDERS]),
        ("private$\\orders*", [ORDERS, ORDERS + "-eu"], ["private$\\order", "stock"]),
        ("*\\orders", [ORDERS, "direct=os:beta\\private$\\orders"], ["orders"]),
        ("private$\\*.eu.*", ["private$\\a.eu.b"], ["private$\\a.eu", "private$\\eu."]),
        ("a*a", ["aa", "aba"], ["a", "ab"]),
        ("private$\\[ab]?", ["private$\\[ab]?"], ["private$\\ac"]),
        ("*", [ORDERS, "stock"], [""]),
    ],
)
def test_patterns_of_queues(pattern: str, covers: list[str], not_covers: list[str]) -> None:
    one = policy(("alice", "send", pattern))
    assert [queue for queue in covers if not one.allows(ALICE, Right.SEND, QueueName(queue))] == []
    assert [queue for queue in not_covers if one.allows(ALICE, Right.SEND, QueueName(queue))] == []


@pytest.mark.parametrize(
    ("who", "is_one", "is_none"),
    [
        ("alice", [ALICE], [BILLING, Actor(ActorKind.TOKEN, "alice"), NOBODY]),
        ("token:*", [BILLING], [ALICE, NOBODY]),
        ("account:a*e", [ALICE], [Actor(ActorKind.ACCOUNT, "alicia")]),
        ("*", [ALICE, BILLING, Actor(ActorKind.PEER, "00")], [NOBODY]),
        ("nobody", [NOBODY], [ALICE, BILLING]),
        ("*", [Actor(ActorKind.CERTIFICATE, "x")], [Actor(ActorKind.ADDRESS, "10.1.2.3")]),
        (
            "address:10.1.2.*",
            [Actor(ActorKind.ADDRESS, "10.1.2.3")],
            [Actor(ActorKind.ADDRESS, "10.1.20.3"), Actor(ActorKind.PEER, "10.1.2.3"), NOBODY],
        ),
        ("address:FE80::A", [Actor(ActorKind.ADDRESS, "fe80::a")], [NOBODY]),
        ("peer:ABCD", [Actor(ActorKind.PEER, "abcd")], [Actor(ActorKind.PEER, "abce")]),
    ],
)
def test_whom_a_grant_is_about(who: str, is_one: list[Actor], is_none: list[Actor]) -> None:
    one = policy((who, "send", ORDERS))
    assert all(one.allows(actor, Right.SEND, ORDERS) for actor in is_one)
    assert not any(one.allows(actor, Right.SEND, ORDERS) for actor in is_none)


@pytest.mark.parametrize(
    ("given", "includes", "excludes"),
    [
        ("receive", "peek,peek-body", "send,journal,delete,create"),
        ("peek-body", "peek", "receive,journal"),
        ("peek", "", "peek-body,receive,get-properties"),
        ("send", "", "peek,peek-body,receive"),
        ("set-properties", "get-properties", "delete,set-rights"),
        ("set-rights", "get-rights", "set-properties"),
    ],
)
def test_what_a_right_includes(given: str, includes: str, excludes: str) -> None:
    one = policy(("alice", given, ORDERS))
    may = {right.value for right in Right if one.allows(ALICE, right, ORDERS)}
    assert may == {given, *includes.split(",")} - {""}
    assert not may & set(excludes.split(","))


def test_what_is_given_over_the_whole_queue_manager() -> None:
    monitor, operator = policy(("alice", "monitor", "")), policy(("alice", "operate", ""))
    seen = {Right.MONITOR, Right.PEEK, Right.GET_PROPERTIES, Right.GET_RIGHTS}
    assert {right for right in Right if monitor.allows(ALICE, right, ORDERS)} == seen
    assert {right for right in Right if operator.allows(ALICE, right, ORDERS)} == {
        *seen,
        Right.OPERATE,
    }
    administrator = policy(("alice", "administer", ""))
    assert all(administrator.allows(ALICE, right, ORDERS) for right in Right)


def test_an_address_runs_nothing_whatever_it_was_granted() -> None:
    windows = Actor(ActorKind.ADDRESS, "10.1.2.3")
    one = policy(*((str(windows), right.value, "") for right in WHOLE))
    assert {right for right in Right if one.allows(windows, right, ORDERS)} == {Right.FORWARD}
    one = policy((str(windows), "send", ORDERS))
    assert one.allows(windows, Right.SEND, ORDERS)
    assert not one.allows(windows, Right.RECEIVE, ORDERS)


@pytest.mark.parametrize("right", ["monitor", "operate", "administer"])
@pytest.mark.parametrize("who", ["address:10.1.2.3", "address:10.1.*", "address:*"])
def test_nobody_is_told_that_an_address_runs_anything(who: str, right: str) -> None:
    with pytest.raises(InvalidParameter, match=f"no address has {right}.*a certificate or a token"):
        SetRights(who, [right]).check()
    # What an older version has taken can still be taken away.
    SetRights(who, [right], take=True).check()
    SetRights(who, ["send"], ORDERS).check()
    SetRights("account:alice", [right]).check()


def test_grants_add_up_and_are_taken_by_their_own_words() -> None:
    one = policy(("alice", "send", ORDERS), ("alice", "receive", ORDERS))
    assert len(one) == 1
    one.revoke(
        actor_pattern("account:alice"), frozenset((Right.SEND,)), queue_pattern("private$\\*")
    )
    assert one.allows(ALICE, Right.SEND, ORDERS), "that was never granted"
    one.revoke(
        actor_pattern("account:alice"), frozenset((Right.SEND, Right.DELETE)), queue_pattern(ORDERS)
    )
    assert not one.allows(ALICE, Right.SEND, ORDERS)
    assert one.allows(ALICE, Right.RECEIVE, ORDERS)
    one.revoke(ALICE_ALONE, frozenset(Right), queue_pattern(ORDERS))
    assert len(one) == 0


def test_what_an_owner_has_goes_with_the_queue_and_a_grant_stays() -> None:
    one = policy(("alice", "send", ORDERS))
    one.grant(given("token:billing", frozenset((Right.DELETE,)), ORDERS, owner=True))
    one.forget_queue(ORDERS, 20)
    assert not one.allows(BILLING, Right.DELETE, ORDERS)
    assert one.allows(ALICE, Right.SEND, ORDERS)


def test_what_an_owner_was_granted_as_well_stays_and_nothing_else() -> None:
    one = policy(("alice", "send", ORDERS))
    one.grant(given("account:alice", frozenset((Right.DELETE,)), ORDERS, owner=True))
    one.forget_queue(ORDERS, 20)
    assert one.allows(ALICE, Right.SEND, ORDERS)
    assert not one.allows(ALICE, Right.DELETE, ORDERS), "he does not own the next one of that name"


def test_what_is_revoked_is_gone_however_it_was_had() -> None:
    one = policy(("alice", "send", ORDERS))
    one.grant(given("account:alice", frozenset((Right.SEND, Right.DELETE)), ORDERS, owner=True))
    one.revoke(ALICE_ALONE, frozenset((Right.SEND,)), queue_pattern(ORDERS))
    assert not one.allows(ALICE, Right.SEND, ORDERS)
    assert one.allows(ALICE, Right.DELETE, ORDERS)


def test_what_goes_with_a_queue_is_kept_apart_from_what_stays() -> None:
    """Both were granted by the same words: an owner's and an administrator's (finding J1)."""
    one = policy(("alice", "send", ORDERS))
    send = frozenset((Right.SEND, Right.PEEK))
    one.grant(given("account:alice", send, ORDERS, queue=20, by="account:bob"))
    one.forget_queue(ORDERS, 19)
    assert one.allows(ALICE, Right.PEEK, ORDERS), "it is about another queue"
    one.forget_queue(ORDERS, 20)
    assert one.allows(ALICE, Right.SEND, ORDERS)
    assert not one.allows(ALICE, Right.PEEK, ORDERS)


def test_what_is_about_one_queue_is_no_pattern() -> None:
    one = policy()
    one.grant(given("account:alice", frozenset((Right.SEND,)), "private$\\*", owner=True, queue=20))
    one.grant(given("token:billing", frozenset((Right.SEND,)), "private$\\*", queue=20))
    for actor in (ALICE, BILLING):
        assert one.allows(actor, Right.SEND, QueueName("private$\\*"))
        assert not one.allows(actor, Right.SEND, ORDERS)


def test_every_answer_says_why() -> None:
    one = policy(("account:a*", "receive", "private$\\*"), ("alice", "monitor", ""))
    assert one.judge(RUNS, Right.DELETE, ORDERS).because == (
        "account:mq runs this queue manager, and may do everything"
    )
    assert one.judge(ALICE, Right.PEEK_BODY, ORDERS).because == (
        "receive at private$\\* was granted to account:a*, which account:alice is one of, and "
        "receive includes peek-body"
    )
    assert one.judge(ALICE, Right.MONITOR).because == "monitor was granted to account:alice"
    assert one.judge(BILLING, Right.SEND, ORDERS).because == (
        f"nobody has granted send at {ORDERS} to token:billing"
    )
    assert "has not said who it is" in one.judge(NOBODY, Right.SEND, ORDERS).because


def test_it_comes_back_from_a_checkpoint() -> None:
    one = policy(("alice", "send,peek", ORDERS), ("*", "monitor", ""))
    one.grant(given("token:billing", frozenset((Right.DELETE,)), ORDERS, owner=True))
    one.grant(given("account:bob", frozenset((Right.PEEK,)), ORDERS, queue=20, by="token:billing"))
    other = Policy()
    other.load(one.dump())
    assert list(other) == list(one)


def test_older_checkpoints_do_not_say_which_queue_an_owner_has_made() -> None:
    one = Policy()
    one.load(
        [["account:alice", ["delete"], ORDERS, True], ["account:bob", ["send"], ORDERS, False]]
    )
    one.forget_queue(ORDERS, 20)
    assert list(one) == [given("account:bob", frozenset((Right.SEND,)), ORDERS)]


@pytest.mark.parametrize(
    "who", ["", ":", "token:", "role:x", "a b", "account:a\n", "x" * 200, "nobody:x", "*:x"]
)
def test_who_is_nobody_that_can_have_rights(who: str) -> None:
    with pytest.raises(InvalidParameter):
        actor_pattern(who)


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        (["send"], ""),
        (["monitor"], ORDERS),
        (["monitor", "send"], ORDERS),
        (["fly"], ORDERS),
        ([], ORDERS),
        (["send"], "x" * 600),
        (["send"], "a\nb"),
    ],
)
def test_grants_that_make_no_sense(words: list[str], pattern: str) -> None:
    with pytest.raises(InvalidParameter):
        SetRights("alice", words, pattern).check()


def test_a_pattern_explains_nothing() -> None:
    with pytest.raises(InvalidParameter):
        ExplainRight("token:*", "send", ORDERS).check()


def test_every_right_has_a_meaning_and_words_keep_their_order() -> None:
    assert set(MEANING) == set(Right)
    assert words_of(reversed(Right)) == [right.value for right in Right]
    assert set(Right) > WHOLE
