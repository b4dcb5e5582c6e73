"""A checkpoint and the log behind it are the log from the beginning, after any history.

Two managers live through random work. Of one of them every record is kept; checkpoints are made
somewhere in between. Each must give, with the records behind it, the state that all records give
without it: field by field (``proof.sim.base.comparing``), not only where a later step would
ask.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from onceq.core.inputs import OwnerCame
from onceq.core.state import snapshot
from onceq.core.state.setups import KINDS
from onceq.core.state.state import State
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.branches import TAG_BYTES, Xid, anchor_xid, group_prefix, group_xid
from onceq.model.identity import TransactionId
from onceq.model.message import Acknowledge, Journal
from onceq.model.rights import Actor, ActorKind
from onceq.store.log import LogStore
from proof.sim.base.comparing import differences
from proof.sim.base.recovery import BY_THE_WAY, replayed
from tests.conformance.clocks import START_S
from tests.conformance.policies import no_order_acks
from tests.conformance.world import Node, World, fast, item

FAR = r"DIRECT=OS:B\private$\far"
FAR_PLAIN = r"DIRECT=OS:B\private$\loose"
BACK = r"DIRECT=OS:A\private$\in"
TARGETS = (FAR, r"private$\in", r"private$\poor", "DIRECT=OS:NOBODY\\x", FAR_PLAIN)
QUEUES = (r"private$\in", r"private$\loose", r"private$\poor", r"private$\in;aside")
ADMIN = r"DIRECT=OS:A\private$\acks"
SESSION = START_S.to_bytes(4, "little") + bytes(12)
WISHES = st.fixed_dictionaries({
    "journal": st.sampled_from([0, Journal.JOURNAL, Journal.DEADLETTER, 3]),
    "acknowledge": st.sampled_from([0, *Acknowledge]),
    "time_to_reach_queue": st.sampled_from([2, 60, 86_400]),
    "time_to_be_received": st.sampled_from([3, 70, 86_400]),
    "dead_letter_queue": st.sampled_from(["", r"DIRECT=OS:A\private$\graves"]),
})  # fmt: skip


class Histories(RuleBasedStateMachine):
    """Work of applications, operators, peers and time; every step may be refused."""

    def __init__(self) -> None:
        super().__init__()
        self.checkpoints: list[tuple[int, bytes]] = []
        self.open: list[int] = []
        self.prepared: list[Xid] = []
        self.count = 0

    @initialize()
    def begin(self) -> None:
        self.world = World("A", "B", settings=fast(undecided_s=10_000))
        self.a, self.b = self.world["A"], self.world["B"]
        for name, more in {
            "in": {"journal": True, "poison_attempts": 2, "poison_retry_after": 5},
            "loose": {"transactional": False},
            "poor": {"quota_kb": 1},
            "graves": {},
            "acks": {"transactional": False},
        }.items():
            self.a.create(name, **more)  # type: ignore[arg-type]
        self.b.create("far")
        self.b.create("loose", transactional=False)

    def ask(self, node: Any, request: requests.Request) -> Any:
        """A request that may be refused."""
        try:
            return node.ask(request)
        except OnceqError:
            return None

    def texts(self, count: int) -> list[bytes]:
        self.count += count
        return [b"%d" % (self.count - at) for at in range(count)]

    # ---- applications ---------------------------------------------------------------------

    @rule(
        to=st.sampled_from(TARGETS), count=st.integers(1, 4), wishes=WISHES,
        number=st.integers(0, 70), inner=st.booleans(),
    )  # fmt: skip
    def commit(self, to: str, count: int, wishes: dict[str, Any], number: int, inner: bool) -> None:
        id = TransactionId(SESSION, number) if number else None
        work = item(to, *self.texts(count), **wishes)
        tx = self.open.pop() if inner and self.open else 0
        self.ask(self.a, requests.Commit(tx, (work,), id))

    @rule(
        to=st.sampled_from([FAR_PLAIN, r"private$\loose"]),
        wishes=WISHES,
        delivery=st.integers(0, 1),
    )
    def plain(self, to: str, wishes: dict[str, Any], delivery: int) -> None:
        wishes = {**wishes, "dead_letter_queue": ""}
        work = item(to, *self.texts(2), delivery=delivery, **wishes)
        self.ask(self.a, requests.Send(0, (work,)))

    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 3), mine=st.booleans())
    def receive(self, queue: str, count: int, mine: bool) -> None:
        tx = 0
        if mine:
            self.open.append(tx := self.a.begin())
        self.ask(self.a, requests.Receive(queue, tx, count))

    @rule(
        queue=st.sampled_from(QUEUES), reader=st.sampled_from(["", "one"]),
        query=st.sampled_from(["q", "r"]), keep=st.booleans(), inner=st.booleans(),
    )  # fmt: skip
    def take_read(self, queue: str, reader: str, query: str, keep: bool, inner: bool) -> None:
        found = self.ask(self.a, requests.Receive(queue, 0, 2, peek=True))
        if found is None or not len(found):
            return
        first, last = found.lookup_ids[0], found.lookup_ids[-1]
        tx = self.open[-1] if inner and self.open else 0
        self.ask(self.a, requests.TakeRead(queue, tx, first, last, 0, reader, query, "w", keep))

    @rule(
        who=st.sampled_from(["alice", "token:*"]), word=st.sampled_from(["send", "peek"]),
        queue=st.sampled_from(["*", "private$\\in"]), take=st.booleans(),
    )  # fmt: skip
    def right(self, who: str, word: str, queue: str, take: bool) -> None:
        request = requests.SetRights(who, [word], queue, take)
        request.check()
        self.ask(self.a, request)

    @rule(queue=st.sampled_from(QUEUES), reader=st.sampled_from(["", "one"]))
    def forget_reader(self, queue: str, reader: str) -> None:
        self.ask(self.a, requests.ForgetReader(queue, reader))

    @rule()
    def abort(self) -> None:
        if self.open:
            tx = self.open.pop()
            self.ask(self.a, requests.Abort(tx))

    @rule(queue=st.sampled_from(QUEUES), to=st.sampled_from(QUEUES))
    def move(self, queue: str, to: str) -> None:
        found = self.ask(self.a, requests.Receive(queue, peek=True))
        if found is not None:
            at = found.lookup_ids[0]
            self.ask(self.a, requests.MoveMessage(queue, to, at, 0))

    @rule(back=st.integers(1, 3))
    def from_afar(self, back: int) -> None:
        texts = self.texts(back)
        self.ask(
            self.b,
            requests.Commit(0, (item(BACK, *texts, acknowledge=2),)),
        )

    # ---- external transactions ------------------------------------------------------------

    @rule(to=st.sampled_from([FAR, r"private$\in"]), take=st.booleans())
    def prepare(self, to: str, take: bool) -> None:
        self.count += 1
        xid = Xid(1, b"%d" % self.count)
        tx = self.a.start_branch(xid)
        if take:
            self.ask(self.a, requests.Receive(r"private$\in", tx, 1))
        try:
            self.a.prepare(xid, tx, item(to, *self.texts(2)))
        except OnceqError:
            return
        self.prepared.append(xid)

    @rule(how=st.sampled_from(["commit", "rollback", "by hand", "forget"]))
    def decide(self, how: str) -> None:
        if not self.prepared:
            return
        xid = self.prepared[0]
        try:
            if how == "rollback":
                self.a.rollback(xid)
            elif how == "forget":
                self.a.forget(xid)
            else:
                self.a.commit_branch(xid, **({"by_hand": True} if how == "by hand" else {}))
        except OnceqError:
            return
        if how != "by hand":
            self.prepared.pop(0)

    @rule(app=st.sampled_from(["one", "two"]))
    def group(self, app: str) -> None:
        self.count += 1
        prefix = group_prefix(self.a.identity.guid, self.count.to_bytes(6, "big"))
        gtrid = self.a.attempt(prefix)
        xids = [group_xid(gtrid, f"{n}") for n in range(2)]
        try:
            for xid in xids:
                self.a.promise(xid, item(r"private$\in", *self.texts(1)))
        except OnceqError:
            return
        self.a.commit_group(app, self.count, prefix, *xids)

    @rule()
    def enlist(self) -> None:
        self.count += 1
        tx = self.a.begin()
        self.a.enlist(tx)
        self.ask(self.a, requests.Commit(tx, (item(FAR, b"d"),)))

    @rule()
    def somebody_decides(self) -> None:
        self.count += 1
        somebody_decides(self.a)

    # ---- operators ------------------------------------------------------------------------

    @rule(queue=st.sampled_from((*QUEUES, FAR)))
    def purge(self, queue: str) -> None:
        self.ask(self.a, requests.PurgeQueue(queue))

    @rule(action=st.sampled_from(["pause", "resume"]))
    def steer(self, action: str) -> None:
        self.ask(
            self.a,
            requests.SteerOutgoing(FAR, requests.Steer(action)),
        )

    @rule(name=st.sampled_from(["in", "poor", "new"]), gone=st.booleans())
    def other_queue(self, name: str, gone: bool) -> None:
        if gone:
            self.ask(self.a, requests.DeleteQueue(rf"private$\{name}"))
        else:
            try:
                self.a.create(name, label="again", journal=True)
            except OnceqError:
                return

    # ---- time, links, crashes, checkpoints ------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 4, 100]), up=st.booleans())
    def time(self, seconds: float, up: bool) -> None:
        (self.world.mend if up else self.world.cut)("A", "B")
        self.world.run(seconds)

    @rule(power=st.booleans())
    def restart(self, power: bool) -> None:
        (self.a.power_cut if power else self.a.kill)()
        self.open.clear()
        self.a.start()

    @rule()
    def checkpoint(self) -> None:
        assert self.a.engine is not None
        self.a.engine.store.sync()
        state = b"".join(self.a.engine.manager.snapshot().encode())
        self.checkpoints.append((self.a.engine.store.position, state))

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.checkpoint()
            compare(self.a, self.checkpoints)


def compare(node: Node, checkpoints: list[tuple[int, bytes]]) -> State:
    """Hold each checkpoint and what follows against the whole log; returns what that gives."""
    node.kill()
    store = LogStore.open("/store", node.files.kill(), segment_bytes=1 << 16)
    records = list(store.records())
    whole = replayed(node.identity, None, records)
    for position, state in checkpoints:
        behind = [record for record in records if record[0] >= position]
        found = differences(replayed(node.identity, state, behind), whole, apart=BY_THE_WAY)
        assert not found, "\n".join(found)
    made = b"".join(snapshot.snapshot(whole))
    found = differences(whole, replayed(node.identity, made, []))
    assert not found, "\n".join(found)
    return whole


def test_a_checkpoint_and_its_log_are_the_whole_log() -> None:
    run_state_machine_as_test(Histories, settings=settings(max_examples=25, stateful_step_count=40))


def test_decisions_and_promises_are_of_the_same_one_after_a_checkpoint() -> None:
    """Also where a record behind the checkpoint ends what stands in it."""
    node = World("A")["A"]
    somebody_decides(node)
    whole = compare(node, [])
    restored = replayed(node.identity, b"".join(snapshot.snapshot(whole)), [])
    assert not differences(whole, restored)
    assert {made.by for made in restored.branches.decisions.values()} == {"account:alice"}
    assert [branch.by for branch in restored.branches] == ["account:alice"]


def test_a_checkpoint_of_an_older_version_says_of_no_decision_whose_it_is() -> None:
    node = World("A")["A"]
    somebody_decides(node)
    made = b"".join(snapshot.snapshot(compare(node, [])))
    version, size = struct.unpack_from("<II", made)
    head = json.loads(made[8 : 8 + size])
    head["branches"]["decisions"] = [row[:3] for row in head["branches"]["decisions"]]
    raw = json.dumps(head).encode()
    older = struct.pack("<II", version, len(raw)) + raw + made[8 + size :]
    restored = replayed(node.identity, older, [])
    assert [made.by for made in restored.branches.decisions.values()] == [""]


UNUSED = frozenset({"ceiling", "answering"})
"""Parts that may be empty: the history below does not come to them."""
DERIVED = frozenset({"regions"})
"""Where regions of the log begin follows from what lies in them."""


def setup(node: Node, verb: str, **values: Any) -> None:
    """A rare change that only a directory, or HTTP, brings about otherwise."""
    engine = node.engine
    assert engine is not None
    rare = KINDS[verb].of(values)
    engine.settle([engine.manager._wrapped(node.clock.read(), lambda step: step.setup(rare))])


def somebody_has_rights(node: Node) -> None:
    for owner, pattern in ((False, "private$\\in*"), (True, "private$\\in")):
        given = {"who": "account:alice", "rights": ["send", "peek"], "pattern": pattern}
        setup(node, "rights-given", owner=owner, **given)
    setup(node, "rights-shared", id="62" * 16, number=7,
          grants=[["certificate:carl", ["send", "peek"], "private$\\in*"]])  # fmt: skip
    assert node.engine is not None
    number = node.engine.manager.state.trail.next
    setup(node, "act", number=number, at_s=START_S, who="account:alice", where="10.0.0.1",
          what="purge", about="private$\\in", result="access-denied")  # fmt: skip
    setup(node, "token", name="billing", salt="73" * 16, digest="64" * 32, made_s=START_S,
          expires_s=START_S + 60, grants=[[["send"], "private$\\in"]])  # fmt: skip


def somebody_decides(node: Node) -> None:
    """A decision, and a promise, of an application that is not who runs the manager."""
    assert node.engine is not None
    node.engine.submit(OwnerCame(node.owner, Actor(ActorKind.ACCOUNT, "alice")))
    node.enlist(tx := node.begin())
    node.ask(requests.Commit(tx))
    prefix = group_prefix(node.identity.guid, b"-" * TAG_BYTES)
    node.promise(anchor_xid(node.attempt(prefix), bytes(range(16))))
    node.engine.submit(OwnerCame(node.owner, Actor(ActorKind.ACCOUNT, free=True)))


def somebody_reads(node: Node) -> None:
    """A reader removes what he has read."""
    queue = r"private$\read"
    node.create("read")
    node.once(queue, b"read", b"left")
    at = node.messages(queue).lookup_ids[0]
    node.ask(requests.TakeRead(queue, 0, at, at, reader="r", query="q", who="w"))


def somebody_has_jobs(node: Node, inside: str, loose: str) -> None:
    """A job that is over, and one that runs: nobody works it off here."""
    moves = requests.StartJob("move", [inside], to=loose, label="none")
    returns = requests.StartJob("return", ["SYSTEM$;DEADXACT"], limit=2, older_s=5)
    for job in (moves, returns):
        job.check()
    node.ask(requests.CancelJob(node.ask(moves).number))
    node.ask(returns)


def others_are_known(a: Node) -> None:
    """What is remembered of other managers, and of the outgoing queue to one."""
    assert a.engine is not None
    state = a.engine.manager.state
    number = next(iter(state.outgoing.values())).number
    setup(a, "homes", number=number, homes=None)
    setup(a, "outgoing", number=state.next_number, name="DIRECT=OS:C\\private$\\acks", marked=True,
          for_strangers=False, homes=["10.0.0.9"])  # fmt: skip
    setup(a, "trail-head", source="55" * 16, number=3, digest="66" * 32, at_s=START_S)
    setup(a, "bound", name="os:b", guid=bytes(15).hex() + "07", since_s=START_S, by_hand=True)
    setup(a, "clock-ahead", source=(b"C" * 16).hex(), until_s=START_S, at_s=START_S, reason="why")
    setup(a, "restored", at_s=START_S, taken_s=START_S - 9, position=5, told=True)
    setup(a, "undone", manager=(b"U" * 16).hex(), knows="a later stream", at_s=START_S)
    setup(a, "elsewhere", number=number, lanes=[[8, 2]])
    setup(a, "refused-late", number=number, message_class=0x8000, id="", stream=1, place=1,
          at_s=START_S)  # fmt: skip
    setup(a, "alias", number=number, name=r"DIRECT=OS:C\private$\far")
    setup(a, "receipts", source=bytes(16).hex(), stream=5, name="DIRECT=HTTP://b/x", left=0)


def busy() -> Node:
    """A manager whose checkpoint has something of everything."""
    world = World("A", "B", settings=fast(undecided_s=10_000))
    a, b = world["A"], world["B"]
    a.create("in", poison_attempts=9)
    a.create("loose", transactional=False)
    b.create("far")
    inside, loose = r"private$\in", r"private$\loose"
    # Streams of B: one that was set back, one that was left, one with a number passed over; and
    # plain messages.
    b.once(BACK, b"first", b"second", acknowledge=2)
    world.run(5)
    assert a.engine is not None
    ((source, key),) = a.engine.manager.state.progress
    setup(a, "stream-reset", source=source.hex(), key=key, stream=0, reason="why", at_s=START_S)
    b.once(BACK, b"left")
    world.run(5)
    world.cut("A", "B")
    b.once(BACK, b"1", acknowledge=2)
    b.once(BACK, b"2", time_to_reach_queue=5)
    b.once(BACK, b"3", acknowledge=2)
    b.send(0, r"DIRECT=OS:A\private$\loose", b"plain", delivery=1)
    world.run(10)
    world.mend("A", "B")
    world.run(10)
    # A stream that has drained; one that was left while a message of it awaits its end; doubts;
    # what waits; a queue that was paused; another of its names; a refusal that came late.
    a.once(FAR, b"drains")
    world.run(5)
    a.once(FAR, b"awaits its end", journal=1)
    world.run(5)
    world.link("A", "B").policy = no_order_acks
    a.once(FAR, b"in doubt", journal=1, time_to_reach_queue=5)
    world.run(2)
    world.cut("A", "B")
    world.run(20)
    a.once(FAR, b"waits", journal=2, id=TransactionId(SESSION, 7))
    a.steer(FAR, "pause")
    others_are_known(a)
    # What was moved, given back, rejected, is held, is express.
    a.once(inside, *(b"%d" % n for n in range(5)))
    at = a.messages(inside).lookup_ids[0]
    a.ask(requests.MoveMessage(inside, inside + ";aside", at, 0))
    a.receive(inside, tx=(tx := a.begin()), count=2)
    a.abort(tx)
    a.receive(inside, tx=a.begin())
    a.send(0, loose, b"express", delivery=0)
    somebody_reads(a)
    # Branches of all kinds, a decision, a group; and off the network.
    a.promise(Xid(1, b"one"), item(FAR, b"kept"))
    a.promise(Xid(1, b"laid"), item(inside, b"laid"))
    a.promise(Xid(1, b"by hand"), item(inside, b"by hand"))
    a.commit_branch(Xid(1, b"by hand"), by_hand=True)
    prefix = group_prefix(a.identity.guid, b"123456")
    a.promise(xid := group_xid(a.attempt(prefix), "t"), item(inside, b"grouped"))
    a.commit_group("app", 1, prefix, xid, query="q")
    a.enlist(tx := a.begin())
    a.ask(requests.Commit(tx, (item(inside, b"shared"),)))
    somebody_decides(a)
    somebody_has_jobs(a, inside, loose)
    setup(a, "offline", since_s=START_S)
    somebody_has_rights(a)
    a.running.store.sync()
    return a


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all single values."""
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list):
        return [leaf for at, inner in enumerate(value) for leaf in leaves(inner, (*path, at))]
    return [path]


def alter(head: Any, path: tuple[Any, ...]) -> None:
    """Let there be another value of the same kind."""
    *way, last = path
    for step in way:
        head = head[step]
    value = head[last]
    if isinstance(value, bool):
        head[last] = not value
    elif isinstance(value, int):
        head[last] = value + 1
    elif isinstance(value, str):
        head[last] = value + "61" if value else "61"


def test_every_part_of_a_checkpoint_is_compared() -> None:
    """Change any one value of a checkpoint: the state that comes of it is another, or none. And
    none of its parts is empty, so that each is really compared."""
    node = busy()
    whole = compare(node, [])
    made = b"".join(snapshot.snapshot(whole))
    version, size = struct.unpack_from("<II", made)
    head, rest = json.loads(made[8 : 8 + size]), made[8 + size :]
    assert not [key for key, value in head.items() if not value and key not in UNUSED]
    for column in ("aborts", "classes", "moved", "chunks", "wanting"):
        assert any(lane[column] for lane in head["lanes"]), f"no lane has {column}"
    assert any(express for lane in head["lanes"] for *_, express in lane["chunks"])
    assert any(row[6] for row in head["progress"]), "nothing was passed over"
    assert any(row[4] for row in head["outgoing"]), "no stream was left"
    unseen = []
    for path in leaves(head):
        changed = json.loads(json.dumps(head))
        alter(changed, path)
        raw = json.dumps(changed, separators=(",", ":")).encode()
        altered = struct.pack("<II", version, len(raw)) + raw + rest
        try:
            same = not differences(whole, replayed(node.identity, altered, []))
        except (OnceqError, ValueError, LookupError, AssertionError, TypeError):
            continue
        if same and path[0] not in DERIVED:
            unseen.append(path)
    assert not unseen
