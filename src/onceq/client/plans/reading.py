"""What readers do that look at messages, and remove them when they are written elsewhere (for the
classes of this package and the command line)."""

from __future__ import annotations

from onceq.client.plans.handles import Handle
from onceq.client.plans.plan import Plan, ask, do, look_at_all
from onceq.client.plans.unit_of_work import Unit
from onceq.client.session import Session
from onceq.model import requests
from onceq.model.views import looks
from onceq.model.views.queues import ReaderView


def take(unit: Unit | None, request: requests.TakeRead) -> Plan[int]:
    """Remove what was read; how many messages were there.

    Args:
        unit: With the commit of this unit of work; None: at once and for good.
    """
    return ask(request, int) if unit is None else unit.remove(request)


def renew(handle: Handle, lease_ms: int) -> Plan[None]:
    """Say that one is still there; raises InvalidHandle if the hold is over."""
    return do(requests.RenewHold(handle.number, lease_ms))


def readers(session: Session, queue: str) -> Plan[list[ReaderView]]:
    """Who has read a queue and removed what he had read, the last one first; of all queues if none
    is named."""
    found = yield from look_at_all(session, looks.READERS, queue)
    return sorted(found, key=lambda one: -one.since)


def forget(session: Session, queue: str, reader: str) -> Plan[None]:
    """Forget a reader: whoever comes next under his name begins anew."""
    return do(requests.ForgetReader(queue, reader))
