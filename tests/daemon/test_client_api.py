"""The same behaviour of every kind of client: embedded and connected, for threads and for tasks."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import onceq
from onceq import aio, errors
from onceq.client.tasks.administration import AsyncManagerConnection
from onceq.client.threads.administration import ManagerConnection
from onceq.model.branches import Xid
from tests.daemon.applications import KINDS, emptied, manager_with

T = r"private$\orders"
N = r"private$\plain"
NOW = 0.0


@pytest.fixture(scope="module", params=KINDS)
def manager(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with manager_with(request.param, tmp_path_factory, transactional=[T], plain=[N]) as qm:
        yield qm


@pytest.fixture
def qm(manager: Any) -> Iterator[Any]:
    """A manager whose queues are empty."""
    with emptied(manager):
        yield manager


def bodies(qm: Any, queue: str = T) -> list[bytes]:
    try:
        found: list[bytes] = qm.receive_many(queue, 10_000, timeout=NOW).bodies()
    except onceq.ReceiveTimeout:
        return []
    return found


# ---- queues ------------------------------------------------------------------------------


def test_who_it_is(qm: Any) -> None:
    assert qm.name == "ALPHA"
    assert len(qm.id) == 36
    assert qm.admin.status()["id"] == qm.id
    assert "ALPHA" in repr(qm)


def test_who_works_on_a_queue_is_named(qm: Any) -> None:
    qm.send_many(T, [b"1", b"2"], transactional=True)
    with qm.transaction() as tx:
        tx.receive(T, timeout=30)
        one = qm.consumers(T)[0]
        (begun,) = [view for view in qm.admin.transactions() if view.received]
        assert (one.queue, one.holds, one.since) == ("orders", 1, begun.began)
        assert (one.who, one.place, one.connection) == (begun.who, begun.place, begun.owner)
        # Of a queue manager in this process no place is known.
        assert one.place in ("", f"local, process {os.getpid()}")
        assert bool(one.who) is bool(one.place)
        tx.abort()
    assert all(not left.holds for left in qm.consumers(T))
    with pytest.raises(errors.QueueNotFound):
        qm.consumers(r"private$\none")


def test_queues_come_and_go(qm: Any) -> None:
    made = qm.create_queue(r".\private$\short", label="l", quota_kb=10)
    assert (made["path"], made["label"], made["quota_kb"]) == (r"private$\short", "l", 10)
    with pytest.raises(errors.QueueExists):
        qm.create_queue("private$/short")
    assert qm.create_queue("private$/short", exist_ok=True)["label"] == "l"
    with pytest.raises(errors.QueueExists):
        qm.create_queue("private$/short", exist_ok=True, transactional=True)
    assert "short" in {queue["name"] for queue in qm.queues()}
    qm.send_many("private$/short", [b"1", b"2"])
    assert qm.queue("private$/short")["messages"] == 2
    assert qm.purge("private$/short") == 2
    qm.send("private$/short", b"3")
    assert qm.delete_queue("private$/short") == 1
    with pytest.raises(errors.QueueNotFound):
        qm.queue("private$/short")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("public", errors.UnsupportedOperation),
        (r"private$\a;b", errors.IllegalPathName),
        (r"private$\a,b", errors.IllegalPathName),
        ("", errors.IllegalPathName),
        (r"private$\q;journal", errors.IllegalPathName),
    ],
)
def test_queues_that_cannot_be_made(qm: Any, name: str, error: type[errors.OnceqError]) -> None:
    with pytest.raises(error):
        qm.create_queue(name)


# ---- messages ----------------------------------------------------------------------------


def test_a_message_with_all_its_properties(qm: Any) -> None:
    id = qm.send(
        N, "text", label="l", priority=6, delivery="express", app_specific=7, body_type=8,
        correlation_id=b"c" * 20, extension=b"ext", time_to_be_received=100,
        response_queue=r"DIRECT=OS:BETA\private$\answers",
    )  # fmt: skip
    message = qm.receive(N, timeout=NOW)
    assert message.id == id
    assert (message.text, message.label, message.priority) == ("text", "l", 6)
    assert message.delivery is onceq.Delivery.EXPRESS
    assert (message.app_specific, message.body_type) == (7, 8)
    assert (message.correlation_id, message.extension) == (b"c" * 20, b"ext")
    assert message.time_to_be_received == 100
    assert message.response_queue.lower() == r"direct=os:beta\private$\answers"
    assert not message.transactional


def test_batches_keep_their_order(qm: Any) -> None:
    items = [b"%d" % n * (n % 50) for n in range(2_000)]
    ids = qm.send_many(T, items, transactional=True)
    assert [id.number - ids[0].number for id in ids] == list(range(2_000))
    assert bodies(qm) == items


def own_of(message: Any) -> tuple[Any, ...]:
    return (message.body, message.label, message.app_specific, message.body_type,
            message.correlation_id, message.extension)  # fmt: skip


def test_messages_of_a_batch_may_have_properties_of_their_own(qm: Any) -> None:
    sent = [
        (b"%d" % n * (n % 9), f"label {n}" if n % 3 else "", n, 8, b"%020d" % n, b"e" * (n % 4))
        for n in range(300)
    ]
    items, labels, numbers, _, correlations, extensions = (list(c) for c in zip(*sent, strict=True))
    more = {
        "label": [label or None for label in labels], "app_specific": numbers, "body_type": 8,
        "correlation_id": correlations, "extension": extensions,
    }  # fmt: skip
    qm.send_many(T, items, transactional=True, **more)
    with qm.transaction() as tx:
        for at in range(0, 300, 50):
            tx.send_many(T, items[at : at + 50], **{
                name: value[at : at + 50] if isinstance(value, list) else value
                for name, value in more.items()
            })  # fmt: skip
        tx.send(T, b"last", label="alone")
    found = list(qm.receive_many(T, 1_000, timeout=NOW))
    assert [own_of(message) for message in found[:-1]] == sent * 2
    assert found[-1].label == "alone"
    assert [m.first_in_transaction for m in found].count(True) == 2


@pytest.mark.slow
def test_a_batch_with_properties_of_their_own_of_many_frames(qm: Any) -> None:
    items = [bytes([n]) * (1 << 20) for n in range(36)]
    qm.send_many(T, items, transactional=True, label=[f"{n}" for n in range(36)])
    found: list[Any] = []
    while len(found) < 36:
        found += qm.receive_many(T, 100, timeout=NOW)
    assert [(m.label, m.body) for m in found] == [(f"{n}", b) for n, b in enumerate(items)]


@pytest.mark.slow
def test_a_batch_of_many_frames_is_one_transaction(qm: Any) -> None:
    items = [bytes([n]) * (1 << 20) for n in range(36)]
    ids = qm.send_many(T, items, transactional=True)
    assert len(ids) == 36
    found: list[bytes] = []
    while len(found) < 36:
        found += bodies(qm)
    assert found == items


def test_what_is_wrong_with_a_message_is_said_at_once(qm: Any) -> None:
    for wrong, error in (
        ({"label": "x" * 250}, errors.LabelTooLong),
        ({"correlation_id": b"x"}, errors.IllegalPropertySize),
        ({"priority": 8}, errors.IllegalPropertyValue),
        ({"lable": "x"}, errors.InvalidParameter),
        ({"label": ["x", "y"]}, errors.InvalidParameter),
    ):
        with pytest.raises(error):
            qm.send(N, b"x", **wrong)
    with pytest.raises(errors.BodyTooLarge):
        qm.send(N, bytes(5 << 20))
    with pytest.raises(errors.BodyTooLarge):
        qm.send(N, bytes((4 << 20) - 10))
    with pytest.raises(errors.QueueNotFound):
        qm.send(r"private$\nowhere", b"x")
    with pytest.raises(errors.IllegalFormatName):
        qm.send("DIRECT=nonsense", b"x")
    with pytest.raises(errors.UnsupportedFormatName):
        qm.send("SYSTEM$;DEADXACT", b"x")
    assert bodies(qm, N) == []


def test_nothing_there(qm: Any) -> None:
    for timeout in (NOW, 0.01):
        with pytest.raises(onceq.ReceiveTimeout):
            qm.receive(N, timeout=timeout)
        with pytest.raises(TimeoutError):
            qm.peek(N, timeout=timeout)
    with pytest.raises(errors.QueueNotFound):
        qm.receive(r"private$\nowhere", timeout=NOW)


def test_a_look_leaves_everything_where_it_is(qm: Any) -> None:
    qm.send_many(N, [b"1", b"2", b"3"])
    assert qm.peek(N).body == b"1"
    batch = qm.peek_many(N, 2)
    assert batch.bodies() == [b"1", b"2"]
    rest = qm.peek_many(N, after=batch.lookup_ids[-1])
    assert rest.bodies() == [b"3"]
    chosen = batch.lookup_ids[1]
    assert qm.peek(N, lookup_id=chosen).body == b"2"
    assert qm.receive(N, lookup_id=chosen).body == b"2"
    with pytest.raises(errors.MessageNotFound):
        qm.receive(N, lookup_id=chosen)
    assert bodies(qm, N) == [b"1", b"3"]


def test_messages_one_after_another(qm: Any) -> None:
    qm.send_many(N, [b"%d" % n for n in range(7)])
    assert [m.body for m in qm.messages(N)] == [b"%d" % n for n in range(7)]
    assert bodies(qm, N) == []


def test_system_queues_can_be_read(qm: Any) -> None:
    qm.send(T, b"lost", journal=onceq.Journal.DEADLETTER)
    qm.purge(T)
    message = qm.receive("SYSTEM$;DEADXACT", timeout=NOW)
    assert (message.body, message.message_class) == (b"lost", 0xC001)


# ---- transactions ------------------------------------------------------------------------


def test_a_transaction_happens_at_its_commit(qm: Any) -> None:
    with qm.transaction() as tx:
        tx.send(T, b"1", label="first")
        tx.send_many(T, [b"2", b"3"])
        assert bodies(qm) == []
        assert tx.id == ""
        assert not tx.sent
    assert len(tx.sent) == 3
    assert qm.outcome(tx.id) == "committed"
    batch = qm.receive_many(T, timeout=NOW)
    assert [m.id for m in batch] == list(tx.sent)
    assert [m.label for m in batch] == ["first", "", ""]
    assert [m.first_in_transaction for m in batch] == [True, False, False]
    assert [m.last_in_transaction for m in batch] == [False, False, True]


def test_an_exception_undoes_a_transaction(qm: Any) -> None:
    qm.send(T, b"keep", transactional=True)
    with pytest.raises(RuntimeError, match="mine"), qm.transaction() as tx:
        assert tx.receive(T, timeout=NOW).body == b"keep"
        tx.send(T, b"never")
        raise RuntimeError("mine")
    message = qm.receive(T, timeout=NOW)
    assert (message.body, message.abort_count) == (b"keep", 1)
    with pytest.raises(errors.TransactionOver):
        tx.commit()


def test_what_a_transaction_holds_nobody_else_sees(qm: Any) -> None:
    qm.send_many(T, [b"1", b"2"], transactional=True)
    with qm.transaction() as tx:
        assert tx.receive(T, timeout=NOW).body == b"1"
        assert qm.peek(T).body == b"2"
        (open_one,) = qm.admin.transactions()
        assert open_one
    assert bodies(qm) == [b"2"]


def test_receive_and_send_as_one_step(qm: Any) -> None:
    qm.send_many(T, [b"a", b"b", b"c"], transactional=True)
    with qm.transaction() as tx:
        batch = tx.receive_many(T, 2, timeout=NOW)
        tx.send_many(T, [body.upper() for body in batch.bodies()])
    assert bodies(qm) == [b"c", b"A", b"B"]


def test_a_range_is_removed_without_its_bytes(qm: Any) -> None:
    qm.send_many(T, [b"%d" % n for n in range(5)], transactional=True)
    batch = qm.peek_many(T)
    with qm.transaction() as tx:
        assert tx.remove(T, batch.lookup_ids[1], batch.lookup_ids[3]) == 3
    assert bodies(qm) == [b"0", b"4"]


@pytest.fixture
def tight(qm: Any) -> Iterator[str]:
    """A queue that takes one small message."""
    name = "private$/tight"
    qm.create_queue(name, transactional=True, quota_kb=1)
    yield name
    qm.delete_queue(name)


def _gathered(tx: Any, tight: str) -> None:
    """Refused by the commit: these calls ask nothing of the manager."""
    tx.send(tight, b"1")
    tx.send(tight, b"x" * 1_000)


def _shipped(tx: Any, tight: str) -> None:
    """Refused when it is shipped ahead, by a later call; whoever called that takes no notice."""
    tx.send(tight, b"x" * 1_100)
    with contextlib.suppress(errors.OnceqError):
        tx.send_many(T, [bytes(60_000)] * 80)


def _apart(tx: Any, tight: str) -> None:
    """Refused by its own call, which sends several frames."""
    with pytest.raises(errors.InsufficientResources):
        tx.send_many(tight, [bytes(60_000)] * 80)


def _alone(tx: Any, tight: str) -> None:
    """Refused by its own call, which sends one large message."""
    with pytest.raises(errors.InsufficientResources):
        tx.send(tight, bytes((4 << 20) - 2_000))


def _copies(tx: Any, tight: str) -> None:
    """One of several copies does not fit."""
    with contextlib.suppress(errors.InsufficientResources):
        tx.send(r"DIRECT=OS:.\private$\orders,DIRECT=OS:.\private$\tight", b"x" * 1_100)


REFUSALS = (_gathered, _shipped, _apart, _alone, _copies)


@pytest.mark.parametrize("refused", REFUSALS)
@pytest.mark.parametrize("began", [False, True], ids=["sends only", "received before"])
def test_a_send_that_was_refused_dooms_its_transaction(
    qm: Any, tight: str, refused: Callable[[Any, str], None], began: bool
) -> None:
    """S0, FN-15: the commit says so and does nothing, in every way that sends take."""
    qm.send(T, b"there", transactional=True)
    tx = qm.transaction()
    if began:
        assert tx.receive(T, timeout=NOW).body == b"there"
    tx.send(T, b"before")
    refused(tx, tight)
    with contextlib.suppress(errors.OnceqError):
        tx.send(T, b"behind")
    with pytest.raises(errors.SendFailed, match=r"tight.*quota-exceeded"):
        tx.commit()
    with pytest.raises(errors.TransactionOver, match="a send in it was refused"):
        tx.commit()
    assert not qm.admin.transactions(), "it was undone, not left open"
    assert bodies(qm) == [b"there"]
    assert bodies(qm, tight) == []


@pytest.mark.parametrize("refused", REFUSALS)
def test_a_branch_with_a_refused_send_votes_against(
    qm: Any, tight: str, refused: Callable[[Any, str], None]
) -> None:
    branch = qm.branch(Xid(7, b"doomed", refused.__name__.encode()))
    branch.send(T, b"before")
    refused(branch, tight)
    with pytest.raises(errors.SendFailed, match="tight"):
        branch.prepare()
    assert not qm.admin.branches()
    assert not qm.admin.transactions()
    assert bodies(qm) == bodies(qm, tight) == []


def test_the_end_of_a_block_says_that_a_send_was_refused(qm: Any, tight: str) -> None:
    with pytest.raises(errors.SendFailed, match="tight"), qm.transaction() as tx:
        tx.send(T, b"before")
        _apart(tx, tight)
    assert bodies(qm) == []


def test_a_gathered_send_that_is_wrong_in_itself_is_found_by_the_commit(qm: Any) -> None:
    tx = qm.transaction()
    tx.send(T, b"1")
    tx.send(T, b"2", journal=1, dead_letter_queue=r"private$\nowhere")
    with pytest.raises(errors.BadDeadLetterQueue, match="nowhere"):
        tx.commit()
    with pytest.raises(errors.TransactionOver):
        tx.commit()
    assert bodies(qm) == []


def test_a_wrong_name_is_refused_when_it_is_first_used(qm: Any) -> None:
    with qm.transaction() as tx:
        with pytest.raises(errors.QueueNotFound):
            tx.send(r"private$\nowhere", b"x")
        with pytest.raises(errors.LabelTooLong):
            tx.send(T, b"x", label="x" * 250)
        with pytest.raises(errors.BodyTooLarge):
            tx.send(T, bytes((4 << 20) - 10))
        tx.send(T, b"good")
    assert bodies(qm) == [b"good"]


@pytest.mark.slow
def test_a_transaction_larger_than_a_frame(qm: Any) -> None:
    with qm.transaction() as tx:
        for n in range(12):
            tx.send(T, bytes([n]) * (1 << 20))
        tx.send(T, b"small")
        assert bodies(qm) == []
    assert len(tx.sent) == 13
    found: list[bytes] = []
    while len(found) < 13:
        found += bodies(qm)
    assert [body[:1] for body in found[:12]] == [bytes([n]) for n in range(12)]


def test_an_empty_transaction_commits(qm: Any) -> None:
    with qm.transaction() as tx:
        pass
    assert qm.outcome(tx.id) == "committed"
    assert len(tx.sent) == 0


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_over_is_over(qm: Any, end: str) -> None:
    tx = qm.transaction()
    tx.send(T, b"1")
    getattr(tx, end)()
    for work in (tx.commit, tx.abort, lambda: tx.send(T, b"x"),
                 lambda: tx.receive(T, timeout=NOW)):  # fmt: skip
        with pytest.raises(errors.TransactionOver):
            work()
    assert bodies(qm) == ([b"1"] if end == "commit" else [])


def test_what_a_transaction_cannot_do(qm: Any) -> None:
    tx = qm.transaction()
    with pytest.raises(errors.TransactionUsage):
        tx.peek(T)
    with pytest.raises(errors.TransactionUsage):
        tx.receive(N, timeout=NOW)
    with pytest.raises(errors.NotSupported):
        tx.commit(retaining=True)
    tx.abort()


def test_outcomes_are_true_and_final(qm: Any) -> None:
    tx = qm.transaction()
    tx.send(T, b"1")
    tx.commit()
    assert qm.outcome(tx.id) == "committed"
    session, _, number = tx.id.partition("-")
    with pytest.raises(errors.InvalidParameter):
        qm.outcome(f"{session}-{int(number) + 100}")
    with pytest.raises(errors.InvalidParameter):
        qm.outcome("nonsense")
    strange = session[:8] + "ff" * 12 + "-1"
    assert qm.outcome(strange) == "aborted"
    with pytest.raises(errors.InvalidParameter, match="clock"):
        qm.outcome("ff" * 16 + "-1")
    assert qm.outcome("00" * 16 + "-1") == "unknown"


# ---- held open ---------------------------------------------------------------------------


def test_a_queue_held_open(qm: Any) -> None:
    with qm.open_queue(N, share="deny-receive") as held:
        assert held.local
        assert held.transactional is False
        held.send(b"1")
        qm.send_many(N, [b"2", b"3"])
        assert held.peek().body == b"1"
        assert held.peek_many(2).bodies() == [b"1", b"2"]
        with pytest.raises(errors.SharingViolation):
            qm.receive(N, timeout=NOW)
        assert held.receive(timeout=NOW).body == b"1"
        assert held.receive_many(timeout=NOW).bodies() == [b"2", b"3"]
    with pytest.raises(errors.InvalidHandle):
        held.receive(timeout=NOW)
    with pytest.raises(onceq.ReceiveTimeout):
        qm.receive(N, timeout=NOW)


def test_wrong_ways_to_open(qm: Any) -> None:
    for access, share in (("write", "none"), ("receive", "all")):
        with pytest.raises(errors.InvalidParameter):
            qm.open_queue(N, access=access, share=share)
    with pytest.raises(errors.UnsupportedAccessMode):
        qm.open_queue(N, access="send", share="deny-receive")
    with qm.open_queue(N, access="peek") as held, pytest.raises(errors.InvalidHandle):
        held.receive(timeout=NOW)


# ---- operating ---------------------------------------------------------------------------


def test_outgoing_queues_are_steered(qm: Any) -> None:
    far = r"DIRECT=OS:NOWHERE.invalid\private$\far"
    qm.send(far, b"x", transactional=True)
    qm.admin.pause(far)
    view = qm.admin.outgoing_queue(far)
    assert (view["messages"], view["state"]) == (1, "ONHOLD")
    assert "paused" in qm.admin.why(far)
    assert view["destination"] in {v["destination"] for v in qm.admin.outgoing()}
    assert qm.peek(far).body == b"x"
    qm.admin.resume(far)
    qm.admin.resend(far)
    assert qm.admin.outgoing_queue(far)["state"] != "ONHOLD"
    assert qm.purge(far) == 1
    assert qm.admin.streams() == []
    with pytest.raises(errors.QueueNotFound):
        qm.admin.pause(r"DIRECT=OS:NOBODY\private$\x")


# ---- the faces ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sync", "tasks"),
    [
        (onceq.QueueManager, aio.AsyncQueueManager),
        (onceq.Transaction, aio.AsyncTransaction),
        (onceq.OpenQueue, aio.AsyncOpenQueue),
        (onceq.ManagerAdmin, aio.AsyncManagerAdmin),
        (onceq.ManagerJobs, aio.AsyncManagerJobs),
        (onceq.ManagerLists, aio.AsyncManagerLists),
        (onceq.ManagerRights, aio.AsyncManagerRights),
        (onceq.ManagerTokens, aio.AsyncManagerTokens),
    ],
)
def test_both_faces_have_the_same_names(sync: type, tasks: type) -> None:
    def public(kind: type) -> dict[str, inspect.Signature | None]:
        return {
            name: inspect.signature(value) if inspect.isfunction(value) else None
            for part in kind.__mro__
            if part in (kind, ManagerConnection, AsyncManagerConnection)
            for name, value in vars(part).items()
            if not name.startswith("_")
        }

    mine, others = public(sync), public(tasks)
    assert mine.keys() == others.keys()
    for name, signature in mine.items():
        if signature is not None:
            other = others[name]
            assert other is not None
            assert str(signature).split(" -> ")[0] == str(other).split(" -> ")[0], name


def test_both_modules_open_the_same_way() -> None:
    for name in ("open", "connect"):
        first, second = getattr(onceq, name), getattr(aio, name)
        arguments = [str(inspect.signature(f)).split(" -> ")[0] for f in (first, second)]
        assert arguments[0] == arguments[1]
