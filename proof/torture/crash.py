"""Crash points times disk images of the store: ``make crash IMAGES=n``, or one point again.

Without ``--scenario`` the whole programme runs (canonical scenarios, then random lives) until
IMAGES disk images were judged, and prints its counts. A broken promise is printed with the one line
that shows it again. See ``tests/crash/programme.py``.
"""

from __future__ import annotations

import argparse
import time

from tests.crash import group_life
from tests.crash.programme import WAYS, Broken, Point, Tally, everything, run
from tests.crash.scenarios import SCENARIOS

GROUP_SHARE = 1_000
"""For this many images one more at each of the sixty points of committing groups."""


def main(arguments: list[str]) -> int:
    """Run it; 0 if every promise was kept."""
    parser = argparse.ArgumentParser(description="Crash points times disk images of the store.")
    parser.add_argument("--images", type=int, default=20_000, help="disk images to judge")
    parser.add_argument("--seed", type=int, default=0, help="other choices, other random lives")
    parser.add_argument("--scenario", help=f"one only: {', '.join(SCENARIOS)}, random-N")
    parser.add_argument("--way", choices=WAYS, default="power", help="how the life ends")
    parser.add_argument("--point", type=int, default=1, help="before which disk operation")
    parser.add_argument("--later", type=int, default=0, help="for kill: before which later one")
    parser.add_argument("--most", type=int, default=2_000, help="images at that point")
    given = parser.parse_args(arguments)
    tally = Tally()
    started = time.monotonic()
    try:
        if given.scenario:
            point = Point(given.scenario, given.way, given.point, given.later)
            run(point, given.most, tally, seed=given.seed)
        else:
            everything(given.images, seed=given.seed, tally=tally)
            groups = group_life.images(max(given.images // GROUP_SHARE, 2))
            print(f"{groups:,} disk images while groups of branches were committed: all or none")
    except Broken as broken:
        print(f"BROKEN after {tally.images} images: {broken}")
        return 1
    ways = ", ".join(f"{way} {count:,}" for way, count in tally.by_way.items())
    print(
        f"{tally.images:,} disk images at {tally.points:,} crash points in "
        f"{time.monotonic() - started:.1f} s: every promise kept ({ways}; torn tails cut: "
        f"{tally.torn:,}; seed {given.seed})"
    )
    return 0
