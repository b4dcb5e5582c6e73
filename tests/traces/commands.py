"""The commands of a trace: one a line, the first word says which.

A destination is ``B\\orders`` for the private queue ``orders`` of manager B by the name of its
computer, ``B:orders`` by the GUID of B and the number of the queue, ``http:B/orders`` over HTTP;
several are joined by commas. ``orders`` alone is a queue of the manager itself. Transaction 0 is
none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from onceq.core import inputs
from onceq.core.inputs import Reconfigure, Spoiled
from onceq.errors import DamagedPiece, OnceqError
from onceq.model import requests
from onceq.model.branches import Join, Leave
from onceq.model.queue import QueueProperties
from onceq.model.requests import Claim, MoveMessage, OpenCursor, Reject, Seek, Steer
from onceq.model.resultcodes import MessageClass
from onceq.model.views.view import Page
from onceq.packet.acks import final_ack, order_ack
from tests.traces import telling
from tests.traces.arguments import (
    UnknownCommand,
    format_name,
    item,
    link,
    options,
    prefix,
    source,
    value,
    xid,
)
from tests.traces.world import UnderWay, World
from tests.unit.core.alone import WALL_S

_WORD: Final = re.compile(r'"[^"]*"|\S+')
OWNER: Final = 1
REQUEST: Final = 1
"""Every request comes from one application, and is answered before the next one is made."""


def words(line: str) -> list[str]:
    """The words of a command; a text in quotation marks is one, and keeps them."""
    return _WORD.findall(line)


def perform(world: World, line: str) -> list[str]:
    """Perform one command; what there is to be told.

    Raises:
        UnknownCommand: The line is not a command.
    """
    name, *arguments = words(line)
    command = COMMANDS.get(name)
    if command is None:
        raise UnknownCommand(f"there is no command {name!r}; known are {', '.join(COMMANDS)}")
    said = len(world.lines)
    try:
        command(world, *arguments)
    except (TypeError, ValueError, KeyError, LookupError) as error:
        raise UnknownCommand(f"{line!r}: {error}") from error
    return world.lines[said:]


# ---- managers and queues -----------------------------------------------------------------------


def _manager(world: World, name: str, *settings: str) -> None:
    given = {key: value(said) for key, said in options(settings).items()}
    node = world.add(name, {key: value for key, value in given.items() if key != "report_queue"})
    if "report_queue" in given:
        where = format_name(world, name, given["report_queue"])
        node.settings = replace(node.settings, report_queue=where)
    world.start(name)


def _queue(world: World, at: str, name: str, *properties: str) -> None:
    given = {key: value(said) for key, said in options(properties).items()}
    made = QueueProperties(name, **given)
    world.happen(
        at,
        requests.CreateQueue(
            properties=made, instance=name.encode().ljust(16, b"Q"), owner=OWNER, request=REQUEST
        ),
    )


def _set(world: World, at: str, name: str, *properties: str) -> None:
    given = {key: value(said) for key, said in options(properties).items()}
    world.happen(at, requests.SetQueue(source(world, name), given, owner=OWNER, request=REQUEST))


def _delete(world: World, at: str, name: str) -> None:
    world.happen(at, requests.DeleteQueue(source(world, name), owner=OWNER, request=REQUEST))


def _purge(world: World, at: str, name: str) -> None:
    world.happen(at, requests.PurgeQueue(source(world, name), owner=OWNER, request=REQUEST))


def _crash(world: World, name: str) -> None:
    world.crash(name)


def _restart(world: World, name: str) -> None:
    world.pass_time(1)
    world.start(name)


def _steer(world: World, at: str, what: str, name: str = "") -> None:
    destination = format_name(world, at, name) if name else ""
    world.happen(at, requests.SteerOutgoing(destination, Steer(what), owner=OWNER, request=REQUEST))


def _route(world: World, at: str, target: str, via: str) -> None:
    """What A sends to B goes by way of R, as its configuration says."""
    node = world.nodes[at]
    node.routes[world.nodes[target].identity.guid] = via
    world.happen(at, Reconfigure(node.settings, dict(node.routes)))


# ---- applications ------------------------------------------------------------------------------


def _begin(world: World, at: str, number: str) -> None:
    world.happen(at, requests.Begin(int(number), owner=OWNER, request=REQUEST))


def _send(world: World, at: str, number: str, to: str, body: str, *more: str) -> None:
    made = (item(world, at, to, body, more),)
    world.happen(at, requests.Send(int(number), made, owner=OWNER, request=REQUEST))


def _send_once(world: World, at: str, to: str, body: str, *more: str) -> None:
    """A transaction of its own for one batch."""
    world.happen(
        at, requests.Commit(0, (item(world, at, to, body, more),), owner=OWNER, request=REQUEST)
    )


def _commit(world: World, at: str, number: str) -> None:
    world.happen(at, requests.Commit(int(number), owner=OWNER, request=REQUEST))


def _abort(world: World, at: str, number: str) -> None:
    world.happen(at, requests.Abort(int(number), owner=OWNER, request=REQUEST))


def _receive(world: World, at: str, number: str, queue: str, *more: str) -> None:
    given = options(more)
    lookup = world.nodes[at].lookup(given["message"], queue) if "message" in given else 0
    count = int(given.get("count", "1"))
    request = requests.Receive(
        source(world, queue),
        int(number),
        count,
        lookup=lookup,
        hold="hold" in given,
        owner=OWNER,
        request=REQUEST,
    )
    world.happen(at, request)


def _peek(world: World, at: str, queue: str, *more: str) -> None:
    given = options(more)
    count, cursor = int(given.get("count", "1")), int(given.get("cursor", "0"))
    seek = Seek[given["seek"].upper()] if "seek" in given else Seek.CURRENT
    request = requests.Receive(
        source(world, queue), 0, count, peek=True, cursor=cursor, seek=seek,
        handle=int(given.get("handle", "0")), owner=OWNER, request=REQUEST,
    )  # fmt: skip
    world.happen(at, request)


def _open(world: World, at: str, queue: str, access: str) -> None:
    use = requests.Access[access.upper()]
    world.happen(at, requests.OpenQueue(source(world, queue), use, owner=OWNER, request=REQUEST))


def _cursor(world: World, at: str, handle: str) -> None:
    world.happen(at, OpenCursor(int(handle), owner=OWNER, request=REQUEST))


def _move(world: World, at: str, number: str, message: str, queue: str, to: str) -> None:
    lookup = world.nodes[at].lookup(message, queue)
    request = MoveMessage(
        source(world, queue), source(world, to), lookup, int(number), owner=OWNER, request=REQUEST
    )
    world.happen(at, request)


def _reject(world: World, at: str, number: str, message: str, queue: str) -> None:
    lookup = world.nodes[at].lookup(message, queue)
    world.happen(
        at, Reject(source(world, queue), int(number), (lookup,), owner=OWNER, request=REQUEST)
    )


def _claim(world: World, at: str, number: str, queue: str, first: str, last: str) -> None:
    node = world.nodes[at]
    ranges = ((node.lookup(first, queue), node.lookup(last, queue)),)
    world.happen(at, Claim(source(world, queue), int(number), ranges, owner=OWNER, request=REQUEST))


# ---- branches ----------------------------------------------------------------------------------


def _branch(world: World, at: str, verb: str, name: str, *more: str) -> None:
    """The verbs of XA: start, end, prepare, commit, rollback, forget."""
    branch, given = xid(world, at, name), options(more)
    by_hand, number = "by-hand" in given, int(given.get("transaction", "0"))
    made: dict[str, Callable[[], inputs.Input]] = {
        "start": lambda: requests.StartBranch(
            number, branch, Join.NEW, owner=OWNER, request=REQUEST
        ),
        "end": lambda: requests.EndBranch(
            number, branch, Leave.SUCCESS, owner=OWNER, request=REQUEST
        ),
        "prepare": lambda: requests.PrepareBranch(branch, owner=OWNER, request=REQUEST),
        "commit": lambda: requests.CommitBranch(
            branch, one_phase="one-phase" in given, by_hand=by_hand, owner=OWNER, request=REQUEST
        ),
        "rollback": lambda: requests.RollbackBranch(
            branch, by_hand=by_hand, owner=OWNER, request=REQUEST
        ),
        "forget": lambda: requests.ForgetBranch(branch, owner=OWNER, request=REQUEST),
    }
    world.happen(at, made[verb]())


def _group(world: World, at: str, app: str, version: str, *branches: str) -> None:
    """Commit branches of one batch, whose number is the version."""
    made = tuple(xid(world, at, name) for name in branches)
    common = prefix(world, at, version)
    request = requests.CommitGroup(
        app, "query", int(version), common, made, owner=OWNER, request=REQUEST
    )
    world.happen(at, request)


# ---- between managers --------------------------------------------------------------------------


def _connect(world: World, one: str, other: str, *more: str) -> None:
    world.connect(one, other, extended="plain" not in more)


def _unreachable(world: World, one: str, other: str) -> None:
    outgoing = world.nodes[one].wanted.pop(other)
    world.happen(one, inputs.ConnectFailed(outgoing, f"{other}: no answer"))


def _disconnect(world: World, one: str, other: str) -> None:
    for session in world.sessions(one, other):
        world.end(session, "connection lost")


def _deliver(world: World, way: str, count: str = "1000000") -> None:
    world.deliver(link(way), int(count))


def _drop(world: World, way: str) -> None:
    """The first packet under way never arrives."""
    packet = world.under_way[link(way)].pop(0).packet
    world.say(f"lost: {world.names.packet(packet) if packet else 'session acknowledgment'}")


def _delay(world: World, way: str) -> None:
    """The first packet under way arrives after all others."""
    waiting = world.under_way[link(way)]
    waiting.append(waiting.pop(0))


def _duplicate(world: World, way: str) -> None:
    """The first packet under way will arrive twice."""
    waiting = world.under_way[link(way)]
    waiting.insert(0, waiting[0])


def _forge(world: World, way: str, stream: str, number: str, message: str = "") -> None:
    """A manager acknowledges what it never got; with a message, that this was received."""
    one, other = link(way)
    node = world.nodes[one]
    common: dict[str, Any] = {
        "own": node.identity.guid, "own_message": 7,
        "sent_time": WALL_S + world.now_us // 1_000_000, "address": world.address(other),
        "destination_manager": world.nodes[other].identity.guid,
        "stream": world.names.stream_called(stream), "number": int(number),
    }  # fmt: skip
    if message:
        sender, of = world.names.message_called(message)
        packet = final_ack(
            **common, message_class=MessageClass.ACK_RECEIVE, previous=int(number) - 1,
            source=sender, message=of,
        )  # fmt: skip
    else:
        packet = order_ack(**common)
    world.under_way[one, other].append(UnderWay(world.sessions(one, other)[0], packet))
    world.say(f"{one} transmits to {other}: {world.names.packet(packet)}, forged")


def _time(world: World, span: str) -> None:
    found = re.fullmatch(r"\+([\d.]+)(s|m|h|d)", span)
    if found is None:
        raise UnknownCommand(f"a time is written +5s, +2m, +1h or +4d, not {span!r}")
    world.pass_time(float(found[1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[found[2]])


# ---- stores ------------------------------------------------------------------------------------


def _backup(world: World, name: str) -> None:
    world.save(name)


def _restore(world: World, name: str) -> None:
    world.pass_time(1)
    world.put_back(name)


def _copy(world: World, name: str, other: str) -> None:
    world.copy(name, other)


def _spoil(world: World, at: str, message: str, queue: str) -> None:
    """The stored bytes of a message are no longer what was written."""
    node = world.nodes[at]
    for (number, lane, counter), known in node.known.items():
        if known == message and world.names.short(node.title(number)) == queue:
            (extent,) = node.manager.state.all_queues[number].lanes[lane].extents(counter, 1)
            piece = DamagedPiece(extent.address, extent.size, "log", 0)
            world.happen(at, Spoiled((piece,)))
            return
    raise LookupError(f"{message} is not in {queue}")


# ---- looking -----------------------------------------------------------------------------------

SHOWN: Final = {
    "outgoing": ("destination", "state", "messages", "unacknowledged", "awaiting_final", "stream",
                 "first_unacked", "last_unacked", "next_number", "last_ack", "resend_count",
                 "in_doubt", "turned_away", "clash", "trouble"),
    "streams": ("queue", "source", "stream", "number", "duplicates", "gaps", "stale", "conflicts",
                "clash"),
    "branches": ("xid", "phase", "messages", "received", "destinations"),
    "groups": ("app", "version", "left"),
    "status": ("dead_letters", "transactional_dead_letters", "damaged_messages", "undone",
               "restored", "undone", "disbelieved", "clashes"),
    "damages": ("queue", "count", "reason"),
}  # fmt: skip


def _show(world: World, at: str, what: str) -> None:
    node = world.nodes[at]
    if what not in ("queues", *SHOWN):
        raise UnknownCommand(f"there is nothing to show that is called {what!r}")
    if what == "queues":
        for title, found in node.contents():
            world.say(f"{title}: {', '.join(found) or 'empty'}")
        return
    answer = node.ask(requests.Look(what))
    if isinstance(answer, OnceqError):
        raise UnknownCommand(str(answer))
    views = answer.views if isinstance(answer, Page) else answer
    views = views if isinstance(views, (list, tuple)) else [views]
    if not views:
        world.say("none")
    for view in views:
        shown = ((name, getattr(view, name)) for name in SHOWN[what] if hasattr(view, name))
        said = [f"{name} {telling.plain(value)}" for name, value in shown if value]
        world.say(", ".join(said) or "nothing to tell")


COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "manager": _manager, "queue": _queue, "set": _set, "delete": _delete, "purge": _purge,
    "crash": _crash, "restart": _restart, "steer": _steer, "route": _route,
    "begin": _begin, "send": _send, "send-once": _send_once, "commit": _commit, "abort": _abort,
    "receive": _receive, "peek": _peek, "open": _open, "cursor": _cursor, "move": _move,
    "reject": _reject, "claim": _claim, "branch": _branch, "group": _group,
    "connect": _connect, "unreachable": _unreachable, "disconnect": _disconnect,
    "deliver": _deliver, "drop": _drop, "delay": _delay, "duplicate": _duplicate,
    "forge": _forge, "time": _time,
    "backup": _backup, "restore": _restore, "copy": _copy, "spoil": _spoil, "show": _show,
}  # fmt: skip
"""Every command."""
