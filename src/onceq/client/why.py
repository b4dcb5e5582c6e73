"""Why nothing moves: one sentence about an outgoing queue, from what its manager knows of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any


def clock(seconds: int) -> str:
    """A time of day for people, with the date if it is not today's."""
    then, now = time.localtime(seconds), time.localtime()
    form = "%H:%M:%S" if then[:3] == now[:3] else "%Y-%m-%d %H:%M:%S"
    return time.strftime(form, then)


def duration(seconds: float) -> str:
    """A length of time for people."""
    whole = max(round(seconds), 0)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h"


def why(view: Mapping[str, Any]) -> str:
    """The sentence.

    Args:
        view: An outgoing queue as ``outgoing_queue`` gives it.
    """
    name, waiting = view["destination"], view["messages"]
    some = f"{waiting} message{'s' if waiting != 1 else ''}"
    if view["paused_since"]:
        return (
            f"{name}: paused by an operator since {clock(view['paused_since'])}; {some} "
            f"wait{'s' if waiting == 1 else ''}; 'outgoing resume' lets them go"
        )
    if not waiting:
        return f"{name}: nothing waits; everything sent was acknowledged"
    if view["state"] == "connected":
        return _connected(view, name, some)
    if view["trouble"]:
        retry = view["retry_in_s"]
        again = f"; next try in {duration(retry)}" if retry >= 0 else "; trying now"
        times = f"{view['attempts']} attempt{'s' if view['attempts'] != 1 else ''}"
        return (
            f"{name}: {some} cannot leave: unreachable since {clock(view['trouble_since'])} "
            f"({view['trouble']}, {times}){again}"
        )
    return f"{name}: {some} wait{'s' if waiting == 1 else ''} for the connection to be made"


def _connected(view: Mapping[str, Any], name: str, some: str) -> str:
    unheard = view["no_ack_count"]
    if unheard and view["resend_in_s"] >= 0:
        times = view["resend_count"]
        again = f", after {times} time-out{'s' if times != 1 else ''}" if times else ""
        return (
            f"{name}: connected; {unheard} of {some} transmitted and waiting for an order "
            f"acknowledgment until {clock(view['resend_at'])}, then they are sent again{again}"
        )
    if view["awaiting_final"] and view["awaiting_final"] == view["messages"]:
        return (
            f"{name}: {view['awaiting_final']} messages have arrived; their senders asked to know "
            "when they are received, which has not happened yet"
        )
    return f"{name}: connected, {some} being transmitted"


def stream_why(view: Mapping[str, Any]) -> str:
    """One sentence about an incoming stream, as ``streams`` gives it."""
    name = f"{view['queue']} from {view['source']}"
    if not view["number"]:
        return f"{name}: a stream was announced, and nothing of it was accepted yet"
    where = f"accepted up to number {view['number']} at {clock(view['last_access'])}"
    link = "connected" if view["connected"] else "the sender is not connected"
    turned = []
    if view["duplicates"]:
        turned.append(f"{view['duplicates']} duplicates dropped")
    if view["gaps"]:
        turned.append(f"{view['gaps']} that came before an earlier message left to be sent again")
    if view["rejects"]:
        turned.append(f"{view['rejects']} refused for good")
    aside = f" ({', '.join(turned)})" if turned else ""
    return f"{name}: {link}; {where}{aside}; whatever is sent next will be accepted"
