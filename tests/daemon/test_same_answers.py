"""A daemon and an embedded queue manager tell the same of themselves: class by class, field by
field."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Iterator

import pytest

import onceq
from onceq.client.plans.plan import look_at as looking
from onceq.model.views.looks import LOOKS, LookEntry
from tests.daemon.process import Process

pytestmark = pytest.mark.slow

Q = r"private$\q"
FAR = "DIRECT=OS:NOWHERE\\private$\\stock"
NAMES = {
    "queue": Q, "outgoing-queue": FAR, "eod-send": FAR, "eod-receive": Q, "management": FAR,
    "explain-name": FAR, "copies": FAR, "consumers": Q, "range": f"0 {1 << 63} 0 0 {Q}",
}  # fmt: skip
NOT_HERE = {"job", "lists", "list", "trail", "trail-end"}
"""A job is none until one was started; lists need a directory; what a process does to the queue
manager in it stands in no trail."""
OWN = {
    "id", "name", "life", "instance", "created", "modified", "log_position", "began", "owner",
    "trouble", "trouble_since", "trouble_last", "attempts", "retry_in_s", "state", "history",
    "paused_since",
    "resend_at", "resend_in_s", "expires_next", "since", "stream", "xid", "gtrid",
    "format_name", "bytes", "seq_id", "stopped", "ended", "total", "counts", "total_s",
    "oldest_age_s", "in_doubt_oldest_age_s", "store_bytes", "disk_free",
    "connection", "who", "place", "started", "oldest", "manager", "position", "at",
}  # fmt: skip
"""What another manager, at another time, has of its own; only its class is compared."""


def work(qm: onceq.QueueManager) -> None:
    """Something to look at."""
    qm.create_queue(Q, transactional=True, label="told")
    with qm.transaction() as tx:
        tx.send_many(Q, [b"one", b"two"])
        tx.send(FAR, b"three")
    qm.admin.pause(FAR)
    qm.groups.attempt("job", 1)
    xid = qm.groups.attempt("job", 1).branch("0")
    with qm.branch(xid) as branch:
        branch.send(Q, b"of a group")
        branch.prepare()
    qm.groups.commit("job", 1, [xid])
    with qm.branch(onceq.Xid(7, b"global", b"part")) as branch:
        branch.send(Q, b"prepared")
        branch.prepare()
    qm.admin.scrub()
    qm.admin.scrub_stop()


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[onceq.QueueManager, onceq.QueueManager]]:
    folder = tmp_path_factory.mktemp("same")
    process = Process(folder / "alpha", "--create", "ALPHA", "--listen", "127.0.0.1:0").started()
    with (
        onceq.connect(str(process.path)) as outside,
        onceq.open(str(folder / "beta"), name="ALPHA", create=True) as inside,
    ):
        for qm in (outside, inside):
            work(qm)
        yield outside, inside
    process.end(signal.SIGTERM)


def told(qm: onceq.QueueManager, look: LookEntry[object]) -> object:
    found: object = qm._run(looking(look, NAMES.get(look.what, "")))
    return found


def same(here: object, there: object, at: str) -> None:
    """Equal, but for what is a manager's own; of the same class in any case."""
    assert type(here) is type(there), at
    if dataclasses.is_dataclass(here):
        for field in dataclasses.fields(here):
            mine, other = getattr(here, field.name), getattr(there, field.name)
            if field.name in OWN:
                assert type(mine) is type(other), f"{at}.{field.name}"
            else:
                same(mine, other, f"{at}.{field.name}")
    elif isinstance(here, list | tuple) and isinstance(there, list | tuple):
        assert len(here) == len(there), at
        for index, pair in enumerate(zip(here, there, strict=True)):
            same(*pair, f"{at}[{index}]")
    elif isinstance(here, dict) and isinstance(there, dict):
        assert here.keys() == there.keys(), at
        for name in here.keys() - OWN - {"formatname", "connection_history"}:
            same(here[name], there[name], f"{at}[{name}]")
    else:
        assert here == there, at


@pytest.mark.parametrize(
    "look", [look for what, look in LOOKS.items() if what not in NOT_HERE], ids=lambda one: one.what
)
def test_both_tell_the_same(
    both: tuple[onceq.QueueManager, onceq.QueueManager], look: LookEntry[object]
) -> None:
    outside, inside = both
    with outside.transaction() as one, inside.transaction() as other:
        for tx in (one, other):
            tx.receive(Q, timeout=5.0)
        same(told(outside, look), told(inside, look), look.what)
        for tx in (one, other):
            tx.abort()


def committed(qm: onceq.QueueManager) -> str:
    with qm.transaction() as tx:
        tx.send(Q, b"four")
    return tx.id


CALLS: list[Callable[[onceq.QueueManager], object]] = [
    lambda qm: qm.create_queue(r"private$\more", label="x"),
    lambda qm: qm.set_queue(r"private$\more", label="y"),
    lambda qm: qm.purge(r"private$\more"),
    lambda qm: qm.delete_queue(r"private$\more"),
    lambda qm: qm.admin.reload(),
    lambda qm: qm.admin.tidy(),
    lambda qm: qm.admin.action("TIDY"),
    lambda qm: qm.admin.action("PAUSE", FAR),
    lambda qm: qm.outcome(committed(qm)),
    lambda qm: qm.decision(b"onceq"),
    lambda qm: qm.groups.commit("job", 1, []),
    lambda qm: qm.groups.rollback("job", 9),
]


def test_requests_are_answered_alike(
    both: tuple[onceq.QueueManager, onceq.QueueManager],
) -> None:
    outside, inside = both
    for number, call in enumerate(CALLS):
        same(call(outside), call(inside), f"answer {number}")
