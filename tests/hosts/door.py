"""TLS before a daemon, in a process of its own: a fork of the test takes nothing of it along."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from onceq.tls.contexts import IdentityFiles, server_context
from tests import nursery
from tests.unit.client.tls_door import Authority, Door

ROOT = Path(__file__).resolve().parents[2]


class DoorProcess:
    """See the module.

    Attributes:
        where: For ``connect``.
    """

    def __init__(self, behind: str, authority: Authority) -> None:
        command = [sys.executable, "-m", "tests.hosts.door", behind]
        command += [authority.issue("127.0.0.1"), authority.file]
        self._process = nursery.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        self.where = f"tls://127.0.0.1:{int(self._process.stdout.readline())}"

    def __enter__(self) -> DoorProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def main(behind: str, own: str, authorities: str) -> None:
    """Run one until the process is killed."""
    door = Door(behind, server_context(IdentityFiles(own, "", authorities), peers=False))
    print(door.address.port, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
