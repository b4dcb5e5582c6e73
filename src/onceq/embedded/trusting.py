"""How two queue managers come to know each other: what ``onceq tls`` does to a data directory.

The private key is made once and kept; a new certificate for it is put in the place of the old one
in one step. So whatever is cut short leaves an identity that is whole, or none, and can be done
again. What the queue manager that runs uses is read by ``onceq qm reload``, or at its next start.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onceq.embedded.results import Invitation, Joined, ShownIdentity
from onceq.errors import ConfigurationError
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.manager_identity import Identity
from onceq.tls import authority, folder, own
from onceq.tls.contexts import Files
from onceq.tls.granting import SHARED_HOSTS, note_issued, read_issued
from onceq.tls.invites import SECRET_BYTES, Code, Invited, Invites

if TYPE_CHECKING:
    from onceq.service.config import Configuration


@dataclass(frozen=True, slots=True)
class _Here:
    """One data directory."""

    path: str
    identity: Identity
    configuration: Configuration
    now_s: int

    @property
    def tls(self) -> str:
        return folder.folder_of(self.path)

    def file(self, name: str) -> str:
        return os.path.join(self.tls, name)

    def has(self, name: str) -> bool:
        return os.path.exists(self.file(name))

    def files(self) -> Files | None:
        found = self.configuration
        return folder.files_of(
            self.path, certificate=found.tls_certificate, key=found.tls_key,
            authorities=found.tls_authorities, minimum=found.tls_minimum,
        )  # fmt: skip


def init(path: str, *, hosts: Sequence[str] = ()) -> ShownIdentity:
    """Give a queue manager an authority of its own, and a certificate.

    Args:
        hosts: Further names and addresses of this computer, for applications.

    Raises:
        ConfigurationError: It has an identity already, or the library for making one is missing.
        NotAStore, AccessDenied: The directory cannot be used.
    """
    here = _here(path)
    _ours(here)
    if here.has(folder.CERTIFICATE):
        raise ConfigurationError(
            f"{here.identity.name} has an identity already: onceq tls show; onceq tls renew makes "
            "another certificate for it"
        )
    if not here.has(folder.AUTHORITY):
        made, key = authority.make_authority(here.identity.name, here.now_s)
        folder.write(here.file(folder.AUTHORITY_KEY), key)
        folder.write(here.file(folder.AUTHORITY), made)
    folder.write(here.file(folder.AUTHORITIES), folder.read(here.file(folder.AUTHORITY)))
    _sign_own(here, hosts)
    return show(path)


def invite(
    path: str, name: str, *, address: str = "", hosts: Sequence[str] = (), seconds: int = 3_600
) -> Invitation:
    """Make an invitation; ``code`` is shown once, and kept nowhere.

    Args:
        name: Whom it is for, as ``show`` calls him.
        address: "host:port" by which he reaches this queue manager.
        hosts: Further names and addresses of his computer, for applications.
        seconds: How long it is good.

    Raises:
        ConfigurationError: This queue manager has no authority of its own, or the time is wrong.
    """
    here = _here(path)
    if not (here.has(folder.AUTHORITY_KEY) and here.has(folder.CERTIFICATE)):
        raise ConfigurationError(
            f"{here.identity.name} has no authority of its own: onceq tls init makes one, or "
            "invite where the one is that has signed for it (onceq tls show)"
        )
    if not name or len(name) > 64 or not name.isprintable() or not name.isascii() or " " in name:
        raise ConfigurationError(f"{name!r} is no name for a queue manager: 1 to 64 characters")
    where = address or _reached_at(here)
    import secrets

    secret = secrets.token_bytes(SECRET_BYTES)
    trusted = authority.fingerprint(folder.read(here.file(folder.AUTHORITY)))
    whom = Invited(name, tuple(hosts))
    expires_s = Invites(here.tls).make(whom, secret, here.now_s, seconds)
    code = Code(where, here.identity.guid, secret, trusted, expires_s)
    if str(Code.parse(str(code))) != str(code):
        raise AssertionError("a code that is printed can be read")
    return Invitation(code=str(code), name=name, address=where, expires=expires_s)


def join(path: str, code: str, *, hosts: Sequence[str] = ()) -> ShownIdentity:
    """Use an invitation: have a certificate signed where it was made.

    Args:
        hosts: Further names and addresses of this computer, for applications.

    Raises:
        InvalidParameter, AccessDenied: The code is none, or not good any more.
        ConfigurationError: This queue manager is an authority itself.
        ServiceNotAvailable: Nobody answers at the address in the code.
    """
    found, here = Code.parse(code), _here(path)
    _ours(here)
    if here.has(folder.AUTHORITY_KEY):
        raise ConfigurationError(
            f"{here.identity.name} is an authority itself, and others may have joined it: let the "
            f"other one join here (onceq tls invite), or move {here.tls} away first"
        )
    asked = authority.make_request(_key(here), *_who(here), _hosts(here, hosts))
    from onceq.tls import joining

    made, trusted = joining.join(found, asked, here.now_s)
    by = {"address": found.address, "guid": guid_text(found.guid)}
    folder.write(here.file(folder.AUTHORITIES), trusted)
    folder.write(here.file(folder.JOINED), json.dumps(by).encode())
    folder.write(here.file(folder.CERTIFICATE), made)
    return show(path)


def renew(path: str, *, hosts: Sequence[str] = ()) -> ShownIdentity:
    """Have another certificate in the place of the one that is there.

    Raises:
        ConfigurationError: There is none, or others have made it.
        AccessDenied, ServiceNotAvailable: The authority does not sign, or does not answer.
    """
    here = _here(path)
    _ours(here)
    files = here.files()
    if files is None:
        raise ConfigurationError(
            f"{here.identity.name} has no identity yet: onceq tls init, or onceq tls join"
        )
    if here.has(folder.AUTHORITY_KEY):
        _sign_own(here, hosts)
    else:
        if not here.has(folder.JOINED):
            raise ConfigurationError(
                f"nothing says who has signed {files.certificate}: put another one in its place"
            )
        by = json.loads(folder.read(here.file(folder.JOINED)))
        known = own.look(files, here.identity.guid)
        if known.problem:
            raise ConfigurationError(
                f"{known.problem}: it proves nothing any more; ask for an invitation where it was "
                f"signed ({by['address']}), and join again"
            )
        asked = authority.make_request(_key(here), *_who(here), [*known.hosts, *hosts])
        from onceq.tls import joining

        made = joining.renew(by["address"], guid_bytes(by["guid"]), files, asked)
        folder.write(here.file(folder.CERTIFICATE), made)
    return show(path)


def show(path: str) -> ShownIdentity:
    """What there is: the certificate, who has signed it, whom the authority here has signed for.

    Raises:
        ConfigurationError, AccessDenied: The files cannot be used; the one is named.
    """
    here = _here(path)
    files = here.files()
    found = ShownIdentity(
        here.identity.name,
        guid_text(here.identity.guid),
        identity=files is not None,
        plain_peers=tuple(here.configuration.plain_peers),
    )
    if files is None:
        return found
    known = own.look(files, here.identity.guid)
    found = replace(
        found, certificate=files.certificate, authorities=files.authorities,
        minimum=files.minimum, ends=known.ends_s, hosts=tuple(known.hosts), problem=known.problem,
        signed_by="others",
    )  # fmt: skip
    if here.configuration.tls_certificate:
        return found
    if here.has(folder.AUTHORITY_KEY):
        trusted = authority.fingerprint(folder.read(here.file(folder.AUTHORITY)))
        return replace(
            found, signed_by="itself", fingerprint=trusted.hex(":").upper(),
            joined=tuple(
                Joined(guid, one["name"], tuple(one["hosts"]), one["at_s"])
                for guid, one in read_issued(here.tls).items()
                if guid != found.id
            ),
            invitations=tuple(sorted(Invites(here.tls).open(here.now_s))),
        )  # fmt: skip
    if here.has(folder.JOINED):
        by = json.loads(folder.read(here.file(folder.JOINED)))
        return replace(found, signed_by=by["address"])
    return found


def _here(path: str) -> _Here:
    from onceq.service import config
    from onceq.service.clock import SystemClock
    from onceq.store.files import RealFiles
    from onceq.store.identification import read_identification

    path = os.path.abspath(path)
    who = Identity.unpack(read_identification(RealFiles(), path).identity)
    return _Here(path, who, config.load(path), SystemClock().read().wall_s)


def _ours(here: _Here) -> None:
    """Raises ConfigurationError where others make the certificates, or the library is missing."""
    authority.need()
    if here.configuration.tls_certificate:
        raise ConfigurationError(
            f"onceq.toml says that others make the certificate "
            f"({here.configuration.tls_certificate}): have another one made there, put it in its "
            "place, then onceq qm reload"
        )


def _key(here: _Here) -> bytes:
    """The private key, made where there is none."""
    if not here.has(folder.KEY):
        folder.write(here.file(folder.KEY), authority.make_key())
    return folder.read(here.file(folder.KEY))


def _who(here: _Here) -> tuple[bytes, str]:
    return here.identity.guid, here.identity.name


def _sign_own(here: _Here, hosts: Sequence[str]) -> None:
    """Sign for the one whose authority it is."""
    issued = read_issued(here.tls).get(guid_text(here.identity.guid), {"hosts": []})
    names = _hosts(here, [*issued["hosts"], *hosts])
    asked = authority.read_request(authority.make_request(_key(here), *_who(here), names))
    signs = folder.read(here.file(folder.AUTHORITY)), folder.read(here.file(folder.AUTHORITY_KEY))
    made = authority.sign(asked, *signs, here.now_s)
    note_issued(here.tls, asked, here.identity.name, here.now_s)
    folder.write(here.file(folder.CERTIFICATE), made)


def _hosts(here: _Here, more: Sequence[str]) -> list[str]:
    """Names and addresses by which this computer may be reached, each once."""
    names = [here.identity.name, socket.gethostname(), *here.configuration.addresses]
    for where in (here.configuration.listen, here.configuration.client_listen):
        host = where.rpartition(":")[0].strip("[]")
        with contextlib.suppress(ValueError):
            if not ipaddress.ip_address(host).is_unspecified:
                names.append(host)
    return list(dict.fromkeys([*filter(str.isascii, names), *more, *sorted(SHARED_HOSTS)]))


def _reached_at(here: _Here) -> str:
    """The address by which others reach this queue manager, as far as that can be known."""
    from onceq.service.config import PORT_FILE, split_address

    where = here.configuration.listen
    with contextlib.suppress(ConfigurationError):  # it does not run
        where = folder.read(os.path.join(here.path, PORT_FILE)).decode().split("\n")[0] or where
    if not where:
        raise ConfigurationError("listen is empty in onceq.toml: nobody could join")
    host, port = split_address(where, None)
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            host = next(iter(here.configuration.addresses), socket.gethostname())
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
