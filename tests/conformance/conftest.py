"""Cases run in two kinds of world: everything in this process, and a process for each manager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.processes import KINDS
from tests.conformance.world import World, Worlds


def pytest_configure(config: pytest.Config) -> None:
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
