"""Who may sign in by OpenID Connect, and as what: the file that ``onceq console --openid`` names.

    [openid]
    issuer = "https://login.example.net"
    client_id = "onceq-console"
    client_secret_file = "client.secret"
    address = "https://queues-console.example.net"

    [groups]
    queue-operators = "operators.token"
    queue-readers = "readers.token"

A group of the provider works as a token of the queue managers, which judge what it may. Of several
groups of one person the first in the file counts. Files are named from the folder of this file.

Upholds: nobody signs in by a file that others could write; no error contains a secret.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from onceq.client.credentials import Credentials
from onceq.console.guard import OPENID_BYTES_MAX, ROLES_MAX, SESSION_S
from onceq.errors import AccessDenied, ConfigurationError, OnceqError
from onceq.file_access import account_name, denied
from onceq.model.addresses import is_loopback

KEYS: Final = (
    "issuer", "client_id", "client_secret_file", "address", "groups_claim", "name_claim",
    "authorities", "session_minutes",
)  # fmt: skip
"""Of the table ``[openid]``."""


@dataclass(frozen=True, slots=True)
class People:
    """What such a file says.

    Attributes:
        issuer: The provider, exactly as it calls itself.
        client_id: As what the console is known to it.
        secret: What the console proves itself with there; "": by PKCE alone.
        address: Where browsers reach the console, without a path; "": at loopback, at its port.
        groups_claim, name_claim: Where the ID token has a person's groups and name.
        authorities: File with the certificates that the provider's is checked against; "": those
            of the system.
        session_s: Seconds after which somebody signs in again.
        roles: Group to the file of the token that it works as, in the order in which they count.
    """

    issuer: str
    client_id: str
    secret: str
    address: str
    groups_claim: str
    name_claim: str
    authorities: str
    session_s: int
    roles: Mapping[str, str]

    def __repr__(self) -> str:
        return f"<people of {self.issuer}>"

    @property
    def names(self) -> tuple[str, ...]:
        """What ``Host`` may say besides: the name in the address."""
        return (urlsplit(self.address).netloc,) if self.address else ()

    @property
    def secure(self) -> bool:
        """Whether browsers reach the console by HTTPS alone."""
        return self.address.startswith("https:")

    def role_of(self, groups: Collection[str]) -> str | None:
        """The first group in the file that somebody is in; None: none of them is."""
        return next((group for group in self.roles if group in groups), None)


def read(path: str) -> People:
    """Read such a file.

    Raises:
        ConfigurationError: It cannot be read, or says something that is no good.
        AccessDenied: Others could change it, or read its secret.
    """
    said = _tables(path)
    table, groups = said.get("openid", {}), said.get("groups", {})
    if not isinstance(table, dict) or not isinstance(groups, dict):
        raise ConfigurationError(f"{path}: [openid] and [groups] are tables")
    for name in table:
        if name not in KEYS:
            raise ConfigurationError(
                f"{path}: there is no {str(name)[:40]!r} in [openid]; there are {', '.join(KEYS)}"
            )
    secret = _text(path, table, "client_secret_file", "")
    authorities = _text(path, table, "authorities", "")
    return People(
        issuer=_checked(path, "issuer", _text(path, table, "issuer")),
        client_id=_text(path, table, "client_id"),
        secret=_secret(_beside(path, secret)) if secret else "",
        address=_address(path, _text(path, table, "address", "")),
        groups_claim=_text(path, table, "groups_claim", "groups"),
        name_claim=_text(path, table, "name_claim", "preferred_username"),
        authorities=_beside(path, authorities) if authorities else "",
        session_s=_session_s(path, table),
        roles=_roles(path, groups),
    )


def check_url(url: str) -> None:
    """Raises ConfigurationError if requests to an address would cross a network unencrypted, or if
    it is no address."""
    parts = urlsplit(url)
    try:
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or parts.username is not None or parts.fragment or not url.isprintable():
        raise ConfigurationError(f"{url[:80]!r} is no address such as https://login.example.net")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ConfigurationError(f"{url[:80]} is not reached by HTTPS: anybody between could lie")


def _tables(path: str) -> dict[str, Any]:
    raw, found = _contents(path)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid not in (0, os.geteuid()):
        raise AccessDenied(
            f"others may change {path}, and say who signs in (mode "
            f"{stat.S_IMODE(found.st_mode):o}, of {account_name(found.st_uid)}): have it belong "
            "to this account, or root, and chmod go-w it"
        )
    if len(raw) > OPENID_BYTES_MAX:
        raise ConfigurationError(f"{path} has more than {OPENID_BYTES_MAX} bytes")
    try:
        said = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from None
    for name in said:
        if name not in ("openid", "groups"):
            raise ConfigurationError(f"{path} has [openid] and [groups], and no {name[:40]!r}")
    return said


def _text(path: str, table: Mapping[str, Any], name: str, default: str | None = None) -> str:
    found = table.get(name, default)
    if found is None:
        raise ConfigurationError(f"{path}: {name} is missing in [openid]")
    if not isinstance(found, str) or not found.isprintable() or (not found and name in table):
        raise ConfigurationError(f"{path}: {name} is a text")
    return found


def _checked(path: str, name: str, url: str) -> str:
    try:
        check_url(url)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {name}: {error.text}") from None
    return url


def _address(path: str, url: str) -> str:
    if not url:
        return ""
    found = urlsplit(_checked(path, "address", url))
    if found.path not in ("", "/") or found.query:
        raise ConfigurationError(f"{path}: address has no path: the console is the whole of it")
    usual = {"https": ":443", "http": ":80"}[found.scheme]  # browsers leave it out
    return f"{found.scheme}://{found.netloc.casefold().removesuffix(usual)}"


def _session_s(path: str, table: Mapping[str, Any]) -> int:
    found = table.get("session_minutes", SESSION_S // 60)
    if type(found) is not int or not 1 <= found <= SESSION_S // 60:
        raise ConfigurationError(f"{path}: session_minutes is a number from 1 to {SESSION_S // 60}")
    return found * 60


def _roles(path: str, groups: Mapping[str, Any]) -> dict[str, str]:
    if not groups:
        raise ConfigurationError(f"{path}: no group in [groups], so nobody could sign in")
    if len(groups) > ROLES_MAX:
        raise ConfigurationError(f"{path}: at most {ROLES_MAX} groups in [groups]")
    found = {}
    for group, file in groups.items():
        if not isinstance(file, str) or not file:
            raise ConfigurationError(
                f"{path}: a group has the file of the token that it works as, such as "
                f'{group[:40]} = "operators.token"'
            )
        found[group] = _beside(path, file)
        try:
            Credentials(token_file=found[group]).check()
        except OnceqError as error:
            raise ConfigurationError(f"{path}: group {group[:40]!r}: {error.text}") from None
    return found


def _secret(path: str) -> str:
    """The one line of a file that others cannot read."""
    raw, about = _contents(path)
    if about.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
        mode = stat.S_IMODE(about.st_mode)
        raise AccessDenied(f"others may read {path} (mode {mode:o}): chmod 600 it")
    found = raw.decode("ascii", "replace").strip()
    if not found or not found.isascii() or not found.isprintable():
        raise ConfigurationError(f"{path} does not have the client's secret in one line")
    return found


def _contents(path: str) -> tuple[bytes, os.stat_result]:
    """Return the content of a plain file, up to one byte too many, and its status (owner)."""
    try:
        # A pipe without a writer would be waited for.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            plain = stat.S_ISREG(found.st_mode)
            raw = file.read(OPENID_BYTES_MAX + 1) if plain else b""
    except PermissionError:
        raise denied(path) from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if not plain:
        raise ConfigurationError(f"{path} cannot be read: it is no plain file")
    return raw, found


def _beside(path: str, name: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(path)), name)
