"""What copies add up to: latencies, traffic, repetitions, and what waits too long."""

from __future__ import annotations

from pathlib import Path

from onceq.audit import command, files, measure
from onceq.audit.command import Wish
from onceq.audit.measure import PIECES_MAX, step_of
from tests.audit.histories import MESSAGES, audited, peopled
from tests.audit.planting import Plants


def resent(path: Path) -> Path:
    """True histories in which some were transmitted more than once, and came again."""
    plants = Plants(peopled(path))
    for number in (1, 2, 2, 7):
        first = plants.a.find("committed", **plants.mine(number))
        for _ in range(3):
            plants.a.again(first, event="transmitted", observed=True)
        plants.b.again(plants.b.find("accepted", **plants.mine(number)), event="duplicate",
                       observed=True)  # fmt: skip
    plants.save()
    return path


def test_what_was_transmitted_again_is_counted_by_route(tmp_path: Path) -> None:
    before = {row["route"]: row for row in audited(peopled(tmp_path / "true"))["resends"]}
    route = r"A → B\private$\q"
    (row,) = (row for row in audited(resent(tmp_path / "x"))["resends"] if row["route"] == route)
    more = before.get(route, {"messages": 0, "times": 0, "came_again": 0})
    assert row["came_again"] - more["came_again"] == 4
    assert row["times"] - more["times"] >= 3 * 4 - 3, "the first time of each is none"
    assert row["messages"] >= 3


def test_percentiles_are_those_of_all_messages(tmp_path: Path) -> None:
    """Exactly: the least time in which that share had come."""
    plants = Plants(peopled(tmp_path))
    took = {}
    for number in range(1, MESSAGES + 1):
        sent = plants.a.find("committed", **plants.mine(number))["eventTime"]
        took[number] = plants.b.find("accepted", **plants.mine(number))["eventTime"] - sent
    plants.save()
    exact = sorted(one.total_seconds() for one in took.values())
    (row,) = (
        row for row in audited(tmp_path)["latencies"]
        if (row["route"], row["from"]) == (r"A → B\private$\q", "commit")
    )  # fmt: skip
    for name, percent in (("p50_s", 50), ("p90_s", 90), ("p99_s", 99), ("max_s", 100)):
        assert row[name] == round(exact[-(-percent * MESSAGES // 100) - 1], 3)


def test_a_receiver_is_known_from_other_lanes_of_its_outgoing_queue(tmp_path: Path) -> None:
    """A stream of which nothing arrived, to a name that says no manager: the manager that tells of
    others from its outgoing queue is its receiver."""
    plants = Plants(peopled(tmp_path))
    first = plants.a.find("committed", **plants.mine(3))
    for number in range(1, 9):
        plants.a.again(first, stream=4_700 + number, number=1, message=999_990 + number,
                       queue=r"DIRECT=TCP:192.0.2.7\private$\q")  # fmt: skip
    plants.save()
    found = command.run([str(tmp_path)], Wish(stuck_s=100), lambda _: None)
    assert r"A → B\private$\q" in {
        row["route"] for row in found["stuck"] if row["stream"] > 4_700
    }  # fmt: skip


def test_pieces_of_time_are_many_but_not_too_many() -> None:
    for first in (0, 1, 1_700_000_123):
        for length in (0, 1, PIECES_MAX - 1, PIECES_MAX, 12_345, 86_400 * 400):
            step = step_of(first, first + length)
            pieces = (first + length) // step - first // step + 1
            assert pieces <= PIECES_MAX
            assert step == 1 or pieces > PIECES_MAX // 2 - 1
            assert step & (step - 1) == 0


def test_what_waits_too_long_is_told_from_when_on(tmp_path: Path) -> None:
    histories = files.find([str(peopled(tmp_path))])
    as_of = measure.as_of_us(histories)
    assert measure.late_us(histories, 0.5) == as_of - 500_000
