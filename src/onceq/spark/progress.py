"""How far a stream is behind its queues, from the progress that Spark reports.

Spark shows with every batch where each source is and where its data ends. Both are offsets of this
source, so the difference is a number of messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onceq.errors import OnceqError
from onceq.spark.given import described
from onceq.spark.options import wrong
from onceq.spark.ranges import Offset


def lag(progress: Any) -> dict[str, int]:
    """How many messages each queue holds that the last batch has not read.

    A queue has the name that offsets have for it: its own, or ``address/name`` where there are
    several queue managers. Holes do not count, unless a stream that only peeks leaves what it has
    read between them.

    Args:
        progress: ``query.lastProgress``, the ``progress`` of a listener's event, or either as JSON
            text; None, as before the first batch, gives nothing.

    Returns:
        Messages behind, by queue. Sources of other formats are passed over.

    Raises:
        ConfigurationError: It is the progress of no query.
    """
    found: dict[str, int] = {}
    for source in _plain(progress).get("sources", ()):
        ends = [_offset(source.get(name)) for name in ("endOffset", "latestOffset")]
        at, last = ends
        if last is None:
            continue
        before = last.begins or {}
        for key, to in last.to.items():
            place = at.to.get(key, 0) if at is not None else 0
            if key in last.messages and before.get(key) == place:
                found[key] = last.messages[key]
                continue
            found[key] = max(to - max(place, before.get(key, 0)), 0)
    return found


def lag_bytes(progress: Any) -> dict[str, int]:
    """About how many bytes of packets each queue holds that the last batch has not read: those of
    the whole queue, in the share of the messages that are behind.

    Args:
        progress: As for ``lag``.

    Raises:
        ConfigurationError: It is the progress of no query.
    """
    found: dict[str, int] = {}
    for source in _plain(progress).get("sources", ()):
        report = source.get("latestOffset")
        if isinstance(report, str):
            report = json.loads(report)
        if not isinstance(report, Mapping) or _offset(report) is None:
            continue
        names = report.get("names", {})
        found |= {names[one]: int(count) for one, count in report.get("bytes", {}).items()}
    return found


def _plain(progress: Any) -> Mapping[str, Any]:
    """Progress as a dictionary, whatever form Spark gives it."""
    if progress is None:
        return {}
    if isinstance(progress, Mapping) and not hasattr(progress, "json"):
        return progress
    text: Any = progress if isinstance(progress, str) else getattr(progress, "json", None)
    try:
        return dict(json.loads(text() if callable(text) else text))
    except (TypeError, ValueError):
        raise wrong(
            "lag needs the progress of a query (query.lastProgress, or event.progress of a "
            f"listener), or its JSON, and was given {described(progress)}"
        ) from None


def _offset(value: Any) -> Offset | None:
    """An offset of this source; None for anything else."""
    try:
        return Offset.unpack(json.loads(value) if isinstance(value, str) else value)
    except (OnceqError, ValueError):
        return None
