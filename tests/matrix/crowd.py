"""Everybody who comes to the port for other queue managers: certificates, rights, connections."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import time
from pathlib import Path
from typing import Any, Final

import trustme

import onceq
from onceq.embedded import trusting
from onceq.model import requests as r
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.message import PLAIN
from onceq.model.requests import Request, SendItem
from onceq.model.run import Run
from onceq.packet.arrived import ArrivedRun
from onceq.tls.authority import fingerprint
from onceq.tls.contexts import APPLICATIONS, PEERS, IdentityFiles, server_context
from tests.certificates import LONG_AGO_S, Authority
from tests.daemon.process import ROOT, Process
from tests.matrix import peers as table
from tests.matrix.daemon import ELSEWHERE, PARSED
from tests.matrix.line import Line, unix
from tests.matrix.scene import PROGRAM
from tests.matrix.speaker import Answering, Speaker

NAME: Final = "HERE"
SOURCES: Final = {
    "plain peer without a right": "127.0.0.2",
    "plain peer with `send`": "127.0.0.3",
    table.PLAIN_IMPOSTOR: "127.0.0.4",
    table.PLAIN_OTHER: "127.0.0.5",
    "plainly, from another computer": ELSEWHERE,
}
"""Addresses of those who are known by them."""
ROUTERS: Final = {"router without `forward`": "ROUTER1", "router with `forward`": "ROUTER2"}
SETTINGS: Final = (
    "[settings]\nconnect_retry_s = 0.1\norder_ack_delay_s = 0.02\nforward_messages = true\n"
)
ELSEWHERE_HOST: Final = "elsewhere.example"
"""Where posts are passed on to."""
AWAY: Final = "connection turned away"
"""In the log."""
STATUSES: Final = 20
"""Requests that take longer than the log is behind."""
BEHIND, ANOTHER = "sender behind a router", "another queue manager"
VICTIM, BARE_VICTIM = "victim", "victim without TLS"
"""Who has been sent a message that others acknowledge, by each of the two queue managers."""


class Host:
    """A queue manager, its administrator, and what can be seen of it."""

    def __init__(self, path: Path, guid: bytes) -> None:
        self.guid = guid
        self.process = Process(path, program=PROGRAM, PYTHONPATH=f"{ROOT}/src:{ROOT}").started()
        self.peers_at = _place(self.process.peers_at)
        self.http_at = _place(self.process.ready.partition("HTTP on ")[2].partition(",")[0])
        self.admin = Line(unix(str(path / "onceq.sock")))

    def ask(self, request: Request) -> Any:
        """The answer, which is no error."""
        answer = self.admin.ask(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def parsed(self) -> int:
        """How often bytes of other queue managers have come to the parser."""
        found, before = 0, -1
        while found != before:
            # A thread of the daemon's own writes the log, a little behind what is done.
            for _ in range(STATUSES):
                self.ask(r.Look("status"))
            found, before = self.process.said.count(PARSED), found
        return found

    def close(self) -> None:
        """End it, in order."""
        self.admin.close()
        assert self.process.end() == 0, self.process.said
        assert "Traceback" not in self.process.said, self.process.said


class Crowd:
    """Two queue managers, one of them with an identity, and whoever connects to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = itertools.count(1)
        self.streams: list[int] = []
        self.signs, self.foreign = Authority(), Authority("FOREIGN")
        self.applications = trustme.CA()
        names = (*table.KNOWN, *ROUTERS.values(), BEHIND, ANOTHER, VICTIM, BARE_VICTIM,
                 table.REMOVED)  # fmt: skip
        self.guids = {name: b"%016d" % at for at, name in enumerate(names, 1)}
        self.answering = {
            name: Answering(self.guids[who], self._serving(self.guids[who], name))
            for who, name in ROUTERS.items()
        }
        for one in self.answering.values():
            one.start()
        self.secure, self.bare = self._started(tls=True), self._started(tls=False)
        self._grants()
        while len(self.secure.ask(r.Look("peers")).views) < len(ROUTERS):
            pass  # it asks its routers who they are
        # Lines about strangers are bounded, so this comes before they come in numbers.
        self.reasons = {who: self._knock(who) for who in table.STRANGERS}
        self._victims = {}
        for who in (VICTIM, BARE_VICTIM):
            self.send_to(who)
            self._victims[self.host(who)] = self.speaker(who)
        self._messages = {host: one.message() for host, one in self._victims.items()}

    # ---- queue managers -----------------------------------------------------------------------

    def _started(self, *, tls: bool) -> Host:
        path = self.folder / ("secure" if tls else "bare")
        with onceq.open(path, name=NAME, create=True) as qm:
            guid = guid_bytes(qm.admin.status().id)
        head, routes = "", ""
        peers = ['TELL = "127.0.0.1:9"']
        if tls:
            trusted = self.signs.certificate + self.applications.cert_pem.bytes()
            self.signs.identity(path, guid, trusts=trusted)
            trusting.remove(str(path), guid_text(self.guids[table.REMOVED]))
            plain = [SOURCES[who] for who in SOURCES if who.startswith("plain peer")]
            plain[-1] += f"={guid_text(self.guids[ANOTHER])}"
            http = self._file("http", self.signs, guid)
            head = f"plain_peers = {plain}\n".replace("'", '"')
            head += f'http_listen = "127.0.0.1:0"\nhttp_certificate = "{http}"\n'
            peers.append(f'"https://{ELSEWHERE_HOST}" = "127.0.0.1:9"')
            # Those with a certificate come from loopback, where answers go if it is named here.
            peers.append(f'"https://{ELSEWHERE}:9" = "{ELSEWHERE}:9"')
            lines = [f'"{guid_text(self.guids[n])}" = "{n}"' for n in ROUTERS.values()]
            routes = "[routes]\n" + "\n".join(lines) + "\n"
            whose = fingerprint(self.applications.cert_pem.bytes()).hex()
            routes += f'[authorities]\n"{whose}" = ["certificate:*"]\n'
            peers += [f'{name} = "{one.where}"' for name, one in self.answering.items()]
        (path / "onceq.toml").write_text(
            f'listen = "127.0.0.1:0"\n{head}{routes}[peers]\n' + "\n".join(peers) + f"\n{SETTINGS}"
        )
        return Host(path, guid)

    def _grants(self) -> None:
        for host in (self.secure, self.bare):
            for name, transactional in (("orders", True), ("spare", False), ("other", False)):
                host.ask(r.CreateQueue({"name": name, "transactional": transactional}))
        grants = (
            ("peer with `send`", "send", r"private$\orders"),
            ("peer with `send`", "send", r"private$\spare"),
            ("peer with `send` at another queue", "send", r"private$\other"),
            (BEHIND, "send", "*"),
            (table.REMOVED, "send", "*"),
            ("router with `forward`", "forward", ""),
        )
        for who, word, pattern in grants:
            self.secure.ask(r.SetRights(f"peer:{guid_text(self.guids[who])}", [word], pattern))
        address = SOURCES["plain peer with `send`"]
        self.secure.ask(r.SetRights(f"address:{address}", ["send"], "*"))

    def _knock(self, who: str) -> str:
        """Somebody comes once; what the log says of it."""
        host = self.host(who)
        before = host.process.said
        with contextlib.suppress(OSError), self.connected(who) as own:
            own.sendall(bytes(64))
            while own.recv(1 << 16):
                pass
        while AWAY not in host.process.said[len(before) :]:
            host.ask(r.Look("status"))
        return host.process.said[len(before) :]

    def host(self, who: str) -> Host:
        """The queue manager that somebody comes to."""
        bare = who in ("plainly, from another computer", table.LOCAL, BARE_VICTIM)
        return self.bare if bare else self.secure

    def message_of_another(self, who: str) -> ArrivedRun:
        """What the queue manager that somebody comes to has sent to somebody else."""
        return self._messages[self.host(who)]

    def victim(self, who: str) -> str:
        """Who that is."""
        return VICTIM if self.host(who) is self.secure else BARE_VICTIM

    def queue_of(self, who: str) -> str:
        """A queue of somebody who comes."""
        return f"PRIVATE={guid_text(self.guids[who])}\\00000007"

    def send_to(self, who: str) -> None:
        """The queue manager has a message for somebody, and wants to know how it ends."""
        sent = SendItem(self.queue_of(who), PLAIN, Run.of([b"x"]), values={"journal": 1})
        self.host(who).ask(r.Commit(0, [sent]))

    def close(self) -> None:
        """Everybody leaves."""
        for victim in self._victims.values():
            victim.close()
        for one in self.answering.values():
            one.close()
        for host in (self.secure, self.bare):
            host.close()

    # ---- connections --------------------------------------------------------------------------

    def _file(self, name: str, signs: Authority, guid: bytes, *, ago_s: int = 0) -> str:
        made, key = signs.issue(guid, ago_s=ago_s)
        return self._pem(name, made + key)

    def _pem(self, name: str, data: bytes) -> str:
        file = self.folder / f"{name.encode().hex()[:60]}.pem"
        file.write_bytes(data)
        return str(file)

    def _serving(self, guid: bytes, name: str) -> ssl.SSLContext:
        made, key = self.signs.issue(guid, name)
        own = self._pem(name, made + key)
        return server_context(
            IdentityFiles(own, own, self._pem("authorities", self.signs.certificate)), peers=True
        )

    def connected(self, who: str) -> socket.socket:
        """A connection of somebody, in TLS if he speaks that."""
        source = (SOURCES[who], 0) if who in SOURCES else None
        plain = socket.create_connection(self.host(who).peers_at, source_address=source)
        if who in SOURCES or who in ("without TLS", table.LOCAL, BARE_VICTIM):
            return plain
        context = self._context(who)
        context.set_alpn_protocols([APPLICATIONS if "another protocol" in who else PEERS])
        return context.wrap_socket(plain)

    def https(self, who: str) -> socket.socket:
        """The same at the address for HTTPS; whoever need not be elsewhere is."""
        here = who == "same computer"
        source = None if here else (SOURCES.get(who, ELSEWHERE), 0)
        plain = socket.create_connection(self.secure.http_at, source_address=source)
        return self._context(who).wrap_socket(plain)

    def _context(self, who: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        file = self._certificate(who)
        if file:
            context.load_cert_chain(file)
        return context

    def counts(self) -> dict[str, int]:
        """How many messages are in each queue, and on their way to each place elsewhere."""
        host = self.secure
        found = {queue.name: queue.messages for queue in host.ask(r.Look("queues")).views}
        for queue in host.ask(r.Look("outgoing")).views:
            if ELSEWHERE_HOST in queue.destination.lower():
                found[ELSEWHERE_HOST] = queue.messages
        return found

    def _certificate(self, who: str) -> str:
        """File of what somebody shows; "": nothing."""
        guid = self.guid(who)
        if who in ("TLS, no certificate", "same computer") or who in SOURCES:
            return ""
        if who == "TLS, self-signed certificate":
            return self._pem(who, self.foreign.certificate + self.foreign.key)
        if who == "TLS, certificate of an application":
            leaf = self.applications.issue_cert("application.example", common_name="billing")
            return self._pem(who, leaf.private_key_and_cert_chain_pem.bytes())
        if who == "TLS, certificate of a foreign authority":
            return self._file(who, self.foreign, guid)
        ago_s = {"TLS, expired certificate": LONG_AGO_S,
                 "TLS, certificate of the future": -LONG_AGO_S}.get(who, 0)  # fmt: skip
        return self._file(who, self.signs, guid, ago_s=ago_s)

    def guid(self, who: str) -> bytes:
        """Who somebody is; whoever is nobody here says that he is one with rights."""
        return self.guids.get(who, self.guids["peer with `send`"])

    def speaker(self, who: str) -> Speaker:
        """Somebody begins a session."""
        claims = {table.IMPOSTOR: VICTIM, table.PLAIN_IMPOSTOR: VICTIM,
                  table.PLAIN_OTHER: "plain peer with `send`"}  # fmt: skip
        said = self.guids[claims[who]] if who in claims else self.guid(who)
        made = Speaker(self.connected(who), said)
        made.opened()
        return made

    def number(self) -> int:
        """Of a message."""
        return next(self.numbers)

    def stream(self) -> int:
        """A new one, later than any before."""
        self.streams.append((int(time.time()) << 32) + self.number())
        return self.streams[-1]


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port or 0)
