"""The judge of ``make spark-land``: what was landed, read as a stranger reads it, beside what was
committed.

Nothing here is ours: the folder of the table is all that is known of it. Parquet is read by
pyarrow, which takes every file that it finds; Delta by deltalake, and Iceberg by pyiceberg from the
metadata that ``version-hint.text`` names. Every row is compared with the message of its number:
its columns or its body, where it comes from, and its place among the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

BAD_EVERY = 97
"""So often a body is no JSON."""
TOLD_MAX = 20
"""Rows of one fault that are named."""
GOOD = ("queueManager", "queue", "lookupId", "messageId", "n", "padding")
BAD = ("queueManager", "queue", "lookupId", "messageId", "body", "reason")


def body(number: int) -> bytes:
    """What is sent; some of it is no JSON."""
    if number % BAD_EVERY == 0:
        return f"{number} {padding(number)}".encode()
    return json.dumps({"n": number, "padding": padding(number)}).encode()


def padding(number: int) -> str:
    """Beside the number; no two numbers that are near have the same."""
    return f"{number * 7919}-" + "x" * (number % 200)


def read(kind: str, folder: Path) -> Iterator[pa.RecordBatch]:
    """All rows of a table; none if there is none."""
    if not folder.is_dir():
        return iter(())
    if kind == "delta":
        import deltalake

        if not deltalake.DeltaTable.is_deltatable(str(folder)):
            return iter(())
        return iter(deltalake.DeltaTable(str(folder)).to_pyarrow_dataset().to_batches())
    if kind == "iceberg":
        from pyiceberg.table import StaticTable

        hint = folder / "metadata" / "version-hint.text"
        if not hint.is_file():
            return iter(())
        newest = hint.with_name(f"v{hint.read_text().strip()}.metadata.json")
        return iter(StaticTable.from_metadata(str(newest)).scan().to_arrow_batch_reader())
    from pyarrow import dataset

    if not any(folder.glob("*.parquet")):
        return iter(())
    return iter(dataset.dataset(str(folder), format="parquet").to_batches())


class Found:
    """Rows of both tables, and what is wrong with each by itself."""

    def __init__(self, manager: str, queue: str) -> None:
        self._from = manager, queue
        self._numbers: list[Any] = []
        self._places: list[Any] = []
        self._messages: set[bytes] = set()
        self.rows = 0
        self.faults: dict[str, list[str]] = {}

    def fault(self, what: str, which: object) -> None:
        """One row that is wrong."""
        self.faults.setdefault(what, []).append(str(which))

    def add(self, batch: pa.RecordBatch, *, bad: bool) -> None:
        """Rows of a table; ``bad``: of the error table."""
        columns = [batch.column(name) for name in (BAD if bad else GOOD)]
        managers, queues, places, messages = columns[:4]
        judge = self._refused if bad else self._landed
        values = zip(columns[4].to_pylist(), columns[5].to_pylist(), strict=True)
        numbers = [judge(*pair) for pair in values]
        for number, *origin in zip(numbers, managers.to_pylist(), queues.to_pylist(), strict=True):
            if tuple(origin) != self._from:
                self.fault(f"of another queue ({origin[1]} of {origin[0]})", number)
        self.rows += len(numbers)
        self._messages.update(messages.to_pylist())
        self._numbers.append(np.array(numbers, np.int64))
        self._places.append(places.to_numpy(zero_copy_only=False))

    def _landed(self, number: int, said: str) -> int:
        if number % BAD_EVERY == 0:
            self.fault("landed, and its body is no JSON", number)
        elif said != padding(number):
            self.fault("changed", number)
        return number

    def _refused(self, said: bytes, reason: str) -> int:
        number = int(said.split(b" ")[0]) if said[:1].isdigit() else json.loads(said)["n"]
        if number % BAD_EVERY:
            self.fault("in the error table, and nothing is wrong with it", number)
        elif said != body(number):
            self.fault("changed", number)
        elif not reason:
            self.fault("without a reason", number)
        return int(number)

    def judge(self, committed: int) -> list[str]:
        """What is wrong, where numbers from 0 on were committed in their order."""
        numbers = np.concatenate([np.zeros(0, np.int64), *self._numbers])
        places = np.concatenate([np.zeros(0, np.int64), *self._places])
        ours = (numbers >= 0) & (numbers < committed)
        for number in numbers[~ours].tolist():
            self.fault("never committed", number)
        counts = np.bincount(numbers[ours], minlength=committed)
        for number in np.flatnonzero(counts == 0).tolist():
            self.fault("lost", number)
        for number in np.flatnonzero(counts > 1).tolist():
            self.fault(f"repeated ({counts[number]} rows)", number)
        if not self.faults and len(self._messages) < self.rows:
            self.fault("identifiers that messages share", self.rows - len(self._messages))
        if not self.faults and np.any(np.diff(numbers[np.argsort(places, kind="stable")]) < 0):
            self.fault("by their places not in the order of the commits", "rows")
        return [
            f"{what}: {', '.join(which[:TOLD_MAX])}"
            + (f" and {len(which) - TOLD_MAX} more" if len(which) > TOLD_MAX else "")
            for what, which in self.faults.items()
        ]


def judged(
    kind: str, to: Path, committed: int, *, manager: str, queue: str
) -> tuple[int, list[str]]:
    """How many rows there are in a table and in its error table, and what is wrong with them."""
    found = Found(manager, queue)
    for folder, bad in ((to, False), (to.with_name(f"{to.name}_errors"), True)):
        for batch in read(kind, folder):
            found.add(batch, bad=bad)
    return found.rows, found.judge(committed)
