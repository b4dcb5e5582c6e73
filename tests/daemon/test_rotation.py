"""Another authority takes the place of one, between daemons that go on meanwhile."""

from __future__ import annotations

import pytest

from onceq.tls import folder
from tests.daemon.mesh import CONFIGURATION, Mesh, received, send

pytestmark = pytest.mark.slow


def fingerprints(mesh: Mesh, name: str) -> int:
    return (mesh.path / name / "tls" / folder.AUTHORITIES).read_bytes().count(b"BEGIN")


def test_an_authority_is_rotated_and_nobody_is_cut_off(mesh: Mesh) -> None:
    alpha, beta = mesh.joined()
    send(mesh, "before")
    assert received(mesh) == "before"
    before = mesh.shown("alpha")["fingerprint"]
    assert "no authority of its own" in mesh.tls("beta", "rotate", code=CONFIGURATION)
    assert "once all members believe it" in mesh.tls("alpha", "rotate")
    assert mesh.shown("alpha")["fingerprint"] == before, "it does not sign yet"
    mesh.cli("qm", "reload", "-q", str(beta.path))
    beta.wait_to_say("the authorities of other queue managers have changed")
    assert fingerprints(mesh, "beta") == 2
    while mesh.shown("alpha")["joined"][0]["behind"]:
        pass  # BETA says what it believes
    assert "once all members have renewed" in mesh.tls("alpha", "rotate")
    assert mesh.shown("alpha")["fingerprint"] != before
    assert "BETA" in mesh.tls("alpha", "rotate", code=CONFIGURATION), "it has the old one"
    assert "the rotation waits for it" in mesh.tls("alpha", "show")
    send(mesh, "between")
    assert received(mesh) == "between"
    mesh.tls("beta", "renew")
    mesh.cli("qm", "reload", "-q", str(beta.path))
    assert "forgotten" in mesh.tls("alpha", "rotate")
    assert mesh.shown("alpha")["rotation"] == ""
    assert fingerprints(mesh, "alpha") == 1
    mesh.cli("qm", "reload", "-q", str(beta.path))
    while fingerprints(mesh, "beta") == 2:
        pass
    where = alpha.peers_at
    assert alpha.end() == 0
    alpha = mesh.start("alpha", "--listen", where)
    send(mesh, "after")
    assert received(mesh) == "after"
    acts = mesh.cli("trail", "-q", str(alpha.path))
    assert acts.count("rotate authority") == 3


def test_who_is_behind_is_named_and_a_step_that_was_cut_short_goes_on(mesh: Mesh) -> None:
    mesh.tls("alpha", "init")
    alpha = mesh.start("alpha")
    mesh.tls("beta", "join", mesh.invited())
    assert alpha.end() == 0
    own = mesh.path / "alpha" / "tls"
    assert "members are told once it does" in mesh.tls("alpha", "rotate")
    late = mesh.tls("alpha", "rotate", code=CONFIGURATION)
    assert "do not believe the next authority yet" in late
    assert "BETA" in late
    mesh.tls("alpha", "remove", "BETA")
    was = (own / folder.AUTHORITY).read_bytes()
    (own / folder.NEXT_KEY).rename(own / folder.AUTHORITY_KEY)
    (own / folder.OLD).write_bytes(was)  # the power goes here
    assert "was cut short" in mesh.tls("alpha", "renew", code=CONFIGURATION)
    mesh.tls("alpha", "rotate")
    assert mesh.shown("alpha")["rotation"] == ""
    assert (own / folder.AUTHORITY).read_bytes() != was
    mesh.tls("alpha", "renew")
    mesh.start("alpha")
    mesh.tls("beta", "join", mesh.invited())
