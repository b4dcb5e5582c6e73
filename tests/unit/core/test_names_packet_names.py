"""Where an arrived packet wants to go."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from onceq.core.names import arrival_key, arrival_name
from onceq.core.state.setups import QueueSet
from onceq.model import requests
from onceq.model.queue import QueueProperties
from onceq.packet.address import Address
from tests.unit.core.alone import Core
from tests.unit.core.effort import lines


@pytest.mark.parametrize("made", [True, False])
def test_to_find_a_public_queue_costs_the_same_among_many(made: bool) -> None:
    cost = []
    for others in (1, 300):
        core, guids = Core(), [at.to_bytes(16, "big") for at in range(others)]
        wanted = b"W" * 16
        for at, guid in enumerate([*guids, wanted] if made else guids):
            public = QueueProperties(f"q{at}", private=False, number=20 + at, instance=guid)
            core.manager.state.make_queue(public)
        step, address = core.manager._step, Address(5, guid=wanted)
        assert (arrival_key(step, address)[1] is not None) is made
        cost.append(lines(partial(arrival_key, step, address)))
    assert cost[0] == cost[1]


def test_a_public_queue_is_found_by_the_guid_that_it_has_now() -> None:
    core = Core()
    step, state = core.manager._step, core.manager.state
    queue = state.make_queue(QueueProperties("q", private=False, number=20, instance=b"1" * 16))
    step.setup(QueueSet(replace(queue.properties, instance=b"2" * 16)))
    found = [arrival_key(step, Address(5, guid=guid * 16))[1] for guid in (b"1", b"2")]
    assert found == [None, queue]
    core.ask(requests.DeleteQueue("q"))
    assert arrival_key(step, Address(5, guid=b"2" * 16))[1] is None


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (Address(7, direct=r"OS:ALPHA\PRIVATE$\Orders"), r"private$\orders"),
        (Address(7, direct=r"TCP:10.1.2.3\orders"), "orders"),
        (Address(7, direct=r"OS:alpha\private$\orders;late"), r"private$\orders"),
        (Address(7, direct="HTTP://alpha/msmq/private$/Orders"), r"private$\orders"),
        (Address(3, guid=b"A" * 16, number=7), ""),
        (Address(5, guid=b"A" * 16), ""),
    ],
)
def test_rights_are_about_the_name_that_a_packet_has(address: Address, name: str) -> None:
    """Whether there is such a queue or not."""
    assert arrival_name(address) == name
