"""Cases run in two kinds of world: everything in this process, and a process for each manager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.processes import KINDS
from tests.conformance.turns import Turn, chosen
from tests.conformance.world import World, Worlds


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "unturned(*turns, reason): a case that these turns cannot be made of (turns.py)"
    )
    config.addinivalue_line("markers", "inside(reason): a case that no process can be asked for")
    config.addinivalue_line("markers", "processes(reason): a test that makes sense for them only")
    config.addinivalue_line("markers", "client: speaks through the client library to a process")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "worlds" in metafunc.fixturenames:
        kinds = list(KINDS)
        for mark, kind in (
            ("inside", "inside"),
            ("processes", "processes"),
            ("client", "processes"),
        ):
            if metafunc.definition.get_closest_marker(mark):
                kinds = [kind]
        metafunc.parametrize("worlds", kinds, indirect=True)


@pytest.fixture
def worlds(request: pytest.FixtureRequest) -> Iterator[Worlds]:
    made: list[World] = []

    def make(*names: str, **more: Any) -> World:
        made.append(KINDS[request.param](*names, **more))
        return made[-1]

    yield make
    for world in made:
        world.close()


# ---- turned cases ------------------------------------------------------------------------------


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a turn, only what runs in this process, and quickly, is asked for, and can be turned."""
    turn = chosen().name
    if not turn:
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        marks = list(item.iter_markers("unturned"))
        params = getattr(item, "callspec", None)
        kind = params.params.get("worlds", "inside") if params is not None else "inside"
        apart = kind == "processes" or any(map(item.get_closest_marker, ("processes", "slow")))
        cannot = any(turn in mark.args for mark in marks)
        assert all(mark.kwargs.get("reason") for mark in marks), f"{item.nodeid}: no reason"
        TALLY["cannot be"] += cannot and not apart
        (left if apart or cannot else kept).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


TALLY = {"turned": 0, "not concerned": 0, "cannot be": 0}
"""Cases of the turn of this process."""


@pytest.fixture(autouse=True)
def turned() -> Iterator[None]:
    """Count what the turn of this process has changed."""
    Turn.touched = False
    yield
    TALLY["turned" if Turn.touched else "not concerned"] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many cases the turn has changed."""
    if chosen().name:
        counts = ", ".join(f"{count} {what}" for what, count in TALLY.items())
        terminalreporter.write_line(f"turn {chosen().name}: {counts}")
