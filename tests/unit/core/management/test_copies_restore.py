"""What a restore changes in a manager, and what it leaves as it is."""

from __future__ import annotations

from dataclasses import replace

from onceq.core.decision import Decision, Notice
from onceq.core.inputs import PutBack
from onceq.core.manager import Manager
from onceq.core.peers.lives import ENTROPY_BYTES
from onceq.core.state import snapshot
from onceq.core.state.peer_table import Progress
from onceq.core.state.records import decode
from onceq.core.state.setups import LifeBegun
from onceq.core.state.state import State
from onceq.model import requests
from onceq.model.message import PLAIN
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.model.views.managers import Restored
from onceq.packet.acks import StreamMemory
from tests.unit.core.alone import IDENTITY, WALL_S, Core

OTHER = b"B" * 16
OLD = b"O" * 16


def core_with_sends() -> Core:
    core = Core()
    for at, name in enumerate((r"DIRECT=OS:B\private$\x", r"DIRECT=OS:C\private$\y")):
        item = requests.SendItem(name, PLAIN, bodies=Run.of([b"one", b"two"]))
        core.ask(requests.Begin(at + 1))
        core.ask(requests.Commit(at + 1, (item,)))
    return core


def put_back(core: Core, previous: bytes = b"", instances: tuple[bytes, ...] = ()) -> object:
    return core.ask(PutBack(0, 0, WALL_S - 60, 500, previous, instances))


def waiting(core: Core) -> int:
    return sum(map(len, core.manager.state.outgoing.values()))


def test_with_its_own_identity_everything_stays_and_the_restore_is_known() -> None:
    core = core_with_sends()
    assert put_back(core) == 0
    assert waiting(core) == 4
    told = core.manager.state.restored
    assert told is not None
    assert (told.taken_s, told.position, told.previous, told.aside) == (WALL_S - 60, 500, "", 0)
    assert core.again().state.restored == replace(told, told=True)


def test_what_had_arrived_is_not_certain_any_more() -> None:
    """Between the backup and the restore more may have been accepted: nobody is told that it was
    not."""
    core = core_with_sends()
    state = core.manager.state
    state.progress[OTHER, "q"] = Progress(OTHER, "q", stream=7, last=10)
    state.memories.load(OTHER, "q", StreamMemory(6, 1, 5, True))
    assert state.memory_of(OTHER, "q", 6) is not None
    put_back(core)
    assert state.memory_of(OTHER, "q", 6) is None
    memory = state.memory_of(OTHER, "q", 7)
    assert memory is not None
    assert [memory.arrived(number) for number in (5, 10, 11)] == [None, None, None]


def test_under_another_identity_nothing_that_waited_is_sent() -> None:
    core = core_with_sends()
    assert put_back(core, OLD) == 4
    assert waiting(core) == 0
    state = core.manager.state
    (dead,) = [queue for queue in state.queues.values() if queue.title == "system$;deadxact"]
    assert len(dead) == 4
    assert set(dead.lanes[0].classes.values()) == {0x800C}
    assert state.restored is not None
    assert (state.restored.previous, state.restored.aside) == (OLD.hex(), 4)


def test_public_queues_of_a_copy_are_not_those_of_the_original() -> None:
    core = Core()
    state = core.manager.state
    made = QueueProperties("orders", private=False, number=20, instance=b"1" * 16)
    state.make_queue(made)
    state.make_queue(QueueProperties("own", private=True, number=21, instance=b"2" * 16))
    put_back(core, OLD, (b"3" * 16,))
    found = {q.title: q.properties.instance for q in state.queues.values() if not q.system}
    assert found == {"orders": b"3" * 16, "own": b"2" * 16}


def test_the_operator_is_told_once_at_the_first_start() -> None:
    core = core_with_sends()
    put_back(core, OLD)
    told = []
    for _ in range(2):
        manager = Manager(IDENTITY, Settings())
        decision = manager.recover(
            core.now(), None, core.records, core.manager.position, entropy=bytes(ENTROPY_BYTES)
        )
        told.append([a for a in decision.actions if isinstance(a, Notice)])
        core.kept(decision)
        core.manager = manager
    (notice,) = told[0]
    assert notice.what == "this queue manager was put back from a backup"
    assert notice.values["position"] == 500
    assert notice.values["set_aside"] == 4
    assert told[1] == []


def test_how_the_life_before_ended_is_not_known_at_the_first_start() -> None:
    """The restore has closed the store in order; what it was taken of may have been killed."""
    core = core_with_sends()
    core.kept(_started(core, b"1" * ENTROPY_BYTES))
    put_back(core)
    for entropy in (b"2" * ENTROPY_BYTES, b"3" * ENTROPY_BYTES):
        core.kept(_started(core, entropy))
    records = [decode(payload, 0) for _, payload in core.records]
    lives = [one for one in records if isinstance(one, LifeBegun)]
    assert [one.orderly for one in lives[-2:]] == [None, True]
    assert {one.at_us for one in lives} == {core.now().wall_us}


def _started(core: Core, entropy: bytes) -> Decision:
    core.manager, at = Manager(IDENTITY, Settings()), core.manager.position
    return core.manager.recover(core.now(), None, core.records, at, entropy=entropy, orderly=True)


def test_a_checkpoint_remembers_it() -> None:
    core = core_with_sends()
    put_back(core)
    other = State(IDENTITY)
    snapshot.restore(other, b"".join(core.manager.snapshot().encode()))
    assert other.restored == core.manager.state.restored
    assert isinstance(other.restored, Restored)
