"""Who a name is, and why (finding K13)."""

from __future__ import annotations

import pytest

from onceq.errors import UnsupportedFormatName
from onceq.model.identity import guid_text
from onceq.model.views.managers import NameView
from tests.conformance.world import Node, World

pytestmark = pytest.mark.unturned(
    "public", "private", "letters", reason="it is about how names are written"
)
Q = r"private$\q"
NOWHERE = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def world() -> World:
    world = World("A", "B", directory=True)
    for node in world.nodes.values():
        node.create("q")
    world["A"].create("mine", private=False)
    world["B"].create("orders", private=False)
    world.run(2)
    return world


def explained(node: Node, name: str) -> NameView:
    found: list[NameView] = node.look("explain-name", name)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (Q, "is this computer"),
        (r"DIRECT=OS:localhost\private$\q", "is this computer"),
        (r"direct=os:a/private$/q", "is the name of this queue manager"),
        (r"DIRECT=TCP:10.0.0.1\private$\q", "is one of the addresses in onceq.toml"),
    ],
)
def test_names_of_a_queue_here(world: World, name: str, why: str) -> None:
    found = explained(world["A"], name)
    assert (found.kind, found.leads_to, found.queue, found.manager) == ("direct", "here", Q, "A")
    assert why in found.rule


def test_other_kinds_of_names_of_queues_here(world: World) -> None:
    a = world["A"]
    number = a.look("queue", Q).format_name
    found = explained(a, number)
    assert (found.kind, found.queue) == ("private", Q)
    assert found.rule == "the GUID is this queue manager's own"
    found = explained(a, a.look("queue", "mine").format_name)
    assert (found.kind, found.queue) == ("public", "mine")
    assert found.rule == "the directory says that it is here"
    world.directory_online(False)
    assert explained(a, a.look("queue", "mine").format_name).leads_to == "here"
    found = explained(a, r"DIRECT=OS:.\SYSTEM$;DEADXACT")
    assert (found.leads_to, found.queue != "") == ("here", True)


@pytest.mark.unturned("second", reason="such a name stands alone")
@pytest.mark.parametrize(
    ("name", "to"),
    [
        (r"DIRECT=OS:A\private$\q;JOURNAL", "here"),
        (r"DIRECT=OS:.\SYSTEM$;DEADXACT", "here"),
        (r"DIRECT=OS:B\private$\q;JOURNAL", "elsewhere"),
        (r"DIRECT=OS:B\private$\q;sub", "elsewhere"),
    ],
)
def test_what_a_send_would_refuse_is_said(world: World, name: str, to: str) -> None:
    a = world["A"]
    found = explained(a, name)
    with pytest.raises(UnsupportedFormatName) as refused:
        a.once(name, b"m")
    assert found.leads_to == to
    assert refused.value.text in found.rule


def test_names_of_nobody(world: World) -> None:
    a = world["A"]
    for name, why in (
        (r"private$\none", "there is no queue"),
        (f"PUBLIC={NOWHERE}", "there is no such public queue in the directory"),
        (f"DL={NOWHERE}", "the directory has no such list"),
        ("MULTICAST=234.1.1.1:80", "multicast"),
        (f"CONNECTOR={NOWHERE}", "foreign system"),
    ):
        found = explained(a, name)
        assert found.leads_to == "nobody", name
        assert why in found.rule, found.rule
    world.directory_online(False)
    for name in (f"PUBLIC={NOWHERE}", f"DL={NOWHERE}"):
        found = explained(a, name)
        assert found.leads_to == "nobody"
        assert "needs the directory" in found.rule
        assert found.becomes == ""


def test_a_name_elsewhere_and_how_a_message_goes_there(world: World) -> None:
    a, b = world["A"], world["B"]
    name = r"DIRECT=OS:b\private$\q"
    found = explained(a, name.lower().replace("\\", "/"))
    assert (found.kind, found.leads_to, found.queue) == ("direct", "elsewhere", Q)
    assert (found.outgoing, found.session) == (name, "")
    assert found.manager == "b", "nobody has answered yet"
    assert (found.address, found.manager_id) == ("b:1801", "")
    assert "DNS" in found.address_by
    assert a.look("outgoing") == [], "nothing was made"
    a.once(name, b"1")
    world.run(5)
    found = explained(a, name)
    assert (found.manager, found.manager_id) == ("B", guid_text(b.identity.guid))
    assert found.session == b.address


def test_names_of_one_place_share_an_outgoing_queue(world: World) -> None:
    a, b = world["A"], world["B"]
    number = b.look("queue", Q).format_name
    a.once(number, b"1")
    world.run(5)
    found = explained(a, r"DIRECT=OS:B\private$\q")
    assert found.outgoing.casefold() == number.casefold()
    assert "it means the same queue as" in found.rule
    a.once(r"DIRECT=OS:B\private$\q", b"2")
    world.run(5)
    assert len(a.look("outgoing")) == 1
    found = explained(a, b.look("queue", "orders").format_name)
    assert (found.kind, found.queue, found.manager) == ("public", "orders", "B")
    assert found.rule == "the directory says that it is on B"


def test_a_router_is_a_rule(world: World) -> None:
    a, b = world["A"], world["B"]
    a.kill()
    a.routes = {b.identity.guid: "ROUTER"}
    a.start()
    world.run(2)
    found = explained(a, b.look("queue", Q).format_name)
    assert found.rule == "[routes] in onceq.toml: ROUTER passes its messages on"
    assert (found.manager, found.address) == ("B", "ROUTER:1801")


def test_a_list_and_what_it_stands_for(world: World) -> None:
    a = world["A"]
    name = a.edit_list("create", "D", r"DIRECT=OS:B\private$\q", r"DIRECT=TCP:10.0.0.2\private$\q")
    world.run(2)
    for asked in ("D", name):
        found = a.look("explain-name", asked)
        assert [(one.depth, one.leads_to) for one in found] == [
            (0, "list"), (1, "elsewhere"), (1, "elsewhere"),
        ]  # fmt: skip
        assert found[0].becomes == "2 members"
        assert found[2].becomes.endswith("one copy")


# ---- what was joined ----------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["private", "direct"])
def test_a_private_and_a_direct_name_need_no_directory_once_they_are_joined(
    world: World, first: str
) -> None:
    """Whichever was used first has named the outgoing queue; the direct one says where that is."""
    a, b = world["A"], world["B"]
    names = [b.look("queue", Q).format_name, r"DIRECT=OS:B\private$\q"]
    for name in names if first == "private" else reversed(names):
        a.once(name, b"1")
    world.run(5)
    world.directory_online(False)
    a.kill()
    a.start()
    for name in names:
        (found,) = a.look("explain-name", name)
        assert found.leads_to == "elsewhere"
        assert found.address == "B:1801"
    world.guids_known = False
    a.once(names[1], b"2")
    world.run(20)
    assert b.bodies(Q) == [b"1", b"1", b"2"]
