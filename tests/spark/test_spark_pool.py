"""Connections of a worker process: used again, never shared, closed when nobody wants them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from onceq.spark.patience import Patience
from onceq.spark.pool import Pool

PATIENCE = Patience()
WAIT_S = 30.0


def test_a_connection_is_used_again(daemon: Any) -> None:
    pool = Pool(keep_s=WAIT_S)
    with pool.borrowed(str(daemon.path), PATIENCE) as one:
        assert one.who("q")[0] == "HUB"
        with pool.borrowed(str(daemon.path), PATIENCE) as beside:
            assert beside is not one
    assert len(pool) == 2
    with pool.borrowed(str(daemon.path), PATIENCE) as again:
        assert again is one
    with pool.borrowed(str(daemon.path), Patience(retries=0)) as other:
        assert other is not one
    pool.close()
    assert len(pool) == 0
    assert one._manager is None


def test_one_that_failed_is_not_used_again(daemon: Any) -> None:
    pool = Pool(keep_s=WAIT_S)
    with pytest.raises(KeyError), pool.borrowed(str(daemon.path), PATIENCE) as one:
        one.who("q")
        raise KeyError
    assert len(pool) == 0
    assert one._manager is None


def test_one_that_nobody_wants_is_closed(daemon: Any) -> None:
    pool = Pool(keep_s=0.0)
    closed = threading.Event()
    with pool.borrowed(str(daemon.path), PATIENCE) as one:
        one.who("q")
        close = one.close

        def noted() -> None:
            close()
            closed.set()

        one.close = noted  # type: ignore[method-assign]
    assert closed.wait(WAIT_S)
    assert len(pool) == 0
    assert one._manager is None
