"""What an operator does to queues from the console: pause, resume, end holds, try them."""

from __future__ import annotations

import json

from onceq.client.properties import SendProperties
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.client.why import why
from onceq.console.given import Given
from onceq.console.reading import Told
from onceq.errors import InvalidParameter

FORMS = ("text", "json")
"""What a body is given as."""


async def pause_queue(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """Let nobody receive the next message of a queue."""
    return await _queue(qm, given, paused=True)


async def resume_queue(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """Let messages of a queue be received again."""
    return await _queue(qm, given, paused=False)


async def _queue(qm: AsyncQueueManager, given: Given, *, paused: bool) -> Told:
    name = given.text("queue", needed=True)
    await qm.queue(name)  # of an outgoing queue the way out would be paused
    await (qm.pause(name) if paused else qm.resume(name))
    view = await qm.queue(name)
    return {"queue": view.path, "paused_since": view.paused_since, "why": why(view)}


async def release_queue(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """End the holds that keep others from receiving from a queue."""
    name = given.text("queue", needed=True)
    return {"queue": name, "released": await qm.release_queue(name)}


async def pause_outgoing(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """Transmit nothing more to a destination; messages gather, and may expire."""
    return await _outgoing(qm, given, paused=True)


async def resume_outgoing(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """Transmit again."""
    return await _outgoing(qm, given, paused=False)


async def _outgoing(qm: AsyncQueueManager, given: Given, *, paused: bool) -> Told:
    name = given.text("destination", needed=True)
    await qm.outgoing_queue(name)
    await (qm.pause(name) if paused else qm.resume(name))
    view = await qm.outgoing_queue(name)
    return {
        "destination": view.destination,
        "paused_since": view.paused_since,
        "why": why(view),
    }


async def preview_send(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """What ``queue/send`` would send; nothing is changed.

    Raises:
        InvalidParameter: A value is none that can be sent.
    """
    name = given.text("queue", needed=True)
    view = await qm.queue(name)
    form = given.text("form") or FORMS[0]
    if form not in FORMS:
        raise InvalidParameter(f"form is one of {', '.join(FORMS)}, and not {form[:40]!r}")
    body = given.text("body")
    if form == "json" and "body" in given.values:
        try:
            body = json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":"))
        except ValueError as error:
            raise InvalidParameter(f"the body is no JSON: {error}") from None
    return {
        "queue": view.path,
        "transactional": view.transactional,
        "label": given.text("label"),
        "body": body,
        "body_bytes": len(body.encode()),
        "form": form,
        "delay": given.seconds("delay"),
        "dry_run": True,
    }


async def send(qm: AsyncQueueManager, given: Given, now_s: int) -> Told:
    """Send one message to a queue of this queue manager, to try what receives from it."""
    told = await preview_send(qm, given, now_s)
    if given.flag("dry_run"):
        return told
    properties = SendProperties(label=told["label"], delay=told["delay"] or None)
    if told["form"] == "json":
        identifier = await qm.send(
            told["queue"], json=json.loads(told["body"]), transactional=told["transactional"],
            **properties,
        )  # fmt: skip
    else:
        identifier = await qm.send(
            told["queue"], told["body"], transactional=told["transactional"], **properties
        )
    return {**told, "id": str(identifier), "dry_run": False}
