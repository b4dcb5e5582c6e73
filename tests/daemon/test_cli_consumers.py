"""Who works on a queue, from the desk: which program holds messages, waits, or has it open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import onceq
from onceq.cli import out
from onceq.model.branches import Xid
from tests.daemon.shell import Shell

pytestmark = pytest.mark.slow

Q = "private$/held"
XID = Xid(7, b"not-decided", b"queue")
HERE = f"local, process {os.getpid()}"


@pytest.fixture
def qm(onceq_: Shell) -> Iterator[onceq.QueueManager]:
    with onceq.connect(str(onceq_.alpha)) as made:
        made.create_queue(Q, transactional=True)
        made.send_many(Q, [b"1", b"2", b"3", b"4"], transactional=True)
        yield made
        made.delete_queue(Q)


def shown(onceq_: Shell) -> list[dict[str, Any]]:
    told: Any = onceq_.json("queue", "show", Q)
    found: list[dict[str, Any]] = told["consumers"]
    return found


def test_queue_show_says_who_works_on_it(
    onceq_: Shell, qm: onceq.QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(onceq_) == []
    assert "nobody waits at it, has it open or holds messages" in onceq_("queue", "show", Q)
    with qm.transaction() as tx, qm.open_queue(Q, access="peek", note="a look"):
        tx.receive(Q, timeout=5)
        tx.receive(Q, timeout=5)
        (one,) = shown(onceq_)
        (begun,) = [t for t in qm.admin.transactions() if t.received]
        assert (one["holds"], one["opened"], one["access"], one["says"]) == (2, 1, "peek", "a look")
        assert (one["who"], one["place"], one["connection"]) == (begun.who, HERE, begun.owner)
        assert one["who"].startswith("account:")
        monkeypatch.setattr(out, "width", lambda: 80)
        *_, header, row = onceq_("queue", "show", Q).splitlines()
        assert header.split()[:4] == ["who", "from", "holds", "waiting"]
        assert row.startswith(f"{one['who']}  {HERE}")
        assert max(len(header), len(row)) <= 80
        listed = onceq_("tx", "list").splitlines()
        assert any(begun.who in line and len(line) <= 80 for line in listed)
        tx.abort()
    assert shown(onceq_) == []


def test_a_prepared_branch_is_named_after_its_program_has_gone(
    onceq_: Shell, qm: onceq.QueueManager
) -> None:
    with onceq.connect(str(onceq_.alpha)) as other:
        work = other.branch(XID)
        work.receive(Q, timeout=5)
        work.end()
        other.xa.prepare(XID)
    (one,) = shown(onceq_)
    assert (one["holds"], one["connection"], one["branch"]) == (1, 0, str(XID))
    assert str(XID) in onceq_("queue", "show", Q)
    qm.xa.rollback(XID)
    assert shown(onceq_) == []


def test_the_trail_names_the_process_of_an_act(onceq_: Shell, qm: onceq.QueueManager) -> None:
    act = next(a for a in reversed(qm.admin.trail()) if a.what == "create queue")
    assert (act.about, act.where) == (r"private$\held", HERE)
