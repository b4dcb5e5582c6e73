"""What a queue manager registers in the directory, and what it does when somebody changes that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from onceq.core.decision import Register, RewriteRights
from onceq.core.inputs import Input, RightsRead
from onceq.directory import MemoryDirectory, SeenRights
from onceq.errors import DirectoryError
from onceq.model.branches import Xid
from onceq.model.directory import Computer, DistributionList, PublicQueue
from onceq.model.identity import guid_text
from onceq.model.limits import DIRECTORY_DISPUTE_S_MAX, DIRECTORY_LOOK_S, DIRECTORY_RETRY_S
from onceq.model.marks import SECOND_US, Now
from onceq.model.message import Properties
from onceq.model.policy import Policy
from onceq.model.requests import (
    Access,
    Commit,
    ExplainRight,
    Look,
    OpenQueue,
    PrepareBranch,
    Promise,
    Send,
    SendItem,
    SetRights,
)
from onceq.model.rights import NO_RIGHTS, Regrant, SharedRights, grant_of
from onceq.model.run import Run
from onceq.service import naming as naming_module
from onceq.service.clock import Due
from onceq.service.committer import Committer
from onceq.service.naming import Naming

GUID = bytes(range(16))
XID = Xid(1, b"g", b"b")
QUEUE = PublicQueue(bytes(16), "ALPHA", "orders", True, "")


class Counted(MemoryDirectory):
    """Counts what is written."""

    writes = 0

    def register(self, computer: Computer, queues: Any) -> None:
        self.writes += 1
        super().register(computer, queues)


@dataclass
class Host:
    """One manager as naming knows it: the core asks to register at each change."""

    directory: MemoryDirectory
    address: str
    queues: tuple[PublicQueue, ...] = ()
    due: Due = field(default_factory=Due)
    told: int = 0

    def __post_init__(self) -> None:
        self.naming = Naming(cast(Committer, self), self.directory, None)
        self.manager = self

    def step(self, now: Now, changed: object) -> None:
        self.told += 1

    def settle(self, decisions: list[None]) -> None:
        self.ask()

    def ask(self) -> None:
        """The core has something to register."""
        computer = Computer("ALPHA", GUID, (self.address,), {})
        self.naming.register(Register(computer, self.queues))

    def at(self, seconds: float) -> None:
        """A pump, at that time."""
        us = int(seconds * SECOND_US)
        self.naming.prepare(Now(us // SECOND_US, us), ())


@pytest.fixture(autouse=True)
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    said: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(naming_module, "event", lambda what, **values: said.append((what, values)))
    return said


def addresses(directory: MemoryDirectory) -> tuple[str, ...]:
    found = directory.snapshot.computer_of(GUID)
    assert found is not None
    return found.addresses


def test_what_the_directory_says_already_is_not_written() -> None:
    directory = Counted()
    one = Host(directory, "10.0.0.1")
    for second in range(20):
        one.at(second)
        one.ask()
    assert directory.writes == 1


def test_copies_do_not_write_as_fast_as_they_can_look(
    events: list[tuple[str, dict[str, Any]]],
) -> None:
    directory = Counted()
    one, two = Host(directory, "10.0.0.1"), Host(directory, "10.0.0.2")
    for tenth in range(36_000):
        one.at(tenth / 10)
        two.at(tenth / 10 + 0.05)
    assert 10 < directory.writes < 40
    assert one.told + two.told < 80, "who reads the directory is told of each change"
    assert len(events) < 40, "at most as often as it is written"
    assert "a copy of this queue manager" in events[-1][1]["cure"]


def test_an_entry_that_was_changed_by_hand_is_put_right_at_once(
    events: list[tuple[str, dict[str, Any]]],
) -> None:
    directory = Counted()
    one = Host(directory, "10.0.0.1")
    one.at(0)
    directory.register(Computer("ALPHA", GUID, ("10.9.9.9",), {}), ())
    one.at(60)
    assert addresses(directory) == ("10.0.0.1",)
    assert len(events) == 1


def test_what_waits_is_written_when_its_time_has_come_and_others_change_theirs() -> None:
    directory = Counted()
    one, two = Host(directory, "10.0.0.1"), Host(directory, "10.0.0.2")
    for tenth in range(100):
        one.at(tenth / 10)
        two.at(tenth / 10 + 0.05)
    directory.register(Computer("ALPHA", GUID, ("10.0.0.2",), {}), ())
    before, second = directory.writes, 10
    while addresses(directory) != ("10.0.0.1",):
        second += 1
        one.at(second)
        directory.register(Computer("BETA", bytes(16), (f"10.0.1.{second}",), {}), ())
        assert second < 60
    assert directory.writes == before + second - 10 + 1, "its own once, and BETA's"


def test_after_a_quiet_time_nobody_waits() -> None:
    directory = Counted()
    one, two = Host(directory, "10.0.0.1"), Host(directory, "10.0.0.2")
    for tenth in range(600):
        one.at(tenth / 10)
        two.at(tenth / 10 + 0.05)
    one.at(DIRECTORY_DISPUTE_S_MAX)  # the other one was ended, and this one writes for good
    calm = 2 * DIRECTORY_DISPUTE_S_MAX + 1
    directory.register(Computer("ALPHA", GUID, ("10.9.9.9",), {}), ())
    one.at(calm)
    assert addresses(directory) == ("10.0.0.1",)
    directory.register(Computer("ALPHA", GUID, ("10.9.9.9",), {}), ())
    one.at(calm + 0.2)
    assert addresses(directory) == ("10.0.0.1",), "it waits as little as at the beginning"


def test_a_new_queue_is_registered_though_the_entry_is_disputed() -> None:
    directory = Counted()
    one, two = Host(directory, "10.0.0.1"), Host(directory, "10.0.0.2")
    for tenth in range(600):
        one.at(tenth / 10)
        two.at(tenth / 10 + 0.05)
    one.queues = (QUEUE,)
    one.ask()
    assert directory.snapshot.queues[QUEUE.guid] == QUEUE


def test_what_could_not_be_written_is_tried_again(
    events: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Counted()
    full = [True]

    def register(computer: Computer, queues: Any) -> None:
        if full:
            raise DirectoryError("the disk is full")
        Counted.register(directory, computer, queues)

    monkeypatch.setattr(directory, "register", register)
    one = Host(directory, "10.0.0.1")
    one.at(0)
    assert one.naming.due().timer_us == int(DIRECTORY_RETRY_S * SECOND_US)
    assert [what for what, _ in events] == ["this computer could not be registered"]
    full.clear()
    one.at(DIRECTORY_RETRY_S - 1)
    assert directory.snapshot.computer_of(GUID) is None
    one.at(DIRECTORY_RETRY_S)
    assert addresses(directory) == ("10.0.0.1",)
    assert one.naming.due() == Due()


def test_a_directory_that_is_away_is_looked_for_now_and_then() -> None:
    directory = Counted()
    directory.online(False)
    one = Host(directory, "10.0.0.1")
    times = []
    second = 0.0
    for _ in range(3):
        one.at(second)
        times.append(second)
        assert one.naming.due().timer_us > second * SECOND_US, "never a pump for nothing"
        second = one.naming.due().timer_us / SECOND_US
    assert times == [0, DIRECTORY_RETRY_S, 2 * DIRECTORY_RETRY_S]


CARL = grant_of("certificate:carl", ["send"], "*")


def rights_told(host: Host, monkeypatch: pytest.MonkeyPatch) -> list[RightsRead]:
    """What the core is told of rights from now on."""
    told: list[RightsRead] = []

    def step(now: Now, item: object) -> None:
        if isinstance(item, RightsRead):
            told.append(item)

    monkeypatch.setattr(host, "step", step)
    return told


def test_the_core_is_told_of_rights_at_the_start_and_when_they_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = MemoryDirectory()
    one = Host(directory, "10.0.0.1")
    told = rights_told(one, monkeypatch)
    one.at(0)
    one.at(1)
    assert told == [RightsRead(None)]
    directory.put_rights(Regrant(CARL, take=False, known=NO_RIGHTS, id=GUID))
    one.at(1 + DIRECTORY_LOOK_S / 2)
    assert len(told) == 1, "it looks only so often"
    one.at(1 + DIRECTORY_LOOK_S)
    one.at(2)
    assert told[1:] == [RightsRead(SharedRights(GUID, 1, (CARL,)))]


def test_who_is_asked_about_rights_looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = MemoryDirectory()
    one = Host(directory, "10.0.0.1")
    told = rights_told(one, monkeypatch)
    one.at(0)
    for number, request in enumerate(
        (Look("rights"), ExplainRight("x", "send", "q"), SetRights("x", ["send"], "q"))
    ):
        directory.put_rights(Regrant(CARL, take=bool(number % 2), known=NO_RIGHTS, id=GUID))
        one.naming.prepare(Now(0, 1), (request,))
        assert len(told) == 2 + number


def sent_to(name: str) -> SendItem:
    return SendItem(name, Properties(), Run.of((b"body",)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda name: OpenQueue(name, Access.SEND),
        lambda name: Send(0, (sent_to(name),)),
        lambda name: Commit(0, (sent_to(name),)),
        lambda name: PrepareBranch(XID, items=(sent_to(name),)),
        lambda name: Promise(0, XID, (sent_to(name),)),
    ],
)
@pytest.mark.parametrize("by", ["queue", "list"])
def test_a_name_that_has_just_been_made_is_looked_for_at_once(
    by: str, ask: Callable[[str], Input]
) -> None:
    """Elsewhere a public queue or list was made behind the last look: who uses it at once was told
    that there is none."""
    directory = MemoryDirectory()
    one = Host(directory, "10.0.0.1")
    one.at(0)
    one.at(DIRECTORY_LOOK_S)
    told = one.told
    us = int(DIRECTORY_LOOK_S * SECOND_US) + 1
    one.naming.prepare(Now(0, us), (ask("DIRECT=OS:BETA\\private$\\q"), ask("PUBLIC=not-one")))
    assert one.told == told, "nothing here is a name that a directory knows"

    stock = PublicQueue(bytes(range(16, 32)), "BETA", "stock", True, "")
    directory.register(Computer("BETA", stock.guid, (), {}), (stock,))
    name = f"PUBLIC={guid_text(stock.guid)}"
    if by == "list":
        directory.put_list(DistributionList(bytes(range(32, 48)), "all", (name,)), None)
        name = f"DL={guid_text(bytes(range(32, 48)))}"
    one.naming.prepare(Now(0, us), (ask(name),))
    assert one.told == told + 1
    one.naming.prepare(Now(0, us), (ask(name),))
    assert one.told == told + 1


def test_without_a_directory_there_are_no_rights_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was read in one before goes."""
    one = Host(MemoryDirectory(), "10.0.0.1")
    told = rights_told(one, monkeypatch)
    naming = Naming(cast(Committer, one), None, None)
    state = SimpleNamespace(policy=Policy())
    monkeypatch.setattr(one, "state", state, raising=False)
    naming.check_directory(Now(0, 0))
    assert told == [], "there were none"
    state.policy.shared = SharedRights(GUID, 1, (CARL,))
    naming.check_directory(Now(0, 0))
    assert told == [RightsRead(NO_RIGHTS)]


def test_rights_that_cannot_be_read_are_looked_for_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = MemoryDirectory()
    one = Host(directory, "10.0.0.1")
    one.at(0)
    assert one.naming.due() == Due()
    seen = SeenRights(None, "the file is damaged")
    monkeypatch.setattr(directory, "look_rights", lambda: seen)
    one.at(1)
    assert one.naming.due().timer_us == int((1 + DIRECTORY_RETRY_S) * SECOND_US)
    assert one.naming.trouble == "", "names and lists can be read"


def test_a_change_is_answered_when_the_directory_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = MemoryDirectory()
    one = Host(directory, "10.0.0.1")
    told = rights_told(one, monkeypatch)
    one.at(0)
    answers: list[object] = []
    monkeypatch.setattr(
        one, "answer", lambda owner, number, result: answers.append(result), raising=False
    )
    change = RewriteRights(1, 2, Regrant(CARL, take=False, known=NO_RIGHTS, id=GUID))
    one.naming.rewrite_rights(change)
    one.naming.prepare(Now(0, 0), ())
    assert answers == [None]
    assert told[-1].book == SharedRights(GUID, 1, (CARL,)), "the next request finds it"
    directory.online(False)
    one.naming.rewrite_rights(change)
    assert isinstance(answers[-1], DirectoryError)
