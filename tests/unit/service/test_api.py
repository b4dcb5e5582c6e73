"""An application on one connection, against an engine that only notes what it is given."""

from __future__ import annotations

from array import array
from typing import cast

import pytest

from onceq.errors import (
    AccessDenied,
    InsufficientResources,
    OperationCancelled,
    QueueNotFound,
    ReceiveTimeout,
)
from onceq.model import limits, requests
from onceq.model.message import PLAIN
from onceq.model.results import Opened, Sent
from onceq.model.rights import NOBODY, Actor, ActorKind, grant_of
from onceq.model.run import Run
from onceq.model.tokens import Token, digest_of, text_of
from onceq.packet.arrived import Batch
from onceq.service.api import ApiConnection
from onceq.service.engine import Engine
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, FrameCode, written
from tests.proofs import asks, hello
from tests.unit.service.talk import FakeEngine, FakeTransport, Talk

AT_ONCE = limits.CLIENT_ANSWERS_BYTES_MAX // limits.PACKET_BYTES_MAX
"""Receives of one application that one pump may answer."""


def test_a_hello_is_answered_with_who_is_there() -> None:
    talk = Talk(greet=False)
    assert not talk.api.greeted
    talk.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION))
    ((request, code, head),) = talk.transport.sent
    assert (request, code) == (1, FrameCode.HELLO | ANSWER)
    known = [limits.CLIENT_FRAME_BYTES_MAX, 77]
    assert head == [frames.VERSION, "ALPHA", bytes(range(16)), 50, *known]
    assert talk.api.greeted


@pytest.mark.parametrize("version", [0, 1, 3, 1 << 40])
def test_another_version_is_named(version: int) -> None:
    talk = Talk(greet=False)
    talk.frame(1, FrameCode.HELLO, frames.Hello(version))
    assert talk.refused() == "unknown-version"
    text = talk.transport.sent[-1][2][1]
    assert f"speaks version {version} of" in text
    assert f"manager {frames.VERSION};" in text


SECRET = bytes(range(32))
SHOWN = text_of("billing", SECRET)
WRONG = [
    "", "x", text_of("billing", bytes(32)), text_of("other", SECRET), SHOWN + "0", SHOWN.upper(),
    "\0" * 5_000,
]  # fmt: skip


def with_token(talk: Talk, expires_s: int = 0) -> Talk:
    salt = b"s" * 16
    talk.engine.state.tokens.put(
        Token("billing", salt, digest_of(salt, SECRET), made_s=40, expires_s=expires_s)
    )
    return talk


def shows(talk: Talk, text: str, bound: bytes = b"") -> None:
    """Says which token it has, and proves it to whoever has answered."""
    talk.frame(1, FrameCode.PROVE, asks(text))
    (_, code, head) = talk.transport.sent.pop()
    assert code == FrameCode.PROVE | ANSWER
    talk.frame(2, FrameCode.HELLO, hello(text, frames.ProofAnswer(*head), bound))


def test_whoever_shows_a_token_is_known_by_its_name() -> None:
    talk = with_token(Talk(greet=False, actor=NOBODY), expires_s=51)
    shows(talk, SHOWN)
    assert talk.api.greeted
    assert not talk.transport.closed
    ((_, code, _),) = talk.transport.sent
    assert code == FrameCode.HELLO | ANSWER
    (came,) = talk.engine.items
    assert (came.owner, came.actor) == (5, Actor(ActorKind.TOKEN, "billing"))
    assert came.proof == digest_of(b"s" * 16, SECRET)


@pytest.mark.parametrize("shown", WRONG, ids=range(len(WRONG)))
def test_a_wrong_token_and_none_are_refused_in_the_same_words(shown: str) -> None:
    said = []
    for expires_s, text in ((0, shown), (50, SHOWN), (0, "")):
        talk = with_token(Talk(greet=False, actor=NOBODY), expires_s=expires_s)
        if text:
            shows(talk, text)
        else:
            talk.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION))
        assert talk.refused() == "access-denied"
        assert not talk.api.greeted
        assert not talk.engine.items
        said.append(talk.transport.sent)
        assert SHOWN not in repr(talk.engine.logged), "it would stand in a log"
        assert len(talk.engine.logged) == bool(text)
    assert said[0] == said[1] == said[2]


def test_a_token_that_others_could_read_on_its_way_is_refused() -> None:
    talk = with_token(Talk(greet=False, actor=NOBODY, private=False))
    shows(talk, SHOWN)
    assert talk.refused() == "access-denied"
    ((what, values),) = talk.engine.logged
    assert (what, values["address"]) == ("wrong token", "10.1.1.1")


def test_a_token_that_is_said_is_not_looked_at() -> None:
    """As clients of versions before this one do; a proof without a question is none either."""
    for said in (SHOWN, "00" * 32):
        talk = with_token(Talk(greet=False, actor=Actor(ActorKind.ACCOUNT, "me", free=True)))
        talk.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION, "x", said))
        assert talk.refused() == "unknown-version"
        assert not talk.engine.items


def test_a_token_is_proven_once_and_before_the_hello() -> None:
    twice = with_token(Talk(greet=False))
    for _ in range(2):
        twice.frame(1, FrameCode.PROVE, asks(SHOWN))
    assert twice.refused() == "malformed-packet"
    late = Talk()
    late.frame(2, FrameCode.PROVE, asks(SHOWN))
    assert late.refused() == "malformed-packet"


def test_a_proof_of_another_connection_is_none() -> None:
    """Whoever listens in place of the queue manager, and passes on what is said, is refused."""
    talk = with_token(Talk(greet=False, bound=b"here"))
    shows(talk, SHOWN, b"there")
    assert talk.refused() == "access-denied"
    good = with_token(Talk(greet=False, bound=b"here"))
    shows(good, SHOWN, b"here")
    assert good.api.greeted


def test_who_asks_and_goes_counts_as_a_wrong_token() -> None:
    """It has found that this is not the queue manager that it has its token of, or guesses."""
    talk = with_token(Talk(greet=False, actor=NOBODY))
    talk.frame(1, FrameCode.PROVE, asks(SHOWN))
    assert not talk.engine.logged
    talk.api.connection_lost()
    talk.api.connection_lost()
    ((what, _),) = talk.engine.logged
    assert what == "wrong token"


def test_whoever_has_an_account_and_shows_a_wrong_token_is_refused() -> None:
    talk = with_token(Talk(greet=False, actor=Actor(ActorKind.ACCOUNT, "me", free=True)))
    shows(talk, SHOWN[:-1])
    assert talk.refused() == "access-denied"


def test_strangers_hear_nothing_where_nothing_is_granted_to_them() -> None:
    talk = Talk(greet=False, actor=NOBODY)
    talk.engine.state.policy.grant(grant_of("*", ["send"], "*"))
    talk.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION))
    assert talk.refused() == "access-denied"
    other = Talk(greet=False, actor=NOBODY)
    other.engine.state.policy.grant(grant_of("nobody", ["send"], "*"))
    other.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION))
    assert other.api.greeted


def test_a_connection_is_ended_with_the_reason_when_the_core_says_so() -> None:
    talk = Talk()
    talk.engine.answer(0, AccessDenied("access denied: the token 'billing' was revoked"))
    assert talk.refused() == "access-denied"
    talk.engine.answer(0, AccessDenied("again"))
    assert len(talk.transport.sent) == 1


def test_nothing_comes_before_the_hello_and_it_comes_once() -> None:
    early = Talk(greet=False)
    early.ask(1, requests.Look("status"))
    assert early.refused() == "malformed-packet"
    assert not early.engine.items
    twice = Talk()
    twice.frame(2, FrameCode.HELLO, frames.Hello(frames.VERSION))
    assert twice.refused() == "malformed-packet"


def test_answers_find_their_requests_in_any_order() -> None:
    talk = Talk()
    talk.ask(3, requests.PurgeQueue("q"))
    talk.ask(4, requests.Send(0, []))
    talk.ask(5, requests.OpenQueue("q", requests.Access.RECEIVE))
    talk.ask(2, requests.Look("status"))
    assert [type(item).__name__ for item in talk.engine.items] == [
        "PurgeQueue", "Send", "OpenQueue", "Look"]  # fmt: skip
    talk.engine.answer(3, 17)
    talk.engine.answer(2, QueueNotFound("none"))
    talk.engine.answer(5, Opened(4, True, None, places=(7, 9)))
    talk.engine.answer(4, Sent(8, 2, 0))
    assert talk.transport.sent == [
        (3, requests.PurgeQueue.code | ANSWER, 17),
        (2, requests.Look.code | FAILED, ["queue-not-found", "none"]),
        (5, requests.OpenQueue.code | ANSWER, [4, True, None, 0, [7, 9]]),
        (4, requests.Send.code | ANSWER, [8, 2, 0]),
    ]


def test_messages_are_handed_out_with_their_tables() -> None:
    talk = Talk()
    talk.receive(2)
    run = Run.of([b"one", b"three"])
    numbers = array("I", [7, 8])
    talk.engine.answer(2, Batch(run, array("Q", [1, 2]), numbers, array("I", [0, 3])))
    ((_, code, head),) = talk.transport.sent
    assert code == requests.Receive.code | ANSWER
    assert head == [2, array("Q", [1, 2]).tobytes(), numbers.tobytes(),
                    array("I", [0, 3]).tobytes(), [], 0, [], []]  # fmt: skip


def test_a_wrong_request_is_answered_and_the_connection_goes_on() -> None:
    talk = Talk()
    talk.ask(2, requests.OpenQueue("q", 99))  # type: ignore[arg-type]
    ((request, code, (error, _)),) = talk.transport.sent
    assert (request, code, error) == (2, requests.OpenQueue.code | FAILED, "invalid-parameter")
    talk.ask(2, requests.Look("status"))
    assert len(talk.engine.items) == 1
    assert not talk.transport.closed


def test_a_number_in_use_or_zero_ends_the_connection() -> None:
    talk = Talk()
    talk.ask(2, requests.PurgeQueue("q"))
    talk.ask(2, requests.Look("status"))
    assert talk.refused() == "malformed-packet"
    assert len(talk.engine.items) == 1
    zero = Talk()
    zero.receive(0)
    assert zero.refused() == "malformed-packet"
    assert not zero.engine.items


def test_number_zero_asks_for_no_answer() -> None:
    talk = Talk()
    for code in (
        requests.Begin.code,
        requests.Abort.code,
        requests.CloseQueue.code,
        requests.CancelReceive.code,
    ):
        talk.frame(0, code, [1])
    talk.ask(0, requests.DecisionDone(b"g"))
    assert [item.request for item in talk.engine.items] == [0, 0, 0, 0, 0]
    assert not talk.transport.sent


def test_data_where_none_belongs_ends_the_connection() -> None:
    talk = Talk()
    talk.frame(2, requests.Abort.code, [1], b"data")
    assert talk.refused() == "malformed-packet"
    assert not talk.engine.items


def test_nothing_of_a_malformed_frame_happens_and_nothing_after_it() -> None:
    talk = Talk()
    talk.frame(2, requests.Send.code, [0, [["q", {}, 0, 2]]], b"\x01\0\0\0\x09\0\0\0a")
    assert talk.refused() == "malformed-packet"
    talk.ask(3, requests.Look("status"))
    assert not talk.engine.items


def test_answers_to_an_application_that_is_gone_are_dropped() -> None:
    talk = Talk()
    talk.ask(2, requests.Look("status"))
    talk.api.connection_lost()
    talk.api.connection_lost()
    assert talk.engine.gone == [5]
    talk.engine.answer(2, 1)
    assert not talk.transport.sent


# ---- back-pressure -----------------------------------------------------------------------


def test_many_unanswered_requests_stop_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLIENT_UNANSWERED_MAX", 3)
    talk = Talk()
    for request in range(2, 6):
        assert not talk.full()
        talk.ask(request, requests.PurgeQueue("q"))
    assert talk.full()
    talk.engine.answer(4, 0)
    assert not talk.full()
    assert talk.transport.changes == 2


def test_many_unanswered_bytes_stop_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLIENT_UNANSWERED_BYTES_MAX", 1_000)
    talk = Talk()
    item = requests.SendItem("q", PLAIN, Run.of([bytes(900)]))
    talk.ask(2, requests.Send(0, [item]))
    assert not talk.full()
    talk.ask(3, requests.Send(0, [item]))
    assert talk.full()
    talk.engine.answer(2, Sent())
    assert not talk.full()


def test_receives_that_wait_do_not_stop_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may wait for what a later request of the same application sends."""
    monkeypatch.setattr(limits, "CLIENT_UNANSWERED_MAX", 3)
    talk = Talk()
    for request in range(2, 12):
        talk.receive(request)
        end_of_pump(talk)
    assert not talk.full()


def test_an_application_that_does_not_read_is_not_read() -> None:
    talk = Talk()
    talk.api.pause_writing()
    assert talk.full()
    talk.api.resume_writing()
    assert not talk.full()


def test_a_receive_asks_for_no_more_than_the_limit() -> None:
    talk = Talk()
    talk.receive(2, bytes_max=1 << 60)
    assert talk.engine.items[0].bytes_max == limits.RECEIVE_BYTES_MAX


def test_too_many_receives_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLIENT_RECEIVES_MAX", 2)
    talk = Talk()
    for request in (2, 3, 4):
        talk.receive(request)
    ((request, code, (error, _)),) = talk.transport.sent
    assert (request, code, error) == (4, requests.Receive.code | FAILED, "quota-exceeded")
    talk.engine.answer(2, ReceiveTimeout())
    talk.receive(5)
    assert len(talk.engine.items) == 3


def test_one_pump_answers_a_few_receives_and_the_rest_comes_after() -> None:
    """A chunk of a thousand peeks must not fetch a thousand answers into memory at once."""
    talk = Talk()
    head = requests.Receive("q", 0, 1, 1, 0, True, 0, 0, 0)
    count = 3 * AT_ONCE
    chunk = b"".join(b"".join(written(n, head)) for n in range(2, 2 + count)) + b"".join(
        written(2 + count, requests.Look("status"))
    )
    talk.api.data_received(chunk)
    turns = []
    while talk.full():
        taken, talk.engine.items = talk.engine.items, []
        turns.append(len(taken))
        talk.engine.answers.begin()
        for item in taken:
            talk.engine.answer(item.request, ReceiveTimeout())
        talk.engine.answers.end()
    assert turns == [AT_ONCE] * 2
    kinds = [type(item).__name__ for item in talk.engine.items]
    assert kinds == ["Receive"] * AT_ONCE + ["Look"]
    assert len(talk.transport.sent) == count - AT_ONCE


def test_nothing_is_taken_on_while_the_application_does_not_read() -> None:
    talk = Talk()
    talk.api.pause_writing()
    talk.ask(2, requests.Look("status"))
    assert not talk.engine.items
    talk.api.resume_writing()
    assert len(talk.engine.items) == 1


def test_what_was_not_taken_on_dies_with_its_connection() -> None:
    talk = Talk()
    talk.api.pause_writing()
    talk.ask(2, requests.Send(0, []))
    talk.api.connection_lost()
    talk.api.resume_writing()
    assert not talk.engine.items


def test_an_answer_larger_than_a_frame_becomes_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "CLIENT_FRAME_BYTES_MAX", 100)
    talk = Talk()
    talk.ask(2, requests.Look("queues"))
    talk.engine.answer(2, ["x" * 200])
    ((_, code, (error, text)),) = talk.transport.sent
    assert (code, error) == (requests.Look.code | FAILED, "quota-exceeded")
    assert "bytes" in text


def test_long_texts_of_errors_are_cut() -> None:
    talk = Talk()
    talk.ask(2, requests.Look("queues"))
    talk.engine.answer(2, QueueNotFound("x" * 1_000_000))
    assert len(talk.transport.sent[0][2][1]) == frames.TEXT_CHARS_MAX


def test_stopping_ends_the_receives_that_wait() -> None:
    talk = Talk()
    talk.receive(2)
    talk.ask(3, requests.Look("queues"))
    talk.api.stop()
    assert talk.engine.items[-1] == requests.CancelReceive(2, owner=5, request=0)
    assert len(talk.engine.items) == 3


# ---- receives that wait, and an application that does not read --------------------------------


def peek(talk: Talk, request: int, wait_ms: int = -1) -> None:
    head = requests.Receive("q", 0, 1, limits.RECEIVE_BYTES_MAX, wait_ms, True, 0, 0, 0)
    talk.ask(request, head)


def asked_for(talk: Talk) -> list[requests.Receive]:
    return [item for item in talk.engine.items if isinstance(item, requests.Receive)]


def end_of_pump(talk: Talk) -> None:
    talk.engine.turn()


def test_one_message_for_all_peeks_that_wait_is_copied_a_bounded_number_of_times() -> None:
    talk = Talk()
    for request in range(2, 2 + 2 * limits.CLIENT_PEEKS_MAX):
        peek(talk, request)
        end_of_pump(talk)
    waiting = asked_for(talk)
    assert len(waiting) == limits.CLIENT_PEEKS_MAX
    assert all(item.bytes_max <= limits.PACKET_BYTES_MAX for item in waiting)
    refused = [sent for sent in talk.transport.sent if sent[1] & FAILED]
    assert len(refused) == limits.CLIENT_PEEKS_MAX
    assert {head[0] for _, _, head in refused} == {InsufficientResources.code}
    end_of_pump(talk)
    peek(talk, 1_000, wait_ms=0)
    talk.receive(1_001)
    end_of_pump(talk)
    assert len(asked_for(talk)) == limits.CLIENT_PEEKS_MAX + 2, "what does not wait is not meant"
    talk.engine.answer(2, ReceiveTimeout("none"))
    peek(talk, 1_002)
    assert len(asked_for(talk)) == limits.CLIENT_PEEKS_MAX + 3


def test_what_waits_for_one_that_does_not_read_begins_anew_when_it_reads() -> None:
    talk = Talk()
    talk.receive(2)
    talk.receive(3)
    talk.receive(4, wait_ms=0)
    first = asked_for(talk)
    talk.engine.items.clear()
    talk.api.pause_writing()
    assert talk.engine.items == [
        requests.CancelReceive(2, owner=5),
        requests.CancelReceive(3, owner=5),
    ]
    talk.api.pause_writing()
    assert len(talk.engine.items) == 2
    talk.engine.items.clear()
    talk.engine.answer(2, OperationCancelled("the receive was cancelled"))
    tables = array("Q", [1]), array("I", [1]), array("I", [0])
    talk.engine.answer(3, Batch(Run.of([b"meanwhile"]), *tables))
    talk.engine.answer(4, ReceiveTimeout("none"))
    assert [(request, code) for request, code, _ in talk.transport.sent] == [
        (3, requests.Receive.code | ANSWER), (4, requests.Receive.code | FAILED)]  # fmt: skip
    talk.api.resume_writing()
    assert talk.engine.items == first[:1]
    talk.engine.answer(2, OperationCancelled("somebody meant it"))
    assert talk.transport.sent[-1][:2] == (2, requests.Receive.code | FAILED)


def test_reading_again_before_the_wait_was_ended() -> None:
    talk = Talk()
    talk.receive(2)
    (first,) = asked_for(talk)
    talk.api.pause_writing()
    talk.api.resume_writing()
    talk.engine.items.clear()
    talk.engine.answer(2, OperationCancelled("the receive was cancelled"))
    assert talk.engine.items == [first]
    assert not talk.transport.sent


def test_an_orderly_stop_while_an_application_does_not_read() -> None:
    talk = Talk()
    talk.receive(2)
    talk.receive(3)
    talk.api.pause_writing()
    talk.engine.answer(2, OperationCancelled("the receive was cancelled"))
    talk.api.stop()
    talk.engine.answer(3, OperationCancelled("the receive was cancelled"))
    assert sorted(sent[0] for sent in talk.transport.sent) == [2, 3]
    assert {sent[1] for sent in talk.transport.sent} == {requests.Receive.code | FAILED}


def test_a_hold_for_a_backup_is_for_applications_on_this_computer() -> None:
    here = Talk()
    here.ask(2, requests.HoldLog(requests.Grip.BEGIN))
    assert [type(item).__name__ for item in here.engine.items] == ["HoldLog"]
    far = Talk()
    far.api = ApiConnection(
        cast(Engine, far.engine), far.transport, random=lambda size: bytes(size), local=False
    )
    far.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION))
    far.ask(2, requests.HoldLog(requests.Grip.BEGIN))
    request, code, failure = far.transport.sent[-1]
    assert (request, code) == (2, requests.HoldLog.code | FAILED)
    assert failure[0] == "unsupported-operation"
    assert far.engine.items == []
    assert not far.transport.closed


@pytest.mark.parametrize(
    ("address", "process", "where"),
    [
        ("", 4711, "local, process 4711"), ("", 0, "local"), ("127.0.0.1", 0, "127.0.0.1"),
        ("10.1.2.3", 0, "10.1.2.3"),
    ],
)  # fmt: skip
def test_where_an_application_is_says_its_process_if_that_is_known(
    address: str, process: int, where: str
) -> None:
    engine = FakeEngine()
    ApiConnection(
        cast(Engine, engine), FakeTransport(), random=bytes, address=address, process=process
    )
    assert engine.where == where


def test_a_program_may_say_for_whom_it_works() -> None:
    actor = Actor(ActorKind.ACCOUNT, "alice")
    talk = Talk(greet=False, actor=actor)
    talk.frame(1, FrameCode.HELLO, frames.Hello(frames.VERSION, "x", "", "anna, process 1"))
    (came,) = talk.engine.items
    assert (came.owner, came.actor, came.where) == (5, actor, "10.1.1.1 for anna_ process 1")


def test_a_program_with_a_token_may_say_for_whom_it_works() -> None:
    talk = with_token(Talk(greet=False, actor=NOBODY), expires_s=51)
    talk.frame(1, FrameCode.PROVE, asks(SHOWN))
    (_, _, head) = talk.transport.sent.pop()
    said = hello(SHOWN, frames.ProofAnswer(*head), b"")
    said.person = "anna"
    talk.frame(2, FrameCode.HELLO, said)
    (came,) = talk.engine.items
    assert (str(came.actor), came.where) == ("token:billing", "10.1.1.1 for anna")


def test_what_is_no_verb_of_a_hold_is_refused() -> None:
    talk = Talk()
    talk.ask(2, requests.HoldLog("seize"))  # type: ignore[arg-type]
    ((_, _, failure),) = talk.transport.sent
    assert failure[0] == "invalid-parameter"
    assert talk.engine.items == []
