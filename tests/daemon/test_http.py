"""Messages over HTTP and HTTPS between real daemons, through kills and a gateway."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

import onceq
from onceq.errors import ConfigurationError
from tests.daemon.http_daemon import LOCAL, WAIT_S, HttpDaemon, all_of
from tests.servers import free_port

pytestmark = pytest.mark.slow
LOOKS_MAX = 100_000
"""Requests that ask for something that comes soon."""


@pytest.fixture
def ends() -> Iterator[list[HttpDaemon]]:
    made: list[HttpDaemon] = []
    yield made
    for daemon in made:
        if daemon.process.poll() is None:
            daemon.end()


@pytest.mark.tier("rest")
def test_through_kills(tmp_path: Path, ends: list[HttpDaemon]) -> None:
    pa, pb = free_port(), free_port()
    peers = f'[peers]\n"http://a:{pa}" = "127.0.0.1:{pa}"\n"http://b" = "127.0.0.1:{pb}"\n'
    names = 'http_names = ["b"]'
    a = HttpDaemon(tmp_path / "a", "A", pa, tables=peers)
    ends.append(a)
    b = HttpDaemon(tmp_path / "b", "B", pb, names, peers)
    ends.append(b)
    with onceq.connect(str(b.path)) as qm:
        qm.create_queue(LOCAL, transactional=True)
    sent: list[str] = []
    received: list[str] = []
    for turn in range(4):
        with onceq.connect(str(a.path)) as qm:
            for number in range(25):
                with qm.transaction() as tx:
                    tx.send("DIRECT=HTTP://b/msmq/private$/q", f"{turn}.{number}")
                sent.append(f"{turn}.{number}")
        victim = (a, b)[turn % 2]
        victim.end()
        victim.start()
        with onceq.connect(str(b.path)) as qm:
            received += all_of(qm, len(sent) - len(received))
    assert received == sent
    for daemon in (a, b):
        daemon.end(signal.SIGTERM)
        assert daemon.process.returncode == 0
        assert "Traceback" not in daemon.log()


def test_https_with_a_certificate(tmp_path: Path, ends: list[HttpDaemon]) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    ports = {"a": free_port(), "b": free_port()}
    tables = "[peers]\n" + "".join(
        f'"https://{n}.example:{p}" = "127.0.0.1:{p}"\n' for n, p in ports.items()
    )
    for name, port in ports.items():
        certificate = authority.issue_cert(f"{name}.example")
        certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / f"{name}.pem")
        more = (
            f'http_certificate = "{tmp_path}/{name}.pem"\nhttp_names = ["{name}.example:{port}"]\n'
            f'http_authorities = "{tmp_path}/ca.pem"\n'
        )
        ends.append(HttpDaemon(tmp_path / name, name.upper(), port, more, tables))
    a, b = ends
    name = f"DIRECT=HTTPS://b.example:{ports['b']}/msmq/private$/q"
    with onceq.connect(str(a.path)) as alpha, onceq.connect(str(b.path)) as beta:
        beta.create_queue(LOCAL, transactional=True)
        with alpha.transaction() as tx:
            tx.send_many(name, ["1", "2", "3"])
        assert all_of(beta, 3) == ["1", "2", "3"]
        with alpha.transaction() as tx:
            tx.send(name, "odd", label="\x01 <a>\r\n ", extension=b"more", trace=True)
        (odd,) = beta.receive_many(LOCAL, 1, timeout=WAIT_S)
        assert (odd.label, odd.extension, odd.trace) == ("\x01 <a>\r\n ", b"more", True)
        # A name that the certificate is not for is not trusted.
        wrong = f"DIRECT=HTTPS://a.example:{ports['b']}/msmq/private$/q"
        a.end()
        text = (a.path / "onceq.toml").read_text()
        line = f'"https://a.example:{ports["b"]}" = "127.0.0.1:{ports["b"]}"\n'
        (a.path / "onceq.toml").write_text(text.replace("[peers]\n", "[peers]\n" + line))
        a.start()
        with alpha.transaction() as tx:
            tx.send(wrong, "x")
        trouble = ""
        for _ in range(LOOKS_MAX):
            trouble = alpha.admin.outgoing_queue(wrong).trouble
            if trouble:
                break
        assert "its certificate cannot be trusted" in trouble


def test_faults_of_the_configuration(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "x").mkdir()
        for text, fault in (
            (f'http_listen = "127.0.0.1:{port}"', "in use"),
            ('http_listen = "127.0.0.1:0"\nhttp_certificate = "/nowhere"', "/nowhere"),
            ('http_key = "k"', "http_certificate"),
            ('http_receipts = "a"', "URL"),
            ('[redirections]\n"http://a/b" = "c"', "URL"),
            ("http_names = 3", "list"),
        ):
            (tmp_path / "x" / "onceq.toml").write_text(text)
            with pytest.raises(onceq.OnceqError, match=fault) as told:
                onceq.open(str(tmp_path / "x"), name="X", listen="", create=True)
            assert isinstance(told.value, ConfigurationError) or "in use" in fault
