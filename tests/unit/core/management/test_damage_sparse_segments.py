"""Messages that keep an old part of the log are found, all of them, by a bounded search."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from onceq.core.management import damage
from onceq.core.management.damage import EACH, Cursor, search
from onceq.core.state.position_block import CHUNK, REMOVED
from onceq.core.state.queue_tables import DEAD_LETTER, JOURNAL
from onceq.core.state.state import State
from onceq.model.identity import Identity
from tests.unit.core.effort import lines

SIZE = 100


def state_of(count: int, *, shuffled: bool, seed: int = 1) -> State:
    """Two queues with messages of one size, in log order or in any."""
    state, draw = State(Identity(b"A" * 16, "A", 1)), Random(seed)
    state.space.begin(0)
    for number in (DEAD_LETTER, JOURNAL):
        places = list(range(count))
        if shuffled:
            draw.shuffle(places)
        lane = state.all_queues[number].lanes[0]
        start = 0 if number == DEAD_LETTER else count * SIZE
        for place in places:
            lane.append(start + place * SIZE, array("I", (SIZE,)), arrived=1)
        for counter in draw.sample(range(1, count + 1), count // 2):
            lane.remove(counter, 1)
    return state


def everything(state: State, base: int, end: int) -> set[tuple[int, int]]:
    """Queue and counter of what lies there, found by looking at every position."""
    return {
        (queue.number, chunk.base + i)
        for queue, _, lane in state.all_lanes()
        for chunk in lane.blocks()
        for i, address in enumerate(chunk.addresses)
        if base <= address < end and chunk.states[i] != REMOVED
    }


def found_in_pieces(
    state: State, base: int, end: int, *, positions_max: int, bytes_max: int
) -> tuple[list[tuple[int, int]], int]:
    """What a search finds that is broken off again and again, and the longest of its parts."""
    found: list[tuple[int, int]] = []
    after: Cursor | None = None
    longest = 0
    for _ in range(10_000):
        part = search(state, base, end, bytes_max, after=after, positions_max=positions_max)
        longest = max(longest, part.looked)
        for live in part.parts:
            lane = state.all_queues[live.queue].lanes[live.lane]
            found += [(live.queue, counter) for counter in live.counters]
            # They are written again elsewhere, as the engine does.
            lane.relocate(list(live.counters), end + 1_000, live.lengths)
        if part.cursor is None:
            return found, longest
        after = part.cursor
    raise AssertionError("the search never ends")


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("positions_max", [1, 5_000, 1 << 40])
@pytest.mark.parametrize("bytes_max", [pytest.param(1, marks=pytest.mark.tier("rest")), 1 << 40])
def test_everything_is_found_once_however_often_the_search_is_broken_off(
    shuffled: bool, positions_max: int, bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "PIECE_MESSAGES", 40)
    count = 2 * CHUNK + 500
    state = state_of(count, shuffled=shuffled)
    base, end = SIZE * 700, SIZE * (count + 900)
    wanted = everything(state, base, end)
    state.space.begin(end + 1_000)
    found, longest = found_in_pieces(
        state, base, end, positions_max=positions_max, bytes_max=bytes_max
    )
    assert sorted(found) == sorted(wanted)
    assert longest < positions_max + CHUNK + EACH


@pytest.mark.slow
def test_a_search_looks_only_where_the_part_of_the_log_can_be() -> None:
    """Its work does not grow with the messages that lie elsewhere."""
    few, many = (state_of(chunks * CHUNK, shuffled=False) for chunks in (2, 16))
    part = (SIZE * 100, SIZE * 300)
    assert search(many, *part, 1 << 40).looked <= 200 + EACH * 50
    small, large = (lines(lambda s=state: search(s, *part, 1 << 40)) for state in (few, many))  # type: ignore[misc]
    assert large < small + 14 * 2 * 20, "some twenty lines for each chunk that lies elsewhere"


@pytest.mark.slow
def test_chunks_out_of_order_are_looked_through_once() -> None:
    """What lies elsewhere is known from then on, until an address changes."""
    state = state_of(4 * CHUNK, shuffled=True)
    elsewhere = (SIZE * CHUNK * 100, SIZE * CHUNK * 101)
    first = lines(lambda: search(state, *elsewhere, 1 << 40))
    assert lines(lambda: search(state, *elsewhere, 1 << 40)) < first / 100
    lane = state.all_queues[JOURNAL].lanes[0]
    lane.append(elsewhere[0], array("I", (SIZE,)), arrived=1)
    (live,) = search(state, *elsewhere, 1 << 40).parts
    assert live.counters == (lane.next - 1,)


def test_queues_with_nothing_in_them_are_work_too() -> None:
    state = State(Identity(b"A" * 16, "A", 1))
    state.space.begin(0)
    for number in range(16, 116):
        state.make_subqueue(number, DEAD_LETTER, f"s{number}")
    after, parts = None, 0
    while parts == 0 or after is not None:
        found = search(state, 0, 1, 1 << 40, after=after, positions_max=10 * EACH)
        assert found.looked <= 11 * EACH
        after, parts = found.cursor, parts + 1
    assert parts >= 10
