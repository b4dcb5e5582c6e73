"""P11: 36 cases, each at one of twelve points, with ours, theirs or both killed; and more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.partners.crashes import CRASHES, POINTS, Stage
from tests.scratch import scratch
from tests.servers import postgres

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("postgresql")]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with scratch(tmp_path_factory, "c") as folder, postgres() as server:
        made = Stage(Path(folder), server)
        yield made
        made.close()


@pytest.mark.parametrize("what", CRASHES)
@pytest.mark.parametrize("point", POINTS)
def test_one_outcome_everywhere(stage: Stage, point: str, what: str) -> None:
    told = stage.case({point: what})
    if point in ("after commit ours", "before forget", "after forget") and what == "theirs":
        assert told == "committed"


def test_case_124_killed_after_the_decision_both_commit(stage: Stage) -> None:
    """The application, and the manager whose record it is, die before anybody was told."""
    assert stage.case({"after decide": "application"}) == "gone"
    assert stage.case({"after decide": "ours"}) in ("committed", "in doubt")


def test_case_125_killed_before_the_decision_both_roll_back(stage: Stage) -> None:
    assert stage.case({"before decide": "application"}) == "gone"
    assert stage.case({"before decide": "ours"}).startswith("refused")


@pytest.mark.parametrize("point", POINTS)
def test_the_application_goes_away(stage: Stage, point: str) -> None:
    assert stage.case({point: "application"}, messages=3) == "gone"


def test_without_any_crash(stage: Stage) -> None:
    assert stage.case({}) == "committed"
