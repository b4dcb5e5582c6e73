"""``onceq bench``: what this machine and this queue manager do, in a few seconds.

The figures are for comparing machines and settings. All of them stand beside the disk's own rate
of syncs, measured in the same run, because that is what a durable commit cannot beat.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from onceq.cli import out
from onceq.cli.common import TOP, Json, dumped, manager
from onceq.cli.parameters import Option
from onceq.errors import ConfigurationError

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager

MESSAGES_MAX = 200_000


def bench(
    seconds: Annotated[
        float, Option(
            "--seconds", metavar="S", min=0.01, max=60.0, help="For each size of transaction."
        ),
    ] = 1.0,
    size: Annotated[
        int, Option("--size", metavar="N", min=8, max=1 << 20, help="Bytes of a body.")
    ] = 1024,
    sizes: Annotated[
        str, Option("--tx", metavar="N,N...", help="Messages of a transaction.")
    ] = "1,10,100,1000",
    qm: Annotated[
        str | None,
        Option(
            "--qm", "-q", metavar="WHERE", show_default=False,
            help="A running queue manager; without, one inside this process is measured.",
        ),
    ] = None,
    folder: Annotated[
        str,
        Option(
            "--folder", metavar="DIR", show_default=False,
            help="On the disk to measure [the directory for temporary files].",
        ),
    ] = "",
    json: Json = False,
) -> None:  # fmt: skip
    """Measure durable transactional send and receive against the disk's own rate of syncs.

    It works in a queue of its own and leaves nothing behind.
    """
    from onceq.cli.measure import Bodies, latency

    commits = _sizes(sizes)
    where = folder or tempfile.gettempdir()
    if not os.path.isdir(where):
        raise ConfigurationError(f"--folder {where} is not a directory")
    with (
        tempfile.TemporaryDirectory(prefix="onceq-bench-", dir=where) as scratch,
        _measured(qm or TOP.qm, scratch) as (connection, queue),
    ):
        rows = [
            _one(connection, queue, scratch, per_commit, size=size, seconds=seconds)
            for per_commit in commits
        ]
        rounds = max(int(seconds * 500), 20)
        times = latency(connection, queue, connection, queue, Bodies(size), rounds=rounds)
    single = {
        "commit_p50_ms": round(times.commit_p50, 3), "commit_p99_ms": round(times.commit_p99, 3),
        "whole_p50_ms": round(times.whole_p50, 3), "whole_p99_ms": round(times.whole_p99, 3),
    }  # fmt: skip
    if dumped({"body_bytes": size, "rates": rows, "latency": single}, json):
        return
    out.table(
        ("messages a transaction", "disk syncs/s", "sent/s", "commits/disk", "received/s"),
        [
            (r["per_commit"], round(r["syncs_s"]), round(r["sent_s"]),
             round(r["commits_s"] / r["syncs_s"], 2), round(r["received_s"]))
            for r in rows
        ],
    )  # fmt: skip
    out.line(
        f"one message: committed in {single['commit_p50_ms']} ms (p99 {single['commit_p99_ms']}), "
        f"sent and received in {single['whole_p50_ms']} ms (p99 {single['whole_p99_ms']})"
    )


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or not all(1 <= size <= 10_000 for size in sizes):
        raise ConfigurationError(f"--tx {text!r}: write numbers from 1 to 10000, such as 1,10,100")
    return sizes


@contextmanager
def _measured(where: str | None, scratch: str) -> Iterator[tuple[QueueManager, str]]:
    """The queue manager to measure, with a queue for it."""
    queue = f"private$\\onceq-bench-{os.getpid()}"
    if where is None:
        from onceq.embedded.opening import open as open_embedded

        with open_embedded(os.path.join(scratch, "qm"), name="BENCH", create=True) as qm:
            qm.create_queue(queue, transactional=True)
            yield qm, queue
        return
    with manager(where) as qm:
        qm.create_queue(queue, transactional=True)
        try:
            yield qm, queue
        finally:
            qm.delete_queue(queue)


def _one(
    qm: QueueManager, queue: str, scratch: str, per_commit: int, *, size: int, seconds: float
) -> dict[str, Any]:
    from onceq.cli.measure import Bodies, receive, send, sync_rate

    bodies = Bodies(size)
    syncs = sync_rate(scratch, min(seconds, 0.4))
    sent = send(
        qm, queue, bodies, per_commit=per_commit, seconds=seconds, messages_max=MESSAGES_MAX
    )
    got = receive(qm, queue, bodies, per_commit=per_commit, messages=sent.messages)
    return {
        "per_commit": per_commit, "syncs_s": round(syncs, 1), "sent_s": round(sent.messages_s, 1),
        "commits_s": round(sent.commits_s, 1), "received_s": round(got.messages_s, 1),
    }  # fmt: skip
