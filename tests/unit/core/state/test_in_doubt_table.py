"""Tables of what is in doubt, and of what a receiver remembers of streams."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from onceq.core.state import in_doubt_table
from onceq.core.state.in_doubt_table import ANYBODY, DOUBTS_QUEUE, Doubt, Doubts, Memories
from onceq.core.state.peer_table import Progress
from onceq.core.state.records import PUT_FINAL
from onceq.core.state.setups import encode_rows
from tests.unit.core.effort import stays_the_same

ONE, OTHER = (b"1" * 16,), (b"2" * 16,)


def table() -> Doubts:
    made = Doubts()
    for number in range(1, 6):
        made.add(7, number, Doubt(20, 1, 0, 100 + number, number == 5))
    made.add(8, 1, Doubt(21, 1, 0, 200, False))
    return made


def streams(made: Doubts, outgoing: int) -> list[tuple[int, int]]:
    return made.streams_of(outgoing, [ANYBODY], 0, 100)


def test_found_by_message_by_place_and_by_outgoing_queue() -> None:
    made = table()
    assert len(made) == 6
    doubt = made.find(7, 3)
    assert doubt is not None
    assert doubt is made.at((1, 0, 103))
    assert made.find(7, 9) is None
    assert made.at((2, 0, 103)) is None
    assert [streams(made, of) for of in (20, 21, 22)] == [[(7, 4)], [(8, 1)], []]
    assert (made.unsettled(20), made.unsettled(21)) == (4, 1)


@pytest.mark.parametrize("count", [3, 1_000_000])
def test_what_is_gone_is_forgotten(count: int) -> None:
    made = table()
    made.forget(1, 0, 102, count)
    left = {101, 105, 200} if count == 3 else {101}
    assert {place for place in range(300) if made.at((1, 0, place))} == left
    made.forget(1, 0, 0, 1000)
    assert (len(made), streams(made, 20), made.unsettled(20), made.dump()) == (0, [], 0, [])
    assert made.managers_of(20) == []
    assert made.hidden(20, 9) == []


def test_what_is_known_of_is_not_asked_about() -> None:
    made = table()
    for number in (2, 4, 1, 4):
        made.has_arrived((1, 0, 100 + number))
    assert (made.unknown(7), made.unsettled(20)) == ([3], 1)
    ((stream, last),) = streams(made, 20)
    assert stream == 7
    assert 3 <= last <= 4, "no other message of the stream is in doubt"
    made.has_arrived((1, 0, 103))
    assert (made.unknown(7), made.unsettled(20), streams(made, 20)) == ([], 0, [])
    assert made.concern(20)


def test_streams_are_asked_about_in_order_from_any_one_on() -> None:
    made = Doubts()
    for stream in (9, 3, 5, 7):
        made.add(stream, 2, Doubt(20, 1, 0, stream, False))
    assert made.streams_of(20, [ANYBODY], 0, 2) == [(3, 2), (5, 2)]
    assert made.streams_of(20, [ANYBODY], 6, 9) == [(7, 2), (9, 2)]
    made.forget(1, 0, 5, 1)
    assert made.streams_of(20, [ANYBODY], 0, 2) == [(3, 2), (7, 2)]


def test_a_manager_is_asked_about_what_it_may_have_been_given() -> None:
    made = Doubts()
    for number, given in enumerate((ONE, (), ONE + OTHER, OTHER), start=1):
        made.add(7, number, Doubt(20, 1, 0, number, False, given=given))
    made.add(9, 1, Doubt(20, 1, 0, 9, False, given=OTHER))
    assert set(made.managers_of(20)) == {*ONE, *OTHER, ANYBODY}
    assert made.streams_of(20, ONE, 0, 9) == [(7, 4)]
    assert made.streams_of(20, (*ONE, *OTHER), 0, 9) == [(7, 4), (9, 1)]
    made.has_arrived((1, 0, 1))
    made.forget(1, 0, 3, 1)
    assert made.streams_of(20, ONE, 0, 9) == []
    assert made.streams_of(20, [ANYBODY], 0, 9) == [(7, 4)]
    made.forget(1, 0, 1, 9)
    assert made.managers_of(20) == []


def test_those_are_found_of_whom_nobody_will_tell() -> None:
    made = Doubts()
    for number, flags in enumerate((0, PUT_FINAL, 0), start=1):
        made.add(7, number, Doubt(20, DOUBTS_QUEUE, 0, number, False, flags))
    made.add(7, 4, Doubt(20, 1, 0, 4, False))
    assert [doubt.counter for doubt in made.hidden(20, 9)] == [1, 3]
    made.forget(DOUBTS_QUEUE, 0, 1, 1)
    assert [doubt.counter for doubt in made.hidden(20, 9)] == [3]


def test_to_know_of_one_costs_by_none_of_the_others() -> None:
    def make(count: int) -> Callable[[], object]:
        made = Doubts()
        for number in range(1, count + 1):
            made.add(7, number, Doubt(20, 1, 0, number, False))

        def one() -> None:
            made.has_arrived((1, 0, count // 2))
            made.forget(1, 0, count // 3, 1)
            made.streams_of(20, [ANYBODY], 0, 16)
            made.unsettled(20)
            made.hidden(20, 16)

        return one

    stays_the_same(make)


def test_a_checkpoint_holds_all_of_it() -> None:
    made, again = table(), Doubts()
    made.add(9, 1, Doubt(20, 1, 0, 300, False, 0, ONE + OTHER))
    rows, given = json.loads(encode_rows([made.dump(), made.dump_given()]))
    again.load(rows, given, served=lambda _: ONE)
    assert (again.dump(), again.dump_given()) == (made.dump(), made.dump_given())
    assert again.unsettled(20) == 5
    assert streams(again, 20) == [(7, 4)]
    found = again.find(9, 1)
    assert found is not None
    assert found.given == ONE + OTHER


@pytest.mark.parametrize("row", [[7, 1, 20, 1, 0, 101, 0], [7, 1, 20, 1, 0, 101, 0, PUT_FINAL]])
def test_of_a_checkpoint_of_an_older_version_whoever_ever_served_the_queue_may_tell(
    row: list[int],
) -> None:
    made = Doubts()
    made.load([row], None, served={20: ONE}.__getitem__)
    doubt = made.find(7, 1)
    assert doubt is not None
    assert (doubt.given, doubt.flags) == (ONE, row[7] if len(row) > 7 else 0)


def test_both_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_doubt_table, "DOUBTS_MAX", 6)
    monkeypatch.setattr(in_doubt_table, "LEFT_STREAMS_MAX", 2)
    made = table()
    made.add(9, 1, Doubt(22, 1, 0, 300, False))
    assert made.find(9, 1) is None
    memories, progress = Memories(), Progress(b"S" * 16, "k")
    for stream in range(1, 6):
        memories.advance(progress, stream, 1, 3, surely_new=True)
    assert [key[2] for key, _ in memories] == [3, 4]


def test_gaps_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_doubt_table, "PASSED_RANGES_MAX", 2)
    memories, progress = Memories(), Progress(b"S" * 16, "k")
    memories.advance(progress, 5, 3, 4, surely_new=True)
    memory = memories.current(progress)
    assert (memory.since, memory.last, memory.passed) == (1, 4, ((1, 2),))
    memories.advance(progress, 5, 5, 6, surely_new=True)
    memories.advance(progress, 5, 8, 8, surely_new=True)
    memories.advance(progress, 5, 10, 10, surely_new=True)
    memory = memories.current(progress)
    assert (memory.since, memory.passed) == (3, ((7, 7), (9, 9)))
    assert [memory.arrived(n) for n in (2, 3, 7, 8, 9, 10)] == [
        None, True, False, True, False, True,
    ]  # fmt: skip


def test_what_was_lost_in_a_restore_is_not_claimed() -> None:
    memories = Memories()
    fresh = Progress(b"S" * 16, "k")
    memories.advance(fresh, 5, 3, 4, surely_new=False)
    assert memories.current(fresh).arrived(2) is None
    old = Progress(b"S" * 16, "k", stream=5, last=4)
    old.vague = True
    assert memories.current(old).arrived(4) is None
    memories.advance(old, 5, 9, 9, surely_new=False)
    assert [memories.current(old).arrived(n) for n in (4, 8, 9)] == [None, None, True]
    old.vague = True
    memories.advance(old, 6, 4, 4, surely_new=False)
    assert memories.left(b"S" * 16, "k", 5) is None
    assert [memories.current(old).arrived(n) for n in (3, 4)] == [None, True]


def test_of_too_many_ranges_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was passed over before the ranges that are remembered is unknown, not accepted."""
    monkeypatch.setattr(in_doubt_table, "PASSED_RANGES_MAX", 2)
    memories, progress = Memories(), Progress(b"S" * 16, "k")
    for number in (1, 3, 5, 7):
        memories.advance(progress, 9, number, number, surely_new=True)
    assert progress.passed == ((4, 4), (6, 6))
    assert memories.current(progress).since == 3
