"""A client belongs to the process that made it; a forked child is another application (K4).

Each kind of call, over each kind of connection, in one to three children, with and without a
restart of the queue manager between the fork and the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio
from onceq.client import link as owners
from onceq.embedded.host import EmbeddedHost
from onceq.errors import WrongProcess
from onceq.model.branches import Xid
from onceq.store.log import LogStore
from tests.hosts.forking import CHILD_S, begin, end, heard
from tests.hosts.places import LINKS, OUT, PLAIN, Place, Q, placed
from tests.servers import free_port

pytestmark = pytest.mark.slow

SENDS_MAX = 100
"""Sends until one of them is done in the thread that forks."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with placed(tmp_path_factory, "forks") as made:
        yield made


@pytest.fixture(autouse=True)
def _empty(place: Place) -> None:
    place.purge()


# ---- threads: what a child may do ----------------------------------------------------------------


def transact(qm: Any) -> object:
    with qm.transaction() as tx:
        tx.send(Q, b"in a transaction")
    return str(qm.outcome(tx.id))


def consumed(qm: Any) -> object:
    taken: list[bytes] = []
    with own_queue(qm) as queue:
        qm.send(queue, b"for the child")
        qm.consume(queue, lambda tx, message: taken.append(message.body), timeout=0.0)
    return len(taken)


def held_open(qm: Any) -> object:
    with own_queue(qm) as name, qm.open_queue(name) as queue, queue.cursor() as cursor:
        qm.send(name, b"looked at")
        found = cursor.peek_first().body
        return queue.receive(timeout=0.0).body == found


@contextlib.contextmanager
def own_queue(qm: Any) -> Iterator[str]:
    """A queue that no other child uses."""
    name = rf"private$\of-{os.getpid()}"
    qm.create_queue(name)
    yield name
    qm.delete_queue(name)


def in_branch(qm: Any) -> object:
    xid = Xid(7, os.urandom(16), b"1")
    with qm.branch(xid) as work:
        work.send(Q, b"in a branch")
    qm.xa.prepare(xid)
    qm.xa.commit(xid)
    return "committed"


WORKS: dict[str, tuple[Callable[[Any], object], object]] = {
    "send": (lambda qm: bool(qm.send(PLAIN, b"x")), True),
    "transaction": (transact, "committed"),
    "look": (lambda qm: qm.admin.status().name, "ALPHA"),
    "consume": (consumed, 1),
    "open": (held_open, True),
    "branch": (in_branch, "committed"),
    "tracked": (lambda qm: len(qm.send_tracked(PLAIN, b"x").destinations), 1),
}


@pytest.mark.parametrize("restart", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("link", LINKS)
def test_a_child_works_by_itself_and_its_parent_goes_on(
    place: Place, link: str, restart: bool
) -> None:
    with onceq.connect(place.where(link)) as qm:
        tx = qm.transaction()
        tx.send(Q, b"of the parent")
        qm.send(PLAIN, b"first")
        go, gone = os.pipe()

        def work() -> object:
            os.close(gone)
            os.read(go, 1)
            return [do(qm) == result for do, result in WORKS.values()]

        children = [begin(work) for _ in range(3)]
        if restart:
            place.daemon.stop()
            place.daemon.start()
        os.close(gone)
        os.close(go)
        assert [end(*child) for child in children] == [repr([True] * len(WORKS))] * 3
        tx.commit()
        assert qm.outcome(tx.id) == "committed"
    sent = [b"of the parent"] + [b"in a transaction", b"in a branch"] * 3
    assert place.bodies(Q) == sorted(sent)


# ---- threads: what belongs to the parent ---------------------------------------------------------


@dataclass
class Open:
    """What is open in the parent."""

    qm: Any
    begun: Any
    gathered: Any
    queue: Any
    cursor: Any
    branch: Any
    committed: str


@pytest.fixture(params=LINKS)
def opened(request: pytest.FixtureRequest, place: Place) -> Iterator[Open]:
    with onceq.connect(place.where(request.param)) as qm:
        qm.send(Q, b"m", transactional=True)
        begun, gathered = qm.transaction(), qm.transaction()
        begun.receive(Q)
        begun.send(OUT, b"begun")
        gathered.send(OUT, b"gathered")
        queue = qm.open_queue(PLAIN)
        branch = qm.branch(Xid(7, os.urandom(16), b"1"))
        branch.send(OUT, b"branch")
        with qm.transaction() as tx:
            tx.send(OUT, b"committed")
        yield Open(qm, begun, gathered, queue, queue.cursor(), branch, tx.id)


REFUSED: dict[str, Callable[[Open], object]] = {
    "commit": lambda has: has.begun.commit(),
    "abort": lambda has: has.begun.abort(),
    "receive": lambda has: has.begun.receive(Q, timeout=0.0),
    "send": lambda has: has.begun.send(OUT, b"again"),
    "commit what was gathered": lambda has: has.gathered.commit(),
    "gather more": lambda has: has.gathered.send(OUT, b"again"),
    "abort what was gathered": lambda has: has.gathered.abort(),
    "receive from an open queue": lambda has: has.queue.receive(timeout=0.0),
    "send to an open queue": lambda has: has.queue.send(b"again"),
    "another cursor": lambda has: has.queue.cursor(),
    "cursor": lambda has: has.cursor.peek_next(),
    "receive at a cursor": lambda has: has.cursor.receive_current(timeout=0.0),
    "branch": lambda has: has.branch.send(OUT, b"again"),
    "end a branch": lambda has: has.branch.end(),
    "prepare a branch": lambda has: has.branch.prepare(),
    "commit a branch": lambda has: has.branch.commit(),
    "roll a branch back": lambda has: has.branch.abort(),
    "outcome": lambda has: has.qm.outcome(has.committed),
}


def test_what_the_parent_has_opened_is_refused_by_name_and_stays_its_own(
    opened: Open, place: Place
) -> None:
    def tried(call: Callable[[Open], object]) -> str:
        try:
            return repr(call(opened))
        except WrongProcess as error:
            return type(error).__name__
        except Exception as error:  # noqa: BLE001 - shown
            return repr(error)

    said = heard(lambda: {name: tried(call) for name, call in REFUSED.items()})
    assert said == repr(dict.fromkeys(REFUSED, "WrongProcess"))
    opened.begun.commit()
    opened.gathered.commit()
    opened.branch.commit()
    assert opened.queue.is_open
    assert place.bodies(Q) == []
    assert place.bodies(OUT) == [b"begun", b"branch", b"committed", b"gathered"]


def test_blocks_that_a_child_leaves_undo_nothing_of_the_parent(opened: Open, place: Place) -> None:
    """``sys.exit`` in a child unwinds the parent's blocks."""

    def leave() -> object:
        with contextlib.suppress(SystemExit), opened.begun, opened.gathered:
            raise SystemExit
        with opened.queue, opened.cursor, contextlib.suppress(SystemExit), opened.branch:
            raise SystemExit
        opened.qm.close()
        return "left"

    assert heard(leave) == "'left'"
    opened.begun.commit()
    opened.gathered.commit()
    opened.branch.commit()
    assert opened.queue.is_open
    assert place.bodies(OUT) == [b"begun", b"branch", b"committed", b"gathered"]


def test_a_transaction_block_around_a_fork_commits_once(place: Place) -> None:
    with onceq.connect(place.daemon.where) as qm:

        def block() -> None:
            with qm.transaction() as tx:
                tx.send(OUT, b"once")
                said.append(heard(lambda: tx.__exit__(None, None, None)))

        said: list[str] = []
        block()
    assert said[0].startswith("WrongProcess: this transaction was made before this process")
    assert place.bodies(OUT) == [b"once"]


def test_messages_that_came_too_late_for_a_call_are_not_handed_out_by_both(place: Place) -> None:
    with onceq.connect(place.daemon.where) as qm:
        qm.send(PLAIN, b"late")
        qm._state.keep(PLAIN, qm.receive_many(PLAIN, 1))
        assert heard(lambda: qm.receive(PLAIN, timeout=0.0)).startswith("ReceiveTimeout")
        assert qm.receive(PLAIN, timeout=0.0).body == b"late"


@pytest.mark.parametrize("link", LINKS)
def test_the_end_of_the_parent_is_noticed_while_a_child_lives(place: Place, link: str) -> None:
    """What it held goes back: the child holds its connection no more."""
    hold, held = os.pipe()
    with onceq.connect(place.daemon.where) as other:
        other.send(Q, b"m", transactional=True)
        with onceq.connect(place.where(link)) as qm:
            tx = qm.transaction()
            tx.receive(Q)

            def linger() -> object:
                os.close(held)
                return os.read(hold, 1)

            child = begin(linger)
        assert other.receive(Q, timeout=20.0).body == b"m"
    os.close(held)
    os.close(hold)
    assert end(*child) == "b''"


def test_locks_that_another_thread_held_at_the_fork_are_not_waited_for(place: Place) -> None:
    with onceq.connect(place.daemon.where) as qm:
        link: Any = qm._link
        held = threading.Barrier(2)
        over = threading.Event()

        def hold() -> None:
            with link._writing, link._reading, qm._lock, qm._state._lock:
                held.wait(20)
                over.wait(20)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(20)
        child = begin(lambda: [do(qm) == result for do, result in WORKS.values()])
        over.set()
        thread.join(20)
        assert end(*child) == repr([True] * len(WORKS))


@pytest.mark.parametrize("link", LINKS)
def test_a_fork_in_the_middle_of_a_call_leaves_the_answer_to_the_parent(
    place: Place, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a signal handler may fork that comes while an answer is awaited, and returns."""
    children: list[tuple[int, int]] = []
    with onceq.connect(place.where(link)) as qm:
        with qm.transaction() as tx:
            tx.send(OUT, b"known")
        real = type(qm._link)._wait  # type: ignore[attr-defined]
        frames = os.pipe()

        def forked(self: Any, slot: Any) -> None:
            monkeypatch.undo()
            child = os.fork()
            if not child:
                raised = "nothing"
                try:
                    real(self, slot)
                    raised = repr(slot.result)
                finally:
                    os.write(frames[1], raised.encode())
                    os._exit(0)
            children.append((child, frames[0]))
            real(self, slot)

        monkeypatch.setattr(type(qm._link), "_wait", forked)
        with qm.transaction() as tx:
            tx.send(OUT, b"once")
        assert qm.outcome(tx.id) == "committed"
    os.close(frames[1])
    assert end(*children[0]).startswith("WrongProcess('this call was made before")
    assert place.bodies(OUT) == [b"known", b"once"]


def test_a_fork_before_a_commit_has_its_connection_leaves_it_to_the_parent(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child has one of its own, on which the commit would happen again."""
    me, (reads, writes) = os.getpid(), os.pipe()
    children: list[int] = []
    said = "it was committed"
    with onceq.connect(place.daemon.where) as qm:
        link: Any = qm._link
        look = link.check_alive

        def forked() -> object:
            if not children:
                children.append(os.fork())
            return look()

        try:
            with qm.transaction() as tx:
                tx.send(OUT, b"once")
                monkeypatch.setattr(link, "check_alive", forked)
        except BaseException as error:  # noqa: BLE001 - shown
            said = repr(error)
        finally:
            if os.getpid() != me:  # pragma: no cover - in another process
                os.write(writes, said.encode())
                os._exit(0)
        os.close(writes)
    assert end(children[0], reads).startswith("WrongProcess('this transaction was made")
    assert said == "it was committed"
    assert place.bodies(OUT) == [b"once"]


def test_a_handler_that_returns_in_a_child_ends_the_loop_there(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no failure of a message, and no second consumer."""
    with onceq.connect(place.daemon.where) as qm:
        qm.set_poison_policy(Q, attempts=1, then="move:poison")
        qm.send_many(Q, [b"1", b"2"], transactional=True)
        called: list[bytes] = []
        me = os.getpid()
        children: list[int] = []
        reads, writes = os.pipe()

        def handle(tx: Any, message: Any) -> None:
            called.append(message.body)
            if not children:
                children.append(os.fork())

        said = "nothing"
        try:
            said = str(qm.consume(Q, handle, timeout=0.0))
        except BaseException as error:  # noqa: BLE001 - shown
            said = repr(error)
        finally:
            if os.getpid() != me:  # pragma: no cover - in another process
                os.write(writes, f"{called} {said} {caplog.messages}".encode())
                os._exit(0)
        os.close(writes)
        told = end(children[0], reads)
        assert told.startswith("[b'1'] WrongProcess('this transaction was made"), told
        assert "handler failed" not in told
        assert (said, called) == ("2", [b"1", b"2"])
        assert [queue.name for queue in qm.queues() if "poison" in queue.name] == []
        qm.set_poison_policy(Q, attempts=0)


def test_the_death_of_a_process_frees_its_store_and_its_port(tmp_path: Path) -> None:
    """A child that was forked from it lives on, and holds neither."""
    where, listen = tmp_path / "a", f"127.0.0.1:{free_port()}"
    hold, held = os.pipe()

    def linger() -> object:
        os.close(held)
        return os.read(hold, 1)

    def die() -> object:
        qm = onceq.open(where, name="A", create=True, listen=listen)
        qm.create_queue(Q, transactional=True)
        qm.send(Q, b"m", transactional=True)
        begin(linger)
        os.write(writes, b"forked")
        os._exit(0)

    reads, writes = os.pipe()
    child, said = begin(die)
    os.close(writes)
    os.waitpid(child, 0)
    assert os.read(reads, 6) == b"forked"
    with onceq.open(where, listen=listen) as qm:
        assert qm.receive(Q, timeout=0.0).body == b"m"
    for number in (hold, held, reads, said):
        os.close(number)


@pytest.mark.parametrize("pumping", [False, True], ids=["waiting", "pumping"])
def test_a_fork_in_the_middle_of_a_call_of_an_embedded_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pumping: bool
) -> None:
    """The child does not wait for what nobody answers there, nor goes on with the work."""
    me, (reads, writes) = os.getpid(), os.pipe()
    children: list[int] = []
    said: object = ""
    sent = 0

    def forking(real: Callable[..., object]) -> Callable[..., object]:
        def forked(*given: object) -> object:
            # The manager's own thread may do the work, too; a child of it would say nothing.
            if not children and threading.current_thread() is threading.main_thread():
                children.append(os.fork())
                if not children[0]:
                    signal.alarm(CHILD_S)
            return real(*given)

        return forked

    with onceq.open(tmp_path / "a", name="A", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        kind: Any = LogStore if pumping else EmbeddedHost
        monkeypatch.setattr(
            kind, "append" if pumping else "pump", forking(kind.append if pumping else kind.pump)
        )
        try:
            while not children and sent < SENDS_MAX:
                sent += 1
                said = qm.send(Q, b"once", transactional=True)
        except BaseException as error:  # noqa: BLE001 - shown
            said = error
        finally:
            if os.getpid() != me:  # pragma: no cover - in another process
                os.write(writes, repr(said).encode())
                os._exit(0)
        os.close(writes)
        assert end(children[0], reads).startswith("WrongProcess(")
        assert qm.queue(Q).messages == sent
    with onceq.open(tmp_path / "a") as qm:
        assert [bytes(body) for body in qm.receive_many(Q, SENDS_MAX).bodies()] == [b"once"] * sent


def test_an_embedded_manager_refuses_by_name(tmp_path: Path) -> None:
    with onceq.open(tmp_path / "a", name="A", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        tx = qm.transaction()
        tx.send(Q, b"m")
        said = [
            heard(lambda: qm.send(Q, b"m", transactional=True)), heard(tx.commit),
            heard(qm.admin.status),
        ]  # fmt: skip
        assert [text.partition(":")[0] for text in said] == ["WrongProcess"] * 3
        assert heard(qm.close) == "None"
        tx.commit()
        assert qm.receive(Q).body == b"m"


# ---- tasks ---------------------------------------------------------------------------------------


async def in_task(qm: Any) -> object:
    async with qm.transaction() as tx:
        await tx.send(Q, b"in a transaction")
    await qm.send(PLAIN, b"x")
    async with await qm.open_queue(PLAIN) as queue:
        found = (await queue.peek(timeout=0.0)).body
    return str(await qm.outcome(tx.id)), found


@pytest.mark.parametrize("link", LINKS)
def test_tasks_of_a_child_work_by_themselves(place: Place, link: str) -> None:
    """The manager of a child belongs to the loop that uses it there."""

    async def parent() -> tuple[str, str]:
        qm = await aio.connect(place.where(link))
        begun, gathered = qm.transaction(), qm.transaction()
        await gathered.send(OUT, b"gathered")
        await qm.send(Q, b"m", transactional=True)
        await begun.receive(Q)

        async def tried() -> list[str]:
            said = []
            for call in (begun.commit, gathered.commit, begun.abort):
                try:
                    said.append(repr(await call()))
                except WrongProcess as error:
                    said.append(type(error).__name__)
            return said

        own = begin(lambda: asyncio.run(in_task(qm)))
        refused = begin(lambda: asyncio.run(tried()))
        said = await asyncio.to_thread(end, *own)
        others = await asyncio.to_thread(end, *refused)
        await begun.commit()
        await gathered.commit()
        await qm.close()
        return said, others

    said, others = asyncio.run(parent())
    assert said == repr(("committed", b"x"))
    assert others == repr(["WrongProcess"] * 3)
    assert place.bodies(Q) == [b"in a transaction"]
    assert place.bodies(OUT) == [b"gathered"]


@pytest.mark.parametrize("link", LINKS)
def test_tasks_of_a_child_that_was_forked_while_no_loop_ran(place: Place, link: str) -> None:
    """Connected at the start of a program, which then forks its workers."""
    loop = asyncio.new_event_loop()
    qm = loop.run_until_complete(aio.connect(place.where(link)))
    children = [begin(lambda: asyncio.run(in_task(qm))) for _ in range(2)]
    assert loop.run_until_complete(in_task(qm)) == ("committed", b"x")
    assert [end(*child) for child in children] == [repr(("committed", b"x"))] * 2
    loop.run_until_complete(qm.close())
    loop.close()


def test_a_closed_descriptor_is_not_taken_from_another_file() -> None:
    owners.drop_descriptor(-1)
    reads, writes = os.pipe()
    owners.drop_descriptor(writes)
    assert os.write(writes, b"into nothing") == 12
    os.close(writes)
    assert os.read(reads, 1) == b"", "the other end has seen its end"
    os.close(reads)
