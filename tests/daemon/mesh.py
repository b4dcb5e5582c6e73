"""For tests of TLS: two queue managers that are set up by the commands, and daemons on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.cli.main import run
from onceq.errors import AccessDenied, ConfigurationError, InvalidParameter, ServiceNotAvailable
from onceq.file_access import CONFIGURATION_FILE
from tests.daemon.process import WAIT_S, Process

Q = r"private$\q"
THERE = rf"DIRECT=OS:ALPHA\{Q}"
CONFIGURATION = ConfigurationError.exit_code
DENIED, AWAY = AccessDenied.exit_code, ServiceNotAvailable.exit_code
WRONG = InvalidParameter.exit_code
SETTINGS = "[settings]\nconnect_retry_s = 0.1\norder_ack_delay_s = 0.02\nresend_first_s = 0.3\n"


class Mesh:
    """ALPHA, which is an authority, and BETA: data directories, and daemons on them."""

    def __init__(self, path: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.path, self._capture = path, capture
        self.running: list[Process] = []
        for name in ("alpha", "beta"):
            self.cli("qm", "init", str(path / name), "--name", name.upper())
            self.configure(name)

    def configure(self, name: str, more: str = "") -> None:
        (self.path / name / CONFIGURATION_FILE).write_text(
            f'listen = "127.0.0.1:0"\n{more}\n{SETTINGS}'
        )

    def cli(self, *arguments: str, code: int = 0) -> str:
        """A command; what it prints, errors behind that."""
        self._capture.readouterr()
        ended = run(arguments)
        said = self._capture.readouterr()
        assert ended == code, said
        assert "Traceback" not in said.err
        return said.out + said.err

    def tls(self, name: str, *arguments: str, code: int = 0) -> str:
        return self.cli("tls", *arguments, "-d", str(self.path / name), code=code)

    def shown(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.tls(name, "show", "--json"))
        return found

    def start(self, name: str, *options: str) -> Process:
        made = Process(self.path / name, *options).started()
        self.running.append(made)
        return made

    def invited(self, name: str = "BETA") -> str:
        found = json.loads(self.tls("alpha", "invite", name, "--json"))
        return str(found["code"])

    def joined(self) -> tuple[Process, Process]:
        """Both run and know each other; BETA may send to ALPHA."""
        self.tls("alpha", "init")
        alpha = self.start("alpha")
        self.tls("beta", "join", self.invited())
        beta = self.start("beta", "--peer", f"ALPHA={alpha.peers_at}")
        with onceq.connect(str(alpha.path)) as qm:
            qm.create_queue(Q, transactional=True)
            qm.rights.grant(f"peer:{self.shown('beta')['id']}", "send", "*")
        return alpha, beta


def send(mesh: Mesh, text: str) -> None:
    with onceq.connect(str(mesh.path / "beta")) as qm, qm.transaction() as tx:
        tx.send(THERE, text)


def received(mesh: Mesh) -> str:
    with onceq.connect(str(mesh.path / "alpha")) as qm:
        return qm.receive(Q, timeout=WAIT_S).text
