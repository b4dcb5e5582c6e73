"""Every cell of the table of applications, on real queue managers: who may, and who may not.

Upholds: I28.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onceq.errors import AccessDenied, OnceqError
from onceq.model.requests import KINDS, Steer, SteerOutgoing
from onceq.model.views.looks import LOOKS
from tests.matrix.applications import NAMES, ROWS, Row
from tests.matrix.roles import NOBODY, OVER_TCP, ROLES, SINGLE, UNNAMED, expected, may
from tests.matrix.scene import (
    ACCOUNT,
    CERTIFICATE,
    DOORS,
    SOCKET,
    TOKEN,
    Scene,
    is_refusal,
    may_become_others,
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("matrix"))
    yield made
    made.close()


def verdict(row: Row, answer: object) -> str:
    """``yes`` or ``no``, or what else came."""
    if not isinstance(answer, OnceqError) or answer.code == row.answers:
        return "yes"
    if is_refusal(answer) and answer.code in (row.refused, AccessDenied.code):
        return "no"
    return f"{answer.code}: {answer.text}"


# ---- the table ---------------------------------------------------------------------------------


def test_every_request_look_and_order_has_a_row() -> None:
    assert {row.kind for row in ROWS} == set(KINDS.values())
    looks = {row.what.partition(",")[0] for row in ROWS if row.kind.__name__ == "Look"}
    assert looks == set(LOOKS)
    orders = {row.what for row in ROWS if row.kind is SteerOutgoing}
    assert orders == {action.value for action in Steer}
    assert len(NAMES) == len(ROWS), "each row has a name of its own"


def test_every_right_and_every_role_makes_a_difference() -> None:
    """A column that is like another one, or a right that opens nothing, would show nothing."""
    columns = {role: tuple(expected(row.needs)[role] for row in ROWS) for role in ROLES}
    assert columns.pop(OVER_TCP) == columns[NOBODY], "over TCP no account is somebody"
    assert len(set(columns.values())) == len(columns)
    named = [may((), row.needs) for row in ROWS]
    for right, given in SINGLE.items():
        opened = [may(given, row.needs) for row in ROWS]
        # What queue managers alone need is tried at their port.
        assert (opened != named) is (right != "forward"), right


# ---- on real queue managers --------------------------------------------------------------------


@pytest.mark.tier("rest")
@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_at_the_socket_with_tokens(scene: Scene, row: Row) -> None:
    tried(scene, row, SOCKET, TOKEN)


@pytest.mark.slow
@pytest.mark.tier("rest")
@pytest.mark.parametrize("door", [d for d in DOORS if d != (SOCKET, TOKEN)], ids=", ".join)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_at_every_other_door(scene: Scene, row: Row, door: tuple[str, str]) -> None:
    if door[1] == ACCOUNT and not may_become_others():
        pytest.skip("only root can connect as other accounts; tokens are tried at the same doors")
    tried(scene, row, *door)


@pytest.mark.slow
@pytest.mark.tier("rest")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_with_a_single_right(scene: Scene, row: Row) -> None:
    """What stands in the column of needs, and nothing else, is enough."""
    found = {right: verdict(row, one) for right, one in scene.single_answers(row).items()}
    assert found == {right: said(may(given, row.needs)) for right, given in SINGLE.items()}


def tried(scene: Scene, row: Row, door: str, by: str) -> None:
    found = {role: verdict(row, one) for role, one in scene.answers(row, door, by).items()}
    wanted = {role: said(allowed) for role, allowed in expected(row.needs).items()}
    if row.socket_only and door != SOCKET:
        wanted = {role: found[role] for role in wanted if role in found}
        assert all(one.startswith("unsupported-operation") for one in wanted.values())
    assert found == {role: wanted[role] for role in found}
    assert set(ROLES) - set(found) <= set(UNNAMED), "everybody with a name comes in at every door"
    assert set(found) == set(ROLES) or door == SOCKET or by == CERTIFICATE


def said(allowed: bool) -> str:
    return "yes" if allowed else "no"
