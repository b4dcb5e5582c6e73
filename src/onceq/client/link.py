"""The way from the client library to a queue manager: requests out, results back.

A link carries out requests; what to ask, and what the answers mean, is in ``plans.py``. Three
links have the same shape: to a daemon from threads (``socket_link``), from tasks (``async_link``),
and to a manager in the same process (``embedded_link``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onceq.client.results import Batch
from onceq.errors import MalformedPacket, OnceqError, ServiceNotAvailable, every
from onceq.model.run import Run
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, Code


@dataclass(slots=True)
class Request:
    """One thing to ask.

    Attributes:
        waits: False: nobody looks at the answer.
    """

    code: int
    head: Any
    runs: Sequence[Run] = ()
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Greeting:
    """Who is at the other end."""

    name: str
    id: bytes
    now_s: int


class Link(Protocol):
    """See client/link.py."""

    greeting: Greeting

    @property
    def alive(self) -> bool:
        """Whether requests can be made."""

    def call(self, request: Request) -> object:
        """Ask and wait."""

    def close(self) -> None:
        """Leave."""


class AsyncAsking(Protocol):
    """A link for tasks."""

    greeting: Greeting

    @property
    def alive(self) -> bool:
        """Whether requests can be made."""

    async def call(self, request: Request) -> object:
        """Ask and wait."""

    def close(self) -> None:
        """Leave."""


class LinkLost(ServiceNotAvailable):
    """The connection broke while an answer was awaited; what was asked may have happened."""

    code = "connection-lost"


_ERRORS = every()


def failure(head: Any) -> OnceqError:
    """The error that an answer speaks of."""
    said = frames.decode_head(head, frames.Failure)
    kind = _ERRORS.get(said.code, OnceqError)
    return kind(said.text)


def result_of(code: int, head: memoryview, data: memoryview) -> object:
    """The result in an answer frame; an OnceqError instance is to be raised."""
    if code & FAILED:
        return failure(head)
    asked = code & ~ANSWER
    if asked == Code.RECEIVE:
        handed = frames.decode_head(head, frames.HandedHead)
        lookups, arrived, aborts = frames.tables(handed.lookups, handed.arrived, handed.aborts)
        run = frames.unpack_run(data, handed.count)
        if not len(lookups) == len(arrived) == len(aborts) == handed.count:
            raise MalformedPacket("an answer whose tables differ in length")
        return Batch(run, lookups, arrived, aborts)
    if asked in (Code.SEND, Code.COMMIT):
        return frames.decode_head(head, frames.SentHead | None)
    if asked == Code.OPEN:
        return frames.decode_head(head, frames.OpenedHead)
    return frames.decode_head(head, Any)
