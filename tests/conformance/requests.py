"""Inputs of the core as requests of an application, and results back: what a client would say.

Nothing is checked on this side, so that the queue manager has to.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import Any

from onceq.model import requests
from onceq.model.requests import Request
from onceq.wire.app import frames
from onceq.wire.app.frames import FrameCode, written


def request_frame(number: int, item: Request, now_us: int) -> tuple[bytes, object]:
    """The frame in which an application asks for this, and the type of its answer."""
    said = _said(item, now_us)
    return b"".join(written(number, said)), said.answer_type()


def _said(item: Request, now_us: int) -> Request:
    """The request with what an application says in place of what the service makes of it."""
    if isinstance(item, requests.Receive) and item.wait_until_us:
        return replace(item, wait_ms=-(-(item.wait_until_us - now_us) // 1000))
    if isinstance(item, requests.CreateQueue):
        return replace(item, values=changed(item.properties))
    batches = (requests.Send, requests.Commit, requests.PrepareBranch, requests.Promise)
    if isinstance(item, batches):
        items = [replace(part, values=changed(part.properties)) for part in item.items]
        return replace(item, items=items)
    return item


def changed(properties: Any) -> dict[str, Any]:
    """Properties that are not what they are by default, as plain values."""
    values = {}
    for field in fields(properties):
        value = getattr(properties, field.name)
        if field.default is MISSING or value != field.default:
            values[field.name] = (
                value if isinstance(value, bool) or not isinstance(value, int) else int(value)
            )
    return values


def hello() -> bytes:
    """What an application says first."""
    return b"".join(frames.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION, "conformance")))
