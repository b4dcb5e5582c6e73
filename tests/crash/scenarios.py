"""Canonical short lives of a store. Each is stopped before each of its disk operations."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from onceq.testing.disk import Plan, SimFiles, Torn
from tests.crash.life import Life


def created(life: Life) -> None:
    life.create()


def single(life: Life) -> None:
    life.create()
    life.append(b"one" * 100)
    life.sync()


def batch(life: Life) -> None:
    life.create()
    for n in range(3):
        for m in range(3):
            life.append(b"%d.%d" % (n, m) * 60)
        life.sync()


def empty_records(life: Life) -> None:
    life.create()
    life.append(b"")
    life.append(b"")
    life.sync()
    life.append(b"")
    life.sync()


def roll(life: Life) -> None:
    life.create()
    for n in range(6):
        life.append(b"%d" % n * 1500)
        life.sync()


def roll_unsynced(life: Life) -> None:
    """One sync over several segments."""
    life.create()
    life.append(b"first" * 50)
    life.sync()
    for n in range(4):
        life.append(b"%d" % n * 1900)
    life.sync()


def large(life: Life) -> None:
    life.create()
    life.append(b"small")
    life.append(b"large" * 2000)
    life.sync()
    life.append(b"after")
    life.sync()


def checkpoint(life: Life) -> None:
    life.create()
    life.append(b"before" * 20)
    life.checkpoint()
    life.append(b"behind" * 20)
    life.sync()
    life.checkpoint()


def checkpoint_aside(life: Life) -> None:
    """The log goes on while a checkpoint is written; another one is never finished."""
    life.create()
    life.append(b"before" * 20)
    life.sync()
    life.begin()
    life.append(b"meanwhile" * 20)
    life.sync()
    assert life.pending is not None
    life.pending.write()
    life.append(b"later" * 20)
    life.sync()
    life.open_store.checkpoint_install(life.pending)
    life.covered, life.pending = life.pending.head.position, None
    position = life.open_store.position
    life.open_store.checkpoint_begin([life.state(position)], position).write()
    life.append(b"last" * 20)
    life.sync()


def reclaim(life: Life) -> None:
    """Old segments are used again."""
    life.create()
    for n in range(5):
        life.append(b"%d" % n * 1800)
        life.sync()
    life.checkpoint()
    life.reclaim()
    for n in range(4):
        life.append(b"again %d" % n * 250)
        life.sync()


def reclaim_meanwhile(life: Life) -> None:
    """Old segments are let go while a checkpoint is written that was begun before."""
    life.create()
    for n in range(4):
        life.append(b"%d" % n * 1800)
        life.sync()
    life.checkpoint()
    life.append(b"behind" * 300)
    life.sync()
    life.begin()
    life.reclaim()
    life.install()
    life.append(b"after" * 20)
    life.sync()


def ready(life: Life) -> None:
    life.create()
    life.prepare()
    life.prepare()
    for n in range(4):
        life.append(b"%d" % n * 2000)
        life.sync()


def lazy(life: Life) -> None:
    life.create()
    life.append(b"lazy one" * 20)
    life.flush()
    life.append(b"lazy two" * 20)
    life.flush()
    life.append(b"forced" * 20)
    life.sync()
    life.append(b"lazy three" * 20)
    life.flush()


def reopened(life: Life) -> None:
    life.create()
    life.append(b"first life" * 20)
    life.sync()
    life.append(b"never synced" * 20)
    life.flush()
    life.killed()
    life.reopen()
    life.append(b"second life" * 20)
    life.sync()


def closed(life: Life) -> None:
    life.create()
    life.append(b"one" * 30)
    life.close()
    life.reopen()
    life.append(b"two" * 30)
    life.checkpoint()
    life.close()


def live_segment(life: Life) -> None:
    """Messages before the checkpoint keep their segment."""
    life.create()
    for n in range(5):
        life.append(b"%d" % n * 1800)
        life.sync()
    life.checkpoint()
    life.live = lambda base, end: base == 0
    del life.appended[2:4]  # the records of the second segment, which goes
    life.promised = len(life.appended)
    life.open_store.reclaim(life.live)
    life.append(b"more" * 100)
    life.sync()
    life.checkpoint()
    life.open_store.reclaim(life.live)


def stale(life: Life) -> None:
    """A record that recovery cut lies exactly where the log goes on later, behind a checkpoint."""
    life.create()
    life.append(b"kept" * 20)
    life.sync()
    life.append(b"lost" * 20)
    life.flush()
    life.append(b"came" * 20)
    life.flush()
    life.power_cut(_only_the_last)
    life.reopen()
    life.append(b"next" * 20)
    life.checkpoint()
    life.killed()
    life.reopen()
    life.append(b"new" * 10)
    life.sync()


def stale_segment(life: Life) -> None:
    """A whole segment of records that recovery cut; its name is used again."""
    life.create()
    life.append(b"kept" * 20)
    life.sync()
    life.append(b"lost" * 900)
    life.flush()
    life.append(b"came" * 900)
    life.flush()
    life.power_cut(_only_the_last)
    life.reopen()
    life.append(b"next" * 900)
    life.sync()
    life.append(b"nigh" * 900)
    life.sync()


def half_again(life: Life) -> None:
    """The first half of a record came, and it was cut; the second half comes with another one."""
    life.create()
    life.append(b"kept" * 20)
    life.sync()
    life.append(b"one" + b"the same" * 150)
    life.flush()
    life.power_cut(_only_half)
    life.reopen()
    life.append(b"two" + b"the same" * 150)
    life.flush()


def half_again_later(life: Life) -> None:
    """The same, with a record between that fills the place of one that was lost; and no whole
    frame tells of the epoch that the half one has."""
    life.create()
    life.append(b"kept" * 20)
    life.sync()
    life.killed()
    life.reopen()
    life.append(b"lost" * 20)
    life.flush()
    life.append(b"one" + b"the same" * 150)
    life.flush()
    life.power_cut(_only_half)
    life.reopen()
    life.append(b"next" * 20)
    life.sync()
    life.append(b"two" + b"the same" * 150)
    life.flush()


def _only_half(disk: SimFiles) -> Plan:
    last = disk.pending_writes[-1:]
    return Plan(last, disk.pending_names, Torn(last[0], 600) if last else None)


def closed_after_cut(life: Life) -> None:
    """Everything was cut, then the empty store closed in order: its epoch must not be forgotten."""
    life.create()
    life.append(b"lost" * 20)
    life.flush()
    life.append(b"came" * 20)
    life.flush()
    life.power_cut(_only_the_last)
    life.reopen()
    life.close()
    life.reopen()
    life.append(b"new" * 20)
    life.sync()
    life.killed()
    life.reopen()
    life.append(b"next" * 20)
    life.sync()


def _only_the_last(disk: SimFiles) -> Plan:
    return Plan(disk.pending_writes[-1:], disk.pending_names)


SCENARIOS: dict[str, Callable[[Life], None]] = {
    work.__name__: work
    for work in (
        created, single, batch, empty_records, roll, roll_unsynced, large, checkpoint,
        checkpoint_aside, reclaim, reclaim_meanwhile, ready, lazy, reopened, closed, live_segment,
        stale, stale_segment, half_again, half_again_later, closed_after_cut,
    )
}  # fmt: skip


def scenario(name: str) -> Callable[[Life], None]:
    """A canonical life by its name, or ``random-N``: a life drawn from seed N."""
    if name.startswith("random-"):
        return lambda life: random_life(life, Random(int(name[7:])))
    return SCENARIOS[name]


def random_life(life: Life, random: Random) -> None:
    """Anything that may be done with a store, in any order; also kills and power cuts."""
    life.create()
    for _ in range(random.randint(5, 20)):
        step = random.choice(("append",) * 6 + ("sync",) * 3 + RARE_STEPS)
        if step == "append":
            size = random.choice((0, 8, 100, 1_000, 2_000, 3_900, 9_000))
            # Alike but for their beginnings: half of one might complete half of another.
            life.append(random.randbytes(8) + b"the same" * (random.randint(size // 2, size) // 8))
        elif step == "reclaim":
            _reclaim_some(life, random)
        elif step == "reopen":
            life.close()
            life.reopen()
        elif step == "kill":
            life.killed()
            life.reopen()
        elif step == "power":
            plan = random.choice(life.files.plans(20, seed=random.randrange(100)))
            life.power_cut(lambda _, plan=plan: plan)  # type: ignore[misc]
            life.reopen()
        else:
            getattr(life, step)()


RARE_STEPS = (
    "flush",
    "checkpoint",
    "begin",
    "install",
    "reclaim",
    "prepare",
    "reopen",
    "kill",
    "power",
)


def _reclaim_some(life: Life, random: Random) -> None:
    """Some old segments are still needed; what lies in the others is forgotten."""
    old = [use for use in life.open_store.segments() if use.end <= life.covered]
    needed = {use.base for use in old if random.random() < 0.3}
    gone = [use for use in old if use.base not in needed]
    kept = [
        (position, data)
        for position, data in life.appended
        if not any(use.base <= position < use.end for use in gone)
    ]
    life.promised -= len(life.appended) - len(kept)
    life.appended = kept
    life.open_store.reclaim(lambda base, end: base in needed)


def onward(life: Life) -> None:
    """What any of these lives may go on with after it was ended and recovered."""
    life.reopen()
    life.append(b"onward" * 30)
    life.sync()
    life.append(b"lazily" * 30)
    life.flush()
    life.checkpoint()
    life.reclaim()
    for n in range(3):
        life.append(b"%d" % n * 2500)
        life.sync()
