"""A queue manager with something to see in it, and a console that watches it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onceq.client.opening import connect
from onceq.client.threads.manager import QueueManager
from onceq.model.branches import Xid
from onceq.model.letters import filter_of
from onceq.model.message import Journal
from tests import nursery
from tests.daemon.shell import ONCEQ

SCRIPT = "<script>document.title='taken'</script>"
"""What somebody may write into a label to have browsers run it."""
ORDERS, PLAIN, RETRY = r"private$\orders", r"private$\parcels", r"private$\invoices"
OLD = r"private$\old"
BRANCH = Xid(7, b"booking-4711", b"queue")
TOKEN = "a-token-of-forty-characters-for-the-tests"


def furnish(qm: QueueManager) -> None:
    """Queues with messages, dead letters of two reasons, a branch in doubt, something that waits
    for a queue manager that is away; and a script wherever people can write."""
    qm.create_queue(ORDERS, transactional=True, label="Orders of the shop")
    qm.create_queue(PLAIN, label=SCRIPT)
    qm.create_queue(RETRY, transactional=True)
    for number in range(60):
        qm.send(ORDERS, b'{"order": %d, "items": ["chair", "table"]}' % number,
                transactional=True, label=f"order {number}")  # fmt: skip
    qm.send(PLAIN, SCRIPT.encode(), label=SCRIPT)
    qm.send(PLAIN, bytes(range(256)), label="bytes")
    dead: dict[str, Any] = {"transactional": True, "journal": Journal.DEADLETTER}
    for number in range(3):
        qm.send(RETRY, b"invoice %d" % number, label=f"invoice {number}", **dead)
    qm.purge(RETRY)
    qm.create_queue(OLD)
    qm.send(OLD, b"lost", label=SCRIPT, journal=Journal.DEADLETTER)
    qm.delete_queue(OLD)
    # Its queue is gone: that fails, and is named.
    job = qm.jobs.start("return", "SYSTEM$;DEADLETTER", which=filter_of(label=SCRIPT))
    qm.jobs.wait(job.number)
    qm.send("DIRECT=OS:BETA/private$/stock", b"12 chairs", transactional=True, label="stock")
    prepared(qm)


def prepared(qm: QueueManager, xid: Xid = BRANCH) -> None:
    """A branch whose coordinator does not come back."""
    work = qm.branch(xid)
    work.send(ORDERS, b"a booking", label="booking")
    work.end()
    qm.xa.prepare(xid)


@dataclass
class Running:
    """``onceq console`` as a process.

    Attributes:
        link: That signs a browser in, once.
        address: Of its first page.
        error: Its log.
    """

    popen: subprocess.Popen[str]
    address: str
    link: str
    error: Path
    lines: list[str] = field(default_factory=list)


@contextlib.contextmanager
def console(
    folder: Path, *places: Path | str, code: int = 0, token_file: Path | None = None,
    openid: Path | None = None,
) -> Iterator[Running]:  # fmt: skip
    """Run one until the end of the block; it must then stop in order.

    Args:
        token_file: What it shows queue managers; None: it is the account of the tests.
        openid: Where people sign in, and as what; None: by a link.
    """
    named = [word for place in places for word in ("-q", str(place))]
    shown = ["--token-file", str(token_file)] if token_file else []
    people = ["--openid", str(openid)] if openid else []
    error = folder / "console.log"
    with open(error, "w") as log:
        popen = nursery.Popen(
            [*ONCEQ, *shown, "console", "--port", "0", *people, *named], text=True,
            stdout=subprocess.PIPE, stderr=log, env={**os.environ, "ONCEQ_CONSOLE_TOKEN": TOKEN},
        )  # fmt: skip
    assert popen.stdout is not None
    try:
        first, second = popen.stdout.readline(), popen.stdout.readline()
        found = re.search(r"http\S+", first), re.search(r"http\S+", second)
        assert found[0], error.read_text()
        assert found[1], error.read_text()
        yield Running(popen, found[0][0], found[1][0], error)
    finally:
        popen.send_signal(signal.SIGTERM)
        ended = popen.wait(30)
        popen.stdout.close()
    assert ended == code, error.read_text()


def furnished(path: Path) -> None:
    """Furnish the queue manager that runs on a directory."""
    with connect(str(path)) as qm:
        furnish(qm)
