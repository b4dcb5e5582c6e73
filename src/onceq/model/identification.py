"""Who is at the other end of a connection: the one answer to that question, and its proof.

An ``Identification`` follows from the credentials (a checked certificate, an account that the
system names, a token, an address, or nothing), the transport, and the kind of queue manager.
It is kept with the connection or the session. The table ``SPEECH`` says which proof may speak for
which GUID, which name and which address. Doors, sessions and the core ask here; none of them
decides anything of it by itself.

A TCP connection proves no account, also over loopback: the system's table of connections forgets
whose an ended one was. A token and a certificate prove who an application is there.

Upholds: I28. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model.addresses import is_loopback, is_one_of, means_itself
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.rights import HERE, NOBODY, Actor, ActorKind, actor_pattern


class Over(Enum):
    """What a connection is made of."""

    SOCKET = "the Unix socket"
    TCP = "TCP"
    TLS = "TLS"
    HTTP = "HTTP"
    HTTPS = "HTTPS"


class Proof(Enum):
    """What an identity rests on."""

    ACCOUNT = "the system names its account"
    TOKEN = "it has shown a token"
    CERTIFICATE = "it has shown a certificate"
    ADDRESS = "its address is one of plain_peers"
    COMPUTER = "it is on this computer, and this queue manager has no identity"
    ITSELF = "it is this queue manager"
    NOTHING = "it has proven nothing"


class Guids(Enum):
    """For which queue managers a proof may speak."""

    ITS_OWN = "the one in its certificate"
    OF_ADDRESS = "one without a proof of its own, and always the same"
    UNPROVEN = "each that has no proof of its own"
    ANY = "each"
    NONE = "none"


class Names(Enum):
    """Under which names of computers a proof may answer."""

    CERTIFIED = "those in its certificate, and those that are bound to its GUID"
    UNPROVEN = "those that are not bound to another GUID"
    ANY = "each"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Speech:
    """A row of the table.

    Attributes:
        guids: For which queue managers it may speak.
        names: Under which names it may answer.
        addresses: From where it may come.
    """

    guids: Guids
    names: Names
    addresses: str


SPEECH: Final[Mapping[Proof, Speech]] = {
    Proof.CERTIFICATE: Speech(Guids.ITS_OWN, Names.CERTIFIED, "each"),
    Proof.ADDRESS: Speech(Guids.OF_ADDRESS, Names.UNPROVEN, "its own"),
    Proof.COMPUTER: Speech(Guids.UNPROVEN, Names.UNPROVEN, "loopback"),
    Proof.ITSELF: Speech(Guids.ANY, Names.ANY, "none"),
    Proof.ACCOUNT: Speech(Guids.NONE, Names.NONE, "the Unix socket"),
    Proof.TOKEN: Speech(Guids.NONE, Names.NONE, "each"),
    Proof.NOTHING: Speech(Guids.NONE, Names.NONE, "each"),
}
"""What each proof is good for."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account as the system names it; ``free``: it may do everything here."""

    name: str
    free: bool = False


@dataclass(frozen=True, slots=True)
class Claims:
    """What a certificate says that was checked.

    Attributes:
        guid: The queue manager that it is for; NO_GUID: none.
        name: Its common name; "": none, or several.
        hosts: Names and addresses of computers in it.
    """

    guid: bytes = NO_GUID
    name: str = ""
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """What somebody has shown.

    Attributes:
        over: What the connection is made of.
        address: Where it comes from, or was made to; "": the Unix socket.
        claims: Of its certificate; None: there is none.
        account: Whose process it is; None: the system does not say.
        token: The name of a token that was found good; "": none was shown.
    """

    over: Over
    address: str = ""
    claims: Claims | None = None
    account: Account | None = None
    token: str = ""


@dataclass(frozen=True, slots=True)
class House:
    """What a queue manager knows of proofs.

    Attributes:
        identity: Whether it has an identity: then no address of its own computer is believed.
        plain: Addresses that are believed without proof (``plain_peers``), each with the GUIDs
            that the configuration gives it; none: the first that it says.
    """

    identity: bool = False
    plain: Mapping[str, frozenset[bytes]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Identification:
    """Somebody, and what that rests on.

    Attributes:
        proof: What it rests on.
        actor: Who it is for rights.
        guid: The queue manager that it has proven to be; NO_GUID: none.
        names: Of computers that its certificate is for, folded.
        guids: Those that the configuration gives its address; empty: it does not say.
        of_others: Those that the configuration gives to other addresses alone.
    """

    proof: Proof
    actor: Actor
    guid: bytes = NO_GUID
    names: frozenset[str] = frozenset()
    guids: frozenset[bytes] = frozenset()
    of_others: frozenset[bytes] = frozenset()


ON_THIS_COMPUTER: Final = Identification(Proof.COMPUTER, HERE)
"""A queue manager beside one without an identity: nothing is asked of it."""
ITSELF: Final = Identification(Proof.ITSELF, HERE)
"""A queue manager's own other end."""
SOMEBODY: Final = Identification(Proof.NOTHING, NOBODY)

NOT_LISTED: Final = "its address is not among plain_peers"
_NO_TLS: Final = f"{NOT_LISTED}, and it speaks no TLS"
_NO_MANAGER: Final = "it has shown no certificate of a queue manager"


# ---- who it is ---------------------------------------------------------------------------------


def identify_application(shown: Shown) -> Identification:
    """Who an application is."""
    if shown.token:
        return Identification(Proof.TOKEN, Actor(ActorKind.TOKEN, shown.token))
    if shown.claims is not None:
        found = certified(shown.claims)
        if found is not None:
            return found
    if shown.over is Over.SOCKET and shown.account is not None:
        account = shown.account
        actor = Actor(ActorKind.ACCOUNT, account.name, free=account.free)
        return Identification(Proof.ACCOUNT, actor)
    return SOMEBODY


def identify_watcher(shown: Shown, house: House) -> Identification:
    """Who reads metrics: an address that is believed without proof, or an application."""
    found = by_address(shown.address, house) if shown.address in house.plain else None
    return found or identify_application(shown)


def identify_peer(shown: Shown, house: House) -> Identification | str:
    """Who a queue manager is, or why it is not spoken with."""
    if shown.over in (Over.TLS, Over.HTTPS) and shown.claims is not None:
        found = certified(shown.claims)
        if found is not None and found.guid != NO_GUID:
            return found
    if shown.over is Over.TLS:
        return _NO_MANAGER
    found = by_address(shown.address, house)
    if found is None and shown.over is Over.HTTPS:
        return SOMEBODY
    return found or (_NO_TLS if shown.over is Over.HTTP else NOT_LISTED)


def by_address(address: str, house: House) -> Identification | None:
    """Who speaks plainly from an address; None: nobody is believed there."""
    if address in house.plain:
        actor = Actor(ActorKind.ADDRESS, address)
        own = house.plain[address]
        others = frozenset[bytes]().union(*house.plain.values()) - own
        return Identification(Proof.ADDRESS, actor, guids=own, of_others=others)
    return ON_THIS_COMPUTER if not house.identity and is_loopback(address) else None


def is_near(address: str, house: House) -> bool:
    """Whether an address is one of this computer, or is believed without proof."""
    return address in house.plain or is_loopback(address)


def certified(claims: Claims) -> Identification | None:
    """Return the holder of a certificate; None: nobody.

    The certificate of a queue manager names it by its GUID; any other certificate names its holder
    by the common name. A certificate whose name could be read as a pattern is for nobody.
    """
    if claims.guid != NO_GUID:
        # Every certificate has the names by which each computer means itself: they say nothing.
        said = (one.casefold() for one in (claims.name, *claims.hosts))
        names = frozenset(one for one in said if one and not means_itself(one))
        actor = Actor(ActorKind.PEER, guid_text(claims.guid))
        return Identification(Proof.CERTIFICATE, actor, claims.guid, names)
    try:
        known = actor_pattern(f"{ActorKind.CERTIFICATE.value}:{claims.name}")
    except InvalidParameter:
        return None
    if known.name is None:
        return None
    return Identification(Proof.CERTIFICATE, Actor(ActorKind.CERTIFICATE, claims.name))


def is_private(shown: Shown) -> bool:
    """Whether nobody on the way can read what comes."""
    return shown.over not in (Over.TCP, Over.HTTP) or is_loopback(shown.address)


# ---- for whom it may speak ---------------------------------------------------------------------


def why_not_guid(
    who: Identification, guid: bytes, *, proven: bool = False, before: Collection[bytes] = ()
) -> str:
    """Why somebody may not speak for a queue manager; "" if it may.

    Args:
        proven: Whether that one has a proof of its own: it has shown a certificate, was given one
            here, or has rights as one that shows one.
        before: The one that the address was until now.
    """
    guids = SPEECH[who.proof].guids
    if guids is Guids.ANY:
        return ""
    if guids is Guids.ITS_OWN:
        if guid == who.guid:
            return ""
        return (
            f"it says that it is queue manager {guid_text(guid)}, and its certificate is for "
            f"{guid_text(who.guid)}"
        )
    if guids is Guids.NONE:
        return f"nothing proves that it is queue manager {guid_text(guid)}"
    if proven:
        return (
            f"queue manager {guid_text(guid)} proves who it is by a certificate, and is believed "
            "over TLS alone: give it an address that is not among plain_peers, and this queue "
            "manager an identity"
        )
    if guids is Guids.OF_ADDRESS:
        allowed = who.guids or before
        if guid in who.of_others:
            return (
                f"it says that it is queue manager {guid_text(guid)}, which has another address by "
                f"plain_peers in onceq.toml than {who.actor.name}"
            )
        if allowed and guid not in allowed:
            named = ", ".join(sorted(map(guid_text, allowed)))
            cure = (
                "plain_peers in onceq.toml says so" if who.guids
                else f"'onceq peer forget {who.actor.name}' lets another one speak there"
            )  # fmt: skip
            return (
                f"it says that it is queue manager {guid_text(guid)}, and {who.actor.name} is the "
                f"address of {named}: {cure}"
            )
    return ""


def why_not_name(
    who: Identification, guid: bytes, host: str, bound: bytes, *, pinned: bool = True
) -> str:
    """Return why an identified side may not answer for a computer; "" if it may.

    Args:
        guid: The queue manager that it speaks for.
        host: Requested name or address; "": only a GUID was requested.
        bound: The queue manager that the name is bound to; empty: none.
        pinned: Whether a name stays with that one under every proof.
    """
    names = SPEECH[who.proof].names
    if names is Names.ANY or guid == bound:
        return ""
    if bound and (pinned or names is Names.CERTIFIED):
        return (
            f"another queue manager ({guid_text(guid)}) answers under {host} than before "
            f"({guid_text(bound)})"
        )
    if bound or not host or names is not Names.CERTIFIED or is_for(host, who.names):
        return ""
    named = ", ".join(sorted(who.names)) or "no computer"
    return f"the certificate of queue manager {guid_text(guid)} is not for {host}, but for {named}"


def is_for(host: str, names: Collection[str]) -> bool:
    """Whether a certificate for these names (folded) is for a host: by the name, or by it with a
    domain behind it; an address must be among the names unchanged."""
    host = host.strip("[]")
    try:
        return str(ipaddress.ip_address(host)) in names
    except ValueError:
        return is_one_of(host, names)
