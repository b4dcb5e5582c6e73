"""Names and patterns of names are two types: no name is read as a pattern, whatever is in it."""

from __future__ import annotations

import itertools

import pytest

from onceq.model.patterns import PatternTable, QueuePattern, key_of, queue_name, queue_pattern
from onceq.model.queue import check_queue_name
from tests.unit.names_like_patterns import LEGAL, NASTY

NAMES = [rf"private$\{name}" for name in [*LEGAL, *NASTY, "\\*"]]


def test_these_are_the_characters_of_names() -> None:
    for name in LEGAL:
        check_queue_name(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_the_only_one_that_its_pattern_matches(name: str) -> None:
    name = queue_name(name)
    one = QueuePattern.exactly(name)
    assert one.name == name
    others = {queue_name(other) for other in NAMES} - {name}
    assert [other for other in (name, *others) if one.matches(other)] == [name]
    assert QueuePattern.read(str(one)) == one, "as it is written it is read"
    assert queue_pattern(str(one)) == one


@pytest.mark.parametrize(
    ("text", "matches", "not_matches"),
    [
        ("a[*]b", ["a*b"], ["ab", "axb", "a[*]b"]),
        ("a[*]*", ["a*", "a*b"], ["a", "ab"]),
        ("a*[*]", ["a*", "ab*"], ["ab", "a"]),
        ("a[**]b", ["a[]b", "a[x]b"], ["axb", "a*b"]),
        ("a[[*]]b", ["a[*]b"], ["a*b", "a[x]b"]),
        ("*", ["", "a", "*"], []),
    ],
)
def test_what_stars_mean(text: str, matches: list[str], not_matches: list[str]) -> None:
    one = QueuePattern.read(text)
    assert str(one) == text
    assert all(map(one.matches, matches))
    assert not any(map(one.matches, not_matches))


def test_a_pattern_matches_another_if_it_matches_all_its_names() -> None:
    texts = ["*", "a*", "*a", "a*a", "a", "[*]", "a[*]", "*[*]*", "a*b*a"]
    names = ["".join(one) for size in range(5) for one in itertools.product("ab*", repeat=size)]
    for wide, narrow in itertools.product(map(QueuePattern.read, texts), repeat=2):
        if wide.matches(key_of(narrow)):
            assert all(wide.matches(name) for name in names if narrow.matches(name))
    assert QueuePattern.read("a*").matches(key_of(QueuePattern.read("a*b")))
    assert not QueuePattern.read("a*b").matches(key_of(QueuePattern.read("a*")))
    assert not QueuePattern.exactly("*").matches(key_of(QueuePattern.read("*")))


def test_a_table_finds_what_a_walk_over_all_patterns_finds() -> None:
    parts = ["", "a", "b", "ab", "*"]
    patterns = {
        QueuePattern(chosen)
        for size in (1, 2, 3)
        for chosen in itertools.product(parts, repeat=size)
    }
    table: PatternTable[QueuePattern, QueuePattern] = PatternTable()
    for one in patterns:
        table.put(one, one)
    gone = sorted(patterns, key=str)[::3]
    for one in gone:
        table.drop(one)
    left = patterns - set(gone)
    for size in range(5):
        for name in map("".join, itertools.product("ab*", repeat=size)):
            assert set(table.find(name)) == {one for one in left if one.matches(name)}
    assert all(table.get(one) == one for one in left)
    assert not any(table.get(one) for one in gone)
    for one in left:
        table.drop(one)
    assert not table
    assert list(table.find("ab")) == []
