"""Which queues a stream reads now: those that are named, or those that a pattern finds.

A pattern is looked for again every few seconds, so queues that are made while a query runs are read
by it. Lists of queues come some at a time, so nobody waits for one.

Upholds: I24 (a bounded number of queues, and of questions).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from onceq.errors import OnceqError, QueueNotFound
from onceq.spark.access import Access
from onceq.spark.options import SourceOptions
from onceq.spark.ranges import Range, Sight
from onceq.spark.targets import QUEUES_MAX, Target, wrong

FIND_S: Final = 15.0
"""How long after a search the next one comes."""

log = logging.getLogger("onceq.spark")


class Discovery:
    """See the module.

    Attributes:
        targets: The queues of now, by key.
        accesses: By address, the connection to each queue manager.
    """

    def __init__(self, options: SourceOptions, clock: Callable[[], float]) -> None:
        self.targets: dict[str, Target] = {target.key: target for target in options.targets}
        self._pattern = options.pattern
        self._clock = clock
        self._next_s = 0.0
        managers = [target.manager for target in options.targets]
        if self._pattern is not None:
            managers = [manager for manager, _ in self._pattern.managers]
            self._next_s = clock()
        self.accesses = {
            manager: Access(manager, options.patience, options.credentials) for manager in managers
        }

    @property
    def names(self) -> Mapping[str, str]:
        """The names that the queues have on their queue managers, by key."""
        return {key: target.queue for key, target in self.targets.items()}

    def find(self) -> None:
        """Look for the queues of a pattern, if it is time to."""
        if self._pattern is None or self._clock() < self._next_s:
            return
        found: dict[str, Target] = {}
        for manager, near in self._pattern.managers:
            there = self.accesses[manager].queues(f"matching {self._pattern.text}")
            targets = self._pattern.matching(manager, near, there)
            found |= {target.key: target for target in targets}
        if len(found) > QUEUES_MAX:
            raise wrong(
                f"{len(found)} queues match {self._pattern.text!r}; one reader takes at most "
                f"{QUEUES_MAX}"
            )
        if not found:
            log.warning("no transactional queue matches %r yet", self._pattern.text)
        self.targets = found
        self._next_s = self._clock() + FIND_S

    def sights(self, look: Callable[[Target], Sight]) -> dict[str, Sight]:
        """All queues, looked at; of a pattern those that are there still."""
        self.find()
        sights: dict[str, Sight] = {}
        for key, target in list(self.targets.items()):
            try:
                sights[key] = look(target)
            except QueueNotFound:
                if self._pattern is None:
                    raise
                del self.targets[key]
        _all_different(self.targets, sights)
        return sights

    def unread(self, key: str, place: int, identity: str) -> int | None:
        """How many messages a queue has behind a place that is not among the targets; None: that
        cannot be asked.

        Args:
            key: That it had when it was one of them.
            identity: Of the queue; another one may have its name now.
        """
        for manager, access in self.accesses.items():
            prefix = f"{manager}/"
            if len(self.accesses) > 1 and not key.startswith(prefix):
                continue
            queue = key.removeprefix(prefix)
            try:
                sight = access.look(queue)
                if sight.identity != identity:
                    return None
                return access.count(queue, Range(key, place, sight.last)).messages
            except OnceqError:
                return None
        return None


def _all_different(targets: Mapping[str, Target], sights: Mapping[str, Sight]) -> None:
    """Two addresses may lead to one queue manager."""
    by_identity: dict[str, str] = {}
    for key, sight in sights.items():
        other = by_identity.setdefault(sight.identity, key)
        if other != key:
            raise wrong(f"{targets[other]} and {targets[key]} are the same queue; name it once")


def unsteady(target: Target, sight: Sight) -> str:
    """Why a queue cannot be a stream."""
    if sight.transactional:
        return (
            f"{target} is a subqueue: it ends when it is empty, and begins again with the same "
            "places, so a stream would not know where it was; read it as a batch"
        )
    return (
        f"{target} is not transactional, so messages may come in before others that were read "
        "already; a stream needs a transactional queue, a journal or a dead-letter queue (a batch "
        "read takes any)"
    )
