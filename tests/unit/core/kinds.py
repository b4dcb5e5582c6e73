"""The kinds of requests that there are."""

from __future__ import annotations

from collections.abc import Iterator

from onceq.model.requests import Request


def kinds(of: type[Request] = Request) -> Iterator[type[Request]]:
    """Each class of requests that an application can make, and none that only others are made
    of."""
    below = of.__subclasses__()
    if not below:
        yield of
    for one in below:
        yield from kinds(one)
