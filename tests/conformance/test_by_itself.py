"""What a queue manager does by itself, and what becomes of it in a store that was put back.

For each line of ``core/management/copies.py`` (and of the page made of it) there is a case for a
restore with the same identity, and one for a copy with another, beside the living original
(findings D3, D4, J8 and J9).

Upholds: I4, I12, I13, I21, I28.
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.inputs import OwnerCame
from onceq.core.management.copies import OF_ANOTHER, TABLE
from onceq.core.state.state import State
from onceq.core.step.step import Timer
from onceq.directory import MemoryDirectory
from onceq.errors import TransactionOver, UnknownBranch
from onceq.model import requests
from onceq.model.branches import (
    TAG_BYTES,
    DecisionState,
    Vote,
    Xid,
    group_prefix,
    group_xid,
    xid_by_row,
)
from onceq.model.directory import Snapshot
from onceq.model.identity import TransactionId
from onceq.model.message import Acknowledge
from onceq.model.results import Outcome
from onceq.model.rights import Actor, ActorKind
from onceq.testing.links import faithful
from tests.conformance.clocks import START_S
from tests.conformance.copies import copy_of, dead, restored
from tests.conformance.policies import no_messages, no_order_acks
from tests.conformance.world import Node, World, fast, item, lookups

pytestmark = pytest.mark.unturned(
    "public", "restore", "identity", reason="it makes copies of its own, and gives rights"
)

FAR = r"DIRECT=OS:B\private$\q"
HOME = r"DIRECT=OS:A\private$\q"
LOCAL, ADMIN = r"private$\q", r"private$\adm"
XID = Xid(7, b"global", b"branch")
AGENT = "sqlite:x"
FULL = Acknowledge(15)
CHANGED, IN_DOUBT, NOT_DELIVERED = 0x800C, 0xC003, 0x8002


@pytest.fixture
def world() -> World:
    made = World("A", "B", settings=fast())
    for node in made.nodes.values():
        node.create("q")
        node.create("adm", transactional=False)
    return made


def classes(node: Node, queue: str = ADMIN) -> list[int]:
    try:
        return [message.message_class for message in node.messages(queue)]
    except TimeoutError:
        return []


# ---- jobs --------------------------------------------------------------------------------------


def working(world: World) -> Node:
    """A job is under way when the backup is made."""
    a = world["A"]
    a.once(LOCAL, b"1", b"2")
    request = requests.StartJob("move", [LOCAL], FAR)
    request.check()
    a.ask(request)
    return a


def test_by_itself_jobs_same(world: World) -> None:
    a = restored(world, working(world))
    assert a.look("job", "1").state == "running"


def test_by_itself_jobs_copy(world: World) -> None:
    a = working(world)
    copy = copy_of(world, a)
    job = copy.look("job", "1")
    assert (job.state, job.why) == ("cancelled", OF_ANOTHER)
    assert copy.bodies(LOCAL) == [b"1", b"2"]
    assert a.look("job", "1").state == "running"
    told = copy.look("status").restored
    assert (told.jobs, told.promises, told.tokens) == (1, 0, 0)


# ---- promises and decisions ---------------------------------------------------------------------


def prefix_at(a: Node) -> bytes:
    return group_prefix(a.identity.guid, b"a" * TAG_BYTES)


def in_group(a: Node) -> Xid:
    """A branch of a group."""
    return group_xid(a.attempt(prefix_at(a)), "x")


def promised(world: World, xid: Xid = XID) -> Node:
    """A branch has received a message, and will send one."""
    a = world["A"]
    a.once(LOCAL, b"held")
    tx = a.start_branch(xid)
    a.receive(LOCAL, tx=tx)
    assert a.prepare(xid, tx, item(FAR, b"sent")) is Vote.PREPARED
    return a


def test_by_itself_promises_same(world: World) -> None:
    a = restored(world, promised(world))
    assert a.bodies(LOCAL) == []
    a.commit_branch(XID)
    world.run(5)
    assert world["B"].bodies(LOCAL) == [b"sent"]


ROW = xid_by_row(b"A".ljust(16, b"\1"), 1, AGENT)


@pytest.mark.parametrize("xid", [XID, None, ROW], ids=["foreign", "group", "row"])
def test_by_itself_promises_copy(world: World, xid: Xid | None) -> None:
    xid = xid or in_group(world["A"])
    a = promised(world, xid)
    copy = copy_of(world, a)
    assert copy.bodies(LOCAL) == [b"held"]
    assert copy.look("branches") == []
    assert copy.look("status").restored.promises == 1
    with pytest.raises(UnknownBranch):
        copy.commit_branch(xid)
    a.commit_branch(xid)
    world.run(5)
    assert world["B"].bodies(LOCAL) == [b"sent"]
    copy.kill()
    copy.start()
    assert copy.bodies(LOCAL) == [b"held"]


def test_by_itself_promises_copy_forgets_what_was_decided_by_hand(world: World) -> None:
    a = promised(world)
    a.commit_branch(XID, by_hand=True)
    copy = copy_of(world, a)
    assert (len(a.look("branches")), copy.look("branches")) == (1, [])


def decided(world: World) -> tuple[Node, bytes]:
    a = world["A"]
    tx = a.begin()
    a.send(tx, LOCAL, b"x")
    gtrid = a.enlist(tx)
    a.commit(tx)
    a.leave_decision(gtrid)
    return a, gtrid


def test_by_itself_decisions_same(world: World) -> None:
    a, gtrid = decided(world)
    a = restored(world, a)
    assert a.decision(gtrid) is DecisionState.COMMITTED
    assert [one.gtrid for one in a.look("decisions")] == [gtrid.decode()]


def test_by_itself_decisions_copy(world: World) -> None:
    a, gtrid = decided(world)
    copy = copy_of(world, a)
    assert copy.look("decisions") == []
    assert a.decision(gtrid) is DecisionState.COMMITTED


def by_row(world: World) -> Node:
    """A database has decided by its row."""
    a = world["A"]
    a.ask(requests.Promise(0, ROW, (item(LOCAL, b"x"),)))
    a.commit_branch(ROW)
    return a


def test_by_itself_rows_same(world: World) -> None:
    a = restored(world, by_row(world))
    assert a.ask(requests.AskRows(AGENT)).mark > 0


def test_by_itself_rows_copy(world: World) -> None:
    copy = copy_of(world, by_row(world))
    assert copy.ask(requests.AskRows(AGENT)).mark == 0


def grouped(world: World) -> Node:
    a = world["A"]
    xid = in_group(a)
    a.promise(xid, item(LOCAL, b"x"))
    a.commit_group("job", 3, prefix_at(a), xid)
    return a


def knows_the_version(node: Node) -> bool:
    own = group_prefix(node.identity.guid, b"a" * TAG_BYTES)
    return node.commit_group("job", 3, own).already


def test_by_itself_groups_same(world: World) -> None:
    a = restored(world, grouped(world))
    assert a.bodies(LOCAL) == [b"x"]
    assert knows_the_version(a)


def test_by_itself_groups_copy(world: World) -> None:
    copy = copy_of(world, grouped(world))
    assert copy.bodies(LOCAL) == [b"x"]
    assert knows_the_version(copy)


# ---- who may ----------------------------------------------------------------------------------


def with_token(world: World) -> Node:
    a = world["A"]
    made = requests.CreateToken("billing", grants=[("send", LOCAL)])
    made.check()
    made.secret = b"x" * 32
    a.ask(made)
    request = requests.SetRights("bob", ["send"], LOCAL)
    request.check()
    a.ask(request)
    return a


def grants(node: Node) -> list[str]:
    return [one.who for one in node.look("rights")]


def test_by_itself_tokens_same(world: World) -> None:
    a = restored(world, with_token(world))
    assert [one.name for one in a.look("tokens")] == ["billing"]


def test_by_itself_tokens_copy(world: World) -> None:
    a = with_token(world)
    copy = copy_of(world, a)
    assert copy.look("tokens") == []
    assert [one.name for one in a.look("tokens")] == ["billing"]
    assert copy.look("status").restored.tokens == 1


def test_by_itself_rights_same(world: World) -> None:
    a = restored(world, with_token(world))
    assert sorted(grants(a)) == ["account:bob", "token:billing"]


def test_by_itself_rights_copy(world: World) -> None:
    copy = copy_of(world, with_token(world))
    assert grants(copy) == ["account:bob"], "another token of that name begins anew"


# ---- messages ------------------------------------------------------------------------------------


def waiting(world: World) -> Node:
    world.cut("A", "B")
    world["A"].once(FAR, b"m")
    return world["A"]


def test_by_itself_messages_same(world: World) -> None:
    a = restored(world, waiting(world))
    world.mend("A", "B")
    world.run(30)
    assert world["B"].bodies(LOCAL) == [b"m"]
    assert dead(a) == {}


def test_by_itself_messages_copy(world: World) -> None:
    copy = copy_of(world, waiting(world))
    world.run(30)
    assert world["B"].bodies(LOCAL) == []
    assert dead(copy) == {b"m": CHANGED}
    world.mend("A", "B")
    world.run(30)
    assert world["B"].bodies(LOCAL) == [b"m"]


def wanted(world: World) -> Node:
    """Senders at B and A want to know all about messages that stand at A."""
    a, b = world["A"], world["B"]
    asks: dict[str, Any] = {"acknowledge": FULL, "admin_queue": rf"DIRECT=OS:B\{ADMIN}"}
    b.once(HOME, b"far", journal=3, time_to_be_received=1_000, **asks)
    a.once(LOCAL, b"near", journal=3, time_to_be_received=1_000, **asks)
    world.run(5)
    assert sorted(a.bodies(LOCAL)) == [b"far", b"near"]
    return a


def left_after_arrival(node: Node) -> list[int]:
    """What its administration queue was told of ends; arrivals have been told before."""
    return [one for one in classes(node) if one != 0x0002]


@pytest.mark.parametrize("how", ["receive", "expire", "purge", "delete"])
def test_by_itself_acknowledgments_same(world: World, how: str) -> None:
    a = restored(world, wanted(world))
    _end(world, a, how)
    assert len(left_after_arrival(world["B"])) == 2


@pytest.mark.parametrize("how", ["receive", "expire", "purge", "delete"])
def test_by_itself_acknowledgments_copy(world: World, how: str) -> None:
    """Nobody but the original tells; it has received both, and both were told of that."""
    a, b = wanted(world), world["B"]
    copy = copy_of(world, a)
    _end(world, copy, how)
    assert left_after_arrival(b) == []
    assert b.look("outgoing-queue", HOME).awaiting_final == 1, "the copy's word does not count"
    local = set() if how == "receive" else {b"near"}
    assert set(dead(copy)) == local, "who sent it on this computer keeps it"
    assert set(copy.bodies(r"DIRECT=OS:.\SYSTEM$;JOURNAL")) == (
        {b"near"} if how == "receive" else set()
    )
    a.receive(LOCAL, count=2)
    world.run(30)
    assert left_after_arrival(b) == [0x4000, 0x4000]
    assert b.look("outgoing-queue", HOME).awaiting_final == 0


def _end(world: World, node: Node, how: str) -> None:
    if how == "receive":
        node.receive(LOCAL, count=2)
    elif how == "expire":
        world.run(2_000 if node.identity.name == "A" else 0)
        if node.identity.name != "A":
            node.clock.jump(2_000)
            node.bodies(LOCAL)  # who looks there ends what is over
    elif how == "purge":
        node.purge(LOCAL)
    else:
        node.delete(LOCAL)
    world.run(30)


def doubtful(world: World) -> Node:
    """A message has left A, and was lost; its time is over, and B was not asked yet."""
    a, link = world["A"], world.link("A", "B")
    link.policy = no_messages
    a.once(FAR, b"m", journal=1, time_to_reach_queue=10)
    world.run(5)
    world.cut("A", "B")
    world.run(20)
    assert dead(a) == {b"m": IN_DOUBT}
    link.policy = faithful
    return a


def test_by_itself_doubts_same(world: World) -> None:
    a = restored(world, doubtful(world))
    world.mend("A", "B")
    world.run(3_600)
    assert dead(a) == {b"m": NOT_DELIVERED}


def test_by_itself_doubts_copy(world: World) -> None:
    copy = copy_of(world, doubtful(world))
    world.run(3_600)
    assert dead(copy) == {b"m": IN_DOUBT}
    assert not world.link("C", "B").seen, "it has not even called"


# ---- incoming streams --------------------------------------------------------------------------


def unacknowledged(world: World) -> Node:
    """A has accepted a message, and B does not know."""
    link = world.link("A", "B")
    link.policy = no_order_acks
    world["B"].once(HOME, b"m")
    world.run(3)
    assert world["A"].bodies(LOCAL) == [b"m"]
    assert world["B"].look("outgoing-queue", HOME).messages == 1
    return world["A"]


def test_by_itself_answers_same(world: World) -> None:
    a = restored(world, unacknowledged(world))
    world.link("A", "B").policy = faithful
    world.run(600)
    assert a.bodies(LOCAL) == [b"m"]
    assert world["B"].look("outgoing-queue", HOME).messages == 0


def test_by_itself_answers_copy(world: World) -> None:
    """The copy answers where the original was called."""
    a = unacknowledged(world)
    copy = copy_of(world, a)
    a.kill()
    world.nodes["A"] = world.nodes.pop("C")
    copy.identity = type(copy.identity)(copy.identity.guid, "A", copy.identity.installed_s)
    copy.kill()
    copy.start()
    world.link("A", "B").policy = faithful
    world.run(600)
    assert copy.bodies(LOCAL) == [b"m"]


# ---- time ----------------------------------------------------------------------------------------


def short(world: World) -> Node:
    world["A"].once(LOCAL, b"m", time_to_be_received=100, journal=1)
    return world["A"]


def test_by_itself_expiry_same(world: World) -> None:
    a = restored(world, short(world))
    world.run(200)
    assert (a.bodies(LOCAL), dead(a)) == ([], {b"m": 0xC002})


def test_by_itself_expiry_copy(world: World) -> None:
    copy = copy_of(world, short(world))
    world.run(200)
    assert (copy.bodies(LOCAL), dead(copy)) == ([], {b"m": 0xC002})


def delayed(world: World) -> Node:
    world["A"].once(LOCAL, b"near", delay=100)
    world.cut("A", "B")
    world["A"].once(FAR, b"far", delay=100)
    assert world["A"].bodies(LOCAL) == []
    return world["A"]


def test_by_itself_delays_same(world: World) -> None:
    a = restored(world, delayed(world))
    world.mend("A", "B")
    world.run(300)
    assert (a.bodies(LOCAL), world["B"].bodies(LOCAL)) == ([b"near"], [b"far"])


def test_by_itself_delays_copy(world: World) -> None:
    copy = copy_of(world, delayed(world))
    world.run(300)
    assert (copy.bodies(LOCAL), world["B"].bodies(LOCAL)) == ([b"near"], [])
    assert dead(copy) == {b"far": CHANGED}


def retried(world: World) -> Node:
    """A message was rolled back, and waits in the subqueue of those that come back."""
    a = world["A"]
    a.create("p", poison_attempts=1, poison_retry_after=100)
    a.once(r"private$\p", b"m")
    tx = a.begin()
    a.receive(r"private$\p", tx=tx)
    a.abort(tx)
    assert (a.bodies(r"private$\p"), a.bodies(r"private$\p;retry")) == ([], [b"m"])
    return a


def test_by_itself_retries_same(world: World) -> None:
    a = restored(world, retried(world))
    world.run(300)
    assert a.bodies(r"private$\p") == [b"m"]


def test_by_itself_retries_copy(world: World) -> None:
    copy = copy_of(world, retried(world))
    world.run(300)
    assert copy.bodies(r"private$\p") == [b"m"]


# ---- what stays as it was ------------------------------------------------------------------------


def read_by_somebody(world: World) -> Node:
    a = world["A"]
    a.once(LOCAL, b"1", b"2")
    first = lookups(a.messages(LOCAL))[0]
    tx = a.begin()
    a.ask(requests.TakeRead(LOCAL, tx, first - 1, first, reader="spark"))
    a.commit(tx)
    return a


def readings(node: Node) -> list[Any]:
    return list(node.look("readers", LOCAL))


def test_by_itself_readers_same(world: World) -> None:
    before = readings(read_by_somebody(world))
    assert before
    assert readings(restored(world, world["A"])) == before


def test_by_itself_readers_copy(world: World) -> None:
    before = readings(read_by_somebody(world))
    copy = copy_of(world, world["A"])
    assert (readings(copy), copy.bodies(LOCAL)) == (before, [b"2"])


def listed(world: World) -> Snapshot:
    assert isinstance(world.directory, MemoryDirectory)
    return world.directory.snapshot


def test_by_itself_directory_same() -> None:
    world = World("A", directory=True)
    a = world["A"]
    a.create("p", private=False)
    before = listed(world)
    assert [one.name for one in before.queues.values()] == ["p"]
    restored(world, a)
    world.run(5)
    assert listed(world).queues == before.queues


def test_by_itself_directory_copy() -> None:
    world = World("A", directory=True)
    world["A"].create("p", private=False)
    copy_of(world, world["A"])
    world.run(5)
    found = listed(world)
    assert sorted(one.computer for one in found.queues.values()) == ["A", "C"]
    assert {one.guid for one in found.computers} == {
        world[name].identity.guid for name in ("A", "C")
    }


KNOWN, LATER = (
    TransactionId(START_S.to_bytes(4, "little") + bytes(12), number) for number in (1, 2)
)


def committed(world: World) -> Node:
    world["A"].once(LOCAL, b"m", id=KNOWN)
    return world["A"]


def test_by_itself_outcomes_same(world: World) -> None:
    a = restored(world, committed(world))
    assert a.outcome(KNOWN) is Outcome.COMMITTED
    assert a.outcome(LATER) is not Outcome.COMMITTED


def test_by_itself_outcomes_copy(world: World) -> None:
    copy = copy_of(world, committed(world))
    assert copy.outcome(KNOWN) is Outcome.COMMITTED
    assert copy.outcome(LATER) is not Outcome.COMMITTED


def switched(world: World) -> Node:
    world["A"].steer(LOCAL, "pause")
    world["A"].steer("", "disconnect")
    return world["A"]


def _is_switched(node: Node) -> bool:
    return bool(node.look("queue", LOCAL).paused_since and node.look("status").offline_since)


def test_by_itself_switches_same(world: World) -> None:
    assert _is_switched(restored(world, switched(world)))


def test_by_itself_switches_copy(world: World) -> None:
    assert _is_switched(copy_of(world, switched(world)))


def _numbers(node: Node) -> tuple[int, int]:
    """Of the next message: its number and its place."""
    sent = node.once(LOCAL, b"m")
    return sent.first_message, lookups(node.messages(LOCAL))[-1]


def test_by_itself_numbers_same(world: World) -> None:
    a = world["A"]
    before = _numbers(a)
    back = restored(world, a)
    assert all(new > old for old, new in zip(before, _numbers(back), strict=True))


def test_by_itself_numbers_copy(world: World) -> None:
    before = _numbers(world["A"])
    copy = copy_of(world, world["A"])
    assert all(new > old for old, new in zip(before, _numbers(copy), strict=True))


def acted(world: World) -> Node:
    a = world["A"]
    a.running.submit(OwnerCame(a.owner, Actor(ActorKind.ACCOUNT, "mq", free=True)))
    a.purge(LOCAL)
    return a


def test_by_itself_log_same(world: World) -> None:
    assert [one.what for one in restored(world, acted(world)).look("trail")] == ["purge", "restore"]


def test_by_itself_log_copy(world: World) -> None:
    assert [one.what for one in copy_of(world, acted(world)).look("trail")] == ["purge", "restore"]


def open_work(world: World) -> tuple[Node, int]:
    a = world["A"]
    a.once(LOCAL, b"m")
    tx = a.begin()
    a.receive(LOCAL, tx=tx)
    return a, tx


def test_by_itself_open_same(world: World) -> None:
    a, tx = open_work(world)
    back = restored(world, a)
    assert back.bodies(LOCAL) == [b"m"]
    with pytest.raises(TransactionOver):
        back.commit(tx)


def test_by_itself_open_copy(world: World) -> None:
    a, tx = open_work(world)
    copy = copy_of(world, a)
    assert copy.bodies(LOCAL) == [b"m"]
    with pytest.raises(TransactionOver):
        copy.commit(tx)
    a.commit(tx)


# ---- the list is whole --------------------------------------------------------------------------


def test_each_line_has_a_case_for_either_identity() -> None:
    cases = {name for name in globals() if name.startswith("test_by_itself_")}
    for line in TABLE:
        for which in ("same", "copy"):
            assert f"test_by_itself_{line.name}_{which}" in cases
    lines = {line.name for line in TABLE}
    assert {name.split("_")[3] for name in cases} == lines
    assert len(lines) == len(TABLE)


def test_each_durable_table_and_each_timer_belongs_to_a_line(world: World) -> None:
    """Whatever is added, and acts by itself, needs a decision for copies."""
    tables = {name for line in TABLE for name in line.tables}
    assert tables == set(vars(State(world["A"].identity)))
    assert {timer for line in TABLE for timer in line.timers} == set(Timer)
