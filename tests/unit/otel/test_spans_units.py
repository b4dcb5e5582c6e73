"""Transactions with spans: what their sends say depends on how they end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

import onceq
from onceq.errors import (
    BranchState,
    CommittedByHand,
    QueueNotFound,
    RolledBack,
    RolledBackByHand,
    SendFailed,
)
from onceq.model.branches import Xid
from onceq.otel import spans
from onceq.otel.faces import instrument
from onceq.otel.spans import context_of
from tests.unit.otel.collected import TEXT, Collected, Q, above, id_of, linked, said

NOWHERE = r"private$\nowhere"


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.fixture
def qm(tmp_path: Path, collected: Collected) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "a"), name="ALPHA", create=True) as made:
        made.create_queue(Q, transactional=True)
        yield instrument(made, tracer_provider=collected.provider)


def test_a_commit_has_links_to_what_it_sends(qm: onceq.QueueManager, collected: Collected) -> None:
    with qm.transaction() as tx:
        tx.send(Q, "1")
        tx.send_many(Q, ["2", "3"])
        assert collected.spans == [], "nobody knows yet whether there is a message"
    one, many, commit = collected.spans
    assert [span.kind for span in (one, many)] == [SpanKind.PRODUCER] * 2
    assert [said(s, spans.OUTCOME) for s in (one, many, commit)] == [spans.COMMITTED] * 3
    assert (said(one, spans.BODY_SIZE), said(many, spans.COUNT)) == (1, 2)
    assert (said(commit, spans.OPERATION_TYPE), said(commit, spans.SENT)) == (spans.SEND, 3)
    assert linked(commit) == [id_of(one), id_of(many)]
    for number, span in enumerate((one, many, many)):
        message = qm.receive(Q, timeout=0)
        assert (message.text, message.traceparent[36:52]) == (
            str(number + 1), f"{id_of(span):016x}"
        )  # fmt: skip


def test_the_spans_of_a_commit_that_was_given_up_end(
    qm: onceq.QueueManager, collected: Collected
) -> None:
    """As where the coroutine of a commit is closed: nobody knows whether it has happened."""
    tx = qm.transaction()
    tx.send(Q, "1")
    asked = tx._state.commit()
    next(asked)
    asked.close()
    assert [said(span, spans.OUTCOME) for span in collected.spans] == [spans.IN_DOUBT] * 2


def test_an_abort_is_said_by_the_spans_of_its_sends(
    qm: onceq.QueueManager, collected: Collected
) -> None:
    with pytest.raises(ValueError, match="no"), qm.transaction() as tx:
        tx.send(Q, "1")
        raise ValueError("no")
    create, abort = collected.spans
    assert (said(create, spans.OUTCOME), create.status.status_code) == (
        spans.ABORTED, StatusCode.ERROR
    )  # fmt: skip
    assert said(create, spans.ERROR_TYPE) == spans.ABORTED
    assert (abort.name, said(abort, spans.OPERATION_TYPE)) == ("abort", spans.SETTLE)
    assert abort.status.status_code is StatusCode.UNSET


def test_a_refused_send_says_its_code(qm: onceq.QueueManager, collected: Collected) -> None:
    with pytest.raises(QueueNotFound), qm.transaction() as tx:
        tx.send(NOWHERE, "1")
    assert said(collected.one("create"), spans.ERROR_TYPE) == QueueNotFound.code


def test_a_lost_connection_is_said(qm: onceq.QueueManager, collected: Collected) -> None:
    tx = qm.transaction()
    tx.send(Q, "1")
    with pytest.raises(onceq.errors.TransactionLost):
        raise tx._state.lost()
    assert said(collected.one("create"), spans.ERROR_TYPE) == onceq.errors.TransactionLost.code


def test_what_is_received_and_sent_is_settled_together(
    qm: onceq.QueueManager, collected: Collected
) -> None:
    qm.send(Q, "in", transactional=True)
    sent = collected.one("send")
    with qm.transaction() as tx:
        tx.receive(Q, timeout=0)
        tx.send(Q, "out")
    receive, create, commit = (collected.one(name) for name in ("receive", "create", "commit"))
    assert linked(receive) == [id_of(sent)]
    assert linked(commit) == [id_of(sent), id_of(create)]
    assert above(commit) == id_of(receive)
    assert (said(commit, spans.OPERATION_TYPE), said(commit, spans.RECEIVED)) == (spans.SETTLE, 1)


def test_a_transaction_that_did_nothing_has_no_span(
    qm: onceq.QueueManager, collected: Collected
) -> None:
    with qm.transaction() as tx, pytest.raises(onceq.ReceiveTimeout):
        tx.receive(Q, timeout=0)
    assert collected.spans == []


def test_open_spans_are_bounded(
    qm: onceq.QueueManager, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "SPANS_MAX", 3)
    around = trace.NonRecordingSpan(context_of(TEXT))
    with qm.transaction() as tx, trace.use_span(around):
        for number in range(5):
            tx.send(Q, str(number))
    assert len([span for span in collected.spans if span.name.startswith("create")]) == 3
    texts = [message.traceparent for message in qm.receive_many(Q, timeout=0)]
    assert texts[3:] == [TEXT, TEXT]


def test_bodies_may_be_anything_that_can_be_gone_through(
    qm: onceq.QueueManager, collected: Collected
) -> None:
    with qm.transaction() as tx:
        tx.send_many(Q, (str(n) for n in range(3)))
        with pytest.raises(onceq.errors.InvalidParameter):
            tx.send_many(Q, "text")
        with pytest.raises(onceq.errors.InvalidParameter):
            tx.send(Q, 7)  # type: ignore[arg-type]
    assert len(qm.receive_many(Q, timeout=0)) == 3


def test_a_commit_that_is_in_doubt_says_so(qm: onceq.QueueManager, collected: Collected) -> None:
    tx = qm.transaction()
    tx.send(Q, "1")
    tx._state.over = "in doubt"
    assert said(collected.one("create"), spans.OUTCOME) == spans.IN_DOUBT
    commit = collected.one("commit")
    assert said(commit, spans.ERROR_TYPE) == onceq.InDoubt.code
    assert commit.status.status_code is StatusCode.ERROR


# ---- branches ----------------------------------------------------------------------------------

ONE = Xid(7, b"transaction", b"one")


def test_a_branch_that_is_prepared_says_so_and_its_decision_has_its_own_span(
    qm: onceq.QueueManager, collected: Collected
) -> None:
    sent = qm.send(Q, "in", transactional=True)
    with qm.branch(ONE) as work:
        assert work.receive(Q, timeout=0).id == sent
        work.send(Q, "out")
        assert collected.taken() == [rf"send {Q}", rf"receive {Q}"]
        work.prepare()
    create, prepare = collected.spans
    assert (create.name, said(create, spans.OUTCOME)) == (rf"create {Q}", spans.PREPARED)
    assert (prepare.name, said(prepare, spans.OPERATION_TYPE)) == ("prepare", spans.SETTLE)
    assert (said(prepare, spans.SENT), said(prepare, spans.RECEIVED)) == (1, 1)
    assert id_of(create) in linked(prepare)
    assert {create.status.status_code, prepare.status.status_code} == {StatusCode.UNSET}
    qm.xa.commit(ONE)
    commit = collected.one("commit")
    assert (said(commit, spans.OPERATION_TYPE), commit.kind) == (spans.SETTLE, SpanKind.CLIENT)
    assert said(prepare, spans.BRANCH) == said(commit, spans.BRANCH) == str(ONE)
    assert said(commit, spans.OUTCOME) == spans.COMMITTED
    assert f"{id_of(create):016x}" in qm.receive(Q, timeout=0).traceparent


def test_a_branch_that_ends_says_so(qm: onceq.QueueManager, collected: Collected) -> None:
    with qm.branch(ONE) as work:
        work.send(Q, "1")
    assert collected.taken() == [rf"create {Q}", "end"]
    with qm.branch(ONE, join=True) as work:
        work.send(Q, "2")
    assert said(collected.one("create"), spans.OUTCOME) == spans.ENDED
    qm.xa.rollback(ONE)


def test_a_branch_that_commits_itself_ends_once(
    qm: onceq.QueueManager, collected: Collected
) -> None:
    work = qm.branch(ONE)
    work.send(Q, "1")
    work.commit()
    create, commit = collected.spans
    assert [said(span, spans.OUTCOME) for span in (create, commit)] == [spans.COMMITTED] * 2
    assert (commit.name, said(commit, spans.OPERATION_TYPE)) == ("commit", spans.SEND)


def test_a_branch_that_is_rolled_back_says_that_nothing_was_sent(
    qm: onceq.QueueManager, collected: Collected
) -> None:
    with pytest.raises(ValueError, match="no"), qm.branch(ONE) as work:
        work.send(Q, "1")
        raise ValueError("no")
    create, abort = collected.spans
    assert said(create, spans.ERROR_TYPE) == spans.ABORTED
    assert create.status.status_code is StatusCode.ERROR
    assert (abort.name, abort.status.status_code) == ("abort", StatusCode.UNSET)


@pytest.mark.parametrize(
    ("verb", "outcome"), [("commit", spans.COMMITTED), ("abort", spans.ABORTED)]
)
def test_a_branch_that_was_prepared_is_decided_with_a_link_to_its_end(
    qm: onceq.QueueManager, collected: Collected, verb: str, outcome: str
) -> None:
    work = qm.branch(ONE)
    work.send(Q, "1")
    work.prepare()
    getattr(work, verb)()
    prepare, decided = collected.one("prepare"), collected.one(verb)
    assert (linked(decided), said(decided, spans.OUTCOME)) == ([id_of(prepare)], outcome)
    assert (said(decided, spans.BRANCH), said(decided, spans.ERROR_TYPE)) == (str(ONE), None)
    work.abort() if verb == "abort" else None
    assert len(collected.spans) == 3, "what is over is not decided again"


def test_a_decision_that_is_refused_says_what_became_of_the_branch(
    qm: onceq.QueueManager, collected: Collected
) -> None:
    with qm.xa.start(ONE) as work:
        work.send(Q, "1")
    with pytest.raises(BranchState):
        qm.xa.commit(ONE)
    refused = collected.one("commit")
    assert said(refused, spans.ERROR_TYPE) == BranchState.code
    assert (said(refused, spans.OUTCOME), refused.status.status_code) == (None, StatusCode.ERROR)
    qm.xa.prepare(ONE)
    qm.xa.commit(ONE, by_hand=True)
    collected.taken()
    with pytest.raises(CommittedByHand):
        qm.xa.rollback(ONE)
    (rollback,) = collected.spans
    assert said(rollback, spans.ERROR_TYPE) == CommittedByHand.code
    assert said(rollback, spans.OUTCOME) == spans.COMMITTED


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (onceq.InDoubt("the answer was lost"), spans.IN_DOUBT),
        (RolledBack("it cannot be promised"), spans.ABORTED),
        (RolledBackByHand("an operator"), spans.ABORTED),
        (KeyboardInterrupt(), None),
    ],
)
def test_an_error_of_a_verb_says_what_is_known(
    collected: Collected, error: BaseException, outcome: str | None
) -> None:
    with (
        pytest.raises(type(error)),
        collected.tracing.settling("commit", ONE, spans.COMMITTED),
    ):
        raise error
    (span,) = collected.spans
    assert (said(span, spans.OUTCOME), span.status.status_code) == (outcome, StatusCode.ERROR)


def test_a_branch_whose_commit_is_refused_says_what_became_of_it(
    qm: onceq.QueueManager, collected: Collected
) -> None:
    work = qm.branch(ONE)
    work.send(Q, "1")
    work._state.doomed = SendFailed("what it has sent before is refused")
    with pytest.raises(RolledBack):
        work.commit()
    assert qm.queue(Q).messages == 0
    create = collected.one("create")
    assert (said(create, spans.OUTCOME), said(create, spans.ERROR_TYPE)) == (
        spans.ABORTED, SendFailed.code
    )  # fmt: skip
    assert create.status.status_code is StatusCode.ERROR
