"""Queue managers with spans, for threads and for tasks: the same spans of the same calls."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind

import onceq
from onceq import aio, otel
from onceq.errors import InvalidParameter, NotCarriedOut, QueueNotFound
from onceq.model.branches import Vote, Xid
from onceq.otel import spans
from tests.unit.otel.collected import PLAIN, Collected, Q, above, id_of, linked, said

Work = Callable[[Any, Collected], Any]


@pytest.fixture(params=["threads", "tasks"])
def face(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Work], None]:
    """Carries out work with a queue manager of either face, as one for tasks."""

    async def carry_out(work: Work) -> None:
        collected, path = Collected(), str(tmp_path / "a")
        if request.param == "threads":
            with onceq.open(path, name="ALPHA", create=True) as qm:
                qm.create_queue(Q, transactional=True)
                qm.create_queue(PLAIN)
                await work(_Awaited(otel.instrument(qm, tracer_provider=collected.provider)),
                           collected)  # fmt: skip
        else:
            async with await aio.open(path, name="ALPHA", create=True) as qm_:
                await qm_.create_queue(Q, transactional=True)
                await qm_.create_queue(PLAIN)
                await work(otel.instrument(qm_, tracer_provider=collected.provider), collected)

    return lambda work: asyncio.run(carry_out(work))


class _Awaited:
    """A face for threads as one for tasks."""

    def __init__(self, face: Any) -> None:
        self._face = face

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._face, name)
        if not callable(found):
            return found

        async def call(*args: Any, **options: Any) -> Any:
            return found(*args, **options)

        return call


def test_a_receive_has_a_link_to_its_send(face: Callable[[Work], None]) -> None:
    async def work(qm: Any, collected: Collected) -> None:
        id = await qm.send(Q, "1", transactional=True)
        message = await qm.receive(Q, timeout=0)
        send, receive = collected.spans
        assert (send.name, send.kind) == (rf"send {Q}", SpanKind.PRODUCER)
        assert said(send, spans.MESSAGE_ID) == said(receive, spans.MESSAGE_ID) == str(id)
        assert linked(receive) == [id_of(send)]
        assert f"{id_of(send):016x}" in message.traceparent

    face(work)


def test_work_in_a_branch_has_spans(face: Callable[[Work], None]) -> None:
    async def work(qm: Any, collected: Collected) -> None:
        one = Xid(7, b"transaction", b"one")
        branch = await qm.branch(one)
        for done in (branch.send(Q, "1"), branch.prepare()):
            if inspect.isawaitable(done):
                await done
        assert collected.taken() == [rf"create {Q}", "prepare"]
        assert otel.uninstrument(qm._face if isinstance(qm, _Awaited) else qm) is not None
        for done in ((await qm.branch(Xid(7, b"other", b"one"))).send(Q, "2"),):
            if inspect.isawaitable(done):
                await done
        assert collected.spans == []

    face(work)


def test_the_verbs_of_a_coordinator_have_spans(face: Callable[[Work], None]) -> None:
    async def work(qm: Any, collected: Collected) -> None:
        async def done(result: Any) -> Any:
            return await result if inspect.isawaitable(result) else result

        one, two = (Xid(7, b"transaction", name) for name in (b"one", b"two"))
        id = await qm.send(Q, "in", transactional=True)
        branch = await done(qm.xa.start(one))
        assert (await done(branch.receive(Q, timeout=0))).id == id
        await done(branch.send(Q, "out"))
        await done(branch.end())
        sent, receive, create, end = collected.spans
        assert linked(receive) == [id_of(sent)]
        assert linked(end) == [id_of(sent), id_of(create)]
        assert (said(end, spans.BRANCH), said(end, spans.OUTCOME)) == (str(one), spans.ENDED)
        collected.taken()
        branch = await done(qm.xa.start(two))
        await done(branch.end())
        assert [await done(qm.xa.prepare(xid)) for xid in (one, two)] == [
            Vote.PREPARED, Vote.READ_ONLY
        ]  # fmt: skip
        assert await done(qm.xa.recover()) == [one]
        await done(qm.xa.commit(xid=one))
        branch = await done(qm.xa.start(two))
        await done(branch.end())
        await done(qm.xa.rollback(two))
        assert [
            (span.name, said(span, spans.OUTCOME), said(span, spans.BRANCH))
            for span in collected.spans
        ] == [
            ("prepare", spans.PREPARED, str(one)),
            ("prepare", spans.PREPARED, str(two)),
            ("commit", spans.COMMITTED, str(one)),
            ("rollback", spans.ABORTED, str(two)),
        ]
        assert {said(span, spans.OPERATION_TYPE) for span in collected.spans} == {spans.SETTLE}
        assert {span.kind for span in collected.spans} == {SpanKind.CLIENT}

    face(work)


def test_a_batch_is_one_span(face: Callable[[Work], None]) -> None:
    async def work(qm: Any, collected: Collected) -> None:
        await qm.send_many(Q, ["1", "2"], transactional=True)
        await qm.send(Q, "3", transactional=True)
        await qm.receive_many(Q, timeout=0)
        many, one, receive = collected.spans
        assert (said(many, spans.COUNT), said(receive, spans.COUNT)) == (2, 3)
        assert linked(receive) == [id_of(many), id_of(one)]

    face(work)


def test_what_is_refused_has_a_span_with_the_reason(face: Callable[[Work], None]) -> None:
    async def work(qm: Any, collected: Collected) -> None:
        with pytest.raises(QueueNotFound):
            await qm.send(r"private$\no", "1", transactional=True)
        with pytest.raises(QueueNotFound):
            await qm.receive(r"private$\no", timeout=0)
        with pytest.raises(onceq.ReceiveTimeout):
            await qm.receive(Q, timeout=0)
        send, receive = collected.spans
        assert said(send, spans.ERROR_TYPE) == said(receive, spans.ERROR_TYPE) == "queue-not-found"

    face(work)


def test_a_reply_has_a_link_to_its_request(face: Callable[[Work], None]) -> None:
    async def work(qm: Any, collected: Collected) -> None:
        await qm.send(Q, "?", transactional=True, response_queue=rf"DIRECT=OS:.\{PLAIN}")
        request = await qm.receive(Q, timeout=0)
        await qm.reply(request, "!", transactional=False)
        await qm.receive(PLAIN, timeout=0)
        sent, _, reply, got = collected.spans
        assert (linked(reply), linked(got)) == ([id_of(sent)], [id_of(reply)])
        assert said(got, spans.CONVERSATION) == request.id.pack().hex()

    face(work)


def test_an_open_queue_has_spans_too(face: Callable[[Work], None]) -> None:
    async def work(qm: Any, collected: Collected) -> None:
        sender = await qm.open_queue(PLAIN, access="send")
        reader = await qm.open_queue(PLAIN)
        done = sender.send("1")
        await done if asyncio.iscoroutine(done) else None
        got = reader.receive(timeout=0)
        got = await got if asyncio.iscoroutine(got) else got
        send, receive = collected.spans
        assert (send.name, receive.name) == (f"send {PLAIN}", f"receive {PLAIN}")
        assert linked(receive) == [id_of(send)]
        assert got.text == "1"

    face(work)


@pytest.mark.parametrize("decorated", [False, True])
def test_a_handler_is_in_the_span_of_its_message(
    face: Callable[[Work], None], decorated: bool
) -> None:
    async def work(qm: Any, collected: Collected) -> None:
        await qm.send(Q, "in", transactional=True)
        threads = isinstance(qm, _Awaited)

        def handle(tx: Any, message: Any) -> None:
            if message.text == "in":
                tx.send(Q, "out")

        async def handle_async(tx: Any, message: Any) -> None:
            if message.text == "in":
                await tx.send(Q, "out")

        handler: Any = handle if threads else handle_async
        stop: Any = None if threads else asyncio.Event()
        if decorated:
            made = qm.consumer(Q)
            decorate = await made if asyncio.iscoroutine(made) else made
            assert decorate(handler) is handler
            assert await qm.serve(timeout=0.0, stop=stop) == 2
        else:
            assert await qm.consume(Q, handler, timeout=0.0, stop=stop) == 2
        send, receive, process, create, commit, *rest = collected.spans
        assert (process.kind, linked(process)) == (SpanKind.CONSUMER, [id_of(send)])
        assert above(process) == above(commit) == id_of(receive)
        assert above(create) == id_of(process)
        assert [span.name.split()[0] for span in rest] == ["receive", "process", "commit"]
        assert linked(rest[1]) == [id_of(create)]

    face(work)


def test_a_handler_that_fails_says_so(tmp_path: Path) -> None:
    collected = Collected()

    def handle(tx: onceq.Transaction, message: onceq.Message) -> None:
        raise ValueError("no")

    with onceq.open(str(tmp_path / "a"), name="ALPHA", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        otel.instrument(qm, tracer_provider=collected.provider)
        qm.send(Q, "1", transactional=True)
        with pytest.raises(ValueError, match="no"):
            qm.consume(Q, handle, timeout=0)
    assert said(collected.one("process"), spans.ERROR_TYPE) == "ValueError"
    assert said(collected.one("abort"), spans.OUTCOME) == spans.ABORTED


def test_the_body_of_a_loop_has_a_span_by_hand(tmp_path: Path) -> None:
    collected = Collected()
    with onceq.open(str(tmp_path / "a"), name="ALPHA", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        otel.instrument(qm, tracer_provider=collected.provider)
        qm.send(Q, "1", transactional=True)
        for message in qm.messages(Q):
            with otel.process(message, queue=Q, tracer_provider=collected.provider):
                pass
    assert linked(collected.one("process")) == [id_of(collected.one("send"))]


def test_it_is_taken_back_and_twice_is_once(tmp_path: Path) -> None:
    collected = Collected()
    with onceq.open(str(tmp_path / "a"), name="ALPHA", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        before = dict(vars(qm))
        for _ in range(2):
            assert otel.instrument(qm, tracer_provider=collected.provider) is qm
        qm.send(Q, "1", transactional=True)
        assert len(collected.spans) == 1
        for _ in range(2):
            assert otel.uninstrument(qm) is qm
        assert vars(qm).keys() == before.keys()
        qm.send(Q, "2", transactional=True)
        assert len(collected.spans) == 1


def test_what_is_no_queue_manager_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="a queue manager is instrumented"):
        otel.instrument("qm")  # type: ignore[type-var]
    with (
        onceq.open(str(tmp_path / "a"), name="ALPHA", create=True) as qm,
        pytest.raises(InvalidParameter, match="parent is"),
    ):
        otel.instrument(qm, parent="child")  # type: ignore[arg-type]


def test_without_a_provider_a_trace_goes_along_and_nothing_breaks(tmp_path: Path) -> None:
    with onceq.open(str(tmp_path / "a"), name="ALPHA", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        otel.instrument(qm)
        with qm.transaction() as tx:
            tx.send(Q, "1")
        assert qm.receive(Q, timeout=0).traceparent == ""


PROGRAM = """
import sys
sys.modules["opentelemetry"] = None
import onceq, onceq.aio, onceq.cli.main, onceq.service.main
try:
    import onceq.otel
except ImportError as error:
    print(error)
"""


def test_it_is_not_needed_and_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert 'pip install "onceq[otel]"' in done.stdout


class Careful:
    """A handler that is an object, and gives something to be awaited."""

    def __init__(self) -> None:
        self.inside = 0

    def __call__(self, tx: onceq.aio.AsyncTransaction, message: onceq.Message) -> Any:
        return self._work()

    async def _work(self) -> None:
        await asyncio.sleep(0)
        self.inside = trace.get_current_span().get_span_context().span_id


def test_a_handler_that_gives_something_to_await_is_in_its_span_all_the_time(
    tmp_path: Path,
) -> None:
    collected, handler = Collected(), Careful()

    async def work() -> None:
        async with await aio.open(str(tmp_path / "a"), name="ALPHA", create=True) as qm:
            await qm.create_queue(Q, transactional=True)
            otel.instrument(qm, tracer_provider=collected.provider)
            await qm.send(Q, "1", transactional=True)
            assert await qm.consume(Q, handler, timeout=0, stop=asyncio.Event()) == 1

    asyncio.run(work())
    assert handler.inside == id_of(collected.one("process"))


def test_an_async_handler_is_refused_for_threads_as_without_spans(tmp_path: Path) -> None:
    async def handle(tx: onceq.Transaction, message: onceq.Message) -> None:
        raise AssertionError

    with onceq.open(str(tmp_path / "a"), name="ALPHA", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        otel.instrument(qm)
        qm.send(Q, "1", transactional=True)
        with pytest.raises(NotCarriedOut, match="is an async function"):
            qm.consume(Q, handle, timeout=0)  # type: ignore[arg-type]
        assert qm.receive(Q, timeout=0).text == "1"
