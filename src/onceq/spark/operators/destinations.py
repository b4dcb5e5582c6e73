"""What there is where messages arrive: the table of queues that ``settle`` is given.

It is read once, on the driver, and goes with every task; names compare in any case and with either
slash, as everywhere.

Upholds: I24 (the table has a limit).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.spelling import folded
from onceq.spark.given import frame_given
from onceq.spark.operators.columns import TEXT, WHOLE, YES_NO, need
from onceq.spark.options import wrong

COLUMNS: Final = {
    "queue": (TEXT, "the name of the queue, as messages name it"),
    "transactional": (YES_NO, "whether it is transactional"),
}
OPTIONAL: Final = {
    "journal": (YES_NO, "whether it keeps a journal; null: it does not"),
    "quotaKb": (WHOLE, "KiB that it may hold; null, or 4,294,967,295: no limit"),
    "usedBytes": (
        WHOLE,
        "bytes that lay in it before the first of these messages, and stay; null: 0",
    ),
}
QUEUES_MAX: Final = 100_000
"""Queues of a table: it goes with every task."""
UNLIMITED: Final = 1 << 62
"""More bytes than anything holds."""
SIZE_MAX: Final = 1 << 42
"""Larger than every quota: what claims to be larger still counts as this, so that sums are sums."""
SYSTEM_NAMES: Final = ("admin_queue$", "notify_queue$", "order_queue$")
"""Queues that managers use among themselves, which may be kept quiet (Q-17)."""


@dataclass(frozen=True, slots=True)
class Place:
    """One queue: its properties, and bytes that it may hold and that it holds."""

    transactional: bool
    journal: bool = False
    quota_bytes: int = UNLIMITED
    used_bytes: int = 0

    @property
    def limited(self) -> bool:
        """Whether it has a quota."""
        return self.quota_bytes < UNLIMITED


def queue_table(queues: Any, what: str) -> Mapping[str, Place]:
    """The queues of a frame by folded name.

    Raises:
        ConfigurationError: A column is missing, or a row cannot be.
    """
    what = f"{what}: the table of queues"
    frame_given(queues, what)
    given = {name: kind for name, kind in OPTIONAL.items() if name in queues.columns}
    need(queues, what, {**COLUMNS, **given})
    rows = queues.select(*COLUMNS, *given).limit(QUEUES_MAX + 1).collect()
    if len(rows) > QUEUES_MAX:
        raise wrong(f"{what} has more than {QUEUES_MAX} rows; give those that messages go to")
    found: dict[str, Place] = {}
    for row in rows:
        name, place = _place(row.asDict(), what)
        if folded(name) in found:
            raise wrong(f"{what} has {name} twice")
        found[folded(name)] = place
    return found


def _place(row: dict[str, Any], what: str) -> tuple[str, Place]:
    name, transactional = row["queue"], row["transactional"]
    if not name or transactional is None:
        raise wrong(f"{what} has a row without a name, or that does not say transactional")
    quota, used = row.get("quotaKb"), row.get("usedBytes") or 0
    if quota is None:
        quota = QUOTA_UNLIMITED_KB
    if not 0 <= quota <= QUOTA_UNLIMITED_KB or used < 0:
        raise wrong(
            f"{what}: {name} has quotaKb {quota} and usedBytes {used}; they are whole numbers, "
            f"from 0 to {QUOTA_UNLIMITED_KB} and from 0 up"
        )
    limit = UNLIMITED if quota == QUOTA_UNLIMITED_KB else quota << 10
    return name, Place(transactional, bool(row.get("journal")), limit, min(used, SIZE_MAX))


def is_system(name: str) -> bool:
    """Whether a queue, by its folded name, is one that managers use among themselves."""
    return name.rpartition("\\")[2] in SYSTEM_NAMES
