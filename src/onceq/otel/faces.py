"""What puts spans in front of the methods of a queue manager, for threads and for tasks.

They stand on the one object, as attributes of it, and call what its class has. Transactions that it
makes from then on, its consumers and the queues that it opens have spans, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from typing import Any, Final, TypeVar

from opentelemetry.trace import Span, SpanKind, TracerProvider

from onceq.client.handlers import awaiting, check_handler
from onceq.client.link import Session
from onceq.client.plans.branches import started
from onceq.client.plans.plan import Plan
from onceq.client.plans.unit_of_work import Unit
from onceq.client.properties import NOTHING
from onceq.client.tasks import running as in_tasks
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.client.tasks.transaction import AsyncBranch, AsyncTransaction
from onceq.client.threads import running as in_threads
from onceq.client.threads.manager import QueueManager
from onceq.client.threads.transaction import Branch, Transaction
from onceq.errors import InvalidParameter, ReceiveTimeout
from onceq.model.branches import Xid
from onceq.model.identity import MessageId
from onceq.model.message import Message
from onceq.otel import spans
from onceq.otel.spans import (
    Messages,
    Parent,
    TracedBranch,
    TracedUnit,
    Tracing,
    current,
    links_to,
    now_ns,
    with_trace,
)
from onceq.packet.arrived import Batch

Method = Callable[..., Any]
Manager = TypeVar("Manager", QueueManager, AsyncQueueManager)
SENDS: Final = ("send", "send_many", "send_tracked", "request", "reply")
RECEIVES: Final = ("receive", "receive_many")
SETTLES: Final = {
    "prepare": spans.PREPARED, "commit": spans.COMMITTED, "rollback": spans.ABORTED
}  # fmt: skip
"""The verbs of XA that have spans, with what becomes of their branch."""
_TRACING: Final = "_onceq_otel"
_PARENTS: Final = ("link", "message")


def instrument(
    qm: Manager, *, tracer_provider: TracerProvider | None = None, parent: Parent = "link"
) -> Manager:
    """Let what is done with a queue manager have spans, and messages bring their traces.

    Args:
        qm: Of either face, embedded or connected. Once is enough; a second time changes nothing.
        tracer_provider: Where spans go; None: to the global one.
        parent: What the span of a handler is below. "link": what is around it; it has a link to
            where the message was sent. "message": where its message was sent, so that both are in
            one trace; a batch of several has links all the same.

    Returns:
        The same object.

    Raises:
        InvalidParameter: It is no queue manager, or ``parent`` is something else.
    """
    if not isinstance(qm, (QueueManager, AsyncQueueManager)):
        raise InvalidParameter(f"a queue manager is instrumented, not {qm!r}")
    if parent not in _PARENTS:
        raise InvalidParameter(f'parent is "link" or "message", not {parent!r}')
    if _TRACING in vars(qm):
        return qm
    tracing = Tracing(tracer_provider, qm.name, parent)
    mine: dict[str, Method] = {}
    for name in SENDS:
        mine[name] = _sending(tracing, name, getattr(qm, name))
    for name in RECEIVES:
        mine[name] = _receiving(tracing, getattr(qm, name))
    made = Transaction if isinstance(qm, QueueManager) else AsyncTransaction

    def transaction() -> Any:
        return made(qm, TracedUnit(tracing, qm._state))

    def traced_branch(
        session: Session, xid: Xid, *, join: bool = False, resume: bool = False
    ) -> Plan[TracedBranch]:
        return started(TracedBranch(tracing, session, xid), join=join, resume=resume)

    begin: Method = (
        in_threads.opening(traced_branch, Branch)
        if isinstance(qm, QueueManager)
        else in_tasks.opening(traced_branch, AsyncBranch)
    )
    tasks, consume = isinstance(qm, AsyncQueueManager), qm.consume
    handled = partial(_handling, tracing, tasks=tasks)

    def traced_consume(queue: str, handler: Method, **options: Any) -> Any:
        check_handler(handler, _given(options), tasks=tasks)
        return consume(queue, handled(queue, handler), **options)

    mine["transaction"] = transaction
    mine["branch"] = wraps(qm.branch)(partial(begin, qm))
    mine["_xa"] = partial(_verbs, tracing, qm._xa, mine["branch"])
    mine["consume"] = wraps(consume)(traced_consume)
    mine["consumer"] = _consumer(handled, qm.consumer)
    mine["open_queue"] = _opening(tracing, qm.open_queue)
    vars(qm).update(mine)
    vars(qm)[_TRACING] = tuple(mine)
    return qm


def uninstrument(qm: Manager) -> Manager:
    """Take that back. Transactions, open queues and consumers that were made before keep theirs."""
    for name in vars(qm).pop(_TRACING, ()):
        vars(qm).pop(name, None)
    return qm


def process(
    messages: Messages, *, queue: str = "", tracer_provider: TracerProvider | None = None,
    parent: Parent = "link",
) -> AbstractContextManager[Span]:  # fmt: skip
    """The span of what is done for a message, where no consumer calls a handler: in the body of a
    loop, or after a receive.

        for message in qm.messages(queue):
            with otel.process(message, queue=queue):
                ...

    Args:
        messages: One, or several.
        queue: Where they were received from.
        tracer_provider, parent: As in ``instrument``.
    """
    return Tracing(tracer_provider, "", parent).processing(queue, messages)


# ---- sending -----------------------------------------------------------------------------------


def _sending(tracing: Tracing, name: str, method: Method) -> Method:
    """A send that is not in a transaction of the application's."""

    @contextmanager
    def spanned(to: object, bodies: tuple[Any, ...], values: dict[str, Any]) -> Iterator[Any]:
        destination = str(to.response_queue if isinstance(to, Message) else to)
        span = tracing.start(
            name, spans.SEND, destination, SpanKind.PRODUCER,
            links=links_to([to]) if isinstance(to, Message) else (),
        )  # fmt: skip
        body = bodies[0] if bodies else values.get("body", NOTHING)
        size = len(body) if isinstance(body, (bytes, str)) else 0
        if size:
            span.set_attribute(spans.BODY_SIZE, size)
        with current(span):
            yield span, with_trace(span, values, size)

    if inspect.iscoroutinefunction(method):

        async def call_async(to: object, /, *bodies: Any, **values: Any) -> Any:
            with spanned(to, bodies, values) as (span, given):
                result = await method(to, *bodies, **given)
                _sent(span, result)
                return result

        return wraps(method)(call_async)

    def call(to: object, /, *bodies: Any, **values: Any) -> Any:
        with spanned(to, bodies, values) as (span, given):
            result = method(to, *bodies, **given)
            _sent(span, result)
            return result

    return wraps(method)(call)


def _sent(span: Span, result: Any) -> None:
    """What a send has given, of which kind it may be."""
    if isinstance(result, Message):  # The reply to a request.
        for link in links_to([result]):
            span.add_link(link.context)
    elif isinstance(result, MessageId):
        span.set_attribute(spans.MESSAGE_ID, str(result))
    elif hasattr(result, "__len__"):
        span.set_attribute(spans.COUNT, len(result))


# ---- branches ----------------------------------------------------------------------------------


def _verbs(
    tracing: Tracing, make: Method, start: Method, qm: QueueManager | AsyncQueueManager
) -> Any:
    """What has the verbs of XA: those that prepare and decide have spans, and the work that it
    starts."""
    made: Any = make(qm)
    vars(made)["start"] = start
    for name, outcome in SETTLES.items():
        vars(made)[name] = _settling(tracing, name, outcome, getattr(made, name))
    return made


def _settling(tracing: Tracing, name: str, outcome: str, method: Method) -> Method:
    """A verb about a branch, which it is told first."""
    if inspect.iscoroutinefunction(method):

        async def call_async(xid: Xid, **options: Any) -> Any:
            with tracing.settling(name, xid, outcome):
                return await method(xid, **options)

        return wraps(method)(call_async)

    def call(xid: Xid, **options: Any) -> Any:
        with tracing.settling(name, xid, outcome):
            return method(xid, **options)

    return wraps(method)(call)


# ---- receiving ---------------------------------------------------------------------------------


def _receiving(tracing: Tracing, method: Method, of: str = "") -> Method:
    """A receive at once and for good; ``of``: the queue that is open."""
    if inspect.iscoroutinefunction(method):

        async def call_async(*args: Any, **options: Any) -> Any:
            queue, since_ns = of or _queue(args, options), now_ns()
            try:
                found: Message | Batch = await method(*args, **options)
            except ReceiveTimeout:
                raise
            except Exception as error:
                tracing.receive_failed(queue, error, since_ns)
                raise
            tracing.received(queue, found, since_ns)
            return found

        return wraps(method)(call_async)

    def call(*args: Any, **options: Any) -> Any:
        queue, since_ns = of or _queue(args, options), now_ns()
        try:
            found: Message | Batch = method(*args, **options)
        except ReceiveTimeout:
            raise
        except Exception as error:
            tracing.receive_failed(queue, error, since_ns)
            raise
        tracing.received(queue, found, since_ns)
        return found

    return wraps(method)(call)


def _queue(args: tuple[Any, ...], options: dict[str, Any]) -> str:
    return str(args[0] if args else options.get("queue", ""))


def _opening(tracing: Tracing, method: Method) -> Method:
    """``open_queue``: what it gives has spans."""

    def dressed(opened: Any) -> Any:
        for name in RECEIVES:
            vars(opened)[name] = _receiving(tracing, getattr(opened, name), opened.name)
        send = _sending(tracing, "send", _to_first(opened.send))
        vars(opened)["send"] = wraps(opened.send)(partial(send, opened.name))
        return opened

    if inspect.iscoroutinefunction(method):

        async def call_async(*args: Any, **options: Any) -> Any:
            return dressed(await method(*args, **options))

        return wraps(method)(call_async)

    def call(*args: Any, **options: Any) -> Any:
        return dressed(method(*args, **options))

    return wraps(method)(call)


def _to_first(send: Method) -> Method:
    """The send of an open queue, as one that is told where to."""
    if inspect.iscoroutinefunction(send):

        async def call_async(_: str, /, *bodies: Any, **values: Any) -> Any:
            return await send(*bodies, **values)

        return call_async

    def call(_: str, /, *bodies: Any, **values: Any) -> Any:
        return send(*bodies, **values)

    return call


# ---- consumers ---------------------------------------------------------------------------------


def _handling(tracing: Tracing, queue: str, handler: Method, *, tasks: bool) -> Method:
    """A handler in the span of what it is called for.

    Args:
        tasks: Its result is awaited, if it is something to be awaited.
    """

    def spanned(tx: Any, messages: Messages) -> AbstractContextManager[Span]:
        unit: Unit = tx._state
        around = unit.around if isinstance(unit, TracedUnit) else None
        return tracing.processing(queue, messages, around)

    if tasks:
        awaited = awaiting(handler)

        async def call_async(tx: Any, messages: Messages, *given: Any) -> Any:
            with spanned(tx, messages):
                return await awaited(tx, messages, *given)

        return _named(handler, call_async)

    def call(tx: Any, messages: Messages, *given: Any) -> Any:
        with spanned(tx, messages):
            return handler(tx, messages, *given)

    return _named(handler, call)


def _given(options: dict[str, Any]) -> int:
    """With how many values a handler is called."""
    return 3 if options.get("database") is not None else 2


def _consumer(handled: partial[Method], method: Method) -> Method:
    """``consumer``: the decorated function stays what it is."""

    def call(queue: str, **options: Any) -> Callable[[Method], Method]:
        decorate = method(queue, **options)

        def traced(handler: Method) -> Method:
            check_handler(handler, _given(options), tasks=handled.keywords["tasks"])
            decorate(handled(queue, handler))
            return handler

        return traced

    return wraps(method)(call)


def _named(handler: Method, made: Method) -> Method:
    """What stands for a handler, under its name, if it has one: it may be any object."""
    return wraps(handler)(made) if callable(handler) else made
