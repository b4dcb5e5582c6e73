"""A core with applications that are somebody, and one that is nobody."""

from __future__ import annotations

from array import array

from onceq.core.inputs import OwnerCame
from onceq.errors import AccessDenied
from onceq.model import requests
from onceq.model.branches import TAG_BYTES, Xid
from onceq.model.message import PLAIN
from onceq.model.rights import NOBODY, Actor, ActorKind
from onceq.model.run import LENGTH_TYPE, Run
from tests.unit.core.alone import Core

RUNS = 1
"""An owner of whom nothing was said: this process itself."""
ALICE, STRANGER, BOB = 2, 3, 4
ORDERS = ".\\private$\\orders"
KEY = "private$\\orders"
XID = Xid(7, b"g", b"b")


def item(queue: str = ORDERS, count: int = 1) -> requests.SendItem:
    bodies = Run(bytes(count), array(LENGTH_TYPE, [1] * count))
    return requests.SendItem(queue, PLAIN, bodies=bodies)


def core() -> Core:
    made = Core()
    made.step(OwnerCame(ALICE, Actor(ActorKind.ACCOUNT, "alice")))
    made.step(OwnerCame(STRANGER, NOBODY))
    create(made, RUNS)
    return made


def create(made: Core, owner: int, name: str = "orders", *, transactional: bool = True) -> object:
    request = requests.CreateQueue({"name": name, "transactional": transactional})
    request.check()
    request.instance = name.encode().ljust(16, b"\0")
    return made.ask(request, owner=owner)


def grant(made: Core, words: str, pattern: str = "", *, who: str = "alice", take: bool = False,
          owner: int = RUNS) -> object:  # fmt: skip
    request = requests.SetRights(who, words.split(","), pattern, take)
    request.check()
    return made.ask(request, owner=owner)


def attempt(made: Core, owner: int, prefix: bytes, token: bytes) -> bytes:
    """The identifier of an attempt at a batch that somebody begins."""
    found = made.ask(requests.BeginAttempt(prefix, drawn=token * TAG_BYTES), owner=owner)
    assert isinstance(found, bytes)
    return found


def denied(answer: object) -> bool:
    return isinstance(answer, AccessDenied)


def prepared(made: Core, xid: Xid) -> None:
    """A branch that sends to orders, of this process."""
    made.ask(requests.StartBranch(1, xid))
    made.ask(requests.Send(1, [item()]))
    made.ask(requests.PrepareBranch(xid, 1))
