"""One message is taken out of an outgoing queue: it ends truthfully, and the others go on."""

from __future__ import annotations

import pytest

from onceq.errors import TransactionUsage
from onceq.model.message import Journal
from onceq.model.resultcodes import MessageClass as C
from tests.conformance.leaving import (
    DEAD,
    IN_DOUBT,
    LOCAL,
    Q,
    found,
    sent_and_cut,
    take_out,
    two_managers,
    whole_again,
)
from tests.conformance.world import World


@pytest.fixture
def world() -> World:
    return two_managers()


def test_what_never_left_is_not_delivered_and_what_may_have_left_is_in_doubt(world: World) -> None:
    a, b = world["A"], world["B"]
    sent_and_cut(world, b"arrived", b"lost", b"stays", journal=Journal.DEADLETTER)
    a.once(Q, b"never left", b"behind it", journal=Journal.DEADLETTER)
    assert take_out(a, b"lost") == 1
    assert take_out(a, b"never left") == 1
    assert found(a, DEAD) == {
        b"lost": (IN_DOUBT, C.NACK_DELETED),
        b"never left": (C.NACK_DELETED, 0),
    }
    whole_again(world)
    world.run(60)
    assert b.bodies(LOCAL) == [b"arrived", b"stays", b"behind it"], "the others go on"
    assert found(a, DEAD)[b"lost"] == (C.NACK_DELETED, 0), "the other side has passed it over"


def test_what_had_arrived_and_was_taken_out_is_known_when_it_is_received(world: World) -> None:
    a, b = world["A"], world["B"]
    sent_and_cut(world, b"arrived", b"lost", journal=Journal.DEADLETTER)
    assert take_out(a, b"arrived") == 1
    assert found(a, DEAD) == {b"arrived": (IN_DOUBT, C.NACK_DELETED)}
    whole_again(world)
    world.run(60)
    assert found(a, DEAD) == {b"arrived": (IN_DOUBT, C.NACK_DELETED)}, "its end is not known yet"
    b.receive(LOCAL)
    world.run(20)
    assert found(a, DEAD) == {}, "it was received: nothing is lost"


def test_the_last_one_taken_out_leaves_nothing_to_wait_for(world: World) -> None:
    a, b = world["A"], world["B"]
    sent_and_cut(world, b"arrived", b"only lost")
    assert take_out(a, b"arrived") == 1
    assert take_out(a, b"only lost") == 1
    view = a.look("outgoing-queue", Q)
    assert (view.messages, view.unacknowledged) == (0, 0)
    whole_again(world)
    a.once(Q, b"next")
    world.run(60)
    assert b.bodies(LOCAL) == [b"arrived", b"next"]


def test_it_is_over_at_once_also_after_a_crash(world: World) -> None:
    a = world["A"]
    sent_and_cut(world, b"arrived", b"lost", journal=Journal.DEADLETTER)
    take_out(a, b"lost")
    before = found(a, DEAD)
    a.kill()
    a.start()
    assert found(a, DEAD) == before
    assert b"lost" not in a.bodies(Q)


def test_in_a_transaction_nothing_is_taken_out(world: World) -> None:
    a = world["A"]
    sent_and_cut(world, b"1")
    with pytest.raises(TransactionUsage, match="in no transaction"):
        take_out(a, b"1", transaction=7)
    assert a.bodies(Q) == [b"1"]
