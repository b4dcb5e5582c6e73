"""The honest queue managers of ``make liar``: ALPHA, BETA and DELTA, and what others know of them.

ALPHA and BETA are open at every door: for queue managers, for applications over TCP, for HTTP, for
those who watch. Two addresses of this computer are plain hosts for them, the one bound to a GUID by
an operator, the other one to the first that it says.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import onceq
from onceq.client.threads.manager import QueueManager
from onceq.model.identity import guid_bytes, guid_text
from proof.nodes import Node, acquaint, free_port
from proof.torture.liar.ways import Ways, make_site

SETTINGS = """
connect_retry_s = 0.2
resend_first_s = 0.5
resend_second_s = 1.0
resend_third_s = 1.0
resend_last_s = 1.0
order_ack_delay_s = 0.05
order_ack_delay_s_max = 0.2
computer_quota_bytes = 67108864
"""
NAMES = ("ALPHA", "BETA", "DELTA")
OPEN = ("ALPHA", "BETA")
"""Those with all doors; the third one is killed again and again."""
NEIGHBOURS = (("send", "*"), ("forward", ""))
"""Rights of everybody with a certificate, with TLS: without it they are not asked for either."""
HOST, LODGER, STRAY = "127.0.0.2", "127.0.0.3", "127.0.0.4"
"""Plain hosts: the configuration has the GUID of the first, and the last never says one that is its
own."""
HOST_GUID, LODGER_GUID = b"plain-host-of-2.", b"plain-host-of-3."
FIRST = r"private$\first"
"""The first thing that the administrator makes; its act must stay in the trail."""
KNOWN = b"known"
"""What the administrator has put there."""
SEALED, CLOSED = r"private$\sealed", r"private$\closed"
"""Queues in which nobody has a right but who is at home, or has a certificate: a transactional one,
and one that is not."""
BAIT, PLAIN = r"private$\bait", r"private$\plain"
"""Plain hosts may send there: transactional messages, and others."""
SECRET = r"DIRECT=OS:EPSILON\private$\secret"
"""Where a queue manager should be that was never there."""
SECRETS = 5
"""Messages that wait for it."""


class Honest:
    """The three; see the module.

    Attributes:
        ports, http, clients, metrics: Where each listens, by its name.
        epsilon: Port at which nobody honest ever listens, and ALPHA looks for EPSILON.
        guids: Of each, when they run.
        ways: How to come to those who have identities; None: they have none.
    """

    def __init__(self, folder: Path, *, pin: bool, tls: bool) -> None:
        self.folder, self.pin, self.tls = folder, pin, tls
        self.ports = {name: free_port() for name in NAMES}
        self.http = {name: free_port() for name in NAMES}
        self.metrics = {name: free_port() for name in OPEN}
        self.epsilon = free_port()
        self.guids: dict[str, bytes] = {}
        self.ways: Ways | None = None
        settings = SETTINGS + ("pin_peers = true\n" if pin else "")
        peers = {f"{self.scheme}://{n.lower()}:{port}": port for n, port in self.http.items()}
        known = peers | self.ports | {"EPSILON": self.epsilon}
        folder.mkdir(parents=True, exist_ok=True)
        site = make_site(folder, NAMES) if tls else {}
        self.nodes = {
            name: Node(
                folder, name, self.ports[name], known, settings=settings, clients=name in OPEN
            )
            for name in NAMES
        }
        self.clients = {name: int(self.nodes[name].clients_at.rpartition(":")[2]) for name in OPEN}
        for name, node in self.nodes.items():
            file = node.path / "onceq.toml"
            file.write_text(self._doors(name, site.get(name, "")) + file.read_text())
            node.program = ["-m", "proof.torture.liar.door"]

    @property
    def scheme(self) -> str:
        """In which they post."""
        return "https" if self.tls else "http"

    def _doors(self, name: str, site: str) -> str:
        text = f'http_listen = "127.0.0.1:{self.http[name]}"\n{site}'
        if name in OPEN:
            text += (
                f'metrics_listen = "127.0.0.1:{self.metrics[name]}"\n'
                f'plain_peers = ["{HOST}={guid_text(HOST_GUID)}", "{LODGER}", "{STRAY}"]\n'
            )
        return text

    def start(self) -> None:
        """Start them, acquainted with each other where they have identities."""
        if self.tls:
            acquaint(*self.nodes.values())
        for node in self.nodes.values():
            if node.process is None:
                node.start()
        if self.tls:
            self.ways = Ways(self.nodes["ALPHA"].path)

    def furnish(self) -> None:
        """Queues, rights, and what waits for somebody who never comes."""
        for name in NAMES:
            with self.admin(name) as qm:
                self.guids[name] = guid_bytes(qm.admin.status().id)
                for right, where in NEIGHBOURS if self.tls else ():
                    qm.rights.grant("peer:*", right, where)
                if name not in OPEN:
                    continue
                qm.create_queue(FIRST, transactional=True)
                qm.send(FIRST, KNOWN, transactional=True)
                qm.create_queue(SEALED, transactional=True)
                qm.create_queue(CLOSED, transactional=False)
                qm.create_queue(BAIT, transactional=True)
                qm.create_queue(PLAIN, transactional=False)
                for address in (HOST, LODGER):
                    for queue in (BAIT, PLAIN):
                        qm.rights.grant(f"address:{address}", "send", queue)
        with self.admin("ALPHA") as alpha, alpha.transaction() as tx:
            for number in range(SECRETS):
                tx.send(SECRET, b"secret %d" % number)

    def admin(self, name: str) -> QueueManager:
        """Its administrator's connection."""
        return onceq.connect(str(self.nodes[name].path))

    def kill(self) -> None:
        """End them all."""
        for node in self.nodes.values():
            if node.process is not None:
                node.kill()

    # ---- connections ----------------------------------------------------------------------------

    def line(self, name: str, *, source: str = "") -> socket.socket:
        """A plain connection to the port for queue managers."""
        return connected(self.ports[name], source)

    @contextlib.contextmanager
    def web(self, name: str, *, source: str = "", guid: bytes = b"") -> Iterator[socket.socket]:
        """A connection to the door for HTTP, in TLS where that is spoken.

        Args:
            guid: Whose certificate is shown; empty: none.
        """
        with connected(self.http[name], source) as plain:
            if self.ways is None:
                yield plain
                return
            with self.ways.web(plain, guid) as line:
                yield line


def connected(port: int, source: str = "") -> socket.socket:
    """A plain connection to a port of this computer, from one of its addresses."""
    begins = (source, 0) if source else None
    return socket.create_connection(("127.0.0.1", port), timeout=2.0, source_address=begins)


def now_s() -> int:
    """Seconds since 1970."""
    return int(time.time())
