"""Power cuts on a real file system (P7): ext4 on a loop device, shut down under a store.

In each cycle a process appends, syncs, makes checkpoints and reclaims segments, and says on its
standard output what has been promised. At some moment the file system is shut down without
flushing its journal, as if the power had gone; it is mounted again, and the store must have kept
every promise. In most cycles some sectors of what no sync had covered stand on the disk all the
same (``torn.py``): the tail of the log is torn, and the store must cut it.

Needs root and loop devices; otherwise it says why it cannot run.

    python -m proof power-loss --cycles 200 --seed 1
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from onceq.errors import OnceqError, StorageFailure
from onceq.model.log import frame_size
from onceq.store.files import RealFiles
from onceq.store.log import LogStore
from onceq.store.recovery import check
from proof.torture import torn

SHUTDOWN = 0x8004587D
WITHOUT_FLUSHING_THE_JOURNAL = struct.pack("I", 2)
IMAGE_BYTES = 96 << 20
SEGMENT_BYTES = 1 << 20
OPTIONS = ("defaults", "commit=1", "commit=1000", "data=writeback")


def payload(number: int) -> bytes:
    """What record ``number`` says; anybody can tell."""
    size = Random(number).choice((0, 20, 500, 1_024, 9_000, 70_000))
    return (b"%d." % number * (size // 2 + 1))[: size + 1]


# ---- the process that is cut off ----------------------------------------------------------


class Careless(RealFiles):
    """A planted mistake: a file is synced once, and never again. The judge must find out."""

    def __init__(self) -> None:
        self._synced: set[int] = set()

    def sync(self, file: int) -> None:
        """The first time only."""
        if file not in self._synced:
            self._synced.add(file)
            super().sync(file)


def write(path: str, seed: int, *, careless: bool, stop_after: int = 0) -> None:
    """Work on a store without end, and print each promise.

    Args:
        stop_after: Promises after which the process stops at the next unsynced write; 0: never.
    """
    random = Random(seed)
    store = _opened(path, Careless() if careless else RealFiles())
    number = _count(store)
    covered = store.recovered.checkpoint_position
    said = 0

    def say(what: str) -> None:
        nonlocal said
        said += 1
        print(f"{what} {number}", flush=True)

    say("synced")
    while True:
        for _ in range(random.randint(1, 20)):
            store.append(payload(number))
            number += 1
        if random.random() < 0.3:
            store.flush()
            say("flushed")
            if stop_after and said >= stop_after:
                os.kill(os.getpid(), signal.SIGSTOP)
            continue
        store.sync()
        say("synced")
        store.prepare()
        if store.position - covered > 3 * SEGMENT_BYTES:
            covered = store.position
            store.checkpoint([b"%d" % number, b"." * random.randint(0, 300_000)], covered)
            say("covered")
            store.reclaim(lambda base, end: False)


def _opened(path: str, files: RealFiles) -> LogStore:
    if files.exists(os.path.join(path, "STORE")):
        return LogStore.open(path, files, segment_bytes=SEGMENT_BYTES)
    return LogStore.create(path, files, store_id=b"power loss tests", segment_bytes=SEGMENT_BYTES)


def _first(store: LogStore) -> int:
    """Number of the first record behind the checkpoint."""
    return int((store.recovered.checkpoint or b"0").split(b".")[0])


def _count(store: LogStore) -> int:
    return _first(store) + sum(1 for _ in store.records())


# ---- the judge ----------------------------------------------------------------------------


@dataclass(slots=True)
class Promised:
    """What the process has said."""

    made: bool = False
    synced: int = 0
    covered: int = 0

    def hear(self, line: str) -> None:
        """One line of it."""
        what, number = line.split()
        self.made = True
        if what != "flushed":
            self.synced = max(self.synced, int(number))
        if what == "covered":
            self.covered = int(number)


@dataclass(slots=True)
class Tails:
    """What was found behind the last whole records.

    Attributes:
        written: Cycles in which a part of an unsynced write stood on the disk.
        torn: Cycles in which the store cut something that was not whole.
    """

    written: int = 0
    torn: int = 0


def judge(path: str, promised: Promised) -> int:
    """Hold the store against what was promised; returns the torn bytes.

    Raises:
        AssertionError: A promise was not kept.
    """
    files = RealFiles()
    if not promised.made and not files.exists(os.path.join(path, "STORE")):
        return 0
    report = check(path, files)
    assert report.problem == "", report.problem
    store = _opened(path, files)
    try:
        number, position = _first(store), store.recovered.checkpoint_position
        assert number >= promised.covered, "a durable checkpoint is gone"
        for at, data in store.records():
            assert at == position, f"a hole before {at}"
            assert bytes(data) == payload(number), f"record {number} says something else"
            position += frame_size(len(data))
            number += 1
        assert number >= promised.synced, f"{promised.synced} were promised, {number} are there"
        return store.recovered.torn_bytes
    finally:
        store.abandon()


# ---- the power ----------------------------------------------------------------------------


def impossible() -> str:
    """Why this cannot run here; "" if it can."""
    if not sys.platform.startswith("linux"):
        return "power cuts need Linux"
    if os.geteuid() != 0:
        return "power cuts need root, to mount a file system of their own"
    for program in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(program) is None:
            return f"power cuts need {program}"
    try:
        with _folder() as folder, _image(folder, OPTIONS[0]):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return f"power cuts need loop devices and ext4: {error}"


@contextmanager
def _folder() -> Iterator[Path]:
    """Where the image lies: in memory if there is room, for only what is in it is tried."""
    memory = Path("/dev/shm")
    room = memory.is_dir() and shutil.disk_usage(memory).free > 2 * IMAGE_BYTES
    with tempfile.TemporaryDirectory(dir=memory if room else None) as folder:
        yield Path(folder)


@contextmanager
def _image(folder: Path, options: str) -> Iterator[Path]:
    """A file system in a file, mounted; made if it is not there."""
    image, place = folder / "image", folder / "mounted"
    if not image.exists():
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-F", str(image))
        place.mkdir()
    _run("mount", "-o", f"loop,{options}", str(image), str(place))
    try:
        yield place
    finally:
        _run("umount", str(place))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def cycle(folder: Path, promised: Promised, tails: Tails, *, seed: int, careless: bool) -> None:
    """One life, one power cut, one judgement."""
    random, tearing = Random(seed), Random(f"torn {seed}")
    # A process that stops at a write is never cut off in the middle of a sync; so not always.
    tears = tearing.random() < 0.8
    seen: dict[str, torn.Seen] = {}
    options = OPTIONS[seed % len(OPTIONS)]
    with _image(folder, options) as place:
        command = [sys.executable, "-m", "proof", "power-loss"]
        command += ["--write", str(place / "store"), "--seed", str(seed)]
        left = random.randint(1, 120)
        command += ["--careless"] if careless else []
        command += ["--stop-after", str(left)] if tears else []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            line = "-"
            while line and (left > 0 or (tears and not line.startswith("flushed"))):
                left -= 1
                line = process.stdout.readline()
                if line:
                    promised.hear(line)
            if tears:
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                seen = torn.segments(place / "store")
            mounted = os.open(place, os.O_RDONLY)
            fcntl.ioctl(mounted, SHUTDOWN, WITHOUT_FLUSHING_THE_JOURNAL)
            os.close(mounted)
            process.kill()
            for line in process.stdout:
                if line.endswith("\n"):
                    promised.hear(line)
    with _image(folder, options) as place:
        tails.written += torn.tear(place / "store", seen, tearing) > 0
        tails.torn += judge(str(place / "store"), promised) > 0


def run(cycles: int, seed: int, *, careless: bool = False) -> str:
    """Run cycles on one store; returns a line with the counts.

    Raises:
        AssertionError: A promise was not kept; says in which cycle.
    """
    promised, tails = Promised(), Tails()
    with _folder() as folder:
        for number in range(cycles):
            try:
                this = seed * 1_000_003 + number
                cycle(folder, promised, tails, seed=this, careless=careless)
            except (AssertionError, OnceqError) as error:
                raise AssertionError(
                    f"cycle {number}: {error!r}\n"
                    f"  python -m proof power-loss --cycles {number + 1} --seed {seed}"
                ) from error
    return (
        f"{cycles} power cuts on ext4 ({', '.join(OPTIONS)}): {promised.synced:,} records "
        f"promised, all kept; writes half done {tails.written}, torn tails {tails.torn}"
    )


def main(arguments: list[str]) -> int:
    """Run it; 0 if every promise was kept or it cannot run here."""
    parser = argparse.ArgumentParser(description="Power cuts on a real file system.")
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--careless", action="store_true", help="sync each file only once: must be found"
    )
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--stop-after", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.write:
        try:
            write(given.write, given.seed, careless=given.careless, stop_after=given.stop_after)
        except StorageFailure:
            return 7
    reason = impossible()
    if reason:
        print(f"not run: {reason}")
        return 0
    try:
        print(run(given.cycles, given.seed, careless=given.careless))
    except AssertionError as broken:
        print(f"BROKEN: {broken}")
        return 1
    return 0
