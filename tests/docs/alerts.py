"""The causes of the alerts under ``packaging``: each made in a queue manager, and what that shows.

A simulated queue manager has the trouble; its metrics are exposed as a collector reads them, now
and then, and are what the rule is judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from prometheus_client.parser import text_string_to_metric_families as parsed

from onceq import exposition
from onceq.core import inputs
from onceq.core.inputs import TellDoors
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.message import Journal, Properties
from onceq.model.queue import QUOTA_UNLIMITED_KB, QueueProperties
from onceq.model.requests import Commit, Look, SendItem, Steer
from onceq.model.run import Run
from onceq.model.views.view import Durations, MetricsView
from tests.conformance.leaving import sent_and_cut
from tests.conformance.world import World
from tests.unit.core.alone import WALL_S, Core

HERE = "private$\\q"
AWAY = r"DIRECT=OS:Beta\private$\q"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
Seen = Iterator[tuple[int, MetricsView]]
"""Minutes since the beginning, and what is shown then."""


@dataclass(frozen=True)
class Cause:
    """What makes an alert.

    Attributes:
        seen: What the queue manager shows, in the order of time.
        holds: Whether the last samples are what the rule is about; by hand, for want of promtool.
    """

    seen: Callable[[], Seen]
    holds: Callable[[Samples], bool]


def samples(view: MetricsView) -> Samples:
    """As a collector reads them."""
    families = list(parsed(exposition.text(view)))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    """Of one series."""
    return found[name, tuple(sorted(labels.items()))]


def _core(quota_kb: int = QUOTA_UNLIMITED_KB) -> Core:
    core = Core()
    properties = QueueProperties(name="q", transactional=True, quota_kb=quota_kb)
    core.ask(requests.CreateQueue(properties=properties, instance=b"q" * 16))
    return core


def _send(core: Core, where: str = HERE, size: int = 10, **properties: int) -> None:
    made = Properties(
        time_to_be_received=properties.get("expires", Properties().time_to_be_received),
        journal=Journal(properties.get("journal", 0)),
    )
    core.ask(Commit(0, (SendItem(where, made, Run.of([b"x" * size])),)))


def _look(core: Core) -> MetricsView:
    view = core.ask(Look("metrics"))
    assert isinstance(view, MetricsView)
    return view


def _later(core: Core, *minutes: int) -> Seen:
    """It goes on as it is."""
    before = 0
    for minute in minutes:
        core.pass_time((minute - before) * 60)
        before = minute
        yield minute, _look(core)


def _in_doubt() -> Seen:
    core, xid = _core(), Xid(1, b"somebody's", b"branch")
    core.ask(requests.StartBranch(1, xid))
    item = SendItem(HERE, Properties(), Run.of([b"promised"]))
    core.ask(requests.PrepareBranch(xid, 1, (item,)))
    yield from _later(core, 0, 3, 6, 9)


def _waits() -> Seen:
    core = _core()
    _send(core)
    yield from _later(core, 0, 30, 62, 70)


def _not_moving() -> Seen:
    core = _core()
    _send(core, AWAY)
    yield from _later(core, 0, 10, 16, 30)


def _letters() -> Seen:
    core = _core()
    yield 0, _look(core)
    _send(core, expires=5, journal=int(Journal.DEADLETTER))
    core.pass_time(120)
    core.ask(requests.Receive(HERE, 0))
    yield 2, _look(core)
    yield 10, _look(core)


def _messages_in_doubt() -> Seen:
    world = World("A", "B")
    world["B"].create("q")
    sent_and_cut(world, b"a", b"b", time_to_reach_queue=60, journal=Journal.DEADLETTER)
    world.run(120)
    view = world["A"].ask(Look("metrics"))
    for minute in (0, 10, 20):
        yield minute, view


def _reserve() -> Seen:
    core = _core()
    yield 0, _look(core)
    core.step(inputs.SpaceChanged(low=True))
    yield from ((minute, _look(core)) for minute in (1, 2))


def _fills_up() -> Seen:
    view = _look(_core())
    for minute in range(0, 480, 10):
        yield minute, replace(view, disk_free=(10 << 30) - minute * (10 << 20))


def _quota() -> Seen:
    core = _core(quota_kb=10)
    for _ in range(50):  # the last ones find no room
        _send(core, size=100)
    yield from _later(core, 0, 5, 10)


def _refused() -> Seen:
    core = _core(quota_kb=1)
    yield 0, _look(core)
    _send(core, size=5_000)
    yield from ((minute, _look(core)) for minute in (1, 2))


def _turned_down() -> Seen:
    world = World("A", "B")
    yield 0, world["A"].ask(Look("metrics"))
    world["A"].once(r"DIRECT=OS:B\private$\nowhere", b"a")
    world.run(60)
    yield from ((minute, world["A"].ask(Look("metrics"))) for minute in (1, 2))


def _poisoned() -> Seen:
    core = _core()
    policy = QueueProperties(name="p", transactional=True, poison_attempts=1)
    core.ask(requests.CreateQueue(properties=policy, instance=b"p" * 16))
    core.ask(Commit(0, (SendItem(r"private$\p", Properties(), Run.of([b"m"])),)))
    yield 0, _look(core)
    core.ask(requests.Begin(1))
    core.ask(requests.Receive(r"private$\p", transaction=1))
    core.ask(requests.Abort(1, "there is no customer 7"))
    yield from _later(core, *range(1, 12))


def _slow() -> Seen:
    view = _look(_core())
    for minute in range(0, 40, 2):
        counts = (0, 100 * minute, 0)
        yield minute, replace(view, syncs=Durations((0.25, 1.0), counts, 50.0 * minute))


def _damaged() -> Seen:
    core = _core()
    core.manager.state.damages.add("q", 1, 2, first=0, bytes=10, address=64, at_s=WALL_S)
    yield from _later(core, 0, 1)


def _disbelieved() -> Seen:
    core = _core()
    yield 0, _look(core)
    core.manager._step.sessions.disbelieved["a lie"] += 1
    yield from ((minute, _look(core)) for minute in (1, 2))


def _certificate() -> Seen:
    core = _core()
    core.step(TellDoors(identity=True, ends_s=WALL_S + 13 * 86_400))
    # Where rules are tried, time begins at 0.
    for minute, view in _later(core, 0, 5, 10):
        yield minute, replace(view, certificate_ends=view.certificate_ends - WALL_S)


def _offline() -> Seen:
    core = _core()
    core.ask(requests.SteerOutgoing("", Steer.DISCONNECT))
    yield from _later(core, 0, 30, 61, 65)


CAUSES: dict[str, Cause] = {
    "OnceqTransactionInDoubt": Cause(
        _in_doubt, lambda found: value(found, "onceq_in_doubt_oldest_age_seconds") > 300
    ),
    "OnceqMessagesWait": Cause(
        _waits, lambda found: value(found, "onceq_oldest_age_seconds") > 3600
    ),
    "OnceqOutgoingNotMoving": Cause(
        _not_moving,
        lambda found: (
            value(found, "onceq_outgoing_oldest_age_seconds", peer="beta") > 900
            and value(found, "onceq_outgoing_messages", peer="beta") > 0
        ),
    ),
    "OnceqDeadLettersGrow": Cause(
        _letters, lambda found: value(found, "onceq_dead_letters", kind="transactional") == 1
    ),
    "OnceqMessagesInDoubt": Cause(
        _messages_in_doubt, lambda found: value(found, "onceq_messages_in_doubt") > 0
    ),
    "OnceqDiskReserve": Cause(
        _reserve, lambda found: value(found, "onceq_disk_reserve_reached") == 1
    ),
    "OnceqDiskFillsUp": Cause(
        _fills_up, lambda found: value(found, "onceq_disk_free_bytes") < 6 << 30
    ),
    "OnceqQuota": Cause(
        _quota, lambda found: value(found, "onceq_fullest_queue_quota_used_ratio") > 0.9
    ),
    "OnceqSendsRefused": Cause(
        _refused, lambda found: value(found, "onceq_refused_total", reason="quota-exceeded") == 1
    ),
    "OnceqMessagesRefused": Cause(
        _turned_down,
        lambda found: (
            value(found, "onceq_messages_ended_total", **{"class": "nack-bad-destination-queue"})
            == 1
        ),
    ),
    "OnceqDestinationRefuses": Cause(
        _turned_down,
        lambda found: (
            value(
                found,
                "onceq_outgoing_refused_total",
                **{"peer": "b", "class": "nack-bad-destination-queue"},
            )
            == 1
        ),
    ),
    "OnceqPoisonMessages": Cause(
        _poisoned, lambda found: value(found, "onceq_poison_messages") == 1
    ),
    "OnceqSyncSlow": Cause(
        _slow,
        lambda found: (
            value(found, "onceq_store_sync_duration_seconds_bucket", le="0.25") == 0
            and value(found, "onceq_store_sync_duration_seconds_count") > 0
        ),
    ),
    "OnceqDamagedMessages": Cause(
        _damaged, lambda found: value(found, "onceq_damaged_messages") == 2
    ),
    "OnceqDisbelieved": Cause(
        _disbelieved, lambda found: value(found, "onceq_disbelieved_total", what="a lie") == 1
    ),
    "OnceqCertificateEnds": Cause(
        _certificate,
        lambda found: value(found, "onceq_certificate_end_timestamp_seconds") < 14 * 86_400,
    ),
    "OnceqOffline": Cause(_offline, lambda found: value(found, "onceq_offline") == 1),
}
"""By alert; ``OnceqDown`` is about what Prometheus itself says."""
