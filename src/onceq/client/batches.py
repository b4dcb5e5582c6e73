"""Batches that are sent at once, by one call: as they are, or each as one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onceq.client import plans
from onceq.client.bodies import Body, parts, run_of
from onceq.client.gathering import framed
from onceq.client.link import Request
from onceq.client.plans import Plan
from onceq.client.properties import parted
from onceq.client.results import MessageIds
from onceq.client.session import Session
from onceq.client.unit import Unit
from onceq.errors import InvalidParameter, OnceqError
from onceq.wire.app import frames
from onceq.wire.app.frames import Code


def send_many(
    session: Session, destination: str, bodies: Iterable[Body], *, transactional: bool,
    values: dict[str, Any],
) -> Plan:  # fmt: skip
    """Send a batch at once: as it is, or as one transaction of its own."""
    if not isinstance(destination, str):
        raise InvalidParameter(f"a destination is a name, not {destination!r}")
    run = run_of(bodies)
    values, own = parted(values, len(run))
    pieces = list(parts(run, own)) if len(run) else []
    if transactional and len(pieces) > 1:
        unit = Unit(session)
        try:
            yield from unit.add_apart(destination, run, values, own)
            return (yield from unit.commit())
        except OnceqError:
            if not unit.over:
                yield from unit.abort()
            raise
    ids = MessageIds(session.source)
    for piece, heads in pieces:
        item, runs = framed(destination, values, piece, heads)
        if transactional:
            id = session.next_commit()
            sent = yield from plans.commit(session, 0, [item], runs, id)
        else:
            sent = yield Request(Code.SEND, frames.SendHead(0, [item]), runs)
        ids.add(sent.first_message, sent.messages)
    return ids
