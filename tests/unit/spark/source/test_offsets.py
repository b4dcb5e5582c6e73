"""Offsets, limits and partitions: arithmetic that must come out the same each time."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import ConfigurationError
from onceq.spark.source.offsets import (
    PARTITION_MESSAGES,
    Offset,
    QueueSample,
    Range,
    advance,
    beginning,
    split,
    start_of,
)

SIGHT = QueueSample(instance="i", first=11, last=20, messages=10, locked=0)
EMPTY = QueueSample(instance="i", first=0, last=0, messages=0, locked=0)

places = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 1_000), min_size=1)


def test_where_a_query_begins() -> None:
    assert start_of(-2, SIGHT) == 0
    assert start_of(-1, SIGHT) == 20
    assert start_of(-1, EMPTY) == 0
    assert start_of(15, SIGHT) == 14
    assert start_of(0, SIGHT) == 0


def test_the_first_message_decides_where_everything_begins() -> None:
    assert beginning(0, SIGHT) == 10
    assert beginning(0, EMPTY) == 0
    assert beginning(3, SIGHT) == 3


def test_an_offset_comes_back_from_json_as_it_was() -> None:
    offset = Offset({"b": 7, "a": 9}, {"b": 5, "a": 9}, {"b": "y", "a": "x"}, "mine")
    packed = json.loads(json.dumps(offset.pack()))
    assert Offset.unpack(packed) == offset
    assert list(packed["to"]) == ["x", "y"]
    assert packed["names"] == {"x": "a", "y": "b"}
    assert offset.ranges() == [Range("b", 5, 7)]


def test_an_end_offset_keeps_what_was_counted() -> None:
    ended = {"b": {"expired": 2, "moved": 1}}
    ids = {"b": "x", "a": "y"}
    offset = Offset({"b": 9, "a": 9}, {"b": 5, "a": 9}, ids, "", {"b": 3}, ended)
    packed = json.loads(json.dumps(offset.pack()))
    assert Offset.unpack(packed) == offset
    assert offset.ranges() == [Range("b", 5, 9, 3, {"expired": 2, "moved": 1})]
    assert packed["messages"] == {"x": 3}


def test_what_has_left_is_kept() -> None:
    left = {"z": Range("c", 3, 5, 2), "w": Range("d", 3, 3)}
    offset = Offset({"a": 9}, None, {"a": "y"}, "mine", left=left)
    packed = json.loads(json.dumps(offset.pack()))
    assert Offset.unpack(packed) == offset
    assert packed["left"]["z"] == {"from": 3, "messages": 2, "name": "c", "to": 5}


def test_the_first_offset_has_no_batch() -> None:
    offset = Offset({"a": 9}, None, {"a": "y"})
    assert "from" not in offset.pack()
    assert Offset.unpack(offset.pack()).begins is None
    assert offset.ranges() == []


@pytest.mark.parametrize(
    "packed", [{}, {"to": 3, "queues": {}}, {"to": {"a": "x"}, "queues": {}}, {"offset": 5}]
)
def test_an_offset_of_another_source_is_refused(packed: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="not of this source"):
        Offset.unpack(packed)


@given(begins=places, more=st.dictionaries(st.sampled_from("abcde"), st.integers(0, 500)),
       most=st.integers(1, 2_000))  # fmt: skip
def test_a_limit_is_kept_and_used_up(
    begins: dict[str, int], more: dict[str, int], most: int
) -> None:
    ends = {name: place + more.get(name, 0) for name, place in begins.items()}
    to = advance(begins, ends, most)
    taken = sum(to[name] - begins[name] for name in begins)
    assert taken == min(most, sum(ends[name] - begins[name] for name in begins))
    assert all(begins[name] <= to[name] <= ends[name] for name in begins)
    assert advance(begins, ends, most) == to


def test_queues_share_a_limit() -> None:
    assert advance({"a": 0, "b": 0, "c": 0}, {"a": 100, "b": 2, "c": 100}, 62) == {
        "a": 30,
        "b": 2,
        "c": 30,
    }


@given(
    sizes=st.lists(st.tuples(st.integers(0, 1 << 60), st.integers(1, 200_000)), max_size=8),
    least=st.integers(1, 50),
)
def test_tasks_are_the_whole(sizes: list[tuple[int, int]], least: int) -> None:
    """Each message in one task, in order, and the tasks of about the same size."""
    ranges = [Range(f"q{i}", after, after + size) for i, (after, size) in enumerate(sizes)]
    tasks = split(ranges, least)
    parts = [part for task in tasks for part in task]
    assert all(part.size > 0 for part in parts)
    for whole in ranges:
        mine = [part for part in parts if part.key == whole.key]
        assert (mine[0].after, mine[-1].to) == (whole.after, whole.to)
        assert all(one.to == two.after for one, two in pairwise(mine))
    counts = [sum(part.size for part in task) for task in tasks]
    assert all(0 < count <= PARTITION_MESSAGES for count in counts)
    assert max(counts, default=0) - min(counts, default=0) <= 1
    assert len(tasks) >= min(least, sum(counts))
    assert split(ranges, least) == tasks


@given(
    sizes=st.lists(st.tuples(st.integers(1, 2_000), st.integers(0, 2_000)), max_size=6),
    least=st.integers(1, 50),
)
def test_tasks_of_ranges_with_holes_are_the_whole(sizes: list[tuple[int, int]], least: int) -> None:
    """Their parts are not counted, unless they are whole; and no task is without a place."""
    ranges = [
        Range(f"q{i}", 10, 10 + places, min(messages, places))
        for i, (places, messages) in enumerate(sizes)
    ]
    parts = [part for task in split(ranges, least) for part in task]
    assert all(part.places > 0 for part in parts)
    for whole in ranges:
        mine = [part for part in parts if part.key == whole.key]
        assert bool(mine) == bool(whole.messages)
        if mine:
            assert (mine[0].after, mine[-1].to) == (whole.after, whole.to)
            assert all(one.to == two.after for one, two in pairwise(mine))
            counted = [part.messages for part in mine]
            if whole.messages == whole.places or len(mine) == 1:
                assert sum(count or 0 for count in counted) == whole.messages
            else:
                assert set(counted) == {None}


def test_what_has_ended_since_a_range_was_counted() -> None:
    part = Range("q", 0, 9, 5, {"expired": 3})
    assert part.since({"expired": 5, "moved": 1}) == {"expired": 2, "moved": 1}
    assert part.since({"purged": 0}) == {}


def test_what_is_behind_is_counted_in_messages() -> None:
    holes = QueueSample("i", 11, 20, 6, 0)
    assert [holes.behind(place, 0) for place in (0, 10, 16, 20, 25)] == [6, 6, 4, 0, 0]
    assert holes.behind(13, 2) == 4
    assert holes.behind(13, 9) == 0
    assert EMPTY.behind(5, 0) == 0


def test_full_is_where_every_place_has_a_message() -> None:
    assert SIGHT.full_behind(10)
    assert SIGHT.full_behind(15)
    assert not SIGHT.full_behind(9)
    assert not QueueSample("i", 11, 20, 9, 0).full_behind(10)
    assert not QueueSample("i", 11, 20, 10, 1).full_behind(10)


def test_few_messages_of_many_queues_are_one_task() -> None:
    ranges = [Range(f"q{i}", 10, 15) for i in range(40)]
    assert split(ranges, 1) == [tuple(ranges)]
    assert [len(task) for task in split(ranges, 2)] == [20, 20]
