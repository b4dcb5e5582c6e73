"""Real queue managers, and everybody who asks them something, through every door.

One queue manager has no identity: its applications come by its Unix socket, or over loopback. The
other has one, and its applications come in TLS. Whoever is nobody comes from another computer
(``daemon.py``).
"""

from __future__ import annotations

import grp
import itertools
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trustme

import onceq
from onceq.directory import file
from onceq.errors import AccessDenied, OnceqError, SendFailed
from onceq.model import requests as r
from onceq.model.branches import ONCEQ_FORMAT, Xid, xid_by_row
from onceq.model.identity import guid_bytes
from onceq.model.requests import Request
from onceq.tls.authority import fingerprint
from onceq.tls.contexts import client_context
from tests.certificates import Authority
from tests.daemon.process import ROOT, Process
from tests.matrix.applications import BETA, ORDERS, Row, item
from tests.matrix.daemon import ELSEWHERE
from tests.matrix.line import Line, as_account, unix
from tests.matrix.roles import NOBODY, OVER_TCP, PLACES, ROLES, SINGLE, TENANT, UNNAMED

SOCKET, TCP, TLS = "Unix socket", "TCP on this computer", "TLS"
ACCOUNT, TOKEN, CERTIFICATE = "account", "token", "certificate"
DOORS: Final = (
    (SOCKET, ACCOUNT), (SOCKET, TOKEN), (TCP, TOKEN),
    (TLS, TOKEN), (TLS, CERTIFICATE),
)  # fmt: skip
"""Where somebody comes in, and what says who he is."""
UID: Final = 61_000
"""Accounts without names begin here; each role has one."""
ADMINISTRATOR: Final = "administrator"
PROGRAM: Final = (str(ROOT / "tests" / "matrix" / "daemon.py"),)
SETTINGS: Final = "[settings]\nconnect_retry_s = 0.1\norder_ack_delay_s = 0.02\n"


def may_become_others() -> bool:
    """Whether this process may be other accounts."""
    return os.geteuid() == 0


class Manager:
    """A queue manager, and its administrator's connection."""

    def __init__(self, path: Path, name: str, *, tls: bool) -> None:
        with onceq.open(path, name=name, create=True) as qm:
            self.guid = guid_bytes(qm.admin.status().id)
        self.group = next((g for g in grp.getgrall() if g.gr_gid != os.getegid()), None)
        if not may_become_others():
            self.group = None
        self.signs, self.applications = Authority(), trustme.CA()
        named = ""
        if tls:
            pem = self.applications.cert_pem.bytes()
            named = f'[authorities]\n"{fingerprint(pem).hex()}" = ["certificate:*"]\n'
            self.signs.identity(path, self.guid, trusts=self.signs.certificate + pem)
        file.create(str(path / "directory.db"))
        group = f'socket_group = "{self.group.gr_name}"\n' if self.group else ""
        (path / "onceq.toml").write_text(
            f'listen = "127.0.0.1:0"\nclient_listen = "127.0.0.1:0"\n{group}'
            f'directory = "{path}/directory.db"\n[peers]\nBETA = "127.0.0.1:9"\n{named}{SETTINGS}'
        )
        self.path = path
        self.process = Process(path, program=PROGRAM, PYTHONPATH=f"{ROOT}/src:{ROOT}").started()
        host, _, port = self.process.ready.rpartition(" ")[2].rpartition(":")
        self.applications_at = host, int(port)
        self.admin = Line(unix(str(path / "onceq.sock")))

    def ask(self, request: Request) -> Any:
        """The answer to the administrator, which is no error."""
        answer = self.admin.ask(request)
        if isinstance(answer, OnceqError):
            raise answer
        return answer

    def tcp(self, *, elsewhere: bool = False) -> socket.socket:
        """A connection over TCP, from this computer or from another one."""
        source = (ELSEWHERE, 0) if elsewhere else None
        return socket.create_connection(self.applications_at, source_address=source)

    def of_account(self, uid: int, connect: Callable[[], socket.socket]) -> socket.socket:
        """A connection of another account, which works in the folder of the socket."""
        assert self.group is not None, "only root can be others"
        return as_account(uid, self.group.gr_gid, str(self.path), connect)

    def in_tls(self, context: ssl.SSLContext | None = None, *, elsewhere: bool = False) -> (
        socket.socket
    ):  # fmt: skip
        """A connection in TLS; without a certificate if the context has none."""
        return (context or self.context()).wrap_socket(
            self.tcp(elsewhere=elsewhere), server_hostname="localhost"
        )

    def context(self, signer: trustme.CA | None = None, name: str = "", **more: Any) -> (
        ssl.SSLContext
    ):  # fmt: skip
        """For an application: with a certificate of this name, if an authority signs it."""
        authority = self.path.parent / "authority.pem"
        authority.write_bytes(self.signs.certificate)
        context = client_context(str(authority))
        if signer is not None:
            leaf = signer.issue_cert(f"{len(name)}.example", common_name=name, **more)
            with leaf.private_key_and_cert_chain_pem.tempfile(str(self.path.parent)) as pem:
                context.load_cert_chain(pem)
        return context

    def close(self) -> None:
        """End it, in order."""
        self.admin.close()
        assert self.process.end() == 0, self.process.said
        assert "Traceback" not in self.process.said, self.process.said


class Scene:
    """The queue managers, everybody with his rights, and a connection of each; what is not asked
    for is not made."""

    def __init__(self, folder: Path) -> None:
        self.numbers = itertools.count(1)
        self._folder = folder
        self._managers: dict[str, Manager] = {}
        self._tokens: dict[tuple[Path, str], str] = {}
        self._lines: dict[tuple[str, str], dict[str, Line]] = {}

    def _manager(self, door: str) -> Manager:
        """The queue manager that has a door."""
        name = "secure" if door == TLS else "plain"
        if name not in self._managers:
            made = Manager(self._folder / name, name.upper(), tls=door == TLS)
            self._managers[name] = made
            self._grants(made)
        return self._managers[name]

    def _grants(self, manager: Manager) -> None:
        manager.ask(r.SetRights(NOBODY, ["send"], r"private$\elsewhere"))
        for at, (role, rights) in enumerate(ROLES.items()):
            if role in UNNAMED:
                continue
            self._tokens[manager.path, role] = self._token(manager, _name(role), ())
            # What an owner has follows from having made the queue.
            given = {"owner": ("create@orders",), TENANT: ("create@tenants",)}.get(role, rights)
            names = (f"token:{_name(role)}", f"certificate:{_name(role)}", f"account:{UID + at}")
            for who in names:
                for right in given:
                    manager.ask(_granted(who, right))
        manager.ask(r.Commit(0, [item(BETA)]))

    def _everybody(self, door: str, by: str) -> dict[str, Line]:
        """The connections at a door."""
        if (door, by) not in self._lines:
            opened = {role: self._opened(door, by, role) for role in ROLES}
            self._lines[door, by] = {role: one for role, one in opened.items() if one is not None}
        return self._lines[door, by]

    def _singles(self) -> dict[str, Line]:
        """The connections of those with a single right."""
        key = ("", "")
        if key not in self._lines:
            manager = self._manager(SOCKET)
            self._lines[key] = {
                right: Line(
                    unix(str(manager.path / "onceq.sock")),
                    self._token(manager, f"only-{right}", given),
                )
                for right, given in SINGLE.items()
            }
        return self._lines[key]

    def _token(self, manager: Manager, name: str, rights: tuple[str, ...]) -> str:
        token: str = manager.ask(r.CreateToken(name)).token
        for right in rights:
            manager.ask(_granted(f"token:{name}", right))
        return token

    def _opened(self, door: str, by: str, role: str) -> Line | None:
        """The connection of a role; None: it cannot come so."""
        manager = self._manager(door)
        if role in UNNAMED and (door == SOCKET or by == CERTIFICATE):
            return None
        if role == OVER_TCP:
            plain = self._account_over_tcp(manager)
            return Line(manager.context().wrap_socket(plain, server_hostname="localhost")
                        if door == TLS else plain)  # fmt: skip
        if role == NOBODY:
            return Line(manager.in_tls(elsewhere=True) if door == TLS
                        else manager.tcp(elsewhere=True))  # fmt: skip
        if by == ACCOUNT:
            return self._account(manager, list(ROLES).index(role))
        if by == CERTIFICATE:
            context = manager.context(manager.applications, _name(role))
            return Line(manager.in_tls(context, elsewhere=True))
        token = self._tokens[manager.path, role]
        if door == SOCKET:
            return Line(unix(str(manager.path / "onceq.sock")), token)
        return Line(manager.in_tls(elsewhere=True) if door == TLS else manager.tcp(), token)

    def _account(self, manager: Manager, at: int) -> Line | None:
        if manager.group is None:
            return None
        return Line(manager.of_account(UID + at, lambda: unix("onceq.sock")))

    def _account_over_tcp(self, manager: Manager) -> socket.socket:
        """A connection of an account that may everything at the Unix socket: another one with
        ``administer``, or the one that runs the queue manager if there can be no other."""
        if manager.group is None:
            return manager.tcp()
        return manager.of_account(UID + list(ROLES).index(ADMINISTRATOR), manager.tcp)

    def close(self) -> None:
        """Everybody leaves, and the queue managers end."""
        for lines in self._lines.values():
            for line in lines.values():
                line.close()
        for manager in self._managers.values():
            manager.close()

    # ---- one row ------------------------------------------------------------------------------

    def answers(self, row: Row, door: str, by: str) -> dict[str, object]:
        """What everybody hears at a door; whoever is refused must have changed nothing."""
        asks = self._everybody(door, by)
        return self._answers(self._manager(door), asks["owner"], asks, row)

    def single_answers(self, row: Row) -> dict[str, object]:
        """What everybody hears who has one right."""
        manager = self._manager(SOCKET)
        return self._answers(manager, manager.admin, self._singles(), row)

    def _answers(
        self, manager: Manager, owner: Line, asks: dict[str, Line], row: Row
    ) -> dict[str, object]:
        """Whoever is refused leaves everything as it was, so the next one finds it so."""
        found: dict[str, object] = {}
        at: Attempt | None = None
        for role, line in asks.items():
            if at is None:
                at = Attempt(self, manager, asks.get(TENANT, manager.admin))
                at.fresh(owner)
                row.before(at)
                before = seen(manager)
            at.line = line
            answer = found[role] = line.ask(row.ask(at))
            at.abort()
            if is_refusal(answer):
                after = seen(manager)
                assert after == before, f"{row.name}: {role} is refused, and has changed something"
            else:
                row.after(at, answer)
                at = None
        if at is not None:
            row.after(at, None)
        return found


def is_refusal(answer: object) -> bool:
    """Whether a right is what is missing."""
    if isinstance(answer, SendFailed):
        return AccessDenied.code in answer.text
    return isinstance(answer, AccessDenied)


def _name(role: str) -> str:
    return role.replace(" ", "-")


def _granted(who: str, right: str) -> r.SetRights:
    word, _, place = right.partition("@")
    return r.SetRights(who, [word], PLACES.get(place, place))


LOOKED_AT: Final = (
    "queues", "outgoing", "rights", "branches", "decisions", "groups", "lists", "peers", "tokens",
)  # fmt: skip


def seen(manager: Manager) -> dict[str, Any]:
    """What can be seen of a queue manager that a request may change."""
    found = {what: manager.ask(r.Look(what)) for what in LOOKED_AT}
    # Attempts to reach somebody go on meanwhile.
    found["outgoing"] = [
        (one.destination, one.paused_since, one.messages) for one in found["outgoing"].views
    ]
    return found


@dataclass
class Attempt:
    """Somebody asks for something; ``admin`` is the one who may everything."""

    scene: Scene
    manager: Manager
    tenant_line: Line
    lookup: int = 0
    _open: tuple[int, ...] = ()
    gtrid: bytes = b""
    xid: Xid = field(default_factory=lambda: Xid(7, b"x"))
    prefix: bytes = b""
    base: str = ""

    def __post_init__(self) -> None:
        self.line = self.manager.admin
        number = next(self.scene.numbers)
        self.gtrid = b"matrix-%d" % number
        self.xid = Xid(7, self.gtrid, b"b")

    def fresh(self, owner: Line) -> None:
        """The queue is there as its owner has made it, with a message, and one in its journal."""
        self.admin(r.DeleteQueue(ORDERS))
        values = {"name": "orders", "transactional": True, "journal": True}
        made = owner.ask(r.CreateQueue(values))
        assert not isinstance(made, OnceqError), made
        for _ in range(2):
            self.manager.ask(r.Commit(0, [item()]))
        self.manager.ask(r.Receive(ORDERS))
        self.lookup = self.manager.ask(r.Receive(ORDERS, peek=True)).lookup_ids[0]

    def ask(self, request: Request) -> object:
        """The answer, or the error."""
        return self.line.ask(request)

    def admin(self, request: Request) -> object:
        """The same, for the administrator; what is not there need not be undone."""
        return self.manager.admin.ask(request)

    def tenant(self, request: Request) -> object:
        """The same, for the tenant; where there is none, the administrator's."""
        return self.tenant_line.ask(request)

    def number(self) -> int:
        """Of a transaction, or of a batch."""
        return next(self.scene.numbers)

    def begin(self) -> int:
        """A transaction of whoever asks."""
        tx = self.number()
        self._open += (tx,)
        self.ask(r.Begin(tx))
        return tx

    def abort(self) -> None:
        """Undo what he has begun."""
        for tx in self._open:
            self.ask(r.Abort(tx))
        self._open = ()

    def decides(self) -> bytes:
        """A decision of whoever asks, with a partner to be told of it."""
        tx = self.begin()
        self.enlist(tx, self.ask)
        self.ask(r.Commit(tx))
        return self.gtrid

    def enlist(self, tx: int, ask: Callable[[Request], object]) -> None:
        """The transaction decides for a partner."""
        answer = ask(r.Enlist(tx, "partner"))
        self.gtrid = answer if isinstance(answer, bytes) else self.gtrid

    def by_row(self) -> Xid:
        """A branch that a row in a database decides."""
        number = self.number()
        self.base = f"sqlite:{number}"
        self.xid = xid_by_row(self.manager.guid, number, self.base)
        return self.xid

    def attempt(self) -> r.BeginAttempt:
        """An attempt at a batch of its own."""
        self.prefix = f"onceq-{self.manager.guid.hex()}-{self.number():012x}".encode()
        return r.BeginAttempt(self.prefix)

    def group_branch(self, ask: Callable[[Request], object] | None = None) -> None:
        """The branch is one of a group, of the administrator or of whoever asks."""
        answer = (ask or self.admin)(self.attempt())
        gtrid = answer if isinstance(answer, bytes) else self.prefix + b"A" * 13
        self.xid = Xid(ONCEQ_FORMAT, gtrid, b"group.x")
