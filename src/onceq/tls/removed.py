"""Removed members: their certificates prove nothing any more, though they have not expired.

A removal is of a GUID, at a moment: every certificate for that GUID that was made before is out. So
it also holds for forgotten certificates (an authority that was restored from a copy does not know
what it has signed since), and a member that is invited again has a later one. Both moments are of
the authority's clock.

There are two lists, of one form. ``removed.json`` has the removals made here, which other members
get if an authority is here. ``removed-told.json`` has the removals from the authority that this
queue manager has joined. A list only grows: members keep what an authority does not know any more.

Upholds: I24 (a list has a bound), I28.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceq.errors import ConfigurationError, InsufficientResources
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.limits import REMOVALS_MAX
from onceq.tls import folder
from onceq.tls.members import NAME_CHARS_MAX, Member

HERE: Final = "removed.json"
TOLD: Final = "removed-told.json"
_MOMENT_MAX: Final = 1 << 40
"""Largest accepted number of seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Removal:
    """One member was removed.

    Attributes:
        id: Its GUID, as text.
        name: Its name; "" if it was unknown.
        at_s: Certificates made before do not count; seconds since 1970.
    """

    id: str
    name: str
    at_s: int

    def __str__(self) -> str:
        return f"queue manager {self.name or '-'} ({self.id}) was removed (onceq tls remove)"


def listed(removals: Iterable[Removal]) -> list[list[object]]:
    """Return removals in the form that is written, and sent."""
    return [[one.id, one.name, one.at_s] for one in removals]


def parse(said: object) -> dict[str, Removal]:
    """Parse removals that were written or sent, by GUID; raises ValueError."""
    if not isinstance(said, list) or len(said) > REMOVALS_MAX:
        raise ValueError(f"it is no list of up to {REMOVALS_MAX} removed members")
    found = {}
    for one in said:
        if not isinstance(one, list) or len(one) != 3:
            raise ValueError("an entry is not GUID, name and moment")
        guid, name, at_s = one
        if not isinstance(guid, str) or not isinstance(name, str) or type(at_s) is not int:
            raise ValueError("an entry is not GUID, name and moment")
        if not 0 <= at_s < _MOMENT_MAX or len(name) > NAME_CHARS_MAX or not name.isprintable():
            raise ValueError("an entry has an impossible name or moment")
        whose = guid_text(guid_bytes(guid))
        found[whose] = Removal(whose, name, at_s)
    return found


def joined(*lists: Mapping[str, Removal]) -> dict[str, Removal]:
    """Return the union of lists: of each member the latest removal."""
    found: dict[str, Removal] = {}
    for one in lists:
        for guid, removal in one.items():
            if guid not in found or found[guid].at_s < removal.at_s:
                found[guid] = removal
    return found


def read_removed(own: str, *names: str) -> dict[str, Removal]:
    """Return the union of the lists in a folder, by GUID.

    Args:
        own: The ``tls/`` of a data directory.
        names: HERE, TOLD.

    Raises:
        ConfigurationError, AccessDenied: One cannot be used.
    """
    return joined(*(_read(os.path.join(own, name)) for name in names))


def put_removed(own: str, name: str, removals: Mapping[str, Removal]) -> None:
    """Add removals to a list.

    Raises:
        InsufficientResources: There are too many.
        ConfigurationError, AccessDenied: It cannot be used.
    """
    before = read_removed(own, name)
    found = joined(before, removals)
    if found == before:
        return
    if len(found) > REMOVALS_MAX:
        raise InsufficientResources(
            f"{REMOVALS_MAX} members are removed already: onceq tls rotate makes another "
            "authority, which knows none of them"
        )
    text = json.dumps(listed(found.values()), indent=0).encode()
    folder.write(os.path.join(own, name), text)


def removal_of(removals: Mapping[str, Removal], guid: bytes, begins_s: int) -> Removal | None:
    """Return the removal by which a certificate does not count; None if it counts.

    Args:
        guid: Whom it is for.
        begins_s: The beginning of its validity, seconds since 1970.
    """
    found = removals.get(guid_text(guid))
    return found if found is not None and begins_s < found.at_s else None


def gone(member: Member, removals: Mapping[str, Removal]) -> bool:
    """Return True if a member was removed, and did not come back."""
    removal = removals.get(member.id)
    return removal is not None and member.at_s < removal.at_s


def _read(name: str) -> dict[str, Removal]:
    if not os.path.exists(name):
        return {}
    try:
        return parse(json.loads(folder.read(name)))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{name} is damaged: {error}") from None


class Removed:
    """Both lists of one queue manager, in their current state."""

    def __init__(self, own: str) -> None:
        """Name the lists; they are not read yet.

        Args:
            own: The ``tls/`` of a data directory.
        """
        self._own = own
        self._seen: tuple[object, ...] = ()
        self._known: dict[str, Removal] = {}

    def __len__(self) -> int:
        return len(self._known)

    def look(self) -> bool:
        """Read them if they have changed; return whether more is known than before.

        Known removals stay known when a file goes.

        Raises:
            ConfigurationError, AccessDenied: One cannot be used.
        """
        seen = tuple(_state(os.path.join(self._own, name)) for name in (HERE, TOLD))
        if seen == self._seen:
            return False
        found = read_removed(self._own, HERE, TOLD)
        self._seen = seen
        return self.learn(found)

    def learn(self, told: Mapping[str, Removal]) -> bool:
        """Add removals; return whether more is known than before."""
        found = joined(self._known, told)
        more, self._known = found != self._known, found
        return more

    def of(self, guid: bytes, begins_s: int) -> Removal | None:
        """Return the removal by which a certificate does not count (``removal_of``)."""
        return removal_of(self._known, guid, begins_s)


def _state(name: str) -> object:
    with suppress(OSError):
        found = os.stat(name)
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None
