"""Members and plain hosts that say to be somebody else, against real queue managers with an
identity: nothing is given to them, and nothing is lost.

Upholds: I10, I28.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.client.why import why
from onceq.model.identity import guid_bytes
from tests.certificates import Authority
from tests.daemon.process import WAIT_S, Process
from tests.matrix.speaker import Speaker

pytestmark = pytest.mark.slow

Q = r"private$\q"
TO_BETA = rf"DIRECT=OS:BETA\{Q}"
PLAIN = "127.0.0.2"


class Town:
    """Queue managers whose certificates one authority has signed, each for its own name."""

    def __init__(self, path: Path) -> None:
        self.path, self.signs = path, Authority()
        self.ids: dict[str, str] = {}
        self.running: list[Process] = []

    def build(self, name: str, head: str = "", *, peers: str = "", at: str = "") -> Process:
        """One that runs."""
        path = self.path / name.lower()
        with onceq.open(path, name=name, create=True) as qm:
            self.ids[name] = qm.admin.status().id
            if not any(queue.name == Q for queue in qm.queues()):
                qm.create_queue(Q, transactional=True)
                qm.rights.grant("peer:*", "send", "*")
        self.signs.identity(path, guid_bytes(self.ids[name]), name)
        (path / "onceq.toml").write_text(
            f'listen = "{at or "127.0.0.1:0"}"\n{head}\n{peers}\n'
            "[settings]\nconnect_retry_s = 0.1\norder_ack_delay_s = 0.02\n"
        )
        made = Process(path).started()
        self.running.append(made)
        return made


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    made = Town(tmp_path)
    yield made
    for process in made.running:
        process.end(signal.SIGKILL)


def outgoing(qm: onceq.QueueManager, name: str) -> Any:
    return qm.admin.outgoing_queue(name)


def test_a_member_gets_nothing_under_another_name(town: Town) -> None:
    mallory = town.build("MALLORY", 'addresses = ["BETA"]')
    alpha = town.build("ALPHA", peers=f'[peers]\nBETA = "{mallory.peers_at}"')
    with onceq.connect(str(alpha.path)) as qm:
        qm.send(TO_BETA, "secret for BETA", transactional=True)
        while not (trouble := outgoing(qm, TO_BETA).trouble):
            pass
        assert "is not for BETA, but for mallory" in trouble
        assert "is not for BETA" in why(outgoing(qm, TO_BETA))
        with onceq.connect(str(mallory.path)) as there:
            assert there.queue(Q).messages == 0
        # The right one comes, with the same message; from then on the name is its own.
        beta = town.build("BETA")
        configuration = alpha.path / "onceq.toml"
        text = configuration.read_text()
        configuration.write_text(text.replace(mallory.peers_at, beta.peers_at))
        qm.admin.reload()
        with onceq.connect(str(beta.path)) as there:
            assert there.receive(Q, timeout=WAIT_S).text == "secret for BETA"
            while outgoing(qm, TO_BETA).messages:
                pass
        assert beta.end() == 0
        configuration.write_text(text)
        qm.admin.reload()
        qm.send(TO_BETA, "the next one", transactional=True)
        while "than before" not in outgoing(qm, TO_BETA).trouble:
            pass
        with onceq.connect(str(mallory.path)) as there:
            assert there.queue(Q).messages == 0
        assert outgoing(qm, TO_BETA).messages == 1


def test_a_plain_host_is_no_member(town: Town) -> None:
    beta = town.build("BETA")
    alpha = town.build(
        "ALPHA", f'plain_peers = ["{PLAIN}"]', peers=f'[peers]\nBETA = "{beta.peers_at}"'
    )
    guid = guid_bytes(town.ids["BETA"])
    by_guid = f"PRIVATE={town.ids['BETA']}\\00000001"
    with onceq.connect(str(alpha.path)) as qm:
        qm.send(TO_BETA, "first contact", transactional=True)
        with onceq.connect(str(beta.path)) as there:
            assert there.receive(Q, timeout=WAIT_S).text == "first contact"
        while outgoing(qm, TO_BETA).messages:
            pass
        assert beta.end() == 0
        for name in (TO_BETA, by_guid):
            qm.send(name, "for BETA alone", transactional=True)
        host, _, port = alpha.peers_at.rpartition(":")
        liar = Speaker(socket.create_connection((host, int(port)), WAIT_S, (PLAIN, 0)), guid)
        liar.opened()
        while not liar.cut:
            liar.listen()
        assert not liar.arrived, "nothing was sent to it"
        for name in (TO_BETA, by_guid):
            assert outgoing(qm, name).messages == 1
        # Its log is written a little behind what is done.
        while "is believed over TLS alone" not in alpha.said:
            pass
