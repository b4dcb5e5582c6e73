"""What two queue managers tell of names that lead to another computer (finding K13)."""

from __future__ import annotations

import asyncio

import pytest

import onceq
import onceq.aio
from tests.daemon.mesh import CONFIGURATION, WRONG, Mesh
from tests.daemon.process import WAIT_S, Process

Q = r"private$\q"
ACCOUNTS = rf"DIRECT=OS:ACCOUNTS\{Q}"


def start(mesh: Mesh, name: str, *options: str) -> Process:
    """With a queue."""
    process = mesh.start(name, *options)
    with onceq.connect(str(process.path)) as qm:
        qm.create_queue(Q, transactional=True)
    return process


def given(sender: Process, receiver: Process, *names: str) -> None:
    """A message to each of these names is sent, and received."""
    with onceq.connect(str(sender.path)) as far, onceq.connect(str(receiver.path)) as near:
        for name in names:
            far.send(rf"DIRECT=OS:{name}\{Q}", name)
            assert near.receive(Q, timeout=WAIT_S).text == name


def status(mesh: Mesh, process: Process) -> str:
    return mesh.cli("-q", str(process.path), "qm", "status")


def why(mesh: Mesh, process: Process, name: str) -> str:
    return mesh.cli("-q", str(process.path), "outgoing", "why", name)


def test_both_sides_are_told_that_another_computer_answers(mesh: Mesh) -> None:
    beta = start(mesh, "beta")
    alpha = start(mesh, "alpha", "--peer", f"ACCOUNTS={beta.peers_at}")
    given(alpha, beta, "ACCOUNTS")
    for text in (status(mesh, alpha), why(mesh, alpha, ACCOUNTS)):
        assert "BETA answers where ACCOUNTS is looked for: correct" in text
        assert "[peers]" in text
        assert "addresses in the onceq.toml there" in text
    text = status(mesh, beta)
    assert "messages come for ACCOUNTS, and this computer is BETA; they are taken" in text
    assert "addresses in onceq.toml" in text
    alpha.wait_to_say("another computer answers under a name")
    beta.wait_to_say("messages come for another computer")


def test_one_more_name_is_no_fault(mesh: Mesh) -> None:
    mesh.configure("beta", 'addresses = ["accounts"]')
    beta = start(mesh, "beta")
    names = ("ACCOUNTS", "Beta", "beta.example", "accounts.example")
    peers = [word for name in names for word in ("--peer", f"{name}={beta.peers_at}")]
    alpha = start(mesh, "alpha", *peers)
    given(alpha, beta, *names)
    for process in (alpha, beta):
        assert "looked for" not in status(mesh, process)
        assert "messages come for" not in status(mesh, process)


def test_a_name_that_leads_back_says_which_key_cures_it(mesh: Mesh) -> None:
    port = start(mesh, "alpha").peers_at
    mesh.running.pop().end()
    alpha = mesh.start("alpha", "--listen", port, "--peer", f"newname={port}")
    name = rf"DIRECT=OS:newname\{Q}"
    with onceq.connect(str(alpha.path)) as qm:
        qm.send(name, "1")
        while "identity-clash" not in qm.admin.outgoing_queue(name).trouble:
            pass
        assert qm.admin.status().clashes == ()
    alpha.wait_to_say("put it into addresses in onceq.toml")
    for text in (status(mesh, alpha), why(mesh, alpha, name), alpha.said):
        assert "newname leads back to this queue manager itself" in text
        assert "put it into addresses in onceq.toml" in text
    mesh.running.pop().end()
    mesh.configure("alpha", 'addresses = ["newname"]')
    alpha = mesh.start("alpha")
    with onceq.connect(str(alpha.path)) as qm:
        assert qm.receive(Q, timeout=WAIT_S).text == "1", "what waited arrives by the cure"
    assert "leads back" not in status(mesh, alpha)


def test_a_name_is_explained(mesh: Mesh) -> None:
    """The address book says where, the session who answers; both faces of the client are told."""
    beta = start(mesh, "beta")
    alpha = start(mesh, "alpha", "--peer", f"accounts={beta.peers_at}")
    name = rf"DIRECT=OS:ACCOUNTS\{Q}"
    text = mesh.cli("-q", str(alpha.path), "names", "explain", name.lower())
    assert f"address:      {beta.peers_at} ([peers] of onceq.toml)" in text
    assert "goes through: outgoing queue" in text
    assert "session" not in text
    given(alpha, beta, "ACCOUNTS")
    with onceq.connect(str(alpha.path)) as qm:
        (found,) = qm.admin.explain_name(name)
        assert qm.admin.explain_name(Q)[0].leads_to == "here"
    assert (found.leads_to, found.session) == ("elsewhere", "127.0.0.1")
    with onceq.connect(str(beta.path)) as qm:
        assert found.manager_id == qm.admin.status().id

    async def ask() -> list[onceq.NameView]:
        async with await onceq.aio.connect(str(alpha.path)) as qm:
            return await qm.admin.explain_name(name)

    assert asyncio.run(ask()) == [found]
    mesh.cli("-q", str(alpha.path), "names", "explain", "DIRECT=OS:", code=WRONG)


@pytest.mark.parametrize(
    "keys", ['[peers]\nlocalhost = "10.0.0.7:1801"', '[routes]\n"{}" = "LocalHost"']
)
def test_a_table_of_other_computers_refuses_this_one(mesh: Mesh, keys: str) -> None:
    guid = "11111111-2222-3333-4444-555555555555"
    mesh.configure("alpha", keys.replace("{}", guid))
    text = mesh.cli("qm", "run", str(mesh.path / "alpha"), code=CONFIGURATION)
    assert "always means this computer" in text
    assert "onceq.toml:3" in text


def test_an_option_refuses_this_computer_as_another_one(mesh: Mesh) -> None:
    said = mesh.cli(
        "qm", "init", str(mesh.path / "c"), "--name", "C", "--peer", "localhost=h:1",
        code=CONFIGURATION,
    )  # fmt: skip
    assert "always means this computer" in said
    assert not (mesh.path / "c").exists()
