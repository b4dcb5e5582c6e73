"""The members of an authority: whom it has signed for, and which names each may have
(``issued.json``).

It also keeps removed members, and decides whether a signed certificate counts here.

A name in a certificate counts: it identifies its owner to others. So it is the invited one and
never the one in the request. Each name and address is in the certificate of one member only. What
every computer calls itself (loopback) is in none. A client at a shared address (behind one router,
on one computer) does not get that address by coming from it.

Records of earlier versions lack some fields, and may have the addresses of loopback.

Upholds: I24 (a list has a bound), I28.
"""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from onceq.errors import AccessDenied, ConfigurationError, InsufficientResources
from onceq.model.addresses import is_loopback
from onceq.model.identity import NO_GUID, guid_bytes, guid_text
from onceq.model.limits import REMOVALS_MAX
from onceq.tls import folder
from onceq.tls.identity import Scope, guid_of

# ---- members -------------------------------------------------------------------------------------


NAME_CHARS_MAX: Final = 64
"""Largest length of a member's name, which is a common name (X.520)."""


@dataclass(frozen=True, slots=True)
class Member:
    """A queue manager that an authority has signed for.

    Attributes:
        id: Its GUID, as text.
        name: The name that it was invited by.
        hosts: Names and addresses of hosts in its certificate.
        at_s: When it was signed last, in seconds since 1970.
        serial: The number of that certificate, in hexadecimal; "": an earlier version has signed.
        ends_s: Until when it is good; 0: an earlier version has signed.
        seen_s: When it last asked for the removed members, about; 0: it has not yet.
        signed_by: Fingerprint of the authority that has signed that certificate; "": an earlier
            version has.
        believes: Fingerprints of the authorities that it has said to trust.
    """

    id: str
    name: str
    hosts: tuple[str, ...] = ()
    at_s: int = 0
    serial: str = ""
    ends_s: int = 0
    seen_s: int = 0
    signed_by: str = ""
    believes: tuple[str, ...] = ()


def read_members(own: str) -> dict[str, Member]:
    """Return the members of an authority, by GUID.

    Args:
        own: The ``tls/`` of its data directory.

    Raises:
        ConfigurationError, AccessDenied: The file cannot be used.
    """
    name = os.path.join(own, folder.ISSUED)
    if not os.path.exists(name):
        return {}
    try:
        said = json.loads(folder.read(name))
        return {guid: _member(guid, one) for guid, one in said.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(f"{name} is damaged: {error}") from None


def put_member(own: str, member: Member) -> None:
    """Write a member down, or replace its record; raises ConfigurationError, AccessDenied."""
    known = read_members(own) | {member.id: member}
    said = {guid: {key: value for key, value in asdict(one).items() if key != "id"}
            for guid, one in known.items()}  # fmt: skip
    text = json.dumps(said, indent=1, sort_keys=True).encode()
    folder.write(os.path.join(own, folder.ISSUED), text)


def may_carry(host: str) -> str:
    """Return why no member's certificate may have a name or an address; "" if one may."""
    try:
        shared = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        shared = False
    if shared or is_loopback(host):
        return f"{host} is what every computer calls itself"
    return ""


def taken(host: str, guid: str, members: Iterable[Member]) -> Member | None:
    """Return the other member that has a name or an address."""
    called = host.casefold()
    for one in members:
        if one.id != guid and called in (one.name.casefold(), *map(str.casefold, one.hosts)):
            return one
    return None


def check_names(names: Iterable[str], guid: str, members: Iterable[Member]) -> None:
    """Raise AccessDenied if a certificate for a GUID may not have one of these names."""
    others = tuple(members)
    for name in names:
        why = may_carry(name)
        if why:
            raise AccessDenied(f"{why}, and a member's certificate may not have it")
        other = taken(name, guid, others)
        if other is not None:
            raise AccessDenied(
                f"{name} is in the certificate of {other.name} ({other.id}) already; a name is "
                f"for one: onceq tls remove {other.id}, if that one is gone"
            )


def again(member: Member, members: Iterable[Member]) -> tuple[str, ...]:
    """Return the hosts for the next certificate of a member: those of the one before, without
    names that only an earlier version allowed."""
    others = tuple(members)
    return tuple(
        host
        for host in member.hosts
        if not may_carry(host) and taken(host, member.id, others) is None
    )


_FIELDS: Final = ("name", "hosts", "at_s", "serial", "ends_s", "seen_s", "signed_by", "believes")


def _member(guid: str, said: dict[str, object]) -> Member:
    found = {key: value for key, value in said.items() if key in _FIELDS}
    made = Member(guid, **found)  # type: ignore[arg-type]
    return replace(made, hosts=tuple(made.hosts), believes=tuple(made.believes))


# ---- removed -------------------------------------------------------------------------------------
#
# Removed members: their certificates prove nothing any more, though they have not expired.


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

    def read_changes(self) -> bool:
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


# ---- standing ------------------------------------------------------------------------------------
#
# Decide whether a signed, unexpired certificate of an authority of ours counts here.


_LIMITED: Final = "[authorities] in onceq.toml"


class MemberJudge:
    """Judges the certificates for one queue manager."""

    def __init__(self, own: str) -> None:
        """Prepare; nothing was read yet, and everything counts.

        Args:
            own: The ``tls/`` of its data directory.
        """
        self.removed = Removed(own)
        self._scopes: Mapping[str, Scope] = {}
        self._naming: str | None = None

    def limit(self, scopes: Mapping[str, Scope], naming: str | None) -> None:
        """Limit authorities to their scopes, from now on.

        Args:
            scopes: By their fingerprints; the others may name any queue manager.
            naming: The one of the others that may name applications; None: each may, because there
                is one only.
        """
        self._scopes, self._naming = scopes, naming

    def why_not(self, certificate: Mapping[str, Any] | None, authority: str) -> str:
        """Return why a certificate does not count; "" if it does, or none was shown.

        Args:
            certificate: As ``getpeercert()`` returns one that was checked.
            authority: Fingerprint of the authority by which it was.
        """
        if not certificate:
            return ""
        guid, scope = guid_of(certificate), self._scopes.get(authority)
        removal = self.removed.of(guid, begins_of(certificate))
        if removal is not None:
            return f"{removal}: invite it again, if it shall come back"
        outside = scope.why_not(certificate) if scope is not None else ""
        if outside:
            return f"its authority {authority} may not speak for {outside} ({_LIMITED})"
        if scope is None and guid == NO_GUID and self._naming not in (None, authority):
            return (
                f"its authority {authority} is one of several, and nothing says which applications "
                f"it may name ({_LIMITED})"
            )
        return ""


def begins_of(certificate: Mapping[str, Any] | None) -> int:
    """Return from when a certificate is good, seconds since 1970; 0 if it does not say."""
    said = (certificate or {}).get("notBefore")
    return int(ssl.cert_time_to_seconds(said)) if isinstance(said, str) else 0
