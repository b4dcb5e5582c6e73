"""Answers of a real daemon go where the sender of a message is, and nowhere else (finding S13)."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from tests.daemon.http_daemon import LOCAL, WAIT_S, HttpDaemon
from tests.servers import free_port

pytestmark = pytest.mark.slow

SENDER = "127.0.0.2"
"""A plain host, as Windows is one: an operator has named its address."""
ENVELOPE = (
    '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/"'
    ' xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>'
    '<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1">'
    "<action>MSMQ:x</action><to>http://{host}/msmq/private$/q</to>"
    "<id>uuid:{number}@11111111-2222-3333-4444-555555555555</id></path>"
    '<properties se:mustUnderstand="1"><expiresAt>20380119T031407</expiresAt>'
    "<sentAt>20260101T000000</sentAt></properties>"
    '<services se:mustUnderstand="1"><deliveryReceiptRequest><sendTo>{back}</sendTo>'
    "</deliveryReceiptRequest></services></se:Header><se:Body></se:Body></se:Envelope>"
)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[HttpDaemon]:
    port = free_port()
    more = f'plain_peers = ["{SENDER}"]\nhttp_names = ["127.0.0.1:{port}"]'
    made = HttpDaemon(tmp_path / "a", "A", port, more)
    with onceq.connect(str(made.path)) as qm:
        qm.create_queue(LOCAL)
        qm.grant(f"address:{SENDER}", ["send"], LOCAL)
    yield made
    made.end(signal.SIGTERM)


def post(daemon: HttpDaemon, number: int, back: str) -> bytes:
    """A message from the plain host, which wants its receipt at a URL; the answer to it."""
    host = f"127.0.0.1:{daemon.port}"
    entity = ENVELOPE.format(host=host, number=number, back=back).encode()
    head = (
        f"POST /msmq/private$/q HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/xml\r\n"
        f'SOAPAction: "MSMQMessage"\r\nContent-Length: {len(entity)}\r\n\r\n'
    )
    with socket.create_connection(
        ("127.0.0.1", daemon.port), timeout=WAIT_S, source_address=(SENDER, 0)
    ) as line:
        line.sendall(head.encode() + entity)
        return line.recv(1 << 16)


def test_receipts_of_a_plain_host_go_to_its_own_address(daemon: HttpDaemon) -> None:
    """Two servers wait: one where the sender is, and one of somebody else of this computer."""
    with socket.create_server(("127.0.0.1", 0)) as victim, socket.create_server((SENDER, 0)) as own:
        own.settimeout(WAIT_S)
        elsewhere, home = victim.getsockname()[1], own.getsockname()[1]
        spelled = ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1")
        for number, host in enumerate(spelled, 1):
            answer = post(daemon, number, f"http://{host}:{elsewhere}/msmq/private$/admin")
            assert answer.startswith(b"HTTP/1.1 200 "), "the message is taken"
        assert post(daemon, 99, f"http://{SENDER}:{home}/msmq/private$/admin").startswith(
            b"HTTP/1.1 200 "
        )
        line, _ = own.accept()
        with line:
            line.settimeout(WAIT_S)
            said = line.recv(1 << 16)
            assert b"POST /msmq/private$/admin HTTP/1.1" in said
            line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        # The one that was asked for last was sent; those before it never were.
        victim.settimeout(0)
        with pytest.raises(BlockingIOError):
            victim.accept()
    with onceq.connect(str(daemon.path)) as qm:
        (counted,) = [n for what, n in qm.status().disbelieved.items() if "answers" in what]
        assert counted == len(spelled) - 1, "localhost is a name: it is judged by its address"
        assert qm.queue(LOCAL).messages == len(spelled) + 1
    assert "answers are not sent" in daemon.log()


def test_a_name_that_leads_to_this_computer_is_judged_when_it_is_connected_to(
    daemon: HttpDaemon,
) -> None:
    """A name whose meaning changes (DNS rebinding) is judged by what it means then. The name here
    is of the address book, in which nobody has written it for the sender."""
    daemon.end(signal.SIGTERM)
    with socket.create_server(("127.0.0.1", 0)) as victim:
        port = victim.getsockname()[1]
        text = (daemon.path / "onceq.toml").read_text()
        book = f'[peers]\n"http://far.example:{port}" = "127.0.0.1:{port}"\n'
        (daemon.path / "onceq.toml").write_text(text.replace("[settings]", book + "[settings]"))
        daemon.start()
        answer = post(daemon, 1, f"http://far.example:{port}/msmq/private$/admin")
        assert answer.startswith(b"HTTP/1.1 200 ")
        with onceq.connect(str(daemon.path)) as qm:
            for _ in range(1_000):
                (waits,) = qm.outgoing()
                if "go home" in waits.trouble:
                    break
            assert "127.0.0.1 is not where the sender is" in waits.trouble
        victim.settimeout(0)
        with pytest.raises(BlockingIOError):
            victim.accept()
