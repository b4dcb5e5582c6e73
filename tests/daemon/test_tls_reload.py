"""Other certificates and other authorities while a daemon runs: at every door, all or none."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import pytest

import onceq
from onceq.errors import AccessDenied, OnceqError
from onceq.model.identity import guid_bytes, guid_text
from onceq.service.config import PORT_FILE
from onceq.tls.contexts import JOIN, client_context
from tests.certificates import BETA, Authority
from tests.daemon.mesh import CONFIGURATION, Mesh
from tests.daemon.process import WAIT_S, Process

pytestmark = pytest.mark.slow

FILES = """
tls_certificate = "own.pem"
tls_authorities = "trusted.pem"
client_listen = "127.0.0.1:0"
http_listen = "127.0.0.1:0"
http_certificate = "{path}/own.pem"
"""
DOORS = ("listen", "client_listen", "http_listen")
HOST = "127.0.0.1"


class Rotating:
    """ALPHA with files of companies' authorities, and whoever comes to its doors."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.path = mesh.path / "alpha"
        self.signs = {name: Authority(name) for name in ("ONE", "OTHER")}
        self.guid = guid_bytes(mesh.shown("alpha")["id"])
        mesh.configure("alpha", FILES.format(path=self.path))
        self.trust("ONE")
        self.own("ONE")
        for name, authority in self.signs.items():
            self.write(f"{name}.pem", b"".join(authority.issue(BETA)))
            self.write(f"{name}-authority.pem", authority.certificate)

    def write(self, name: str, data: bytes) -> str:
        file = self.path / name
        file.write_bytes(data)
        file.chmod(0o600)
        return str(file)

    def trust(self, *names: str) -> None:
        self.write("trusted.pem", b"".join(self.signs[name].certificate for name in names))

    def own(self, name: str) -> None:
        self.write("own.pem", b"".join(self.signs[name].issue(self.guid)))

    def run(self) -> Process:
        self.process = self.mesh.start("alpha")
        lines = (self.path / PORT_FILE).read_text().splitlines()
        self.ports = {
            door: int(where.rpartition(":")[2]) for door, where in zip(DOORS, lines, strict=True)
        }
        return self.process

    def reload(self, by: str = "command") -> None:
        if by == "command":
            self.mesh.cli("qm", "reload", "-q", str(self.path))
            return
        before = self.process.said.count("configuration reloaded")
        self.process.popen.send_signal(signal.SIGHUP)
        self.process.wait_to_say("configuration reloaded", before + 1)

    def let_in(self, name: str, by: str) -> set[str]:
        """Through which doors a certificate of one authority leads, if the doors show one of
        another that is known."""
        own, known = str(self.path / f"{name}.pem"), str(self.path / f"{by}-authority.pem")
        return {door for door in DOORS if getattr(self, f"_{door}")(own, known)}

    def _listen(self, own: str, known: str) -> bool:
        context = client_context(known, certificate=own, peers=True, alpn=JOIN)
        with (
            contextlib.suppress(OSError),
            socket.create_connection((HOST, self.ports["listen"]), WAIT_S) as plain,
            context.wrap_socket(plain) as connection,
        ):
            connection.sendall(b'{"want": "authority"}\n')
            return connection.recv(100).startswith(b"{")
        return False

    def _client_listen(self, own: str, known: str) -> bool:
        where = f"tls://{HOST}:{self.ports['client_listen']}"
        try:
            with onceq.connect(where, tls=onceq.Tls(authorities=known, certificate=own)):
                return True
        except AccessDenied:
            raise
        except OnceqError:
            return False

    def _http_listen(self, own: str, known: str) -> bool:
        context = ssl.create_default_context(cafile=known)
        context.load_cert_chain(own)
        asking = HTTPSConnection(HOST, self.ports["http_listen"], context=context, timeout=WAIT_S)
        try:
            asking.request("POST", "/msmq/private$/q")
            return asking.getresponse().status == 400
        except (OSError, HTTPException):
            return False
        finally:
            asking.close()


@pytest.fixture
def alpha(mesh: Mesh) -> Rotating:
    return Rotating(mesh)


@pytest.mark.parametrize("by", ["command", "signal"])
def test_one_authority_takes_the_place_of_another_at_every_door(alpha: Rotating, by: str) -> None:
    process, everywhere = alpha.run(), set(DOORS)
    assert alpha.let_in("ONE", by="ONE") == everywhere
    assert alpha.let_in("OTHER", by="ONE") == set()
    with onceq.connect(str(alpha.path)) as qm:
        qm.rights.grant(f"peer:{guid_text(BETA)}", "monitor")
    known = onceq.Tls(str(alpha.path / "ONE-authority.pem"), str(alpha.path / "ONE.pem"))
    with onceq.connect(f"tls://{HOST}:{alpha.ports['client_listen']}", tls=known) as there:
        alpha.trust("ONE", "OTHER")
        assert alpha.let_in("OTHER", by="ONE") == set(), "it is taken by a reload"
        alpha.reload(by)
        assert alpha.let_in("OTHER", by="ONE") == everywhere
        assert alpha.let_in("ONE", by="ONE") == everywhere
        alpha.own("OTHER")
        alpha.reload(by)
        assert alpha.let_in("OTHER", by="ONE") == set(), "the certificate is another one"
        assert alpha.let_in("OTHER", by="OTHER") == everywhere
        alpha.trust("OTHER")
        alpha.reload(by)
        assert alpha.let_in("ONE", by="OTHER") == set()
        assert alpha.let_in("OTHER", by="OTHER") == everywhere
        assert there.admin.status().name == "ALPHA", "connections that are there go on"
    told = [line for line in process.said.splitlines() if "configuration reloaded" in line]
    mine, theirs = (
        "the certificate for other queue managers", "the authorities of other queue managers",
    )  # fmt: skip
    assert [(mine in line, theirs in line) for line in told] == [
        (False, True), (True, False), (False, True),
    ]  # fmt: skip


@pytest.mark.parametrize("file", ["trusted.pem", "own.pem"])
def test_a_file_that_cannot_be_used_closes_and_opens_no_door(alpha: Rotating, file: str) -> None:
    alpha.run()
    good = (alpha.path / file).read_bytes()
    alpha.write("OTHER.pem", b"".join(alpha.signs["OTHER"].issue(BETA)))
    for bad in (b"", b"nonsense", good[: len(good) // 2]):
        alpha.write(file, bad)
        said = alpha.mesh.cli("qm", "reload", "-q", str(alpha.path), code=CONFIGURATION)
        assert file in said
        assert alpha.let_in("ONE", by="ONE") == set(DOORS)
        assert alpha.let_in("OTHER", by="ONE") == set()


def test_authorities_of_servers_that_cannot_be_read_are_told_at_once(
    alpha: Rotating, tmp_path: Path
) -> None:
    """Not by the first message that is to be posted."""
    nowhere = tmp_path / "nowhere.pem"
    alpha.mesh.configure("alpha", f'http_authorities = "{nowhere}"')
    process = Process(alpha.path)
    assert process.ended() == CONFIGURATION
    assert f"http_authorities {nowhere}" in process.said
    alpha.mesh.configure("alpha")
    alpha.mesh.start("alpha")
    alpha.mesh.configure("alpha", f'http_authorities = "{nowhere}"')
    said = alpha.mesh.cli("qm", "reload", "-q", str(alpha.path), code=CONFIGURATION)
    assert f"http_authorities {nowhere}" in said
