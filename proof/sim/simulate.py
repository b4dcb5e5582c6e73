"""Programme P4: seeds. Each is a whole world of queue managers; a failure is one line to paste.

make sim SEEDS=300          that many worlds, beginning with one given by the commit
make sim SEED=0x1f3         one world, with its story
make sim SEED=0x1f3@1       the same seed, but a world of size 1, in place of its own size
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import logging
import multiprocessing
import os
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from onceq.service import upkeep
from proof.sim.apps import delaying, jobs, onlookers, pausing, places, readers, subjects, wholes
from proof.sim.base import marks
from proof.sim.base.trace import Violation
from proof.sim.faults import beside, lives
from proof.sim.world import World

PROCESSES = 2
GARBAGE_OBJECTS = 1_000_000
"""New objects after which a process looks for garbage within a world: most worlds end before."""
REPEATED = 10
"""Seeds of each batch that are run again with another hash seed."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one world. ``violation`` is "" if every invariant held.

    Attributes:
        processor_s: Time of the processor that it took; the only thing here that is not the same
            each time.
    """

    seed: int
    hash: str
    events: int
    virtual_s: int
    marks: marks.Marks
    ends: Counter[str] = field(default_factory=Counter)
    violation: str = ""
    story: tuple[str, ...] = ()
    processor_s: float = 0.0
    size: float = 0
    """That was asked for; 0: the seed's."""


@contextmanager
def small_world(size: float = 1) -> Iterator[None]:
    """Thresholds that fit a log of kilobytes, not of gigabytes; and no log lines."""
    before = upkeep.SLACK_BYTES, upkeep.IDLE_LOG_BYTES
    upkeep.SLACK_BYTES = int((32 << 10) * size)
    upkeep.IDLE_LOG_BYTES = int((64 << 10) * size)
    lines = logging.getLogger("onceq")
    spoke, lines.disabled = not lines.disabled, True
    try:
        yield
    finally:
        upkeep.SLACK_BYTES, upkeep.IDLE_LOG_BYTES = before
        lines.disabled = not spoke


def run_seed(seed: int, *, whole_story: bool = False, size: float = 0) -> Result:
    """Live through one world; ``size`` 0: as large as the seed says."""
    begun = time.process_time()
    world = World(seed, whole_story=whole_story, size=size)
    violation, story = "", tuple[str, ...]()
    try:
        with small_world(world.kernel.options.size):
            world.run()
    except Violation as error:
        violation = str(error)
    except Exception:  # noqa: BLE001 - any error is a finding
        violation = traceback.format_exc()
    if violation or whole_story:
        story = tuple(world.kernel.trace.story())
    return Result(
        seed, world.kernel.trace.hash, world.kernel.trace.events, world.kernel.now // 1_000_000,
        world.kernel.marks,
        world.verdict.ends, violation, story, time.process_time() - begun, size,
    )  # fmt: skip


def fresh(count: int, commit: str) -> list[int]:
    """Seeds of a batch: the same for a commit, others for the next."""
    first = int.from_bytes(hashlib.sha256(commit.encode()).digest()[:4], "little")
    return [first + index for index in range(count)]


def commit_of(directory: str) -> str:
    """The commit that is checked out; a fixed text where there is none."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=directory, capture_output=True, text=True, timeout=10
        )
    except OSError:
        return "no commit"
    return found.stdout.strip() or "no commit"


def run_batch(seeds: list[int]) -> Iterator[Result]:
    """Run worlds in several processes, in no particular order."""
    if len(seeds) == 1:
        yield run_seed(seeds[0])
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(PROCESSES, _settle_in) as pool:
        yield from pool.imap_unordered(_one_of_many, seeds, chunksize=4)


def _settle_in() -> None:
    """A process for worlds begins: what is there stays; worlds are thrown away whole."""
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS, 20, 50)


def _one_of_many(seed: int) -> Result:
    """Live through one world, and throw it away."""
    try:
        return run_seed(seed)
    finally:
        gc.collect()


def hash_in_other_process(seeds: list[int], hash_seed: str) -> list[str]:
    """Trace hashes of seeds in a Python with another hash seed (I27)."""
    code = (
        "import sys; from proof.sim.simulate import run_seed; "
        "[print(run_seed(int(s)).hash) for s in sys.argv[1:]]"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return found.stdout.split()


def parsed(text: str) -> tuple[int, float]:
    """A seed as people write it, ``0x98`` or ``0x98@1``: the seed, and the size of the world.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    seed, _, size = text.partition("@")
    try:
        return int(seed, 0), float(size or 0)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no seed: a seed is a number, such as 152 or 0x98, and 0x98@0.5 is a "
            "world of half the size"
        ) from None


def describe(result: Result) -> str:
    """A failure: how to see it again, what is wrong, and how it came about."""
    also = " ARGS=--beside" if beside.SHARE == 1 else ""
    also = " ARGS=--lives" if lives.SHARE == 1 else also
    also = " ARGS=--readers" if readers.SHARE == 1 else also
    also = " ARGS=--rights" if subjects.SHARE == 1 else also
    also = " ARGS=--delays" if delaying.SHARE == 1 else also
    also = " ARGS=--pauses" if pausing.SHARE == 1 else also
    also = " ARGS=--jobs" if jobs.SHARE == 1 else also
    also = " ARGS=--consumers" if onlookers.SHARE == 1 else also
    also = " ARGS=--wholes" if wholes.SHARE == 1 else also
    also = " ARGS=--names" if len(places.WINDOWS) == 1 else also
    seed = f"{result.seed:#x}" + (f"@{result.size:g}" if result.size else "")
    return "\n".join([f"make sim SEED={seed}{also}", f"    {result.violation}", *result.story])


def main(argv: list[str]) -> int:
    """See the module; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make sim", description="Simulated worlds.")
    parser.add_argument("--seeds", type=int, default=marks.BATCH)
    parser.add_argument("--seed", type=parsed, help="0x98, or 0x98@1: a world of that size")
    parser.add_argument("--first", type=lambda text: parsed(text)[0])
    parser.add_argument("--log", action="store_true", help="with --seed: the whole story")
    parser.add_argument("--lives", action="store_true",
                        help="in every world managers are put back to earlier moments")  # fmt: skip
    parser.add_argument("--beside", action="store_true",
                        help="in every world two copies of a manager run side by side")  # fmt: skip
    parser.add_argument("--readers", action="store_true",
                        help="in every world readers remove what they have written")  # fmt: skip
    parser.add_argument("--rights", action="store_true",
                        help="in every world rights are given and taken away")  # fmt: skip
    parser.add_argument("--delays", action="store_true",
                        help="in every world messages are delayed")  # fmt: skip
    parser.add_argument("--wholes", action="store_true",
                        help="in every world transactions are received whole")  # fmt: skip
    parser.add_argument("--pauses", action="store_true",
                        help="in every world operators pause queues")  # fmt: skip
    parser.add_argument("--jobs", action="store_true",
                        help="in every world operators start jobs")  # fmt: skip
    parser.add_argument("--consumers", action="store_true",
                        help="in every world operators ask who works on queues")  # fmt: skip
    parser.add_argument("--names", action="store_true",
                        help="in every world with a directory most queues are public")  # fmt: skip
    arguments = parser.parse_args(argv)
    _everywhere(arguments)
    write = sys.stdout.write
    if arguments.seed is not None:
        return _one(*arguments.seed, whole_story=arguments.log)
    first = arguments.first
    if first is not None:
        seeds = [first + index for index in range(arguments.seeds)]
    else:
        seeds = fresh(arguments.seeds, commit_of(os.getcwd()))
    began = time.monotonic()
    reached: marks.Marks = marks.Marks()
    done = failed = 0
    hashes: dict[int, str] = {}
    took: dict[int, float] = {}
    for result in run_batch(seeds):
        done += 1
        reached += result.marks
        hashes[result.seed] = result.hash
        took[result.seed] = result.processor_s
        if result.violation:
            failed += 1
            write(describe(result) + "\n")
        if done % 100 == 0:
            write(f"{done} worlds, {done / (time.monotonic() - began):.1f}/s, {failed} failed\n")
    write(f"{done} worlds in {time.monotonic() - began:.1f} s, {failed} failed\n")
    if took:
        slowest = max(took, key=took.__getitem__)
        write(
            f"{done / sum(took.values()):.2f} a second of one processor; "
            f"the slowest is {slowest:#x} with {took[slowest]:.1f} s\n"
        )
    required = _required(arguments)
    for mark in required:
        write(f"    {reached[mark]:8}  {mark}\n")
    repeated = seeds[:REPEATED]
    if hash_in_other_process(repeated, "4711") != [hashes[seed] for seed in repeated]:
        write("I27: the same seeds gave other traces under another hash seed\n")
        failed += 1
    lacking = marks.missing(reached, required) if len(seeds) >= marks.BATCH else []
    for mark in lacking:
        write(f"no world reached this mark: {mark}\n")
    return 1 if failed or lacking else 0


def _everywhere(arguments: argparse.Namespace) -> None:
    """Let all worlds be of the kinds that were asked for."""
    for wanted, everywhere in (
        (arguments.lives, lives.everywhere), (arguments.beside, beside.everywhere),
        (arguments.readers, readers.everywhere), (arguments.rights, subjects.everywhere),
        (arguments.delays, delaying.everywhere), (arguments.pauses, pausing.everywhere),
        (arguments.jobs, jobs.everywhere), (arguments.consumers, onlookers.everywhere),
        (arguments.names, places.everywhere), (arguments.wholes, wholes.everywhere),
    ):  # fmt: skip
        if wanted:
            everywhere()


def _required(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The marks that a batch must reach."""
    if arguments.lives or arguments.beside:
        return marks.OF_LIVES if arguments.lives else marks.OF_BESIDE
    if arguments.readers:
        return marks.OF_READERS
    if arguments.delays:
        return marks.OF_DELAYS
    if arguments.pauses:
        return marks.OF_PAUSES
    if arguments.jobs:
        return marks.OF_JOBS
    if arguments.consumers:
        return marks.OF_CONSUMERS
    if arguments.names:
        return marks.OF_NAMES
    if arguments.wholes:
        return marks.OF_WHOLES
    if arguments.rights:
        return (*marks.OF_RIGHTS, *marks.OF_TOKENS, *marks.OF_LYING)
    return marks.REQUIRED


def _one(seed: int, size: float, *, whole_story: bool) -> int:
    result = run_seed(seed, whole_story=whole_story, size=size)
    sys.stdout.write(
        f"seed {seed:#x}: {result.events} events, {result.virtual_s / 3600:.1f} virtual hours, "
        f"trace {result.hash}\n    {dict(result.marks)}\n    {dict(sorted(result.ends.items()))}\n"
    )
    if result.violation:
        sys.stdout.write(describe(result) + "\n")
        return 1
    if whole_story:
        sys.stdout.write("\n".join(result.story) + "\n")
    return 0
