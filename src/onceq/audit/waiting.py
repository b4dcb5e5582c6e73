"""Whether as many messages wait in a queue as the history of its manager says.

A living queue manager is asked before its history is read: it answers with counts, and with the
place of its log at which they are true (``core/management/work_views.py``). The history is
counted up to exactly that place: what had come in and had not gone. A difference is a message that
is in a queue, or is gone from it, without a record.

Only transactional messages are compared; of others, such as reports that a manager makes, a history
does not tell each arrival. A history whose beginning is cut off proves one half: what has come
since and has not gone must be there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from onceq.audit import files
from onceq.audit.engine import OWN_GRAVES_FROM, Engine, literal
from onceq.errors import ConfigurationError
from onceq.model.limits import AUDIT_ASK_WAIT_S
from onceq.model.views.queues import WaitingView
from onceq.model.wording import plural

DIFFERS: Final = "I1", "waiting-differs"
_COMES: Final = ("committed", "accepted", "moved")
_GOES: Final = (
    "acknowledged", "released", "confirmed", "not-received", "not-delivered", "in-doubt",
    "received", "expired", "rejected", "purged", "deleted", "lost",
)  # fmt: skip
_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Asked:
    """What a living queue manager has counted.

    Attributes:
        name: How it was called when it was asked.
        pages: In the order of the numbers of queues, each at a place of the log of its own.
        keeps: Whether it keeps a history now; one that does not goes on writing none.
    """

    name: str
    pages: Sequence[WaitingView]
    keeps: bool = True

    @property
    def manager(self) -> str:
        """Its GUID."""
        return self.pages[0].manager

    @property
    def position(self) -> int:
        """The last place at which something was counted."""
        return max(page.position for page in self.pages)


@dataclass(frozen=True, slots=True)
class Counted:
    """What was found about those that were asked.

    Attributes:
        looked_at: Queues that were compared.
        differ: Each queue with both numbers, as JSON has it.
        notes: What could not be compared, and why.
    """

    looked_at: int
    differ: list[dict[str, Any]]
    notes: list[str]


def until_told(
    folders: Sequence[str], asked: Sequence[Asked], pause: Callable[[float], object]
) -> None:
    """Wait, for AUDIT_ASK_WAIT_S at most, until histories in folders tell of what was counted.

    Raises:
        ConfigurationError: They are not there, and it is no first file that is still to come.
    """
    _refuse_silent(folders, asked)
    keeps = [one for one in asked if one.keeps]
    for _ in range(int(AUDIT_ASK_WAIT_S / _PAUSE_S) if keeps else 0):
        if not files.is_to_come(folders) and tell_enough(files.find(folders), keeps):
            return
        pause(_PAUSE_S)


def _refuse_silent(folders: Sequence[str], asked: Sequence[Asked]) -> None:
    """Raise ConfigurationError if somebody was asked whose history is neither there nor to come."""
    silent = [one for one in asked if not one.keeps]
    if not silent:
        return
    there = [folder for folder in folders if not files.is_to_come([folder])]
    known = {history.id for history in files.find(there)} if there else set()
    for one in silent:
        if one.manager not in known:
            raise ConfigurationError(
                f"--ask {one.name}: that queue manager, {one.manager}, keeps no history (history = "
                "true in [settings] of its onceq.toml), and none of these is of it"
            )


def tell_enough(histories: Sequence[files.Coverage], asked: Sequence[Asked]) -> bool:
    """Whether they tell of what was counted; raises ConfigurationError where one is not there."""
    ends = {history.id: history.end for history in histories}
    for one in asked:
        if one.manager not in ends:
            raise ConfigurationError(
                f"--ask {one.name}: none of these histories is of that queue manager, {one.manager}"
            )
    return all(ends[one.manager] >= one.position for one in asked)


def compared(
    engine: Engine, histories: Sequence[files.Coverage], asked: Sequence[Asked]
) -> Counted:
    """Compare what managers have counted with their histories."""
    found = Counted(0, [], [])
    looked_at = 0
    for one in asked:
        (history,) = (each for each in histories if each.id == one.manager)
        reason = _untold(history, one)
        if reason:
            found.notes.append(f"what waits in {history.manager} was not compared: {reason}")
            continue
        if history.start:
            found.notes.append(
                f"of what waits in {history.manager}, what had come before log position "
                f"{history.start:,} is not in its history: more may wait there, and less may not"
            )
        looked_at += _compare(engine, history, one, found)
    return Counted(looked_at, found.differ, found.notes)


def _untold(history: files.Coverage, asked: Asked) -> str:
    """Why a history does not tell what had come in and gone; "" if it does."""
    if not history.unbroken:
        return "parts of its history are missing"
    if history.end < asked.position:
        return (
            f"its history ends at log position {history.end:,}, and it has counted at "
            f"{asked.position:,}; name its data directory, or copy the history later"
        )
    first = min(page.at for page in asked.pages)
    if any(start.at_us // 1_000_000 > first for start in history.starts):
        return "it was started again after it had counted"
    return ""


def _compare(engine: Engine, history: files.Coverage, asked: Asked, found: Counted) -> int:
    """Add what differs in one manager; how many of its queues were compared."""
    manager = literal(engine.party_of(history.id))
    engine.make("stay", _stays(manager))
    looked_at, after = 0, 0
    for page in asked.pages:
        here = {row.number: row for row in page.rows}
        last = max(here, default=after) if page.more else None
        told = {row["place"]: row["messages"] for row in engine.rows(f"""
            SELECT place, count(*) AS messages FROM stay
            WHERE place > {after} AND {'true' if last is None else f'place <= {last}'}
              AND came < {page.position} AND coalesce(went >= {page.position}, true)
            GROUP BY place
        """)}  # fmt: skip
        looked_at += len(here)
        for number in sorted(here.keys() | told.keys()):
            row, by_history = here.get(number), told.get(number, 0)
            counted = row.messages if row else 0
            if counted < by_history or (counted > by_history and not history.start):
                found.differ.append({
                    "manager": history.manager, "place": number,
                    "queue": row.name if row else _name(engine, manager, number),
                    "position": page.position, "counted": counted, "told": by_history,
                })  # fmt: skip
        after = last or after
    return looked_at


def _stays(manager: str) -> str:
    """Of each place that a transactional message has stood in at a manager: where the record lies
    by which it came, and where the one by which it went; NULL: it is there."""
    buried = f"event = 'dead-lettered' AND place >= {OWN_GRAVES_FROM}"
    of = f"FROM event WHERE manager = {manager} AND NOT observed AND transactional AND"
    return f"""
        SELECT
          place, lookup, min(position) FILTER (WHERE enters) AS came,
          min(position) FILTER (WHERE NOT enters) AS went
        FROM (
          SELECT place, lookup, position, true AS enters {of} (event IN {_COMES} OR ({buried}))
          UNION ALL
          SELECT place, lookup, position, false AS enters {of} event IN {_GOES}
          UNION ALL
          SELECT from_place, from_lookup, position, false AS enters {of} event = 'moved'
        )
        GROUP BY place, lookup
        HAVING min(position) FILTER (WHERE enters) IS NOT NULL
    """


def sentence(one: Mapping[str, Any]) -> str:
    """A difference in words."""
    return (
        f"{one['queue']} of {one['manager']} has {plural(one['counted'], 'message')} waiting, and "
        f"{one['told']:,} by its history (at log position {one['position']:,})"
    )


def _name(engine: Engine, manager: str, number: int) -> str:
    """What a history calls a queue that its manager does not have."""
    (row,) = engine.rows(
        "SELECT q.name FROM event e JOIN queue_name q ON q.queue = e.queue "
        f"WHERE e.manager = {manager} AND e.place = {number} ORDER BY e.event_row LIMIT 1"
    )
    return str(row["name"])
