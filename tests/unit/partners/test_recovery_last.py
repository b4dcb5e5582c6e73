"""Rows that decide, over many transactions: removed in bulk, and missed when they are lost.

The manager is a real core, and the database a table that may be set back to what it was. What
others do in the meantime happens between the calls of a round of recovery.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from onceq.core.inputs import OwnerGone
from onceq.core.state.branch_table import DatabaseRows, SeenRows
from onceq.core.state.setups import RowsFound
from onceq.errors import AccessDenied, DatabaseRestored, OnceqError, PartnerLost
from onceq.model import requests
from onceq.model.branches import DecisionState, Xid, xid_by_row
from onceq.model.message import PLAIN
from onceq.model.queue import QueueProperties
from onceq.model.requests.xa import ROWS_ACCEPTED
from onceq.model.results import Promised
from onceq.model.run import Run
from onceq.model.views.looks import BranchView, RowsView
from onceq.partners.contract import ABORTED, COMMITTED, NOTED, Row, row_of
from onceq.partners.procedures import drive
from onceq.partners.recovery import Recovery, Report, look_before_work, promises_in, remove_rows
from tests.unit.core.alone import IDENTITY, Core

Q, NAME = "private$\\q", "sqlite:/shop.db"
ITEM = requests.SendItem(Q, PLAIN, Run.of([b"x"]))
SEEDS = range(60)


@dataclass
class Table:
    """The database."""

    rows: dict[Row, str] = field(default_factory=dict)
    name: str = NAME
    lost: bool = False
    """The connection is; the next call says so."""

    def restore(self, rows: dict[Row, str]) -> None:
        """Put a backup back."""
        self.rows, self.lost = dict(rows), True

    def _call(self) -> None:
        if self.lost:
            self.lost = False
            raise PartnerLost("no answer")

    def settle(self, row: Row) -> bool:
        self._call()
        return self.rows.setdefault(row, ABORTED) == COMMITTED

    def numbers(self, outcome: str = COMMITTED) -> list[int]:
        return sorted(row.number for row, what in self.rows.items() if what == outcome)

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> int:  # fmt: skip
        self._call()
        assert manager == IDENTITY.guid.hex()
        found = self.numbers()
        if note and note not in self.numbers(NOTED):
            return -1
        if not set(found).issuperset(must):
            return -1
        return len([n for n in found if after < n <= upto and n not in but])

    def note(self, manager: str, number: int) -> None:
        self._call()
        self.rows[Row(manager, number, "")] = NOTED

    def remove(self, manager: str, below: int, but: Sequence[int]) -> None:
        self._call()
        for row, what in list(self.rows.items()):
            if what != ABORTED and row.number < below and row.number not in but:
                del self.rows[row]

    def close(self) -> None:
        """Nothing to give up."""


class Gone(Table):
    """A server that is not there any more."""

    def _call(self) -> None:
        raise PartnerLost("no answer")


class Manager:
    """A core, asked as recovery and applications ask."""

    def __init__(self) -> None:
        self.core = Core()
        properties = QueueProperties("q", transactional=True)
        self.core.ask(requests.CreateQueue(properties=properties, instance=b"I" * 16))
        self.guid = IDENTITY.guid
        self.count = 0

    def ask(self, request: requests.Request) -> Any:
        answer = self.core.ask(request)
        if isinstance(answer, OnceqError):
            raise answer
        return answer

    def promise(self) -> tuple[Xid, Row]:
        self.count += 1
        xid = xid_by_row(self.guid, self.count, NAME)
        self.ask(requests.Begin(self.count))
        promised = self.ask(requests.Promise(self.count, xid, (ITEM,)))
        assert isinstance(promised, Promised)
        return xid, row_of(xid, promised.number)

    def dies(self) -> None:
        """The application: nobody is at work in what it has promised."""
        self.core.step(OwnerGone(owner=1))

    def promises(self) -> list[BranchView]:
        return promises_in(self.ask(requests.Look("branches")))

    def rows(self, agent: str, found: int = 0) -> RowsView:
        answer = self.ask(requests.AskRows(agent, found))
        assert isinstance(answer, RowsView)
        return answer

    def commit(self, xid: Xid) -> None:
        self.ask(requests.CommitBranch(xid))

    def rollback(self, xid: Xid) -> None:
        self.ask(requests.RollbackBranch(xid))

    def decision(self, gtrid: bytes) -> DecisionState:
        raise AssertionError("this manager decides nothing")

    def open_decisions(self) -> dict[bytes, tuple[str, ...]]:
        return {}

    def done(self, gtrid: bytes) -> None:
        raise AssertionError("this manager decides nothing")


class World:
    """Applications that promise, write rows and commit, in any order; and recovery."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.manager, self.table = Manager(), Table()
        self.promised: list[tuple[Xid, Row]] = []
        self.written: list[tuple[Xid, Row]] = []
        self.over: set[int] = set()
        """Numbers of branches that were committed."""
        self.restored: dict[str, DatabaseRestored] = {}

    def something(self, *, more: bool = True) -> None:
        """One step of an application."""
        what = self.rng.randrange(3)
        if what == 0 and more:
            self.promised.append(self.manager.promise())
        elif what == 1 and self.promised:
            xid, row = self.promised.pop(self.rng.randrange(len(self.promised)))
            self.table.rows[row] = COMMITTED
            self.written.append((xid, row))
        elif self.written:
            xid, row = self.written.pop(self.rng.randrange(len(self.written)))
            self.manager.commit(xid)
            self.over.add(row.number)

    def round(self, busy: Callable[[], None] = lambda: None) -> Report:
        """One of a recovery that begins with it; ``busy`` happens before each of its calls."""
        recovery = Recovery(self.manager)
        recovery.add_agent(self.table)
        work = recovery.calls(0.0)
        try:
            call = next(work)
            while True:
                busy()
                try:
                    result = call()
                except Exception as error:  # noqa: BLE001 - the work sees every error
                    call = work.throw(error)
                else:
                    call = work.send(result)
        except StopIteration as stop:
            report: Report = stop.value
        self.restored = recovery.restored
        return report


@pytest.mark.tier("rest")
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_go_and_nothing_is_ever_missed(seed: int) -> None:
    removed(seed)


def removed(seed: int) -> None:
    """Raises AssertionError if rows are missed that nobody has lost, or do not go."""
    world = World(seed)
    for _ in range(12):
        for _ in range(world.rng.randrange(8)):
            world.something()
        others: list[Callable[..., Report]] = [world.round] if world.rng.random() < 0.3 else []

        def busy(others: list[Callable[..., Report]] = others) -> None:
            world.something()
            if others and world.rng.random() < 0.3:
                others.pop()()

        world.round(busy)
        assert not world.restored
    for _, row in world.written:
        assert row in world.table.rows, "a row was removed whose branch is not over"
    while world.promised or world.written:
        world.something(more=False)
    # What was marked before is found by the first, and the rest by the second.
    world.round()
    report = world.round()
    assert not world.restored
    assert report.clean
    assert len(world.table.numbers()) <= 1
    again = world.manager.core.again().state.branches.rows
    assert again.dump() == world.manager.core.manager.state.branches.rows.dump()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_database_that_was_set_back_is_recognised(seed: int) -> None:
    set_back(seed)


def set_back(seed: int) -> None:
    """Raises AssertionError if it is not, however many transactions were committed since."""
    world = World(seed)
    for _ in range(world.rng.randrange(30)):
        world.something()
        if world.rng.random() < 0.1:
            world.round()
    before, over = dict(world.table.rows), set(world.over)
    while len(world.over) < len(over) + 3:
        world.something()
    kept = {row.number for row, what in before.items() if what == COMMITTED}
    lost = world.over - over - kept
    world.table.rows = before
    for _ in range(world.rng.randrange(10)):
        xid, row = world.manager.promise()
        world.table.rows[row] = COMMITTED
        world.manager.commit(xid)
    world.manager.dies()
    left = len(world.manager.promises())
    report = world.round()
    if not lost:
        assert not world.restored
        return
    assert isinstance(world.restored.get(NAME), DatabaseRestored)
    assert report.committed == report.rolled_back == []
    assert len(world.manager.promises()) == left
    world.manager.rows(NAME, -1)
    assert world.round().clean
    assert not world.restored


def test_nothing_seen_nothing_missed() -> None:
    world = World(1)
    assert world.round().clean
    assert not world.restored
    assert world.manager.rows(NAME) == RowsView(NAME)


def test_the_row_that_is_kept_is_missed_when_all_is_quiet() -> None:
    world = World(1)
    xid, row = world.manager.promise()
    world.table.rows[row] = COMMITTED
    world.manager.commit(xid)
    assert world.round().clean
    assert world.manager.rows(NAME).kept == row.number
    assert world.round().clean
    world.table.rows.clear()
    assert not world.round().clean
    assert world.restored


def committed(world: World) -> Row:
    xid, row = world.manager.promise()
    world.table.rows[row] = COMMITTED
    world.manager.commit(xid)
    return row


def test_what_was_committed_after_a_look_was_broken_off_is_looked_for() -> None:
    """The database is set back behind a mark that nothing was looked for under yet."""
    world = World(1)
    committed(world)
    world.manager.rows(NAME)  # The round ends here: the database cannot be reached.
    before = dict(world.table.rows)
    committed(world)
    world.table.rows = before
    assert not world.round().clean
    assert world.restored


def promised(world: World, *, row: bool = False) -> tuple[Xid, Row]:
    """A branch; with its row, or not yet."""
    xid, key = world.manager.promise()
    if row:
        world.table.rows[key] = COMMITTED
    return xid, key


def write_and_commit(world: World, branch: tuple[Xid, Row]) -> None:
    xid, row = branch
    world.table.rows[row] = COMMITTED
    world.manager.commit(xid)


def test_a_database_that_is_set_back_in_a_round_decides_nothing_in_it() -> None:
    """Its connection is lost over one branch; over the next one it has other rows."""
    world = World(1)
    first, second = promised(world), promised(world, row=True)
    world.manager.dies()
    before = dict(world.table.rows)
    before.pop(second[1])
    committed(world)
    calls: list[None] = []

    def busy() -> None:
        calls.append(None)
        if len(calls) == 4:  # before the first branch is asked for
            world.table.restore(before)

    report = world.round(busy)
    assert world.restored, f"after {len(calls)} calls"
    assert report.committed == report.rolled_back == []
    assert not {first[1], second[1]} & set(world.table.rows)


def test_what_is_not_for_this_application_to_decide_does_not_keep_others_waiting() -> None:
    class Shared(Manager):
        def commit(self, xid: Xid) -> None:
            if xid == another:
                raise AccessDenied("nobody has granted send")
            super().commit(xid)

    manager, table = Shared(), Table()
    (another, row), (own, own_row) = manager.promise(), manager.promise()
    manager.dies()
    table.rows = {row: COMMITTED, own_row: COMMITTED}
    recovery = Recovery(manager)
    recovery.add_agent(table, NAME)
    report = recovery.step(0.0)
    assert report.committed == [(NAME, own)]
    assert "nobody has granted send" in report.failed[f"{NAME} (rows)"]
    assert table.rows == {row: COMMITTED, own_row: COMMITTED}, "nothing was removed"


@pytest.mark.parametrize("own", [False, True])
def test_rows_that_are_for_others_to_look_after_are_no_trouble(own: bool) -> None:
    """Unless a branch waits for one of them."""

    class Theirs(Manager):
        def rows(self, agent: str, found: int = 0) -> RowsView:
            raise AccessDenied("nobody has granted send at rows=...")

    manager, table = Theirs(), Table()
    if own:
        manager.promise()
        manager.dies()
    recovery = Recovery(manager)
    recovery.add_agent(table, NAME)
    assert list(recovery.step(0.0).failed) == [f"{NAME} (rows)"] * own
    assert not table.rows


def test_a_branch_that_ends_after_later_ones_were_found_is_looked_for() -> None:
    world = World(1)
    open_ = promised(world)
    committed(world)
    assert not world.round().failed
    before = dict(world.table.rows)
    write_and_commit(world, open_)
    world.table.restore(before)
    world.round()
    world.round()
    assert world.restored, "its row is lost, and its number is below that of what is kept"


def test_a_branch_that_ends_while_it_is_looked_is_looked_for_the_next_time() -> None:
    """The mark is set, and the row younger than what is found for it."""
    world = World(1)
    open_ = promised(world)
    committed(world)
    before: list[dict[Row, str]] = []

    def busy() -> None:
        if world.table.numbers(NOTED) and not before:
            before.append(dict(world.table.rows))
            write_and_commit(world, open_)

    world.round(busy)
    world.table.restore(before[0])
    world.round()
    world.round()
    assert world.restored


def test_a_state_that_lacks_a_row_and_has_a_later_one_is_recognised() -> None:
    """Rows come in any order: the highest number may be the oldest row."""
    world = World(1)
    low, high = promised(world), promised(world)
    write_and_commit(world, high)
    before = dict(world.table.rows)
    write_and_commit(world, low)
    assert world.round().clean
    assert low[1] not in world.table.rows, "found, and removed"
    world.table.restore(before)
    world.round()
    world.round()
    assert world.restored


def test_rows_from_before_an_operator_accepts_count_for_no_others() -> None:
    world = World(1)
    for _ in range(3):
        committed(world)
    world.manager.rows(NAME, -1)
    before = dict(world.table.rows)
    committed(world)
    world.table.restore(before)
    world.round()
    world.round()
    assert world.restored


def test_what_is_late_is_looked_for_until_a_later_mark_was_found() -> None:
    world = World(1)
    open_ = promised(world)
    committed(world)
    world.round()
    write_and_commit(world, open_)
    number = open_[1].number
    for _ in range(2):
        assert world.round().clean
        assert world.manager.rows(NAME).late == (number,)
    committed(world)
    assert world.round().clean
    assert world.manager.rows(NAME).late == ()
    assert world.table.numbers() == [world.manager.rows(NAME).kept]
    other = type(world.manager.core.manager.state.branches.rows)()
    assert world.manager.core.again().state.branches.rows.dump() != other.dump()


def test_records_of_older_versions_leave_nothing_to_be_looked_for() -> None:
    """They may have removed such rows, and wrote no note."""
    rows = SeenRows()
    for number in (2, 5):
        rows.committed(NAME, number, "")
    rows.marked(NAME)
    rows.committed(NAME, 3, "")
    assert rows.get(NAME).late == [3]
    rows.found(NAME, noted=RowsFound.of({"agent": NAME}).noted)
    assert rows.get(NAME) == DatabaseRows(kept=5, last=5)


def test_a_checkpoint_of_an_older_version_is_read() -> None:
    rows = SeenRows()
    rows.load([[NAME, 5, 9, 2, 1, 11]])
    assert rows.get(NAME) == DatabaseRows(5, False, 9, 2, 1, 11, [], [])


def test_a_round_removes_nothing_that_another_one_still_looks_for() -> None:
    world = World(1)
    first = committed(world)
    view = world.manager.rows(NAME)
    committed(world)
    assert world.manager.rows(NAME).mark > view.mark, "another round looks for more"
    drive(remove_rows(world.manager, IDENTITY.guid.hex(), world.table, view))
    assert first in world.table.rows
    assert world.round().clean
    assert not world.restored


def look(world: World) -> None:
    """As an application does on a new connection, before it works."""
    drive(look_before_work(world.manager, IDENTITY.guid.hex(), world.table, NAME))


def test_an_application_looks_before_it_works() -> None:
    """Finding O1: also where no recovery of its process has asked that database."""
    world = World(1)
    look(world)
    committed(world)
    before = dict(world.table.rows)
    committed(world)
    look(world)
    world.table.rows = before
    with pytest.raises(DatabaseRestored, match="set back"):
        look(world)


def test_what_one_process_has_found_others_are_told() -> None:
    """Finding O1: they go on only when an operator has accepted it, or the rows are there again."""
    world = World(1)
    committed(world)
    whole = dict(world.table.rows)
    world.table.rows = {}
    world.round()
    assert world.restored
    assert world.manager.rows(NAME).missing
    assert world.manager.core.again().state.branches.rows.get(NAME).missing, "it is durable"
    world.table.rows = whole
    with pytest.raises(DatabaseRestored):
        look(world)  # Whichever server this one is at: somebody has seen another state.
    world.round()
    look(world)
    world.table.rows = {}
    with pytest.raises(DatabaseRestored):
        look(world)
    with pytest.raises(DatabaseRestored):
        world.manager.promise()  # Over a connection that was there before, nobody looks.
    assert not world.manager.rows(NAME, ROWS_ACCEPTED).missing
    look(world)
    world.manager.promise()


def test_rows_that_are_there_again_need_no_mark() -> None:
    world = World(1)
    committed(world)
    world.round()
    world.round()
    assert not world.manager.rows(NAME).mark
    whole, world.table.rows = dict(world.table.rows), {}
    world.round()
    assert world.restored
    world.table.rows = whole
    world.round()
    assert not world.restored
    assert not world.manager.rows(NAME).missing


def test_a_database_is_asked_where_it_answers() -> None:
    """Finding O1: a standby that was promoted has another address than the server before it."""
    world = World(1)
    recovery = Recovery(world.manager)
    recovery.add_agent(Gone(), NAME, "old")
    xid, row = world.manager.promise()
    world.table.rows[row] = COMMITTED
    world.manager.dies()
    assert recovery.step(0.0).failed
    assert not recovery.knows_agent(NAME, "new")
    assert recovery.add_agent(world.table, NAME, "new")
    assert recovery.knows_agent(NAME, "new")
    assert recovery.step(0.1).committed == [(NAME, xid)], "at once, and at the new address"
    recovery.close()


def test_a_checkpoint_keeps_what_was_seen() -> None:
    world = World(3)
    for _ in range(40):
        world.something()
    world.manager.rows(NAME)
    branches = world.manager.core.manager.state.branches
    other = type(branches.rows)()
    other.load(branches.dump()["rows"])
    assert other.dump() == branches.rows.dump() != []


def removed_early(manager: Any, guid: str, agent: Any, view: RowsView) -> Any:
    """Rows of branches that are not over are removed, too."""
    if view.mark:
        yield lambda: manager.rows(view.agent, view.mark)
        yield lambda: agent.remove(guid, view.mark, ())


def not_looked_for(promiser: Any, manager: str, agent: Any, name: str) -> Any:
    """A database is believed, whatever it lacks."""
    return (yield lambda: promiser.rows(name))


@pytest.mark.parametrize(
    ("place", "verb", "mistake", "finds"),
    [
        ("recovery", "remove_rows", removed_early, removed),
        ("recovery", "look_for_rows", not_looked_for, set_back),
    ],
)
def test_planted_mistakes_are_found(
    place: str,
    verb: str,
    mistake: Any,
    finds: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"onceq.partners.{place}.{verb}", mistake)
    with pytest.raises(AssertionError):
        for seed in SEEDS:
            finds(seed)
