"""One airport: commits its departures in transactions of mixed sizes, to both queues at once.

Runs as a process of its own: ``python -m demo.senders ORIGIN DIRECTORY LINES SEED``. Prints what
it has done as lines of JSON. Its queue manager may be killed at any moment. Then a commit is in
doubt: it asks for the outcome, and sends again only if the answer is "aborted".
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import onceq
from demo.managers import DESTINATION
from onceq.client.stopping import pause
from onceq.errors import ServiceNotAvailable, TransactionOver

SIZE_MAX = 1_000
ABORT_SHARE = 0.03
"""So many transactions are aborted when everything is in them, and done again."""
RETRY_S = 0.05
PATIENCE_S = 60.0
REPORT_S = 0.1


@dataclass
class Done:
    """What happened so far."""

    committed: int = 0
    transactions: int = 0
    aborted: int = 0
    lost: int = 0
    in_doubt: int = 0
    in_doubt_committed: int = 0
    largest: int = 0
    seconds: float = 0.0
    over: bool = False


class Sender:
    """See the module."""

    def __init__(self, directory: str, seed: str) -> None:
        self._directory = directory
        self._random = random.Random(seed)
        self._manager = self._connect()
        self.done = Done()
        self._begun = self._reported = time.monotonic()

    def _connect(self) -> onceq.QueueManager:
        """Connect; patiently, because the queue manager may be starting again."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return onceq.connect(self._directory)
            except ServiceNotAvailable:
                if time.monotonic() > until:
                    raise
                pause(RETRY_S)

    def send_all(self, bodies: Sequence[bytes]) -> None:
        """Commit all of them, in order, each once."""
        at = 0
        while at < len(bodies):
            size = round(SIZE_MAX ** self._random.random())
            part = bodies[at : at + size]
            if self._random.random() < ABORT_SHARE:
                self._abort(part)
            while not self._commit(part):
                pass
            at += len(part)
            self.done.committed = at
            self.done.transactions += 1
            self.done.largest = max(self.done.largest, len(part))
            self._report()
        self.done.over = True
        self._report()
        self._manager.close()

    def _abort(self, part: Sequence[bytes]) -> None:
        """Nothing of this may ever be seen."""
        try:
            transaction = self._manager.transaction()
            transaction.send_many(DESTINATION, part)
            transaction.abort()
            self.done.aborted += 1
        except (ServiceNotAvailable, TransactionOver):
            self.done.lost += 1

    def _commit(self, part: Sequence[bytes]) -> bool:
        """One transaction; whether it is committed."""
        try:
            transaction = self._manager.transaction()
            transaction.send_many(DESTINATION, part)
            transaction.commit()
            return True
        except onceq.InDoubt as doubt:
            self.done.in_doubt += 1
            return self._settle(doubt.transaction)
        except (ServiceNotAvailable, TransactionOver):
            self.done.lost += 1
            pause(RETRY_S)
            return False

    def _settle(self, transaction: str) -> bool:
        """Ask what became of a commit until somebody is there to say."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                outcome = self._manager.outcome(transaction)
                break
            except ServiceNotAvailable:
                if time.monotonic() > until:
                    raise
                pause(RETRY_S)
        if outcome not in ("committed", "aborted"):
            raise RuntimeError(f"the outcome of {transaction} is {outcome}")
        self.done.in_doubt_committed += outcome == "committed"
        return outcome == "committed"

    def _report(self) -> None:
        now = time.monotonic()
        if self.done.over or now - self._reported >= REPORT_S:
            self._reported = now
            self.done.seconds = now - self._begun
            print(json.dumps(asdict(self.done)), flush=True)


def main() -> int:
    """The command."""
    origin, directory, lines, seed = sys.argv[1:5]
    bodies = Path(lines).read_bytes().split(b"\n")
    Sender(directory, f"{seed} {origin}").send_all([body for body in bodies if body])
    return 0


if __name__ == "__main__":
    sys.exit(main())
