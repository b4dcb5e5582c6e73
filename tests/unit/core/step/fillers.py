"""How one more of each thing that is counted is made: by somebody, in a core alone."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

from onceq.core import inputs
from onceq.core.inputs import OwnerCame
from onceq.errors import AccessDenied, InsufficientResources, OnceqError
from onceq.model import requests
from onceq.model.branches import TAG_BYTES, anchor_xid, group_prefix
from onceq.model.identification import Identification, Proof
from onceq.model.identity import guid_text
from onceq.model.marks import FOR_EVER_US
from onceq.model.results import Opened
from onceq.model.rights import Actor, ActorKind
from onceq.model.shares import Thing
from onceq.packet.arrived import cut
from proof.sim.faults import lies
from tests.unit.core.alone import IDENTITY, WALL_S, Core
from tests.unit.core.somebody import KEY, ORDERS, RUNS, attempt, core, create, grant, item

PREFIX: Final = group_prefix(IDENTITY.guid, b"a" * TAG_BYTES)
NAMES: Final = {2: "alice", 4: "bob", 5: "carol", 6: "dave", 7: "erin", 8: "admin"}
"""Accounts, by owner; the last one administers."""
ALICE, ADMIN = 2, 8
STREAM: Final = 1 << 40
Filler = Callable[[Core, int, int], object]
"""Adds one more for an owner, with a number that no other has; the answer, or the refusal."""


def house() -> Core:
    """A queue manager where everybody may do everything at queues, and one administers."""
    made = core()
    for owner, name in NAMES.items():
        made.step(OwnerCame(owner, Actor(ActorKind.ACCOUNT, name)))
    rights = "send,receive,peek,set-rights,create,delete"
    for pattern in ("private$\\*", "DIRECT=*"):
        grant(made, rights, pattern, who="*")
    grant(made, "send", "private$\\*", who="peer:*")
    grant(made, "administer", who=NAMES[ADMIN])
    return made


def by(owner: int) -> str:
    """An owner, as it is counted."""
    return "" if owner == RUNS else f"account:{NAMES[owner]}"


def peer(owner: int) -> bytes:
    """The GUID of a queue manager that stands for an owner."""
    return bytes((owner,)) * 16


def _queue(made: Core, owner: int, number: int) -> object:
    return create(made, owner, f"q{number}")


def _subqueue(made: Core, owner: int, number: int) -> object:
    asked = requests.OpenQueue(f"{ORDERS};s{number}", requests.Access.RECEIVE)
    return made.ask(asked, owner=owner)


def _outgoing(made: Core, owner: int, number: int) -> object:
    return made.ask(requests.Send(0, [item(f"DIRECT=OS:M{number}\\private$\\q")]), owner=owner)


def _grant(made: Core, owner: int, number: int) -> object:
    return grant(made, "peek", KEY, who=f"account:a{number}", owner=owner)


def _job(made: Core, owner: int, number: int) -> object:
    asked = requests.StartJob("purge", [ORDERS])
    asked.check()
    return made.ask(asked, owner=owner)


def _handle(made: Core, owner: int, number: int) -> object:
    return made.ask(requests.OpenQueue(ORDERS, requests.Access.PEEK), owner=owner)


def _cursor(made: Core, owner: int, number: int) -> object:
    held = made.ask(requests.OpenQueue(ORDERS, requests.Access.PEEK), owner=owner)
    assert isinstance(held, Opened)
    return made.ask(requests.OpenCursor(held.handle), owner=owner)


def _wait(made: Core, owner: int, number: int) -> object:
    asked = requests.Receive(
        ORDERS, peek=True, pick=requests.PickBy.HEADS, wait_until_us=FOR_EVER_US
    )
    return made.ask(asked, owner=owner)


def _transaction(made: Core, owner: int, number: int) -> object:
    """The refusal of a begin is told to whatever comes next."""
    made.ask(requests.Begin(number), owner=owner)
    return made.manager._step.units.refused.get((owner, number))


def _branch(made: Core, owner: int, number: int) -> object:
    xid = anchor_xid(attempt(made, owner, PREFIX, bytes((number,))), bytes(16))
    made.ask(requests.StartBranch(number, xid), owner=owner)
    return made.ask(requests.PrepareBranch(xid, number), owner=owner)


def _decision(made: Core, owner: int, number: int) -> object:
    made.ask(requests.Begin(number), owner=owner)
    asked = requests.Enlist(number, "partner", drawn=b"%d" % number)
    answer = made.ask(asked, owner=owner)
    made.ask(requests.Commit(number), owner=owner)
    return answer


def _group(made: Core, owner: int, number: int) -> object:
    return made.ask(requests.CommitGroup(f"app{number}", "", 1, PREFIX, []), owner=owner)


def _stream(made: Core, owner: int, number: int) -> object:
    """The first message of a stream to a new queue; what finds no room is not taken."""
    create(made, RUNS, f"in{number}")
    source = peer(owner)
    who = Identification(
        Proof.CERTIFICATE, Actor(ActorKind.PEER, guid_text(source)), source,
        frozenset(("certified",)),
    )  # fmt: skip
    made.step(inputs.SessionOpened(number, source, "10.0.0.2", 0, who=who))
    to = f"OS:A\\private$\\in{number}"
    data = lies.messages(source, to, [b"x"], stream=STREAM + number, number=1, sent_s=WALL_S)
    (run,) = cut(data, array("I", (len(data),)))
    before = made.manager.state.makers.streams.total
    made.step(inputs.Arrived(number, run))
    made.step(inputs.SessionClosed(number, "over"))
    taken = made.manager.state.makers.streams.total - before
    return None if taken else InsufficientResources("no stream was noted")


FILLERS: Final[dict[Thing, Filler]] = {
    Thing.QUEUES: _queue,
    Thing.SUBQUEUES: _subqueue,
    Thing.OUTGOING: _outgoing,
    Thing.GRANTS: _grant,
    Thing.JOBS: _job,
    Thing.HANDLES: _handle,
    Thing.CURSORS: _cursor,
    Thing.WAITS: _wait,
    Thing.TRANSACTIONS: _transaction,
    Thing.BRANCHES: _branch,
    Thing.DECISIONS: _decision,
    Thing.GROUPS: _group,
    Thing.STREAMS: _stream,
}


def fill(made: Core, thing: Thing, owner: int, first: int, most: int) -> tuple[int, OnceqError]:
    """Add until it is refused: how many more there were, and the refusal.

    Args:
        first: From there on are numbers that nobody has.
        most: More than can be there.
    """
    for count in range(most):
        answer = FILLERS[thing](made, owner, first + count)
        if isinstance(answer, OnceqError):
            assert not isinstance(answer, AccessDenied), answer.text
            return count, answer
    raise AssertionError(f"{owner} is never refused")
