"""How others come in, and how this queue manager connects to others: one table, and one rule.

``Entrance`` lists the ways in, and ``RULES`` says what each asks for. What the other end has shown
is read from its transport; why an attempt to connect failed is said in words.

With an identity (``tls/`` in the data directory, or files that the configuration names) every
connection with another queue manager is TLS. Both sides prove their identity, and nothing is parsed
before. ``plain_peers`` names the addresses of computers that cannot do that. With those alone, both
sides speak without TLS, and the address identifies the other side.

Without an identity there are only this computer (loopback), to which nothing has to be proven, and
``plain_peers``. So this manager listens at an address that others can reach only with one of the
two. ``model/identification.py`` says what identity follows.

Each connection is judged by the rules of its time. A reload takes other files, or other addresses,
all of them or none, and existing connections go on.

Upholds: I28.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import pwd
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from onceq.core.inputs import TellDoors
from onceq.errors import ConfigurationError, OnceqError
from onceq.model.addresses import is_loopback
from onceq.model.identification import (
    NOT_LISTED,
    Account,
    House,
    Identification,
    Over,
    Shown,
    by_address,
    identify_application,
    identify_peer,
    identify_watcher,
    is_near,
)
from onceq.model.identity import NO_GUID, Identity, guid_bytes
from onceq.model.limits import CERTIFICATE_WARN_DAYS
from onceq.model.marks import DAY_S
from onceq.model.resultcodes import ConnectionStatus
from onceq.service import config
from onceq.service.admission import LOCAL
from onceq.service.config import Configuration, plain_peers, split_address
from onceq.service.logs import event
from onceq.store.log import LogStore
from onceq.tls.contexts import (
    APPLICATIONS,
    JOIN,
    PEERS,
    TOO_MUCH,
    IdentityFiles,
    client_context,
    server_context,
    unbelieved,
)
from onceq.tls.folder import files_of, folder_of
from onceq.tls.identity import authority_of, claims_of, guid_of
from onceq.tls.invitations import Asking, Granting, Invites, Known, Note
from onceq.tls.members import MemberJudge, begins_of, read_members
from onceq.tls.own import Own, read_own

# ---- identities ----------------------------------------------------------------------------------
#
# Read what the other end of a connection has shown (`Shown`) from its transport.


_CREDENTIALS: Final = struct.Struct("3i")
"""The value of SO_PEERCRED: process, account, group."""


def shown_on(transport: asyncio.BaseTransport | None, *, http: bool = False) -> Shown:
    """Return what the other side of a connection has shown.

    Args:
        http: Whether HTTP is spoken on it.
    """
    if transport is None:
        return Shown(Over.HTTP if http else Over.TCP)
    own = transport.get_extra_info("socket")
    if own is not None and own.family == socket.AF_UNIX:
        uid = _at_unix(own)
        return Shown(Over.SOCKET, account=None if uid is None else account(uid))
    tls = transport.get_extra_info("ssl_object")
    if tls is None:
        return Shown(Over.HTTP if http else Over.TCP, _address(transport))
    claims = claims_of(tls.getpeercert())
    return Shown(Over.HTTPS if http else Over.TLS, _address(transport), claims)


def account(uid: int) -> Account:
    """Return an account of this computer; the account of this process may do everything, and so
    may the system's administrator."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return Account(name, free=uid in (os.geteuid(), 0))


def process_of(transport: asyncio.BaseTransport | None) -> int:
    """Return the process that has connected at the Unix socket; 0 if the system does not say, or
    means one that cannot be seen from here (in another container)."""
    own = transport.get_extra_info("socket") if transport is not None else None
    if own is None or own.family != socket.AF_UNIX:
        return 0
    found = _credentials(own)
    return 0 if found is None else found[0]


def at_socket(own: socket.socket) -> str:
    """Return the account with which a connection at the Unix socket is counted; LOCAL is our
    own."""
    uid = _at_unix(own)
    if uid is None:
        return LOCAL
    who = identify_application(Shown(Over.SOCKET, account=account(uid))).actor
    return LOCAL if who.free else str(who)


def _address(transport: asyncio.BaseTransport) -> str:
    """Return the address of the other end; "" if it has none."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]).partition("%")[0] if isinstance(peer, tuple) else ""


def _at_unix(own: Any) -> int | None:
    """Return the account of the process at the other end."""
    found = _credentials(own)
    return None if found is None else found[1]


def _credentials(own: Any) -> tuple[int, int] | None:
    """Return the process that has connected, and its account; None if the system does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    try:
        raw = own.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    except OSError:
        return None
    process, uid, _ = _CREDENTIALS.unpack(raw)
    return int(process), int(uid)


# ---- doors ---------------------------------------------------------------------------------------


SAY: Final = (
    "give this queue manager an identity (onceq tls init, or onceq tls join on the invitation of "
    "another one), or, for hosts that cannot speak TLS, name their addresses in plain_peers"
)
"""The ways out."""


class Entrance(Enum):
    """A way in; the value is the key of its address in the configuration."""

    PEERS = "listen"
    POSTS = "http_listen"
    APPLICATIONS = "client_listen"
    WATCHERS = "metrics_listen"


@dataclass(frozen=True, slots=True)
class EntranceRule:
    """What an entrance asks for.

    Attributes:
        plain: Returns something true for an address whose clients may do without TLS.
        secure: Whether TLS is for every client once it can be spoken; else it is for those that may
            not do without.
        refusal: The reason to refuse those others where no TLS can be spoken.
        who: The identity of a client from what it has shown, or the reason to close.
        http: Whether HTTP is spoken.
        alpn: The protocol that is agreed on in TLS; "": any.
    """

    plain: Callable[[str, House], object]
    secure: bool
    refusal: str
    who: Callable[[Shown, House], Identification | str]
    http: bool = False
    alpn: str = ""


RULES: Final[Mapping[Entrance, EntranceRule]] = {
    Entrance.PEERS: EntranceRule(
        plain=by_address, secure=False, refusal=NOT_LISTED, who=identify_peer, alpn=PEERS,
    ),
    Entrance.POSTS: EntranceRule(
        plain=by_address, secure=True, refusal=f"{NOT_LISTED}, and it speaks no TLS",
        who=identify_peer, http=True,
    ),
    # Without TLS it listens on this computer alone.
    Entrance.APPLICATIONS: EntranceRule(
        plain=lambda address, house: True, secure=True, refusal="",
        who=lambda shown, house: identify_application(shown), alpn=APPLICATIONS,
    ),
    Entrance.WATCHERS: EntranceRule(
        plain=is_near, secure=False,
        refusal=f"{NOT_LISTED}, and there is no certificate for TLS",
        who=identify_watcher, http=True,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Contexts:
    """TLS contexts of one set of files."""

    files: IdentityFiles
    own: Own
    peers: ssl.SSLContext
    inviting: ssl.SSLContext
    """For peers, and for clients with an invitation, which have no certificate yet."""
    applications: ssl.SSLContext
    going: ssl.SSLContext


class Doors:
    """The doors of one queue manager."""

    def __init__(self, path: str = "", guid: bytes = NO_GUID) -> None:
        """Create the doors of a queue manager without an identity.

        Args:
            path: Its data directory.
            guid: Its GUID.
        """
        self.path = path
        self._guid = guid
        self._tls: _Contexts | None = None
        self._held: Configuration | None = None
        self._entrances: Mapping[Entrance, ssl.SSLContext | None] = {}
        self.house = House()
        """The proofs that are known here."""
        self.invites = Invites(folder_of(path))
        self.standing = MemberJudge(folder_of(path))
        self.note: Note = event
        """Logs what others can cause; set by the host."""

    # ---- what holds ---------------------------------------------------------------------------

    def prepared(self, configuration: Configuration) -> Callable[[], None]:
        """Read a configuration and its files; return a function that puts them in force.

        Raises:
            ConfigurationError, AccessDenied: A file cannot be used, or an address would be open to
                every client that reaches it; nothing has changed.
        """
        files = files_of(
            self.path,
            certificate=configuration.tls_certificate,
            key=configuration.tls_key,
            authorities=configuration.tls_authorities,
            minimum=configuration.tls_minimum,
        )
        if files is None and self._tls is not None:
            raise ConfigurationError(
                f"{self._tls.files.certificate} is not there any more, and nothing else proves who "
                "this queue manager is: put it back; one that shall be without an identity is "
                "stopped and started"
            )
        made = self._make(files) if files is not None else None
        self.standing.removed.read_changes()
        plain = plain_peers(configuration.plain_peers)
        self._check(configuration, tls=made is not None, plain=bool(plain))
        entrances = dict[Entrance, ssl.SSLContext | None]()
        if made is not None:
            entrances = {
                Entrance.PEERS: made.peers, Entrance.APPLICATIONS: made.applications
            }  # fmt: skip
        if configuration.http_listen:
            entrances[Entrance.POSTS] = config.server_context(configuration, files)
        if configuration.metrics_listen:
            # Monitoring clients know nothing of our protocols: they get the certificate for HTTPS
            # if there is one, else the identity.
            config.check_metrics()
            if configuration.http_certificate:
                entrances[Entrance.WATCHERS] = config.server_context(configuration, files)
            elif files is not None:
                web = server_context(files, peers=False, alpn=("http/1.1",))
                entrances[Entrance.WATCHERS] = web
        if configuration.http_authorities:
            # It is read for each connection; an unusable file is reported now.
            config.client_context(configuration.http_authorities, files)

        def hold() -> None:
            self._held = configuration
            self._tls, self._entrances = made, entrances
            self.house = House(made is not None, plain)
            several = made is not None and len(made.peers.get_ca_certs()) > 1
            naming = made.own.authority if made is not None and several else None
            self.standing.limit(configuration.authorities, naming)

        return hold

    def read_again(self) -> None:
        """Take files that have changed, with the configuration in force; raises ConfigurationError,
        AccessDenied."""
        if self._held is not None:
            self.prepared(self._held)()

    def _make(self, files: IdentityFiles) -> _Contexts:
        own = read_own(files, self._guid)
        return _Contexts(
            files, own,
            peers=server_context(files, peers=True, alpn=(PEERS, JOIN)),
            inviting=server_context(files, peers=True, alpn=(PEERS, JOIN), certificates=False),
            applications=server_context(files, peers=False, alpn=(APPLICATIONS,)),
            going=client_context(
                files.authorities, certificate=files.certificate, key=files.key,
                minimum=files.minimum, peers=True,
            ),
        )  # fmt: skip

    @staticmethod
    def _check(configuration: Configuration, *, tls: bool, plain: bool) -> None:
        """Allow nothing but loopback without an identity."""
        closed = tls or plain
        for key, guarded in (
            ("listen", closed),
            ("client_listen", tls),
            ("http_listen", closed or bool(configuration.http_certificate)),
            ("metrics_listen", closed or bool(configuration.http_certificate)),
        ):
            where = getattr(configuration, key)
            if where and not guarded and not is_loopback(split_address(where, 0)[0]):
                raise ConfigurationError(
                    f"{key}: other computers can reach {where}, and nothing would prove who "
                    f"connects: {SAY if key != 'client_listen' else _TLS}"
                )

    @property
    def files(self) -> IdentityFiles | None:
        """Return the files that prove this manager's identity; None if there are none."""
        return self._tls.files if self._tls is not None else None

    @property
    def own(self) -> Own | None:
        """Return the own certificate; None if there is no identity."""
        return self._tls.own if self._tls is not None else None

    @property
    def authorities(self) -> frozenset[bytes]:
        """Return the trusted authority certificates of other queue managers."""
        known = self._tls.peers.get_ca_certs(binary_form=True) if self._tls is not None else ()
        return frozenset(known)

    def report(self) -> TellDoors:
        """Return what the core judges by, and reports in its status."""
        own = self.own or Own()
        # The queue managers that were given a certificate here.
        issued = frozenset[bytes]()
        try:
            members = read_members(folder_of(self.path)) if self.path else {}
            issued = frozenset(map(guid_bytes, members)) - {self._guid}
        except (OnceqError, ValueError) as error:
            self.note("what was signed here is not known", level=logging.ERROR, reason=str(error))
        return TellDoors(
            identity=self._tls is not None, ends_s=own.ends_s, problem=own.problem,
            plain_peers=tuple(sorted(self.house.plain)), issued=issued,
        )  # fmt: skip

    def tell(self, now_s: int) -> None:
        """Log who may come in without proof, and whether the certificate ends soon."""
        if self.house.plain:
            event(
                "these addresses may speak without proving who they are", level=logging.WARNING,
                plain_peers=",".join(sorted(self.house.plain)),
            )  # fmt: skip
        own = self.own
        if own is None:
            return
        if own.problem or own.ends_s <= now_s:
            event(
                "nobody believes the certificate of this queue manager", level=logging.ERROR,
                reason=own.problem or "it has expired", cure="onceq tls renew",
            )  # fmt: skip
        elif own.ends_s - now_s < CERTIFICATE_WARN_DAYS * DAY_S:
            event(
                "the certificate of this queue manager ends soon", level=logging.WARNING,
                days=(own.ends_s - now_s) // DAY_S, cure="onceq tls renew",
            )  # fmt: skip

    def again_s(self, now_s: int) -> int:
        """Return the seconds until that is logged again: each day, and when the certificate
        ends."""
        left_s = self.own.ends_s - now_s if self.own is not None else 0
        return min(left_s, DAY_S) if left_s > 0 else DAY_S

    # ---- who may come -------------------------------------------------------------------------

    def way_in(self, entrance: Entrance, address: str, now_s: int) -> ssl.SSLContext | str | None:
        """Return the TLS context for a connection from an address, None (no TLS), or the reason to
        refuse it."""
        rule, context = RULES[entrance], self._entrances.get(entrance)
        plain = rule.plain(address, self.house)
        if context is None or (plain and not rule.secure):
            return None if plain else rule.refusal
        if entrance is Entrance.PEERS and self._tls is not None and self._expected(now_s):
            return self._tls.inviting
        return context

    def _expected(self, now_s: int) -> bool:
        """Return True if there are open invitations; False also if they cannot be read, and clients
        with a certificate come in as before."""
        try:
            return self.invites.expected(now_s)
        except OnceqError as error:
            self.note("invitations cannot be used", level=logging.ERROR, reason=error.text)
            return False

    def way_out(self, address: str, protocol: str = "") -> ssl.SSLContext | str | None:
        """Return the TLS context for a connection to an address, None (no TLS), or the reason not
        to make it.

        Args:
            protocol: HTTP or HTTPS; another one is MS-MQQB.
        """
        if protocol == "HTTPS":
            authorities = self._held.http_authorities if self._held is not None else ""
            return config.client_context(authorities, self.files)
        if protocol == "HTTP" or by_address(address, self.house) is not None:
            return None
        if self._tls is not None:
            return self._tls.going
        return f"{address} is another computer, and nothing would prove who is there: {SAY}"

    def who(
        self, transport: asyncio.BaseTransport | None, entrance: Entrance = Entrance.PEERS
    ) -> Identification | str:
        """Return who is at the other side of a connection, or the reason to close it."""
        rule = RULES[entrance]
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        if tls is not None and rule.alpn and tls.selected_alpn_protocol() != rule.alpn:
            # Bytes that were meant for another party do not reach the parser.
            return f"it speaks TLS, but not {rule.alpn} in it"
        return rule.who(shown_on(transport, http=rule.http), self.house)

    def disbelieved(self, transport: asyncio.BaseTransport | None) -> str:
        """Return the reason to reject the other side's certificate, on either kind of connection;
        "" if it counts or there is none. Clients that want a certificate get it in words."""
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        if tls is None or tls.selected_alpn_protocol() == JOIN:
            return ""
        return self.standing.why_not(tls.getpeercert(), authority_of(tls))

    def granting(
        self,
        transport: asyncio.BaseTransport | None,
        address: str,
        now_s: int,
        *,
        note: Note,
        known: Known,
    ) -> Granting | None:
        """Return the dialog with a client that wants a certificate; None if the client is a
        peer."""
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        if tls is None or tls.selected_alpn_protocol() != JOIN:
            return None
        shown = tls.getpeercert()
        who = Asking(address, guid_of(shown), begins_of(shown), authority_of(tls))
        own = folder_of(self.path)
        return Granting(own, self._guid, who, now_s, note=note, known=known)


def doors_of(path: str, store: LogStore, configuration: Configuration) -> Doors:
    """Return the doors of the queue manager in a data directory.

    Raises:
        ConfigurationError, AccessDenied: As from ``Doors.prepared``; it must not start.
    """
    doors = Doors(path, Identity.unpack(store.identity).guid)
    doors.prepared(configuration)()
    return doors


_TLS: Final = (
    "give this queue manager an identity (onceq tls init, or onceq tls join on the invitation of "
    "another one); applications on this computer use its socket, or an address of loopback with a "
    "token"
)


# ---- reasons -------------------------------------------------------------------------------------
#
# Why an attempt to connect failed: as a status, and in words.


def status_of(error: Exception) -> ConnectionStatus:
    """Return the status of a failed attempt to connect (Q-10)."""
    if isinstance(error, ConnectionRefusedError):
        return ConnectionStatus.REFUSED
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return ConnectionStatus.NAME_RESOLUTION_FAILURE
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS):
        return ConnectionStatus.LOW_RESOURCES
    return ConnectionStatus.CONNECT_FAILURE


_NO_TLS = (
    "it does not speak TLS: give it an identity (onceq tls join), or, if it cannot, name its "
    "address in plain_peers"
)
_CUT = (
    "it has ended the connection in the handshake of TLS: it may not speak TLS, or not take our "
    "certificate; its own log says why"
)
"""Replaces an error for which the event loop has no words."""
_TLS_FAILURES = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the authority of our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our certificate has expired: onceq tls renew",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not take our certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not take our certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a certificate, and we have none",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has shown no certificate",
    "UNSUPPORTED_PROTOCOL": "it speaks an older TLS than tls_minimum allows",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it asks for a newer TLS (its tls_minimum)",
}
"""Descriptions, for people, of the events that OpenSSL names."""


def describe_error(error: Exception) -> str:
    """Describe an error for people."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {unbelieved(error)}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return reason if reason == TOO_MUCH else _TLS_FAILURES.get(reason, f"TLS: {reason}")
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno).lower()
    if isinstance(error, ConnectionError) and not str(error):
        return _CUT
    return str(error) or type(error).__name__
