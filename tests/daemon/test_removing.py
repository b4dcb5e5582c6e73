"""The life of a member, between real daemons: removed, told to others, invited again."""

from __future__ import annotations

import json
from typing import Any

import pytest

import onceq
from onceq.model.identity import guid_bytes
from onceq.tls import folder, members
from onceq.tls.authority import fingerprint
from tests.certificates import Authority
from tests.daemon.mesh import CONFIGURATION, DENIED, Mesh, Q, received, send
from tests.daemon.process import WAIT_S, Process

pytestmark = pytest.mark.slow

REMOVED = "was removed (onceq tls remove)"
TO_BETA = rf"DIRECT=OS:BETA\{Q}"


def acquainted(mesh: Mesh) -> tuple[Process, Process, str]:
    """Both run, and each has taken a message of the other one; and the GUID of BETA."""
    alpha, beta = mesh.joined()
    assert alpha.end() == 0
    alpha = mesh.start("alpha", "--listen", alpha.peers_at, "--peer", f"BETA={beta.peers_at}")
    whom = str(mesh.shown("beta")["id"])
    with onceq.connect(str(beta.path)) as there, onceq.connect(str(alpha.path)) as here:
        there.create_queue(Q, transactional=True)
        there.rights.grant(f"peer:{mesh.shown('alpha')['id']}", "send", "*")
        send(mesh, "to ALPHA")
        here.send(TO_BETA, "to BETA", transactional=True)
        assert received(mesh) == "to ALPHA"
        assert there.receive(Q, timeout=WAIT_S).text == "to BETA"
    return alpha, beta, whom


def test_who_is_removed_gets_and_says_nothing_any_more_until_invited_again(mesh: Mesh) -> None:
    """In both directions, at once, also after a restart, and for no other key."""
    alpha, beta, whom = acquainted(mesh)
    assert "it holds here at once" in mesh.tls("alpha", "remove", "beta")
    alpha.wait_to_say(f'reason="queue manager BETA ({whom}) {REMOVED}')
    where = alpha.peers_at
    assert alpha.end() == 0
    alpha = mesh.start("alpha", "--listen", where, "--peer", f"BETA={beta.peers_at}")
    send(mesh, "kept at BETA")
    with onceq.connect(str(alpha.path)) as here:
        here.send(TO_BETA, "kept at ALPHA", transactional=True)
        while REMOVED not in mesh.cli("outgoing", "why", TO_BETA, "-q", str(alpha.path)):
            pass
        acts = [(act.who.partition(":")[0], act.what, act.about) for act in here.admin.trail()]
        assert here.queue(Q).messages == 0
    assert ("account", "invite", "BETA") in acts
    assert ("account", "remove member", f"BETA {whom}") in acts
    with onceq.connect(str(beta.path)) as there:
        assert there.queue(Q).messages == 0
    assert REMOVED in mesh.tls("beta", "renew", code=DENIED)
    (member,) = mesh.shown("alpha")["joined"]
    assert (member["id"], member["removed_s"] > member["at_s"]) == (whom, True)
    assert "removed" in mesh.tls("alpha", "show")
    mesh.tls("beta", "join", mesh.invited())
    mesh.cli("qm", "reload", "-q", str(beta.path))
    assert received(mesh) == "kept at BETA"
    with onceq.connect(str(beta.path)) as there:
        assert there.receive(Q, timeout=WAIT_S).text == "kept at ALPHA"
    (member,) = mesh.shown("alpha")["joined"]
    assert member["removed_s"] == 0
    assert member["seen_s"] > 0


def test_other_members_are_told_and_keep_what_a_restored_authority_forgets(mesh: Mesh) -> None:
    alpha, beta, _ = acquainted(mesh)
    mallory = "00112233-4455-6677-8899-aabbccddeeff"
    own = alpha.path / "tls"
    mesh.tls("alpha", "remove", mallory)
    assert mallory in mesh.tls("alpha", "show"), "also of one whom nobody remembers"
    mesh.cli("qm", "reload", "-q", str(beta.path))
    known = beta.path / "tls" / members.TOLD
    with onceq.connect(str(beta.path)) as qm:
        while not known.exists():
            qm.admin.status()
    ((guid, _, at_s),) = json.loads(known.read_bytes())
    assert guid == mallory
    (own / members.HERE).unlink()  # as an older copy of the directory has it
    mesh.cli("qm", "reload", "-q", str(beta.path))
    beta.wait_to_say("removals are not known any more where this queue manager has joined")
    alpha.wait_to_say("a member knows removals that are not known here")
    assert mallory in alpha.said
    assert json.loads(known.read_bytes()) == [[mallory, "", at_s]]
    where = alpha.peers_at
    assert alpha.end() == 0
    mesh.cli("qm", "reload", "-q", str(beta.path))
    beta.wait_to_say("the authority of this queue manager does not say who was removed")
    mesh.start("alpha", "--listen", where)
    send(mesh, "all the same")
    assert received(mesh) == "all the same"


def test_what_is_removed_where_no_authority_is_holds_there_alone(mesh: Mesh) -> None:
    alpha, beta, _ = acquainted(mesh)
    alphas = mesh.shown("alpha")["id"]
    assert "nobody has joined here" in mesh.tls("beta", "remove", "ALPHA", code=CONFIGURATION)
    assert "at this queue manager alone" in mesh.tls("beta", "remove", alphas)
    beta.wait_to_say(REMOVED)
    send(mesh, "kept")
    while REMOVED not in mesh.cli("outgoing", "why", rf"DIRECT=OS:ALPHA\{Q}", "-q", str(beta.path)):
        pass
    assert "is this queue manager" in mesh.tls("alpha", "remove", "alpha", code=CONFIGURATION)
    assert not (alpha.path / "tls" / members.HERE).exists()
    damaged: Any = beta.path / "tls" / members.HERE
    damaged.write_bytes(b"[[1]]")
    assert folder.FOLDER in mesh.cli("qm", "reload", "-q", str(beta.path), code=CONFIGURATION)


def test_a_partners_authority_speaks_for_its_own_alone(mesh: Mesh) -> None:
    """It could make a certificate for any GUID and any name; in both directions."""
    ours, partners = Authority("OURS"), Authority("PARTNER")
    for name, signs in (("alpha", ours), ("beta", partners)):
        own = mesh.path / name
        made, key = signs.issue(guid_bytes(mesh.shown(name)["id"]), name.upper())
        (own / "own.pem").write_bytes(made + key)
        (own / "own.pem").chmod(0o600)
        (own / "trusted.pem").write_bytes(ours.certificate + partners.certificate)
    plain = 'tls_certificate = "own.pem"\ntls_authorities = "trusted.pem"\n'
    limited = f'{plain}[authorities]\n"{fingerprint(partners.certificate).hex()}" = '
    alphas, betas = (mesh.shown(name)["id"] for name in ("alpha", "beta"))
    mesh.configure("beta", plain)
    mesh.configure("alpha", f'{limited}["peer:{alphas}", "name:*"]')
    alpha = mesh.start("alpha")
    beta = mesh.start("beta", "--peer", f"ALPHA={alpha.peers_at}")
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        qm.rights.grant("peer:*", "send", "*")
    send(mesh, "once within")
    alpha.wait_to_say(f"may not speak for queue manager {betas}")
    mesh.configure("alpha", f'{limited}["peer:{betas}", "name:GAMMA"]')
    mesh.cli("qm", "reload", "-q", str(alpha.path))
    alpha.wait_to_say("may not speak for the name 'BETA'")
    mesh.configure("alpha", f'{limited}["peer:{betas}", "name:BETA"]')
    mesh.cli("qm", "reload", "-q", str(alpha.path))
    assert received(mesh) == "once within"
    mesh.configure("beta", f'{plain}[authorities]\n"{fingerprint(ours.certificate).hex()}" = []')
    mesh.cli("qm", "reload", "-q", str(beta.path))
    beta.wait_to_say(f"may not speak for queue manager {alphas}")
