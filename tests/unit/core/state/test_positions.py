"""Positions of a lane: ranges, states, what they cost in bytes of the log, and where they lie."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from functools import partial

import pytest

from onceq.core.state.log_space import Space
from onceq.core.state.position_block import (
    AVAILABLE,
    AWAITING,
    CHUNK,
    LOCKED,
    REMOVED,
    PositionBlock,
    Range,
)
from onceq.core.state.positions import Positions
from onceq.model.run import Extent
from tests.unit.core.effort import stays_the_same


def lane(*runs: tuple[int, list[int]]) -> Positions:
    space = Space()
    space.begin(0)
    made = Positions(space)
    for address, lengths in runs:
        made.append(address, array("I", lengths), arrived=7)
    return made


def test_neighbours_are_one_extent() -> None:
    made = lane((100, [10, 20]), (130, [5]), (200, [1]))
    assert made.extents(1, 4) == [Extent(100, 35), Extent(200, 1)]
    assert list(made.lengths(1, 4)) == [10, 20, 5, 1]


def test_permuted_addresses_are_not_taken_for_neighbours() -> None:
    """Dead letters and moved messages lie in any order: first and last do not tell then."""
    made = lane((100, [50]), (200, [50]), (150, [50]), (250, [50]))
    assert made.extents(1, 4) == [
        Extent(100, 50),
        Extent(200, 50),
        Extent(150, 50),
        Extent(250, 50),
    ]


def test_moved_messages_are_found_where_they_are() -> None:
    made = lane((100, [50, 50, 50, 50]))
    moved = made.relocate([2, 3], 1000, array("I", [50, 50]))
    assert moved == 2
    assert made.extents(1, 4) == [Extent(100, 50), Extent(1000, 100), Extent(250, 50)]


def test_take_is_bounded_but_gives_one_at_least() -> None:
    made = lane((0, [100] * 10))
    assert made.take(count_max=3, bytes_max=1000) == [(1, 3)]
    assert made.take(count_max=30, bytes_max=250) == [(1, 2)]
    assert made.take(count_max=30, bytes_max=1) == [(1, 1)]
    made.set_state(2, 3, AVAILABLE, LOCKED)
    assert made.take(count_max=4, bytes_max=1000) == [(1, 1), (5, 3)]


class Counting(dict[int, PositionBlock]):
    """Tables that count how often somebody asks for one."""

    asked = 0

    def get(self, key: int, default: PositionBlock | None = None) -> PositionBlock | None:  # type: ignore[override]
        self.asked += 1
        return super().get(key, default)


def test_a_hole_is_passed_over_in_one_step() -> None:
    """Every restart may leave one of a million positions; what waits before them stays."""
    made = lane((0, [1, 1]))
    for restart in range(1, 101):
        made.skip_to(CHUNK * 256 * restart)
        made.append(1000 * restart, array("I", [1]), arrived=7)
    made._chunks = tables = Counting(made._chunks)
    held = [(1, 2)] + [(CHUNK * 256 * restart, 1) for restart in range(1, 101)]
    assert list(made.ranges(AVAILABLE, 0)) == held
    assert tables.asked < 500
    last = held[-1][0]
    assert made.last_before(last) == held[-2][0]
    assert made.last_before(held[1][0]) == made.last_before(held[1][0] - CHUNK) == 2
    for first, count in held[1:-1]:
        made.remove(first, count)
    assert made.last_before(last) == 2
    assert made.last_before(2) == 1
    assert made.last_before(1) == 0
    tables.asked = 0
    assert list(made.ranges(AVAILABLE, 0)) == [(1, 2), (last, 1)]
    made.remove(1, 2)
    assert made.head == last
    assert tables.asked < 20
    assert [chunk.base for chunk in made.blocks()] == [last]


def test_states_move_only_as_they_may() -> None:
    made = lane((0, [1] * 4))
    made.set_state(1, 2, AVAILABLE, LOCKED)
    with pytest.raises(AssertionError):
        made.set_state(1, 3, AVAILABLE, LOCKED)
    made.remove(1, 1)
    with pytest.raises(AssertionError):
        made.remove(1, 1)


@pytest.mark.parametrize("seed", range(20))
def test_against_a_list(seed: int) -> None:
    """Random appends, locks, returns and removals, over chunk borders, against a plain list."""
    rng = random.Random(seed)
    space = Space()
    space.begin(0)
    made = Positions(space)
    states: dict[int, int] = {}
    sizes: dict[int, int] = {}
    address = 0
    for _ in range(120):
        action = rng.choice(("append", "append", "lock", "unlock", "remove", "take"))
        if action == "append":
            lengths = [rng.randint(1, 9) for _ in range(rng.choice((1, 3, 50, 1500)))]
            if address >= space.region_end:
                space.begin(address)
            first = made.append(address, array("I", lengths), arrived=1)
            for offset, size in enumerate(lengths):
                states[first + offset], sizes[first + offset] = AVAILABLE, size
            address += sum(lengths) + rng.choice((0, 40))
        elif action == "take":
            count = rng.choice((1, rng.randint(1, 2000)))
            expected = [c for c, state in sorted(states.items()) if state == AVAILABLE][:count]
            assert flat(made.take(count_max=count, bytes_max=1 << 40)) == expected
        else:
            old = LOCKED if action == "unlock" else AVAILABLE
            chosen = [c for c, state in sorted(states.items()) if state == old]
            if not chosen:
                continue
            start = rng.choice((chosen[0], rng.choice(chosen)))
            ranges = list(
                made.ranges(old, start, count_max=rng.choice((1, 1, rng.randint(1, 900))))
            )
            for first, count in ranges:
                new = {"lock": LOCKED, "unlock": AVAILABLE, "remove": REMOVED}[action]
                if new == REMOVED:
                    made.remove(first, count)
                else:
                    made.set_state(first, count, old, new)
                for counter in range(first, first + count):
                    if new == REMOVED:
                        del states[counter], sizes[counter]
                    else:
                        states[counter] = new
        assert made.bytes == sum(sizes.values()) == space.total
        assert made.available == sum(state == AVAILABLE for state in states.values())
        assert made.head == min(states, default=made.next)
        assert len(made) == len(states)
    assert address > 0
    assert made.next > CHUNK


def flat(ranges: list[Range]) -> list[int]:
    return [first + offset for first, count in ranges for offset in range(count)]


def test_behind_a_gap_nothing_seems_to_stand_before() -> None:
    """Whoever replays all records sees the same head as who was restored from a checkpoint."""
    made = lane((100, [10, 20]))
    made.remove(1, 2)
    made.skip_to(CHUNK)
    made.append(200, array("I", [5]), arrived=7)
    assert made.head == CHUNK
    made.remove(CHUNK, 1)
    assert made.head == made.next == CHUNK + 1


def behind_those_that_wait_for_their_end(blocks: int) -> Positions:
    """A lane with so many blocks of messages that were acknowledged, and a few that were not."""
    made = lane()
    for at in range(blocks):
        made.append(at * CHUNK, array("I", [1] * CHUNK), arrived=7)
    made.set_state(1, blocks * CHUNK - 10, AVAILABLE, AWAITING)
    return made


def test_what_is_acknowledged_already_is_not_searched() -> None:
    def before_the_first(blocks: int) -> Callable[[], object]:
        made = behind_those_that_wait_for_their_end(blocks)
        first = made.first_available()
        assert made.last_before(first) == 0
        assert made.last_before(first + 1) == first
        return partial(made.last_before, first)

    stays_the_same(before_the_first, small=2, large=50)
