"""Every way by which messages are taken out of a queue, and what is asked at each of them.

One table of entrances, and one of what may stand in the way: a pause, a missing right, somebody who
has the queue for himself, a transaction that holds the message, a message that waits for its next
attempt or for its time. A new request that takes messages is added here, or the last test fails.
"""

from __future__ import annotations

import ast
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import onceq.core
from onceq.core.inputs import JobBatch, JobDeed, OwnerCame
from onceq.core.receive.entrance import Why
from onceq.errors import AccessDenied, OnceqError, ReceiveTimeout, SharingViolation
from onceq.model import requests
from onceq.model.message import Properties
from onceq.model.requests import Access, PickBy, Seek, SendItem, Share
from onceq.model.results import Opened
from onceq.model.rights import Actor, ActorKind
from onceq.model.run import LENGTH_TYPE, Run
from tests.unit.core.alone import Core

ME, OTHER, STRANGER = 1, 2, 3
Q, ELSEWHERE = r"private$\q", r"private$\other"
SIDE, DELAYED, RETRY = Q + ";side", Q + ";delayed", Q + ";retry"
TX: Final = 7
Ask = Callable[[Core, int, int], object]
"""What somebody asks, by owner and the place of a message; the answer."""


def item(body: bytes, to: str = Q, *, delay: int = 0) -> SendItem:
    return SendItem(to, Properties(delay=delay), Run(body, array(LENGTH_TYPE, (len(body),))))


def begun(core: Core, owner: int) -> int:
    core.ask(requests.Begin(TX), owner=owner)
    return TX


def receive(**more: object) -> Ask:
    """A receive at once, of the next message or as ``more`` says."""

    def ask(core: Core, owner: int, lookup: int) -> object:
        values = {name: value(lookup) if callable(value) else value for name, value in more.items()}
        asked = requests.Receive(Q, bytes_max=1 << 20, **values)  # type: ignore[arg-type]
        asked.check()
        return core.ask(asked, owner=owner)

    return ask


def in_transaction(
    work: Ask,
) -> Ask:
    def ask(core: Core, owner: int, lookup: int) -> object:
        begun(core, owner)
        return work(core, owner, lookup)

    return ask


def by_cursor(core: Core, owner: int, _lookup: int) -> object:
    opened = core.ask(requests.OpenQueue(Q, Access.RECEIVE, Share.DENY_NONE), owner=owner)
    if isinstance(opened, OnceqError):
        return opened
    assert isinstance(opened, Opened)
    cursor = core.ask(requests.OpenCursor(opened.handle), owner=owner)
    assert isinstance(cursor, int)
    asked = requests.Receive(Q, bytes_max=1 << 20, handle=opened.handle, cursor=cursor)
    return core.ask(asked, owner=owner)


def removing(kind: type[requests.Remove | requests.TakeRead], transaction: int) -> Ask:
    def ask(core: Core, owner: int, lookup: int) -> object:
        return core.ask(kind(Q, transaction, lookup, lookup), owner=owner)

    return in_transaction(ask) if transaction else ask


def claim(core: Core, owner: int, lookup: int) -> object:
    return core.ask(requests.Claim(Q, begun(core, owner), [(lookup, lookup)]), owner=owner)


def moving(transaction: int) -> Ask:
    def ask(core: Core, owner: int, lookup: int) -> object:
        return core.ask(requests.MoveMessage(Q, SIDE, lookup, transaction), owner=owner)

    return in_transaction(ask) if transaction else ask


def purge(core: Core, owner: int, _lookup: int) -> object:
    found = core.ask(requests.PurgeQueue(Q), owner=owner)
    core.pass_time(1)
    return found


def job(action: str, to: str = "") -> Ask:
    """A batch of a job that somebody has started, as the service hands it in."""

    def ask(core: Core, owner: int, lookup: int) -> object:
        started = requests.StartJob(action, [Q], to=to)
        started.check()
        found = core.ask(started, owner=owner)
        if isinstance(found, OnceqError):
            return found
        sent = item(b"again", ELSEWHERE) if to else None
        deeds = (JobDeed(lookup, "m/1", sent, bool(sent)),)
        return core.ask(JobBatch(1, 0, 0, 0, lookup, 1, deeds))

    return ask


LOOKUP = int
"""The place of the message; and those before and behind it."""
BEHIND, BEFORE = (-1).__add__, (1).__add__
SEARCH = {"pick": PickBy.CORRELATION, "value": bytes(20), "lookup": LOOKUP}

ENTRANCES: Final[dict[str, tuple[Ask, Why]]] = {
    "the next one": (receive(), Why.WORK),
    "the next one, in a transaction": (in_transaction(receive(transaction=TX)), Why.WORK),
    "many": (in_transaction(receive(transaction=TX, count_max=9)), Why.WORK),
    "the first": (receive(seek=Seek.FIRST), Why.WORK),
    "the last": (receive(seek=Seek.LAST), Why.WORK),
    "one behind a place": (receive(seek=Seek.NEXT, lookup=BEHIND), Why.WORK),
    "one before a place": (receive(seek=Seek.PREV, lookup=BEFORE), Why.WORK),
    "by a cursor": (by_cursor, Why.WORK),
    "what a search has found": (receive(**SEARCH), Why.WORK),
    "what a search has found, in a transaction": (
        in_transaction(receive(transaction=TX, **SEARCH)), Why.WORK
    ),
    "what a loop with keys has found": (
        in_transaction(receive(transaction=TX, hold=True, lookup=LOOKUP)), Why.WORK
    ),
    "a whole transaction": (claim, Why.WORK),
    "by its place": (receive(lookup=LOOKUP), Why.NAMED),
    "by its place, in a transaction": (
        in_transaction(receive(transaction=TX, lookup=LOOKUP)), Why.NAMED
    ),
    "a range": (removing(requests.Remove, 0), Why.NAMED),
    "a range, in a transaction": (removing(requests.Remove, TX), Why.NAMED),
    "what was read": (removing(requests.TakeRead, 0), Why.NAMED),
    "what was read, in a transaction": (removing(requests.TakeRead, TX), Why.NAMED),
    "a move": (moving(0), Why.NAMED),
    "a move, in a transaction": (moving(TX), Why.NAMED),
    "a purge": (purge, Why.NAMED),
    "a job that moves": (job("move", ELSEWHERE), Why.NAMED),
    "a job that purges": (job("purge"), Why.NAMED),
}  # fmt: skip
each = pytest.mark.parametrize("entrance", ENTRANCES)


@pytest.fixture
def core() -> Core:
    """With one message in a queue, another queue, and somebody who may do nothing."""
    made = Core()
    for name in ("q", "other"):
        request = requests.CreateQueue({"name": name, "transactional": True})
        request.check()
        request.instance = name.encode().ljust(16)
        made.ask(request)
    made.ask(requests.Commit(0, [item(b"m")]))
    made.step(OwnerCame(STRANGER, Actor(ActorKind.ACCOUNT, "stranger")))
    return made


def there(core: Core, name: str = "q") -> int:
    """Messages in a queue that nobody has taken and nobody holds."""
    return core.present()[name]


def lookup_of(core: Core, queue: str = Q) -> int:
    found = core.ask(requests.Receive(queue, bytes_max=1 << 20, peek=True))
    return int(found.lookups[0])  # type: ignore[attr-defined]


def taken(core: Core, entrance: str, *, owner: int = ME, lookup: int = 0) -> object:
    """The answer of an entrance."""
    work, _ = ENTRANCES[entrance]
    return work(core, owner, lookup or lookup_of(core))


@each
def test_each_takes_the_message(core: Core, entrance: str) -> None:
    found = taken(core, entrance)
    assert not isinstance(found, OnceqError)
    assert there(core) == 0


@each
def test_a_pause_keeps_what_works_and_not_who_names(core: Core, entrance: str) -> None:
    """Finding J5."""
    core.ask(requests.SteerOutgoing(Q, requests.Steer.PAUSE))
    found = taken(core, entrance)
    if ENTRANCES[entrance][1] is Why.NAMED:
        assert not isinstance(found, OnceqError)
        assert there(core) == 0
        return
    assert isinstance(found, ReceiveTimeout)
    assert "an operator has paused" in found.text
    assert there(core) == 1
    core.ask(requests.SteerOutgoing(Q, requests.Steer.RESUME))
    assert not isinstance(taken(core, entrance), OnceqError)
    assert there(core) == 0


@each
def test_who_has_no_right_takes_nothing(core: Core, entrance: str) -> None:
    assert isinstance(taken(core, entrance, owner=STRANGER), AccessDenied)
    assert there(core) == 1


@each
def test_somebody_who_has_it_for_himself_keeps_others_out(core: Core, entrance: str) -> None:
    opened = core.ask(requests.OpenQueue(Q, Access.RECEIVE, Share.DENY_RECEIVE), owner=OTHER)
    assert isinstance(opened, Opened)
    assert isinstance(taken(core, entrance), SharingViolation)
    assert there(core) == 1


@each
def test_what_a_transaction_holds_is_taken_by_nobody_else(core: Core, entrance: str) -> None:
    """A purge follows when the transaction ends (Q-43)."""
    lookup = lookup_of(core)
    core.ask(requests.Begin(TX), owner=OTHER)
    core.ask(requests.Receive(Q, TX, bytes_max=1 << 20), owner=OTHER)
    taken(core, entrance, lookup=lookup)
    assert there(core) == 0
    core.ask(requests.Abort(TX), owner=OTHER)
    core.ask(requests.Abort(TX), owner=ME)
    assert there(core) == (0 if entrance == "a purge" else 1)


@each
@pytest.mark.parametrize("why", ["retry", "delayed"])
def test_what_waits_is_taken_by_nobody_who_asks_the_queue(
    core: Core, entrance: str, why: str
) -> None:
    lookup = lookup_of(core)
    if why == "retry":
        policy = {"poison_attempts": 1, "poison_retry_after": 60}
        core.ask(requests.SetQueue(Q, policy))
        core.ask(requests.Begin(TX), owner=OTHER)
        core.ask(requests.Receive(Q, TX, bytes_max=1 << 20), owner=OTHER)
        core.ask(requests.Abort(TX), owner=OTHER)
    else:
        core.ask(requests.Receive(Q, bytes_max=1 << 20))
        core.ask(requests.Commit(0, [item(b"later", delay=60)]))
    taken(core, entrance, lookup=lookup)
    core.ask(requests.Abort(TX), owner=ME)
    assert there(core, f"q;{why}") == 1
    core.pass_time(70)
    assert there(core) == 1


# ---- no other way ------------------------------------------------------------------------------

TAKERS: Final = {
    "core/receive/entrance.py": {"LOCK", "REMOVE"},
    "core/transaction/unit_of_work.py": {"REMOVE"},  # what was locked here, at its commit
    "core/transfer/in_doubt.py": {"REMOVE"},  # dead letters that turn out to be none
}
"""Modules that make records by which a message is held, or received for good."""


def named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("Op.LOCK", "Op.REMOVE"):
            yield node.attr


def test_messages_are_held_and_removed_in_one_place() -> None:
    root = Path(onceq.core.__file__).parent
    found: dict[str, set[str]] = {}
    for path in root.rglob("*.py"):
        if "state" in path.relative_to(root).parts:
            continue  # which carries records out
        ops = set(named(ast.parse(path.read_text())))
        if ops:
            found[f"core/{path.relative_to(root)}"] = ops
    assert found == TAKERS


def test_nobody_else_asks_about_sharing() -> None:
    """Who takes messages asks ``check_taking`` or ``check_receive_from``, which ask all of it."""
    root = Path(onceq.core.__file__).parent
    asking = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if "check_sharing(" in path.read_text()
    }
    assert asking == {"receive/entrance.py"}
