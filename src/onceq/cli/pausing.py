"""``onceq queue pause`` ``resume`` and ``release``: whether messages of a queue are received."""

from __future__ import annotations

from onceq.cli import out
from onceq.cli.common import Json, QueueName, Where, dumped, manager
from onceq.client.why import why
from onceq.model.wording import plural


def pause(name: QueueName, qm: Where = None, json: Json = False) -> None:
    """Let nobody receive the next message of a queue until 'queue resume'.

    Messages come in as before, and may expire. Receives wait, and end with nothing when their time
    is over. Looking goes on, and so does what operators do to messages that they name: peek, purge,
    move, return. A restart changes nothing. 'outgoing pause' is for messages that leave.
    """
    _steer(name, qm, paused=True, json=json)


def resume(name: QueueName, qm: Where = None, json: Json = False) -> None:
    """Let messages of a queue be received again."""
    _steer(name, qm, paused=False, json=json)


def release(name: QueueName, qm: Where = None, json: Json = False) -> None:
    """End the holds that keep others from receiving from a queue.

    The refusal of the others (sharing-violation) says who holds it. Who held it may open it again:
    take the right away first, or end that application, if it should not.
    """
    with manager(qm, name=name) as connection:
        count = connection.release_queue(name)
    if not dumped({"queue": name, "released": count}, json):
        out.line(f"{plural(count, 'hold')} of {out.name(name)} ended")


def _steer(name: str, qm: str | None, *, paused: bool, json: bool) -> None:
    with manager(qm, name=name) as connection:
        connection.queue(name)  # of an outgoing queue the other command pauses the way out
        if paused:
            connection.pause(name)
        else:
            connection.resume(name)
        view = connection.queue(name)
    if not dumped({"queue": view.path, "paused_since": view.paused_since}, json):
        out.line(why(view))
