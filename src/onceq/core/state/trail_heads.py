"""The ends of other queue managers' trails, as they have told them: witnesses against changes.

A manager tells the number and the digest of its last act when a session begins. Who may change its
files cannot change what another manager holds.

Upholds: I24 (HEADS_MAX, HEAD_PEERS_MAX), I28 (who did something is known).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from onceq.core.state.setups import HeadTold
from onceq.model.limits import NOTICE_EVERY_S

HEADS_MAX: Final = 8
"""Of one queue manager; an older one goes, and those within an hour are one."""
HEAD_PEERS_MAX: Final = 1_000
"""Queue managers of which ends are kept; the one that was heard longest ago goes."""


class Head(NamedTuple):
    """The end of a trail: the number of its last act, its digest, and when it was told."""

    number: int
    digest: bytes
    at_s: int


class TrailHeads:
    """See the module."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[bytes, list[Head]] = {}

    def __iter__(self) -> Iterator[tuple[bytes, list[Head]]]:
        return iter(self._of.items())

    def knows(self, guid: bytes, number: int, digest: bytes) -> bool:
        """Whether that is the last one that a manager has told."""
        heads = self._of.get(guid)
        return heads is not None and heads[-1][:2] == (number, digest)

    def apply(self, setup: HeadTold) -> None:
        """Apply a setup."""
        self.told(setup.source, Head(setup.number, setup.digest, setup.at_s))

    def told(self, guid: bytes, head: Head) -> None:
        """A manager has told its end."""
        heads = self._of.setdefault(guid, [])
        # The first of an hour stays: what comes quickly pushes out nothing.
        if len(heads) > 1 and 0 <= head.at_s - heads[-2].at_s < NOTICE_EVERY_S:
            heads.pop()
        heads.append(head)
        del heads[:-HEADS_MAX]
        if len(self._of) > HEAD_PEERS_MAX:
            del self._of[min(self._of, key=lambda one: (self._of[one][-1].at_s, one))]

    def dump(self) -> list[list[Any]]:
        """For a checkpoint."""
        return [
            [guid, *head]
            for guid, heads in self for head in heads
        ]  # fmt: skip

    def load(self, rows: list[list[Any]]) -> None:
        """From a checkpoint."""
        for guid, number, digest, at_s in rows:
            head = Head(number, bytes.fromhex(digest), at_s)
            self._of.setdefault(bytes.fromhex(guid), []).append(head)
