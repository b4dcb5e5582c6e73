"""A queue manager that counts what comes as far as the parser of MS-MQQB: sessions and bytes, of
those who have proven who they are, and of those who have not (``make liar``). Of those whom an
operator has listed (``plain_peers``) nothing is counted.

The counts lie in a mapped file of the data directory, so that no kill takes any along.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import ClassVar

from onceq.model.identification import Identification, Proof
from onceq.model.identity import NO_GUID
from onceq.model.run import Buffer
from onceq.service import engine
from onceq.service.main import main
from onceq.service.sessions import SessionConnection, Sessions
from onceq.wire.mqqb.session import Session

FILE = "parser-door"
PLANTED = "ONCEQ_PLANT"
"""Names a mistake that the queue manager has."""
_LAYOUT = struct.Struct("<4Q")


@dataclass
class Counts:
    """What came as far as the parser."""

    proven_sessions: int = 0
    proven_bytes: int = 0
    unproven_sessions: int = 0
    unproven_bytes: int = 0

    def add(self, other: Counts) -> None:
        """Those of another queue manager."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @classmethod
    def of(cls, path: Path) -> Counts:
        """Of the queue manager in a data directory, in all its lives."""
        return cls(*_LAYOUT.unpack((path / FILE).read_bytes()))


class _Door:
    """The counts of this process, on its file."""

    def __init__(self, path: Path) -> None:
        name = path / FILE
        if not name.exists():
            name.write_bytes(bytes(_LAYOUT.size))
        self._counts = Counts.of(path)
        with open(name, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)

    def count(self, *, proven: bool, sessions: int = 0, size: int = 0) -> None:
        """Count a session that began, or bytes that are about to be parsed."""
        counts = self._counts
        if proven:
            counts.proven_sessions += sessions
            counts.proven_bytes += size
        else:
            counts.unproven_sessions += sessions
            counts.unproven_bytes += size
        _LAYOUT.pack_into(self._map, 0, *astuple(counts))


class CountingSessions(Sessions):
    """Counts before anything is parsed."""

    door: _Door
    unproven: ClassVar[set[int]] = set()
    """Numbers of the sessions in which nothing was proven."""
    listed: ClassVar[set[int]] = set()
    """Of those from addresses that are listed."""

    def _begin(
        self, connection: SessionConnection, address: str, outgoing: int, peer: bytes,
        who: Identification, host: str = "",
    ) -> int:  # fmt: skip
        if who.proof is Proof.ADDRESS:
            self.listed.add(self._next)
        else:
            if who.guid == NO_GUID:
                self.unproven.add(self._next)
            self.door.count(proven=who.guid != NO_GUID, sessions=1)
        return super()._begin(connection, address, outgoing, peer, who, host)

    def data(self, number: int, data: Buffer, *, inside: bool = False) -> None:
        """See Sessions."""
        link = self._links.get(number)
        counted = number not in self.listed
        if counted and link is not None and isinstance(link.session, Session):
            self.door.count(proven=number not in self.unproven, size=len(data))
        super().data(number, data, inside=inside)


def plant(name: str) -> None:
    """Have the mistake of this name (``tests/planted``); liars must find it."""
    import pytest

    from tests.planted.planted import all_planted

    all_planted()[name].plant(pytest.MonkeyPatch())


if __name__ == "__main__":
    if os.environ.get(PLANTED):
        plant(os.environ[PLANTED])
    CountingSessions.door = _Door(Path(sys.argv[sys.argv.index("--data") + 1]))
    engine.Sessions = CountingSessions  # type: ignore[attr-defined]
    sys.exit(main())
