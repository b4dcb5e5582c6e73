"""The audit trail: which acts stand there, of whom, and for how long."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from onceq.core.decision import Answer, TellAct
from onceq.core.inputs import OwnerCame, Witnessed
from onceq.core.management.trail import TABLE, UNNOTED
from onceq.core.rights import demands
from onceq.core.state.audit_trail import Act, Trail
from onceq.core.state.records import decode
from onceq.core.state.setups import Noted, encode_rows
from onceq.errors import InvalidParameter, OnceqError
from onceq.model import requests
from onceq.model.audit_trail import BEGIN, digest_act
from onceq.model.branches import Xid
from onceq.model.limits import NOTICE_EVERY_S, TRAIL_CHARS_MAX, TRAIL_MAX, VIEWS_AT_ONCE
from onceq.model.marks import marked
from onceq.model.message import PLAIN
from onceq.model.requests import Grip, Request, Steer
from onceq.model.rights import NOBODY, Actor, ActorKind, Right
from onceq.model.run import Run
from onceq.model.views.managers import ActView
from tests.unit.core.alone import WALL_S, Core
from tests.unit.core.kinds import kinds

ADMIN, ALICE, STRANGER = 5, 6, 7
ORDERS = ".\\private$\\orders"
N = ".\\private$\\n"


def core() -> Core:
    made = Core()
    made.step(OwnerCame(ADMIN, Actor(ActorKind.ACCOUNT, "mq", free=True), where="local"))
    made.step(OwnerCame(ALICE, Actor(ActorKind.ACCOUNT, "alice"), where="10.1.2.3"))
    made.step(OwnerCame(STRANGER, NOBODY, where="10.9.9.9"))
    return made


def create(made: Core, owner: int, name: str = "orders", *, transactional: bool = True) -> object:
    request = requests.CreateQueue(
        {"name": name, "transactional": transactional}, instance=name.encode().ljust(16, b"\0")
    )
    request.check()
    return made.ask(request, owner=owner)


def told(made: Core) -> list[tuple[str, ...]]:
    return [act[2:7] for act in made.manager.state.trail]


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


def test_who_has_witnessed_an_act_hears_when_it_stands() -> None:
    """The answer stands behind the record, which is forced: so it is given after the sync."""
    made = core()
    for number, (waits, answers) in enumerate(((ADMIN, [Answer(ADMIN, 7, None)]), (0, [])), 1):
        item = Witnessed("operator", "local", "join", "BETA", owner=waits, request=waits and 7)
        decision = made.manager.step(made.now(), item)
        assert decision.actions == [TellAct(number), *answers]
        assert [record.forced for record in decision.records] == [True]


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


def acts_of(trail: Trail, count: int, who: str = "a", what: str = "purge") -> None:
    for _ in range(count):
        trail.note(Act(trail.next, 0, who, "", what, f"q{trail.next}", ""))


def test_the_oldest_go_and_the_numbers_go_on() -> None:
    trail = Trail()
    acts_of(trail, TRAIL_MAX + 10)
    assert len(trail) == TRAIL_MAX
    assert [act.number for act in trail.behind(0, 3)] == [11, 12, 13]
    assert [act.number for act in trail.behind(TRAIL_MAX + 8, 9)] == [TRAIL_MAX + 9, TRAIL_MAX + 10]
    other = Trail()
    other.load(json.loads(encode_rows(trail.dump())))
    other.load_chain(json.loads(encode_rows(trail.dump_chain())))
    assert other.next == trail.next == TRAIL_MAX + 11


def test_who_does_one_thing_very_often_pushes_out_neither_others_nor_other_kinds() -> None:
    trail = Trail()
    acts_of(trail, 1, "root", "grant")
    acts_of(trail, 1, "thief", "create token")
    acts_of(trail, 1, "thief", "create queue")
    acts_of(trail, TRAIL_MAX + 10, "thief")
    acts_of(trail, 1, "root", "revoke")
    kept = list(trail)
    assert len(kept) == TRAIL_MAX
    assert [(act.number, act.who, act.what) for act in kept[:3]] == [
        (1, "root", "grant"), (2, "thief", "create token"), (3, "thief", "create queue"),
    ]  # fmt: skip
    assert kept[-1].what == "revoke"


def test_the_largest_loses_one_also_after_a_checkpoint() -> None:
    trail = Trail()
    acts_of(trail, TRAIL_MAX // 2 + 1, "a")
    acts_of(trail, TRAIL_MAX // 2 - 1, "b")
    other = Trail()
    other.load(json.loads(encode_rows(trail.dump())))
    other.load_chain(json.loads(encode_rows(trail.dump_chain())))
    for one in (trail, other):
        acts_of(one, 1, "c")
    assert list(trail) == list(other)
    assert trail.behind(0, 1)[0].number == 2
    assert sum(act.who == "b" for act in trail) == TRAIL_MAX // 2 - 1


def test_repetitions_are_counted_within_an_hour_and_from_one_place() -> None:
    trail = Trail()
    for at_s, where in (
        (10, "local, process 1"), (20, "local, process 2"), (25, "10.1.2.3"), (30, "local"),
        (10 + NOTICE_EVERY_S, "local"), (5, "local"),
    ):  # fmt: skip
        trail.note(Act(trail.next, at_s, "a", where, "set properties", "q: label", ""))
    assert [(act.number, act.times, act.at_s, act.last_s) for act in trail] == [
        (1, 3, 10, 30), (3, 1, 25, 25), (5, 1, 10 + NOTICE_EVERY_S, 10 + NOTICE_EVERY_S),
        (6, 1, 5, 5),
    ]  # fmt: skip
    assert trail.next == 7, "each has a number, since each has done something"
    trail.repeat(99, 7)  # of an act that is not kept any more


def test_acts_that_do_nothing_are_counted_and_have_no_numbers() -> None:
    made = core()
    create(made, ADMIN)
    item = requests.SendItem(ORDERS, PLAIN, Run.of([b"x"]))
    made.ask(requests.Commit(0, [item]), owner=ADMIN)
    for _ in range(5):
        made.ask(requests.PurgeQueue(ORDERS), owner=ADMIN)
    for label in ("x", "x", "y", "x", "x"):
        made.ask(requests.SetQueue(ORDERS, {"label": label}), owner=ADMIN)
    trail = made.manager.state.trail
    assert [(act.what, act.times) for act in trail] == [
        ("create queue", 1), ("purge", 5), ("set properties", 5),
    ]  # fmt: skip
    assert trail.next == 1 + 1 + 1 + 3
    assert list(made.again().state.trail) == list(trail)


def test_one_small_right_wipes_nothing_out() -> None:
    """10,010 purges of an empty queue by one with `receive`; and as many changes by an owner."""
    made = core()
    create(made, ADMIN)
    give = requests.SetRights("alice", ["receive", "set-properties"], "private$\\orders")
    give.check()
    made.ask(give, owner=ADMIN)
    for at in range(10_010):
        assert made.ask(requests.PurgeQueue(ORDERS), owner=ALICE) == 0
        made.ask(requests.SetQueue(ORDERS, {"label": f"{at % 2}"}), owner=ALICE)
    kept = list(made.manager.state.trail)
    assert [(act.what, act.who) for act in kept[:2]] == [
        ("create queue", "account:mq"), ("grant", "account:mq"),
    ]  # fmt: skip
    assert [(act.what, act.times) for act in kept[2:4]] == [
        ("purge", 10_010), ("set properties", 10_010)
    ]  # fmt: skip
    assert len(kept) < 12


def test_each_digest_covers_the_act_and_all_before_it() -> None:
    made = core()
    create(made, ADMIN)
    made.step(Witnessed("operator", "local", "join", "BETA", "x"))
    trail = made.manager.state.trail
    first, second = trail
    assert (first.before, second.before, trail.head) == (BEGIN, first.digest, second.digest)
    for values in (
        second._replace(result=""), second._replace(who="x"), second._replace(number=9),
        second._replace(before=BEGIN),
    ):  # fmt: skip
        assert digest_act(values.before, *values[:7]) != second.digest
    again = Trail()
    for act in (first, second._replace(before=b"x" * 32), second._replace(number=3)):
        again.note(act)
    assert again.broken == 2
    assert trail.broken == 0
    other = Trail()
    other.load(json.loads(encode_rows(again.dump())))
    other.load_chain(json.loads(encode_rows(again.dump_chain())))
    assert (other.broken, other.head, list(other)) == (2, again.head, list(again))


def test_what_older_versions_have_noted_has_no_digest_and_the_chain_begins_behind_it() -> None:
    trail = Trail()
    trail.load([[1, 5, "a", "local", "purge", "q", ""]])
    (old,) = trail
    assert (old.times, old.last_s, old.before, old.digest, trail.next) == (1, 5, b"", b"", 2)
    old_record = b'["act",{"number":2,"at_s":6,"who":"a","where":"","what":"grant","about":"x"}]'
    setup = decode(memoryview(b"\2\1" + old_record), 0)
    assert isinstance(setup, Noted)
    trail.note(Act(2, setup.at_s, setup.who, "", setup.what, "x", "", setup.before))
    trail.note(Act(3, 7, "a", "", "revoke", "x", "", trail.head or BEGIN))
    assert [bool(act.digest) for act in trail] == [False, False, True]
    assert trail.broken == 0


def test_long_names_are_cut() -> None:
    made = core()
    made.step(Witnessed("operator", "local", "join", "x" * 10_000))
    assert len(told(made)[-1][3]) == TRAIL_CHARS_MAX


def test_dead_letters_that_go_home_are_an_act_of_who_returns_them() -> None:
    made = core()
    create(made, ADMIN)
    create(made, ADMIN, "n", transactional=False)
    before = len(told(made))
    plain = requests.SendItem(ORDERS, PLAIN, Run.of([b"new"]))
    back = replace(PLAIN, extension=marked(b"own", 2))
    home = requests.SendItem(ORDERS, back, Run.of([b"one", b"two"]))
    for request in (
        requests.Commit(0, [plain]), requests.Commit(0, [plain, home]),
        requests.Send(0, [replace(home, destination=N, bodies=Run.of([b"three"]))]),
    ):  # fmt: skip
        assert not isinstance(made.ask(request, owner=ADMIN), OnceqError)
    made.ask(requests.Begin(1), owner=ADMIN)
    made.ask(requests.Send(1, [home]), owner=ADMIN)
    assert len(told(made)) == before + 2, "nothing has gone yet"
    made.ask(requests.Commit(1), owner=ADMIN)
    assert [(*act[4:6], act.times) for act in list(made.manager.state.trail)[before:]] == [
        ("return", "2 dead letters to DIRECT=OS:.\\private$\\orders", 2),
        ("return", "1 dead letter to DIRECT=OS:.\\private$\\n", 1),
    ]


def test_who_cannot_get_at_dead_letters_returns_none_whatever_he_sends() -> None:
    """Or one who may only send would push the acts of others out of the trail."""
    made = core()
    create(made, ADMIN)
    create(made, ADMIN, "n", transactional=False)
    for queue in ("private$\\orders", "private$\\n"):
        give = requests.SetRights("alice", ["send"], queue)
        give.check()
        made.ask(give, owner=ADMIN)
    before = len(told(made))
    back = replace(PLAIN, extension=marked(b"own", 2))
    home = requests.SendItem(ORDERS, back, Run.of([b"one"]))
    for request in (requests.Commit(0, [home]), requests.Send(0, [replace(home, destination=N)])):
        assert not isinstance(made.ask(request, owner=ALICE), OnceqError)
    assert len(told(made)) == before


def test_what_is_taken_out_of_an_outgoing_queue_is_an_act_and_what_was_received_is_none() -> None:
    made = core()
    create(made, ADMIN)
    away = r"DIRECT=OS:B\private$\q"
    for to in (ORDERS, away):
        item = requests.SendItem(to, PLAIN, Run.of([b"x"]))
        made.ask(requests.Commit(0, [item]), owner=ADMIN)
    before = len(told(made))
    last = (1 << 64) - 1
    assert made.ask(requests.Remove(ORDERS, 0, 0, last), owner=ADMIN) == 1
    assert isinstance(
        made.ask(requests.Remove("private$/none", 0, 0, last), owner=ALICE), OnceqError
    )
    assert len(told(made)) == before
    made.ask(requests.Remove(away, 0, 0, last), owner=ALICE)
    assert made.ask(requests.Remove(away, 0, 0, last), owner=ADMIN) == 1
    assert told(made)[before:] == [
        ("account:alice", "10.1.2.3", "take out", away, "access-denied"),
        ("account:mq", "local", "take out", away, ""),
    ]


def test_an_act_says_where_what_it_did_stands() -> None:
    made = core()
    create(made, ADMIN)
    item = requests.SendItem(ORDERS, PLAIN, Run.of([b"x"]))
    made.ask(requests.Commit(0, [item]), owner=ADMIN)
    begin = made.manager._step.position
    made.ask(requests.PurgeQueue(ORDERS), owner=ADMIN)
    made.step(Witnessed("operator", "local", "join", "BETA"))
    notes = [
        (position, setup) for position, payload in made.records
        if isinstance(setup := decode(payload, position), Noted)
    ]  # fmt: skip
    (at, purge), (later, join) = notes[-2:]
    assert (purge.what, purge.since) == ("purge", begin)
    assert begin < at < later
    assert join.since == later, "nothing stands before it"


def test_each_request_is_an_act_or_it_is_said_why_not() -> None:
    """Whoever adds one thinks about its words."""
    assert set(TABLE) | set(UNNOTED) == set(kinds())
    assert not set(TABLE) & set(UNNOTED)
    assert all(UNNOTED.values())


def test_what_only_operators_may_do_is_an_act() -> None:
    """Whatever needs a right over the whole queue manager, and does not only look."""
    made = core()
    create(made, ADMIN)
    step = made.manager._step
    for item in (
        requests.AcceptClock("B", "why"), requests.EditDirectory("delete", "list"),
        requests.ForgetBranch(Xid(1, b"g", b"b")), requests.AskRows("sqlite:x", -1),
        requests.ForgetPeer("b"), requests.HoldLog(Grip.BEGIN),
        requests.ResetStream("q", "b", "why"), requests.SteerOutgoing("", Steer.TIDY),
        requests.CreateToken("t"), requests.RevokeToken("t"),
        requests.CommitBranch(Xid(1, b"g", b"b"), by_hand=True),
        requests.RollbackBranch(Xid(1, b"g", b"b"), by_hand=True), requests.PurgeQueue(ORDERS),
    ):  # fmt: skip
        needed = {right for demand in demands(step, item) for right in demand.rights}
        assert needed & {Right.OPERATE, Right.ADMINISTER}, item
        assert TABLE[type(item)](step, item).what, item


def test_who_forgets_his_own_application_does_an_act_and_who_looks_for_rows_does_none() -> None:
    step = core().manager._step
    assert TABLE[requests.ForgetGroup](step, requests.ForgetGroup("app")).what == "forget group"
    assert not TABLE[requests.AskRows](step, requests.AskRows("sqlite:x", 7)).what
