"""Offsets, limits and partitions: arithmetic that must come out the same each time."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import ConfigurationError
from onceq.spark.ranges import (
    PARTITION_MESSAGES,
    Offset,
    Range,
    Sight,
    advance,
    beginning,
    split,
    start_of,
)

SIGHT = Sight(instance="i", first=11, last=20, messages=10, locked=0)
EMPTY = Sight(instance="i", first=0, last=0, messages=0, locked=0)

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
    offset = Offset({"b": 7, "a": 9}, {"b": 5, "a": 9}, {"b": "x", "a": "y"}, "mine")
    packed = json.loads(json.dumps(offset.pack()))
    assert Offset.unpack(packed) == offset
    assert list(packed["to"]) == ["a", "b"]
    assert offset.ranges() == [Range("b", 5, 7)]


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


def test_few_messages_of_many_queues_are_one_task() -> None:
    ranges = [Range(f"q{i}", 10, 15) for i in range(40)]
    assert split(ranges, 1) == [tuple(ranges)]
    assert [len(task) for task in split(ranges, 2)] == [20, 20]


def test_a_system_queue_of_an_older_checkpoint_is_known() -> None:
    sight = Sight("0a" * 16, 0, 0, 0, 0)
    assert sight.known_as("0a" * 16)
    assert sight.known_as("00" * 16)
    assert not sight.known_as("0b" * 16)
