"""``python -m proof``: the list, and what is said of a name that nobody knows."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from proof.programmes import PROGRAMMES, run_programme


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_without_a_name_they_are_listed(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_programme(arguments) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == list(PROGRAMMES)
    assert all(what in line for line, (_, what) in zip(lines, PROGRAMMES.values(), strict=True))


def test_an_unknown_name_is_an_error_that_lists_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_programme(["simm"]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("no programme is called 'simm'; these are:")
    assert "\nsim " in said.err
    assert said.out == ""


def test_every_programme_has_a_module() -> None:
    assert [name for name, (module, _) in PROGRAMMES.items() if find_spec(module) is None] == []
