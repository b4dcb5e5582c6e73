"""Addresses of computers: one spelling for each, and which of them lead no further than here.

``2130706433``, ``0x7f.1``, ``0177.0.0.1`` and ``::ffff:127.0.0.1`` are 127.0.0.1 to the functions
of the system that connect. Each is compared in the one form that ``address_of`` gives.

Also here:

* Names of computers: those by which each means itself, and where the others are found.
* Addresses that only this computer reaches.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_OCTETS: Final = re.compile(r"(?i)(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}")


def address_of(host: str) -> str:
    """The one spelling of an IP address; "" for anything else, such as a name.

    Args:
        host: As anybody may write it: in brackets, with a zone, or in the old forms of IPv4.
    """
    text = host.strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return _old_form(text) if _OCTETS.fullmatch(text) else ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _old_form(text: str) -> str:
    """Read one to four numbers in decimal, octal or hexadecimal; the last one fills all bytes that
    the others leave."""
    *first, last = (_number(part) for part in text.split("."))
    room = 1 << 8 * (4 - len(first))
    if last >= room or any(part > 255 for part in first):
        return ""
    value = sum(part << 8 * (3 - index) for index, part in enumerate(first)) + last
    return str(ipaddress.IPv4Address(value))


def _number(part: str) -> int:
    """A number as C reads it; one too large for any address if it is none."""
    base = 16 if part[:2].lower() == "0x" else 8 if part.startswith("0") else 10
    try:
        return int(part[:40] or "0", base) if part.lower() != "0x" else 0
    except ValueError:
        return 1 << 32


def is_near(address: str) -> bool:
    """Whether an IP address leads to the computer that uses it, or no further than its cable:
    loopback, none, or link-local.

    Args:
        address: As ``address_of`` gives it, or an IP address in any other form.
    """
    one = address_of(address)
    if not one:
        return False
    known = ipaddress.ip_address(one)
    # Of IPv4, all of 0.0.0.0/8 means this computer.
    here = known.is_loopback or known.is_unspecified or one.startswith("0.")
    return here or known.is_link_local or known.is_multicast


AWAY: Final = "*"
"""Stands for every address but those that are near."""


def leads_home(homes: Iterable[str] | None, address: str) -> bool:
    """Whether a connection to an address is one that answers may take.

    Args:
        homes: IP addresses as ``address_of`` gives them, among them maybe AWAY; None: any.
    """
    if homes is None:
        return True
    one = address_of(address)
    return bool(one) and (one in homes or (AWAY in homes and not is_near(one)))


# ---- hosts ---------------------------------------------------------------------------------------


HERE: Final = frozenset((".", "localhost"))
"""Names under which a queue manager never looks for another one."""
_LOOPBACK: Final = re.compile(
    r"(?i)localhost[0-9]?(\..*)?|.*\.localhost|ip6-(localhost|loopback)|127(\.[0-9]+){1,3}|0"
)


def means_itself(host: str) -> bool:
    """Whether a name or address leads each computer that uses it to that computer itself.

    ``localhost`` written into a packet means the computer that reads it. So it is good between the
    applications and the queue manager of one computer, and nothing that others can answer to.
    """
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


# ---- loopback ------------------------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    """Whether only this computer reaches an address; a name but ``localhost`` may be any.

    Args:
        host: An IP address, with or without a zone, or a name.
    """
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
