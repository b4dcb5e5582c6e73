"""Histories that come day by day, to be audited with a proof that is kept."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from onceq.audit import command
from onceq.audit.command import Wish
from onceq.history.columns import span_of
from tests.audit.planting import Planter, Row

SAME = (
    "messages", "events", "streams", "transactions", "states", "checked", "violations",
    "messages_violated", "stories", "latencies", "resends", "stuck", "notes", "verdict",
    "acts",
)  # fmt: skip
"""Findings that must be those of an audit of everything."""


@dataclass
class Days:
    """Histories of which more is there each day.

    Attributes:
        whole: Folder with a history of each manager.
        here: Folder with what is there today.
    """

    whole: Path
    here: Path
    proof: Path

    def arrive(self, name: str, files: int, *, forget: bool) -> None:
        """The next files of a manager; ``forget`` those that were there before."""
        place = self.here / name
        place.mkdir(parents=True, exist_ok=True)
        names = self.files_of(name)
        if forget and self.left(name) and files:
            for path in place.iterdir():
                path.unlink()
        taken = self.taken.get(name, 0)
        for one in names[taken : taken + files]:
            (place / one).write_bytes((self.whole / name / one).read_bytes())
        self.taken[name] = min(taken + files, len(names))

    def __post_init__(self) -> None:
        self.taken: dict[str, int] = {}

    def files_of(self, name: str) -> list[str]:
        """The names of all files of a manager, in order."""
        spans = [span for path in (self.whole / name).iterdir() if (span := span_of(path.name))]
        return [span.name for span in sorted(spans)]

    def left(self, name: str) -> int:
        """How many files are still to come."""
        return len(list((self.whole / name).iterdir())) - self.taken.get(name, 0)

    @property
    def names(self) -> list[str]:
        """Of the managers."""
        return sorted(path.name for path in self.whole.iterdir())

    def audited(self, *, settled: bool = False) -> Row:
        """What the audit with the proof says of today."""
        wish = Wish(settled=settled, proof=str(self.proof), stuck_s=100)
        return command.run([str(self.here)], wish, lambda _: None)

    def at_once(self, *, settled: bool = False) -> Row:
        """What an audit of everything that has come says."""
        with_all = self.here.parent / f"{self.here.name}-all"
        for name, count in self.taken.items():
            place = with_all / name
            place.mkdir(parents=True, exist_ok=True)
            names = self.files_of(name)
            for one in names[:count]:
                (place / one).write_bytes((self.whole / name / one).read_bytes())
        wish = Wish(settled=settled, stuck_s=100)
        return command.run([str(with_all)], wish, lambda _: None)


def cut(folder: Path, rng: random.Random, parts: int) -> None:
    """Cut a history at random records."""
    planter = Planter(folder)
    positions = sorted({row["position"] for row in planter.rows if not row["observed"]})
    inside = [at for at in positions if planter.span.start < at < planter.span.end]
    planter.split(*sorted(rng.sample(inside, min(parts, len(inside)))))
    planter.save()


def same(found: Row, whole: Row) -> None:
    """The findings are those of an audit of everything."""
    for name in SAME:
        assert found[name] == whole[name], name
    started = [[(one["manager"], one["starts"]) for one in each["managers"]]
               for each in (found, whole)]  # fmt: skip
    assert started[0] == started[1]
    assert any(starts for _, starts in started[0])
