"""Conformance cases 45 and 58: what the receiver's filter accepts, as a rule and over the link."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from onceq.core.transfer.ordered_arrival import Judgment, Verdict, judge
from proof.sim.base.packets import names_end
from tests.conformance.policies import no_order_acks
from tests.conformance.world import World, Worlds

Q = r"DIRECT=OS:B\private$\q"
LOCAL = r"private$\q"


@pytest.fixture
def world(worlds: Worlds) -> World:
    world = worlds("A", "B")
    world["B"].create("q")
    return world


@pytest.mark.parametrize(
    ("last", "number", "previous", "verdict"),
    [
        (5, 5, 4, Verdict.DUPLICATE),
        (5, 4, 3, Verdict.DUPLICATE),
        (5, 7, 6, Verdict.GAP),
        (5, 6, 5, Verdict.ACCEPT),
        (6, 9, 6, Verdict.ACCEPT),
        (9, 8, 6, Verdict.DUPLICATE),
    ],
)
def test_case_045_the_filter(last: int, number: int, previous: int, verdict: Verdict) -> None:
    found = judge(stream=1, last=last, arrived=1, number=number, previous=previous)
    assert found.verdict is verdict


def test_case_045_the_filter_on_runs() -> None:
    """A run is judged as its messages would be one by one."""
    for last in range(8):
        for number in range(1, 8):
            for count in range(1, 5):
                for previous in {0, number - 1, max(number - 3, 0)}:
                    run = judge(
                        stream=1, last=last, arrived=1, number=number, previous=previous,
                        count=count,
                    )  # fmt: skip
                    accepted, at = [], last
                    for offset in range(count):
                        before = previous if offset == 0 else number + offset - 1
                        one = judge(
                            stream=1, last=at, arrived=1, number=number + offset, previous=before
                        )
                        if one == Judgment(Verdict.ACCEPT, 0):
                            at = number + offset
                            accepted.append(at)
                    if run.verdict is Verdict.ACCEPT:
                        assert accepted == list(range(number + run.duplicates, number + count))
                    else:
                        assert accepted == []


@pytest.mark.parametrize(
    ("stream", "previous", "verdict"),
    [
        (4, 0, Verdict.STALE_STREAM),
        (6, 0, Verdict.ACCEPT),
        (6, 3, Verdict.GAP),
    ],
)
def test_case_058_streams_are_compared_by_order(
    stream: int, previous: int, verdict: Verdict
) -> None:
    found = judge(stream=5, last=7, arrived=stream, number=4, previous=previous)
    assert found.verdict is verdict


MESSAGE = 56
"""Where the message number stands."""


def forged(world: World, stream: int, number: int, previous: int) -> None:
    """Let a packet with these numbers come to B, in the stream before or after A's, or in it."""
    kept = world.link("A", "B").data()[0]
    packet = bytearray(kept.packet)
    at, _ = names_end(packet, 0)
    struct.pack_into("<QII", packet, at + 4, kept.stream + stream, number, previous)
    (message,) = struct.unpack_from("<I", packet, MESSAGE)
    struct.pack_into("<I", packet, MESSAGE, message + number - 1)
    world.link("A", "B").inject(replace(kept, packet=bytes(packet)))
    world.run(0.01)


def judged(world: World) -> tuple[int, int, int]:
    """How far B is in its stream, and how many messages it has accepted and rejected since."""
    (view,) = world["B"].look("streams")
    return view.number, len(world["B"].bodies(LOCAL)), view.duplicates + view.gaps + view.stale


@pytest.mark.unturned("lines", reason="its moments are shorter than the line")
def test_case_045_the_filter_over_the_link(world: World) -> None:
    world.link("A", "B").policy = no_order_acks
    world["A"].once(Q, *[b"%d" % n for n in range(1, 6)])
    world.run(0.1)
    found = []
    for number, previous in ((5, 4), (4, 3), (7, 6), (6, 5), (9, 6), (8, 6)):
        forged(world, 0, number, previous)
        found.append(judged(world))
    # 7 comes before 6, and waits for it.
    assert found == [(5, 5, 1), (5, 5, 2), (5, 5, 2), (7, 7, 2), (9, 8, 2), (9, 8, 3)]


@pytest.mark.unturned("lines", reason="its moments are shorter than the line")
def test_case_058_streams_are_compared_by_order_over_the_link(world: World) -> None:
    world.link("A", "B").policy = no_order_acks
    world["A"].once(Q, *[b"%d" % n for n in range(1, 8)])
    world.run(0.1)
    found = []
    for stream, previous in ((-1, 0), (1, 3), (1, 0)):
        forged(world, stream, 4, previous)
        found.append(judged(world))
    # What comes before the beginning of its stream waits for it, and is a repetition then.
    assert found == [(7, 7, 1), (7, 7, 1), (4, 8, 2)]
