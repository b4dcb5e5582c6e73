"""The one door for what applications ask: of daemons and of embedded managers.

A request is checked here, so that the rules of the core meet only values that they have an answer
for, and gets what only the service knows: who asks, the time, and random bytes. A fault in a
request is that request's own: it is answered with its error, and nothing else happens.

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
"""What a queue manager asks itself, and no application can."""


def complete(
    asked: Request | Inner, owner: int, number: int, *, clock: Clock, random: Callable[[int], bytes]
) -> Input:
    """The same for what a queue manager asks itself: also what no application can ask."""
    if isinstance(asked, Request):
        admit(asked, owner, number, clock=clock, random=random)
        return asked
    return replace(asked, owner=owner, request=number)


def admit(
    request: Request, owner: int, number: int, *, clock: Clock, random: Callable[[int], bytes]
) -> None:
    """Make a request one that the core takes: checked, and complete.

    Args:
        owner, number: Who asks, and under which request number; whatever it said of these is
            overwritten.
        random: Gives so many random bytes.

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
