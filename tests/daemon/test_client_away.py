"""The queue manager stops, dies, comes back, or does not: what applications then see.

There is one kind of error that says "try again" (ServiceNotAvailable), and it is the same for
threads and for tasks. In doubt is only a commit that a manager died with.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio, errors
from onceq.client import link
from onceq.model.branches import Xid
from tests.daemon.applications import WAIT_S, Blocking, Daemon, _in, background_loop

pytestmark = pytest.mark.slow
T = r"private$\orders"
N = r"private$\plain"
FACES = ("threads", "tasks")
LOST, AWAY, HANDLE = errors.TransactionLost, errors.ManagerAway, errors.HandleLost
DONE = None

Operation = Callable[[], object]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "a") as made:
        with onceq.connect(made.where) as qm:
            qm.create_queue(T, transactional=True)
            qm.create_queue(N)
        yield made


@contextlib.contextmanager
def faces(daemon: Daemon) -> Iterator[dict[str, Any]]:
    """A client of each kind."""
    with (
        background_loop() as loop,
        onceq.connect(daemon.where) as threads,
        Blocking(_in(loop, aio.connect(daemon.where)), loop) as tasks_,
    ):
        yield {"threads": threads, "tasks": tasks_}


def prepared(qm: Any, face: str) -> dict[str, Operation]:
    """Every kind of operation, with what comes before it done."""
    gathered, begun, unknown, aborted, committed = (qm.transaction() for _ in range(5))
    known = r"DIRECT=OS:.\private$\orders"
    for tx in (gathered, committed):
        tx.send(known, b"gathered")
    committed.commit()
    for tx in (begun, aborted):
        qm.send(T, b"there", transactional=True)
        tx.receive(T, timeout=0)
    begun.send(known, b"with it")
    held = [qm.transaction() for _ in range(3)]
    for tx in held:
        qm.send(T, b"there", transactional=True)
        tx.receive(T, timeout=0)
    branch = qm.branch(Xid(7, b"away", face.encode()))
    branch.send(known, b"in a branch")
    opened, cursor = qm.open_queue(N), qm.cursor(T, access="peek")
    return {
        "send": lambda: qm.send(N, b"1"),
        "send in a transaction of its own": lambda: qm.send(T, b"1", transactional=True),
        "send_many": lambda: qm.send_many(T, [b"1", b"2"], transactional=True),
        "receive": lambda: qm.receive(N, timeout=60),
        "peek": lambda: qm.peek(T, timeout=60),
        "look": qm.admin.status,
        "set": lambda: qm.set_queue(N, label=face),
        "purge": lambda: qm.purge(r"private$\plain"),
        "outcome": lambda: qm.outcome(committed.id),
        "messages": lambda: [None for _ in qm.messages(N)],
        "work": lambda: [None for _ in qm.work(N, timeout=0)],
        "tx.send": lambda: gathered.send(known, b"more"),
        "tx.commit": gathered.commit,
        "tx.send to a new name": lambda: unknown.send(r"DIRECT=OS:localhost\private$\orders", b"x"),
        "tx.send after a receive": lambda: held[0].send(known, b"more"),
        "tx.receive after a receive": lambda: held[1].receive(T, timeout=0),
        "tx.commit after a receive": begun.commit,
        "tx.abort after a receive": aborted.abort,
        "branch.prepare": branch.prepare,
        "handle": lambda: opened.peek(timeout=60),
        "cursor": lambda: cursor.peek_next(timeout=60),
        **given_back(qm, face),
        **wrong(qm),
        **everyday(qm, face),
    }


def given_back(qm: Any, face: str) -> dict[str, Operation]:
    """What needs no connection, or gives something back."""
    known = r"DIRECT=OS:.\private$\orders"
    ended, undone, left = (
        qm.branch(Xid(7, b"away", face.encode() + name)) for name in (b"2", b"3", b"4")
    )
    opened, closed, cursor = qm.open_queue(N), qm.open_queue(N), qm.cursor(T, access="peek")
    empty, several, rejecting, inside = (qm.transaction() for _ in range(4))
    qm.send(T, b"there", transactional=True)
    taken = rejecting.receive(T, timeout=0)
    return {
        "handle.close": closed.close,
        "handle.close once more": closed.close,
        "cursor.close": cursor.close,
        "handle.send": lambda: opened.send(b"1"),
        "tx.commit of nothing": empty.commit,
        "tx.abort of nothing": lambda: qm.transaction().abort(),
        "tx.send_many": lambda: several.send_many(known, [b"1", b"2"], label="x"),
        "tx.send_many of none": lambda: several.send_many(known, []),
        "tx.send_tracked": lambda: inside.send_tracked(known, b"x"),
        "tx.reject": lambda: rejecting.reject(taken),
        "branch.end": ended.end,
        "branch.abort": undone.abort,
        "branch.commit": left.commit,
    }


def wrong(qm: Any) -> dict[str, Operation]:
    """What is wrong in itself is told at once."""
    gone, several = qm.transaction(), qm.transaction()
    gone.abort()
    return {
        "tx.send after its end": lambda: gone.send(T, b"x"),
        "tx.send of no property": lambda: several.send(T, b"x", colour=1),
        "tx.peek": lambda: several.peek(T),
        "tx.receive with a callback": lambda: several.receive(T, callback=print),
        "receive of none": lambda: qm.receive_many(N, 0),
        "receive of two kinds": lambda: qm.receive(N, lookup_id=1, correlation_id=b"x" * 20),
        "outcome of no commit": lambda: qm.outcome("x"),
        "open for nothing": lambda: qm.open_queue(N, access="nothing"),
        "send of no body": lambda: qm.send(N, 17),
    }


def everyday(qm: Any, face: str) -> dict[str, Operation]:
    """The rest of what a queue manager does."""
    known = r"DIRECT=OS:.\private$\orders"
    tracked = qm.track(qm.send(known, b"tracked", transactional=True))
    return {
        "send_tracked": lambda: qm.send_tracked(known, b"1", transactional=True),
        "send_current": lambda: qm.send_current(N, b"1"),
        "tracked.outcomes": tracked.outcomes,
        "peek by identifier": lambda: qm.peek(T, message_id=tracked.id),
        "peek_many": lambda: qm.peek_many(T),
        "peek_tops": lambda: qm.peek_tops(T),
        "count_range": lambda: qm.count_range(T, 1, 2),
        "remove": lambda: qm.remove(N, 1, 1),
        "create": lambda: qm.create_queue(rf"private$\{face}"),
        "delete": lambda: qm.delete_queue(r"private$\onceq.tracking"),
        "open": lambda: qm.open_queue(T),
        "a cursor": lambda: qm.cursor(T),
        "a branch": lambda: qm.branch(Xid(7, b"more", face.encode())),
        "xa.commit": lambda: qm.xa.commit(Xid(7, b"none", face.encode())),
        "xa.recover": lambda: qm.xa.recover(),
        "groups": lambda: qm.groups.list(),
        "decision": lambda: qm.decision(b"none"),
        "why": lambda: qm.admin.why(T),
    }


GONE = {
    "tx.send": DONE,
    "tx.send after a receive": LOST,
    "tx.receive after a receive": LOST,
    "tx.commit after a receive": LOST,
    "tx.abort after a receive": DONE,
    "tx.reject": LOST,
    "tx.abort of nothing": DONE,
    "tx.send_many": DONE,
    "tx.send_many of none": DONE,
    "branch.prepare": LOST,
    "branch.end": LOST,
    "branch.commit": LOST,
    "handle": HANDLE,
    "cursor": HANDLE,
    "handle.close": DONE,
    "handle.close once more": DONE,
    "cursor.close": DONE,
    "tx.send after its end": errors.TransactionOver,
    "tx.send of no property": errors.IllegalPropertyId,
    "tx.peek": errors.TransactionUsage,
    "tx.receive with a callback": errors.TransactionUsage,
    "receive of none": errors.InvalidParameter,
    "receive of two kinds": errors.InvalidParameter,
    "outcome of no commit": errors.InvalidParameter,
    "open for nothing": errors.InvalidParameter,
    "send of no body": errors.InvalidParameter,
}
"""What is not AWAY while nobody is there."""
BACK: dict[str, Any] = {name: what for name, what in GONE.items() if what is not DONE}
BACK["xa.commit"] = errors.UnknownBranch
"""What is not done when somebody is there again: what belonged to the old connection, or is wrong
in itself."""


def outcome(operation: Operation) -> type[BaseException] | None:
    try:
        operation()
    except onceq.OnceqError as error:
        return type(error)
    return DONE


def disturb(daemon: Daemon, how: str, *, back: bool) -> None:
    daemon.stop() if how == "stopped" else daemon.kill()
    if back:
        daemon.start()


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("back", [False, True], ids=["and away", "and back"])
def test_both_faces_see_the_same(
    daemon: Daemon, how: str, back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not back:
        monkeypatch.setattr(link, "RECONNECT_S", (0.0,))
    with faces(daemon) as clients:
        table = {face: prepared(qm, face) for face, qm in clients.items()}
        disturb(daemon, how, back=back)
        seen = {
            face: {name: outcome(operation) for name, operation in table[face].items()}
            for face in FACES
        }
        expected = {
            name: (BACK.get(name) if back else GONE.get(name, AWAY)) for name in seen["tasks"]
        }
        assert seen["threads"] == expected
        assert seen["tasks"] == expected
        if back:
            assert not [tx for tx in clients["threads"].admin.transactions() if tx["sent"]]


def test_all_of_it_is_one_kind() -> None:
    for kind in (AWAY, LOST, HANDLE, errors.LinkLost):
        assert issubclass(kind, errors.ServiceNotAvailable)
        assert not issubclass(kind, errors.UsageError)


ASKED: dict[str, Callable[[Any], Callable[[], object]]] = {
    "a receive that waits": lambda qm: lambda: qm.receive(N),
    "a receive in a transaction": lambda qm: _waiting(qm),
    "a commit": lambda qm: _committing(qm),
    "a send in a transaction of its own": lambda qm: lambda: qm.send(T, b"1", transactional=True),
    "a send": lambda qm: lambda: qm.send(N, b"1"),
}
"""What is under way when the manager stops."""


def _waiting(qm: Any) -> Callable[[], object]:
    tx = qm.transaction()
    return lambda: tx.receive(T)


def _committing(qm: Any) -> Callable[[], object]:
    tx = qm.transaction()
    tx.remove(T, 1, 1)
    tx.send(T, b"committed")
    return lambda: tx.commit()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("asked", ASKED)
def test_an_orderly_stop_answers_what_it_was_asked(
    daemon: Daemon, face: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Done, or certainly not: never in doubt. The request is in the socket when the stop comes."""
    monkeypatch.setattr(link, "RECONNECT_S", (0.0,))
    with faces(daemon) as clients:
        operation = ASKED[asked](clients[face])
        seen: list[type[BaseException] | None] = []
        daemon.signal(signal.SIGSTOP)
        thread = threading.Thread(target=lambda: seen.append(outcome(operation)))
        thread.start()
        daemon.signal(signal.SIGTERM)
        daemon.signal(signal.SIGCONT)
        daemon.stop()
        thread.join(WAIT_S)
        assert seen, "it hangs"
        (what,) = seen
    daemon.start()
    with onceq.connect(daemon.where) as qm:
        there = qm.queue(T).messages + qm.queue(N).messages
    assert what in (DONE, AWAY, LOST), "never in doubt, nor a lost connection"
    assert there == (what is DONE), "and true"
