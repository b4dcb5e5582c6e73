"""What ends in a copy, and what is void from then on (findings D3, D4, J8 and J9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.core.decision import Notice
from onceq.core.inputs import PutBack
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.audit_trail import ReportRequest, ReportRequests
from onceq.core.state.queue_tables import ACKS_OWED
from onceq.core.state.records import (
    PUT_ACK_RECEIVE,
    PUT_ACKS,
    PUT_DEADLETTER,
    PUT_FINAL,
    PUT_WANTS,
    decode,
)
from onceq.core.state.setups import StorePutBack, read_row
from onceq.model import requests
from onceq.model.message import Acknowledge, Journal, Properties
from onceq.model.settings import Settings
from onceq.model.views.managers import Restored
from tests.unit.core.alone import IDENTITY, WALL_S, Core
from tests.unit.core.somebody import ORDERS, XID, core, item, prepared

OLD = b"O" * 16
ASKS = Properties(
    acknowledge=Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_RECEIVE,
    admin_queue=r"DIRECT=OS:B\private$\adm",
    journal=Journal.DEADLETTER,
)


def copied(made: Core) -> None:
    made.ask(PutBack(0, 0, WALL_S - 60, 500, OLD, ()))


def wishes(made: Core) -> list[tuple[int, int]]:
    """Counts and flags of what somebody wants to know."""
    return [
        (one.count, one.flags)
        for queue in made.manager.state.all_queues.values()
        for wanted in queue.wanting.values()
        for one in wanted
    ]


def test_what_is_wanted_of_ends_to_come_is_void_but_for_dead_letters() -> None:
    made = core()
    made.ask(requests.Commit(0, [replace(item(count=3), properties=ASKS)]))
    made.ask(requests.Receive(ORDERS))
    queue = made.manager.state.queues["private$\\orders"]
    (lane,) = queue.wanting
    came = ReportRequest(9, 1, OLD, 7, 1, 1, PUT_WANTS | PUT_FINAL | PUT_ACK_RECEIVE, 0)
    queue.wanting[lane] = ReportRequests([*queue.wanting[lane], came])
    assert [flags & PUT_ACKS for _, flags in wishes(made)].count(0) == 0
    copied(made)
    ((_, flags),) = wishes(made)
    assert flags & ~PUT_WANTS == PUT_DEADLETTER


def test_what_is_owed_when_the_backup_is_taken_is_not_paid() -> None:
    made = core()
    made.ask(requests.Commit(0, [replace(item(count=3), properties=ASKS)]))
    made.ask(requests.Receive(ORDERS, count_max=3))
    owed = made.manager.state.all_queues[ACKS_OWED]
    assert len(owed) == 3
    copied(made)
    assert len(owed) == 0
    assert not made.manager.state.outgoing


@pytest.mark.parametrize("previous", [b"", OLD])
def test_the_operator_is_told_of_what_has_ended(previous: bytes) -> None:
    made = core()
    prepared(made, XID)
    made.ask(PutBack(0, 0, WALL_S - 60, 500, previous, ()))
    manager = Manager(IDENTITY, Settings())
    at = made.manager.position
    decision = manager.recover(made.now(), None, made.records, at, entropy=bytes(ENTROPY_BYTES))
    (notice,) = [one for one in decision.actions if isinstance(one, Notice)]
    counts: dict[str, Any] = {
        "set_aside": 0, "jobs_cancelled": 0, "promises_undone": 1, "tokens_dropped": 0,
    }  # fmt: skip
    assert {k: v for k, v in notice.values.items() if k in counts} == (counts if previous else {})
    assert len(manager.state.branches) == (0 if previous else 1)


def test_records_and_checkpoints_of_older_versions_say_less() -> None:
    raw = (
        b'\x02\x01["restored",{"aside":3,"at_s":9,"position":500,"previous":"","taken_s":5,'
        b'"told":true}]'
    )
    told = decode(memoryview(raw), 0)
    assert isinstance(told, StorePutBack)
    assert (told.aside, told.jobs, told.promises, told.tokens) == (3, 0, 0, 0)
    assert read_row(Restored, [9, 5, 500, "", 3, True]) == Restored(9, 5, 500, "", 3, told=True)
