"""What a plan is, and how it asks: the answer of a request has the type that the request names."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from onceq.client.link import Request
from onceq.model.run import Run
from onceq.model.views.looks import Look
from onceq.packet.batch import Batch
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

T = TypeVar("T")

Plan: TypeAlias = Generator[Request, object, T]
"""Yields requests, is sent their results, and returns what the caller gets."""


def ask(
    code: int, head: Any, answer: type[T], *, runs: Sequence[Run] = (),
    late: Callable[[Batch], None] | None = None,
) -> Plan[T]:  # fmt: skip
    """One request.

    Args:
        answer: What it is answered with; the link has decoded it as that.
        late: See ``Request``.
    """
    return cast(T, (yield Request(code, head, runs, late=late)))


def look(look: Look[T], name: str = "") -> Plan[T]:
    """What a queue manager tells of itself."""
    return ask(Code.LOOK, frames.LookHead(look.what, name), look.kind)


def do(code: int, head: Any, *, runs: Sequence[Run] = ()) -> Plan[None]:
    """One request whose answer says only that it was done."""
    yield Request(code, head, runs)


def tell(code: int, head: Any, *, lazy: bool = False, unhurried: bool = False) -> Plan[None]:
    """One request whose answer nobody waits for; see ``Request``."""
    yield Request(code, head, waits=False, lazy=lazy, unhurried=unhurried)
