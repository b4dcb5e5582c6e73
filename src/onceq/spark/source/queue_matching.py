"""Which queues a stream reads: found by name or pattern, and matched with those of its checkpoint.

A pattern is searched every few seconds, so a query also reads queues that are made while it runs.

A checkpoint knows a queue by its identity, which stays the same under every name of its host and
with any number of queue managers beside it. At each start ``resolve`` finds the places of the
checkpoint under the keys that the options give the queues now:

* a queue that the checkpoint does not have has *joined*: it begins as ``startingOffsets`` says;
* one that the options no longer have has *left*. Its place stays in the checkpoint, so that it goes
  on there when it comes back, and what was written of it is removed then;
* one with the key of a queue of the checkpoint and another identity was *made again*.

``resolve`` is arithmetic. Upholds: I4 at the connector (a place belongs to one queue), I24 (a
bounded number of queues, and of questions).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from onceq.errors import OnceqError, QueueNotFound
from onceq.spark.argument_checks import wrong
from onceq.spark.connections import QUEUES_MAX, SourceTarget
from onceq.spark.source.access import LazyConnection
from onceq.spark.source.offsets import NOTHING, Offset, QueueSample, Range
from onceq.spark.source.options import SourceOptions


@dataclass(frozen=True, slots=True)
class Resolved:
    """A checkpoint, seen with the queues of now.

    Attributes:
        keys: The key of now for each key of the checkpoint that is there.
        place: By the keys of now; what has left is in its ``left``.
        joined: Keys of which the checkpoint knows nothing.
        returned: What the checkpoint had of queues that are back: written, and perhaps not removed.
        again: Keys of queues that are not those of the checkpoint, and have their keys.
    """

    keys: Mapping[str, str]
    place: Offset
    joined: frozenset[str]
    returned: tuple[Range, ...]
    again: tuple[str, ...]


def resolve(place: Offset, sights: Mapping[str, QueueSample]) -> Resolved:
    """Find the queues of a checkpoint again.

    Args:
        sights: The queues of now, by key.
    """
    by_identity = {sight.identity: key for key, sight in sights.items()}
    now = {key: by_identity.get(place.instances[key], "") for key in place.to}
    left = dict(place.left)
    for key, found in now.items():
        if not found:
            begin = (place.begins or place.to).get(key, NOTHING)
            had = Range(key, begin, place.to[key], place.messages.get(key))
            left[place.instances[key]] = had
    back = {key: sight.identity for key, sight in sights.items() if sight.identity in left}
    returned = tuple(replace(left[identity], key=key) for key, identity in back.items())
    keys = {key: found for key, found in now.items() if found}
    again = tuple(key for key in now if key in sights and not now[key])

    def known(values: Mapping[str, int]) -> dict[str, int]:
        return {keys[key]: value for key, value in values.items() if key in keys}

    to = known(place.to) | {part.key: part.to for part in returned}
    begins = known(place.begins) if place.begins is not None else None
    resolved = replace(
        place,
        to=to,
        begins=begins if begins is None else begins | {part.key: part.to for part in returned},
        instances={key: sights[key].identity for key in to},
        messages=known(place.messages),
        ended={keys[key]: ended for key, ended in place.ended.items() if key in keys},
        left={one: had for one, had in left.items() if one not in back.values()},
    )
    return Resolved(keys, resolved, frozenset(set(sights) - set(to)), returned, again)


FIND_S: Final = 15.0
"""How long after a search the next one comes."""

log = logging.getLogger("onceq.spark")


class Discovery:
    """Finds the queues that a stream reads now, by name or pattern.

    Attributes:
        targets: The queues of now, by key.
        accesses: By address, the connection to each queue manager.
    """

    def __init__(self, options: SourceOptions, clock: Callable[[], float]) -> None:
        self.targets: dict[str, SourceTarget] = {target.key: target for target in options.targets}
        self._pattern = options.pattern
        self._clock = clock
        self._next_s = 0.0
        managers = [target.manager for target in options.targets]
        if self._pattern is not None:
            managers = [manager for manager, _ in self._pattern.managers]
            self._next_s = clock()
        self.accesses = {
            manager: LazyConnection(manager, options.patience, options.credentials)
            for manager in managers
        }

    def find(self) -> None:
        """Look for the queues of a pattern, if it is time to."""
        if self._pattern is None or self._clock() < self._next_s:
            return
        found: dict[str, SourceTarget] = {}
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

    def sights(self, look: Callable[[SourceTarget], QueueSample]) -> dict[str, QueueSample]:
        """All queues, looked at; of a pattern those that are there still."""
        self.find()
        sights: dict[str, QueueSample] = {}
        for key, target in list(self.targets.items()):
            try:
                sights[key] = look(target)
            except QueueNotFound:
                if self._pattern is None:
                    raise
                del self.targets[key]
        # Two addresses may lead to one queue manager.
        by_identity: dict[str, str] = {}
        for key, sight in sights.items():
            other = by_identity.setdefault(sight.identity, key)
            if other != key:
                raise wrong(
                    f"{self.targets[other]} and {self.targets[key]} are the same queue; name it "
                    "once"
                )
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
                sight = access.sample(queue)
                if sight.identity != identity:
                    return None
                return access.count(queue, Range(key, place, sight.last)).messages
            except OnceqError:
                return None
        return None


def unsteady(target: SourceTarget, sight: QueueSample) -> str:
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
