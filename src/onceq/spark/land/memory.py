"""What a landing remembers in the folder of its table: the plan, and which batches are done.

It writes files of landings so that they survive a loss of power, and puts those of a batch into
their place under its number.

A folder belongs to one plan as soon as a batch of it was planned; until then the next plan replaces
a mistyped one. What may change from run to run is what makes no difference to the rows: sizes of
batches, whether it goes on, and columns that are added (``plan.check_change``).
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onceq.model.names import folded
from onceq.spark.argument_checks import wrong
from onceq.spark.connections import parts_of
from onceq.spark.land.plan import Field, LandPlan, check_change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# ---- files ---------------------------------------------------------------------------------------
#
# Files of landings and replays that survive a loss of power, and the Parquet files of a batch.


def sync_path(path: Path) -> None:
    """Make a file, or the names in a folder, survive a loss of power."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing; all of them survive a loss of power."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_path(folder.parent)


def write_json(path: Path, value: Any) -> None:
    """Replace a file by a value as JSON: after a crash it is the old one or the new one."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value))
    # The contents before the name: else a power cut could leave an empty file under it.
    sync_path(fresh)
    fresh.replace(path)
    sync_path(path.parent)


@dataclass(frozen=True, slots=True)
class File:
    """One file of a table, where it stands there, and what is in it."""

    path: Path
    rows: int
    bytes: int


def batch_prefix(batch: int) -> str:
    """How the names of a batch's files begin."""
    return f"batch-{batch:09}-"


def stage_files(frame: DataFrame, folder: Path, by: str = "") -> None:
    """Let Spark write a frame's rows; what an earlier attempt has left is cleared before.

    Args:
        by: Column whose values become folders; empty: none.
    """
    shutil.rmtree(folder, ignore_errors=True)
    writer = frame.write
    (writer.partitionBy(by) if by else writer).parquet(str(folder))


def place_files(staged: Path, to: Path, batch: int) -> list[File]:
    """Put staged files in their place, durably, instead of those of an earlier attempt."""
    import pyarrow.parquet as parquet

    # Names alone do not replace them: the earlier attempt may have made more files.
    for left in to.rglob(f"{batch_prefix(batch)}*.parquet"):
        left.unlink()
    found = []
    folders = set()
    for number, file in enumerate(sorted(staged.rglob("*.parquet"))):
        rows = parquet.read_metadata(file).num_rows
        # Spark writes a file for each task, also for those without rows.
        if rows:
            folder = to / file.parent.relative_to(staged)
            make_folder(folder)
            folders.add(folder)
            path = folder / f"{batch_prefix(batch)}{number:05}.parquet"
            found.append(File(path, rows, file.stat().st_size))
            sync_path(file)
            file.replace(path)
    for folder in folders:
        sync_path(folder)
    return found


def placed_files(to: Path, batch: int) -> list[File]:
    """The files of a batch that were put in their place before."""
    import pyarrow.parquet as parquet

    return [
        File(path, parquet.read_metadata(path).num_rows, path.stat().st_size)
        for path in sorted(to.rglob(f"{batch_prefix(batch)}*.parquet"))
    ]


# ---- memory --------------------------------------------------------------------------------------


HIDDEN: Final = "_onceq"
"""Our folder inside the target; readers of tables pass over what begins with a line."""
PLAN: Final = "plan.json"
FORMAT: Final = 2
DRAINED: Final = {
    "table": "parquet", "body": "", "prefix": "", "schema": None,
    "subscription": "onceq spark drain",
}  # fmt: skip
"""What a plan of format 1 does not say, which ``onceq spark drain`` wrote at first."""
FIXED: Final = {
    "table": "--to", "queues": "the queues", "body": "--format", "columns": "--columns",
    "by_date": "--by-date", "keep": "--keep", "prefix": "--prefix",
}  # fmt: skip
"""What must stay, and how users say it."""


@dataclass(frozen=True)
class LandedCounts:
    """What all runs have done: the last batch (-1: none), its messages and those before it, and
    how many of them went into the error table."""

    batch: int = -1
    total: int = 0
    bad: int = 0


class LandMemory:
    """The folder ``_onceq``."""

    def __init__(self, plan: LandPlan) -> None:
        self._plan = plan
        self._to = plan.to.absolute()
        self._hidden = self._to / HIDDEN
        self._state = self._hidden / "done.json"
        self._path = self._hidden / PLAN
        self.staging = self._hidden / "staging"
        self.checkpoint = self._hidden / "checkpoint"
        self.kept: dict[str, Any] = {}
        """The plan as it stands there."""
        self.counts = LandedCounts()

    @property
    def subscription(self) -> str:
        """The name of the query, which no other landing has."""
        return str(self.kept["subscription"])

    @property
    def first(self) -> bool:
        """Whether it began before there were tables of other kinds, and types to agree on."""
        return bool(self.kept["format"] == 1)

    def prepare(self, fields: Sequence[Field] | None) -> None:
        """Look whether this folder can be landed in.

        Args:
            fields: Columns of bodies; None: bodies are left as they are.

        Raises:
            ConfigurationError: It is another plan's, or nobody's.
        """
        plan = self._plan
        wished: dict[str, Any] = {
            "format": FORMAT, "queues": plan.queues,
            "columns": list(plan.kept) if plan.columns or plan.body else [],
            "by_date": plan.by_date, "keep": plan.keep, "table": plan.table, "body": plan.body,
            "prefix": plan.prefix, "schema": None if fields is None else list(fields),
            "subscription": f"onceq spark land {uuid.uuid4()}",
        }  # fmt: skip
        if self._path.exists():
            self.kept = {**DRAINED, **json.loads(self._path.read_text())}
            differs = any(_differs(name, self.kept, wished) for name in (*FIXED, "schema"))
            if self._begun() or not differs:
                self._go_on(wished)
                return
        for folder in (self._to, plan.errors) if fields is not None else (self._to,):
            if folder.is_dir() and any(found.name != HIDDEN for found in folder.iterdir()):
                raise wrong(
                    f"{folder} has files already, and not from a landing; name an empty or new "
                    "folder"
                )
        make_folder(self._hidden)
        self.kept = wished
        write_json(self._path, wished)

    def _begun(self) -> bool:
        """Return whether the table may hold messages already, by the plan in its folder."""
        offsets = self.checkpoint / "offsets"
        planned = offsets.is_dir() and any(offsets.iterdir())
        return planned or self._state.exists() or self.kept["format"] > FORMAT

    def _go_on(self, wished: dict[str, Any]) -> None:
        if self.kept["format"] > FORMAT:
            raise wrong(f"a newer onceq has landed in {self._to}; go on with that one")
        for name, said in FIXED.items():
            if _differs(name, self.kept, wished):
                raise wrong(
                    f"{self._to} was landed in with {said} {_quote(self.kept[name])}, not "
                    f"{_quote(wished[name])}; go on in the same way, or in another folder"
                )
        if self._state.exists():
            self.counts = LandedCounts(**json.loads(self._state.read_text()))
            # Without Spark's record of the last batch the numbers of batches start again, and new
            # messages would be taken for those that are done.
            last = self.counts.batch
            if last >= 0 and not self._planned(last).exists():
                raise wrong(
                    f"the checkpoint {self.checkpoint} is gone, and without it nobody knows what "
                    "was landed; put it back, or land in another folder"
                )
        before, after = self.kept["schema"], wished["schema"]
        if before is None or before == after:
            return
        check_change(before, after, allowed=self._plan.evolve)
        # A batch that was begun may be in one of its two tables already: by another schema a row
        # could be bad that was good, and be in both.
        following = self.counts.batch + 1
        if self._planned(following).exists():
            raise wrong(
                f"batch {following} was begun with the schema as it was, and is not done; run once "
                "more with that one, to its end, and then with the new one"
            )
        self.kept["schema"] = after
        write_json(self._path, self.kept)

    def _planned(self, batch: int) -> Path:
        return self.checkpoint / "offsets" / str(batch)

    def end_of_last(self) -> dict[str, Any] | None:
        """Where the last batch that is done ends; None if there is none."""
        if self.counts.batch < 0:
            return None
        # Spark's log: a version, what it notes itself, and a line for each source.
        lines = self._planned(self.counts.batch).read_text().splitlines()
        return dict(json.loads(lines[-1]))

    def settle(self, batch: int) -> None:
        """Let Spark's record of what a batch has survive a loss of power.

        Spark writes it and does not wait for the disk: without this the number could go to other
        messages, and ``done.json`` would pass them over.
        """
        sync_path(self._planned(batch))
        sync_path(self.checkpoint / "offsets")
        sync_path(self.checkpoint)

    def done(self, batch: int, messages: int, bad: int) -> None:
        """A batch is done."""
        self.counts = LandedCounts(batch, self.counts.total + messages, self.counts.bad + bad)
        write_json(self._state, vars(self.counts))


def began(to: Path) -> list[str]:
    """The columns of messages with which a folder was begun; nothing for a new one."""
    path = to.absolute() / HIDDEN / PLAN
    if not path.exists():
        return []
    return list(json.loads(path.read_text())["columns"])


def _differs(name: str, kept: Mapping[str, Any], wished: Mapping[str, Any]) -> bool:
    """Whether a plan says another thing; a queue may be written otherwise."""
    one, other = kept[name], wished[name]
    if name == "queues":
        one, other = ([folded(queue) for queue in parts_of(text)] for text in (one, other))
    return bool(one != other)


def _quote(value: Any) -> str:
    return repr(",".join(value)) if isinstance(value, list) else repr(value)
