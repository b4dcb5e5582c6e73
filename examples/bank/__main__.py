"""Kill everybody who moves the money, again and again, and watch the sum: ``make bank``.

Two banks (PostgreSQL databases) and a queue manager with the announcements; a teller moves money
between the banks, and announces each transfer, in one commit. Every second somebody is killed: the
teller, the queue manager or the database server. A sheet is printed as it goes; in the end, when
everything has recovered, all books are compared. Exits with 1 if anything is off.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import onceq  # noqa: E402
from examples.bank.teller import ACCOUNTS, ANNOUNCED  # noqa: E402
from onceq.client.stopping import pause  # noqa: E402
from onceq.partners.postgresql import PostgresResource  # noqa: E402
from tests.servers import Postgres, postgres  # noqa: E402

OPENING = 1_000
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
COLUMNS = "{:>4}  {:>10}  {:>10}  {:>9}  {:>10}  {:>9}  {}"


class Bank:
    """Everybody who takes part."""

    def __init__(self, folder: Path, server: Postgres) -> None:
        self.folder, self.server = folder, server
        self.kills: Counter[str] = Counter()
        self.moved = 0
        """Transfers that the last line has counted."""
        self.tellers = 0
        for name in ("one", "two"):
            server.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)", name)
            server.execute("CREATE TABLE moves (id text PRIMARY KEY, change bigint)", name)
            rows = ", ".join(f"({k}, {OPENING})" for k in range(ACCOUNTS))
            server.execute(f"INSERT INTO accounts VALUES {rows}", name)
        self.start_manager()
        with onceq.connect(str(self.where)) as qm:
            qm.create_queue(ANNOUNCED, transactional=True)
        self.start_teller()

    @property
    def where(self) -> Path:
        """Data directory of the queue manager."""
        return self.folder / "qm"

    def start_manager(self) -> None:
        """A daemon; it takes no connections but from here."""
        self.manager = subprocess.Popen(
            [sys.executable, "-m", "onceq.service.main", "--data", str(self.where), "--create",
             "BANK", "--listen", ""],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT,
        )  # fmt: skip
        assert self.manager.stdout is not None
        self.manager.stdout.readline()

    def start_teller(self) -> None:
        """Another one, with transfers of its own."""
        self.tellers += 1
        self.teller = subprocess.Popen(
            [sys.executable, "-m", "examples.bank.teller", str(self.where),
             self.server.where("one"), self.server.where("two"), f"t{self.tellers}"],
            stderr=subprocess.DEVNULL, env=ENVIRONMENT, cwd=ROOT,
        )  # fmt: skip

    def kill(self, whom: str) -> None:
        """SIGKILL, and a new one at once."""
        self.kills[whom] += 1
        if whom == "database":
            self.server.restart()
            return
        process = self.teller if whom == "teller" else self.manager
        process.kill()
        process.wait()
        if whom == "teller":
            self.start_teller()
        else:
            self.start_manager()

    def sums(self) -> tuple[int, int, dict[str, int], dict[str, int]]:
        """Both sums, and the moves in the books of each bank."""
        found = []
        for name in ("one", "two"):
            with psycopg.connect(self.server.where(name)) as bank:
                bank.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                ((total,),) = bank.execute("SELECT sum(balance)::bigint FROM accounts").fetchall()
                moves: dict[str, int] = dict(
                    bank.execute("SELECT id, change FROM moves").fetchall()
                )
            found.append((int(total), moves))
        return found[0][0], found[1][0], found[0][1], found[1][1]

    def line(self, second: int) -> str:
        """One line of the sheet: what is on its way counts where it is to arrive."""
        one, two, here, there = self.sums()
        way = [-change for id, change in here.items() if id not in there]
        way += [-change for id, change in there.items() if id not in here]
        kills = ", ".join(f"{count} {whom}" for whom, count in sorted(self.kills.items()))
        self.moved = len(here)
        return COLUMNS.format(
            second, f"{one:,}", f"{two:,}", f"{sum(way):,}", f"{one + two + sum(way):,}",
            f"{self.moved:,}", kills,
        )  # fmt: skip

    def close(self) -> None:
        """Nobody stays behind."""
        for process in (self.teller, self.manager):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def settle(self) -> dict[str, object]:
        """The teller goes home; recovery brings everything to its outcome; compare all books."""
        self.teller.kill()
        self.teller.wait()
        with onceq.connect(str(self.where)) as qm:
            places = [PostgresResource(self.server.where(name)) for name in ("one", "two")]
            recovery = qm.recovery(list(places))
            now = 0.0
            while not (report := recovery.step(now)).clean:
                now += recovery.next_s(now, report)
            recovery.close()
            announced: Counter[str] = Counter()
            while True:
                try:
                    batch = qm.receive_many(ANNOUNCED, 1_000, timeout=0)
                except onceq.ReceiveTimeout:
                    break
                announced.update(json.loads(message.text)["id"] for message in batch)
            undecided = len(qm.admin.decisions()) + len(qm.admin.branches())
        one, two, here, there = self.sums()
        return {
            "transfers": len(here),
            "sum of both banks": one + two,
            "opened with": 2 * ACCOUNTS * OPENING,
            "in the books of one bank only": len(here.keys() ^ there.keys()),
            "announced": sum(announced.values()),
            "announced twice": sum(count - 1 for count in announced.values()),
            "not announced": len(here.keys() - announced.keys()),
            "announced and not done": len(announced.keys() - here.keys()),
            "left prepared": len(self.server.prepared_ids()) + undecided,
            "kills survived": sum(self.kills.values()),
        }


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Bank]:
    """A bank for the time of a block."""
    with postgres() as server:
        bank = Bank(folder, server)
        try:
            yield bank
        finally:
            bank.close()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rng = random.Random(options.seed)
    try:
        with tempfile.TemporaryDirectory(prefix="onceq-bank-") as name, opened(Path(name)) as bank:
            print(COLUMNS.format("s", "bank one", "bank two", "on its way", "sum", "transfers",
                                 "kills"))  # fmt: skip
            begun = time.monotonic()
            while (second := int(time.monotonic() - begun)) < options.seconds:
                before = bank.moved
                print(bank.line(second), flush=True)
                if bank.moved > before:  # each life gets somewhere
                    bank.kill(rng.choice(("teller", "teller", "manager", "database")))
                pause(max(second + 1 - (time.monotonic() - begun), 0))
            found = bank.settle()
    except KeyboardInterrupt:
        print("interrupted; everybody was stopped", file=sys.stderr)
        return 130
    print()
    for title, value in found.items():
        print(f"{title:32} {value:,}")
    zeros = ("in the books of one bank only", "announced twice", "not announced",
             "announced and not done", "left prepared")  # fmt: skip
    good = not any(found[title] for title in zeros)
    good = good and found["sum of both banks"] == found["opened with"] and bool(found["transfers"])
    print("\nthe sum never changed, and each transfer was announced once" if good else "\nWRONG")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
