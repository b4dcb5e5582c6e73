"""Units of work, driven step by step against scripted answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.client.link import Greeting, Session
from onceq.client.plans.plan import Plan
from onceq.client.plans.transaction import peek
from onceq.client.plans.unit_of_work import Unit
from onceq.errors import (
    BodyTooLarge,
    IllegalFormatName,
    InDoubt,
    InsufficientResources,
    InvalidParameter,
    LabelTooLong,
    LinkLost,
    ManagerAway,
    NotSupported,
    OnceqError,
    QueueNotFound,
    SendFailed,
    ServiceNotAvailable,
    StorageFailure,
    TransactionLost,
    TransactionOver,
    TransactionUsage,
)
from onceq.model import requests
from onceq.model.identity import TransactionId
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.results import Opened
from tests.unit.client.script import Q, Script


def test_a_small_transaction_is_one_frame(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.run(work.send(Q, [b"2", b"3"], {}))
    script.run(work.send("other", [b"4"], {"label": "x"}))
    assert script.kinds() == ["OpenQueue", "CloseQueue", "OpenQueue", "CloseQueue"]
    sent = script.run(work.commit())
    assert script.kinds()[4:] == ["Commit"]
    head = script.request(-1, requests.Commit)
    assert head.transaction == 0
    assert [(i.destination, len(i.bodies), i.values) for i in head.items] == [
        (Q, 3, {}), ("other", 1, {"label": "x"})]  # fmt: skip
    assert len(sent) == 4
    assert (work.over, len(work.sent or ())) == ("committed", 4)
    assert TransactionId.parse(str(work.id)).number == 1


def test_a_commit_that_was_given_up_is_in_doubt(session: Session) -> None:
    """Also where nothing can be asked any more: its coroutine was closed."""
    work = Unit(session)
    asked = work.commit()
    next(asked)
    asked.close()
    assert work.over.startswith("in doubt")
    assert work.decided


def test_names_are_checked_once(script: Script, session: Session) -> None:
    script.will(requests.OpenQueue.code, QueueNotFound())
    work = Unit(session)
    with pytest.raises(QueueNotFound):
        script.run(work.send(Q, [b"1"], {}))
    script.run(work.send("good", [b"1"], {}))
    script.run(work.commit())
    script.run(Unit(session).send("good", [b"1"], {}))
    assert script.kinds().count("OpenQueue") == 2
    assert script.sent == [("good", b"1")]


PEER = "PRIVATE=01234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (rf"{PEER}\1", rf"{PEER}\2"),
        (r"DIRECT=OS:BETA\private$\q", r"DIRECT=os:beta\r"),
        (r"BETA\q", r"DIRECT=OS:BETA\private$\q"),
    ],
)
def test_of_another_manager_one_queue_is_asked_about(
    script: Script, session: Session, first: str, second: str
) -> None:
    script.will(requests.OpenQueue.code, Opened(1, False, None))
    work = Unit(session)
    script.run(work.send(first, [b"1"], {}))
    script.run(work.send(second, [b"2"], {}))
    script.run(work.commit())
    assert script.kinds() == ["OpenQueue", "CloseQueue", "Commit"]
    assert script.sent == [(first, b"1"), (second, b"2")]


@pytest.mark.parametrize(
    ("first", "local", "second"),
    [
        (rf"{PEER}\1", True, rf"{PEER}\2"),  # it is our own
        (rf"{PEER}\1", False, rf"{PEER}\x"),  # no name
        (rf"{PEER}\1", False, rf"{PEER}\1;JOURNAL"),  # nothing is sent there
        (rf"{PEER}\1", False, rf"{PEER}\2,{PEER}\3"),
        (r"DIRECT=OS:BETA\q", False, r"DIRECT=TCP:10.0.0.9\q"),
        ("DIRECT=HTTP://beta/msmq/q", False, "DIRECT=HTTP://beta/msmq/r"),  # an address may be ours
        ("DL=01234567-89ab-cdef-0123-456789abcdef", False, rf"{PEER}\1"),
        ("PUBLIC=01234567-89ab-cdef-0123-456789abcdef", False, rf"{PEER}\1"),
    ],
)
def test_the_manager_is_asked_whatever_else_a_name_is(
    script: Script, session: Session, first: str, local: bool, second: str
) -> None:
    script.will(requests.OpenQueue.code, Opened(1, local, None))
    work = Unit(session)
    script.run(work.send(first, [b"1"], {}))
    script.run(work.send(second, [b"2"], {}))
    assert script.kinds() == ["OpenQueue", "CloseQueue", "OpenQueue", "CloseQueue"]


def test_a_refused_commit_is_over_and_names_the_send(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1", b"2"], {}))
    script.will(requests.Commit.code, InsufficientResources("quota"))
    with pytest.raises(SendFailed, match=r"send to .*q was refused .*quota"):
        script.run(work.commit())
    assert "a send in it was refused" in work.over
    with pytest.raises(TransactionOver):
        script.run(work.send(Q, [b"3"], {}))
    assert not script.sent


def test_a_mistake_that_the_commit_finds_ends_it_too(script: Script, session: Session) -> None:
    """The calls of these sends had succeeded, so that nobody could leave one of them out."""
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.will(requests.Commit.code, QueueNotFound("it was deleted"))
    with pytest.raises(QueueNotFound):
        script.run(work.commit())
    with pytest.raises(TransactionOver, match="a send in it was refused"):
        script.run(work.commit())
    assert not script.sent


def test_a_refused_begin_is_no_fault_of_a_send(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.run(work.remove(requests.Remove(Q, 0, 1, 2)))
    script.will(requests.Commit.code, InsufficientResources("16384 transactions are open already"))
    with pytest.raises(InsufficientResources):
        script.run(work.commit())
    assert not work.over


@pytest.mark.usefixtures("small")
def test_a_large_transaction_is_shipped_ahead(script: Script, session: Session) -> None:
    work = Unit(session)
    expected = []
    for number in range(50):
        body = bytes([number]) * 90
        script.run(work.send(Q, [body], {}))
        expected.append((Q, body))
    script.run(work.commit())
    assert script.sent == expected
    assert script.kinds().count("Send") > 2
    begun = script.kinds().index("Begin")
    assert script.asked[begun].lazy
    assert script.request(-1, requests.Commit).transaction == work.number


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("batch", [25, 40])
def test_a_large_batch_goes_in_parts(script: Script, session: Session, batch: int) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"first"], {}))
    items = [bytes([n]) * 60 for n in range(batch)]
    script.run(work.send(Q, items, {}))
    script.run(work.send(Q, [b"last"], {}))
    script.run(work.commit())
    assert script.sent == [(Q, b"first"), *((Q, body) for body in items), (Q, b"last")]
    for request in script.asked:
        assert sum(len(item.bodies.data) for item in getattr(request.asked, "items", ())) <= 1_000


@pytest.mark.usefixtures("small")
def test_a_call_that_is_wrong_adds_nothing(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.will(requests.Send.code, None, IllegalFormatName())
    with pytest.raises(IllegalFormatName):
        script.run(work.send(Q, [b"x" * 2_000], {}))
    assert work.over == ""
    script.run(work.send(Q, [b"2"], {}))
    script.run(work.commit())
    assert script.sent == [(Q, b"1"), (Q, b"2")]


@pytest.mark.usefixtures("small")
def test_a_call_that_is_refused_dooms_the_transaction(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.will(requests.Send.code, None, InsufficientResources("full"))
    with pytest.raises(InsufficientResources):
        script.run(work.send(Q, [b"x" * 2_000], {}))
    with pytest.raises(SendFailed, match="full"):
        script.run(work.send(Q, [b"2"], {}))
    with pytest.raises(SendFailed, match="full"):
        script.run(work.receive(Q, count=1, timeout=0))
    with pytest.raises(SendFailed, match="full"):
        script.run(work.commit())
    assert script.kinds()[-1] == "Abort"
    assert not script.sent


@pytest.mark.usefixtures("small")
def test_what_was_accepted_is_never_left_out(script: Script, session: Session) -> None:
    """An earlier send that the manager refuses when it is shipped dooms the transaction."""
    work = Unit(session)
    script.run(work.send(Q, [b"1" * 500], {}))
    script.will(requests.Send.code, InsufficientResources("quota"))
    with pytest.raises(SendFailed, match="quota"):
        script.run(work.send(Q, [b"2" * 600], {}))
    with pytest.raises(SendFailed, match="quota"):
        script.run(work.commit())
    assert script.kinds()[-1] == "Abort"
    with pytest.raises(TransactionOver):
        script.run(work.commit())
    assert not script.sent


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("why", [InsufficientResources("some"), IllegalFormatName("some")])
def test_half_a_batch_is_never_committed(script: Script, session: Session, why: OnceqError) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"known"], {}))
    script.will(requests.Send.code, None, None, why)
    with pytest.raises(type(why)):
        script.run(work.send(Q, [b"x" * 400] * 5, {}))
    with pytest.raises(SendFailed, match="some"):
        script.run(work.commit())
    assert script.kinds()[-1] == "Abort"


@pytest.mark.usefixtures("small")
def test_a_send_that_is_given_up_while_it_waits_ends_the_transaction(
    script: Script, session: Session
) -> None:
    """Nobody knows whether the manager has it: a commit would send it twice, or not at all."""
    work = Unit(session)
    script.run(work.send(Q, [b"1" * 500], {}))
    script.will(requests.Send.code, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        script.run(work.send(Q, [b"2" * 600], {}))
    assert "given up" in work.over
    assert script.kinds()[-1] == "Abort"


def test_local_faults_leave_the_transaction_usable(script: Script, session: Session) -> None:
    work = Unit(session)
    faults: list[tuple[type[Exception], Callable[[], Plan[object]]]] = [
        (LabelTooLong, lambda: work.send(Q, [b"x"], {"label": "x" * 250})),
        (BodyTooLarge, lambda: work.send(Q, [bytes(PACKET_BYTES_MAX + 1)], {})),
        (InvalidParameter, lambda: work.send(5, [b"x"], {})),  # type: ignore[arg-type]
        (InvalidParameter, lambda: work.send(Q, [5], {})),  # type: ignore[list-item]
    ]
    for error, plan in faults:
        with pytest.raises(error):
            script.run(plan())
    assert not script.asked
    script.run(work.send(Q, [b"good"], {}))
    script.run(work.commit())
    assert script.sent == [(Q, b"good")]


def test_a_body_near_the_limit_is_shown_to_the_manager_at_once(
    script: Script, session: Session
) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.will(requests.Send.code, None, BodyTooLarge())
    with pytest.raises(BodyTooLarge):
        script.run(work.send(Q, [bytes(PACKET_BYTES_MAX - 10)], {}))
    script.run(work.commit())
    assert script.sent == [(Q, b"1")]


def test_ages_count_from_the_call(script: Script) -> None:
    now = [100.0]
    session = Session(Greeting("A", bytes(16), 1_000), clock=lambda: now[0])
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    now[0] += 7
    script.run(work.send(Q, [b"2"], {}))
    now[0] += 1
    script.run(work.commit())
    assert [item.age_s for item in script.request(-1, requests.Commit).items] == [8, 1]


# ---- the end -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [LinkLost("cut"), StorageFailure("disk")])
def test_a_commit_without_an_answer_is_in_doubt(
    script: Script, session: Session, error: Exception
) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.will(requests.Commit.code, error)
    with pytest.raises(InDoubt) as caught:
        script.run(work.commit())
    assert caught.value.transaction == str(work.id)
    assert str(work.id) in caught.value.text
    with pytest.raises(TransactionOver, match="in doubt"):
        script.run(work.commit())
    with pytest.raises(TransactionOver, match="in doubt"):
        script.run(work.abort())


def test_a_commit_that_was_never_sent_is_not_in_doubt(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.will(requests.Commit.code, ManagerAway("gone"))
    with pytest.raises(ServiceNotAvailable):
        script.run(work.commit())
    script.run(work.commit())
    assert script.sent == [(Q, b"1")]


def test_a_begun_transaction_is_over_when_its_connection_is(
    script: Script, session: Session
) -> None:
    steps: list[tuple[int, Callable[[Unit], Plan[object]]]] = [
        (requests.Receive.code, lambda w: w.receive(Q, count=1, timeout=0)),
        (requests.Remove.code, lambda w: w.remove(requests.Remove(Q, 0, 1, 2))),
        (requests.Commit.code, lambda w: w.commit()),
        (requests.OpenQueue.code, lambda w: w.send("new", [b"x"], {})),
    ]
    for code, step in steps:
        work = Unit(session)
        work.begun = True
        error = ManagerAway("gone") if code == requests.Commit.code else LinkLost("cut")
        script.will(code, error)
        with pytest.raises(TransactionLost, match="connection was lost"):
            script.run(step(work))
        with pytest.raises(TransactionLost, match="connection was lost"):
            script.run(work.commit())


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_twice_is_once_too_often(script: Script, session: Session, end: str) -> None:
    work = Unit(session)
    script.run(getattr(work, end)())
    for again in (
        work.commit,
        work.abort,
        lambda: work.send(Q, [b"x"], {}),
        lambda: work.receive(Q, count=1, timeout=0),
        lambda: work.remove(requests.Remove(Q, 0, 1, 2)),
    ):
        with pytest.raises(TransactionOver) as caught:
            script.run(again())
        assert caught.value.hresult == 0xC00E0051


def test_an_abort_of_what_the_manager_never_saw_asks_nothing(
    script: Script, session: Session
) -> None:
    work = Unit(session)
    script.run(work.abort())
    assert not script.asked


def test_an_abort_never_fails(script: Script, session: Session) -> None:
    for error in (LinkLost("cut"), TransactionOver("gone"), None):
        work = Unit(session)
        work.begun = True
        script.will(requests.Abort.code, error)
        script.run(work.abort())
        assert work.over == "aborted"


def test_an_interrupted_commit_is_in_doubt(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.will(requests.Commit.code, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        script.run(work.commit())
    assert work.over.startswith("in doubt")
    assert work.id is not None


def test_an_interrupted_receive_aborts(script: Script, session: Session) -> None:
    """It may have taken messages that nobody saw: a commit would remove them unseen."""
    work = Unit(session)
    script.will(requests.Receive.code, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        script.run(work.receive(Q, count=1, timeout=None))
    assert script.kinds() == ["Begin", "Receive", "Abort"]
    assert not script.asked[-1].waits
    assert script.asked[1].late is None
    with pytest.raises(TransactionOver, match="given up"):
        script.run(work.commit())


def test_what_there_is_not(script: Script, session: Session) -> None:
    work = Unit(session)
    with pytest.raises(TransactionUsage):
        peek(work, Q)
    with pytest.raises(NotSupported) as caught:
        script.run(work.commit(retaining=True))
    assert caught.value.hresult == 0x8004D00F
    assert work.over == ""
