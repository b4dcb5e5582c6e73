"""Queues of a checkpoint and queues of now: renamed, joined, left, come back, or made again.

A checkpoint knows a queue by its identity, which stays the same whatever name its host has and
however many queue managers there are beside it. At each start the places of a checkpoint are found
again under the keys that the options give the queues now:

* one that the checkpoint does not have has *joined*: it begins as ``startingOffsets`` says;
* one that the options do not have any more has *left*. Its place stays in the checkpoint, so that
  when it comes back it goes on there, and what was written of it is removed then;
* one that has the key of a queue of the checkpoint, and another identity, was *made again*.

Checkpoints of versions before 0.3 know a queue by its key. They also keep its instance, from which
it is found under another key; queues of one queue manager that share one (a queue and its journal,
system queues) are told apart by their names.

Everything here is arithmetic. Upholds: I4 at the connector (a place belongs to one queue).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onceq.model.spelling import folded
from onceq.spark.ranges import NOTHING, Offset, Range, Sight


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


def resolve(place: Offset, sights: Mapping[str, Sight], names: Mapping[str, str]) -> Resolved:
    """Find the queues of a checkpoint again.

    Args:
        sights: The queues of now, by key.
        names: Their names on their queue managers.
    """
    now = {key: _find(key, place.instances.get(key, ""), sights, names) for key in place.to}
    left = dict(place.left)
    for key, found in now.items():
        if not found:
            begin = (place.begins or place.to).get(key, NOTHING)
            had = Range(key, begin, place.to[key], place.messages.get(key))
            identity = place.instances.get(key, key)
            # The instance alone, of an older version, would be that of a journal's queue.
            left[f"{identity}/{key}" if ";" in key and "/" not in identity else identity] = had
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


def _find(key: str, identity: str, sights: Mapping[str, Sight], names: Mapping[str, str]) -> str:
    """The key of now for a queue of a checkpoint; "" if it is not there."""
    same = [now for now, sight in sights.items() if sight.known_as(identity)]
    if key in same:
        return key
    exact = [now for now in same if sights[now].identity == identity]
    if exact and "/" in identity:
        return exact[0]
    named = [now for now in same if _names(key, names[now])]
    if len(named) == 1:
        return named[0]
    # Under another name: never a journal for its queue, or a queue for its journal.
    other = [now for now in exact if (";" in key) == bool(sights[now].apart)]
    return other[0] if len(other) == 1 else ""


def _names(key: str, queue: str) -> bool:
    """Whether a key, with or without an address, names a queue."""
    whole, name = folded(key), folded(queue)
    return whole == name or whole.endswith("\\" + name)
