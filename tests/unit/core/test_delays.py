"""Delayed messages in the core alone: what records and checkpoints keep of them."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from onceq.core.inputs import Tick
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.queues import Queue
from onceq.core.state.records import VERSION_DUE
from onceq.core.state.snapshot import (
    CHECKPOINT_VERSION,
    CHECKPOINT_VERSION_DUE,
    CHECKPOINT_VERSION_PLACES,
)
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.limits import DELAY_LOOK_S
from onceq.model.message import Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.settings import Settings
from tests.unit.core.alone import IDENTITY, WALL_S, Core

Q = r"private$\q"
DELAYED = Q + ";delayed"
AWAY = r"DIRECT=OS:elsewhere\private$\q"


@pytest.fixture
def core() -> Core:
    core = Core()
    made = QueueProperties("q", transactional=True)
    core.ask(requests.CreateQueue(properties=made, instance=b"Q" * 16))
    return core


def item(*bodies: bytes, to: str = Q, **properties: Any) -> requests.SendItem:
    return requests.SendItem(to, Properties(**properties), Run.of(bodies))


def send(core: Core, *bodies: bytes, **properties: Any) -> None:
    core.ask(requests.Commit(0, (item(*bodies, **properties),)))


def restored(core: Core) -> Core:
    """From a checkpoint of now, and nothing else."""
    taken = b"".join(map(bytes, core.manager.snapshot().encode()))
    core.manager = Manager(IDENTITY, Settings())
    position = core.records[-1][0] + 8 + len(core.records[-1][1]) + 64
    core.kept(core.manager.recover(core.now(), taken, [], position, entropy=bytes(ENTROPY_BYTES)))
    return core


def version_of(core: Core) -> int:
    head = b"".join(map(bytes, core.manager.snapshot().encode()))
    version: int = struct.unpack_from("<I", head)[0]
    return version


def test_a_checkpoint_keeps_the_times(core: Core) -> None:
    send(core, b"1", b"2", delay=10)
    send(core, b"3", delay=5)
    assert version_of(core) == CHECKPOINT_VERSION_DUE, "an older onceq refuses it"
    restored(core)
    assert core.present() == {"q;delayed": 3}
    core.pass_time(6)
    assert core.present() == {"q": 1, "q;delayed": 2}
    core.pass_time(5)
    assert core.present() == {"q": 3}
    assert version_of(core) == CHECKPOINT_VERSION_PLACES, "this life has places of its own"


def test_records_keep_the_times(core: Core) -> None:
    send(core, b"1", delay=10)
    (put,) = [payload for _, payload in core.records if payload[1] == VERSION_DUE]
    assert put[0] == 1
    core.manager = core.again()
    core.pass_time(9)
    assert core.present() == {"q;delayed": 1}
    core.pass_time(2)
    core.manager = core.again()
    assert core.present() == {"q": 1}


def test_a_checkpoint_tells_of_the_times_of_a_prepared_branch(core: Core) -> None:
    xid = Xid(1, b"g", b"b")
    core.ask(requests.StartBranch(7, xid))
    core.ask(requests.PrepareBranch(xid, 7, (item(b"1", delay=10),)))
    assert version_of(core) == CHECKPOINT_VERSION_DUE
    restored(core)
    core.ask(requests.CommitBranch(xid))
    assert core.present() == {"q;delayed": 1}
    core.pass_time(11)
    assert core.present() == {"q": 1}


def test_what_is_not_delayed_leaves_records_and_checkpoints_as_they_were(core: Core) -> None:
    send(core, b"1", delay=0)
    assert {bytes(payload[1:2]) for _, payload in core.records} <= {b"\1", b"\3"}
    taken = b"".join(map(bytes, core.manager.snapshot().encode()))
    version, size = struct.unpack_from("<II", taken)
    assert version == CHECKPOINT_VERSION
    assert all("due" not in lane for lane in json.loads(taken[8 : 8 + size])["lanes"])


def test_it_wakes_when_something_is_due_and_looks_at_the_clock_meanwhile(core: Core) -> None:
    assert core.manager.next_timer() is None
    send(core, b"1", delay=10)
    assert core.manager.next_timer() == core.now_us + 10_000_000
    send(core, b"2", to=AWAY, delay=5)
    core.ask(requests.PurgeQueue(DELAYED))
    send(core, b"3", delay=10 * DELAY_LOOK_S)
    core.pass_time(11)
    due = core.manager.next_timer()
    assert due is not None
    assert due <= core.now_us + DELAY_LOOK_S * 1_000_000
    core.step(Tick())
    assert core.present()["q;delayed"] == 1


def test_an_empty_subqueue_goes_and_a_locked_message_keeps_its_time(core: Core) -> None:
    send(core, b"1", delay=10)
    core.ask(requests.Begin(1))
    core.ask(requests.Receive(DELAYED, 1))
    core.pass_time(20)
    assert core.present() == {"q;delayed held": 1}
    core.ask(requests.Abort(1))
    core.pass_time(0)
    assert core.present() == {"q": 1}
    assert not core.manager.state.subqueues


def test_a_move_to_another_subqueue_ends_the_delay(core: Core) -> None:
    send(core, b"1", delay=10)
    sub = next(iter(core.manager.state.subqueues.values()))
    assert isinstance(sub, Queue)
    core.ask(requests.MoveMessage(DELAYED, Q + ";kept", 7 << 56 | 1))
    core.pass_time(20)
    assert core.present() == {"q;kept": 1}


def test_the_time_of_the_send_counts_and_not_that_of_the_commit(core: Core) -> None:
    core.ask(requests.Begin(1))
    core.ask(requests.Send(1, (item(b"1", delay=10),)))
    core.pass_time(6)
    core.ask(requests.Commit(1))
    assert core.present() == {"q;delayed": 1}
    (lane,) = next(iter(core.manager.state.subqueues.values())).lanes.values()
    assert lane.due is not None
    assert lane.due.next == WALL_S + 11
    core.pass_time(5)
    assert core.present() == {"q": 1}
