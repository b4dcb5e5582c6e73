"""The application: one transfer after another, each one commit over two databases and a queue.

    with qm.transaction() as tx:
        tx.enlist(one)
        tx.enlist(two)
        ...

Whatever dies, it says so, connects anew and goes on with the next transfer. It never asks what
became of the last one: recovery sees to that.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import psycopg

import onceq

ACCOUNTS = 10
ANNOUNCED = r"private$\announced"


def transfer(qm: Any, one: Any, two: Any, id: str, rng: random.Random) -> None:
    """Move money from an account of one bank to an account of the other, and announce it."""
    amount = rng.randint(-50, 50)
    with qm.transaction() as tx:
        tx.enlist(one)
        tx.enlist(two)
        for bank, change in ((one, -amount), (two, amount)):
            account = rng.randrange(ACCOUNTS)
            bank.execute(
                "UPDATE accounts SET balance = balance + %s WHERE id = %s", (change, account)
            )
            bank.execute("INSERT INTO moves VALUES (%s, %s)", (id, change))
        tx.send(ANNOUNCED, json.dumps({"id": id, "amount": amount}))


def main(where: str, first: str, second: str, name: str) -> None:
    """Work until killed."""
    rng = random.Random(name)
    number = 0
    while True:
        try:
            with (
                onceq.connect(where) as qm,
                psycopg.connect(first) as one,
                psycopg.connect(second) as two,
            ):
                while True:
                    number += 1
                    transfer(qm, one, two, f"{name}-{number}", rng)
        except (onceq.OnceqError, psycopg.Error) as error:
            print(f"{name}: {type(error).__name__}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
