"""The files in ``tls/`` of a data directory: the identity of its queue manager, and whom it trusts.

It also keeps the lineage: the authorities that a manager has had, and will have.

The certificate is written last, and a file is replaced whole: without ``certificate.pem`` there is
no identity, and with it there is all of it. Only its owner may read the folder.

Upholds: I28.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import ssl
import stat
import tomllib
from collections.abc import Iterable
from typing import Any, Final

from onceq.errors import ConfigurationError
from onceq.file_access import CONFIGURATION_FILE, denied, there
from onceq.tls.contexts import IdentityFiles

# ---- folder --------------------------------------------------------------------------------------


FOLDER: Final = "tls"
CERTIFICATE: Final = "certificate.pem"
KEY: Final = "key.pem"
AUTHORITIES: Final = "authorities.pem"
AUTHORITY: Final = "authority.pem"
"""Certificate of an authority of our own, where there is one."""
AUTHORITY_KEY: Final = "authority-key.pem"
NEXT: Final = "authority-next.pem"
NEXT_KEY: Final = "authority-next-key.pem"
"""Key of the authority that will replace ours; members already trust it."""
OLD: Final = "authority-old.pem"
"""The authority that ours has replaced; members still trust it."""
ISSUED: Final = "issued.json"
"""The certificates that our authority has signed."""
JOINED: Final = "joined.json"
"""The foreign authority that signed the certificate, where another queue manager's did."""
INVITES: Final = "invites"


def folder_of(path: str) -> str:
    """Return the ``tls/`` folder of a data directory."""
    return os.path.join(path, FOLDER)


def files_of(
    path: str, *, certificate: str = "", key: str = "", authorities: str = "", minimum: str = ""
) -> IdentityFiles | None:
    """Return the files that prove a queue manager's identity; None if there are none.

    Args:
        path: Its data directory; "": it has none.
        certificate, key, authorities, minimum: From the configuration, if given: names of files,
            those without a leading slash relative to the data directory.

    Raises:
        ConfigurationError, AccessDenied: They cannot be used; they are named.
    """
    oldest = minimum or "1.3"
    if certificate:
        named = [os.path.join(path, name) if name else "" for name in (certificate, key)]
        _secret(named[1] or named[0], allowed=0o770)
        return IdentityFiles(named[0], named[1], os.path.join(path, authorities), oldest)
    own = folder_of(path)
    if not path or not there(os.path.join(own, CERTIFICATE)):
        return None
    key = os.path.join(own, KEY)
    _secret(key, allowed=0o700)
    return IdentityFiles(
        os.path.join(own, CERTIFICATE), key, os.path.join(own, AUTHORITIES), oldest
    )


def files_in(path: str) -> IdentityFiles | None:
    """Return the files that prove a queue manager's identity, by its directory and ``onceq.toml``.

    For other programs than this queue manager, which take nothing else from its configuration.

    Raises:
        ConfigurationError, AccessDenied: They cannot be used; they are named.
    """
    values = configured(path)
    certificate, key, authorities, minimum = (
        str(values.get(f"tls_{what}", ""))
        for what in ("certificate", "key", "authorities", "minimum")
    )
    return files_of(
        path, certificate=certificate, key=key, authorities=authorities, minimum=minimum
    )


def configured(path: str) -> dict[str, object]:
    """Return the content of a directory's ``onceq.toml``, unchecked; nothing if it is missing.

    Raises:
        ConfigurationError, AccessDenied: It cannot be read.
    """
    name = os.path.join(path, CONFIGURATION_FILE)
    if not there(name):
        return {}
    try:
        return tomllib.loads(read(name).decode())
    except ValueError as error:
        raise ConfigurationError(f"{name} is not TOML: {error}") from None


def write(name: str, data: bytes) -> None:
    """Write a file that only its owner may read, or replace it whole.

    Raises:
        AccessDenied, ConfigurationError: It cannot be written.
    """
    new = f"{name}.new"
    try:
        os.makedirs(os.path.dirname(name), mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with open(os.open(new, flags, 0o600), "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, name)
        sync(os.path.dirname(name))
    except PermissionError:
        raise denied(name) from None
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be written: {error.strerror}") from None


def rename(own: str, name: str, to: str) -> None:
    """Rename a file of a folder, in the place of another one; raises ConfigurationError."""
    try:
        os.replace(os.path.join(own, name), os.path.join(own, to))
        sync(own)
    except OSError as error:
        raise ConfigurationError(f"{to} cannot be replaced: {error.strerror}") from None


def remove(own: str, name: str) -> None:
    """Remove a file of a folder, if it is there; raises ConfigurationError."""
    try:
        if os.path.exists(os.path.join(own, name)):
            os.unlink(os.path.join(own, name))
            sync(own)
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be removed: {error.strerror}") from None


def sync(folder: str) -> None:
    """Make renames and removals in a folder durable; raises OSError."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def read(name: str) -> bytes:
    """Return the content of a file; raises ConfigurationError, AccessDenied."""
    try:
        with open(name, "rb") as file:
            return file.read()
    except PermissionError:
        raise denied(name) from None
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be read: {error.strerror}") from None


def read_key(name: str) -> bytes:
    """Return the private key in a file that nobody else may read; raises ConfigurationError,
    AccessDenied."""
    _secret(name, allowed=0o700)
    return read(name)


def _secret(key: str, *, allowed: int) -> None:
    """Refuse a key that others can read: it proves nothing."""
    try:
        mode = stat.S_IMODE(os.stat(key).st_mode)
    except OSError:
        return  # the code that uses it reports the error
    if mode & ~allowed & 0o077:
        raise ConfigurationError(
            f"others may read the private key {key} (mode {mode:o}): chmod 600 it; who has it can "
            "speak as this queue manager, or in its name"
        )


# ---- lineage -------------------------------------------------------------------------------------
#
# The authorities that one queue manager has had, and will have: a lineage.


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
    names = [os.path.join(own, name) for name in (AUTHORITY, NEXT, OLD)]
    return split("".join(read(name).decode() for name in names if os.path.exists(name)))


def believe(own: str, told: Iterable[str], forget: Iterable[str] = ()) -> bool:
    """Put authorities into a folder's ``authorities.pem``, and take others out; return whether
    that changed it. Raises ConfigurationError, AccessDenied."""
    name = os.path.join(own, AUTHORITIES)
    before = split(read(name).decode())
    new = split("".join(told))
    gone = set(forget) - set(new)
    after = new | {one: pem for one, pem in before.items() if one not in gone | set(new)}
    if set(after) == set(before):
        return False
    write(name, "".join(after.values()).encode())
    return True


def read_joined(own: str) -> dict[str, Any]:
    """Return the authority that signed for a member: ``address``, ``guid``, and ``lineage``, the
    fingerprints of its last answer ([]: none yet). Raises ConfigurationError, AccessDenied."""
    name = os.path.join(own, JOINED)
    try:
        said = json.loads(read(name))
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
        write(os.path.join(own, JOINED), said)
    return changed
