"""``make bench-two-phase``: what it costs that a queue commits with PostgreSQL.

The same work in one run, in turns: an insert into PostgreSQL with PREPARE TRANSACTION and COMMIT
PREPARED by hand; the same insert with a message sent, in one commit by ``tx.enlist``, with two
phases and with the database as the last agent. The cost is the time of a commit, divided by the
time of the two phases by hand. Beside them, for orientation, the insert with a plain local commit,
and the message alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

import onceq
from onceq.cli.bench import sync_rate
from onceq.partners.postgresql import PostgresLast
from tests.daemon.applications import Daemon
from tests.servers import Postgres

Q = r"private$\q"
BODY = b"x" * 1024
GOALS = {"embedded": 1.0, "daemon": 1.15}
"""Of the cost with the database as the last agent."""
INSERT = "INSERT INTO t (body) VALUES (%s)"


class Durable(Postgres):
    """With its log synced: this is about what it costs."""

    def command(self) -> list[str]:
        return [word.replace("fsync=off", "fsync=on") for word in super().command()]


def by_hand(db: psycopg.Connection, count: int) -> None:
    for number in range(count):
        db.tpc_begin(db.xid(1, f"bench-{time.monotonic_ns()}-{number}", "x"))
        db.execute(INSERT, (BODY,))
        db.tpc_prepare()
        db.tpc_commit()


def alone(db: psycopg.Connection, count: int) -> None:
    for _ in range(count):
        db.execute(INSERT, (BODY,))
        db.commit()


def both(qm: onceq.QueueManager, partner: Callable[[], object], count: int) -> None:
    for _ in range(count):
        with qm.transaction() as tx:
            db = tx.enlist(partner())
            db.execute(INSERT, (BODY,))
            tx.send(Q, BODY)


def queue(qm: onceq.QueueManager, count: int) -> None:
    for _ in range(count):
        with qm.transaction() as tx:
            tx.send(Q, BODY)


def spread(values: list[float]) -> str:
    return f"   {min(values):,.0f} to {max(values):,.0f}"


def rate(work: Callable[[], None], count: int) -> float:
    begun = time.perf_counter()
    work()
    return count / (time.perf_counter() - begun)


def main(arguments: list[str]) -> int:
    """The command; 1 if messages and rows do not agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--commits", type=int, default=400, help="in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    count, found = options.commits, {}
    with tempfile.TemporaryDirectory(prefix="onceq-b2-") as name, Durable() as server:
        server.start()
        server.sql("CREATE TABLE t (id serial PRIMARY KEY, body bytea)")
        folder = Path(name)
        with (
            Daemon(folder / "d", name="BENCH") as daemon,
            onceq.connect(daemon.where) as remote,
            onceq.open(str(folder / "e"), name="INSIDE", create=True) as inside,
            psycopg.connect(server.conninfo()) as db,
        ):
            for qm in (remote, inside):
                qm.create_queue(Q, transactional=True)
                both(qm, lambda: db, 20)
                both(qm, lambda: PostgresLast(db), 20)
            cases: dict[str, Callable[[], None]] = {
                "PostgreSQL, local commit": lambda: alone(db, count),
                "PostgreSQL, two phases by hand": lambda: by_hand(db, count),
                "queue, embedded": lambda: queue(inside, count),
            }
            for where, at in (("embedded", inside), ("daemon", remote)):
                cases[f"two phases, {where}"] = partial(both, at, lambda: db, count)
                cases[f"last agent, {where}"] = partial(both, at, lambda: PostgresLast(db), count)
            rates: dict[str, list[float]] = {title: [] for title in cases}
            yards = []
            for _ in range(options.rounds):
                yards.append(sync_rate(name, 0.3))
                for title, work in cases.items():
                    rates[title].append(rate(work, count))
            rows = int(server.sql("SELECT count(*) FROM t")[0][0])
            sent = sum(qm.queue(Q).messages for qm in (remote, inside))
    found = {title: statistics.median(values) for title, values in rates.items()}
    hand = found["PostgreSQL, two phases by hand"]
    costs = {
        title: hand / value
        for title, value in found.items()
        if title.startswith(("two phases", "last agent"))
    }
    good = rows == 80 + 6 * count * options.rounds and sent == 80 + 5 * count * options.rounds
    if options.json:
        print(json.dumps({"commits/s": found, "cost": costs, "right": good}))
        return 0 if good else 1
    print(f"the disk: {statistics.median(yards):,.0f} syncs/s")
    for title, value in found.items():
        print(f"{title:34} {value:10,.0f} commits/s{spread(rates[title])}")
    for title, cost in costs.items():
        goal = GOALS[title.partition(", ")[2]] if title.startswith("last agent") else None
        verdict = f"   goal: {goal:.2f}, {'met' if cost <= goal else 'MISSED'}" if goal else ""
        print(f"cost of queue and PostgreSQL, {title:22} {cost:6.2f}{verdict}")
    if not good:
        print(f"WRONG: {rows} rows and {sent} messages", file=sys.stderr)
    return 0 if good else 1
