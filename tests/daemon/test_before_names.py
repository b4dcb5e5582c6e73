"""What whoever comes may cost and learn before he has said who he is, at every door of a daemon.

All of it on loopback: to these daemons 127.0.0.1 is this computer, and every other address of
loopback another one (``as_far.py``).

Upholds: I24, I28.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.file_access import CONFIGURATION_FILE
from onceq.model import requests
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.limits import ADDRESS_HANDSHAKES_MAX, HANDSHAKE_BYTES_MAX, LOG_LINES_AT_ONCE
from onceq.model.tokens import SECRET_BYTES, text_of
from onceq.service.admission import budget
from onceq.sockets.both_ends import bound_to
from onceq.tls.contexts import APPLICATIONS, JOIN, PEERS, IdentityFiles, client_context
from onceq.tls.invitations import Invited, Invites
from onceq.wire.app import frames
from onceq.wire.app.frames import FrameCode
from tests.certificates import BETA, LONG_AGO_S, Authority
from tests.daemon.crowd import Q, goes_on
from tests.daemon.process import ROOT, WAIT_S, Process
from tests.proofs import asks, hello

pytestmark = pytest.mark.slow

FAR = "127.0.0.9"
FILES = 256
"""The limit of open files of a daemon whose descriptors are counted."""
AS_FAR = (str(ROOT / "tests" / "daemon" / "as_far.py"),)
LIMITED = f"""
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
sys.argv[0] = {AS_FAR[0]!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
HANDSHAKE, CLIENT_HELLO = 22, 1


@dataclass(frozen=True)
class Door:
    """One way in.

    Attributes:
        where: "host:port".
        tls: Context with which one comes in; None: plainly.
    """

    where: str
    tls: ssl.SSLContext | None = None

    def plain(self, source: str = FAR) -> socket.socket:
        """A connection on which nothing was said."""
        host, _, port = self.where.rpartition(":")
        return socket.create_connection((host, int(port)), WAIT_S, (source, 0))

    def inside(self, source: str = FAR, tls: ssl.SSLContext | None = None) -> socket.socket:
        """The same, behind the handshake if there is one."""
        made, context = self.plain(source), tls or self.tls
        return context.wrap_socket(made) if context is not None else made


def rest(own: socket.socket) -> bytes:
    """What the other side still says; it ends the connection, and says nothing of why in TLS."""
    said = b""
    try:
        while data := own.recv(1 << 16):
            said += data
    except ConnectionError:
        pass
    except ssl.SSLEOFError:
        pass
    return said


def heard(own: socket.socket, *data: bytes) -> bytes:
    """What one hears who says that."""
    with own:
        try:
            for piece in data:
                own.sendall(piece)
        except ConnectionError:
            pass
        return rest(own)


def unchecked(*protocols: str, shows: IdentityFiles | None = None) -> ssl.SSLContext:
    """A stranger's: it believes anybody, and has what it has."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.set_alpn_protocols(protocols)
    if shows is not None:
        made.load_cert_chain(shows.certificate, shows.key)
    return made


class House:
    """ALPHA, with every door and an identity; BETA is known to it and may send."""

    def __init__(self, path: Path, program: tuple[str, ...] = AS_FAR) -> None:
        self.path = path
        with (
            onceq.open(path / "alpha", name="ALPHA", create=True) as qm,
            onceq.open(path / "beta", name="BETA", create=True) as other,
        ):
            self.id, beta = qm.admin.status().id, other.admin.status().id
            qm.create_queue(Q, transactional=True)
            qm.rights.grant(f"peer:{beta}", "send", "*")
            self.token = qm.tokens.create("billing", grants={Q: "send"}).token
            self.gone = qm.tokens.create("gone").token
            qm.tokens.revoke("gone")
        self.signs = Authority()
        self.files = self.signs.identity(path / "alpha", guid_bytes(self.id), "ALPHA")
        self.beta = self.signs.identity(path / "beta", guid_bytes(beta), "BETA")
        (path / "alpha" / CONFIGURATION_FILE).write_text(
            f'client_listen = "127.0.0.1:0"\nhttp_listen = "127.0.0.1:0"\n'
            f'http_certificate = "{self.files.certificate}"\nhttp_key = "{self.files.key}"\n'
        )
        self.alpha = Process(
            path / "alpha", "--listen", "127.0.0.1:0", program=program
        ).started()  # fmt: skip
        peers, clients, http = (path / "alpha" / "onceq.port").read_text().split()
        self.peers = Door(peers, self.going())
        self.clients = Door(clients, unchecked(APPLICATIONS))
        self.http = Door(http, unchecked())
        self.running = [self.alpha]

    def going(self) -> ssl.SSLContext:
        """As BETA goes out."""
        return client_context(
            self.beta.authorities, certificate=self.beta.certificate, key=self.beta.key, peers=True
        )

    def start_beta(self) -> None:
        (self.path / "beta" / CONFIGURATION_FILE).write_text(
            "[settings]\nconnect_retry_s = 0.1\norder_ack_delay_s = 0.02\n"
        )
        self.running.append(
            Process(
                self.path / "beta", "--listen", "", "--peer", f"ALPHA={self.peers.where}"
            ).started()
        )

    def end(self) -> None:
        for one in self.running:
            assert one.end() == 0, one.said
            assert "Traceback" not in one.said


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.end()


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[list[Door]]:
    """The doors of one without an identity, which only this computer reaches."""
    process = Process(
        tmp_path / "bare", "--create", "BARE", "--listen", "127.0.0.1:0",
        "--client-listen", "127.0.0.1:0",
    ).started()  # fmt: skip
    yield [Door(where) for where in (process.path / "onceq.port").read_text().split()]
    assert process.end() == 0


# ---- time ---------------------------------------------------------------------------------------


def drip(own: socket.socket, data: bytes) -> bytes:
    """Say something, a byte whenever a while has passed, for ever."""
    own.settimeout(0.2)
    said, at = b"", 0
    with own:
        while True:
            try:
                more = own.recv(1 << 16)
            except TimeoutError:
                try:
                    own.sendall(data[at : at + 1])
                except ConnectionError:
                    return said
                at = min(at + 1, len(data) - 1)
                continue
            except (ConnectionError, ssl.SSLEOFError):
                return said
            if not more:
                return said
            said += more


def test_who_does_not_say_who_he_is_in_time_is_cut_at_every_door(
    house: House, bare: list[Door]
) -> None:
    """Silent, or slow for ever: before TLS, in the middle of it, and behind it."""
    hello = bytes([HANDSHAKE, 3, 1, 0x20, 0, CLIENT_HELLO, 0, 0x1F, 0xFC, 3, 3]) + bytes(400)
    post = b"POST /msmq/private$/q HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 1_000
    works: list[Callable[[], bytes]] = []
    for door in (house.peers, house.clients, house.http):
        works.append(lambda d=door: rest(d.plain()))  # type: ignore[misc]
        works.append(lambda d=door: drip(d.plain(), hello))  # type: ignore[misc]
        works.append(lambda d=door: rest(d.inside()))  # type: ignore[misc]
    packet, frame = b"\x10\x00LIOR" + bytes(600), frames.HEADER.pack(999, 1, 1, 0, 900)
    works.append(lambda: drip(house.peers.inside(), packet))
    works.append(lambda: drip(house.clients.inside(), frame))
    works.append(lambda: drip(house.http.inside(), post))
    for door, data in zip(bare, (packet, frame), strict=True):
        works.append(lambda d=door: rest(d.plain("127.0.0.1")))  # type: ignore[misc]
        works.append(lambda d=door, s=data: drip(d.plain("127.0.0.1"), s))  # type: ignore[misc]
    with ThreadPoolExecutor(len(works)) as pool:
        for work in [pool.submit(one) for one in works]:
            assert work.result(WAIT_S) == b"", "nothing is said to whoever says nothing"


def test_the_time_of_whoever_comes_to_join_is_no_longer(house: House) -> None:
    Invites(str(house.alpha.path / "tls")).make(Invited("C"), b"s" * 16, house.signs.now_s, 3_600)
    context = unchecked(JOIN)
    silent, slow = house.peers.inside(tls=context), house.peers.inside(tls=context)
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(rest, silent), pool.submit(drip, slow, b'{"want": "' + b"x" * 999)]
        assert [one.result(WAIT_S) for one in ends] == [b"", b""]


# ---- bytes --------------------------------------------------------------------------------------


def test_who_sends_much_and_does_not_say_who_he_is_is_cut_in_the_handshake_too(
    house: House,
) -> None:
    """A first message of TLS may be 128 KiB long, for the library."""
    size = 100_000
    hello = bytes([CLIENT_HELLO]) + size.to_bytes(3, "big") + b"\x03\x03" + bytes(size)
    records = [
        bytes([HANDSHAKE, 3, 1]) + len(part).to_bytes(2, "big") + part
        for part in (hello[at : at + 4_000] for at in range(0, 6 * 4_000, 4_000))
    ]
    assert sum(map(len, records)) > HANDSHAKE_BYTES_MAX
    for door in (house.peers, house.clients, house.http):
        assert heard(door.plain(), *records) == b""
    house.alpha.wait_to_say("it sent much and did not say who it is", 3)


# ---- how many -----------------------------------------------------------------------------------


def test_handshakes_that_do_not_end_take_nothing_from_those_who_are_known(tmp_path: Path) -> None:
    """From one address few are kept, from many addresses some: the store, the local socket and
    known queue managers go on, and the log says numbers."""
    house = House(tmp_path, ("-c", LIMITED))
    house.start_beta()
    hello = bytes([HANDSHAKE, 3, 1, 0x20, 0, CLIENT_HELLO, 0, 0x1F, 0xFC, 3, 3])
    crowd: list[socket.socket] = []

    def come(source: str) -> socket.socket:
        one = (house.peers, house.clients, house.http)[len(crowd) % 3].plain(source)
        crowd.append(one)
        one.sendall(hello)
        return one

    try:
        first = [come(FAR) for _ in range(ADDRESS_HANDSHAKES_MAX + 20)]
        for one in first[:20]:
            assert rest(one) == b"", "he has displaced himself"
        for host in range(20, 30):
            for _ in range(30):
                come(f"127.0.0.{host}")
        with (
            # How long it takes to be answered beside a crowd is the machine's matter.
            onceq.connect(str(house.alpha.path), timeout=WAIT_S) as here,
            onceq.connect(str(tmp_path / "beta"), timeout=WAIT_S) as there,
        ):
            goes_on(here, there)
    finally:
        for one in crowd:
            one.close()
        house.end()
    lines = [line for line in house.alpha.said.splitlines() if "connection turned away" in line]
    more = [line for line in lines if "more of these: count=" in line]
    assert more
    # Each of these ends an interval of one kind; behind the last of a kind there may be some more.
    kinds = {line.partition("kind=")[2].partition(" ")[0] for line in more}
    written = len(lines) - len(more)
    assert written <= LOG_LINES_AT_ONCE * (len(more) + len(kinds)), "a line for each is too many"
    counted = sum(int(line.partition("count=")[2].partition(" ")[0]) for line in more)
    most = budget(FILES, embedded=False).handshakes
    assert written + counted >= len(crowd) - most, "nobody is left out"


# ---- what is learnt -----------------------------------------------------------------------------


def test_a_stranger_hears_the_same_whatever_certificate_he_has(
    house: House, tmp_path: Path
) -> None:
    """Behind his own end of the handshake there comes nothing, not even why."""
    shown: dict[str, IdentityFiles | None] = {
        "none": None,
        "foreign": Authority("OTHER").identity(tmp_path / "x1", guid_bytes(house.id)),
        "expired": house.signs.identity(tmp_path / "x2", BETA, ago_s=LONG_AGO_S),
        "not yet": house.signs.identity(tmp_path / "x3", BETA, ago_s=-LONG_AGO_S),
    }
    establish = b"\x10\x00LIOR" + bytes(600)
    for what, files in shown.items():
        for protocols in ((PEERS,), (), ("h2",), (JOIN,)):
            context = unchecked(*protocols, shows=files)
            assert heard(house.peers.inside(tls=context), establish) == b"", what
    assert "session opened" not in house.alpha.said


def frame_of(code: FrameCode, head: object) -> bytes:
    return b"".join(map(bytes, frames.frame(1, code, head)))


def shown(own: socket.socket, token: str) -> bytes:
    """What one hears in the end who shows that token."""
    if not token:
        return heard(own, frame_of(FrameCode.HELLO, frames.Hello(frames.VERSION)))
    own.sendall(frame_of(FrameCode.PROVE, asks(token)))
    parser = frames.Parser()
    found: list[Any] = []
    while not found:
        found = list(parser.feed(own.recv(1 << 16)))
    ((_, code, head, _),) = found
    assert code == FrameCode.PROVE | frames.ANSWER
    known = frames.decode_head(head, frames.ProofAnswer)
    tls: Any = own if isinstance(own, ssl.SSLSocket) else None
    bound = bound_to(tls, own.getpeername())
    return heard(own, frame_of(FrameCode.HELLO, hello(token, known, bound)))


def test_an_application_that_proves_nothing_hears_the_same_whatever_there_is(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one answer: no token, one that never was, a wrong one of a name that
    there is, one that was revoked, and one of another form."""
    wrong = bytes(SECRET_BYTES)
    tokens = ("", text_of("never", wrong), text_of("billing", wrong), house.gone, "nonsense")
    said = {shown(house.clients.inside(), token) for token in tokens}
    assert len(said) == 1, said
    (only,) = said
    assert b"access denied" in only
    for secret in (house.id, "ALPHA", "billing"):
        assert secret.encode() not in only
    queue = b"".join(map(bytes, frames.frame(1, requests.Begin.code, frames.Hello(1))))
    assert b"a hello comes first" in heard(house.clients.inside(), queue)
    with onceq.connect(
        f"tls://{house.clients.where}", token=house.token, tls=onceq.Tls(house.files.authorities)
    ) as qm:
        qm.send(Q, "proven", transactional=True)


def posted(path: str, to: str, entity: bytes = b"<x/>") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: {to}\r\nContent-Type: text/xml\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(entity) + entity


def test_who_posts_without_a_certificate_hears_the_same_whatever_there_is(house: House) -> None:
    """And nothing of what he has posted is read."""
    requests = (
        posted("/msmq/private$/q", "alpha"),
        posted("/msmq/private$/nowhere", "alpha"),
        posted("/msmq/private$/q", "elsewhere"),
        posted("/msmq/private$/q", "alpha", b"x" * (HANDSHAKE_BYTES_MAX - 2_000)),
        posted("/msmq/private$/q", "alpha", b"\xff<!DOCTYPE"),
        b"GET / HTTP/1.1\r\nHost: alpha\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
    )
    said = {heard(house.http.inside(), request) for request in requests}
    assert len(said) == 1, said
    (only,) = said
    assert only.startswith(b"HTTP/1.1 400 ")
    assert only.endswith(b"access denied")
    assert heard(house.http.inside(), b"POST / HTTP/1.1\r\nX: " + b"x" * (1 << 20)) in (only, b"")
    large = posted("/msmq/private$/q", "alpha", bytes(4 << 20))
    assert heard(house.http.inside(), large) in (only, b""), "a large one may be cut off first"
    assert "session opened" not in house.alpha.said
    assert guid_text(guid_bytes(house.id)).encode() not in only
