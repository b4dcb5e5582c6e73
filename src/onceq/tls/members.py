"""The members of an authority: whom it has signed for, and which names each may have
(``issued.json``).

A name in a certificate counts: it identifies its owner to others. So it is the invited one and
never the one in the request. Each name and address is in the certificate of one member only. What
every computer calls itself (loopback) is in none. A client at a shared address (behind one router,
on one computer) does not get that address by coming from it.

Records of earlier versions lack some fields, and may have the addresses of loopback.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final

from onceq.errors import AccessDenied, ConfigurationError
from onceq.model.loopback import is_loopback
from onceq.tls import folder

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
            raise AccessDenied(f"{why}, and stands in no certificate of a member")
        other = taken(name, guid, others)
        if other is not None:
            raise AccessDenied(
                f"{name} stands in the certificate of {other.name} ({other.id}) already; a name is "
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
