"""Handlers of loops: what is refused before a message is taken, and what type checkers find.

Each line with an ignored error is one that mypy must find: ``make check`` refuses an ignore that
nothing needs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio
from onceq.client.handlers import check_done, check_handler
from onceq.errors import InvalidParameter, NotCarriedOut

Q = r"private$\q"


def plain(tx: onceq.Transaction, message: onceq.Message) -> None: ...


def many(tx: onceq.Transaction, messages: onceq.Batch) -> None: ...


def sold(tx: onceq.Transaction, message: onceq.Message, db: sqlite3.Connection) -> None: ...


async def awaited(tx: aio.AsyncTransaction, message: onceq.Message) -> None: ...


def shop() -> sqlite3.Connection:
    """Nobody sells there: it cannot take part."""
    return sqlite3.connect(":memory:")


class Callee:
    def __call__(self, tx: Any, message: Any) -> None: ...


class AsyncCallee:
    async def __call__(self, tx: Any, message: Any) -> None: ...


@wraps(awaited)
def runs_it(*given: Any) -> None: ...


def test_what_fits_is_taken(tmp_path: Path) -> None:
    for handler in (plain, Callee(), Callee().__call__, partial(sold, db=shop()), print, runs_it):
        check_handler(handler, 2, tasks=False)
    check_handler(awaited, 2, tasks=True)
    check_handler(AsyncCallee(), 2, tasks=True)
    check_handler(lambda tx, message: awaited(tx, message), 2, tasks=True)
    with onceq.open(tmp_path, name="ALPHA", create=True) as qm:
        qm.create_queue(Q, transactional=True)
        qm.consume(Q, plain, timeout=0.0)
        qm.consume(Q, many, batch=10, timeout=0.0)
        till = partial(sqlite3.connect, tmp_path / "till.db")
        qm.consume(Q, sold, database=till, timeout=0.0, concurrency=2)
        qm.consumer(Q)(plain)
        qm.consumer(Q, batch=10, limit=60.0)(many)
        qm.consumer(Q, database=shop)(sold)


@pytest.mark.parametrize(
    "handler", [awaited, AsyncCallee(), partial(awaited)], ids=["function", "object", "partial"]
)
def test_what_would_not_be_awaited_is_refused(handler: Callable[..., object]) -> None:
    with pytest.raises(NotCarriedOut, match="awaits nothing"):
        check_handler(handler, 2, tasks=False)


@pytest.mark.parametrize("given", [1, 3])
def test_what_does_not_take_its_values_is_refused(given: int) -> None:
    for tasks, handler in ((False, plain), (True, awaited), (False, Callee())):
        with pytest.raises(InvalidParameter, match="does not take them"):
            check_handler(handler, given, tasks=tasks)


def test_what_a_handler_gives_back_may_be_anything_else() -> None:
    for result in (None, 17, "x", [1], {"a": 1}, Callee()):
        check_done(result)


def test_type_checkers_find_what_cannot_run(tmp_path: Path) -> None:
    with onceq.open(tmp_path, name="ALPHA", create=True) as qm:
        with pytest.raises(NotCarriedOut):
            qm.consume(Q, awaited)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter):
            qm.consume(Q, sold)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter):
            qm.consume(Q, plain, database=shop)  # type: ignore[arg-type]
        with pytest.raises(NotCarriedOut):
            qm.consumer(Q)(awaited)  # type: ignore[type-var]
        with pytest.raises(InvalidParameter):
            qm.consumer(Q, database=shop)(plain)  # type: ignore[type-var]


async def only_for_types(qm: aio.AsyncQueueManager) -> None:
    """Never called."""
    await qm.consume(Q, awaited)
    await qm.consume(Q, plain)  # type: ignore[arg-type]
    qm.consumer(Q)(plain)  # type: ignore[type-var]
