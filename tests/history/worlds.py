"""Worlds whose managers keep histories: the cases' own world and the simulator's, on SimFiles.

The histories are those that real managers would write; only clock, links and disks are in hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from onceq.history.columns import FOLDER, META, Span, Start, span_of
from onceq.history.keeper import Keeper
from onceq.model.identity import Identity
from onceq.model.rights import Actor, ActorKind
from onceq.model.settings import Settings
from onceq.store.log import LogStore
from onceq.testing.disk import SimFiles
from tests.conformance.world import FAST, Node, World

HISTORY = replace(FAST, history=True, history_roll_s=5)
NO_NOTES = ["eventTime", "exactTime"]
"""Columns that a later projection of the same log cannot know as well."""


def keep(store: LogStore, files: SimFiles, settings: Settings) -> Keeper:
    return Keeper(store, files, store.path, Identity.unpack(store.identity), settings, rows_max=50)


class Kept(World):
    """A world of the conformance cases whose managers keep histories."""

    def __init__(self, *names: str, settings: Settings = HISTORY) -> None:
        super().__init__(*names, settings=settings)

    def keep(self, store: LogStore, files: SimFiles, settings: Settings) -> Keeper:
        return keep(store, files, settings)

    def told(self, name: str) -> History:
        """The history of a manager, up to now."""
        node = self[name]
        if node.engine is not None:
            node.engine.checkpoint()
        return History(node.files, "/store")

    def save(self, path: Path) -> list[Path]:
        """The histories of all managers as folders of a real disk."""
        return [save(self.told(name), path / name) for name in self.nodes]


def somebody(node: Node, name: str = "alice", *, free: bool = True) -> None:
    """Whatever is asked of a manager from now on, an account asks."""
    actor = Actor(ActorKind.ACCOUNT, name, free=free)
    node.owner = node.running.owner(node.answers.__setitem__, actor=actor, where="local")


@dataclass
class History:
    """The files of one history on a simulated disk."""

    files: SimFiles
    path: str

    @property
    def folder(self) -> str:
        return f"{self.path}/{FOLDER}"

    @property
    def names(self) -> list[str]:
        return self.files.names(self.folder)

    @property
    def spans(self) -> list[Span]:
        found = [span_of(name) for name in self.names]
        return sorted(span for span in found if span is not None)

    def data(self, name: str) -> bytes:
        file = self.files.open(f"{self.folder}/{name}")
        try:
            return self.files.read(file, 0, self.files.size(file))
        finally:
            self.files.close(file)

    def tables(self) -> list[pa.Table]:
        return [pq.read_table(pa.BufferReader(self.data(span.name))) for span in self.spans]

    def meta(self, span: Span) -> dict[str, Any]:
        raw = pq.read_schema(pa.BufferReader(self.data(span.name))).metadata[META]
        found: dict[str, Any] = json.loads(raw)
        return found

    def starts(self) -> list[Start]:
        """All starts in order, as the files tell them."""
        return [Start.of(one) for span in self.spans for one in self.meta(span)["starts"]]

    def rows(self, *, observed: bool = False) -> list[dict[str, Any]]:
        """All rows in order; without those that no record tells, if not asked for."""
        rows = pa.concat_tables(self.tables()).to_pylist()
        return [row for row in rows if observed or not row["observed"]]

    def story(self, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in columns) for row in self.rows()]


def save(history: History, folder: Path) -> Path:
    """Copy it to a real disk."""
    folder.mkdir(parents=True)
    for span in history.spans:
        (folder / span.name).write_bytes(history.data(span.name))
    return folder
