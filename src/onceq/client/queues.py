"""Making queues: from a path name to the properties of a queue."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceq.client.link import Request
from onceq.client.plans import Plan, look
from onceq.errors import IllegalPathName, QueueExists
from onceq.model.identity import GUID_BYTES, guid_text
from onceq.model.names import parse_path_name
from onceq.model.views import looks
from onceq.wire.app import frames
from onceq.wire.app.frames import Code


def property_values(values: dict[str, Any]) -> dict[str, Any]:
    """Queue properties as they go into a frame; those that are None are left out."""
    plain = {name: value for name, value in values.items() if value is not None}
    kind = plain.get("type")
    if isinstance(kind, UUID):
        plain["type"] = str(kind)
    elif isinstance(kind, (bytes, bytearray)) and len(kind) == GUID_BYTES:
        plain["type"] = guid_text(bytes(kind))
    return plain


def set_plan(name: str, values: dict[str, Any]) -> Plan:
    """Change properties of a queue; see ``QueueManager.set_queue``."""
    yield Request(Code.SET, frames.SetHead(name, property_values(values)))
    return (yield from look(looks.QUEUE, name))


def create_plan(
    name: str, *, transactional: bool, label: str, quota_kb: int | None, exist_ok: bool,
    **more: Any,
) -> Plan:  # fmt: skip
    """Make a queue; see ``QueueManager.create_queue``."""
    path = parse_path_name(name)
    if not path.queue or path.subqueue or path.is_read_only:
        raise IllegalPathName(f"{name!r} is not a queue that can be made")
    values: dict[str, Any] = {"name": path.queue, "transactional": transactional, "label": label}
    if not path.private:
        values["private"] = False
    values |= property_values({"quota_kb": quota_kb, **more})
    try:
        yield Request(Code.CREATE, frames.CreateHead(values))
    except QueueExists:
        if not exist_ok:
            raise
        there = yield from look(looks.QUEUE, name)
        if there.transactional != transactional:
            raise
        return there
    return (yield from look(looks.QUEUE, name))
