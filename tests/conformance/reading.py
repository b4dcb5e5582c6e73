"""How applications of the conformance cases read queues: by place, by cursor, by moving."""

from __future__ import annotations

from typing import Any

from onceq.client.link import Greeting, Session
from onceq.client.plans.unit_of_work import Unit
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.requests import Request, Seek
from onceq.packet.arrived import Batch
from onceq.service.api import admit
from tests.conformance.applications import Applications

BYTES_MAX = 1 << 25


def code_of(work: Any, *args: Any, **more: Any) -> int:
    """The result code with which something is refused; 0 if it is not."""
    try:
        work(*args, **more)
    except OnceqError as error:
        return error.hresult
    return 0


def seek(
    qm: Applications, queue: str, seek: Seek, lookup: int = 0, *, peek: bool = True, tx: int = 0,
    cursor: int = 0, allow_peek: bool = False, wait_s: float = 0.0,
) -> Batch:  # fmt: skip
    """One message by its place."""
    until = qm.world.now_us + int(wait_s * 1e6) if wait_s else 0
    result = qm.ask(
        requests.Receive(
            queue,
            tx,
            1,
            BYTES_MAX,
            wait_until_us=until,
            peek=peek,
            after=0,
            lookup=lookup,
            handle=0,
            seek=seek,
            cursor=cursor,
            allow_peek=allow_peek,
        )
    )
    assert isinstance(result, Batch)
    return result


def body(qm: Applications, queue: str, how: Seek, lookup: int = 0, **more: Any) -> bytes:
    return seek(qm, queue, how, lookup, **more).bodies()[0]


def move(
    qm: Applications, queue: str, lookup: int, to: str, *, tx: int = 0, handle: int = 0
) -> Any:
    return qm.ask(requests.MoveMessage(queue, to, lookup, tx, handle))


def reject(qm: Applications, queue: str, tx: int, *lookups: int, keep: bool = False) -> None:
    qm.ask(requests.Reject(queue, tx, lookups, keep))


def cursor(qm: Applications, queue: str, access: requests.Access = requests.Access.RECEIVE) -> int:
    handle = qm.open(queue, access).handle
    result = qm.ask(requests.OpenCursor(handle))
    assert isinstance(result, int)
    return result


def purge(qm: Applications, queue: str) -> int:
    result = qm.ask(requests.PurgeQueue(queue))
    assert isinstance(result, int)
    return result


def set_queue(qm: Applications, queue: str, **values: Any) -> None:
    qm.ask(requests.SetQueue(queue, values))


def drive(qm: Applications, plan: Any) -> Any:
    """Carry a plan of the client library out, with the world's clock."""
    try:
        request = next(plan)
        while True:
            asked: Request = request.asked
            try:
                admit(asked, 0, 0, clock=qm.clock, random=bytes)
                result = qm.ask(asked)
            except OnceqError as error:
                request = plan.throw(error)
            else:
                request = plan.send(result)
    except StopIteration as stop:
        return stop.value


def unit(qm: Applications) -> Unit:
    """A unit of work of the client library; its plans are for ``drive``."""
    greeting = Greeting("A", b"A" * 16, qm.clock.read().wall_s)
    made = Unit(Session(greeting, random=bytes, clock=lambda: qm.world.now_us / 1e6))
    made.number = next(qm.numbers)
    return made
