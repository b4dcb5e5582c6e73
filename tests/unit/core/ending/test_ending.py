"""Endings in the core alone: what records say of them, and what checkpoints keep."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.core import inputs
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import ACKS_OWED, DEAD_XACT, JOURNAL
from onceq.core.state.records import decode
from onceq.core.state.setups import Setup
from onceq.core.state.snapshot import restore, snapshot
from onceq.core.state.state import State
from onceq.core.transfer import outgoing_queue
from onceq.model import requests
from onceq.model.log import FRAME_HEADER
from onceq.model.message import Acknowledge, Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.resultcodes import MessageClass
from onceq.model.run import Extent, Run
from onceq.model.settings import Settings
from onceq.packet.acks import FinalAck
from tests.unit.core.alone import IDENTITY, Core

Q, N, FAR, OWN = "private$\\q", "private$\\n", "DIRECT=OS:B\\private$\\q", "private$\\own"
OWED_BYTES = 300


def stage() -> Core:
    core = Core()
    for name, transactional in (("q", True), ("n", False), ("own", True), ("adm", False)):
        properties = QueueProperties(name, transactional=transactional, journal=name == "q")
        core.ask(requests.CreateQueue(properties=properties, instance=b"I" * 16))
    return core


def pay(core: Core) -> None:
    """What the engine does: read what is owed, and hand it in."""
    found = core.manager.owed(OWED_BYTES)
    if found is not None:
        data = b"".join(read(core, extent) for extent in found.extents)
        core.step(inputs.Compose(found.lane, found.counters, Run(data, found.lengths)))


def read(core: Core, extent: Extent) -> bytes:
    position, payload = max(
        (record for record in core.records if record[0] < extent.address), key=lambda r: r[0]
    )
    at = extent.address - position - FRAME_HEADER
    return bytes(payload[at : at + extent.size])


def send(core: Core, name: str, level: int, journal: int, count: int, lifetime: int) -> None:
    own = OWN if journal & 1 and name != N else ""
    properties = Properties(
        acknowledge=Acknowledge(level), admin_queue="private$\\adm", journal=Journal(journal),
        time_to_be_received=lifetime, dead_letter_queue=own,
    )  # fmt: skip
    item = requests.SendItem(name, properties, Run.of([b"x" * count] * count))
    if name == N:
        core.ask(requests.Send(0, (item,)))
    else:
        core.ask(requests.Commit(0, (item,)))


def take(core: Core, name: str, count: int, how: str) -> None:
    tx = core.asked + 1
    if name != Q:
        core.ask(requests.Receive(name, 0, count))
        return
    core.ask(requests.Begin(tx))
    core.ask(requests.Receive(name, tx, count))
    if how == "purged":
        core.ask(requests.PurgeQueue(name))
    if how == "kept":
        core.ask(requests.Commit(tx))
    else:
        core.ask(requests.Abort(tx))


names = st.sampled_from([Q, N, FAR])
steps = st.one_of(
    st.tuples(
        st.just(send), names, st.integers(0, 15), st.integers(0, 3), st.integers(1, 4),
        st.sampled_from([3, 8, 0xFFFF_FFFF]),
    ),
    st.tuples(
        st.just(take), st.sampled_from([Q, N, OWN, "private$\\adm"]), st.integers(1, 5),
        st.sampled_from(["kept", "given back", "purged"]),
    ),
    st.tuples(
        st.just(
            lambda core, name: core.ask(
                requests.PurgeQueue(name)
            )
        ),
        names,
    ),
    st.tuples(st.just(lambda core, s: core.pass_time(s)), st.integers(1, 5)),
    st.tuples(st.just(pay)),
)  # fmt: skip


def replayed(core: Core) -> State:
    state = State(IDENTITY)
    for at, payload in core.records:
        record = decode(payload, 0)
        if isinstance(record, Setup):
            state.apply_setup(record)
        else:
            assert isinstance(record, tuple)
            change, offsets = record
            state.apply(change, at, offsets)
    return state


def restarted(core: Core) -> Core:
    other = Core()
    other.records, other.now_us = list(core.records), core.now_us
    other.manager = Manager(IDENTITY, Settings())
    position = core.manager.position
    entropy = bytes(ENTROPY_BYTES)
    other.kept(other.manager.recover(other.now(), None, core.records, position, entropy=entropy))
    return other


@given(st.lists(steps, max_size=15))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_records_and_checkpoints_say_the_same_of_endings(
    history: list[tuple[Callable[..., None], object]],
) -> None:
    core = stage()
    for work, *arguments in history:
        work(core, *arguments)
    state = core.manager.state
    whole = b"".join(map(bytes, snapshot(state)))
    assert b"".join(map(bytes, snapshot(replayed(core)))) == whole
    other = State(IDENTITY)
    restore(other, whole)
    assert b"".join(map(bytes, snapshot(other))) == whole
    counted = {queue.number: len(queue) for queue in state.all_queues.values() if len(queue)}
    assert counted == {number: count for number, count in state.recount().items() if count}


@given(st.lists(steps, max_size=15), st.integers(0, 40))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_what_is_owed_is_paid_once_whenever_it_crashes(
    history: list[tuple[Callable[..., None], object]], crash: int
) -> None:
    """Acknowledgments after a crash in the middle of paying are those without one."""
    core = stage()
    for work, *arguments in history:
        work(core, *arguments)
    told = []
    for late in (False, True):
        again = restarted(core)
        for at in range(60):
            if late and at == crash:
                again = restarted(again)
            pay(again)
        state = again.manager.state
        assert not len(state.all_queues[ACKS_OWED])
        told.append(len(state.queues["private$\\adm"]))
    assert told[0] == told[1]


@pytest.mark.parametrize("journal", range(4))
@pytest.mark.parametrize(
    "message_class", [0x4000, 0x4001, 0x5FFF, 0x8003, 0x8123, 0xC000, 0xC0FF, 0xFFFF]
)
def test_final_acknowledgments_of_any_class(journal: int, message_class: int) -> None:
    core = stage()
    send(core, FAR, 0, journal, 1, 0xFFFF_FFFF)
    state = core.manager.state
    (far,) = state.outgoing.values()
    assert isinstance(far, OutgoingQueue)
    ack = FinalAck(b"B" * 16, message_class, far.stream, 1, 0, IDENTITY.guid, 1)
    outgoing_queue.final_acked(core.manager._step, ack)
    assert not len(far)
    negative = bool(message_class & 0x8000)
    own = state.queues["private$\\own"]
    assert len(own) == int(negative and bool(journal & 1))
    assert len(state.all_queues[JOURNAL]) == int(not negative and bool(journal & 2))
    refused = message_class == MessageClass.NACK_QUEUE_EXCEED_QUOTA
    # What a destination refuses is kept, whether that was asked for or not (finding U1).
    assert len(state.all_queues[DEAD_XACT]) == int(refused and not journal & 1)
    assert list(own.lanes[0].classes.values()) == [message_class] * len(own)
    assert not state.all_queues[JOURNAL].lanes[0].classes, "a copy is what it was"
    outgoing_queue.final_acked(core.manager._step, ack)
    assert len(own) <= 1, "told again, it means nothing"
