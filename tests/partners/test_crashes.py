"""P11: 36 cases, each at one of twelve points, with ours, theirs or both killed; and more.

With PostgreSQL, with MariaDB, and with both in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.partners.bases import KINDS, MARIADB, POSTGRESQL, Base, of
from tests.partners.crashes import CRASHES, POINTS, SECOND, Stage
from tests.scratch import scratch

pytestmark = pytest.mark.slow
BOTH = " and ".join(KINDS)
FIXTURES = {POSTGRESQL: ("postgres",), MARIADB: ("mariadb",), BOTH: ("postgres", "mariadb")}
of_each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with scratch(tmp_path_factory, "c") as folder:
        made = Stage(Path(folder))
        yield made
        made.close()


@dataclass
class Play:
    """A stage with the databases of one test."""

    stage: Stage
    bases: list[Base]

    def case(self, plan: dict[str, str], *, messages: int = 1) -> str:
        return self.stage.case(plan, self.bases, messages=messages)


@pytest.fixture
def play(stage: Stage, kind: str, request: pytest.FixtureRequest) -> Play:
    """Without a server of that kind, the test says that it was not run against it."""
    return Play(stage, [of(request.getfixturevalue(name)) for name in FIXTURES[kind]])


@pytest.mark.search("partners", few=8)
@pytest.mark.parametrize("what", CRASHES)
@pytest.mark.parametrize("point", POINTS)
@of_each_kind
def test_one_outcome_everywhere(play: Play, kind: str, point: str, what: str) -> None:
    told = play.case({point: what})
    if point in ("after commit ours", "before forget", "after forget") and what == "theirs":
        assert told == "committed"


@of_each_kind
def test_case_124_killed_after_the_decision_both_commit(play: Play, kind: str) -> None:
    """The application, and the manager whose record it is, die before anybody was told."""
    assert play.case({"after decide": "application"}) == "gone"
    assert play.stage.there
    assert play.case({"after decide": "ours"}) in ("committed", "in doubt")
    assert play.stage.there


@of_each_kind
def test_case_125_killed_before_the_decision_both_roll_back(play: Play, kind: str) -> None:
    assert play.case({"before decide": "application"}) == "gone"
    assert not play.stage.there
    assert play.case({"before decide": "ours"}).startswith("refused")
    assert not play.stage.there


@pytest.mark.search("partners", few=4)
@pytest.mark.parametrize("point", POINTS)
@of_each_kind
def test_the_application_goes_away(play: Play, kind: str, point: str) -> None:
    assert play.case({point: "application"}, messages=3) == "gone"


@pytest.mark.parametrize("kind", [*KINDS, BOTH])
def test_without_any_crash(play: Play, kind: str) -> None:
    assert play.case({}) == "committed"


@pytest.mark.search("partners", few=4)
@pytest.mark.parametrize("what", ["both", "application", *KINDS])
@pytest.mark.parametrize("point", [*SECOND, "before decide", "after decide"])
@pytest.mark.parametrize("kind", [BOTH])
def test_two_databases_at_once(play: Play, kind: str, point: str, what: str) -> None:
    """Of the points of the first nothing is different; of the second one has promised, or ended,
    what the other has not."""
    told = play.case({point: what})
    assert (told == "gone") == (what == "application")
