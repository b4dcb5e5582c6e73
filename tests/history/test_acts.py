"""Acts of administration in a history: each once, with who it was, also across kills and files."""

from __future__ import annotations

import pytest

from onceq.core.inputs import Witnessed
from onceq.errors import AccessDenied
from onceq.history.columns import ACT_COLUMNS
from onceq.model.branches import Xid
from onceq.model.requests import Steer, SteerOutgoing
from tests.conformance.world import Node
from tests.history.projections import SETTINGS, whole
from tests.history.worlds import History, Kept, somebody

Q = r"private$\q"
Row = dict[str, object]


def told(node: Node) -> History:
    assert isinstance(node.world, Kept)
    return node.world.told("A")


def acts_of(history: History) -> list[Row]:
    return [row for row in history.rows() if row["event"] == "act"]


@pytest.fixture
def node() -> Node:
    world = Kept("A", settings=SETTINGS)
    somebody(world["A"])
    return world["A"]


def test_an_act_is_a_row_with_who_from_where_and_what(node: Node) -> None:
    node.create("q")
    node.once(Q, b"1", b"2")
    node.purge(Q)
    node.running.submit(Witnessed("peer:beta", "10.0.0.9", "join", "BETA"))
    node.pump()
    node.world.run(3)
    history = told(node)
    rows = acts_of(history)
    assert [tuple(row[name] for name in ACT_COLUMNS[:-1]) for row in rows] == [
        (1, "account:alice", "local", "create queue", Q, ""),
        (2, "account:alice", "local", "purge", Q, ""),
        (3, "peer:beta", "10.0.0.9", "join", "BETA", ""),
    ]
    for row in rows:
        assert (row["source"], row["message"], row["stream"], row["place"]) == (None,) * 4
        assert row["transactional"] is False
        assert row["exactTime"]
    purged = [row for row in history.rows() if row["event"] == "purged"]
    assert len(purged) == 2
    _, purge, join = rows
    for row in purged:
        assert purge["since"] <= row["position"] < purge["position"]  # type: ignore[operator]
        assert [row[name] for name in ACT_COLUMNS] == [None] * len(ACT_COLUMNS)
    assert join["since"] == join["position"], "it did nothing else here"
    whole(history, node)


def test_they_are_told_once_whatever_dies_and_their_numbers_go_on(node: Node) -> None:
    for at in range(6):
        node.create(f"q{at}")
        node.ask(SteerOutgoing("", Steer.TIDY))
        if at % 2:
            node.world.run(3)
        (node.kill if at % 3 else node.power_cut)()
        node.start()
        somebody(node, f"user{at}")
    history = told(node)
    rows = acts_of(history)
    assert [row["act"] for row in rows] == list(range(1, 13))
    assert rows[-1]["actor"] == "account:user4"
    last = 0
    for span in history.spans:
        here = [row["act"] for row in rows if span.start <= row["position"] < span.end]  # type: ignore[operator]
        last = max([last, *(int(str(one)) for one in here)])
        assert history.meta(span)["acts"] == last
    whole(history, node)


def test_what_was_refused_says_why(node: Node) -> None:
    node.create("q")
    somebody(node, "mallory", free=False)
    with pytest.raises(AccessDenied):
        node.purge(Q)
    node.world.run(3)
    *_, row = acts_of(told(node))
    assert (row["actor"], row["action"], row["result"]) == (
        "account:mallory", "purge", "access-denied",
    )  # fmt: skip


def test_a_branch_that_was_decided_by_hand_stands_beside_its_act(node: Node) -> None:
    node.create("q")
    xid = Xid(1, b"by hand", b"b")
    tx = node.start_branch(xid)
    node.send(tx, Q, b"1", b"2")
    node.end_branch(tx, xid)
    node.prepare(xid)
    node.world.run(3)
    node.commit_branch(xid, by_hand=True)
    node.world.run(3)
    rows = told(node).rows()
    (act,) = [row for row in rows if row["action"] == "commit branch by hand"]
    committed = [row for row in rows if row["event"] == "committed"]
    assert len(committed) == 2
    for row in committed:
        assert act["since"] <= row["position"] < act["position"]
