"""Names of computers: those by which each means itself, and where the others are found.

``localhost`` written into a packet means the computer that reads it. So it is good between
the applications and the queue manager of one computer, and nothing that others can answer to.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

HERE: Final = frozenset((".", "localhost"))
"""Names under which a queue manager never looks for another one."""
_LOOPBACK: Final = re.compile(
    r"(?i)localhost[0-9]?(\..*)?|.*\.localhost|ip6-(localhost|loopback)|127(\.[0-9]+){1,3}|0"
)


def means_itself(host: str) -> bool:
    """Whether a name or address leads each computer that uses it to that computer itself."""
    if host == "." or _LOOPBACK.fullmatch(host):
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def name_for_others(name: str, addresses: Iterable[str]) -> str:
    """What a queue manager calls itself where others read it: its name, or the first of its other
    names if that one would mean its reader."""
    if means_itself(name):
        return min((one for one in addresses if not means_itself(one)), default=name)
    return name


def is_one_of(host: str, names: Iterable[str]) -> bool:
    """Whether a host is one of these computers: by the name, or by it with a domain behind it.

    Args:
        names: Folded.
    """
    host = host.casefold().rstrip(".")
    return host in names or host.partition(".")[0] in names


@dataclass(slots=True)
class AddressBook:
    """Where queue managers take connections: what the configuration says goes before what the
    directory says.

    Attributes:
        peers: Of the configuration: names, addresses or GUIDs, folded and without braces.
        known: Of the directory, in the same form.
    """

    peers: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, peers: Mapping[str, str], known: Mapping[str, str]) -> AddressBook:
        """The table ``[peers]``: GUIDs stand there with and without braces, names in any case."""
        return cls({name.strip("{}").casefold(): where for name, where in peers.items()}, known)

    def find(self, name: str) -> tuple[str, str]:
        """Where a queue manager is, as "host:port", and who says so; both "" if nobody does."""
        key = name.casefold()
        if key in self.peers:
            return self.peers[key], "[peers] of onceq.toml"
        if key in self.known:
            return self.known[key], "the directory"
        return "", ""
