"""Crash points times disk images of the store (P5): every operation, every legal image.

A scenario is a short life of a store. Four ways to end it are tried:

* ``power``: the power goes before one of its disk operations. For each disk that may be found
  then, the store is checked, opened, held against what it had promised, opened again, used on.
* ``again``: the same, and the power goes once more while the store is being recovered.
* ``kill``: the process is killed before one of its operations and started again, and the power goes
  later. What the first process wrote may stand in the system's memory only.
* ``lost``: the process is killed, and one of the store's files is removed, emptied or cut short:
  what was promised is there, or the store is refused (``lost_files.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from onceq.errors import OnceqError
from onceq.store.log import LogStore
from onceq.testing.disk import PowerCut, SimFiles
from proof.sim.base.scale import Scale, put_in
from tests.crash import lost_files
from tests.crash.life import PATH, SEGMENT, Life
from tests.crash.scenarios import SCENARIOS, onward, scenario

WAYS = ("power", "again", "kill", "lost")
IMAGES_IN_RECOVERY = 6
LOST_MOST = 60
"""Ways in which a file may be lost, at one point."""
LARGE = Scale(LARGE_RECORD_BYTES=900, LARGE_BLOCK_BYTES=512)
"""Sizes with which records of these lives are large, and have several blocks."""
AT_ENDS = 10
"""So many times more images at the end of a scenario: what it leads up to."""


@dataclass(slots=True)
class Tally:
    """What a run of the programme has seen."""

    points: int = 0
    images: int = 0
    torn: int = 0
    refused: int = 0
    by_way: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))

    def count(self, way: str, torn_bytes: int) -> None:
        """One more image was judged."""
        self.images += 1
        self.by_way[way] += 1
        self.torn += torn_bytes > 0


class Broken(AssertionError):
    """A promise was not kept; says where, and how to see it again."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where a life ends: before which operation, and for ``kill`` before which later one."""

    scenario: str
    way: str
    stop: int
    later: int = 0

    def arguments(self, most: int, seed: int) -> str:
        """What to give to the command to see it again."""
        later = f" --later {self.later}" if self.later else ""
        return (
            f"--scenario {self.scenario} --way {self.way} --point {self.stop}{later} "
            f"--most {most} --seed {seed}"
        )


def sizes(name: str) -> AbstractContextManager[None]:
    """What makes a record large in a life: in every second random one few bytes do."""
    few = name.startswith("random-") and int(name[7:]) % 2
    return put_in(LARGE) if few else nullcontext()


def lived(name: str, stop: int) -> tuple[Life, bool]:
    """A life up to before operation ``stop``, and whether it was stopped there."""
    life = Life(SimFiles())
    life.files.stop_at = stop
    try:
        with sizes(name):
            scenario(name)(life)
    except PowerCut:
        return life, True
    return life, False


def points(name: str) -> Iterator[Point]:
    """All crash points of a scenario, its end included."""
    stop, stopped = 1, True
    while stopped:
        _, stopped = lived(name, stop)
        yield Point(name, "power", stop)
        stop += 1


def later_points(name: str, stop: int) -> Iterator[Point]:
    """All crash points of going on after the process was killed at a point."""
    later, stopped = 1, True
    while stopped:
        life, stopped = killed(Point(name, "kill", stop, later))
        if life is None:
            return
        yield Point(name, "kill", stop, later)
        later += 1


def killed(point: Point) -> tuple[Life | None, bool]:
    """The life after a kill and a restart; None if there was no store yet."""
    life, _ = lived(point.scenario, point.stop)
    with sizes(point.scenario):
        return _gone_on(life, point)


def _gone_on(life: Life, point: Point) -> tuple[Life | None, bool]:
    life.files.stop_at = 0
    life.killed()
    if not life.existed and not life.files.exists(PATH + "/STORE"):
        return None, False
    life.files.stop_at = life.files.operations + point.later
    try:
        onward(life)
    except PowerCut:
        return life, True
    return life, False


def run(point: Point, most: int, tally: Tally, *, seed: int = 0) -> None:
    """Judge up to ``most`` images at one point.

    Raises:
        Broken: A promise was not kept.
    """
    tally.points += 1
    with sizes(point.scenario):
        _run(point, most, tally, seed)


def _run(point: Point, most: int, tally: Tally, seed: int) -> None:
    if point.way == "kill":
        after_kill, _ = killed(point)
        if after_kill is None:
            return
        life = after_kill
    else:
        life, _ = lived(point.scenario, point.stop)
    if point.way == "lost":
        _lost(life, point, tally, most)
        return
    for number, disk in enumerate(life.files.images(most, seed=seed)):
        try:
            if point.way == "again":
                _recovered_in_parts(life, disk, tally, seed)
            else:
                tally.count(point.way, life.judge(disk))
        except (AssertionError, OnceqError) as error:
            raise Broken(
                f"{point.scenario}, {point.way} before operation {point.stop}, image {number}: "
                f"{error!r}\n  python -m proof crash {point.arguments(most, seed)}"
            ) from error


def _lost(life: Life, point: Point, tally: Tally, most: int) -> None:
    """Take one file after the other away from what a killed process left behind."""
    if not life.existed:
        return
    for file, how, disk in islice(lost_files.mangled(lost_files.as_written(life.files)), most):
        try:
            tally.refused += lost_files.judge(life, disk)
            tally.count("lost", 0)
        except (AssertionError, OnceqError) as error:
            raise Broken(
                f"{point.scenario}, {file} {how} before operation {point.stop}: {error!r}\n"
                f"  python -m proof crash {point.arguments(most, 0)}"
            ) from error


def _recovered_in_parts(life: Life, disk: SimFiles, tally: Tally, seed: int) -> None:
    """Crash at every operation of recovery."""
    if not life.existed and not disk.exists(PATH + "/STORE"):
        return
    everything = disk.pending_writes, disk.pending_names
    assert everything == ((), ()), "an image is durable as it is"
    stop, stopped = 1, True
    while stopped:
        copy = next(iter(disk.images(1)))
        copy.stop_at = stop
        try:
            LogStore.open(PATH, copy, segment_bytes=SEGMENT).abandon()
            stopped = False
        except PowerCut:
            pass
        for again in copy.images(IMAGES_IN_RECOVERY, seed=seed):
            tally.count("again", life.on(again).judge(again))
        stop += 1


def everything(images: int, *, seed: int = 0, tally: Tally | None = None) -> Tally:
    """All scenarios, all points, all ways; then random lives, until so many images are judged."""
    tally = tally or Tally()
    random = Random(seed)
    power = [point for name in SCENARIOS for point in points(name)]
    most = max(images // 2 // len(power), 4)
    ends = {point.scenario: point for point in power}
    for point in power:
        aimed_at = AT_ENDS if point is ends[point.scenario] else 1
        run(point, most * aimed_at, tally, seed=seed)
    random.shuffle(power)
    for point in power:
        if tally.by_way["again"] >= images // 8:
            break
        run(Point(point.scenario, "again", point.stop), 3, tally, seed=seed)
    for point in power:
        if tally.by_way["kill"] >= images // 8:
            break
        _kill_some(point, 8, random, tally, seed)
    for point in power:
        if tally.by_way["lost"] >= images // 8:
            break
        run(Point(point.scenario, "lost", point.stop), LOST_MOST, tally)
    life = seed * 1_000_000
    while tally.images < images:
        life += 1
        places = list(points(f"random-{life}"))
        for point in random.sample(places, min(len(places), 12)):
            run(point, 20, tally, seed=seed)
        for point in random.sample(places, min(len(places), 2)):
            run(Point(point.scenario, "again", point.stop), 2, tally, seed=seed)
            _kill_some(point, 3, random, tally, seed)
            run(Point(point.scenario, "lost", point.stop), LOST_MOST, tally)
    return tally


def _kill_some(point: Point, count: int, random: Random, tally: Tally, seed: int) -> None:
    later = list(later_points(point.scenario, point.stop))
    for place in random.sample(later, min(len(later), count)):
        run(place, 6, tally, seed=seed)
