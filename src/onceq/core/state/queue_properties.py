"""Properties of queues in records and checkpoints, and those of a queue's journal."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from onceq.model.queue import QueueProperties


def restore_properties(values: dict[str, Any]) -> QueueProperties:
    """Queue properties from their JSON form."""
    guids = {name: bytes.fromhex(values[name]) for name in ("instance", "type")}
    return QueueProperties(**{**values, **guids})


def dump_properties(properties: QueueProperties) -> dict[str, Any]:
    """Queue properties in JSON form."""
    guids = {"instance": properties.instance.hex(), "type": properties.type.hex()}
    return {f.name: getattr(properties, f.name) for f in fields(properties)} | guids


def journal_of(properties: QueueProperties) -> QueueProperties:
    """Properties of the journal of a queue: it keeps copies, and nothing is copied from it. Who
    pauses the queue does not pause it."""
    quota_kb = properties.journal_quota_kb
    return replace(properties, journal=False, quota_kb=quota_kb, paused_since=0)
