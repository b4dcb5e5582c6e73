"""Tables: names stay whole, texts become shorter, columns leave in their order."""

from __future__ import annotations

import pytest

from onceq.cli.out import TEXT_MIN, TextTable, shortened, width_of

NAME = "DIRECT=OS:BETA.example.net/private$/" + "n" * 30
TROUBLE = "nobody answers at 10.0.0.7:1801, and has not for a day or more"
COLUMNS = ("destination", "state", "messages", "bytes", "trouble")
ROWS = [(NAME, "NONACTIVE", "1234567", "12.0 MiB", TROUBLE), ("x", "CONNECTED", "0", "0 B", "-")]


def made(width: int | None, **more: object) -> tuple[list[str], list[str]]:
    table = TextTable(
        COLUMNS, ROWS, right=[2], texts=("trouble",), give=("bytes", "trouble", "state")
    )
    return table.lines(width)


def test_without_a_terminal_nothing_is_cut() -> None:
    lines, left = made(None)
    assert left == []
    assert lines[1].split("  ")[0] == NAME
    assert lines[1].endswith(TROUBLE)
    assert len(lines) == 3


def test_a_text_becomes_shorter_before_a_column_leaves() -> None:
    whole = max(map(width_of, made(None)[0]))
    lines, left = made(whole - 10)
    assert left == []
    assert max(map(width_of, lines)) == whole - 10
    assert lines[1].endswith("…")


def test_columns_leave_in_the_order_that_was_said() -> None:
    gone = [tuple(made(width)[1]) for width in (130, 115, 100, 85, 20)]
    assert gone == [
        (), (), ("bytes", "trouble"), ("state", "bytes", "trouble"), ("state", "bytes", "trouble"),
    ]  # fmt: skip


@pytest.mark.parametrize("width", range(10, 150, 7))
def test_a_name_and_a_number_are_whole_at_every_width(width: int) -> None:
    lines, _ = made(width)
    assert NAME in lines[1].split()
    assert "1234567" in lines[1].split()
    assert len(lines) == 3


@pytest.mark.parametrize("width", range(80, 150, 7))
def test_where_the_names_have_room_no_line_is_too_long(width: int) -> None:
    assert all(width_of(line) <= width for line in made(width)[0])


def test_without_an_order_the_last_column_leaves_first() -> None:
    lines, left = TextTable(("a", "b", "c"), [("1111", "2222", "3333")]).lines(10)
    assert left == ["c"]
    assert lines == ["a     b", "1111  2222"]


def test_a_table_without_rows_has_its_header() -> None:
    assert TextTable(("queue", "messages"), []).lines(80) == (["queue  messages"], [])


def test_numbers_are_set_to_the_right() -> None:
    lines, _ = TextTable(("q", "messages"), [("a", "5")], right=[1]).lines(None)
    assert lines == ["q  messages", "a         5"]


def test_wide_and_combining_characters_are_counted_as_they_are_shown() -> None:
    assert [width_of(text) for text in ("abc", "注文", "e\u0301")] == [3, 4, 1]
    assert shortened("注文注文", 5) == "注文…"
    assert shortened("abc", 3) == "abc"


def test_a_text_is_not_made_shorter_than_what_can_be_read() -> None:
    table = TextTable(("name", "text"), [("n" * 20, "t" * 60)], texts=("text",), give=("text",))
    lines, left = table.lines(20 + 2 + TEXT_MIN)
    assert (left, lines[1]) == ([], "n" * 20 + "  " + "t" * (TEXT_MIN - 1) + "…")
    assert table.lines(20 + 2 + TEXT_MIN - 1)[1] == ["text"]


@pytest.mark.parametrize(
    ("width", "short", "left", "cells"),
    [
        (80, [], [], ["q" * 30, "g" * 36]),
        (60, ["source"], [], ["q" * 30, "gggg"]),
        (31, [], ["source"], ["q" * 30]),
    ],
)
def test_a_name_with_a_shorter_form_becomes_short_before_it_leaves(
    width: int, short: list[str], left: list[str], cells: list[str]
) -> None:
    table = TextTable(
        ("queue", "source"), [("q" * 30, "g" * 36)], give=("source", "source"),
        brief={"source": ["gggg"]},
    )  # fmt: skip
    lines, gone = table.lines(width)
    assert (table.short, gone, lines[1].split()) == (short, left, cells)
