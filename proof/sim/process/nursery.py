"""Starts queue manager processes quickly: from one that has everything imported already.

Reading the code takes longer than anything else a young process does, so one process reads it
once, and each start is a fork of it. What comes out is a process like any other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from typing import Any

from onceq.errors import OnceqError
from onceq.model.time import Now
from proof.sim.process.process import serve


class Nursery:
    """Bears processes; close it when they are dead."""

    def __init__(self) -> None:
        self._mother = subprocess.Popen(
            [sys.executable, "-m", "proof.sim.process.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def _ask(self, **what: Any) -> int:
        mother = self._mother
        assert mother.stdin is not None
        assert mother.stdout is not None
        mother.stdin.write(json.dumps(what) + "\n")
        mother.stdin.flush()
        return int(mother.stdout.readline())

    def start(self, path: str, control: str, now: Now, log: str) -> int:
        """Start ``process.serve`` with these arguments; returns its number."""
        return self._ask(path=path, control=control, wall=now.wall_us, mono=now.mono_us, log=log)

    def ended(self, pid: int) -> int:
        """Wait for the end of one that has to die; its exit code, or minus the signal."""
        return self._ask(ended=pid)

    def close(self) -> None:
        """No more."""
        with self._mother as mother:
            mother.terminate()


def _born(what: dict[str, Any]) -> None:
    """In the new process: be a queue manager, and nothing else ever."""
    code = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        serve(what["path"], what["control"], Now(what["wall"], what["mono"]), what["log"])
        code = 0
    except OnceqError as error:
        sys.stderr.write(f"onceq: error ({error.code}): {error.text}\n")
        code = error.exit_code
    except BaseException:  # noqa: BLE001 - nobody is above it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> int:
    """One line of JSON for each thing to do; one number as the answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        what = json.loads(line)
        if "ended" in what:
            said = os.waitstatus_to_exitcode(os.waitpid(what["ended"], 0)[1])
        else:
            said = os.fork()
            if not said:
                _born(what)
        sys.stdout.write(f"{said}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
