"""What is remembered of streams of Spark: ``onceq spark forget`` and ``tx forget-group``.

It keeps a stream with a new checkpoint from losing messages beside an old folder, and a batch that
is written twice from being sent twice, so both ask before they forget. Needs no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import Argument, DryRun, Option, Where, Yes, agreed, manager
from onceq.errors import UsageError

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.model.views.queues import ReaderView

Queues = Annotated[list[str], Argument(metavar="QUEUE...", help="Names of the queues.")]
Some = Annotated[
    list[str] | None, Argument(metavar="[QUEUE...]", help="Names of the queues [all].")
]
Subscription = Annotated[
    str, Option("--subscription", metavar="NAME", help="Of the stream; without: no name.")
]


def forget(
    queues: Queues, subscription: Subscription = "", dry_run: DryRun = False, yes: Yes = False,
    qm: Where = None,
) -> None:  # fmt: skip
    """Let a stream begin anew: forget that one of that subscription has read these queues.

    Do so when the new stream has a new checkpoint AND writes to a new folder or table. With the old
    one its sink takes the first batches for those that it has written, and their messages are lost.
    """
    from onceq.client.plans import cursors

    with manager(qm) as connection:
        known = [_known(connection, queue, subscription) for queue in queues]
        for one in known:
            name = f" by subscription {one.reader!r}" if one.reader else ""
            who = one.who or "nobody said who"
            said = f"that {out.name(one.queue)} was read{name} up to {one.to} ({who})"
            if dry_run:
                out.line(f"would be forgotten: {said}")
                continue
            if not yes:
                out.note("a stream that begins anew must write to a new folder or table.")
            agreed(f"forget {said}?", yes=yes)
            connection._run(cursors.forget(connection._state, one.queue, one.reader))
            out.line(f"forgotten: {said}")


def _readers(connection: QueueManager, queue: str) -> list[ReaderView]:
    from onceq.client.plans import cursors

    found = connection._run(cursors.readers(connection._state, queue))
    return sorted(found, key=lambda one: -one.since)  # who has read last comes first


def _known(connection: QueueManager, queue: str, subscription: str) -> ReaderView:
    found = _readers(connection, queue)
    for one in found:
        if one.reader == subscription:
            return one
    whom = f"of subscription {subscription!r}" if subscription else "without a subscription"
    named = (f"--subscription {o.reader!r}" if o.reader else "no --subscription" for o in found)
    cure = f"say {' or '.join(named)}" if found else "nobody has read and removed its messages"
    raise UsageError(f"no stream {whom} is remembered of {queue}; {cure}")


App = Annotated[str, Argument(metavar="APP", help="As the list shows it: txnAppId, or query:...")]


def forget_group(app: App, dry_run: DryRun = False, yes: Yes = False, qm: Where = None) -> None:
    """Forget the last version of an application: its next batch is sent, whatever its version."""
    with manager(qm) as connection:
        group = next((g for g in connection.groups.list() if g.app == app), None)
        if group is None:
            raise UsageError(f"no version is remembered of {app!r}; 'tx groups' shows the others")
        said = f"version {group.version} of {app}"
        if dry_run:
            out.line(f"would be forgotten: {said}")
            return
        if not yes:
            out.note(
                "if it is still at work, or is started again with its old checkpoint, a batch that "
                "was sent may be sent a second time."
            )
        agreed(f"forget {said}?", yes=yes)
        connection.groups.forget(app)
    out.line(f"forgotten: {said}")
