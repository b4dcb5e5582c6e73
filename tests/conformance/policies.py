"""What a bad network does with packets: policies of a link, for ``World.link(...).policy``.

A policy gives, for one packet on its way, each copy that gets through, with its delay in us.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from onceq.packet.arrived import FINAL_ACK, ORDER_ACK, SETTLING, USER
from onceq.testing.links import Passing, faithful

Policy = Callable[[Passing], list[tuple[int, Passing]]]


def drop(passing: Passing) -> list[tuple[int, Passing]]:
    """Nothing gets through."""
    return []


def without(*kinds: int) -> Policy:
    """Packets of these kinds are lost, such as USER or ORDER_ACK."""
    return lambda p: [] if p.kind in kinds else faithful(p)


def up_to(number: int) -> Policy:
    """Of each stream the messages behind a number are lost."""
    return lambda p: [] if p.kind == USER and p.number > number else faithful(p)


def only(*numbers: int) -> Policy:
    """Of the messages, only these numbers get through; no order acknowledgments do."""
    lost = without(ORDER_ACK)
    return lambda p: [] if p.kind == USER and p.number not in numbers else lost(p)


def messages_twice(passing: Passing) -> list[tuple[int, Passing]]:
    """Each message comes twice, 100 us apart."""
    return [(0, passing), (100, passing)] if passing.kind == USER else faithful(passing)


def settling(count: int) -> Policy:
    """So many of the packets that settle doubts get through, and no more."""
    passed = itertools.count(1)
    return lambda p: [] if p.kind == SETTLING and next(passed) > count else faithful(p)


no_order_acks = without(ORDER_ACK)
no_final_acks = without(FINAL_ACK)
no_messages = without(USER)
