"""What a child does that ``multiprocessing`` has started with an interpreter of its own
(``make hosts``), and how a program of threads connects."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import Any

import onceq
from onceq.errors import ManagerAway, OnceqError, StoreLocked
from proof.torture.hosts.ledger import Ledger, Place


@dataclass
class Carried:
    """What a program hands to a child by pickling it.

    Attributes:
        batches, messages: As they were seen; the messages are the first ones of the batches.
        bodies: What the batches held.
        errors: Those that the program was told.
    """

    batches: list[Any]
    messages: list[Any]
    bodies: list[bytes]
    errors: list[OnceqError] = field(default_factory=list)


def connected(place: Place) -> Any:
    """To a daemon that may be killed and started again just now, or to an embedded manager."""
    if place.kind == "embedded":
        return onceq.open(place.where)
    while True:
        with contextlib.suppress(ManagerAway):
            return onceq.connect(place.where, tls=place.tls, token=place.token or None)
        time.sleep(0.05)


def work_in_spawned(place: Place, carried: Carried) -> None:
    """Look at what came along, then move and send as any other program."""
    ledger = Ledger(place.told)
    try:
        _compare(ledger, carried)
        with contextlib.suppress(StoreLocked), connected(place) as qm:
            _work(ledger, place, qm)
    except OnceqError:
        pass  # What it says of a message is written down.
    except BaseException as error:
        ledger.say("fault", f"a spawned child ended with {error!r}")
        raise


def _compare(ledger: Ledger, carried: Carried) -> None:
    bodies = [bytes(body) for batch in carried.batches for body in batch.bodies()]
    if bodies != carried.bodies:
        ledger.say("fault", f"a batch was {carried.bodies}, and is {bodies} in a child")
    if any(not message.body for message in carried.messages):
        ledger.say("fault", "a message has lost its body on its way to a child")
    for error in carried.errors:
        if not error.text or not error.code:
            ledger.say("fault", f"an error says nothing any more in a child: {error!r}")


def _work(ledger: Ledger, place: Place, qm: Any) -> None:
    taken, _, out = place.queues
    with qm.transaction() as tx:
        message = tx.receive(taken, timeout=0.0)
        tx.send(out, f"m-{message.text}")
    ledger.say("moved", message.text)
    name = ledger.name()
    try:
        qm.send(out, name, transactional=True)
    except BaseException as error:
        ledger.note([name], error)
        raise
    ledger.note([name], None)
