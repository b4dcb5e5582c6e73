"""How much memory a Python worker of an operator takes, if one stream has nearly all of the rows.

The rows of ``operators`` (some 200 bytes each), of which one sender and one queue have
nine in ten, the others the rest; the same number of rows spread evenly beside it. Each case runs in
Spark workers that did nothing before, since a worker keeps what it once had, and tells rows a
second and the peak of the largest worker's resident memory, the libraries of Spark's workers
included. As a stream the rows come in micro-batches (``--batch-rows``); ``--at-once`` gives them
all as one.

    python -m proof bench-spark-skew --rows 5000000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proof.bench.spark.operators import (
    BATCH_ROWS,
    QUOTAS,
    batch_rate,
    make,
    session,
    steps,
    stream_rate,
)

ROWS = 5_000_000
STREAMS = 1_000
HOT = 0.9
"""The share of one stream, and of the one queue that it goes to."""
MEGABYTES_MAX = 500.0
"""What is owed: the largest worker takes less, however rows are spread."""
MEGABYTES = ", MB of the largest worker"
EVERY_S = 0.05
OPERATORS = ("eod_filter", "number", QUOTAS, "settle", "expand_destinations")
SPREADS = {"even": 0.0, "skewed": HOT}
WAYS = ("batch", "stream")

Figures = dict[str, float]


def run(rows: int = ROWS) -> Figures:
    """What ``make bench-spark`` tells: operators with a memory, skewed.

    Returns:
        Rows a second by "<spread> <way>, <operator>", and megabytes of the largest worker by the
        same with ``MEGABYTES`` behind it.
    """
    figures: Figures = {}
    for case, rate, size in cases(rows, OPERATORS[:3], WAYS, ("skewed",), BATCH_ROWS):
        figures |= {case: rate, f"{case}{MEGABYTES}": size}
    return figures


def cases(
    rows: int, operators: Sequence[str], ways: Sequence[str], spreads: Sequence[str],
    batch_rows: int,
) -> Iterator[tuple[str, float, float]]:  # fmt: skip
    """Each case with its rows a second, and megabytes of its largest worker."""
    with tempfile.TemporaryDirectory(prefix="bench-skew-") as folder:
        for spread in spreads:
            place = Path(folder) / spread
            make(place, rows, STREAMS, hot=SPREADS[spread])
            for way in ways:
                for name in operators:
                    case = f"{spread} {way}, {name}"
                    where = Path(folder) / f"checkpoint-{case}"
                    measure = batch_rate if way == "batch" else stream_of(batch_rows)
                    with session() as spark, peak() as largest:
                        rate = measure(spark, place, steps(spark, hot=SPREADS[spread])[name], where)
                        size = largest() / 1e6
                    yield case, rate, size


def stream_of(batch_rows: int) -> Callable[[Any, Path, Any, Path], float]:
    """Return a function that measures micro-batches of ``batch_rows`` rows."""

    def rate(spark: Any, source: Path, step: Any, checkpoint: Path) -> float:
        return stream_rate(spark, source, step, checkpoint, batch_rows=batch_rows)

    return rate


@contextmanager
def peak() -> Iterator[Callable[[], int]]:
    """Looks at the Python workers below this process; gives the peak of the largest (bytes)."""
    largest = 0
    over = threading.Event()

    def read_peak() -> None:
        nonlocal largest
        for pid in workers():
            largest = max(largest, high_water(pid))

    def keep_looking() -> None:
        while not over.wait(EVERY_S):
            read_peak()

    def largest_yet() -> int:
        read_peak()
        return largest

    watcher = threading.Thread(target=keep_looking, daemon=True)
    watcher.start()
    try:
        yield largest_yet
    finally:
        over.set()
        watcher.join()


def workers() -> list[int]:
    """Python processes below the Java process below this one."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            below.setdefault(_parent(int(name)), []).append(int(name))
    found: list[int] = []
    todo = list(below.get(os.getpid(), []))
    while todo:
        pid = todo.pop()
        todo += below.get(pid, [])
        found.append(pid)
    return [pid for pid in found if b"pyspark" in _read(f"/proc/{pid}/cmdline")
            and b"java" not in _read(f"/proc/{pid}/cmdline")[:200]]  # fmt: skip


def high_water(pid: int) -> int:
    """The most resident memory that a process has had (bytes); 0 if it has gone."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _parent(pid: int) -> int:
    found = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(found[1]) if found else 0


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def main(arguments: list[str]) -> int:
    """Measure and print; 1 if a worker took more than is owed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--operators", nargs="+", choices=OPERATORS, default=list(OPERATORS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--spreads", nargs="+", choices=SPREADS, default=list(SPREADS))
    parser.add_argument("--batch-rows", type=int, default=BATCH_ROWS)
    parser.add_argument("--at-once", action="store_true", help="a stream in one micro-batch")
    given = parser.parse_args(arguments)
    print(f"{'case':40} {'rows/s':>12} {'MB, largest worker':>20}", flush=True)
    worst = 0.0
    batch_rows = given.rows if given.at_once else given.batch_rows
    for case, rate, size in cases(
        given.rows, given.operators, given.ways, given.spreads, batch_rows
    ):
        owed = "" if size < MEGABYTES_MAX else "  OWED"
        print(f"{case:40} {rate:12,.0f} {size:20,.0f}{owed}", flush=True)
        worst = max(worst, size)
    return int(worst >= MEGABYTES_MAX)
