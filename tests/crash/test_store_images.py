"""The store survives every crash point of its scenarios, on every legal disk (P5)."""

from __future__ import annotations

from itertools import islice

import pytest

from proof.torture import crash
from tests.crash.programme import Point, Tally, everything, later_points, points, run
from tests.crash.scenarios import SCENARIOS

PARTS = 4
"""Of the points of a scenario; a test takes every fourth one."""
STEPS_OF_A_START = 16
"""Operations on the disk: more than a start after a kill makes."""


@pytest.mark.slow
@pytest.mark.tier("rest")
@pytest.mark.search("store", few=8)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_crash_point_and_image(name: str, part: int) -> None:
    tally = Tally()
    for point in islice(points(name), part, None, PARTS):
        run(point, 150, tally)
    assert tally.points >= 2
    assert tally.images >= 2 * tally.points, "hardly any image was judged"


@pytest.mark.slow
def test_three_thousand_images() -> None:
    tally = everything(3_000, seed=2)
    assert tally.images >= 3_000
    assert min(tally.by_way.values()) > 100, "a way to end was hardly tried"
    assert tally.torn > 50, "hardly any torn tail was seen"


@pytest.mark.slow
@pytest.mark.tier("rest")
def test_twenty_thousand_images() -> None:
    tally = everything(20_000, seed=1)
    assert tally.images >= 20_000
    assert min(tally.by_way.values()) > 1_000, "a way to end was hardly tried"
    assert tally.torn > 500, "hardly any torn tail was seen"


def test_a_promise_that_a_killed_process_wrote_and_did_not_wait_for() -> None:
    # The next start reads it from the system's memory and finds nothing to say anew. It removes
    # the segment that was not begun any more; the power goes before PROMISED was on the disk.
    tally = Tally()
    for later in later_points("random-12", 64):
        run(later, 6, tally)
    assert tally.by_way["kill"] > 100


@pytest.mark.slow
@pytest.mark.tier("rest")
@pytest.mark.parametrize("name", ["checkpoint", "random-3", "random-12", "stale_segment"])
def test_every_kill_and_every_step_of_the_start_after_it(name: str) -> None:
    tally = Tally()
    for point in points(name):
        for later in range(1, STEPS_OF_A_START):
            run(Point(name, "kill", point.stop, later), 4, tally)
    assert tally.by_way["kill"] > 1_000


def test_the_command_shows_one_point_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert crash.main(["--scenario", "lazy", "--point", "12", "--most", "30"]) == 0
    said = capsys.readouterr().out
    assert "at 1 crash points" in said
    assert "every promise kept" in said
