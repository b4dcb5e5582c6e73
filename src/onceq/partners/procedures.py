"""The procedures by which partners and a queue manager get one outcome. Pure: generators of steps.

They are carried out from a thread (``drive``) or from a task (``drive_in_task``).

*Two phases* (``committing``). All partners prepare, in the order in which they were enlisted. Then
the home manager commits: its commit record *is* the decision (it needs no record beside the one
that it writes anyway). Then all partners commit. If anything fails before the decision, all roll
back; there is no record of that, because no record is an abort (presumed abort). After the decision
nothing can fail any more: a partner that cannot be reached hears of it later (``recovery.py``).

*Last agent* (``committing_by_row``). The queue manager and one database have one outcome for a
promise of one of them: the manager's. It prepares the transaction as a branch, in one sync. Then
the database commits once, with one row more in the same transaction: a row that says that this
branch is committed. Either both are there or neither is, so that row *is* the decision. Then the
branch is committed, for which nobody waits: it is decided. So the database syncs once, keeps no
prepared transactions, and needs no two-phase commit: SQLite can be such a last agent, and
PostgreSQL behind a pooler.

Recovery asks for the row. If it is there the branch is committed. If it is not there, that alone
says nothing: the commit that writes it may still be under way. So recovery writes a row itself,
under the same key, which says "aborted". Either it is too late, for the other row is there; or it
waits until the other commit is over; or it is first, and then the other commit fails on the key.
That is the outcome for good. A row that says "aborted" therefore stays: it is what keeps a slow
commit out. There is one for each transaction that recovery had to end, which takes a crash.

With several databases all but one prepare first, as in two phases. The row decides the manager's
branch, and that decides for them: it is their decision, on record (``core/transaction``).

The client carries the steps out, from threads and from tasks; tests carry them out on models, with
a failure and a crash at each of them.

Upholds: I20, I21, XTX-16 (nobody commits before the decision is durable, nobody hears of a commit
before it, nobody rolls back after it; a branch is rolled back only where there is no row and can be
none).
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from onceq import errors
from onceq.model.branches import Vote
from onceq.model.record import MutableRecord, Record, field

# ---- procedures ----------------------------------------------------------------------------------


class What(Enum):
    """What a step asks for: of one partner, or (partner -1) of the home manager."""

    PREPARE = "prepare"
    """Result: a Vote."""
    DECIDE = "decide"
    """Commit the home manager's transaction. Result: what its commit gives."""
    COMMIT = "commit"
    COMMIT_ONE_PHASE = "commit_one_phase"
    ROLLBACK = "rollback"
    PROMISE = "promise"
    """Prepare the home manager's transaction as a branch. Result: ``Promised``; None: it has
    nothing to decide. This and what follows: only with a last agent."""
    RECORD = "record"
    """Commit a partner with the row that decides."""
    FULFIL = "fulfil"
    """Commit the home manager's branch. Result: what its commit gives."""
    BREAK = "break"
    """Roll the home manager's branch back."""
    DONE = "done"
    """All partners have carried the decision out: the manager may forget it."""
    LEAVE = "leave"
    """Not all could be told: recovery may go on with it."""


class ProcedureStep(Record, frozen=True):
    """One thing to do.

    Attributes:
        partner: Index of the partner; -1: the home manager.
    """

    what: What
    partner: int = -1


class StepResult(MutableRecord):
    """How it went.

    Attributes:
        result: What the commit of the home manager gave; None: it had nothing to do.
        pending: Partners that are still to be told, with what happened instead.
    """

    result: Any = None
    pending: list[tuple[int, BaseException]] = field(default_factory=list)


Steps = Generator[ProcedureStep, Any, StepResult]


def committing(count: int, votes: list[Vote] | None = None, *, idle: bool = False) -> Steps:
    """The steps of a commit with ``count`` partners; exceptions of a step are thrown in.

    Args:
        votes: Collects the votes of the partners, for the caller that rolls them back if this
            generator ends early.
        idle: The home manager has nothing to commit itself.

    Raises:
        RolledBack: A partner would not; everything was undone.
        InDoubt: Nobody knows whether the home manager has committed; partners stay prepared, and
            recovery will tell them.
        OnceqError: The home manager refused its commit; everything was undone.
    """
    if idle and count == 1:
        return (yield from one_phase())
    votes = [] if votes is None else votes
    yield from preparing(count, votes, count)
    try:
        made = StepResult((yield ProcedureStep(What.DECIDE)))
    except errors.InDoubt:
        raise
    except errors.OnceqError:
        yield from undoing(count, votes)
        raise
    yield from telling(made, votes)
    return made


def committing_by_row(
    count: int = 1, votes: list[Vote] | None = None, *, idle: bool = False
) -> Steps:
    """The steps of a commit with ``count`` partners, of which the last is a last agent; exceptions
    of a step are thrown in.

    Args:
        votes: As of ``committing``.
        idle: The home manager has nothing to commit itself.

    Raises:
        RolledBack: A partner would not; everything was undone.
        InDoubt: Nobody knows whether the database has committed; the branch and the other partners
            stay prepared, and recovery will find out.
        OnceqError: The home manager refused its promise; everything was undone.
    """
    last = count - 1
    votes = [] if votes is None else votes
    if last:
        yield from preparing(last, votes, count)
    promised = None
    if last or not idle:
        try:
            promised = yield ProcedureStep(What.PROMISE)
        except Exception:
            # Nothing was decided, and nothing will be: there is no row, and nobody writes one.
            yield from undoing(count, votes)
            raise
    if promised is None:
        return (yield from one_phase())
    try:
        yield ProcedureStep(What.RECORD, last)
    except GeneratorExit:
        raise
    except (errors.PartnerRefused, errors.RolledBack) as error:
        with contextlib.suppress(errors.OnceqError):  # Recovery will find no row.
            yield ProcedureStep(What.BREAK)
        yield from undoing(last, votes)
        raise rolled_back("the database could not commit, and all was undone", error) from error
    except BaseException as error:
        with contextlib.suppress(errors.OnceqError):
            yield ProcedureStep(What.LEAVE)
        if not isinstance(error, Exception):
            raise
        raise errors.InDoubt(
            f"the answer of the database to its commit was lost ({error}); whether its row is "
            "there decides, and recovery will ask for it"
        ) from error
    made = StepResult(promised)
    try:
        made.result = yield ProcedureStep(What.FULFIL)
    except errors.OnceqError as error:  # It is decided; recovery will find the row.
        made.pending.append((-1, error))
    if last:
        yield from telling(made, votes)
    return made


def preparing(first: int, votes: list[Vote], count: int) -> Generator[ProcedureStep, Any, None]:
    """Let the first of ``count`` partners prepare; raises RolledBack if one cannot."""
    for index in range(first):
        try:
            votes.append((yield ProcedureStep(What.PREPARE, index)))
        except Exception as error:
            # Who has refused has rolled back, and its connection is free: it is not told again.
            refused = isinstance(error, (errors.PartnerRefused, errors.RolledBack))
            yield from undoing(count, votes, but=index if refused else -1)
            raise rolled_back(
                f"partner {index + 1} of {count} could not promise to commit, and everything was "
                "undone",
                error,
            ) from error


def rolled_back(what: str, error: Exception) -> errors.RolledBack:
    """What a commit says after a partner would not: to do it again is safe, unless the application
    has ended the share there by itself, and maybe committed it."""
    kind = (
        errors.RolledBack if isinstance(error, errors.PartnerEnded) else errors.RolledBackByPartner
    )
    return kind(f"{what}: {error}")


def telling(made: StepResult, votes: Sequence[Vote]) -> Generator[ProcedureStep, Any, None]:
    """It is decided: those that have promised commit, or are told later."""
    for index, vote in enumerate(votes):
        if vote is Vote.PREPARED:
            try:
                yield ProcedureStep(What.COMMIT, index)
            except errors.UnknownBranch:
                continue  # It is decided, so it can only have been told before.
            except Exception as error:  # noqa: BLE001 - it is decided: it will be told later
                made.pending.append((index, error))
    with contextlib.suppress(errors.OnceqError):  # Recovery finds out.
        yield ProcedureStep(What.LEAVE if made.pending else What.DONE)


def one_phase() -> Steps:
    """There is one partner and nobody else: no promise is needed."""
    try:
        yield ProcedureStep(What.COMMIT_ONE_PHASE, 0)
    except errors.InDoubt:
        raise
    except (errors.PartnerRefused, errors.RolledBack) as error:
        raise rolled_back("the only partner could not commit, and was undone", error) from error
    except Exception as error:
        raise errors.InDoubt(
            f"the answer of the only partner to its commit was lost: {error}; look there whether "
            "it is done, and do it again only if it is not"
        ) from error
    return StepResult()


def undoing(
    count: int, votes: Sequence[Vote] = (), *, but: int = -1
) -> Generator[ProcedureStep, Any, None]:
    """Roll all partners back but one, and those whose share was over when they had voted; who
    cannot be told will find no decision, which is the same."""
    for index in range(count):
        if index == but or Vote.READ_ONLY in votes[index : index + 1]:
            continue
        try:
            yield ProcedureStep(What.ROLLBACK, index)
        except Exception:  # noqa: BLE001 - presumed abort: recovery will do it
            continue


# ---- driving -------------------------------------------------------------------------------------
#
# Work that is written as a generator of calls, carried out from a thread or from a task.


P = ParamSpec("P")
T = TypeVar("T")
AnyStep = TypeVar("AnyStep")
Form = TypeVar("Form")

Call: TypeAlias = Callable[[], Any]
Calls: TypeAlias = Generator[Call, Any, T]
_RESULT: Final = re.compile(r"^(?:Plan|Calls)\[(.*)\]$")
"""What work gives, in its annotation."""


def call(do: Callable[P, Awaitable[T] | T], /, *args: P.args, **kwargs: P.kwargs) -> Calls[T]:
    """One call, as work that returns its result."""
    result: T = yield partial(do, *args, **kwargs)
    return result


def translated(
    steps: Generator[AnyStep, Any, T], form: Callable[[AnyStep], Form]
) -> Generator[Form, Any, T]:
    """The same work with each step in another form."""
    try:
        step = next(steps)
        while True:
            try:
                result = yield form(step)
            except BaseException as error:  # noqa: BLE001 - the steps see every error
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def drive(calls: Calls[T]) -> T:
    """Make each call from a thread; returns what the generator returns."""
    try:
        do = next(calls)
        while True:
            try:
                result = do()
            except BaseException as error:  # noqa: BLE001 - the work sees every error
                do = calls.throw(error)
            else:
                do = calls.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def drive_in_task(calls: Calls[T]) -> T:
    """Make each call from a task, and await what is to be awaited; returns the same."""
    try:
        do = next(calls)
        while True:
            try:
                result = do()
                if inspect.isawaitable(result):
                    result = await result
            except BaseException as error:  # noqa: BLE001 - the work sees every error
                do = calls.throw(error)
            else:
                do = calls.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def in_threads(work: Callable[P, Calls[T]]) -> Callable[P, T]:
    """Return work as a function, or a method, for threads."""

    def run_work(*args: P.args, **kwargs: P.kwargs) -> T:
        return drive(work(*args, **kwargs))

    describe(run_work, work, face=None)
    return run_work


def in_tasks(work: Callable[P, Calls[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return work as a function, or a method, for tasks."""

    async def run_work(*args: P.args, **kwargs: P.kwargs) -> T:
        return await drive_in_task(work(*args, **kwargs))

    describe(run_work, work, face=None)
    return run_work


def describe(
    made: Callable[..., Any], operation: Callable[..., Any], result: str = "",
    *, face: str | None = "self",
) -> None:  # fmt: skip
    """Let a method look like the operation (or the work) that it carries out.

    Args:
        result: What it returns, if not what the plan does.
        face: Name of its first parameter; None: as in the operation.
    """
    made.__name__ = made.__qualname__ = operation.__name__.removeprefix("_")
    made.__module__ = operation.__module__
    made.__doc__ = operation.__doc__
    notes = dict(operation.__annotations__)
    result = result or _RESULT.sub(r"\1", str(notes["return"]))
    made.__annotations__ = {**notes, "return": result}
    made.__wrapped__ = _Shown(operation, result, face)  # type: ignore[attr-defined]


class _Shown:
    """What ``inspect.signature`` finds on its way from a method to its operation.

    It is made when somebody looks: it takes 50 us, and the faces have a hundred methods and more.
    """

    def __init__(self, operation: Callable[..., Any], result: str, face: str | None) -> None:
        self.__wrapped__ = operation
        self._result = result
        self._face = face

    @property
    def __signature__(self) -> inspect.Signature:
        shown = inspect.signature(self.__wrapped__)
        first, *others = shown.parameters.values()
        if self._face is not None:
            first = inspect.Parameter(self._face, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return shown.replace(parameters=[first, *others], return_annotation=self._result)
