"""What stands in the arguments of commands: destinations, messages, branches, links."""

from __future__ import annotations

import re
from typing import Any, Final

from onceq.model.branches import ONCEQ_FORMAT, TAG_BYTES, Xid, attempt_of, group_prefix
from onceq.model.identity import guid_text
from onceq.model.message import Acknowledge, Delivery, Journal, Properties
from onceq.model.requests import SendItem
from onceq.model.run import Run
from tests.traces.world import World

_LINK: Final = re.compile(r"([\w']+)->([\w']+)")

ACKNOWLEDGE: Final = {
    "arrival": Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL,
    "receive": Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_RECEIVE,
    "full": Acknowledge(15),
}


class UnknownCommand(ValueError):
    """No such command, or not with these arguments."""


def format_name(world: World, owner: str, text: str) -> str:
    """The format name of a destination, or of several."""
    if "," in text:
        return ",".join(format_name(world, owner, part) for part in text.split(","))
    if text.startswith("http:"):
        host, _, queue = text.removeprefix("http:").partition("/")
        return f"DIRECT=HTTP://{host.lower()}/msmq/private$/{queue}"
    if ":" in text:
        host, _, queue = text.partition(":")
        node = world.nodes[host]
        number = node.manager.state.queues[f"private$\\{queue}"].number
        return f"PRIVATE={guid_text(node.identity.guid)}\\{number:08x}"
    host, _, queue = text.rpartition("\\")
    return f"DIRECT=OS:{host or owner}\\private$\\{queue}"


def source(world: World, text: str) -> str:
    """The name under which messages are received: of a queue here, or of an outgoing queue."""
    if "\\" in text:
        return format_name(world, "", text)
    return (
        f"system$;{text}"
        if text in ("deadxact", "deadletter", "journal")
        else (f"private$\\{text}")
    )


def options(arguments: tuple[str, ...]) -> dict[str, str]:
    """``name=value``, or a name alone."""
    pairs = (argument.partition("=") for argument in arguments)
    return {name: value.strip('"') for name, _, value in pairs}


def value(text: str) -> Any:
    """A number, yes or no, or a text."""
    return int(text) if re.fullmatch(r"-?\d+", text) else {"": True, "no": False}.get(text, text)


def link(text: str) -> tuple[str, str]:
    """``A->B``."""
    found = _LINK.fullmatch(text)
    if found is None:
        raise UnknownCommand(f"a link is written A->B, not {text!r}")
    return found[1], found[2]


def item(world: World, owner: str, to: str, body: str, arguments: tuple[str, ...]) -> SendItem:
    """A message that is sent; ``bodies`` are parted by a bar."""
    given = options(arguments)
    made: dict[str, Any] = {}
    if "express" in given:
        made["delivery"] = Delivery.EXPRESS
    if "ack" in given:
        made["acknowledge"] = ACKNOWLEDGE[given["ack"]]
        made["admin_queue"] = format_name(world, owner, given.get("admin", "admin"))
    wanted = [kind for kind in Journal if kind and kind.name and kind.name.lower() in given]
    made["journal"] = Journal(sum(wanted))
    if "reach" in given:
        made["time_to_reach_queue"] = int(given["reach"])
    if "expires" in given:
        made["time_to_be_received"] = int(given["expires"])
    if "priority" in given:
        made["priority"] = int(given["priority"])
    made["trace"] = "trace" in given
    bodies = [part.encode() for part in body.strip('"').split("|")]
    if "bytes" in given:
        bodies = [one.ljust(int(given["bytes"]), b".") for one in bodies]
    return SendItem(format_name(world, owner, to), Properties(**made), Run.of(bodies))


def xid(world: World, at: str, name: str) -> Xid:
    """The branch that is called so; ``7/a`` is branch a of batch 7, to be committed as a group."""
    batch, _, branch = name.partition("/")
    if not branch:
        return Xid(1, name.encode(), b"onceq")
    token, step = sum(branch.encode()).to_bytes(TAG_BYTES, "big"), world.nodes[at].manager._step
    # Its identifier was made in the life in which it was begun.
    gtrid = world.attempts.setdefault(
        (at, name), attempt_of(prefix(world, at, batch), token, step.known_by(1), step.units.key)
    )
    return Xid(ONCEQ_FORMAT, gtrid, b"group." + branch.encode())


def prefix(world: World, at: str, batch: str) -> bytes:
    """What the branches of a batch have in common."""
    guid = world.nodes[at].identity.guid
    return group_prefix(guid, int(batch).to_bytes(TAG_BYTES, "big"))
