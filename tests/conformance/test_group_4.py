"""Conformance cases of group 4, and 134: many destinations, lists, the directory."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from onceq.core import inputs
from onceq.errors import (
    IllegalFormatName,
    InsufficientResources,
    NoDirectory,
    OnceqError,
    QueueExists,
    QueueNotFound,
    SendFailed,
    StorageReserve,
    TransactionOver,
    UnsupportedFormatName,
    UnsupportedOperation,
)
from onceq.model import requests
from onceq.model.branches import Xid
from onceq.model.identity import MessageId, guid_text
from onceq.model.message import Acknowledge, Journal
from onceq.model.resultcodes import MessageClass as C
from tests.conformance.reading import code_of
from tests.conformance.world import Node, World, Worlds, fast, item

pytestmark = pytest.mark.unturned(
    "public", reason="it is about names, and about a directory that it makes"
)

Q1, Q2, Q3 = (rf"DIRECT=OS:{name}\private$\q" for name in "BCD")
LOCAL = r"private$\q"
NOBODY = "DL=00000000-0000-0000-0000-00000000000f"


@pytest.fixture
def world(worlds: Worlds) -> World:
    return peopled(worlds("A", "B", "C", "D"))


@pytest.fixture
def shared(worlds: Worlds) -> World:
    """The same with a directory."""
    return peopled(worlds("A", "B", "C", "D", directory=True))


def peopled(world: World) -> World:
    for name in "BCD":
        world[name].create("q")
    return world


def number_of(node: Node, queue: str) -> str:
    """The private format name of a queue."""
    return str(node.look("queue", queue).format_name)


def public_name(node: Node, queue: str) -> str:
    """The public one."""
    name = str(node.look("queue", queue).format_name)
    assert name.startswith("PUBLIC=")
    return name


def everywhere(world: World) -> list[list[bytes]]:
    return [world[name].bodies(LOCAL) for name in "BCD"]


# ---- several destinations --------------------------------------------------------------------


def test_case_070_each_of_two_destinations_gets_a_copy(world: World) -> None:
    sent = world["A"].once(f"{Q1},{Q2}", b"m")
    world.run(60)
    assert everywhere(world) == [[b"m"], [b"m"], []]
    (one,), (other,) = world["B"].messages(LOCAL), world["C"].messages(LOCAL)
    assert one.body == other.body == b"m"
    assert one.id == other.id == MessageId(world["A"].identity.guid, sent.first_message)
    assert (one.destination, other.destination) == (Q1, Q2)


@pytest.mark.parametrize("full", ["a queue", "the manager"])
def test_case_071_one_that_cannot_take_it_stops_all(worlds: Worlds, full: str) -> None:
    """A queue of this manager has a quota of its own; the outgoing ones share the manager's."""
    room = 64 << 10 if full == "the manager" else 1 << 30
    world = peopled(worlds("A", "B", "C", "D", settings=fast(computer_quota_bytes=room)))
    a = world["A"]
    a.create("in")
    a.create("small", quota_kb=1)
    a.once(r"private$\in", b"input")
    large = f"{Q1},DIRECT=OS:A\\private$\\small,{Q2}" if full == "a queue" else f"{Q1},{Q2},{Q3}"
    tx = a.begin()
    assert a.receive(r"private$\in", tx=tx).bodies() == [b"input"]
    a.send(tx, Q1, b"before")
    with pytest.raises(InsufficientResources):
        a.send(tx, large, b"x" * 30_000)
    with pytest.raises(SendFailed, match="quota"):
        a.send(tx, Q2, b"behind")
    with pytest.raises(SendFailed, match="quota"):
        a.commit(tx)
    for over in (a.abort, a.commit):
        with pytest.raises(TransactionOver):
            over(tx)
    with pytest.raises(InsufficientResources):
        a.ask(requests.Commit(0, (item(Q1, b"1"), item(large, b"x" * 30_000))))
    world.run(5)
    assert everywhere(world) == [[], [], []]
    assert a.bodies(r"private$\small") == []
    assert a.bodies(r"private$\in") == [b"input"], "all of it is undone"
    a.crash()
    a.start()
    a.once(f"{Q1},{Q3}", b"fits")
    world.run(60)
    assert everywhere(world) == [[b"fits"], [], [b"fits"]]


@pytest.mark.client
@pytest.mark.parametrize("size", [2_048, 3 << 20], ids=["gathered", "shipped"])
def test_case_071_who_does_not_look_at_the_error_commits_nothing(worlds: Worlds, size: int) -> None:
    world = peopled(worlds("A", "B", "C", "D"))
    world["A"].create("small", quota_kb=1)
    with world["A"].client() as manager:
        tx = manager.transaction()
        tx.send(Q1, b"before")
        with contextlib.suppress(OnceqError):
            tx.send(f"{Q1},DIRECT=OS:A\\private$\\small,{Q2}", b"x" * size)
        with contextlib.suppress(OnceqError):
            tx.send(Q2, b"behind")
        with pytest.raises(SendFailed, match="quota"):
            tx.commit()
    world.run(10)
    assert everywhere(world) == [[], [], []]
    assert world["A"].bodies(r"private$\small") == []


@pytest.mark.unturned("letters", reason="it looks for a name in a text")
@pytest.mark.inside("the disk is said to be nearly full")
@pytest.mark.parametrize("branch", [False, True], ids=["transaction", "branch"])
def test_a_send_refused_for_the_disk_dooms_its_transaction(worlds: Worlds, branch: bool) -> None:
    """S0, FN-15: also when the disk has room again, and other sends went well."""
    a = worlds("A")["A"]
    a.create("one")
    a.create("two")
    xid = Xid(7, b"doomed", b"")
    tx = a.start_branch(xid) if branch else a.begin()
    a.send(tx, r"private$\one", b"before")
    a.running.submit(inputs.SpaceChanged(low=True))
    with pytest.raises(StorageReserve):
        a.send(tx, r"private$\two", b"refused")
    a.running.submit(inputs.SpaceChanged(low=False))
    with pytest.raises(SendFailed, match=r"two.*storage-reserve"):
        a.send(tx, r"private$\one", b"behind")
    with pytest.raises(SendFailed, match=r"two.*storage-reserve"):
        a.prepare(xid, tx) if branch else a.commit(tx)
    assert a.bodies(r"private$\one") == []
    assert not a.look("transactions"), "it is over"
    assert not a.look("branches")


def test_a_send_that_is_wrong_in_itself_dooms_nothing(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    a.send(tx, Q1, b"before")
    with pytest.raises(IllegalFormatName):
        a.send(tx, rf"{Q2},{Q3};JOURNAL", b"wrong")
    a.send(tx, Q1, b"behind")
    a.commit(tx)
    world.run(5)
    assert world["B"].bodies(LOCAL) == [b"before", b"behind"]


def test_case_072_a_mix_of_kinds(world: World) -> None:
    world["B"].create("n", transactional=False)
    world["A"].create("adm", transactional=False)
    plain = r"DIRECT=OS:B\private$\n"
    world["A"].once(
        f"{Q1},{plain}", b"m", journal=Journal.DEADLETTER, acknowledge=Acknowledge(15),
        admin_queue=r"DIRECT=OS:A\private$\adm",
    )  # fmt: skip
    world.run(5)
    assert world["B"].bodies(LOCAL) == [b"m"]
    assert world["B"].bodies(r"private$\n") == []
    refused = C.NACK_NOT_TRANSACTIONAL_QUEUE
    (here,) = world["B"].messages("SYSTEM$;DEADXACT")
    assert (here.message_class, here.destination) == (refused, plain), "X-1: the target keeps it"
    (home,) = world["A"].messages("SYSTEM$;DEADXACT")
    assert (home.message_class, home.destination) == (refused, plain)
    told = [(m.message_class, m.response_queue) for m in world["A"].messages(r"private$\adm")]
    assert sorted(told) == [(C.ACK_REACH_QUEUE, Q1), (refused, plain)]
    world.run(600)
    assert world["B"].bodies(LOCAL) == [b"m"]
    assert world["B"].bodies(r"private$\n") == []
    assert len(world["A"].messages("SYSTEM$;DEADXACT")) == 1


def test_case_073_overlapping_names_keep_the_order(world: World) -> None:
    a = world["A"]
    tx = a.begin()
    a.send(tx, f"{Q1},{Q2}", b"1")
    a.send(tx, f"{Q2},{Q3}", b"2")
    a.send(tx, Q2, b"3")
    a.commit(tx)
    world.run(5)
    assert everywhere(world) == [[b"1"], [b"1", b"2", b"3"], [b"2"]]


def test_case_084_with_others_and_then_alone(world: World) -> None:
    world["A"].once(f"{Q2},{Q3}", b"1")
    world["A"].once(Q2, b"2")
    world.run(5)
    assert world["C"].bodies(LOCAL) == [b"1", b"2"]


def test_case_075_read_only_queues_refuse_the_whole_name(world: World) -> None:
    a = world["A"]
    a.create("q")
    guid, own = guid_text(world["B"].identity.guid), guid_text(a.identity.guid)
    tx = a.begin()
    for bad in (
        rf"{Q1};JOURNAL", r"DIRECT=OS:B\SYSTEM$;DEADXACT", r"DIRECT=OS:B\SYSTEM$;DEADLETTER",
        r"DIRECT=OS:B\SYSTEM$;JOURNAL", f"MACHINE={guid};JOURNAL", f"MACHINE={guid};DEADXACT",
        f"MACHINE={own};DEADXACT", f"MACHINE={own};JOURNAL", f"MACHINE={own};DEADLETTER",
        f"PUBLIC={guid};JOURNAL", f"PRIVATE={guid}\\1;JOURNAL", rf"{Q1};sub",
    ):  # fmt: skip
        for name in (f"{Q2},{bad}", f"{bad},{Q2}", f"{Q2},{bad},DIRECT=OS:A\\private$\\q"):
            assert code_of(a.once, name, b"m") == 0xC00E001E, name
            assert code_of(a.send, 0, name, b"m") == 0xC00E001E, name
            assert code_of(a.send, tx, name, b"m") == 0xC00E001E, name
            assert code_of(a.open, name, requests.Access.SEND) == 0xC00E001E, name
    a.commit(tx)
    world.run(5)
    assert everywhere(world) == [[], [], []]
    assert a.bodies(LOCAL) == []
    assert all(world.link("A", other).seen == [] for other in "BCD")


def test_case_078_every_acknowledgment_comes_to_both_queues(world: World) -> None:
    """Wherever the two are, and whatever is told."""
    a = world["A"]
    a.create("one", transactional=False)
    world["D"].create("two", transactional=False)
    for destination, body in ((Q1, b"m"), (r"DIRECT=OS:B\private$\nowhere", b"n")):
        a.once(
            destination, body, acknowledge=Acknowledge(15),
            admin_queue=r"DIRECT=OS:A\private$\one,DIRECT=OS:D\private$\two",
        )  # fmt: skip
    world.run(3)
    world["B"].receive(LOCAL)
    world.run(60)
    for node, name in (("A", "one"), ("D", "two")):
        told = list(world[node].messages(rf"private$\{name}"))
        assert sorted(m.message_class for m in told) == [
            C.ACK_REACH_QUEUE, C.ACK_RECEIVE, C.NACK_BAD_DESTINATION_QUEUE,
        ]  # fmt: skip
        assert len({m.correlation_id for m in told}) == 2


def test_case_079_the_receiver_reads_both_response_queues(world: World) -> None:
    names = r"DIRECT=OS:A\private$\one,DIRECT=OS:D\private$\two"
    world["A"].once(Q1, b"m", response_queue=names)
    world.run(3)
    (message,) = world["B"].receive(LOCAL)
    assert message.response_queue == names
    world["A"].create("one")
    world["D"].create("two")
    world["B"].once(message.response_queue, b"answer")
    world.run(3)
    assert world["A"].bodies(r"private$\one") == [b"answer"]
    assert world["D"].bodies(r"private$\two") == [b"answer"]


def test_case_083_several_queues_are_not_for_receiving(world: World) -> None:
    names = f"{Q1},{Q2}"
    for access in (requests.Access.RECEIVE, requests.Access.PEEK):
        assert code_of(world["A"].open, names, access) == 0xC00E0020
    assert code_of(world["A"].receive, names) == 0xC00E0020
    assert code_of(world["A"].messages, names) == 0xC00E0020
    deny = requests.Share.DENY_RECEIVE
    assert code_of(world["A"].open, names, requests.Access.SEND, deny) == 0xC00E0045
    assert code_of(world["A"].open, names, requests.Access.RECEIVE, deny) in (
        0xC00E0020,
        0xC00E0045,
    )
    assert world["A"].look("outgoing") == [], "nothing is left of it"


def test_case_085_three_acknowledgments_of_one_message(world: World) -> None:
    a = world["A"]
    a.create("adm", transactional=False)
    sent = a.once(
        f"{Q1},{Q2},{Q3}", b"m", acknowledge=Acknowledge.POSITIVE_ARRIVAL,
        admin_queue=r"DIRECT=OS:A\private$\adm",
    )  # fmt: skip
    world.run(5)
    told = list(a.messages(r"private$\adm"))
    assert [m.message_class for m in told] == [C.ACK_REACH_QUEUE] * 3
    assert sorted(m.response_queue for m in told) == [Q1, Q2, Q3]
    assert {m.correlation_id for m in told} == {
        MessageId(a.identity.guid, sent.first_message).pack()
    }


# ---- without a directory ---------------------------------------------------------------------


@pytest.mark.unturned("directory", reason="it is about a manager without one")
def test_case_076_a_list_that_nobody_can_resolve(world: World) -> None:
    private = number_of(world["B"], LOCAL)
    world["A"].once(f"{private},{Q2}", b"1")
    tx = world["A"].begin()
    for name in (f"{private},{NOBODY}", f"{NOBODY},{private}", f"{private},{Q2},{NOBODY}"):
        with pytest.raises(UnsupportedOperation) as caught:
            world["A"].once(name, b"2")
        assert caught.value.hresult == 0xC00E006A
        with pytest.raises(UnsupportedOperation):
            world["A"].send(tx, name, b"2")
    with contextlib.suppress(SendFailed):
        world["A"].commit(tx)
    world.run(60)
    assert world["B"].bodies(LOCAL) == [b"1"]
    assert world["C"].bodies(LOCAL) == [b"1"]
    assert len(world.link("A", "B").data()) == len(world.link("A", "C").data()) == 1


@pytest.mark.unturned("directory", reason="it is about a manager without one")
def test_case_077_a_public_name_in_workgroup_mode(world: World) -> None:
    name = "PUBLIC=00000000-0000-0000-0000-000000000001"
    for bad in (f"{Q1},{name}", f"{name},{Q1}", name):
        for work in (
            partial(world["A"].once, bad, b"m"), partial(world["A"].send, 0, bad, b"m"),
            partial(world["A"].open, bad, requests.Access.SEND),
        ):  # fmt: skip
            assert code_of(work) == 0xC00E006A, bad
    with pytest.raises(UnsupportedOperation):
        world["A"].create("orders", private=False)
    world.run(5)
    assert everywhere(world) == [[], [], []]
    assert world.link("A", "B").seen == []


# ---- lists -----------------------------------------------------------------------------------


def test_case_074_lists_that_overlap(shared: World) -> None:
    a = shared["A"]
    d1, d2 = a.edit_list("create", "D1", Q1), a.edit_list("create", "D2", Q1)
    tx = a.begin()
    a.send(tx, f"{d1},{Q2}", b"1")
    a.send(tx, f"{d2},{Q2}", b"2")
    a.commit(tx)
    shared.run(5)
    assert shared["C"].bodies(LOCAL) == [b"1", b"2"]
    assert sorted(shared["B"].bodies(LOCAL)) == [b"1", b"2"], "in any order (DL-16)"


def test_case_080_packets_carry_the_list_and_what_it_stands_for(shared: World) -> None:
    a = shared["A"]
    name = a.edit_list("create", "D1", Q1, Q2, Q3)
    a.once(name, b"m")
    shared.run(5)
    for node in "BCD":
        (message,) = shared[node].messages(LOCAL)
        assert message.sent_to == name, "what MSMQ 3.0 shows"
        assert message.copies_to == f"{Q1},{Q2},{Q3}", "what MSMQ 2.0 shows"
        assert message.destination == rf"DIRECT=OS:{node}\private$\q"


def test_case_080_a_list_beside_a_queue_that_is_in_it(shared: World) -> None:
    a = shared["A"]
    name = a.edit_list("create", "D1", Q1, Q3)
    a.once(f"{name},{Q3},{Q2}", b"m")
    shared.run(5)
    assert everywhere(shared) == [[b"m"]] * 3
    (message,) = shared["C"].messages(LOCAL)
    assert message.sent_to == f"{name},{Q3},{Q2}"
    assert message.copies_to == f"{Q1},{Q2},{Q3}"


def test_case_081_named_directly_and_by_a_nested_list(shared: World) -> None:
    a = shared["A"]
    inner = a.edit_list("create", "inner", Q1, Q2)
    outer = a.edit_list("create", "outer", Q1, inner)
    a.once(outer, b"m")
    shared.run(5)
    assert everywhere(shared) == [[b"m"], [b"m"], []]
    assert len(shared.link("A", "B").data()) == 1, "one copy, and no second that is turned away"


def test_case_082_lists_that_contain_each_other(shared: World) -> None:
    a = shared["A"]
    one = a.edit_list("create", "one", Q1)
    two = a.edit_list("create", "two", one, Q2)
    a.edit_list("add", "one", two)
    a.once(one, b"1")
    a.once(two, b"2")
    shared.run(60)
    assert everywhere(shared) == [[b"1", b"2"], [b"1", b"2"], []]
    assert len(shared.link("A", "B").data()) == len(shared.link("A", "C").data()) == 2


def test_case_076_an_element_that_the_directory_does_not_have(shared: World) -> None:
    with pytest.raises(QueueNotFound):
        shared["A"].once(f"{Q1},{NOBODY}", b"m")
    name = shared["A"].edit_list("create", "D", Q2, NOBODY)
    with pytest.raises(QueueNotFound):
        shared["A"].once(f"{Q1},{name}", b"m")
    shared.run(5)
    assert everywhere(shared) == [[], [], []]


def test_an_empty_list_takes_everything_and_delivers_nothing(shared: World) -> None:
    """DL-8."""
    a = shared["A"]
    name = a.edit_list("create", "nobody")
    a.once(name, b"m")
    a.once(f"{name},{Q1}", b"n")
    shared.run(3)
    assert everywhere(shared) == [[b"n"], [], []]


def test_a_list_is_for_sending_only(shared: World) -> None:
    """DL-5."""
    name = shared["A"].edit_list("create", "D", Q1)
    with pytest.raises(UnsupportedFormatName):
        shared["A"].receive(name)
    with pytest.raises(UnsupportedFormatName):
        shared["A"].once(Q1, b"m", admin_queue=name)


def test_what_a_list_stands_for_is_settled_by_the_send(shared: World) -> None:
    """DL-9: a later change of the list changes nothing that was sent."""
    a = shared["A"]
    name = a.edit_list("create", "D", Q1, Q2)
    tx = a.begin()
    a.send(tx, name, b"m")
    a.edit_list("remove", "D", Q2)
    a.edit_list("add", "D", Q3)
    a.commit(tx)
    a.once(name, b"n")
    shared.run(5)
    assert everywhere(shared) == [[b"m", b"n"], [b"m"], [b"n"]]


def test_lists_are_made_and_changed_with_care(shared: World) -> None:
    a = shared["A"]
    name = a.edit_list("create", "D", Q1)
    with pytest.raises(QueueExists):
        a.edit_list("create", "d", Q2)
    for bad in (f"{Q1};JOURNAL", r"DIRECT=OS:.\private$\q", f"{Q1},{Q2}", "DIRECT=x"):
        with pytest.raises(IllegalFormatName):
            a.edit_list("add", "D", bad)
    with pytest.raises(QueueNotFound, match="no list nonsense"):
        a.edit_list("add", "D", "nonsense")
    with pytest.raises(QueueNotFound):
        a.edit_list("remove", "D", Q2)
    a.edit_list("add", name, Q1.lower(), Q2)
    assert list(a.look("list", "D").members) == [Q1, Q2]
    steps = [(s.depth, s.name) for s in a.look("explain-name", f"{name},{Q1}")]
    assert steps == [(0, name), (1, Q1), (1, Q2), (0, Q1)]
    a.edit_list("drop", "D")
    with pytest.raises(QueueNotFound):
        a.once(name, b"m")


# ---- public queues ---------------------------------------------------------------------------


def test_a_public_queue_is_found_by_its_name_everywhere(shared: World) -> None:
    """FN-4; DL-13."""
    b = shared["B"]
    b.create("orders", private=False)
    name = public_name(b, r".\orders")
    shared.run(2)
    shared["A"].once(f"{name},{Q2}", b"m", journal=Journal.DEADLETTER)
    shared["B"].once(name, b"own")
    shared.run(5)
    messages = list(b.messages(r".\orders"))
    assert sorted(m.body for m in messages) == [b"m", b"own"]
    (far,) = (m for m in messages if m.body == b"m")
    assert far.destination == name
    b.delete(r".\orders")
    shared.run(5)
    with pytest.raises(QueueNotFound):
        shared["A"].once(name, b"n")
    (dead,) = shared["A"].messages("SYSTEM$;DEADXACT")
    assert (dead.message_class, dead.destination) == (C.NACK_QUEUE_DELETED, name)


def test_messages_for_a_public_queue_that_is_gone(shared: World) -> None:
    """DL-15: the directory does not have it any more, so that nobody can say where it was."""
    shared["B"].create("orders", private=False)
    name = public_name(shared["B"], r".\orders")
    shared.run(2)
    shared.cut("A", "B")
    shared["A"].once(name, b"m", journal=Journal.DEADLETTER)
    shared["B"].delete(r".\orders")
    shared.run(2)
    shared["A"].look("status")
    (dead,) = shared["A"].messages("SYSTEM$;DEADXACT")
    assert dead.message_class == C.NACK_BAD_DESTINATION_QUEUE


def test_a_directory_that_cannot_be_read(shared: World) -> None:
    """DL-14: what needs it is refused, the rest goes on; what waits is validated later."""
    a = shared["A"]
    shared["B"].create("orders", private=False)
    name = public_name(shared["B"], r".\orders")
    members = a.edit_list("create", "D", Q1)
    shared.run(2)
    shared.cut("A", "B")
    a.once(name, b"before")
    shared.directory_online(False)
    for needs in (name, members, f"{Q1},{members}"):
        with pytest.raises(NoDirectory):
            a.once(needs, b"m")
    with pytest.raises(NoDirectory):
        a.create("more", private=False)
    with pytest.raises(NoDirectory):
        a.edit_list("add", "D", Q2)
    a.once(Q2, b"direct")
    a.kill()
    a.start()
    assert a.look("outgoing-queue", name).state == "NEED VALIDATION"
    shared.mend("A", "B")
    shared.run(30)
    assert shared["C"].bodies(LOCAL) == [b"direct"]
    assert shared["B"].bodies(r".\orders") == []
    shared.directory_online(True)
    shared.run(30)
    assert shared["B"].bodies(r".\orders") == [b"before"]
    a.once(members, b"again")
    shared.run(5)
    assert shared["B"].bodies(LOCAL) == [b"again"]


# ---- one queue, several names ----------------------------------------------------------------


def test_case_134_one_queue_by_three_names(shared: World) -> None:
    a, b = shared["A"], shared["B"]
    names = [Q1, rf"DIRECT=TCP:{b.address}\private$\q", number_of(b, LOCAL)]
    shared.run(2)
    shared.cut("A", "B")
    for index in range(9):
        a.once(names[index % 3], b"%d" % index)
    shared.mend("A", "B")
    shared.run(60)
    assert b.bodies(LOCAL) == [b"%d" % index for index in range(9)]
    assert len({m.stream for m in b.messages(LOCAL)}) == 1, "one queue, one stream (EOD-3)"


def test_case_134_a_shared_queue_is_shared_after_the_directory_is_gone(shared: World) -> None:
    """A name that joined the outgoing queue of another stays there: what waits comes first."""
    a, b = shared["A"], shared["B"]
    first, later = rf"DIRECT=TCP:{b.address}\private$\q", number_of(b, LOCAL)
    shared.run(2)
    shared.cut("A", "B")
    a.once(first, b"0")
    a.once(later, b"1")
    shared.directory_online(False)
    a.kill()
    a.start()
    a.once(later, b"2")
    a.once(first, b"3")
    assert a.look("outgoing-queue", later) == a.look("outgoing-queue", first)
    shared.mend("A", "B")
    shared.run(60)
    assert b.bodies(LOCAL) == [b"0", b"1", b"2", b"3"]
    streams = [m.stream for m in b.messages(LOCAL)]
    assert streams[0] == streams[1] < streams[2] == streams[3], "one in each life (EOD-3)"


@pytest.mark.unturned("private", reason="it is about two names of one queue")
def test_a_shared_queue_is_shared_no_longer_when_the_names_part(shared: World) -> None:
    """The number of a deleted queue does not mean its successor of the same name."""
    a, b = shared["A"], shared["B"]
    b.create("p")
    first, later = rf"DIRECT=TCP:{b.address}\private$\p", number_of(b, r"private$\p")
    shared.run(2)
    a.once(first, b"0")
    a.once(later, b"1")
    shared.run(5)
    assert b.bodies(r"private$\p") == [b"0", b"1"]
    b.delete(r"private$\p")
    b.create("p")
    shared.run(2)
    a.once(later, b"2", journal=int(Journal.DEADLETTER))
    a.once(first, b"3")
    shared.run(30)
    assert b.bodies(r"private$\p") == [b"3"]
    assert a.bodies("SYSTEM$;DEADXACT") == [b"2"]


def test_case_134_whichever_name_was_used_first(shared: World) -> None:
    a, b = shared["A"], shared["B"]
    names = [number_of(b, LOCAL), rf"DIRECT=TCP:{b.address}\private$\q", Q1]
    shared.run(2)
    for index in range(6):
        a.once(f"{names[index % 3]},{Q2}", b"%d" % index)
    a.once(",".join(names), b"6")
    a.kill()
    a.start()
    a.once(names[2], b"7")
    shared.run(60)
    assert b.bodies(LOCAL) == [b"%d" % index for index in range(8)], "one copy of each, in order"
