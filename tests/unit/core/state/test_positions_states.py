"""An operation of a record does to a position what its table says, and nothing where it may not."""

from __future__ import annotations

from array import array

import pytest

from onceq.core.state.position_block import AVAILABLE, AWAITING, KEPT, LOCKED, PURGING, REMOVED
from onceq.core.state.positions import GIVES_BACK, NAMES, TRANSITIONS
from onceq.core.state.queue_tables import DEAD_LETTER, JOURNAL
from onceq.core.state.records import Change, Op, RangeChange
from onceq.core.state.state import State
from onceq.errors import DamagedRecord
from onceq.model.identity import Identity

NOW_S = 1_700_000_000


def state_with(position: int) -> State:
    """One message of a system queue, in that state."""
    state = State(Identity(b"A" * 16, "A", 1))
    state.space.begin(0)
    lane = state.all_queues[JOURNAL].lanes[0]
    lane.append(100, array("I", [50]), arrived=NOW_S)
    if position == REMOVED:
        lane.append(150, array("I", [50]), arrived=NOW_S)
        lane.remove(1, 1)
    elif position != AVAILABLE:
        lane.set_state(1, 1, AVAILABLE, position)
    return state


def apply(state: State, op: int) -> int:
    """Let an operation happen to that message; returns the state that it is in then."""
    to = DEAD_LETTER if op == Op.SHIFT else 0
    state.apply(Change(NOW_S, moves=[RangeChange(op, JOURNAL, 0, 1, 1, to=to)]), 0, [])
    return state.all_queues[JOURNAL].lanes[0].state(1)


@pytest.mark.parametrize("op", list(Op))
@pytest.mark.parametrize("before", [*KEPT, REMOVED], ids=lambda state: NAMES[state])
def test_an_operation_leads_where_the_table_says(op: Op, before: int) -> None:
    transition, state = TRANSITIONS[op], state_with(before)
    leads = dict(transition.moves)
    if before in leads:
        assert apply(state, op) == leads[before]
    elif transition.strict:
        with pytest.raises(AssertionError):
            apply(state, op)
    else:
        assert apply(state, op) == before
    assert state.recount()[JOURNAL] == len(state.all_queues[JOURNAL])


def test_every_operation_has_a_row_and_every_state_is_reached() -> None:
    assert set(TRANSITIONS) == set(Op)
    reached = {new for transition in TRANSITIONS.values() for _, new in transition.moves}
    assert reached == {LOCKED, AVAILABLE, PURGING, AWAITING, REMOVED}


def test_an_operation_that_no_version_knows_is_refused() -> None:
    with pytest.raises(DamagedRecord, match="unknown operation 99"):
        apply(state_with(AVAILABLE), 99)


def test_what_gives_back_are_the_ends_of_a_receive_that_did_not_commit() -> None:
    assert {Op.UNLOCK, Op.RETURN} == GIVES_BACK


def test_a_range_of_which_a_part_is_gone_is_given_back_in_part() -> None:
    state = State(Identity(b"A" * 16, "A", 1))
    state.space.begin(0)
    lane = state.all_queues[JOURNAL].lanes[0]
    lane.append(100, array("I", [10] * 4), arrived=NOW_S)
    for op, first, count in (
        (Op.LOCK, 1, 4),
        (Op.PURGE, 4, 1),
        (Op.END, 2, 1),
        (Op.UNLOCK, 1, 4),
    ):
        moves = [RangeChange(op, JOURNAL, 0, first, count)]
        state.apply(Change(NOW_S, moves=moves), 0, [])
    found = [lane.state(at) for at in range(1, 5)]
    assert found == [AVAILABLE, REMOVED, AVAILABLE, REMOVED]
    assert lane.aborts == {1: 1, 3: 1}
