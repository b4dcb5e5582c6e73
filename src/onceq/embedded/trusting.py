"""How two queue managers come to trust each other: what ``onceq tls`` does to a data directory.

The private key is made once and kept; a new certificate for it replaces the old one in one step. So
an interrupted command leaves an identity that is whole, or none, and can be repeated. A running
queue manager reads the files by ``onceq qm reload``, or at its next start.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onceq.embedded.results import Invitation, Joined, RemovedMember, ShownIdentity
from onceq.errors import ConfigurationError, InvalidParameter
from onceq.model.addresses import is_loopback
from onceq.model.identity import Identity, guid_bytes, guid_text
from onceq.tls import authority, folder, own
from onceq.tls import own as acts
from onceq.tls.contexts import IdentityFiles
from onceq.tls.invitations import SECRET_BYTES, InvitationCode, Invited, Invites
from onceq.tls.members import (
    HERE,
    TOLD,
    Member,
    Removal,
    check_names,
    gone,
    put_member,
    put_removed,
    read_members,
    read_removed,
)

if TYPE_CHECKING:
    from onceq.service.config import Configuration


@dataclass(frozen=True, slots=True)
class Here:
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

    def files(self) -> IdentityFiles | None:
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
    here = here_of(path)
    check_ours(here)
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
    sign_own(here, hosts)
    return show(path)


def invite(
    path: str,
    name: str,
    *,
    guid: str = "",
    address: str = "",
    hosts: Sequence[str] = (),
    seconds: int = 3_600,
) -> Invitation:
    """Make an invitation; ``code`` is shown once, and kept nowhere.

    Args:
        name: Whom it is for: its computer name, which its certificate is for, too.
        guid: The only queue manager that may come with it; "": any whose GUID means nothing here.
        address: "host:port" by which it reaches this queue manager.
        hosts: Further names and addresses of its computer, which its certificate is for, too.
        seconds: How long it is good.

    Raises:
        ConfigurationError: This queue manager has no authority of its own, or the time is wrong.
        AccessDenied: A name belongs to another member.
        InvalidParameter: That is no GUID.
    """
    here = here_of(path)
    if not (here.has(folder.AUTHORITY_KEY) and here.has(folder.CERTIFICATE)):
        raise ConfigurationError(
            f"{here.identity.name} has no authority of its own: onceq tls init makes one, or "
            "invite where the one is that has signed for it (onceq tls show)"
        )
    if not name or len(name) > 64 or not name.isprintable() or not name.isascii() or " " in name:
        raise ConfigurationError(f"{name!r} is no name for a queue manager: 1 to 64 characters")
    if guid:
        guid = guid_text(_guid(guid))
    members = members_of(here)
    # A member that came by that name before may come again: it brings its GUID.
    same = next((one.id for one in members.values() if one.name.casefold() == name.casefold()), "")
    check_names((name, *hosts), guid or same, members.values())
    where = address or _reached_at(here)
    import secrets

    secret = secrets.token_bytes(SECRET_BYTES)
    trusted = authority.fingerprint(folder.read(here.file(folder.AUTHORITY)))
    whom = Invited(name, tuple(hosts), guid)
    expires_s = Invites(here.tls).make(whom, secret, here.now_s, seconds)
    acts.leave(here.tls, "invite", f"{name} {guid}".rstrip(), here.now_s)
    code = InvitationCode(where, here.identity.guid, secret, trusted, expires_s)
    if str(InvitationCode.parse(str(code))) != str(code):
        raise AssertionError("a code that is printed can be read")
    return Invitation(code=str(code), name=name, address=where, expires=expires_s)


def join(path: str, code: str, *, hosts: Sequence[str] = ()) -> ShownIdentity:
    """Use an invitation: get a certificate signed where it was made.

    Args:
        hosts: Further names and addresses of this computer; those that the invitation names count.

    Raises:
        InvalidParameter, AccessDenied: The code is none, or not good any more.
        ConfigurationError: This queue manager is an authority itself.
        ServiceNotAvailable: Nobody answers at the address in the code.
    """
    found, here = InvitationCode.parse(code), here_of(path)
    check_ours(here)
    if here.has(folder.AUTHORITY_KEY):
        raise ConfigurationError(
            f"{here.identity.name} is an authority itself, and others may have joined it: let the "
            f"other one join here (onceq tls invite), or move {here.tls} away first"
        )
    asked = authority.make_request(_key(here), *_who(here), _hosts(here, hosts))
    from onceq.tls import joining

    made = joining.join(found, asked, here.now_s)
    by = {"address": found.address, "guid": guid_text(found.guid), "lineage": []}
    put_removed(here.tls, TOLD, made.removed)
    folder.write(here.file(folder.AUTHORITIES), made.authority)
    folder.write(here.file(folder.JOINED), json.dumps(by).encode())
    if made.authorities:
        folder.follow(here.tls, made.authorities)
    folder.write(here.file(folder.CERTIFICATE), made.certificate)
    return show(path)


def remove(path: str, member: str) -> RemovedMember:
    """Remove a member: no certificate that it has counts any more, here and, once they have asked,
    at all other members. The invitation with which it joined does not let it back; another one
    does.

    Args:
        member: Its name, or its GUID; only a GUID where nobody has joined.

    Raises:
        ConfigurationError: There is no such member, or it is this queue manager itself.
        InsufficientResources: There are too many removed ones.
    """
    here = here_of(path)
    members = read_members(here.tls)
    found = _member(members, member)
    if found.id == guid_text(here.identity.guid):
        raise ConfigurationError(
            f"{found.name} is this queue manager: another key for it is made where its folder "
            f"{here.tls} is moved away (onceq tls init, or onceq tls join)"
        )
    # Behind everything that was signed, and removed, in this second.
    known = read_removed(here.tls, HERE).get(found.id)
    if known is None or not found.at_s or not gone(found, {found.id: known}):
        after = max(found.at_s, known.at_s if known is not None else 0)
        known = Removal(found.id, found.name, max(here.now_s, after + 1))
        acts.leave(here.tls, "remove member", f"{found.name} {found.id}".lstrip(), here.now_s)
        put_removed(here.tls, HERE, {found.id: known})
    return RemovedMember(known.id, known.name, known.at_s, here.has(folder.AUTHORITY_KEY))


def _member(members: Mapping[str, Member], called: str) -> Member:
    """Return the member that a name or GUID means; raises ConfigurationError."""
    named = [one for one in members.values() if one.name.casefold() == called.casefold()]
    if len(named) == 1:
        return named[0]
    if named:
        which = ", ".join(one.id for one in named)
        raise ConfigurationError(f"several have joined as {called}; say which one: {which}")
    try:
        guid = guid_text(guid_bytes(called))
    except ValueError:
        raise ConfigurationError(
            f"nobody has joined here as {called[:80]!r}: onceq tls show lists the members; a GUID "
            "may be any"
        ) from None
    return members.get(guid, Member(guid, ""))


def members_of(here: Here) -> dict[str, Member]:
    """Return the members that were not removed."""
    removals = read_removed(here.tls, HERE)
    found = read_members(here.tls)
    return {guid: one for guid, one in found.items() if not gone(one, removals)}


def renew(path: str, *, hosts: Sequence[str] = ()) -> ShownIdentity:
    """Replace the certificate by another one.

    Raises:
        ConfigurationError: There is none, or others have made it.
        AccessDenied, ServiceNotAvailable: The authority does not sign, or does not answer.
    """
    here = here_of(path)
    check_ours(here)
    files = here.files()
    if files is None:
        raise ConfigurationError(
            f"{here.identity.name} has no identity yet: onceq tls init, or onceq tls join"
        )
    if here.has(folder.AUTHORITY_KEY):
        sign_own(here, hosts)
    else:
        if not here.has(folder.JOINED):
            raise ConfigurationError(
                f"nothing says who has signed {files.certificate}: put another one in its place"
            )
        by = folder.read_joined(here.tls)
        known = own.read_own(files, here.identity.guid)
        if known.problem:
            raise ConfigurationError(
                f"{known.problem}: it proves nothing any more; ask for an invitation where it was "
                f"signed ({by['address']}), and join again"
            )
        asked = authority.make_request(_key(here), *_who(here), [*known.hosts, *hosts])
        from onceq.tls import joining

        believed = by["lineage"] or [known.authority]
        made = joining.renew(by["address"], guid_bytes(by["guid"]), files, asked, believed)
        if made.authorities:
            folder.follow(here.tls, made.authorities)
        put_removed(here.tls, TOLD, made.removed)
        folder.write(here.file(folder.CERTIFICATE), made.certificate)
    return show(path)


def show(path: str) -> ShownIdentity:
    """Return the identity: the certificate, its signer, and the members of the authority here.

    Raises:
        ConfigurationError, AccessDenied: The files cannot be used; the one is named.
    """
    here = here_of(path)
    files = here.files()
    found = ShownIdentity(
        here.identity.name,
        guid_text(here.identity.guid),
        identity=files is not None,
        plain_peers=tuple(here.configuration.plain_peers),
    )
    if files is None:
        return found
    known = own.read_own(files, here.identity.guid)
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
            joined=_joined(here), rotation=stage(here.tls),
            invitations=tuple(sorted(Invites(here.tls).open(here.now_s))),
        )  # fmt: skip
    if here.has(folder.JOINED):
        return replace(found, signed_by=folder.read_joined(here.tls)["address"])
    return found


def stage(own: str) -> str:
    """Return how far one authority has taken the place of another; "" if none does."""
    if os.path.exists(os.path.join(own, folder.NEXT)):
        return "begun"
    return "signing" if os.path.exists(os.path.join(own, folder.OLD)) else ""


def behind(own: str, member: Member) -> bool:
    """Return True if a member keeps one authority from the next step to the place of another."""
    if os.path.exists(os.path.join(own, folder.NEXT)):
        (wanted,) = folder.split(folder.read(os.path.join(own, folder.NEXT)).decode())
        return wanted not in member.believes
    (signs,) = folder.split(folder.read(os.path.join(own, folder.AUTHORITY)).decode())
    return member.signed_by != signs


def _joined(here: Here) -> tuple[Joined, ...]:
    """Return the members that the authority here has signed for, and those that it has removed."""
    removals = read_removed(here.tls, HERE)
    members = read_members(here.tls)
    unknown = [Member(one.id, one.name) for one in removals.values() if one.id not in members]
    return tuple(
        Joined(
            one.id, one.name, one.hosts, one.at_s, serial=one.serial, ends_s=one.ends_s,
            seen_s=one.seen_s, removed_s=removals[one.id].at_s if gone(one, removals) else 0,
            behind=bool(stage(here.tls)) and not gone(one, removals) and behind(here.tls, one),
        )
        for one in (*members.values(), *unknown)
        if one.id != guid_text(here.identity.guid)
    )  # fmt: skip


def here_of(path: str) -> Here:
    from onceq.service import config
    from onceq.service.clock import SystemClock
    from onceq.store.files import RealFiles
    from onceq.store.identification import read_identification

    path = os.path.abspath(path)
    who = Identity.unpack(read_identification(RealFiles(), path).identity)
    return Here(path, who, config.load(path), SystemClock().read().wall_s)


def check_ours(here: Here) -> None:
    """Raise ConfigurationError where others make the certificates, or the library is missing."""
    authority.need()
    if here.configuration.tls_certificate:
        raise ConfigurationError(
            f"onceq.toml says that others make the certificate "
            f"({here.configuration.tls_certificate}): have another one made there, put it in its "
            "place, then onceq qm reload"
        )


def _guid(text: str) -> bytes:
    """Parse a GUID; raises InvalidParameter."""
    try:
        return guid_bytes(text)
    except ValueError:
        raise InvalidParameter(
            f"{text[:80]!r} is no GUID: onceq tls show prints the GUID of a queue manager"
        ) from None


def _key(here: Here) -> bytes:
    """Return the private key, made where there is none."""
    if not here.has(folder.KEY):
        folder.write(here.file(folder.KEY), authority.make_key())
    return folder.read(here.file(folder.KEY))


def _who(here: Here) -> tuple[bytes, str]:
    return here.identity.guid, here.identity.name


def sign_own(here: Here, hosts: Sequence[str]) -> None:
    """Sign for the queue manager of the authority itself."""
    guid, members = guid_text(here.identity.guid), read_members(here.tls)
    check_names((host for host in hosts if not is_loopback(host)), guid, members.values())
    before = members[guid].hosts if guid in members else ()
    # What every computer calls itself is included only on request: an owner of this key can sign
    # for any name.
    earlier = guid in members and not members[guid].serial
    kept = [host for host in before if not (earlier and is_loopback(host))]
    names = _hosts(here, [*kept, *hosts])
    asked = authority.read_request(authority.make_request(_key(here), *_who(here), names))
    signs = (
        folder.read(here.file(folder.AUTHORITY)), folder.read_key(here.file(folder.AUTHORITY_KEY))
    )  # fmt: skip
    made = authority.sign(asked, *signs, here.now_s)
    put_member(
        here.tls,
        Member(
            guid, here.identity.name, tuple(names), here.now_s, made.serial, made.ends_s,
            signed_by=authority.fingerprint(signs[0]).hex(),
        ),
    )  # fmt: skip
    folder.write(here.file(folder.CERTIFICATE), made.pem)


def _hosts(here: Here, more: Sequence[str]) -> list[str]:
    """Return names and addresses by which others may reach this computer, each once; behind them
    the requested ones."""
    names = [here.identity.name, socket.gethostname(), *here.configuration.addresses]
    for where in (here.configuration.listen, here.configuration.client_listen):
        host = where.rpartition(":")[0].strip("[]")
        with contextlib.suppress(ValueError):
            if not ipaddress.ip_address(host).is_unspecified:
                names.append(host)
    found = [name for name in names if name.isascii() and not is_loopback(name)]
    return list(dict.fromkeys([*found, *more]))


def _reached_at(here: Here) -> str:
    """Return the address by which others reach this queue manager, as far as that is known."""
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
