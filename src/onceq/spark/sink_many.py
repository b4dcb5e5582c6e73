"""One decision about the parts of a write at several queue managers.

The first queue manager decides: the record there that commits its own branches and the anchors of
the tasks (``core/transaction/groups.py``) is the decision, and remembers the version. Branches at
the others have its name in their identifiers, so they wait for it, however long that takes. When it
has decided they are told, in the order of the partitions. Whoever comes next tells what a driver
that died has not told: the same batch when it is repeated, any later write through the same queue
managers, or ``onceq tx recover``. Nothing is remembered at the others.

Upholds: I2, I21 (one record decides), I4 (the version stands in it), I20.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from onceq.client.recovering import ManagerResource
from onceq.client.threads.manager import QueueManager
from onceq.errors import GroupIncomplete, ManagerAway
from onceq.model.views.work import GroupResult
from onceq.model.xid import GROUP_MARK, Xid, group_of
from onceq.spark.targets import wrong

_NAME: Final = re.compile(re.escape(GROUP_MARK) + rb"(\d+)\.(\d+)")
log = logging.getLogger("onceq.spark")


def decide(
    managers: Sequence[QueueManager], app: str, version: int,
    elsewhere: Sequence[tuple[int, Xid]], commit: Callable[[QueueManager], GroupResult],
) -> GroupResult:  # fmt: skip
    """Have a group committed, with its parts at other queue managers, and tell these.

    Args:
        managers: Connections; the first decides.
        elsewhere: Branches that were prepared at others, with the index of each of these.
        commit: Asks the first for the decision. May be asked again.

    Raises:
        ConfigurationError: Another one than the first has decided before.
        GroupIncomplete: A part is gone. Nothing was decided.
        ServiceNotAvailable: It is decided, and one of the others does not know yet.
    """
    home, others = managers[0], managers[1:]
    _check_home(managers, app, version)
    if _last(home, app) < version:
        for at, other in enumerate(others, 1):
            here = {view.xid for view in other.branches() if view.phase == "prepared"}
            gone = [str(xid) for where, xid in elsewhere if where == at and str(xid) not in here]
            if gone:
                raise GroupIncomplete(
                    f"version {version} of {app!r} cannot be committed: branch {gone[0]} is not "
                    f"prepared at {other.name} (rolled back, or decided by hand); nothing of it "
                    "was sent"
                )
    done = commit(home)
    tell(home, others)
    return done


def tell(home: QueueManager, others: Sequence[QueueManager]) -> None:
    """Bring what waits at others for the first to the outcome that it has decided.

    Raises:
        ServiceNotAvailable: One of them does not know yet.
    """
    recovery = home.recovery([_Parts(other) for other in others])
    report = recovery.step(time.monotonic())
    for _, xid, said in report.by_hand:
        log.warning("part %s was decided by hand: %s", xid, said)
    if report.failed:
        ((name, why), *_) = report.failed.items()
        raise ManagerAway(
            f"{name} could not be told what {home.name} has decided ({why}). Nothing is lost, and "
            "it waits for that: write the same batch again, under the same txnAppId and "
            "txnVersion, or call onceq tx recover --other for it"
        )


def _check_home(managers: Sequence[QueueManager], app: str, version: int) -> None:
    if len({manager.id for manager in managers}) < len(managers):
        raise wrong("queueManager has two addresses of one queue manager")
    if _last(managers[0], app) >= version:
        return
    for other in managers[1:]:
        if _last(other, app) >= version:
            raise wrong(
                f"{other.name} has committed version {version} of {app!r}, and {managers[0].name}, "
                "the first address in queueManager, knows nothing of it: it would be sent a second "
                f"time. Put {other.name} first, where it has been"
            )


def _last(manager: QueueManager, app: str) -> int:
    return next((view.version for view in manager.groups.list() if view.app == app), -1)


class _Parts(ManagerResource):
    """Parts at one queue manager: batches as they came, and each in the order of its partitions."""

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """See Resource."""
        found = [xid for xid in super().recover(prefix) if group_of(xid)]
        order: dict[bytes, int] = {}
        for xid in found:
            order.setdefault(group_of(xid), len(order))
        return sorted(found, key=lambda xid: (order[group_of(xid)], _place(xid)))


def _place(xid: Xid) -> tuple[int, int]:
    match = _NAME.fullmatch(xid.bqual)
    return (int(match[1]), int(match[2])) if match is not None else (0, 0)
