"""What an application shows, where it was found, and where it is not shown."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onceq import aio
from onceq.client.address import ManagerAddress, parse
from onceq.client.async_link import AsyncLink
from onceq.client.credentials import (
    AUTHORITIES,
    CERTIFICATE,
    KEY,
    TOKEN,
    TOKEN_FILE,
    Credentials,
    Tls,
)
from onceq.client.opening import connect
from onceq.client.socket_link import SocketLink
from onceq.errors import (
    AccessDenied,
    ConfigurationError,
    MalformedPacket,
    ManagerAway,
    OnceqError,
    UnknownVersion,
    WrongAddress,
)
from onceq.model.tokens import NONCE_BYTES, SECRET_BYTES, text_of
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, FrameCode
from tests.proofs import Knowing, token_of
from tests.unit.client.scripted import WAIT_S, Scripted, begun
from tests.unit.client.tls_door import Authority, Door

SHOWN = text_of("billing", bytes(range(SECRET_BYTES)))
OTHER = text_of("other", bytes(SECRET_BYTES))
SOCKET = ManagerAddress(path="/run/a.sock")
PLAIN, SECURE = ManagerAddress(host="far", port=1), ManagerAddress(host="far", port=1, tls=True)


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOKEN, TOKEN_FILE, AUTHORITIES, CERTIFICATE, KEY):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "token"
    made.write_text(SHOWN + "\n")
    made.chmod(0o600)
    return made


def shown(credentials: Credentials, address: ManagerAddress = SOCKET, peer: str = "") -> str:
    return token_of(credentials.greeting(address, peer))


# ---- where it is found ------------------------------------------------------------------------


def test_what_the_programme_says_goes_before_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(Credentials()) == ""
    monkeypatch.setenv(TOKEN_FILE, str(file))
    assert shown(Credentials()) == SHOWN
    monkeypatch.delenv(TOKEN_FILE)
    monkeypatch.setenv(TOKEN, f" {OTHER}\n")
    assert shown(Credentials()) == OTHER
    assert shown(Credentials(token=SHOWN)) == SHOWN
    assert shown(Credentials(token_file=file)) == SHOWN
    assert shown(Credentials(token="")) == "", "it wants to be nobody in particular"


def test_a_file_is_read_anew_for_each_connection(file: Path) -> None:
    credentials = Credentials(token_file=file)
    assert shown(credentials) == SHOWN
    file.write_text(OTHER)
    assert shown(credentials) == OTHER


def test_two_things_said_at_once_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="not both"):
        Credentials(token=SHOWN, token_file=file)
    monkeypatch.setenv(TOKEN, SHOWN)
    monkeypatch.setenv(TOKEN_FILE, str(file))
    with pytest.raises(ConfigurationError, match="unset one"):
        shown(Credentials())


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o602, 0o601, 0o666])
def test_a_file_that_others_can_read_or_change_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(AccessDenied, match=f"chmod 600 {file}") as caught:
        shown(Credentials(token_file=file))
    assert SHOWN not in str(caught.value)


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o640])
def test_a_group_may_read_it_as_mounted_secrets_are(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert shown(Credentials(token_file=file)) == SHOWN


def _directory(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def _text(text: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_text(text)
        path.chmod(0o600)

    return make


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "cannot be read: no such file"),
        (_directory, "no plain file|is a directory"),
        (_pipe, "no plain file"),
        (_text(""), "is none"),
        (_text("se" + "cret" * 500_000), "is none"),
        (_text(f"{SHOWN} {SHOWN}"), "has its token first"),
        (_text("\u00e9" * 20), "is none"),
    ],
    ids=["missing", "directory", "pipe", "empty", "huge", "two", "letters"],
)
def test_what_holds_no_token_is_named_and_not_repeated(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "token"
    make(path)
    with pytest.raises(ConfigurationError, match=words) as caught:
        shown(Credentials(token_file=path))
    assert str(path) in str(caught.value)
    assert "secret" not in str(caught.value)
    assert SHOWN not in str(caught.value)


def test_what_is_no_token_is_refused_at_once_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigurationError, match="begins with onceqt_") as caught:
        Credentials(token="hunter2")
    assert "hunter2" not in str(caught.value)
    monkeypatch.setenv(TOKEN, "hunter2")
    with pytest.raises(ConfigurationError, match=TOKEN) as caught:
        shown(Credentials())
    assert "hunter2" not in str(caught.value)


# ---- where it is shown ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (SOCKET, ""),
        (SECURE, "10.1.1.1"),
        (PLAIN, "127.0.0.1"),
        (PLAIN, "::1"),
        (PLAIN, "127.9.9.9"),
    ],
)
def test_it_is_shown_where_nobody_can_read_it(address: ManagerAddress, peer: str) -> None:
    assert shown(Credentials(token=SHOWN), address, peer) == SHOWN


@pytest.mark.parametrize("peer", ["10.1.1.1", "fe80::1%eth0", "::ffff:10.1.1.1", "", "far"])
def test_it_is_not_shown_where_others_can(peer: str) -> None:
    with pytest.raises(ConfigurationError, match="tls://host:port") as caught:
        shown(Credentials(token=SHOWN), PLAIN, peer)
    assert SHOWN not in str(caught.value)
    assert shown(Credentials(), PLAIN, peer) == "", "without one there is nothing to hide"


def test_who_always_shows_a_token_is_connected_nowhere_without(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("far:1 -\nnear:1 " + SHOWN + "\n")
    file.chmod(0o600)
    role = Credentials(token_file=file, always=True)
    assert role.greeting(ManagerAddress(host="near", port=1, tls=True), "10.1.1.1").first
    with pytest.raises(ConfigurationError, match="no token is for onceq://far:1"):
        role.greeting(PLAIN, "127.0.0.1")
    assert Credentials(token_file=file).greeting(PLAIN, "127.0.0.1").first


def test_no_text_of_ours_has_it(file: Path) -> None:
    for credentials in (Credentials(token=SHOWN), Credentials(token_file=file)):
        hello = credentials.greeting(SOCKET, "")
        for one in (credentials, hello, hello.first, hello._found):
            assert SHOWN not in repr(one)
            assert SHOWN not in str(one)


# ---- what is answered -------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Scripted]:
    with Scripted(tmp_path) as made:
        yield made


def by_both(
    server: Scripted, answer: Callable[[int], None], credentials: Credentials
) -> list[OnceqError]:
    """What threads and tasks raise when a hello is answered so."""

    def work() -> None:
        for _ in range(2):
            server.accept()
            answer(server.read()[0])

    answering = begun(work)
    found: list[OnceqError] = []
    for kind in (by_thread, by_task):
        with pytest.raises(OnceqError) as caught:
            kind(server.address, credentials)
        found.append(caught.value)
    answering.result(WAIT_S)
    return found


def by_thread(address: ManagerAddress, credentials: Credentials) -> None:
    SocketLink(address, WAIT_S, credentials=credentials)


def by_task(address: ManagerAddress, credentials: Credentials) -> None:
    asyncio.run(AsyncLink.connect(address, WAIT_S, credentials=credentials))


def proven(server: Scripted, text: str) -> int:
    """Whoever has connected has that token, and was told that this is who has made it; the number
    of its hello."""
    request, code, asked, _ = server.read()
    assert code == FrameCode.PROVE
    knowing = Knowing(text, asked)
    server.write(request, code | ANSWER, knowing.answer)
    request, code, head, _ = server.read()
    assert (code, head.version, head.program) == (FrameCode.HELLO, frames.VERSION, "onceq")
    assert knowing.proven(head)
    return request


def test_a_token_is_proven_before_the_hello(server: Scripted) -> None:
    def work() -> None:
        for _ in range(2):
            server.accept()
            welcome = frames.Welcome(frames.VERSION, "A", bytes(16), 0)
            server.write(proven(server, SHOWN), FrameCode.HELLO | ANSWER, welcome)

    answering = begun(work)
    for kind in (by_thread, by_task):
        kind(server.address, Credentials(token=SHOWN))
    answering.result(WAIT_S)


@pytest.mark.parametrize("what", ["another token", "another connection", "nothing"])
def test_who_does_not_know_a_token_is_not_told_it(server: Scripted, what: str) -> None:
    """All that is said to it is the name, and a number that was drawn."""
    heard: list[bytes] = []

    def work() -> None:
        for _ in range(2):
            server.accept()
            request, code, asked, _ = server.read()
            assert (asked.token, len(asked.nonce)) == ("billing", NONCE_BYTES)
            other = text_of("billing", bytes(SECRET_BYTES))
            knowing = {
                "another token": Knowing(other, asked),
                "another connection": Knowing(SHOWN, asked, b"tcp"),
            }.get(what)
            known = knowing.answer if knowing else frames.ProofAnswer(b"", b"", b"")
            server.write(request, code | ANSWER, known)
            assert server.peer is not None
            heard.append(server.peer.recv(1 << 16))

    answering = begun(work)
    for kind in (by_thread, by_task):
        with pytest.raises(AccessDenied, match=r"was not told, .*: it is wrong, was revoked"):
            kind(server.address, Credentials(token=SHOWN))
    answering.result(WAIT_S)
    assert heard == [b"", b""]


def test_an_answer_to_what_was_not_asked_is_none(server: Scripted) -> None:
    """Who greets a token that it has not proven to know is not believed; nor is who wants one
    proven that was not shown."""

    def welcome(request: int) -> None:
        said = frames.Welcome(frames.VERSION, "A", bytes(16), 0)
        server.write(request, FrameCode.HELLO | ANSWER, said)

    def known(request: int) -> None:
        server.write(request, FrameCode.PROVE | ANSWER, frames.ProofAnswer(b"", b"", b""))

    for answer, shows in ((welcome, Credentials(token=SHOWN)), (known, Credentials())):
        for error in by_both(server, answer, shows):
            assert "answers what was not asked" in error.text


def test_one_that_is_not_taken_is_named_by_its_place(server: Scripted, file: Path) -> None:
    def refuse(request: int) -> None:
        server.fail(0, "access-denied", "access denied: whoever asks ...")

    for error in by_both(server, refuse, Credentials(token_file=file)):
        assert type(error) is AccessDenied
        assert f"the token in {file}" in error.text
        assert "was revoked, or has expired" in error.text
        assert SHOWN not in error.text


def test_who_shows_nothing_hears_what_he_could_show(server: Scripted) -> None:
    def refuse(request: int) -> None:
        server.fail(0, "access-denied", "access denied: whoever asks ...")

    for error in by_both(server, refuse, Credentials()):
        assert type(error) is AccessDenied
        assert TOKEN_FILE in error.text
        assert CERTIFICATE in error.text


def test_other_refusals_are_as_they_are(server: Scripted) -> None:
    def refuse(request: int) -> None:
        server.fail(0, "service-not-available", "too many wrong tokens")

    for error in by_both(server, refuse, Credentials(token=SHOWN)):
        assert type(error) is ManagerAway
        assert error.text == "too many wrong tokens"


def test_a_manager_that_wants_the_token_itself_is_not_told_it(server: Scripted) -> None:
    """Versions before this one know no proof, and refuse it as a first frame that is no hello."""

    def refuse(request: int) -> None:
        server.fail(0, "malformed-packet", "a hello comes first, and once")

    for error in by_both(server, refuse, Credentials(token=SHOWN)):
        assert type(error) is UnknownVersion
        assert "was not told the token that was given" in error.text
    for error in by_both(server, refuse, Credentials()):
        assert type(error) is MalformedPacket


# ---- TLS ----------------------------------------------------------------------------------------


def test_addresses_in_tls_are_read() -> None:
    assert parse("tls://host:1802/") == ManagerAddress(host="host", port=1802, tls=True)
    assert str(parse("tls://[::1]:1802")) == "tls://::1:1802"
    with pytest.raises(ConfigurationError, match="neither a directory nor an address"):
        parse("tls://host")


def test_a_certificate_and_its_authority_come_from_the_environment(
    tmp_path: Path, server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    door = Door(server.address.path, authority.server("127.0.0.1"))
    monkeypatch.setenv(AUTHORITIES, authority.file)
    monkeypatch.setenv(CERTIFICATE, authority.issue("app.example", common_name="billing"))
    greeting = begun(server.greet)
    with connect(str(door.address), timeout=WAIT_S) as qm:
        assert qm.name == "ALPHA"
    greeting.result(WAIT_S)
    (certificate,) = door.shown
    assert "billing" in str(certificate)
    door.close()


def test_a_server_that_is_not_believed_hears_nothing(tmp_path: Path, server: Scripted) -> None:
    (tmp_path / "o").mkdir()
    other = Authority(tmp_path / "o")
    authority = Authority(tmp_path)
    door = Door(server.address.path, authority.server("127.0.0.1"))
    for kind in (by_thread, by_task):
        with pytest.raises(WrongAddress, match=f"does not prove .* {AUTHORITIES}") as caught:
            kind(door.address, Credentials(token=SHOWN, tls=Tls(other.file)))
        assert SHOWN not in str(caught.value)
    assert not door.shown
    door.close()


def test_a_port_that_speaks_no_tls_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def talk() -> None:
            for _ in range(2):
                peer, _ = listening.accept()
                peer.recv(1 << 16)
                peer.sendall(b"".join(frames.frame(0, FAILED, frames.Failure("x", "y"))))
                peer.close()

        talking = begun(talk)
        address = ManagerAddress(host="127.0.0.1", port=listening.getsockname()[1], tls=True)
        for kind in (by_thread, by_task):
            with pytest.raises(WrongAddress, match="may speak no TLS"):
                kind(address, Credentials(token=SHOWN))
        talking.result(WAIT_S)


def test_one_that_speaks_something_else_in_tls_is_not_talked_to(
    tmp_path: Path, server: Scripted
) -> None:
    authority = Authority(tmp_path)
    context = authority.server("127.0.0.1")
    context.set_alpn_protocols(["h2"])
    door = Door(server.address.path, context)
    for kind in (by_thread, by_task):
        with pytest.raises(WrongAddress, match="speaks TLS, but not as a queue manager"):
            kind(door.address, Credentials(token=SHOWN, tls=authority.client()))
    door.close()


def test_a_file_that_is_missing_is_named_before_anybody_is_connected_to(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    nowhere = ManagerAddress(host="127.0.0.1", port=1, tls=True)
    for tls in (Tls(missing), Tls("", missing)):
        for kind in (by_thread, by_task):
            with pytest.raises(ConfigurationError, match=r"none\.pem"):
                kind(nowhere, Credentials(tls=tls))


def test_connecting_takes_them_for_threads_and_for_tasks(server: Scripted, file: Path) -> None:
    def greet() -> None:
        for token in (SHOWN, OTHER):
            server.accept()
            request = proven(server, token)
            welcome = frames.Welcome(frames.VERSION, "A", bytes(16), 0)
            server.write(request, FrameCode.HELLO | ANSWER, welcome)

    greeting = begun(greet)
    with connect(server.address.path, token_file=file) as qm:
        assert SHOWN not in repr(qm)

    async def work() -> None:
        async with await aio.connect(server.address.path, token=OTHER) as other:
            assert OTHER not in repr(other)

    asyncio.run(work())
    greeting.result(WAIT_S)
