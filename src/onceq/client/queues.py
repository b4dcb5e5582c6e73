"""Making queues: from a path name to the properties of a queue."""

from __future__ import annotations

from typing import Any, cast

from onceq.client.link import Request
from onceq.client.plans import Plan
from onceq.errors import IllegalPathName, QueueExists, UnsupportedOperation
from onceq.model.names import parse_path_name
from onceq.wire.app import frames
from onceq.wire.app.frames import Code


def create_plan(
    name: str, *, transactional: bool, label: str, quota_kb: int | None, exist_ok: bool
) -> Plan:
    """Make a queue; see ``QueueManager.create_queue``."""
    path = parse_path_name(name)
    if not path.queue or path.subqueue or path.is_read_only:
        raise IllegalPathName(f"{name!r} is not a queue that can be made")
    if not path.private:
        raise UnsupportedOperation(
            f"{name!r} is a public queue, and this queue manager runs without a directory; write "
            f"private$\\{path.queue}"
        )
    values: dict[str, Any] = {"name": path.queue, "transactional": transactional, "label": label}
    if quota_kb is not None:
        values["quota_kb"] = quota_kb
    try:
        made = yield Request(Code.CREATE, frames.CreateHead(values))
    except QueueExists:
        if not exist_ok:
            raise
        made = yield Request(Code.LOOK, frames.LookHead("queue", name))
        there = cast(dict[str, Any], made)
        if there["transactional"] != transactional:
            raise
        return there
    return (yield Request(Code.LOOK, frames.LookHead("queue", name))) if made else made
