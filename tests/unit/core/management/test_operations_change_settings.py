"""A running manager is given other settings: nothing is undone by that, and nothing forgotten."""

from __future__ import annotations

from onceq.core.inputs import Reconfigure
from onceq.model.requests import Begin
from onceq.model.settings import Settings
from tests.unit.core.alone import Core


def idle_s(core: Core, seconds: int) -> None:
    core.step(Reconfigure(Settings(transaction_idle_s=seconds), {}))


def open_transactions(core: Core) -> int:
    return len(core.manager._step.units.transactions)


def test_a_limit_that_is_switched_off_undoes_nothing() -> None:
    """Its timer rings once more, and finds that nothing is too old any more."""
    core = Core()
    idle_s(core, 100)
    core.ask(Begin(1))
    idle_s(core, 0)
    for _ in range(10):
        core.pass_time(1_000)
    assert open_transactions(core) == 1


def test_a_limit_that_is_switched_on_counts_for_what_is_open_already() -> None:
    core = Core()
    idle_s(core, 0)
    core.ask(Begin(1))
    core.pass_time(1_000)
    assert open_transactions(core) == 1
    idle_s(core, 100)
    for _ in range(10):
        core.pass_time(100)
    assert open_transactions(core) == 0
