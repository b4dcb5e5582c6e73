"""One client process of the benchmark: it says "ready", waits for "go", works, reports in JSON.

Times are of the machine's monotonic clock, so that those of several processes can be compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import Any, ClassVar, Self

import onceq
from onceq.cli.bench import Bodies, receive, send

SENDER_SHIFT = 40
"""Numbers of messages begin with the number of their sender."""


def go() -> None:
    """Say that this client is ready, and wait until all others are."""
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit(1)  # the driver has gone


def _send(options: dict[str, Any]) -> dict[str, float]:
    """Threads that send, each on a connection of its own, for a time or up to a count."""
    links = [onceq.connect(options["where"]) for _ in range(options["threads"])]
    counts = [0] * len(links)
    bodies = [
        Bodies(options["size"], first=(options["first"] + at) << SENDER_SHIFT)
        for at in range(len(links))
    ]
    go()

    def work(at: int) -> None:
        rate = send(
            links[at], options["destination"], bodies[at], per_commit=options["per_commit"],
            seconds=options["seconds"], messages_max=options["messages"],
        )  # fmt: skip
        counts[at] = rate.messages

    began = time.monotonic()
    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(links))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = time.monotonic()
    for link in links:
        link.close()
    return {"began": began, "ended": ended, "messages": sum(counts)}


def _receive(options: dict[str, Any]) -> dict[str, float]:
    """Run one receiver of the messages of one sender."""
    with onceq.connect(options["where"]) as qm:
        bodies = Bodies(options["size"], first=options["first"] << SENDER_SHIFT)
        go()
        began = time.monotonic()
        rate = receive(
            qm, options["queue"], bodies, per_commit=options["per_commit"],
            messages=options["messages"],
        )  # fmt: skip
        return {"began": began, "ended": time.monotonic(), "messages": rate.messages}


class Client:
    """A process that runs one of the above."""

    program: ClassVar[str] = "proof.bench.client"

    def __init__(self, what: str, **options: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.program, what, json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self._out = self._process.stdout
        try:
            said = self._out.readline()
        except BaseException:
            self._process.kill()
            raise
        if said != "ready\n":
            self.stop()
            raise RuntimeError(f"a client that should {what} did not start: {said.strip()}")

    def go(self) -> None:
        """Begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def result(self) -> dict[str, float]:
        """Wait until it has done its work; raises RuntimeError if it could not."""
        try:
            said = self._out.read()
        except KeyboardInterrupt:
            self._process.kill()
            raise
        finally:
            self.stop()
        if self._process.returncode:
            raise RuntimeError(f"a client ended with exit code {self._process.returncode}")
        found: dict[str, float] = json.loads(said)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self.stop()

    def stop(self) -> None:
        """End it if it has not ended."""
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def together(clients: list[Client]) -> float:
    """Let them go at once; messages a second over all, from the first start to the last end."""
    for client in clients:
        client.go()
    found = [client.result() for client in clients]
    span = max(f["ended"] for f in found) - min(f["began"] for f in found)
    return sum(f["messages"] for f in found) / span


if __name__ == "__main__":
    work = {"send": _send, "receive": _receive}[sys.argv[1]]
    try:
        print(json.dumps(work(json.loads(sys.argv[2]))), flush=True)
    except onceq.OnceqError as error:
        sys.exit(f"client ({sys.argv[1]}): {error}")
