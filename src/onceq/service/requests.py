"""The one door for requests of applications: of daemons and of embedded managers.

A request is checked here, so that the rules of the core meet only values that they can handle. It
also gets what only the service knows: its owner, the time, and random bytes. A fault in a request
is that request's own: it is answered with its error, and nothing else happens.

Upholds: I24 (no value from outside makes the core fail).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from onceq.core.inputs.inputs import Input
from onceq.core.inputs.jobs import JobBatch, JobFailed, NextJob
from onceq.model.identity import GUID_BYTES
from onceq.model.requests import (
    BeginAttempt,
    CreateQueue,
    CreateToken,
    EditDirectory,
    Enlist,
    Receive,
    Request,
    SetRights,
)
from onceq.model.time import FOR_EVER_US
from onceq.model.tokens import SECRET_BYTES
from onceq.model.xid import NUMBER_BYTES, TAG_BYTES
from onceq.service.clock import Clock

Inner = JobBatch | JobFailed | NextJob
"""Requests of a queue manager to itself, which no application can make."""


def complete(
    asked: Request | Inner, owner: int, number: int, *, clock: Clock, random: Callable[[int], bytes]
) -> Input:
    """Complete a request of the queue manager itself: also one that no application can make."""
    if isinstance(asked, Request):
        admit(asked, owner, number, clock=clock, random=random)
        return asked
    return replace(asked, owner=owner, request=number)


def admit(
    request: Request, owner: int, number: int, *, clock: Clock, random: Callable[[int], bytes]
) -> None:
    """Check and complete a request, so that the core can take it.

    Args:
        owner, number: The owner of the request, and its number; values in the request itself are
            overwritten.
        random: Returns the given number of random bytes.

    Raises:
        OnceqError: It is wrong in itself.
    """
    request.check()
    request.owner, request.request = owner, number
    if isinstance(request, Receive):
        wait_us = request.wait_ms * 1000
        if wait_us > 0:
            wait_us += clock.read().mono_us
        request.wait_until_us = FOR_EVER_US if wait_us < 0 else min(wait_us, FOR_EVER_US)
    elif isinstance(request, CreateQueue):
        request.instance = random(GUID_BYTES)
    elif isinstance(request, (EditDirectory, SetRights)):
        request.guid = random(GUID_BYTES)
    elif isinstance(request, Enlist):
        request.drawn = random(NUMBER_BYTES)
    elif isinstance(request, BeginAttempt):
        request.drawn = random(TAG_BYTES)
    elif isinstance(request, CreateToken):
        request.secret = random(SECRET_BYTES)
