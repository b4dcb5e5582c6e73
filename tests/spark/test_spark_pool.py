"""Connections of a worker process: used again, never shared, closed when nobody wants them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from onceq.errors import ServiceNotAvailable
from onceq.spark import connections
from onceq.spark.connections import FROM_ENVIRONMENT, ConnectionPool, Patience
from onceq.spark.source.access import LazyConnection

PATIENCE = Patience()
WAIT_S = 30.0


def reading(kept: ConnectionPool, daemon: Any, patience: Patience = PATIENCE) -> Any:
    where = str(daemon.path)
    return kept.borrowed((where, patience), lambda: LazyConnection(where, patience))


def test_a_connection_is_used_again(daemon: Any) -> None:
    kept = ConnectionPool(keep_s=WAIT_S)
    with reading(kept, daemon) as one:
        assert one.who("q")[0] == "HUB"
        with reading(kept, daemon) as beside:
            assert beside is not one
    assert len(kept) == 2
    with reading(kept, daemon) as again:
        assert again is one
    with reading(kept, daemon, Patience(retries=0)) as other:
        assert other is not one
    kept.close()
    assert len(kept) == 0
    assert one._manager is None


def test_one_for_writing_is_used_again_by_the_next_task(
    daemon: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the queue manager was started again between two tasks."""
    pool_of_process = ConnectionPool(keep_s=WAIT_S)
    monkeypatch.setattr(connections, "POOL", pool_of_process)
    where = str(daemon.path)
    with (
        connections.connection(where, credentials=FROM_ENVIRONMENT) as one,
        connections.connection(where, credentials=FROM_ENVIRONMENT) as beside,
    ):
        assert one is not beside
        assert one.id == beside.id
    assert len(pool_of_process) == 2
    daemon.kill()
    daemon.start()
    with connections.connection(where, credentials=FROM_ENVIRONMENT) as again:
        assert again in (one, beside)
        assert again.queues() is not None
    with pytest.raises(KeyError), connections.connection(where, credentials=FROM_ENVIRONMENT):
        raise KeyError
    assert len(pool_of_process) == 1
    pool_of_process.close()
    for closed in (one, beside):
        with pytest.raises(ServiceNotAvailable, match="closed"):
            closed.queues()


def test_one_that_failed_is_not_used_again(daemon: Any) -> None:
    kept = ConnectionPool(keep_s=WAIT_S)
    with pytest.raises(KeyError), reading(kept, daemon) as one:
        one.who("q")
        raise KeyError
    assert len(kept) == 0
    assert one._manager is None


def test_one_that_nobody_wants_is_closed(daemon: Any) -> None:
    kept = ConnectionPool(keep_s=0.0)
    closed = threading.Event()
    with reading(kept, daemon) as one:
        one.who("q")
        close = one.close

        def noted() -> None:
            close()
            closed.set()

        one.close = noted
    assert closed.wait(WAIT_S)
    assert len(kept) == 0
    assert one._manager is None
