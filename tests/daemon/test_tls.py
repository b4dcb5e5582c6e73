"""TLS between real daemons: set up by the commands, attacked, renewed while they run."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.errors import ReceiveTimeout
from onceq.model.identity import guid_bytes
from onceq.model.resultcodes import MessageClass
from onceq.tls import folder
from onceq.tls.contexts import PEERS, client_context
from onceq.tls.invitations import InvitationCode
from tests.certificates import BETA, LONG_AGO_S, Authority
from tests.daemon.mesh import AWAY, CONFIGURATION, DENIED, THERE, WRONG, Mesh, Q, received, send
from tests.daemon.process import WAIT_S, Process
from tests.daemon.tap import Tap

pytestmark = pytest.mark.slow

DEADXACT, DEADLETTER = r"DIRECT=OS:.\SYSTEM$;DEADXACT", r"DIRECT=OS:.\SYSTEM$;DEADLETTER"
EXPRESS = r"private$\express-queue"
SECRETS = {
    "a queue": "express-queue",
    "a label": "a label for nobody else",
    "the computers": "ALPHA",
    "a body sent before": "what nobody may read",
    "a body sent after a cut": "nor may anybody read this",
}
"""What must not be seen on the way."""
HEADER = re.compile(rb"\x10[\s\S]{3}LIOR")
"""How a packet of MS-MQQB begins: version, two bytes of its own, signature."""


def seen(heard: bytes) -> set[str]:
    """What can be read in bytes, in the encoding of the protocol or in that of a text."""
    found = {
        name
        for name, text in SECRETS.items()
        if text.encode("utf-16-le") in heard or text.encode() in heard
    }
    return found | ({"the protocol"} if HEADER.search(heard) else set())


def tapped(mesh: Mesh, *, tls: bool) -> dict[str, Tap]:
    """Both run, each reaches the other one through a tap, and may send to him."""
    to_alpha, to_beta = Tap(), Tap()
    if tls:
        mesh.tls("alpha", "init")
    alpha = mesh.start("alpha", "--peer", f"BETA={to_beta.where}")
    if tls:
        mesh.tls("beta", "join", mesh.invited())
    beta = mesh.start("beta", "--peer", f"ALPHA={to_alpha.where}")
    to_alpha.aim(alpha.peers_at)
    to_beta.aim(beta.peers_at)
    for name, other in (("alpha", "beta"), ("beta", "alpha")):
        with onceq.connect(str(mesh.path / name)) as qm:
            qm.create_queue(Q, transactional=True)
            qm.create_queue(EXPRESS, transactional=False)
            if tls:
                qm.rights.grant(f"peer:{mesh.shown(other)['id']}", "send", "*")
            assert qm.admin.status().tls is tls
    return {"alpha": to_beta, "beta": to_alpha}


def exchanged(mesh: Mesh, text: str) -> None:
    """Each sends the other one a text, once in each way, and takes what it was sent."""
    alpha, beta = (onceq.connect(str(mesh.path / name)) for name in ("alpha", "beta"))
    label = SECRETS["a label"]
    with alpha, beta:
        for sender, receiver, name in ((alpha, beta, "BETA"), (beta, alpha, "ALPHA")):
            there = f"DIRECT=OS:{name}\\"
            with sender.transaction() as tx:
                tx.send(there + Q, text, label=label)
                tx.send(there + Q, text.encode())
            assert receiver.receive(Q, timeout=WAIT_S).text == text
            assert receiver.receive(Q, timeout=WAIT_S).body == text.encode()
            # Not before, because after a cut it could be lost, as express messages may.
            sender.send(there + EXPRESS, text, label=label, delivery="express")
            assert receiver.receive(EXPRESS, timeout=WAIT_S).text == text


@pytest.mark.parametrize("tls", [True, False])
def test_two_commands_and_no_byte_of_a_message_can_be_read_between(mesh: Mesh, tls: bool) -> None:
    """Without TLS the same look at the wire sees all of it: else this would find nothing."""
    taps = tapped(mesh, tls=tls)
    exchanged(mesh, SECRETS["a body sent before"])
    before = {name: tap.connections for name, tap in taps.items()}
    for tap in taps.values():
        tap.cut()
    exchanged(mesh, SECRETS["a body sent after a cut"])
    assert sum(tap.connections for tap in taps.values()) > sum(before.values())
    heard = b"".join(bytes(tap.heard) for tap in taps.values())
    assert seen(heard) == (set() if tls else {*SECRETS, "the protocol"})
    for tap in taps.values():
        assert len(tap.heard) > 1_000
        tap.close()


def test_a_code_is_used_once_and_says_by_whom(mesh: Mesh) -> None:
    mesh.tls("alpha", "init")
    mesh.start("alpha")
    code = mesh.invited("the-first")
    assert "the-first" not in mesh.tls("alpha", "show")
    mesh.tls("beta", "join", code)
    said = mesh.tls("beta", "join", code, code=DENIED)
    assert "used already" in said
    assert "the-first" in mesh.tls("alpha", "show")
    assert "used already" not in mesh.tls("beta", "show"), "what was there before still is"


def test_what_is_wrong_with_a_code_is_told(mesh: Mesh, tmp_path: Path) -> None:
    assert "no authority of its own" in mesh.tls("alpha", "invite", "BETA", code=CONFIGURATION)
    mesh.tls("alpha", "init")
    alpha = mesh.start("alpha")
    code = InvitationCode.parse(mesh.invited())
    for change, says in (
        ({"expires_s": 1}, "has expired"),
        ({"fingerprint": b"x" * 32}, "another authority than the invitation says"),
        ({"guid": BETA}, "another queue manager than"),
        ({"secret": b"x" * 16}, "no such invitation"),
        ({"address": "127.0.0.1:1"}, "cannot be reached"),
    ):
        said = {name: getattr(code, name) for name in InvitationCode.__slots__} | change
        found = mesh.tls(
            "beta", "join", str(InvitationCode(**said)), code=AWAY if "reached" in says else DENIED
        )
        assert says in found
    assert "a part of one" in mesh.tls("beta", "join", str(code)[:-4], code=WRONG)
    assert not mesh.shown("beta")["identity"]
    mesh.tls("beta", "join", str(code))
    assert "is an authority itself" in mesh.tls("alpha", "join", str(code), code=CONFIGURATION)
    assert "has an identity already" in mesh.tls("alpha", "init", code=CONFIGURATION)
    assert "x" * 16 not in alpha.said


def test_nothing_that_others_reach_is_listened_at_without_an_identity(mesh: Mesh) -> None:
    for options, key in ((("--listen", "0.0.0.0:0"), "listen"),
                         (("--client-listen", "0.0.0.0:0"), "client_listen")):  # fmt: skip
        process = Process(mesh.path / "alpha", *options)
        assert process.ended() == CONFIGURATION
        assert f"{key}: other computers can reach 0.0.0.0:0" in process.said
        assert "onceq tls init" in process.said
    mesh.configure("alpha", 'plain_peers = ["10.1.2.3"]')
    alpha = mesh.start("alpha", "--listen", "0.0.0.0:0")
    alpha.wait_to_say("these addresses may speak without proving who they are")
    assert "10.1.2.3" in mesh.cli("qm", "status", "--qm", str(alpha.path))
    alpha.end()
    mesh.configure("alpha")
    mesh.tls("alpha", "init")
    alpha = mesh.start("alpha", "--listen", "0.0.0.0:0")
    assert "certificate good until" in mesh.cli("qm", "status", "--qm", str(alpha.path))


@pytest.mark.parametrize("which", [folder.AUTHORITIES, folder.KEY, folder.CERTIFICATE])
def test_a_file_that_cannot_be_used_is_named_at_the_start_and_nothing_is_lost(
    mesh: Mesh, which: str
) -> None:
    alpha, beta = mesh.joined()
    send(mesh, "kept")
    assert received(mesh) == "kept"
    assert alpha.end() == 0
    send(mesh, "kept, too")
    name = alpha.path / "tls" / which
    good = name.read_bytes()
    name.write_bytes(b"nonsense\n")
    process = Process(alpha.path)
    assert process.ended() == CONFIGURATION
    assert str(name) in process.said
    assert "Traceback" not in process.said
    name.write_bytes(good)
    mesh.start("alpha", "--listen", alpha.peers_at)
    assert received(mesh) == "kept, too"
    assert beta.end() == 0


def certificate_at(where: str, files: Any) -> bytes:
    """What a daemon shows whoever connects now."""
    context = client_context(
        files["authorities"], certificate=files["certificate"],
        key=os.path.join(os.path.dirname(files["certificate"]), folder.KEY), peers=True,
    )  # fmt: skip
    host, _, port = where.rpartition(":")
    with (
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain) as connection,
    ):
        assert connection.selected_alpn_protocol() == PEERS
        found = connection.getpeercert(binary_form=True)
        assert found
        return found


@pytest.mark.parametrize("by", ["signal", "command"])
def test_a_new_certificate_is_taken_while_connections_live(mesh: Mesh, by: str) -> None:
    alpha, beta = mesh.joined()
    send(mesh, "before")
    assert received(mesh) == "before"
    shown = mesh.shown("beta")
    old = certificate_at(alpha.peers_at, shown)
    mesh.tls("alpha", "renew")
    assert certificate_at(alpha.peers_at, shown) == old, "it is taken by a reload"
    if by == "signal":
        alpha.popen.send_signal(signal.SIGHUP)
        alpha.wait_to_say("the certificate for other queue managers")
    else:
        said = mesh.cli("qm", "reload", "--qm", str(alpha.path))
        assert "changed: the certificate for other queue managers" in said
    assert certificate_at(alpha.peers_at, shown) != old
    mesh.tls("beta", "renew")
    assert mesh.shown("beta")["signed_by"] == alpha.peers_at
    mesh.cli("qm", "reload", "--qm", str(beta.path))
    send(mesh, "after")
    assert received(mesh) == "after"
    alpha.wait_to_say(f"session opened: session=1 peer={shown['id']}")
    assert alpha.said.count(f"session opened: session=1 peer={shown['id']}") == 1
    assert "session closed" not in alpha.said, "the session of before goes on"


def test_the_trail_says_who_has_joined_and_who_has_reloaded(mesh: Mesh) -> None:
    alpha, _ = mesh.joined()
    beta = mesh.shown("beta")["id"]
    mesh.tls("beta", "renew")
    mesh.cli("qm", "reload", "--qm", str(alpha.path))
    alpha.popen.send_signal(signal.SIGHUP)
    alpha.wait_to_say("configuration reloaded", 2)
    with onceq.connect(str(alpha.path)) as qm:
        acts = [(act.who.partition(":")[0], act.where.partition(",")[0], act.what, act.about,
                 act.result) for act in qm.admin.trail()]  # fmt: skip
        whom = [act.who for act in qm.admin.trail() if act.what in ("join", "renew certificate")]
    assert acts == [
        ("account", "local", "invite", "BETA", ""),
        ("peer", "127.0.0.1", "join", "BETA", ""),
        ("account", "local", "create queue", Q, ""),
        ("account", "local", "grant", f"peer:{beta} send at *", ""),
        ("peer", "127.0.0.1", "renew certificate", "BETA", ""),
        ("account", "local", "reload", "(queue manager)", ""),
        ("signal", "local", "reload", "(queue manager)", ""),
    ]
    assert whom == [f"peer:{beta}"] * 2


def test_a_reload_with_a_file_that_cannot_be_used_changes_nothing(mesh: Mesh) -> None:
    alpha, _ = mesh.joined()
    (alpha.path / "tls" / folder.AUTHORITIES).write_bytes(b"")
    said = mesh.cli("qm", "reload", "--qm", str(alpha.path), code=CONFIGURATION)
    assert folder.AUTHORITIES in said
    send(mesh, "still there")
    assert received(mesh) == "still there"


def test_own_files_and_authorities_instead_of_the_commands(mesh: Mesh) -> None:
    """As a company's own authority makes them; two of them trust each other's."""
    one, other = Authority("ONE"), Authority("OTHER")
    both = one.certificate + other.certificate
    for name, signs in (("alpha", one), ("beta", other)):
        guid = guid_bytes(mesh.shown(name)["id"])
        made, key = signs.issue(guid, name.upper())
        (mesh.path / name / "own.pem").write_bytes(made + key)
        (mesh.path / name / "own.pem").chmod(0o600)
        (mesh.path / name / "trusted.pem").write_bytes(both)
        mesh.configure(name, 'tls_certificate = "own.pem"\ntls_authorities = "trusted.pem"')
    alpha = mesh.start("alpha")
    mesh.start("beta", "--peer", f"ALPHA={alpha.peers_at}")
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        qm.rights.grant(f"peer:{mesh.shown('beta')['id']}", "send", "*")
    send(mesh, "by two authorities")
    assert received(mesh) == "by two authorities"
    assert "others make the certificate" in mesh.tls("alpha", "renew", code=CONFIGURATION)


def test_the_certificate_of_another_directory_starts_nothing(mesh: Mesh) -> None:
    mesh.tls("alpha", "init")
    os.rename(mesh.path / "alpha" / "tls", mesh.path / "beta" / "tls")
    process = Process(mesh.path / "beta")
    assert process.ended() == CONFIGURATION
    assert f"is for queue manager {mesh.shown('alpha')['id']}" in process.said


def test_an_expired_certificate_stops_no_application(mesh: Mesh) -> None:
    guid = guid_bytes(mesh.shown("alpha")["id"])
    Authority().identity(mesh.path / "alpha", guid, ago_s=LONG_AGO_S)
    alpha = mesh.start("alpha")
    alpha.wait_to_say("nobody believes the certificate of this queue manager")
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q)
        qm.send(Q, "here")
        assert qm.receive(Q, timeout=WAIT_S).text == "here"
        assert "has expired" in qm.admin.status().certificate_problem
    said = mesh.cli("qm", "status", "--qm", str(alpha.path))
    assert "no other queue manager believes this one" in said
    assert "certificate has expired" in mesh.tls("alpha", "show", code=CONFIGURATION)


def test_who_may_deliver_is_who_was_granted_it(mesh: Mesh) -> None:
    """A proven identity is a name, not a right."""
    alpha, _ = mesh.joined()
    with onceq.connect(str(alpha.path)) as qm, onceq.connect(str(mesh.path / "beta")) as there:
        qm.rights.revoke(f"peer:{mesh.shown('beta')['id']}", "send", "*")
        with there.transaction() as tx:
            tx.send(THERE, "not wanted")
        qm.create_queue(r"private$\other", transactional=True)
        qm.rights.grant(f"peer:{mesh.shown('beta')['id']}", "send", r"private$\other")
        with there.transaction() as tx:
            tx.send(r"DIRECT=OS:ALPHA\private$\other", "wanted")
        assert qm.receive(r"private$\other", timeout=WAIT_S).text == "wanted"
        assert qm.queue(Q).messages == 0, "what came before it was refused"


def test_where_the_dead_letters_are_of_what_is_refused(mesh: Mesh) -> None:
    """Its sender has that of a transactional message (EOD-29), with the class that says why; that
    of any other is where it was refused, as is a second one of what is for the wrong kind of
    queue, which is no matter of rights."""
    mesh.joined()
    beta = f"peer:{mesh.shown('beta')['id']}"
    asks: dict[str, Any] = {"journal": onceq.Journal.DEADLETTER}
    with (
        onceq.connect(str(mesh.path / "alpha")) as qm,
        onceq.connect(str(mesh.path / "beta")) as there,
    ):
        qm.rights.revoke(beta, "send", "*")
        there.send(THERE, "ordered", transactional=True, **asks)
        there.send(THERE, "not asked for", transactional=True)
        there.send(THERE, "plain", transactional=False, **asks)
        for text in ("ordered", "not asked for"):  # What is refused is kept all the same.
            letter = there.receive(DEADXACT, timeout=WAIT_S)
            assert (letter.text, letter.message_class) == (text, MessageClass.NACK_ACCESS_DENIED)
        letter = qm.receive(DEADLETTER, timeout=WAIT_S)
        assert (letter.text, letter.message_class) == ("plain", MessageClass.NACK_ACCESS_DENIED)
        qm.create_queue(r"private$\plain")
        qm.rights.grant(beta, "send", "*")
        there.send(r"DIRECT=OS:ALPHA\private$\plain", "kind", transactional=True, **asks)
        for side in (qm, there):
            letter = side.receive(DEADXACT, timeout=WAIT_S)
            assert letter.text == "kind"
            assert letter.message_class == MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE
        for side in (qm, there):
            for queue in (DEADXACT, DEADLETTER):
                with pytest.raises(ReceiveTimeout):
                    side.receive(queue, timeout=0.0)
        assert qm.queue(Q).messages == 0


def test_an_unchecked_tls_client_learns_nothing(mesh: Mesh) -> None:
    mesh.tls("alpha", "init")
    alpha = mesh.start("alpha")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = alpha.peers_at.rpartition(":")
    for _ in range(3):
        with socket.create_connection((host, int(port))) as plain:
            plain.settimeout(WAIT_S)
            try:
                with context.wrap_socket(plain) as connection:
                    connection.sendall(b"\x10\x00LIOR" + bytes(600))
                    assert connection.recv(100) == b""
            except OSError:
                pass
    assert "session opened" not in alpha.said


def test_a_guid_that_has_rights_is_not_signed_for_somebody_else(mesh: Mesh) -> None:
    """GUIDs are no secret; the code is good for the one that it was meant for all the same."""
    mesh.tls("alpha", "init")
    alpha = mesh.start("alpha")
    beta = mesh.shown("beta")["id"]
    with onceq.connect(str(alpha.path)) as qm:
        qm.rights.grant(f"peer:{beta}", "send", "*")
    said = mesh.tls("beta", "join", mesh.invited("MALLORY"), code=DENIED)
    assert "has rights here" in said
    assert f"onceq tls invite MALLORY --guid {beta}" in said
    assert not mesh.shown("beta")["identity"]
    named = json.loads(mesh.tls("alpha", "invite", "BETA", "--guid", beta, "--json"))["code"]
    mesh.tls("beta", "join", named)
    assert mesh.shown("beta")["hosts"] == ["BETA"]
    assert "no GUID" in mesh.tls("alpha", "invite", "C", "--guid", "x", code=WRONG)
    assert "every computer" in mesh.tls("alpha", "invite", "C", "--host", "localhost", code=DENIED)
    assert "is for one" in mesh.tls("alpha", "invite", "C", "--host", "beta", code=DENIED)
