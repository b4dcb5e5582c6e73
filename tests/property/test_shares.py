"""Random work of several accounts: what is counted for each owner is what a recount finds.

The core alone; its state is read again from its records, and from a checkpoint.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from onceq.core.inputs import OwnerCame, OwnerGone
from onceq.core.manager import Manager
from onceq.core.state.queue_tables import thing_of
from onceq.core.state.snapshot import StateSnapshot, restore
from onceq.core.state.state import State
from onceq.model import requests
from onceq.model.branches import Phase, Xid
from onceq.model.marks import FOR_EVER_US
from onceq.model.requests import Access
from onceq.model.results import Opened
from onceq.model.rights import NOBODY, Actor, ActorKind
from onceq.model.shares import TABLE, Thing
from tests.few import few
from tests.unit.core.alone import IDENTITY, Core
from tests.unit.core.somebody import KEY, ORDERS, RUNS, create, grant, item
from tests.unit.core.step.fillers import FILLERS, NAMES, house

STEPS = 400
WHOLE = 40
"""Of each thing: sometimes there is no more room."""


def durable(state: State) -> dict[str, dict[str, int]]:
    """What is kept with the state, after it was counted again."""
    found = {
        Thing.GRANTS: (state.policy.given_by, (g.by for g in state.policy if not g.owner)),
        Thing.BRANCHES: (state.branches.held_by, (one.by for one in state.branches)),
        Thing.DECISIONS: (
            state.branches.decided_by, (one.by for one in state.branches.decisions.values())
        ),
        Thing.GROUPS: (state.groups.named_by, (one.by for _, one in state.groups)),
        Thing.STREAMS: (state.makers.streams, (source.hex() for source, _ in state.progress)),
    }  # fmt: skip
    made = state.makers.dump()
    for thing, counts in state.makers.counts.items():
        queues = ((state.all_queues[number], who) for number, who in made)
        found[thing] = (counts, (who for queue, who in queues if thing_of(queue) is thing))
    assert state.makers.subqueues == sum(q.sub != "delayed" for q in state.subqueues.values())
    for thing, (counts, owners) in found.items():
        counted = Counter(owners)
        assert counts.all() == counted, thing
        assert counts.total == counted.total(), thing
    return {thing: counts.all() for thing, (counts, _) in found.items()}


def running(manager: Manager) -> None:
    """What ends with connections is counted again."""
    readers, units = manager._step.readers, manager._step.units
    assert readers.handles_by.all() == Counter(one.by for one in readers.handles.values())
    assert readers.cursors_by.all() == Counter(one.by for one in readers.cursors.values())
    assert readers.waits_by.all() == Counter(by for _, by in readers._at.values())
    assert readers.waits_by.total == len(readers.waiting)
    of_handles = {one for held in readers.handles.values() for one in held.cursors}
    assert of_handles == set(readers.cursors)
    left = [tx for tx in units.all() if tx.phase is not Phase.PREPARED]
    assert units.open_by.all() == Counter(tx.by for tx in left)
    assert units.open_by.total == len(left)


class Work:
    """What accounts do at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.made = house()
        self.number = 10
        self.left: dict[int, list[tuple[str, int]]] = {}
        """What owners have open: handles, cursors and transactions."""
        self.owners = dict.fromkeys(NAMES)

    def step(self) -> None:
        self.rng.choice((self.add, self.add, self.add, self.add, self.take, self.come_and_go))()

    def add(self) -> None:
        thing = self.rng.choice(list(FILLERS))
        self.number += 1
        if thing in (Thing.BRANCHES, Thing.STREAMS) and self.number > 250:
            return
        owner = self.rng.choice((*self.owners, RUNS))
        answer = FILLERS[thing](self.made, owner, self.number)
        if isinstance(answer, Opened):
            self.left.setdefault(owner, []).append(("handle", answer.handle))
        elif thing is Thing.CURSORS and isinstance(answer, int):
            self.left.setdefault(owner, []).append(("cursor", answer))
        elif thing is Thing.TRANSACTIONS:
            self.left.setdefault(owner, []).append(("transaction", self.number))

    def take(self) -> None:
        """Something that was made goes, or is changed."""
        made, rng, state = self.made, self.rng, self.made.manager.state
        owner = rng.choice(list(self.owners))
        match rng.randrange(14):
            case 0 | 1 | 2 if self.left.get(owner):
                kind, number = self.left[owner].pop(rng.randrange(len(self.left[owner])))
                ended = rng.choice((requests.Commit, requests.Abort))(number)
                closed = requests.CloseQueue if kind == "handle" else requests.CloseCursor
                made.ask(ended if kind == "transaction" else closed(number), owner=owner)
            case 3 | 4:
                queues = [one.properties.name for one in state.queues.values() if not one.system]
                made.ask(requests.DeleteQueue("private$\\" + rng.choice(queues)))
                create(made, RUNS)
            case 5 if len(state.policy):
                one = rng.choice(list(state.policy))
                if one.pattern.name == KEY:
                    who, words = str(one.who), [right.value for right in one.rights]
                    made.ask(requests.SetRights(who, words, KEY, take=True))
            case 6:
                # Given again by somebody else, and one's own right at a queue of one's own.
                grant(made, "peek", KEY, who=f"account:a{self.number - rng.randrange(20)}",
                      owner=owner)  # fmt: skip
                grant(made, "delete", KEY, who=NAMES[owner], take=True)
            case 7 if state.jobs.running():
                made.ask(requests.CancelJob(rng.choice(state.jobs.running()).number))
            case 8 if state.branches.decisions:
                made.ask(requests.DecisionDone(rng.choice(list(state.branches.decisions))))
            case 9 if len(state.branches):
                xid = rng.choice(list(state.branches)).xid
                by_hand = rng.random() < 0.3
                over = rng.choice((requests.RollbackBranch, requests.CommitBranch))
                made.ask(over(xid, by_hand=by_hand))
                if by_hand and rng.random() < 0.5:
                    made.ask(requests.ForgetBranch(xid))
            case 10 if len(state.groups):
                made.ask(requests.ForgetGroup(rng.choice([app for app, _ in state.groups])))
            case 11:
                self.branch(owner)
            case 12:
                sub = f"{ORDERS};m{rng.randrange(5)}"
                made.ask(requests.Send(0, [item()]), owner=owner)
                held = made.ask(requests.OpenQueue(sub, Access.MOVE), owner=owner)
                if isinstance(held, Opened):
                    made.ask(requests.CloseQueue(held.handle), owner=owner)
            case 13:
                made.ask(requests.SteerOutgoing("", requests.Steer.TIDY))
                made.pass_time(rng.choice((1, 40, 4_000)))

    def branch(self, owner: int) -> None:
        """A branch that is begun and left, joined by another, prepared or given up."""
        self.number += 1
        xid = Xid(7, b"%d" % self.number, b"b")
        self.made.ask(requests.StartBranch(self.number, xid), owner=owner)
        if self.rng.random() < 0.7:
            self.made.ask(requests.EndBranch(self.number, xid), owner=owner)
        if self.rng.random() < 0.5:
            self.made.ask(requests.PrepareBranch(xid), owner=owner)
        if self.rng.random() < 0.3:
            self.made.ask(requests.RollbackBranch(xid), owner=owner)

    def come_and_go(self) -> None:
        """A connection is lost, comes, or is somebody else's from now on."""
        owner = self.rng.choice(list(self.owners))
        name = NAMES[owner]
        if self.rng.random() < 0.4:
            self.made.manager._step.known_as(owner, NOBODY)
            assert self.made.ask(
                requests.Receive(ORDERS, wait_until_us=FOR_EVER_US), owner=owner
            )  # fmt: skip
        self.made.step(OwnerGone(owner))
        self.left.pop(owner, None)
        self.made.step(OwnerCame(owner, Actor(ActorKind.ACCOUNT, name)))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_counted_is_what_is_there(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for thing in TABLE:
        few(monkeypatch, thing, WHOLE)
    work = Work(seed)
    for at in range(STEPS):
        work.step()
        running(work.made.manager)
        if at % 20 == 0:
            durable(work.made.manager.state)
    now = durable(work.made.manager.state)
    assert sum(map(len, now.values())) > 8, "several have something"
    checkpoint = b"".join(StateSnapshot(work.made.manager.state).encode())
    loaded = State(IDENTITY)
    restore(loaded, checkpoint)
    assert durable(loaded) == now
    again = work.made.again()
    after = durable(again.state)
    # A restart lets go of subqueues that are empty, and of outgoing queues that nobody wanted.
    assert {**after, Thing.SUBQUEUES: {}} == {**now, Thing.SUBQUEUES: {}}
    running(again)
    for owner in work.owners:
        work.made.step(OwnerGone(owner))
    running(work.made.manager)
    readers = work.made.manager._step.readers
    assert not any(name for name in readers.handles_by.all())


def test_a_store_that_does_not_tell_makers_has_them_from_owners() -> None:
    made = house()
    create(made, 4, "his")
    state = made.manager.state
    told = dict(state.makers.dump())
    assert set(told.values()) == {"account:bob"}
    for number in told:
        state.makers.gone(state.all_queues[number])
    bare = Core()
    checkpoint = b"".join(StateSnapshot(state).encode()).replace(b',"makers":[]', b"")
    loaded = State(IDENTITY)
    size = int.from_bytes(checkpoint[4:8], "little") - len(',"makers":[]')
    restore(loaded, checkpoint[:4] + size.to_bytes(4, "little") + checkpoint[8:])
    assert dict(loaded.makers.dump()) == told
    assert bare.manager.state.makers.dump() == []
