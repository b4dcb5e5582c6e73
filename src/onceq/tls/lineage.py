"""The authorities that one queue manager has had, and will have: a lineage.

While one takes the place of another (``onceq tls rotate``) two are trusted. The authority's own
folder has them as files. A member hears of them from a manager with a certificate of an authority
that it trusts already, and remembers which those are (``joined.json``). Others in its
``authorities.pem`` are its own matter, and stay.

Upholds: I28.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import ssl
from collections.abc import Iterable
from typing import Any, Final

from onceq.errors import ConfigurationError
from onceq.tls import folder

AUTHORITIES_MAX: Final = 4
_BLOCK: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]{1,20000}-----END CERTIFICATE-----"
)


def split(pem: str) -> dict[str, str]:
    """Return the certificates in a text, by fingerprint (SHA-256, hexadecimal); raises
    ValueError."""
    found = {}
    for block in _BLOCK.findall(pem):
        found[hashlib.sha256(ssl.PEM_cert_to_DER_cert(block)).hexdigest()] = block + "\n"
    return found


def here(own: str) -> dict[str, str]:
    """Return the authorities of a folder that has one, by fingerprint: the one that signs comes
    first."""
    names = [os.path.join(own, name) for name in (folder.AUTHORITY, folder.NEXT, folder.OLD)]
    return split("".join(folder.read(name).decode() for name in names if os.path.exists(name)))


def believe(own: str, told: Iterable[str], forget: Iterable[str] = ()) -> bool:
    """Put authorities into a folder's ``authorities.pem``, and take others out; return whether
    that changed it. Raises ConfigurationError, AccessDenied."""
    name = os.path.join(own, folder.AUTHORITIES)
    before = split(folder.read(name).decode())
    new = split("".join(told))
    gone = set(forget) - set(new)
    after = new | {one: pem for one, pem in before.items() if one not in gone | set(new)}
    if set(after) == set(before):
        return False
    folder.write(name, "".join(after.values()).encode())
    return True


def read_joined(own: str) -> dict[str, Any]:
    """Return the authority that signed for a member: ``address``, ``guid``, and ``lineage``, the
    fingerprints of its last answer ([]: none yet). Raises ConfigurationError, AccessDenied."""
    name = os.path.join(own, folder.JOINED)
    try:
        said = json.loads(folder.read(name))
        found = {"address": str(said["address"]), "guid": str(said["guid"])}
        return found | {"lineage": [str(one) for one in said.get("lineage", [])]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{name} is damaged: {error}") from None


def follow(own: str, pem: str) -> bool:
    """Trust the authorities that a member's authority has sent; return whether that changed
    anything.

    Raises:
        ConfigurationError: They are none.
    """
    try:
        told = split(pem)
        if not 0 < len(told) <= AUTHORITIES_MAX:
            raise ValueError("there are none, or too many")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata="".join(told.values()))
    except (ValueError, ssl.SSLError) as error:
        raise ConfigurationError(f"the authorities in the answer are none: {error}") from None
    joined = read_joined(own)
    # Trusted before they are noted as this lineage: if interrupted, it is done again.
    changed = believe(own, told.values(), joined["lineage"])
    if joined["lineage"] != list(told):
        said = json.dumps(joined | {"lineage": list(told)}).encode()
        folder.write(os.path.join(own, folder.JOINED), said)
    return changed
