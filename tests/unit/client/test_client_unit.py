"""Units of work, driven step by step against scripted answers."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest

from onceq.client import bodies, unit
from onceq.client.batches import send_many
from onceq.client.choosing import subqueue
from onceq.client.link import Greeting, Request
from onceq.client.plans import Plan, outcome, receive_many, wait_ms
from onceq.client.results import Batch
from onceq.client.session import Session
from onceq.client.unit import Unit
from onceq.errors import (
    BodyTooLarge,
    IllegalFormatName,
    InDoubt,
    InsufficientResources,
    InvalidParameter,
    LabelTooLong,
    LinkLost,
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
from onceq.model.identity import TransactionId
from onceq.model.limits import PACKET_BYTES_MAX, RECEIVE_MESSAGES_MAX
from onceq.model.run import Run
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

Q = r"private$\q"


class Script:
    """Answers requests as a manager would, unless the test has another answer for a code."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.answers: dict[int, list[object]] = {}
        self.sent: list[tuple[str, bytes]] = []
        self.pending: list[tuple[str, bytes]] = []

    def will(self, code: int, *answers: object) -> None:
        self.answers.setdefault(code, []).extend(answers)

    def codes(self) -> list[str]:
        return [Code(request.code).name for request in self.asked]

    def answer(self, request: Request) -> object:
        self.asked.append(request)
        waiting = self.answers.get(request.code)
        result = waiting.pop(0) if waiting else None
        if isinstance(result, BaseException):
            raise result
        return self._does(request) if result is None else result

    def _does(self, request: Request) -> object:
        code, head = request.code, request.head
        if code in (Code.SEND, Code.COMMIT):
            for item, run in zip(head.items, request.runs, strict=True):
                assert item.count == len(run)
                self.pending += [(item.destination, bytes(body)) for body in run]
            if code == Code.COMMIT or not head.transaction:
                first = len(self.sent) + 1
                self.sent += self.pending
                count, self.pending = len(self.pending), []
                return frames.SentHead(first, count, 1)
        if code == Code.ABORT:
            self.pending = []
        if code == Code.OPEN:
            return frames.OpenedHead(1, True, True)
        return None

    def run(self, plan: Plan) -> Any:
        try:
            request = next(plan)
            while True:
                try:
                    result = self.answer(request)
                except BaseException as error:  # noqa: BLE001 - as the runners do
                    request = plan.throw(error)
                else:
                    request = plan.send(result)
        except StopIteration as stop:
            return stop.value


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def session() -> Session:
    return Session(Greeting("A", bytes(range(16)), 1_000), clock=lambda: 5.0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything flushes early."""
    monkeypatch.setattr(unit, "FLUSH_BYTES", 1_000)
    monkeypatch.setattr(unit, "FLUSH_MESSAGES", 20)
    monkeypatch.setattr(bodies, "PART_BYTES_MAX", 500)


def test_a_small_transaction_is_one_frame(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.run(work.send(Q, [b"2", b"3"], {}))
    script.run(work.send("other", [b"4"], {"label": "x"}))
    assert script.codes() == ["OPEN", "CLOSE", "OPEN", "CLOSE"]
    sent = script.run(work.commit())
    assert script.codes()[4:] == ["COMMIT"]
    head = script.asked[-1].head
    assert head.transaction == 0
    assert [(i.destination, i.count, i.properties) for i in head.items] == [
        (Q, 3, {}), ("other", 1, {"label": "x"})]  # fmt: skip
    assert len(sent) == 4
    assert (work.over, len(work.sent or ())) == ("committed", 4)
    assert TransactionId.parse(str(work.id)).number == 1


def test_names_are_checked_once(script: Script, session: Session) -> None:
    script.will(Code.OPEN, QueueNotFound())
    work = Unit(session)
    with pytest.raises(QueueNotFound):
        script.run(work.send(Q, [b"1"], {}))
    script.run(work.send("good", [b"1"], {}))
    script.run(work.commit())
    script.run(Unit(session).send("good", [b"1"], {}))
    assert script.codes().count("OPEN") == 2
    assert script.sent == [("good", b"1")]


def test_a_refused_commit_is_over_and_names_the_send(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1", b"2"], {}))
    script.will(Code.COMMIT, InsufficientResources("quota"))
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
    script.will(Code.COMMIT, QueueNotFound("it was deleted"))
    with pytest.raises(QueueNotFound):
        script.run(work.commit())
    with pytest.raises(TransactionOver, match="a send in it was refused"):
        script.run(work.commit())
    assert not script.sent


def test_a_refused_begin_is_no_fault_of_a_send(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.run(work.remove(Q, 1, 2))
    script.will(Code.COMMIT, InsufficientResources("16384 transactions are open already"))
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
    assert script.codes().count("SEND") > 2
    begun = script.codes().index("BEGIN")
    assert script.asked[begun].lazy
    assert script.asked[-1].head.transaction == work.number


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
        assert sum(len(run.data) for run in request.runs) <= 1_000


@pytest.mark.usefixtures("small")
def test_a_call_that_is_wrong_adds_nothing(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.will(Code.SEND, None, IllegalFormatName())
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
    script.will(Code.SEND, None, InsufficientResources("full"))
    with pytest.raises(InsufficientResources):
        script.run(work.send(Q, [b"x" * 2_000], {}))
    with pytest.raises(SendFailed, match="full"):
        script.run(work.send(Q, [b"2"], {}))
    with pytest.raises(SendFailed, match="full"):
        script.run(work.receive(Q, count=1, timeout=0))
    with pytest.raises(SendFailed, match="full"):
        script.run(work.commit())
    assert script.codes()[-1] == "ABORT"
    assert not script.sent


@pytest.mark.usefixtures("small")
def test_what_was_accepted_is_never_left_out(script: Script, session: Session) -> None:
    """An earlier send that the manager refuses when it is shipped dooms the transaction."""
    work = Unit(session)
    script.run(work.send(Q, [b"1" * 500], {}))
    script.will(Code.SEND, InsufficientResources("quota"))
    with pytest.raises(SendFailed, match="quota"):
        script.run(work.send(Q, [b"2" * 600], {}))
    with pytest.raises(SendFailed, match="quota"):
        script.run(work.commit())
    assert script.codes()[-1] == "ABORT"
    with pytest.raises(TransactionOver):
        script.run(work.commit())
    assert not script.sent


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("why", [InsufficientResources("some"), IllegalFormatName("some")])
def test_half_a_batch_is_never_committed(script: Script, session: Session, why: OnceqError) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"known"], {}))
    script.will(Code.SEND, None, None, why)
    with pytest.raises(type(why)):
        script.run(work.send(Q, [b"x" * 400] * 5, {}))
    with pytest.raises(SendFailed, match="some"):
        script.run(work.commit())
    assert script.codes()[-1] == "ABORT"


@pytest.mark.usefixtures("small")
def test_a_send_that_is_given_up_while_it_waits_ends_the_transaction(
    script: Script, session: Session
) -> None:
    """Nobody knows whether the manager has it: a commit would send it twice, or not at all."""
    work = Unit(session)
    script.run(work.send(Q, [b"1" * 500], {}))
    script.will(Code.SEND, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        script.run(work.send(Q, [b"2" * 600], {}))
    assert "given up" in work.over
    assert script.codes()[-1] == "ABORT"


def test_local_faults_leave_the_transaction_usable(script: Script, session: Session) -> None:
    work = Unit(session)
    faults: list[tuple[type[Exception], Callable[[], Plan]]] = [
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
    script.will(Code.SEND, None, BodyTooLarge())
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
    assert [item.age_s for item in script.asked[-1].head.items] == [8, 1]


# ---- the end -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [LinkLost("cut"), StorageFailure("disk")])
def test_a_commit_without_an_answer_is_in_doubt(
    script: Script, session: Session, error: Exception
) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.will(Code.COMMIT, error)
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
    script.will(Code.COMMIT, ServiceNotAvailable("gone"))
    with pytest.raises(ServiceNotAvailable):
        script.run(work.commit())
    script.run(work.commit())
    assert script.sent == [(Q, b"1")]


def test_a_begun_transaction_is_over_when_its_connection_is(
    script: Script, session: Session
) -> None:
    steps: list[tuple[int, Callable[[Unit], Plan]]] = [
        (Code.RECEIVE, lambda w: w.receive(Q, count=1, timeout=0)),
        (Code.REMOVE, lambda w: w.remove(Q, 1, 2)),
        (Code.COMMIT, lambda w: w.commit()),
        (Code.OPEN, lambda w: w.send("new", [b"x"], {})),
    ]
    for code, step in steps:
        work = Unit(session)
        work.begun = True
        error = ServiceNotAvailable("gone") if code == Code.COMMIT else LinkLost("cut")
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
        lambda: work.remove(Q, 1, 2),
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
        script.will(Code.ABORT, error)
        script.run(work.abort())
        assert work.over == "aborted"


def test_an_interrupted_commit_is_in_doubt(script: Script, session: Session) -> None:
    work = Unit(session)
    script.run(work.send(Q, [b"1"], {}))
    script.will(Code.COMMIT, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        script.run(work.commit())
    assert work.over.startswith("in doubt")
    assert work.id is not None


def test_an_interrupted_receive_aborts(script: Script, session: Session) -> None:
    """It may have taken messages that nobody saw: a commit would remove them unseen."""
    work = Unit(session)
    script.will(Code.RECEIVE, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        script.run(work.receive(Q, count=1, timeout=None))
    assert script.codes() == ["BEGIN", "RECEIVE", "ABORT"]
    assert not script.asked[-1].waits
    assert script.asked[1].late is None
    with pytest.raises(TransactionOver, match="given up"):
        script.run(work.commit())


def test_what_there_is_not(script: Script, session: Session) -> None:
    work = Unit(session)
    with pytest.raises(TransactionUsage):
        work.peek()
    with pytest.raises(NotSupported) as caught:
        script.run(work.commit(retaining=True))
    assert caught.value.hresult == 0x8004D00F
    assert work.over == ""


# ---- outside transactions ----------------------------------------------------------------


@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_at_once(script: Script, session: Session, transactional: bool) -> None:
    plan = send_many(session, Q, [b"1", "2"], transactional=transactional, values={})
    ids = script.run(plan)
    assert script.codes() == ["COMMIT" if transactional else "SEND"]
    assert script.sent == [(Q, b"1"), (Q, b"2")]
    assert [id.number for id in ids] == [1, 2]


@pytest.mark.usefixtures("small")
def test_a_large_batch_at_once(script: Script, session: Session) -> None:
    items = [bytes([n]) * 60 for n in range(40)]
    ids = script.run(send_many(session, Q, items, transactional=True, values={}))
    assert script.codes().count("COMMIT") == 1
    assert script.sent == [(Q, body) for body in items]
    assert len(ids) == 40
    ids = script.run(send_many(session, Q, items, transactional=False, values={}))
    assert [id.number for id in ids] == list(range(41, 81))


@pytest.mark.usefixtures("small")
def test_a_large_batch_at_once_that_is_refused_leaves_nothing(
    script: Script, session: Session
) -> None:
    items = [bytes([n]) * 60 for n in range(40)]
    for refusals in ([InsufficientResources()], [None, InsufficientResources()]):
        script.will(Code.SEND, *refusals)
        with pytest.raises(InsufficientResources):
            script.run(send_many(session, Q, items, transactional=True, values={}))
        assert script.codes()[-1] == "ABORT"
        assert not script.sent
        assert not script.pending


def test_an_empty_batch_asks_nothing(script: Script, session: Session) -> None:
    for transactional in (False, True):
        plan = send_many(session, Q, [], transactional=transactional, values={})
        assert len(script.run(plan)) == 0
    assert not script.asked


def test_a_single_message_transaction_in_doubt_has_a_name(script: Script, session: Session) -> None:
    script.will(Code.COMMIT, LinkLost("cut"))
    with pytest.raises(InDoubt) as caught:
        script.run(send_many(session, Q, [b"1"], transactional=True, values={}))
    script.will(Code.OUTCOME, "aborted")
    assert script.run(outcome(session, caught.value.transaction)) == "aborted"
    assert script.asked[-1].head.number == 1


@pytest.mark.parametrize("text", ["", "x", "00-1", "0" * 32 + "-0", "0" * 32 + "-" + "9" * 30,
                                  "0" * 32 + "-²", "z" * 32 + "-1"])  # fmt: skip
def test_what_is_no_transaction_identifier(script: Script, session: Session, text: str) -> None:
    with pytest.raises(InvalidParameter):
        script.run(outcome(session, text))


@pytest.mark.parametrize(
    ("timeout", "ms"),
    [(None, -1), (0, 0), (-3, 0), (0.0001, 1), (1.5, 1_500), (float("inf"), -1), (1e30, -1)],
)
def test_timeouts(timeout: float | None, ms: int) -> None:
    assert wait_ms(timeout) == ms


def test_a_timeout_that_is_no_number() -> None:
    with pytest.raises(InvalidParameter):
        wait_ms(float("nan"))


def test_late_messages_come_first_but_not_into_transactions(
    script: Script, session: Session
) -> None:
    none = array("I", [0])
    late = Batch(Run.of([b"late"]), array("Q", [1]), none, none)
    fresh = Batch(Run.of([b"fresh"]), array("Q", [2]), none, none)
    session.keep(Q, late)
    script.will(Code.RECEIVE, fresh, fresh, fresh)
    assert script.run(receive_many(session, Q, count=1, timeout=0, transaction=1)) is fresh
    assert script.run(receive_many(session, Q, count=1, timeout=0, peek=True)) is fresh
    assert script.run(receive_many(session, Q, count=1, timeout=0)) is late
    assert script.run(receive_many(session, Q, count=1, timeout=0)) is fresh


def test_counts_are_kept_in_range(script: Script, session: Session) -> None:
    script.run(receive_many(session, Q, count=1 << 40, timeout=0))
    assert script.asked[0].head.count_max == RECEIVE_MESSAGES_MAX
    for count in (0, -1):
        with pytest.raises(InvalidParameter):
            script.run(receive_many(session, Q, count=count, timeout=0))


@pytest.mark.parametrize(
    ("request_", "lost", "unsent"),
    [
        (Request(Code.LOOK, frames.LookHead("status", "")), True, True),
        (Request(Code.OUTCOME, frames.OutcomeHead(bytes(16), 1)), True, True),
        (Request(Code.RECEIVE, frames.ReceiveHead(Q, 0, 1, 1, 0, True, 0, 0, 0)), True, True),
        (Request(Code.RECEIVE, frames.ReceiveHead(Q, 0, 1, 1, 0, True, 0, 0, 7)), False, True),
        (Request(Code.RECEIVE, frames.ReceiveHead(Q, 0, 1, 1, 0, False, 0, 0, 0)), False, True),
        (Request(Code.COMMIT, frames.CommitHead(0, bytes(16), 1, [])), False, True),
        (Request(Code.SEND, frames.SendHead(0, [])), False, True),
        (Request(Code.DELETE, frames.Named(Q)), False, True),
    ],
)
def test_what_may_be_asked_again(request_: Request, lost: bool, unsent: bool) -> None:
    assert request_.repeatable(LinkLost()) is lost
    assert request_.repeatable(ServiceNotAvailable()) is unsent


def test_a_target_that_begins_with_a_semicolon_is_beside_a_subqueue() -> None:
    """Not inside it: a queue has one level of subqueues."""
    assert subqueue("q", ";retry") == "q;retry"
    assert subqueue("q;retry", ";poison") == "q;poison"
    assert subqueue("q;retry", "") == "q"
    assert subqueue("q;retry", "other") == "other"
