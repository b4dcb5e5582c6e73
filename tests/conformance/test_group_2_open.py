"""Conformance cases 36 to 39: what a queue may be opened for (Q-41, FN-3)."""

from __future__ import annotations

import pytest

from onceq.errors import (
    IllegalPathName,
    QueueNotFound,
    SharingViolation,
    UnsupportedAccessMode,
    UnsupportedFormatName,
)
from onceq.model.identity import guid_text
from onceq.model.message import Journal
from onceq.model.requests import Access, Remove, Share
from tests.conformance.reading import code_of
from tests.conformance.world import Node, Worlds


@pytest.fixture
def a(worlds: Worlds) -> Node:
    world = worlds("A", "B")
    world["A"].create("q")
    return world["A"]


def test_case_036_unknown_local_queue_and_unknown_remote_queue(a: Node) -> None:
    for name in (r"DIRECT=OS:A\private$\nothing", r"DIRECT=OS:.\private$\nothing"):
        with pytest.raises(QueueNotFound) as caught:
            a.open(name, Access.SEND)
        assert caught.value.hresult == 0xC00E0003
    assert a.look("outgoing") == []
    remote = r"DIRECT=OS:B\private$\nothing"
    assert not a.open(remote, Access.SEND).local
    (view,) = a.look("outgoing")
    assert (view.destination, view.state, view.messages) == (remote, "INACTIVE", 0)
    a.world.run(60)
    assert a.world.link("A", "B").connections == 0, "nobody is called for nothing"


def test_case_037_dead_letter_queue_is_for_receiving(a: Node) -> None:
    a.once(r"private$\q", b"dead", journal=Journal.DEADLETTER)
    a.purge(r"private$\q")
    name = f"MACHINE={guid_text(a.identity.guid)};DEADXACT"
    with pytest.raises(UnsupportedFormatName) as caught:
        a.open(name, Access.SEND)
    assert caught.value.hresult == 0xC00E0020
    assert a.open(name, Access.RECEIVE).transactional
    assert a.receive(name).bodies() == [b"dead"]
    assert a.bodies(name) == []


def test_case_038_sharing(a: Node) -> None:
    """Also between applications; and only as long as the one that denies it is there."""
    name = r"private$\q"
    other = a.stranger()
    for ends in ("closes it", "goes away"):
        holder = a.stranger()
        handle = holder.open(name, Access.RECEIVE, Share.DENY_RECEIVE).handle
        for who in (a, other, holder):
            for share in Share:
                with pytest.raises(SharingViolation) as caught:
                    who.open(name, Access.RECEIVE, share)
                assert caught.value.hresult == 0xC00E0009
            assert who.open(name, Access.SEND, Share.DENY_NONE)
            assert who.open(name, Access.PEEK)
        for who in (a, other):
            assert code_of(who.receive, name) == 0xC00E0009, "nor without a handle"
        other.once(name, b"m")
        if ends == "closes it":
            holder.close_handle(handle)
        else:
            holder.leave()
        for who in (a, other):
            who.close_handle(who.open(name, Access.RECEIVE, Share.DENY_RECEIVE).handle)
    assert a.bodies(name) == [b"m", b"m"]


@pytest.mark.parametrize("who", ["the same application", "another"])
def test_case_038_the_whole_table(a: Node, who: str) -> None:
    """Existing handle by row, new one by column: whether it is refused (Q-41)."""
    opener = a.stranger() if who == "another" else a
    receive, peek, send = Access.RECEIVE, Access.PEEK, Access.SEND
    deny, none = Share.DENY_RECEIVE, Share.DENY_NONE
    news = [(receive, none), (receive, deny), (peek, deny), (peek, none), (send, none)]
    table = {
        (receive, deny): [True, True, True, False, False],
        (peek, deny): [True, True, False, False, False],
        (receive, none): [False, True, True, False, False],
        (peek, none): [False, False, False, False, False],
        (send, none): [False, False, False, False, False],
    }
    for number, (held, expected) in enumerate(table.items()):
        name = rf"private$\share{number}"
        a.create(f"share{number}")
        a.open(name, *held)
        refused = []
        for new in news:
            try:
                handle = opener.open(name, *new).handle
            except SharingViolation:
                refused.append(True)
            else:
                refused.append(False)
                opener.close_handle(handle)
        assert refused == expected, f"with {held} open"


def test_case_039_send_cannot_deny_receiving(a: Node) -> None:
    """Q-26."""
    with pytest.raises(UnsupportedAccessMode) as caught:
        a.open(r"private$\q", Access.SEND, Share.DENY_RECEIVE)
    assert caught.value.hresult == 0xC00E0045


@pytest.mark.unturned("public", reason="the name is reserved for private queues")
def test_the_order_queue_cannot_be_made_by_applications(a: Node) -> None:
    with pytest.raises(IllegalPathName):
        a.create("order_queue$", transactional=False)


@pytest.mark.unturned("public", "private", reason="it asks with names of its own")
@pytest.mark.inside("a second application on the same engine")
def test_removal_of_a_range_respects_sharing(a: Node) -> None:
    a.once(r"private$\q", b"m")
    a.open(r"private$\q", Access.PEEK, Share.DENY_RECEIVE)
    assert a.ask(Remove(r"private$\q", 0, 1, (1 << 63) - 1)) == 1
    assert a.engine is not None
    stranger = a.engine.owner(a.answers.__setitem__)
    a.engine.submit(Remove(r"private$\q", 0, 1, (1 << 63) - 1, owner=stranger, request=9999))
    a.pump()
    assert isinstance(a.answers.pop(9999), SharingViolation)
