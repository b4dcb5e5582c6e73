"""Identities that are wrong, on real daemons: each is said by its own words, and nothing is lost.

Certificates that are not believed, one that speaks for another GUID, clocks that are wrong, and
files that cannot be used, at the start and at a reload.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import onceq
from onceq.errors import AccessDenied
from onceq.model.identity import guid_bytes, guid_text
from onceq.model.settings import Settings
from onceq.tls import folder
from onceq.tls.contexts import IdentityFiles, client_context
from onceq.wire.mqqb.session import Session
from tests.certificates import BETA, LONG_AGO_S, Authority
from tests.daemon.mesh import CONFIGURATION, DENIED, Mesh, Q, received, send
from tests.daemon.process import WAIT_S, Process

pytestmark = pytest.mark.slow


# ---- certificates -------------------------------------------------------------------------------


def spoken(where: str, files: IdentityFiles, guid: bytes) -> bytes:
    """What one hears who shows a certificate, and says that he is the queue manager ``guid``."""
    context = client_context(
        files.authorities, certificate=files.certificate, key=files.key, peers=True
    )
    host, _, port = where.rpartition(":")
    said = b""
    session = Session(initiator=True, own_id=guid, settings=Settings(), now_us=0)
    session.start()
    with socket.create_connection((host, int(port)), WAIT_S) as plain:
        try:
            with context.wrap_socket(plain) as connection:
                connection.sendall(b"".join(map(bytes, session.take_output())))
                while data := connection.recv(1 << 16):
                    said += data
        except OSError:
            pass
    return said


def _own(path: Path, signs: Authority, guid: bytes) -> IdentityFiles:
    return signs.identity(path, guid)


def _foreign(path: Path, signs: Authority, guid: bytes) -> IdentityFiles:
    return Authority("OTHER").identity(path, guid, trusts=signs.certificate)


def _expired(path: Path, signs: Authority, guid: bytes) -> IdentityFiles:
    return signs.identity(path, guid, ago_s=LONG_AGO_S)


def _not_yet(path: Path, signs: Authority, guid: bytes) -> IdentityFiles:
    return signs.identity(path, guid, ago_s=-LONG_AGO_S)


def _by_itself(path: Path, signs: Authority, guid: bytes) -> IdentityFiles:
    files, own = signs.identity(path, guid), Authority("itself")
    Path(files.certificate).write_bytes(own.certificate)
    Path(files.key).write_bytes(own.key)
    return files


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (_foreign, "its certificate cannot be trusted: unable to get local issuer certificate"),
        (_expired, "certificate has expired (or a clock is wrong, here or there)"),
        (_not_yet, "certificate is not yet valid (or a clock is wrong, here or there)"),
        (_by_itself, "its certificate cannot be trusted: self-signed certificate"),
        (_own, "and its certificate is for"),
    ],
)
def test_who_is_not_believed_is_named_in_the_log_and_messages_wait(
    mesh: Mesh, made: Callable[[Path, Authority, bytes], IdentityFiles], says: str
) -> None:
    """The last one has a right certificate, and says another GUID: of the manager that it speaks
    to, of one that is believed there, and of nobody's."""
    signs = Authority()
    ids = {name: guid_bytes(mesh.shown(name)["id"]) for name in ("alpha", "beta")}
    signs.identity(mesh.path / "alpha", ids["alpha"], "ALPHA")
    alpha = mesh.start("alpha")
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        qm.rights.grant("peer:*", "send", "*")
    files = made(mesh.path / "beta", signs, BETA if made is _own else ids["beta"])
    for guid in (ids["alpha"], ids["beta"], b"L" * 16):
        assert spoken(alpha.peers_at, files, guid) == b"", "nothing is said to him"
    alpha.wait_to_say(says, 3)
    if made is _own:
        alpha.wait_to_say(guid_text(b"L" * 16))
    assert "session opened" not in alpha.said
    if made not in (_own, _by_itself):  # those are no identity of a queue manager that starts
        beta = mesh.start("beta", "--peer", f"ALPHA={alpha.peers_at}")
        send(mesh, "kept")
        beta.wait_to_say("peer not reached")
        assert beta.end() == 0
    signs.identity(mesh.path / "beta", ids["beta"], "BETA")
    mesh.start("beta", "--peer", f"ALPHA={alpha.peers_at}")
    if made in (_own, _by_itself):
        send(mesh, "kept")
    assert received(mesh) == "kept"


def test_a_clock_that_is_wrong_is_named_by_whoever_joins(mesh: Mesh) -> None:
    """Both ways: for the one who comes, the authority is from the future, or long over."""
    for ago_s, says in ((-LONG_AGO_S, "not yet valid"), (12 * 366 * 86_400, "has expired")):
        shutil.rmtree(mesh.path / "alpha" / "tls", ignore_errors=True)
        signs = Authority("ALPHA", ago_s=ago_s)
        own = mesh.path / "alpha" / "tls"
        signs.identity(mesh.path / "alpha", guid_bytes(mesh.shown("alpha")["id"]), "ALPHA")
        folder.write(str(own / folder.AUTHORITY), signs.certificate)
        folder.write(str(own / folder.AUTHORITY_KEY), signs.key)
        alpha = mesh.start("alpha")
        alpha.wait_to_say("nobody believes the certificate of this queue manager")
        said = mesh.tls("beta", "join", mesh.invited(), code=DENIED)
        assert says in said
        assert "or a clock is wrong" in said
        assert not mesh.shown("beta")["identity"]
        assert alpha.end() == 0


# ---- files --------------------------------------------------------------------------------------


def _emptied(name: Path) -> None:
    name.write_bytes(b"")


def _nonsense(name: Path) -> None:
    name.write_bytes(b"nonsense\n")


def _half(name: Path) -> None:
    name.write_bytes(name.read_bytes()[:-60])


def _a_folder(name: Path) -> None:
    name.unlink()
    name.mkdir()


def _missing(name: Path) -> None:
    name.unlink()


def _of_another(name: Path) -> None:
    one = Authority()
    made = dict(zip((folder.CERTIFICATE, folder.KEY), one.issue(BETA), strict=True))
    name.write_bytes(made[name.name])


def _for_all(name: Path) -> None:
    name.chmod(0o644)


FILES = (folder.AUTHORITIES, folder.KEY, folder.CERTIFICATE)
FAULTS = [
    *((which, fault) for which in FILES
      for fault in (_emptied, _nonsense, _half, _a_folder, _missing)),
    (folder.KEY, _of_another), (folder.CERTIFICATE, _of_another), (folder.KEY, _for_all),
]  # fmt: skip


def put(own: Path, good: dict[str, bytes]) -> None:
    """All files are as they were."""
    for which, data in good.items():
        if (own / which).is_dir():
            (own / which).rmdir()
        (own / which).write_bytes(data)
        (own / which).chmod(0o600)


def test_files_that_cannot_be_used_change_nothing_at_a_reload(mesh: Mesh) -> None:
    alpha, _ = mesh.joined()
    own = alpha.path / "tls"
    good = {which: (own / which).read_bytes() for which in FILES}
    for number, (which, fault) in enumerate(FAULTS):
        fault(own / which)
        said = mesh.cli("qm", "reload", "--qm", str(alpha.path), code=CONFIGURATION)
        assert f"tls/{which}" in said, (which, fault, said)
        send(mesh, f"number {number}")
        assert received(mesh) == f"number {number}"
        put(own, good)
    mesh.cli("qm", "reload", "--qm", str(alpha.path))
    send(mesh, "at last")
    assert received(mesh) == "at last"


def test_files_that_cannot_be_used_start_nothing_and_lose_nothing(mesh: Mesh) -> None:
    alpha, beta = mesh.joined()
    with onceq.connect(str(alpha.path)) as qm:
        qm.send(Q, "kept", transactional=True)
    send(mesh, "kept, too")
    while True:
        with onceq.connect(str(alpha.path)) as qm:
            if qm.queue(Q).messages == 2:
                break
    assert alpha.end() == 0
    own = alpha.path / "tls"
    good = {which: (own / which).read_bytes() for which in FILES}
    for which, fault in FAULTS:
        if (which, fault) == (folder.CERTIFICATE, _missing):
            continue  # then there is no identity
        fault(own / which)
        process = Process(alpha.path)
        assert process.ended() == CONFIGURATION, (which, fault)
        assert f"tls/{which}" in process.said.splitlines()[-1], (which, fault)
        assert "Traceback" not in process.said
        put(own, good)
    mesh.start("alpha", "--listen", alpha.peers_at)
    assert {received(mesh), received(mesh)} == {"kept", "kept, too"}
    assert beta.end() == 0


# ---- rights that go while a transaction is open -------------------------------------------------


def test_a_right_that_goes_while_a_transaction_is_open_is_judged_at_its_commit(mesh: Mesh) -> None:
    alpha = mesh.start("alpha", "--client-listen", "127.0.0.1:0")
    tcp = "onceq://" + alpha.ready.rpartition(" ")[2]
    other = r"private$\other"
    with onceq.connect(str(alpha.path)) as admin:
        for queue in (Q, other):
            admin.create_queue(queue, transactional=True)
        admin.send(Q, "stays", transactional=True)
        token = admin.tokens.create("billing", grants={Q: "receive", other: "send"}).token
        with onceq.connect(tcp, token=token) as qm:
            for who, right, queue in (
                ("token:billing", "send", other), ("token:billing", "receive", Q),
            ):  # fmt: skip
                tx = qm.transaction()
                assert tx.receive(Q, timeout=WAIT_S).text == "stays"
                tx.send(other, "never")
                admin.rights.revoke(who, right, queue)
                with pytest.raises(onceq.OnceqError) as caught:
                    tx.commit()
                assert "access-denied" in str(caught.value) or isinstance(
                    caught.value, AccessDenied
                )
                assert right in str(caught.value)
                admin.rights.grant(who, right, queue)
                assert admin.queue(other).messages == 0
                assert admin.queue(Q).messages == 1
            # A right that went and came back in time is there at the commit.
            with qm.transaction() as tx:
                tx.send(other, "for once")
                admin.rights.revoke("token:billing", "send", other)
                admin.rights.grant("token:billing", "send", other)
            assert admin.receive(other, timeout=WAIT_S).text == "for once"
