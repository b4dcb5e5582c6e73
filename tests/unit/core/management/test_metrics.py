"""What the core counts and sums up for metrics."""

from __future__ import annotations

import pytest

from onceq.core import inputs
from onceq.core.management import metrics
from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.limits import QUEUES_MEASURED_AT_ONCE
from onceq.model.message import Properties
from onceq.model.queue import QUOTA_UNLIMITED_KB, QueueProperties
from onceq.model.requests import Abort, Begin, Commit, Look, Receive, Send, SendItem
from onceq.model.run import Run
from onceq.model.views.managers import StatusView
from onceq.model.views.view import MetricsView, OutgoingMetrics
from tests.unit.core.alone import WAITS, WALL_S, Core

HERE = "private$\\q"
AWAY = r"DIRECT=OS:Beta\private$\q"


@pytest.fixture
def core() -> Core:
    made = Core()
    create(made, "q", 1)
    return made


def create(core: Core, name: str, number: int, quota_kb: int = QUOTA_UNLIMITED_KB) -> None:
    properties = QueueProperties(name=name, transactional=True, quota_kb=quota_kb)
    core.ask(requests.CreateQueue(properties=properties, instance=b"%016d" % number))


def send(
    core: Core, where: str = HERE, count: int = 1, properties: Properties | None = None
) -> None:
    item = SendItem(where, properties or Properties(), Run.of([b"x" * 10] * count))
    core.ask(Commit(0, (item,)))


def look(core: Core, name: str = "") -> MetricsView:
    view = core.ask(Look("metrics", name))
    assert isinstance(view, MetricsView)
    return view


def test_a_fresh_manager_has_counted_nothing() -> None:
    view = look(Core())
    assert (view.sent, view.received, view.ended, view.refused) == (0, 0, {}, {})
    assert (view.queues, view.messages, view.oldest_age_s, view.outgoing) == (0, 0, 0, ())


def test_messages_are_counted_on_their_way_through(core: Core) -> None:
    send(core, count=3)
    core.ask(Begin(1))
    core.ask(Receive(HERE, 1, count_max=2))
    assert look(core).messages == 3, "a transaction that holds one has not received it"
    core.ask(Abort(1))
    core.ask(Receive(HERE, 0, count_max=1))
    view = look(core)
    assert (view.sent, view.returned, view.received, view.messages) == (3, 2, 1, 2)


def test_what_ends_otherwise_is_counted_by_class(core: Core) -> None:
    send(core, count=2)
    core.ask(requests.PurgeQueue(HERE))
    send(core, properties=Properties(time_to_be_received=5))
    core.pass_time(10)
    core.ask(Receive(HERE, 0))
    view = look(core)
    assert view.ended == {"nack-queue-purged": 2, "nack-receive-timeout": 1}
    assert view.received == 0


def test_a_class_that_nobody_knows_makes_no_series_of_its_own(core: Core) -> None:
    core.manager._step.counts.ended.update({0x8123: 2, 0x8456: 1})
    assert look(core).ended == {"other": 3}


def test_refusals_are_counted_by_their_code_but_not_that_nothing_has_come(core: Core) -> None:
    core.ask(Receive("private$\\nowhere", 0))
    core.ask(Receive(HERE, 0))
    assert look(core).refused == {"queue-not-found": 1}


def test_the_oldest_message_tells_its_age_whoever_holds_it(core: Core) -> None:
    send(core)
    core.pass_time(100)
    send(core)
    core.ask(Begin(1))
    core.ask(Receive(HERE, 1))
    core.pass_time(20)
    assert look(core).oldest_age_s == 120
    core.ask(Commit(1))
    assert look(core).oldest_age_s == 20


def test_each_queue_is_told_of_only_if_asked_for(core: Core) -> None:
    create(core, "full", 2, quota_kb=1)
    send(core, "private$\\full", count=4)
    assert look(core).per_queue == ()
    full, empty = look(core, "queues").per_queue
    assert (full.name, full.messages, full.quota_ratio > 0.1) == ("private$\\full", 4, True)
    assert (empty.name, empty.messages, empty.oldest_age_s) == ("private$\\q", 0, 0)
    assert look(core).queue_quota_ratio == full.quota_ratio


def test_of_too_many_queues_those_with_the_oldest_messages_are_told_of(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "METRICS_QUEUES_MAX", 2)
    for at, name in enumerate(("a", "b", "c"), 2):
        create(core, name, at)
    send(core, "private$\\c")
    core.pass_time(10)
    send(core, "private$\\b")
    core.pass_time(10)
    send(core, "private$\\a")
    view = look(core, "queues")
    assert [one.name for one in view.per_queue] == ["private$\\b", "private$\\c"]
    assert (view.left_out, view.queues, view.messages) == (2, 4, 3)


def test_outgoing_queues_are_summed_up_by_the_manager_they_lead_to(core: Core) -> None:
    send(core, AWAY, count=2)
    core.pass_time(30)
    send(core, r"DIRECT=OS:BETA\private$\other")
    (beta,) = look(core).outgoing
    assert (beta.peer, beta.messages, beta.unacknowledged) == ("beta", 3, 3)
    assert sum(beta.states.values()) == 2
    assert beta.oldest_age_s == 30


def test_of_too_many_managers_those_with_most_messages_are_told_of(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "METRICS_PEERS_MAX", 1)
    send(core, AWAY, count=5)
    send(core, r"DIRECT=OS:C\private$\q", count=2)
    send(core, r"DIRECT=OS:D\private$\q", count=1)
    found = look(core).outgoing
    assert [(one.peer, one.messages) for one in found] == [("beta", 5), ("(others)", 3)]
    assert isinstance(found[1], OutgoingMetrics)


def test_many_queues_are_seen_in_several_steps() -> None:
    core, many = Core(), 3 * QUEUES_MEASURED_AT_ONCE
    for at in range(many):
        create(core, f"q{at}", at)
    found, steps = core.ask(Look("metrics", "queues")), 1
    while found is WAITS:
        assert core.manager.at_work
        core.step(inputs.Tick())
        found, steps = core.answers.get(core.asked, WAITS), steps + 1
    assert isinstance(found, MetricsView)
    assert (found.queues, len(found.per_queue)) == (many, many)
    assert steps > many // QUEUES_MEASURED_AT_ONCE


def test_a_queue_that_goes_meanwhile_is_passed_over() -> None:
    core = Core()
    for at in range(QUEUES_MEASURED_AT_ONCE + 1):
        create(core, f"q{at}", at)
    assert core.ask(Look("metrics")) is WAITS
    asked = core.asked
    core.ask(requests.DeleteQueue(f"private$\\q{QUEUES_MEASURED_AT_ONCE}"))
    while core.manager.at_work:
        core.step(inputs.Tick())
    assert isinstance(core.answers[asked], MetricsView)


def test_another_name_is_refused(core: Core) -> None:
    assert isinstance(core.ask(Look("metrics", "orders")), InvalidParameter)


def test_a_send_outside_a_transaction_counts_too(core: Core) -> None:
    core.ask(requests.CreateQueue(properties=QueueProperties(name="plain"), instance=b"p" * 16))
    core.ask(Send(0, (SendItem("private$\\plain", Properties(), Run.of([b"a", b"b"])),)))
    assert look(core).sent == 2


def test_since_when_it_runs_is_told_by_status_and_metrics(core: Core) -> None:
    first = look(core).started
    core.pass_time(100)
    status = core.ask(requests.Look("status"))
    assert isinstance(status, StatusView)
    assert first == look(core).started == status.started == WALL_S + 1
