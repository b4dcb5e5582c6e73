"""Databases that decide by their rows: who may have them decide, and who looks after the rows.

Upholds: I21, I28.
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.core.inputs import OwnerCame
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.branches import Xid, xid_by_row
from onceq.model.rights import Actor, ActorKind
from onceq.model.views.looks import RowsView
from tests.unit.core.alone import IDENTITY, Core
from tests.unit.core.somebody import ALICE, BOB, RUNS, STRANGER, core, create, denied, grant, item

BASE = "sqlite:/var/lib/Shop.db"
THEIRS = ".\\private$\\theirs"


def two() -> Core:
    """Each may send to a queue of his own; alice's work is not bob's to decide, and vice versa."""
    made = core()
    made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))
    create(made, RUNS, "theirs")
    grant(made, "send", "private$\\orders")
    grant(made, "send", "private$\\theirs", who="bob")
    return made


def promise(made: Core, owner: int, number: int = 1) -> tuple[object, Xid]:
    """An application's transaction whose outcome is a row; the answer, and the branch."""
    xid = xid_by_row(IDENTITY.guid, owner * 100 + number, BASE)
    made.ask(requests.Begin(number), owner=owner)
    queue = THEIRS if owner == BOB else ".\\private$\\orders"
    answer = made.ask(requests.Promise(number, xid, [item(queue)]), owner=owner)
    if isinstance(answer, OnceqError):
        made.ask(requests.Abort(number), owner=owner)
    return answer, xid


def committed(made: Core, owner: int, number: int = 1) -> Xid:
    answer, xid = promise(made, owner, number)
    assert not isinstance(answer, OnceqError), answer
    assert not isinstance(made.ask(requests.CommitBranch(xid), owner=owner), OnceqError)
    return xid


def rows(made: Core) -> list[list[Any]]:
    return made.manager.state.branches.rows.dump()


@pytest.mark.parametrize("found", [0, 1, 7, -1])
@pytest.mark.parametrize("asks", [BOB, STRANGER])
def test_who_has_no_part_in_a_database_changes_nothing_of_its_rows(found: int, asks: int) -> None:
    """A mark that moves on keeps rows from being removed; a note that is said to be there, and is
    not, makes the database look as if it had been set back; and what is taken as it is, is not
    watched any more."""
    made = two()
    committed(made, ALICE)
    if found > 0:
        view = made.ask(requests.AskRows(BASE), owner=ALICE)
        assert isinstance(view, RowsView)
        found = view.mark if found == 1 else found
    before = rows(made)
    answer = made.ask(requests.AskRows(BASE, found), owner=asks)
    assert denied(answer)
    assert rows(made) == before


def test_who_has_committed_by_a_row_looks_after_the_rows() -> None:
    made = two()
    committed(made, ALICE)
    view = made.ask(requests.AskRows(BASE), owner=ALICE)
    assert isinstance(view, RowsView)
    assert view.mark
    noted = made.ask(requests.AskRows(BASE, view.mark), owner=ALICE)
    assert isinstance(noted, RowsView)
    assert (noted.kept, noted.note) == (view.mark, view.mark)
    assert not denied(made.ask(requests.AskRows(BASE, -1), owner=ALICE))


@pytest.mark.parametrize("prepared", [False, True])
def test_nobody_adds_to_the_rows_of_another(prepared: bool) -> None:
    """Else he commits a branch for which there is no row, and the database lacks one."""
    made = two()
    if prepared:
        answer, _ = promise(made, ALICE)
        assert not isinstance(answer, OnceqError)
    else:
        committed(made, ALICE)
    before = rows(made)
    answer, xid = promise(made, BOB)
    assert isinstance(answer, OnceqError)
    assert f"nobody has granted send at rows={BASE}" in answer.text
    made.ask(requests.StartBranch(2, xid), owner=BOB)
    made.ask(requests.Send(2, [item(THEIRS)]), owner=BOB)
    assert isinstance(made.ask(requests.PrepareBranch(xid, 2), owner=BOB), OnceqError)
    assert rows(made) == before
    assert [one.by for one in made.manager.state.branches if one.xid == xid] == []


@pytest.mark.parametrize("pattern", [f"rows={BASE}", "rows=sqlite:*", "*"])
def test_a_database_is_shared_by_a_right(pattern: str) -> None:
    made = two()
    committed(made, ALICE)
    grant(made, "send", pattern, who="bob")
    committed(made, BOB)
    assert isinstance(made.ask(requests.AskRows(BASE), owner=BOB), RowsView)
    assert denied(made.ask(requests.AskRows(BASE, -1), owner=BOB))
    committed(made, ALICE, 2)
    grant(made, "send", pattern, who="bob", take=True)
    assert denied(made.ask(requests.AskRows(BASE), owner=BOB))
    assert isinstance(made.ask(requests.AskRows(BASE), owner=ALICE), RowsView)


def test_an_operator_takes_any_database_as_it_is() -> None:
    made = two()
    committed(made, ALICE)
    assert denied(made.ask(requests.AskRows("sqlite:other", -1), owner=BOB)), "nobody's"
    grant(made, "operate", who="bob")
    assert isinstance(made.ask(requests.AskRows(BASE, -1), owner=BOB), RowsView)
    committed(made, ALICE, 2)  # It is hers still.
    grant(made, "operate", who="bob", take=True)
    assert denied(made.ask(requests.AskRows(BASE), owner=BOB))
    acts = made.ask(requests.Look("trail"))
    assert isinstance(acts, list)
    assert any((one.what, one.about) == ("accept database", BASE) for one in acts), acts


def test_a_database_is_of_the_same_one_after_a_restart() -> None:
    made = two()
    committed(made, ALICE)
    made.manager = made.again()
    made.step(OwnerCame(BOB, Actor(ActorKind.ACCOUNT, "bob")))
    made.step(OwnerCame(ALICE, Actor(ActorKind.ACCOUNT, "alice")))
    assert denied(made.ask(requests.AskRows(BASE), owner=BOB))
    assert isinstance(made.ask(requests.AskRows(BASE), owner=ALICE), RowsView)


def test_what_older_versions_have_seen_is_of_who_runs_the_manager() -> None:
    made = two()
    made.manager.state.branches.rows.load([[BASE, 5, False, 0, 0, 1, 9, [], []]])
    assert denied(made.ask(requests.AskRows(BASE), owner=ALICE))
    assert isinstance(made.ask(requests.AskRows(BASE)), RowsView)
