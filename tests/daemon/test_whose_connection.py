"""Local accounts and web pages of a queue manager's own computer, against real daemons: none of
them becomes somebody by being there.

Upholds: I28.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq.embedded import trusting
from onceq.model import requests
from onceq.tls.contexts import APPLICATIONS
from onceq.wire.app import frames
from onceq.wire.app.frames import FrameCode, written
from tests.daemon.process import WAIT_S, Process

pytestmark = pytest.mark.slow

Q = r"private$\q"
RUNS = 20
"""How often the one that closes at once tries."""


@pytest.fixture(params=["without an identity", "with an identity"])
def alpha(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Process]:
    """Open for applications and for HTTP, on loopback."""
    path = tmp_path / "alpha"
    with onceq.open(path, name="ALPHA", create=True) as qm:
        qm.create_queue(Q)
    if request.param == "with an identity":
        trusting.init(str(path))
    (path / "onceq.toml").write_text(
        'listen = ""\nclient_listen = "127.0.0.1:0"\nhttp_listen = "127.0.0.1:0"\n'
    )
    process = Process(path).started()
    yield process
    assert process.end() == 0, process.said


def in_tls(own: socket.socket) -> socket.socket:
    """It believes anybody, and shows nothing."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.set_alpn_protocols([APPLICATIONS])
    return made.wrap_socket(own)


def _clients_at(alpha: Process) -> tuple[str, int]:
    host, _, port = alpha.ready.partition("onceq.sock and ")[2].partition(",")[0].rpartition(":")
    return host, int(port)


def test_one_that_closes_at_once_is_not_the_administrator(alpha: Process) -> None:
    """The system says of a connection whose process is gone that it is of account 0."""
    hello = frames.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION, "attack"))
    asked = written(2, requests.SetRights("account:games", ["administer"]))
    said = b"".join(map(bytes, (*hello, *asked)))
    tls = (alpha.path / "tls").exists()
    for _ in range(RUNS):
        own = socket.create_connection(_clients_at(alpha), WAIT_S)
        if tls:
            own = in_tls(own)
        own.sendall(said)
        own.close()
    with onceq.connect(str(alpha.path)) as admin:
        assert not [one for one in admin.rights.list() if "games" in one.who]
        assert not [act for act in admin.admin.trail() if act.what == "grant"]


def test_whoever_stays_is_nobody_also_as_root(alpha: Process) -> None:
    own = socket.create_connection(_clients_at(alpha), WAIT_S)
    if (alpha.path / "tls").exists():
        own = in_tls(own)
    with own:
        hello = frames.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION, "attack"))
        own.sendall(b"".join(map(bytes, hello)))
        heard = b""
        while data := own.recv(1 << 16):
            heard += data
    assert b"the requester has not said who it is" in heard


def test_with_an_identity_nobody_posts_from_this_computer(alpha: Process) -> None:
    host, _, port = alpha.ready.partition("HTTP on ")[2].partition(",")[0].rpartition(":")
    made = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)
    sure = (alpha.path / "tls").exists()
    try:
        made.request("POST", "/msmq/private$/q", b"anything", {"Content-Type": "text/xml"})
        answered = made.getresponse().status
    except (ConnectionError, http.client.HTTPException):
        answered = 0
    finally:
        made.close()
    assert (answered == 0) is sure
    # Its log is written a little behind what is done.
    while sure and "its address is not among plain_peers" not in alpha.said:
        pass
