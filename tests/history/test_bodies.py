"""The sum of a body stands beside its commit, its acceptance and its reception, however the body
lay: alone, among many, large, once for several destinations, and come by HTTP."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pyarrow.parquet as pq
import pytest

from onceq.history.columns import ADDED
from onceq.packet.address import PROPERTIES_HEADER
from tests.audit.histories import audited, peopled
from tests.conformance.over_http import Q as OVER_HTTP
from tests.history.worlds import HISTORY, Kept

LOCAL, TO_B, TO_C = r"private$\q", r"DIRECT=OS:B\private$\q", r"DIRECT=OS:C\private$\q"
SHAPES = {
    "none": [b""],
    "one": [b"alone"],
    "few": [b"%d" % at * 7 for at in range(5)],
    "many": [b"%d" % at * (at + 1) for at in range(40)],
    "large": [b"x" * 20_000, b"y" * 30_001],
    "one large among small": [b"small", b"z" * 100_000, *[b"small too"] * 20],
    "odd": [bytes([at]) * PROPERTIES_HEADER for at in range(3)],
}


def sums(world: Kept, name: str, event: str) -> list[int | None]:
    return [row["bodyCrc"] for row in world.told(name).rows() if row["event"] == event]


@pytest.fixture
def world() -> Kept:
    made = Kept("A", "B", "C", settings=HISTORY)
    for name in "BC":
        made[name].create("q")
    return made


@pytest.mark.parametrize("shape", SHAPES)
def test_of_each_body(world: Kept, shape: str) -> None:
    bodies = SHAPES[shape]
    right = [crc32(body) for body in bodies]
    world["A"].once(TO_B, *bodies, label="a label", extension=b"and more" * 3)
    world.run(30)
    assert sums(world, "A", "committed") == right
    assert sums(world, "B", "accepted") == right
    world["B"].receive(LOCAL, count=len(bodies))
    world.run(5)
    received = sums(world, "B", "received")
    assert received == right or ("large" in shape and set(received) <= {*right, None})
    other = {row["event"] for row in world.told("A").rows() if row["bodyCrc"] is not None}
    assert other == {"committed"}, "what says nothing new of the body takes no room"


def test_of_one_body_for_several_destinations(world: Kept) -> None:
    body = b"for both" * 10_000
    world["A"].once(f"{TO_B},{TO_C}", body)
    world.run(30)
    assert sums(world, "A", "committed") == [crc32(body)] * 2
    assert sums(world, "B", "accepted") == sums(world, "C", "accepted") == [crc32(body)]


def test_of_a_body_that_came_by_http(world: Kept) -> None:
    body = bytes(range(256)) * 3
    world["A"].once(OVER_HTTP, body)
    world.run(30)
    assert sums(world, "A", "committed") == sums(world, "B", "accepted") == [crc32(body)]


def test_histories_without_sums_are_audited_as_ever(tmp_path: Path) -> None:
    peopled(tmp_path)
    with_sums = compared(tmp_path)
    for file in tmp_path.glob("B/*"):
        table = pq.read_table(file)
        pq.write_table(table.drop_columns(sorted(ADDED)), file)
    assert with_sums > 40
    assert compared(tmp_path) == 2, "of what was committed and received at A alone"


def compared(path: Path) -> int:
    """On how many messages bodies were compared; nothing is found."""
    found = audited(path)
    assert not found["violations"]
    (line,) = [one for one in found["checked"] if one["fault"] == "body-altered"]
    return int(line["looked_at"])
