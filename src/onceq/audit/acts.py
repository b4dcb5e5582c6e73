"""Who did what: the acts of administration that histories tell, and whether any is missing.

An act is a row among the others, and the numbers of a manager's acts always rise by one. Each file
says up to which number it tells. So a removed act leaves a hole, at any place; an act that is told
twice, or out of its turn, was added. Where files are missing, or were written before there were
acts, nobody knows the next number, and no act is missed. A manager that was put back to an earlier
moment begins again at the number of that moment.

Acts are few, so all of them are held, and Spark does not deal with them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from onceq.audit.files import Coverage, Told, told_if_damaged
from onceq.history.columns import ACT, ACT_COLUMNS, Span, span_of
from onceq.model.names import local

LAST_MAX: Final = 50
"""Acts that are shown one by one, and as many that were refused; all of them are counted."""
MISSING: Final = ("I28", "act-missing", "numbers of acts of administration, which rise by one")
ADDED: Final = ("I28", "act-added", "acts of administration, each of which is told once")
_PLACE: Final = ("eventTime", "position")
_LATER: Final[Mapping[str, str]] = {"purged": "purge", "deleted": "delete queue"}
"""What goes on behind the row of its act, and the act that it is of."""


# ---- reading -----------------------------------------------------------------------------------


def read(histories: Sequence[Coverage], fresh: Mapping[str, Sequence[str]] | None = None) -> None:
    """Tell histories of their acts.

    Args:
        fresh: By manager, the files of which they do not know yet; None: all.

    Raises:
        ConfigurationError: A file is damaged inside.
    """
    for one in histories:
        for path in one.files if fresh is None else fresh[one.id]:
            span = span_of(path.rpartition("/")[2])
            assert span is not None
            found = _of_file(path, span)
            one.numbering.take(span, one.acts_to[path], [act.act for act in found])
            one.acts += found


def _of_file(path: str, span: Span) -> list[Told]:
    with told_if_damaged(path):
        file = pq.ParquetFile(path, page_checksum_verification=True)
        groups = [at for at in range(file.metadata.num_row_groups) if _some(file, at)]
        if not groups:
            return []
        table = file.read_row_groups(groups, columns=[*ACT_COLUMNS, *_PLACE])
        table = table.filter(pc.is_valid(table[ACT]))
        at_us = table["eventTime"].cast(pa.int64())
        table = table.drop_columns(["eventTime"]).append_column("at_us", at_us)
        found = [Told(**row, life=span.life) for row in table.to_pylist()]
    return sorted(found, key=lambda act: (act.position, act.act))


def _some(file: pq.ParquetFile, group: int) -> bool:
    """Whether a part of a file may have acts; most have none, and say so."""
    names = file.schema_arrow.names
    if ACT not in names:
        return False
    column = file.metadata.row_group(group).column(names.index(ACT))
    known = column.statistics
    return known is None or not known.has_null_count or known.null_count < column.num_values


# ---- what is told ------------------------------------------------------------------------------


def findings(histories: Sequence[Coverage]) -> dict[str, Any]:
    """Return the findings about acts, for JSON."""
    every = [(act, one.manager) for one in histories for act in one.acts]
    every.sort(key=lambda one: (one[0].at_us, one[1], one[0].life, one[0].act))
    counts: dict[tuple[str, str, str], list[int]] = {}
    for act, manager in every:
        of = counts.setdefault((manager, act.actor, act.action), [0, 0])
        of[bool(act.result)] += 1
    refused = [one for one in every if one[0].result]
    return {
        "count": len(every),
        "refused": len(refused),
        "by": [
            {"manager": manager, "actor": actor, "action": action, "done": done, "refused": no}
            for (manager, actor, action), (done, no) in sorted(counts.items())
        ],
        "last": [act.plain(manager) for act, manager in every[-LAST_MAX:]],
        "last_refused": [act.plain(manager) for act, manager in refused[-LAST_MAX:]],
        "missing": _ranges(histories, "missing"),
        "added": _ranges(histories, "added"),
    }


def _ranges(histories: Sequence[Coverage], which: str) -> list[dict[str, Any]]:
    return [
        {"manager": one.manager, "first": first, "last": last}
        for one in histories for first, last in getattr(one.numbering, which)
    ]  # fmt: skip


def checked(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was compared, as the findings list it."""
    return [
        {"invariant": rule[0], "fault": rule[1], "looks_at": rule[2], "looked_at": said["count"],
         "violations": sum(one["last"] - one["first"] + 1 for one in wrong)}
        for rule, wrong in ((MISSING, said["missing"]), (ADDED, said["added"]))
    ]  # fmt: skip


def add(said: dict[str, Any], histories: Sequence[Coverage]) -> None:
    """Put into findings who did what, and what is wrong with that."""
    said["acts"] = findings(histories)
    found = checked(said["acts"])
    said["checked"] += found
    said["violations"] += sum(one["violations"] for one in found)


# ---- what an act explains ------------------------------------------------------------------------


class Acts:
    """Finds the act that explains what a row of a history tells.

    The rows of what an act did at once are between ``since`` and its own row. A purge of very many
    messages goes on behind it: then the last act of that queue counts, by the name that its caller
    gave the queue.
    """

    def __init__(self, histories: Iterable[Coverage]) -> None:
        # After a restored backup one position is two places.
        self._of = {
            one.id: [act for act in one.acts if not act.result]
            for one in histories if one.lives == 1
        }  # fmt: skip

    def why(self, row: Mapping[str, Any]) -> str:
        """Which act did it, for people; "" where there is none, or nobody knows it.

        Args:
            row: With ``manager_id``, ``event``, ``queue``, ``position`` and ``observed``.
        """
        acts = self._of.get(row["manager_id"], [])
        at = bisect_left(acts, row["position"], key=lambda act: act.position)
        if row["observed"] or not acts:
            return ""
        if at < len(acts) and acts[at].since <= row["position"] < acts[at].position:
            return _describe_act(acts[at])
        action, queue = _LATER.get(row["event"]), _plain(row["queue"] or "")
        for act in reversed(acts[:at]):
            if act.action == action and _plain(act.about) == queue:
                return _describe_act(act)
        return ""


def _describe_act(act: Told) -> str:
    about = f" {act.about}" if act.about else ""
    return f"act {act.act} of {act.actor}: {act.action}{about}"


def _plain(name: str) -> str:
    """A queue as one calls it: ``./private$/Q`` and ``DIRECT=OS:here\\private$\\q`` are one."""
    return local(name.split(";")[0])
