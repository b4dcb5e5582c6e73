"""A change under construction counts what it brings: quotas hold, and work grows with its size."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest

from onceq.core import inputs
from onceq.core.state.queue_tables import DEAD_XACT
from onceq.core.state.queues import Queue
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.message import Acknowledge, Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.packet.address import Address
from onceq.packet.arrived import cut
from onceq.packet.encode import encode_run, template
from tests.unit.core.alone import WALL_S, Core
from tests.unit.core.effort import lines

A, B, DEAD = "private$\\a", "private$\\b", "private$\\dead"
HERE = "DIRECT=OS:.\\"
ASKING = Properties(journal=Journal.DEADLETTER, dead_letter_queue=DEAD)


def stage(quota_kb: int = 1) -> Core:
    """Queues a and b, and a dead-letter queue of the sender's own."""
    core = Core()
    for name in ("a", "b", "dead"):
        properties = QueueProperties(name, transactional=True)
        if name == "dead":
            properties = QueueProperties(name, transactional=True, quota_kb=quota_kb)
        core.ask(requests.CreateQueue(properties=properties, instance=b"I" * 16))
    return core


def bytes_in(core: Core, name: str) -> int:
    return core.manager.state.queues[name].bytes


def system_dead(core: Core) -> Queue:
    found = core.manager.state.all_queues[DEAD_XACT]
    assert isinstance(found, Queue)
    return found


def items(name: str, size: int, count: int) -> tuple[requests.SendItem, ...]:
    return tuple(requests.SendItem(name, ASKING, Run.of([b"x" * size])) for _ in range(count))


def delete(core: Core, name: str) -> None:
    core.ask(requests.DeleteQueue(name))


def test_refused_sends_of_a_transaction_stay_within_the_quota_of_their_dead_letter_queue() -> None:
    core = stage()
    core.ask(requests.Begin(7))
    core.ask(requests.Send(7, items(A, 300, 4)))
    delete(core, A)
    core.ask(requests.Commit(7))
    assert 0 < bytes_in(core, DEAD) <= 1_024
    assert len(core.manager.state.queues[DEAD]) + len(system_dead(core)) == 4


def test_refused_sends_of_a_prepared_branch_stay_within_the_quota() -> None:
    """Their packets are in the log already: the change has their lengths only."""
    core, xid = stage(), Xid(7, b"t", b"b")
    core.ask(requests.StartBranch(7, xid))
    core.ask(requests.Send(7, items(A, 300, 4)))
    core.ask(requests.PrepareBranch(xid, 7))
    delete(core, A)
    core.ask(requests.CommitBranch(xid))
    assert 0 < bytes_in(core, DEAD) <= 1_024
    assert len(core.manager.state.queues[DEAD]) + len(system_dead(core)) == 4


def test_a_copy_that_fits_goes_to_the_dead_letter_queue_that_it_names() -> None:
    """One message to two queues, one of which is deleted: only one copy is a dead letter."""
    core = stage()
    both = f"{HERE}{A},{HERE}{B}"
    core.ask(requests.Begin(7))
    core.ask(requests.Send(7, items(both, 400, 1)))
    delete(core, A)
    core.ask(requests.Commit(7))
    assert len(core.manager.state.queues[B]) == 1
    assert len(core.manager.state.queues[DEAD]) == 1
    assert not len(system_dead(core))


# ---- work ---------------------------------------------------------------------------------------


def send_alternating(core: Core, count: int, *, lifetime_s: int = 0) -> None:
    """Every second message asks for a dead letter in the sender's own queue."""
    plain = Properties()
    if lifetime_s:
        plain = Properties(time_to_be_received=lifetime_s)
    asking = Properties(
        journal=Journal.DEADLETTER, dead_letter_queue=DEAD,
        time_to_be_received=plain.time_to_be_received,
    )  # fmt: skip
    pair = [requests.SendItem(A, p, Run.of([b"x"])) for p in (plain, asking)]
    core.ask(requests.Commit(0, tuple(pair * (count // 2))))
    assert len(core.manager.state.queues[A]) == count


def to_its_end(core: Core, request: requests.Request) -> int:
    """What a request costs with all the portions that follow."""

    def work() -> None:
        core.ask(request)
        core.pass_time(0)

    worked = lines(work)
    assert not core.manager.at_work
    return worked


def purging(count: int) -> int:
    core = stage(quota_kb=1_000_000)
    send_alternating(core, count)
    worked = to_its_end(core, requests.PurgeQueue(A))
    assert not len(core.manager.state.queues[A])
    assert len(core.manager.state.queues[DEAD]) == count // 2
    return worked


def deleting(count: int) -> int:
    core = stage(quota_kb=1_000_000)
    send_alternating(core, count)
    worked = to_its_end(core, requests.DeleteQueue(A))
    assert A not in core.manager.state.queues
    assert len(core.manager.state.queues[DEAD]) == count // 2
    return worked


def expiring(count: int) -> int:
    core = stage(quota_kb=1_000_000)
    send_alternating(core, count, lifetime_s=5)
    worked = lines(lambda: core.pass_time(6))
    assert len(core.manager.state.queues[DEAD]) == count // 2
    return worked


def receiving(count: int) -> int:
    """One transaction, which is not cut into portions, receives from two queues in turn."""
    core = stage()
    for name in (A, B):
        core.ask(requests.SetQueue(name, {"journal": True}))
        batch = (requests.SendItem(name, Properties(), Run.of([b"x"] * (count // 2))),)
        core.ask(requests.Commit(0, batch))
    core.ask(requests.Begin(7))
    for _ in range(count // 2):
        for name in (A, B):
            core.ask(requests.Receive(name, transaction=7))
    worked = to_its_end(core, requests.Commit(7))
    assert len(core.manager.state.queues[A]) + len(core.manager.state.queues[B]) == 0
    return worked


def arrive(core: Core, count: int) -> None:
    """Messages of another manager, of which every second one asks how it ends."""
    packets = []
    for number in range(1, count + 1):
        properties = Properties(journal=Journal.DEADLETTER if number % 2 else Journal.NONE)
        made = template(
            source=b"B" * 16, destination=Address(7, direct=f"OS:A\\{A}"),
            destination_manager=bytes(16), properties=properties, sent_time=WALL_S,
            transactional=True,
        )  # fmt: skip
        (packet,) = encode_run(
            made, Run.of([b"x"]), first_message=number, stream=1 << 40, first_number=number,
            transaction=1, first=True, last=True,
        )  # fmt: skip
        packets.append(packet)
    core.step(inputs.SessionOpened(1, b"B" * 16, "10.0.0.2", outgoing=0))
    for run in cut(b"".join(packets), array("I", map(len, packets))):
        core.step(inputs.Arrived(1, run))
    assert len(core.manager.state.queues[A]) == count


def telling(count: int) -> int:
    core = stage()
    arrive(core, count)
    worked = to_its_end(core, requests.PurgeQueue(A))
    assert not len(core.manager.state.queues[A])
    return worked


def acknowledging(count: int) -> int:
    """One batch whose arrival is acknowledged here, message by message."""
    core = stage()
    adm = QueueProperties("adm")
    core.ask(requests.CreateQueue(properties=adm, instance=b"I" * 16))
    p = Properties(acknowledge=Acknowledge.POSITIVE_ARRIVAL, admin_queue="private$\\adm")
    batch = tuple(requests.SendItem(A, p, Run.of([b"x"])) for _ in range(count))
    worked = lines(lambda: core.ask(requests.Commit(0, batch)))
    assert len(core.manager.state.queues["private$\\adm"]) == count
    return worked


@pytest.mark.tier("rest")
@pytest.mark.slow
@pytest.mark.parametrize(
    "working", [purging, deleting, expiring, receiving, telling, acknowledging]
)
def test_work_grows_with_the_number_of_messages_and_no_faster(
    working: Callable[[int], int],
) -> None:
    few, many = working(500), working(2_000)
    assert many < 4.6 * few, f"{few} lines for 500 messages, {many} for 2,000"


@pytest.mark.tier("rest")
@pytest.mark.slow
def test_a_purge_of_twenty_thousand_messages_that_ask_for_it_is_linear() -> None:
    few, many = purging(2_000), purging(20_000)
    assert many < 10.5 * few
