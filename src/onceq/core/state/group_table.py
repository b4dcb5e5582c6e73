"""What is durable of groups of branches: which version each application has committed last.

A group is committed by one record (``group``), which names the branches in their order; the changes
that follow it in the log carry that out. A log that ends between these records still has the
decision: recovery carries out what is left (``core/transaction/groups.py``).

Upholds: I2 (a group is all or nothing), I4 (a version once), I22.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onceq.core.state.setups import GroupCommitted, GroupForgotten
from onceq.model.record import Record
from onceq.model.shares import OwnerCounts


class Group(Record, frozen=True):
    """The last group that an application has committed.

    Attributes:
        query: Which life of the application it was; empty: it did not say.
        version: Number of the batch.
        prefix: What the branches of the batch begin with.
        at_s: Second since 1970.
        target, digest: Where it went and what was in it; empty: it did not say.
        by: Whose application it is: who has committed first under its name; empty: whoever runs
            the manager, or an older version.
    """

    query: str
    version: int
    prefix: bytes
    at_s: int
    target: str = ""
    digest: str = ""
    by: str = ""


class Groups:
    """One entry for each application.

    Attributes:
        named_by: Whose the entries are.
        pending: Numbers of the branches of the last group, in order, that are still prepared: they
            are to be committed before anything else happens.
    """

    __slots__ = ("_last", "named_by", "pending")

    def __init__(self) -> None:
        self._last: dict[str, Group] = {}
        self.named_by = OwnerCounts()
        self.pending: list[int] = []

    def __iter__(self) -> Iterator[tuple[str, Group]]:
        return iter(self._last.items())

    def __len__(self) -> int:
        return len(self._last)

    def get(self, app: str) -> Group | None:
        """What an application has committed last."""
        return self._last.get(app)

    def apply(self, setup: GroupForgotten) -> None:
        """Apply a setup."""
        self.forget(setup.app)

    def committed(self, group: GroupCommitted, prepared: Iterable[int]) -> None:
        """A record says that a group is committed; these branches of it are still prepared."""
        self.forget(group.app)  # The one that is used last stands last.
        self._keep(
            group.app,
            Group(group.query, group.version, group.prefix.encode(), group.at, group.target,
                  group.digest, group.by),
        )  # fmt: skip
        self.pending = list(prepared)

    def carried_out(self, branch: int) -> None:
        """A change says that a branch has taken effect."""
        if branch in self.pending:
            self.pending.remove(branch)

    def forget(self, app: str) -> None:
        """A record says that an application is forgotten."""
        known = self._last.pop(app, None)
        if known is not None:
            self.named_by.drop(known.by)

    def _keep(self, app: str, group: Group) -> None:
        self._last[app] = group
        self.named_by.add(group.by)

    def oldest(self) -> tuple[str, Group] | None:
        """The application that has not committed for the longest time."""
        return next(iter(self._last.items()), None)

    def dump(self) -> list[list[Any]]:
        """For a checkpoint, which is never made in the middle of a group."""
        assert not self.pending, "a checkpoint in the middle of a group"
        return [
            [app, g.query, g.version, g.prefix.decode(), g.at_s, g.target, g.digest, g.by]
            for app, g in self
        ]

    def load(self, values: list[list[Any]]) -> None:
        """From a checkpoint."""
        # Behind the time stands what later versions have added.
        for app, query, version, prefix, at_s, *more in values:
            self._keep(app, Group(query, version, prefix.encode(), at_s, *more))
