"""Answers of a real daemon go where the sender of a message is, and nowhere else (finding S13)."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import onceq
from tests.daemon.http_daemon import LOCAL, WAIT_S, HttpDaemon
from tests.daemon.process import Process
from tests.matrix.speaker import Answering, Speaker, message
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
        qm.rights.grant(f"address:{SENDER}", ["send"], LOCAL)
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
        (counted,) = [n for what, n in qm.admin.status().disbelieved.items() if "answers" in what]
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
                (waits,) = qm.admin.outgoing()
                if "go home" in waits.trouble:
                    break
            assert "127.0.0.1 is not where the sender is" in waits.trouble
        victim.settimeout(0)
        with pytest.raises(BlockingIOError):
            victim.accept()


# ---- over MS-MQQB ------------------------------------------------------------------------------

GUID = b"the plain host 1"
ORDERS = r"OS:ALPHA\private$\q"


def until(true: Callable[[], bool]) -> None:
    """Look again and again, for as long as a busy machine may take."""
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end, "it does not come"


class Windows:
    """The plain host: it sends to ALPHA, and listens at its own address."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "alpha"
        self.home = Answering(GUID, None, address=SENDER, stays=True)
        self.home.start()
        with onceq.open(str(self.path), name="ALPHA", create=True) as qm:
            qm.create_queue(LOCAL)
            qm.rights.grant(f"address:{SENDER}", ["send"], LOCAL)
        self.leads(self.home.where)
        self.alpha = Process(self.path).started()
        self.numbers = 0
        self.session = self.begin()

    def leads(self, where: str) -> None:
        """The name of the host, and its address, lead to a place."""
        (self.path / "onceq.toml").write_text(
            f'listen = "127.0.0.1:0"\nplain_peers = ["{SENDER}"]\n'
            f'[peers]\nWINHOST = "{where}"\n"{SENDER}" = "{self.home.where}"\n'
            "[settings]\nconnect_retry_s = 0.1\norder_ack_delay_s = 0.02\n"
        )

    def begin(self) -> Speaker:
        """A session with ALPHA."""
        host, _, port = self.alpha.peers_at.rpartition(":")
        made = Speaker(socket.create_connection((host, int(port)), WAIT_S, (SENDER, 0)), GUID)
        assert made.opened()
        return made

    def send(self, admin: str) -> None:
        """A message that wants to be acknowledged at a queue."""
        self.numbers += 1
        packet = message(GUID, ORDERS, message=self.numbers, admin=admin)
        assert self.session.send(packet, recoverable=True)

    def acknowledged(self) -> None:
        """Wait until an acknowledgment has come home."""
        with onceq.connect(str(self.path)) as qm:
            until(lambda: bool(self.home.given) or not qm.admin.status())

    def close(self) -> None:
        self.session.close()
        self.alpha.end(signal.SIGKILL)
        self.home.close()


@pytest.fixture
def windows(tmp_path: Path) -> Iterator[Windows]:
    made = Windows(tmp_path)
    yield made
    made.close()


def test_acknowledgments_go_to_the_address_of_their_sender(windows: Windows) -> None:
    spelled = ("127.0.0.1", "127.0.0.3", "169.254.169.254")
    for host in spelled:
        windows.send(rf"TCP:{host}\private$\a")
    with onceq.connect(str(windows.path)) as qm:
        (counted,) = [n for what, n in qm.admin.status().disbelieved.items() if "answers" in what]
        assert counted == len(spelled)
        assert not qm.admin.outgoing(), "nobody is connected to for them"
        windows.send(rf"TCP:{SENDER}\private$\a")
        windows.acknowledged()
        assert qm.queue(LOCAL).messages == len(spelled) + 1


def test_after_a_restart_acknowledgments_go_home_still(windows: Windows) -> None:
    """Where they may go stands with the message, and not in the session that has brought it."""
    windows.leads("127.0.0.1:9")
    with onceq.connect(str(windows.path)) as qm:
        qm.admin.reload()
        windows.send(r"OS:WINHOST\private$\a")
        until(lambda: qm.queue(LOCAL).messages == 1)
    windows.alpha.end(signal.SIGKILL)
    with socket.create_server(("127.0.0.1", 0)) as victim:
        windows.leads(f"127.0.0.1:{victim.getsockname()[1]}")
        windows.alpha = Process(windows.path).started()
        with onceq.connect(str(windows.path)) as qm:
            until(lambda: any("go home" in one.trouble for one in qm.admin.outgoing()))
            assert not windows.home.given
            victim.settimeout(0)
            with pytest.raises(BlockingIOError):
                victim.accept()
            windows.leads(windows.home.where)
            qm.admin.reload()
            windows.acknowledged()
