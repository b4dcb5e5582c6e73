"""Corruptions of histories, each of one message and each named by the audit.

All stand in the same histories, so that one audit must name every one and accuse nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceq.audit import command
from onceq.audit.command import Wish
from tests.audit.corruptions import PLANTED, corrupt
from tests.audit.histories import peopled
from tests.audit.planting import Row
from tests.scratch import scratch


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "planted") as path:
        yield peopled(path / "all")


@pytest.fixture(scope="module")
def found(place: Path) -> Row:
    """What the audit says of all of them."""
    plants = corrupt(place)
    wish = Wish(html=str(place.parent / "planted.html"), to=str(place.parent / "tables"))
    return command.run([str(place)], wish, lambda _: None) | {"stream": plants.stream}


def faults(found: Row) -> dict[str, set[str]]:
    """The faults of each message, by the title of its story."""
    return {
        story["title"]: {fault["fault"] for fault in story["faults"]} for story in found["stories"]
    }


def accused(found: Row, title: str) -> int | None:
    """The number of a story's message in the stream that was planted in."""
    number = re.search(rf", number (\d+) of stream {found['stream']} ", title)
    return int(number[1]) if number else None


@pytest.mark.parametrize("number", PLANTED)
def test_each_is_named(found: Row, number: int) -> None:
    _, invariant, fault = PLANTED[number]
    (story,) = [s for s in found["stories"] if accused(found, s["title"]) == number]
    assert (invariant, fault) in {(f["invariant"], f["fault"]) for f in story["faults"]}, story
    assert story["rows"]


@pytest.mark.parametrize(
    "fault",
    ["phantom", "committed-twice", "dead-letter-unasked", "journal-unasked", "journal-unfounded"],
)
def test_those_outside_the_stream_are_named(found: Row, fault: str) -> None:
    assert [c for c in found["checked"] if c["fault"] == fault and c["violations"] >= 1]


def test_nobody_else_is_accused(found: Row) -> None:
    numbers = {accused(found, title) for title in faults(found)} - {None}
    assert numbers == set(PLANTED), faults(found)
    assert found["messages_violated"] == len(PLANTED) + 5
    assert found["messages_violated"] == len(found["stories"]), "one story for each"
    assert found["verdict"].startswith(f"VIOLATED: {found['violations']} violations of I2, I3, I4")
    assert found["verdict"].endswith(f"by {len(PLANTED) + 5} messages")
