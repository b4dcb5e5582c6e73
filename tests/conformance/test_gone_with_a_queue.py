"""What a deletion of a queue does to everything that knows it, where its owner, or somebody else,
makes a queue of the same name again.

Each line of docs/explanation/deleted-queues.md has its case here, and a test compares them
(findings J1 and D4).

Upholds: I11, I18, I20, I28.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from onceq.core.inputs import JobBatch, JobDeed, OwnerCame
from onceq.directory import MemoryDirectory
from onceq.errors import AccessDenied, QueueDeleted, QueueNotFound
from onceq.model import requests
from onceq.model.branches import Vote, Xid
from onceq.model.identity import guid_text
from onceq.model.message import Acknowledge
from onceq.model.queue import QueueProperties
from onceq.model.requests import Access
from onceq.model.rights import Actor, ActorKind
from onceq.testing.links import faithful
from tests.conformance.copies import dead
from tests.conformance.policies import no_order_acks
from tests.conformance.world import Node, World, fast, item, lookups

pytestmark = pytest.mark.unturned("public", "private", reason="a queue made again is another one")

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "deleted-queues.md"
LOCAL, OTHER, ADMIN = r"private$\q", r"private$\other", r"private$\adm"
HOME = r"DIRECT=OS:A\private$\q"
XID = Xid(7, b"global", b"branch")
DELETED, NO_QUEUE = 0xC000, 0x8000


@pytest.fixture
def world() -> World:
    made = World("A", "B", settings=fast())
    made["A"].create("q")
    made["A"].create("other")
    for node in made.nodes.values():
        node.create("adm", transactional=False)
    return made


def again(node: Node, name: str = "q", **more: Any) -> None:
    """The queue is deleted, and made again."""
    node.delete(rf"private$\{name}")
    node.create(name, **more)


def classes(node: Node, queue: str = ADMIN) -> list[int]:
    try:
        return [message.message_class for message in node.messages(queue)]
    except TimeoutError:
        return []


def test_deleted_messages(world: World) -> None:
    a = world["A"]
    a.once(LOCAL, b"m", journal=1)
    again(a)
    assert (a.bodies(LOCAL), dead(a)) == ([], {b"m": DELETED})


def test_deleted_subqueues(world: World) -> None:
    a = world["A"]
    a.create("p", poison_attempts=1, poison_retry_after=100)
    a.once(r"private$\p", b"m", journal=1)
    tx = a.begin()
    a.receive(r"private$\p", tx=tx)
    a.abort(tx)
    assert a.bodies(r"private$\p;retry") == [b"m"]
    again(a, "p")
    world.run(300)
    assert (a.bodies(r"private$\p"), dead(a)) == ([], {b"m": DELETED})


def test_deleted_delays(world: World) -> None:
    a = world["A"]
    a.once(LOCAL, b"m", delay=100, journal=1)
    again(a)
    world.run(300)
    assert (a.bodies(LOCAL), dead(a)) == ([], {b"m": DELETED})


def test_deleted_wishes(world: World) -> None:
    a, b = world["A"], world["B"]
    b.once(HOME, b"m", journal=3, acknowledge=Acknowledge(12), admin_queue=rf"DIRECT=OS:B\{ADMIN}")
    world.run(5)
    again(a)
    world.run(30)
    assert (classes(b), dead(b)) == ([DELETED], {b"m": DELETED})
    assert b.look("outgoing-queue", HOME).awaiting_final == 0


@pytest.mark.parametrize("commits", [True, False])
def test_deleted_receives(world: World, commits: bool) -> None:
    """A transaction has taken a message before: the deletion ends that, too."""
    a = world["A"]
    a.once(LOCAL, b"m", journal=1)
    tx = a.begin()
    a.receive(LOCAL, tx=tx)
    a.send(tx, OTHER, b"made of it")
    again(a)
    if commits:
        a.commit(tx)
    else:
        a.abort(tx)
    assert a.bodies(LOCAL) == []
    assert a.bodies(OTHER) == ([b"made of it"] if commits else [])
    assert dead(a) == {b"m": DELETED}


def test_deleted_sends(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    a.send(tx, LOCAL, b"m", journal=1)
    a.send(tx, OTHER, b"beside it")
    again(a)
    a.commit(tx)
    assert (a.bodies(LOCAL), a.bodies(OTHER)) == ([], [b"beside it"])
    assert dead(a) == {b"m": NO_QUEUE}


@pytest.mark.parametrize("restart", [False, True])
def test_deleted_promises(world: World, restart: bool) -> None:
    a = world["A"]
    a.once(LOCAL, b"held")
    tx = a.start_branch(XID)
    a.receive(LOCAL, tx=tx)
    vote = a.prepare(XID, tx, item(LOCAL, b"m", journal=1), item(OTHER, b"beside it"))
    assert vote is Vote.PREPARED
    again(a)
    if restart:
        a.crash()
        a.start()
    a.commit_branch(XID)
    assert (a.bodies(LOCAL), a.bodies(OTHER)) == ([], [b"beside it"])
    assert dead(a) == {b"m": NO_QUEUE}


@pytest.mark.unturned("letters", reason="it looks for a name in a text")
@pytest.mark.parametrize("gone", ["q", "other"])
def test_deleted_jobs(world: World, gone: str) -> None:
    """What it works off, or where it sends to."""
    a = world["A"]
    a.once(LOCAL, b"m")
    (place,) = lookups(a.messages(LOCAL))
    request = requests.StartJob("move", [LOCAL], OTHER)
    request.check()
    a.ask(request)
    again(a, gone)
    a.once(rf"private$\{gone}", b"of the next")
    deed = JobDeed(place, "m", item(OTHER, b"m"), True)
    batch = JobBatch(1, 0, 0, to_at=0, after=place, looked=1, deeds=(deed,), over=True)
    a.running.submit(batch)
    a.pump()
    job = a.look("job", "1")
    if gone == "q":
        assert (job.state, job.gone, job.done) == ("done", 1, 0)
        assert (a.bodies(LOCAL), a.bodies(OTHER)) == ([b"of the next"], [])
    else:
        assert (job.state, job.why) == ("failed", f"{OTHER} was deleted since the job began")
        assert (a.bodies(LOCAL), a.bodies(OTHER)) == ([b"m"], [b"of the next"])


@pytest.mark.parametrize("by", ["ann", "bob"])
def test_deleted_rights(world: World, by: str) -> None:
    a = world["A"]
    who = {name: as_account(a, name) for name in ("ann", "bob", "carol")}
    for name in ("ann", "bob"):
        grant(a, a.owner, f"account:{name}", "create", "private$\\*")
    grant(a, a.owner, "account:carol", "get-properties", "private$\\pay")
    create(a, who["ann"])
    grant(a, who["ann"], "account:carol", "receive", "private$\\pay")
    a.delete(r"private$\pay")
    create(a, who[by])
    a.once(r"private$\pay", b"m")
    for name, owner in who.items():
        request = requests.Receive(r"private$\pay", peek=True)
        if name == by:
            assert len(ask(a, owner, request)) == 1
        else:
            with pytest.raises(AccessDenied):
                ask(a, owner, request)
    assert ask(a, who["carol"], requests.Look("queue", r"private$\pay"))


def as_account(node: Node, name: str) -> int:
    """An application that runs under an account."""
    owner = node.running.owner(node.answers.__setitem__)
    node.running.submit(OwnerCame(owner, Actor(ActorKind.ACCOUNT, name)))
    return owner


def ask(node: Node, owner: int, request: Any) -> Any:
    return node.ask_as(owner, next(node.numbers), node.answers, request)


def grant(node: Node, owner: int, who: str, words: str, queue: str) -> None:
    request = requests.SetRights(who, words.split(","), queue)
    request.check()
    ask(node, owner, request)


def create(node: Node, owner: int) -> None:
    request = requests.CreateQueue({"name": "pay", "transactional": True})
    request.check()
    request.instance = b"pay".ljust(16)
    ask(node, owner, request)


def test_deleted_readers(world: World) -> None:
    a = world["A"]
    a.once(LOCAL, b"1", b"2")
    first = lookups(a.messages(LOCAL))[0]
    a.ask(requests.TakeRead(LOCAL, 0, first - 1, first, reader="spark"))
    before = a.look("queue", LOCAL).instance
    assert a.look("readers", LOCAL)
    a.delete(LOCAL)
    properties = QueueProperties("q", transactional=True)
    a.ask(requests.CreateQueue(properties=properties, instance=b"another".ljust(16)))
    assert a.look("readers", LOCAL) == []
    assert a.look("queue", LOCAL).instance != before


def test_deleted_handles(world: World) -> None:
    a = world["A"]
    other = a.stranger()
    opened = a.open(LOCAL, Access.RECEIVE)
    again(a)
    a.once(LOCAL, b"of the next")
    with pytest.raises(QueueDeleted):
        a.ask(requests.Receive(LOCAL, handle=opened.handle))
    a.close_handle(opened.handle)
    assert other.receive(LOCAL).bodies() == [b"of the next"]


def test_deleted_dead_letter_queue(world: World) -> None:
    a = world["A"]
    a.create("own")
    a.once(LOCAL, b"m", journal=1, dead_letter_queue=r"private$\own", time_to_be_received=100)
    again(a, "own")
    world.run(200)
    assert a.bodies(r"private$\own") == []
    assert set(dead(a)) == {b"m"}


def test_deleted_streams(world: World) -> None:
    """By its name: what comes, comes once, in whichever queue."""
    a, b, link = world["A"], world["B"], world.link("A", "B")
    link.policy = no_order_acks
    b.once(HOME, b"1")
    world.run(3)
    assert a.bodies(LOCAL) == [b"1"]
    again(a)
    link.policy = faithful
    b.once(HOME, b"2")
    world.run(600)
    assert a.bodies(LOCAL) == [b"2"]


def test_deleted_numbers(world: World) -> None:
    a, b = world["A"], world["B"]
    number = a.running.manager.state.queues["private$\\q"].number
    name = f"PRIVATE={guid_text(a.identity.guid)}\\{number:08x}"
    world.cut("A", "B")
    b.once(name, b"m", journal=1)
    again(a)
    world.mend("A", "B")
    world.run(60)
    assert (a.bodies(LOCAL), dead(b)) == ([], {b"m": NO_QUEUE})
    with pytest.raises(QueueNotFound):
        a.once(name, b"m")


def test_deleted_administration_queue(world: World) -> None:
    """A name in a message is a name: its next queue has it."""
    a = world["A"]
    a.once(LOCAL, b"m", acknowledge=Acknowledge(2), admin_queue=rf"DIRECT=OS:.\{ADMIN}")
    again(a, "adm", transactional=False)
    a.receive(LOCAL)
    assert classes(a) == [0x4000]


def test_deleted_directory() -> None:
    world = World("A", directory=True)
    a = world["A"]
    assert isinstance(world.directory, MemoryDirectory)
    a.create("p", private=False)
    world.run(2)
    (before,) = world.directory.snapshot.queues
    a.delete("p")
    world.run(2)
    assert not world.directory.snapshot.queues
    with pytest.raises(QueueNotFound):
        a.once(f"PUBLIC={guid_text(before)}", b"m")


def test_deleted_switches(world: World) -> None:
    a = world["A"]
    a.steer(LOCAL, "pause")
    assert a.look("queue", LOCAL).paused_since
    again(a)
    assert not a.look("queue", LOCAL).paused_since
    a.once(LOCAL, b"m")
    assert a.receive(LOCAL).bodies() == [b"m"]


def test_each_line_of_the_page_has_its_case() -> None:
    lines = re.findall(r"(?m)^\* `([a-z-]+)`: ", PAGE.read_text())
    cases = {name.removeprefix("test_deleted_") for name in globals() if "test_deleted" in name}
    assert sorted(one.replace("-", "_") for one in lines) == sorted(cases)
    assert len(lines) == 17
