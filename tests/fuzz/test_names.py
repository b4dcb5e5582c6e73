"""Any text at all is a name or one of the two declared errors, at a cost that its length bounds."""

from __future__ import annotations

import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onceq.errors import IllegalFormatName, IllegalPathName
from onceq.model.limits import FORMAT_NAME_CHARS_MAX
from onceq.model.names import FormatName, parse_any, parse_format_name, parse_path_name

GUID = "01234567-89ab-cdef-0123-456789abcdef"
PIECES = st.sampled_from(
    [
        "DIRECT=", "PRIVATE=", "PUBLIC=", "MACHINE=", "CONNECTOR=", "DL=", "MULTICAST=", "OS:",
        "TCP:", "HTTP:", "HTTPS:", "//", "msmq/", "MSMQ", "private$", "SYSTEM$", ";", "JOURNAL",
        "DEADXACT", "XACTONLY", "\\", "/", ",", "=", "@", ":", ".", "$", " ", "\0", "\n", "\x7f",
        "\u017f", "\u0660", "\ud800", GUID, "{", "}", "ffffffff", "100000000", "0", "-1", "65536",
        "127.0.0.1", "[::1]", "::1", "234.1.1.1:80", "..", "a", "q" * 125, "h" * 257, "\\\\",
    ]
)  # fmt: skip
texts = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map("".join))


def taken(text: str) -> tuple[FormatName, ...]:
    """What a text means; () if it is refused. Any other exception is a failure."""
    try:
        path = parse_path_name(text)
        assert parse_path_name(path.direct.removeprefix("OS:")).key() == path.key()
    except IllegalPathName:
        pass
    try:
        names = parse_format_name(text)
    except IllegalFormatName:
        names = ()
    try:
        parse_any(text)
    except (IllegalFormatName, IllegalPathName):
        pass
    return names


@given(texts)
@example("DIRECT=OS:" + "\\" * 100)
@example("," * FORMAT_NAME_CHARS_MAX)
@example("=" * (FORMAT_NAME_CHARS_MAX + 1))
def test_any_text_is_a_name_or_a_declared_error(text: str) -> None:
    for name in taken(text):
        (again,) = parse_format_name(str(name))
        assert str(again) == str(name)
        assert again.key() == name.key()


@given(st.integers(0, 60), st.integers(0, 60), PIECES)
def test_names_with_a_part_replaced(start: int, length: int, piece: str) -> None:
    for whole in (
        rf"DIRECT=OS:beta\private$\stock;retry,PRIVATE={GUID}\1f",
        f"DIRECT=HTTPS://b:8/msmq/private$/q,DL={GUID}@d",
    ):
        taken(whole[:start] + piece + whole[start + length :])


HOSTILE = [
    "{}",
    "DIRECT=OS:{}",
    "DIRECT=OS:a\\{}",
    "DIRECT=OS:a\\q;{}",
    "DIRECT=TCP:{}\\q",
    "DIRECT=HTTP://{}/msmq/q",
    "DIRECT=HTTP://a/msmq/{}",
    "PRIVATE={}",
    "MULTICAST={}:80",
    "DL=" + GUID + "@{}",
    "private$\\{}",
]
FILLINGS = ["a", " ", ";", ",", "/", "\\", ".", ":", "=", "1", "[", "/msmq", "DIRECT=OS:a\\b,"]


def lines_run(text: str) -> int:
    """How many lines of Python a text costs; unlike a time, the same on every machine."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        taken(text)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("pattern", HOSTILE)
def test_cost_grows_with_length_only(pattern: str) -> None:
    for filling in FILLINGS:
        small, large = (
            lines_run(pattern.format(filling * (size // len(filling)))) for size in (2_000, 4_000)
        )
        assert large <= 2.5 * small + 200, (pattern, filling, small, large)


def test_memory_is_bounded() -> None:
    for pattern in HOSTILE:
        for filling in FILLINGS:
            for size in (FORMAT_NAME_CHARS_MAX, 64 * FORMAT_NAME_CHARS_MAX):
                text = pattern.format(filling * (size // len(filling)))
                tracemalloc.start()
                taken(text)
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert peak <= 4 * len(text) + (1 << 20), (pattern, filling, peak)
