"""Ctrl-C between two steps, never in the middle of one."""

from __future__ import annotations

import os
import signal

import pytest

from onceq.cli.terminal import Interruptible


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_outside_a_step_it_interrupts_at_once() -> None:
    with Interruptible(), pytest.raises(KeyboardInterrupt):
        ctrl_c()


def in_a_step(done: list[str], *, times: int, error: Exception | None = None) -> None:
    with Interruptible() as guard, guard.step():
        for _ in range(times):
            ctrl_c()
        if error is not None:
            raise error
        done.append("finished")


def test_in_a_step_it_waits_for_its_end() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        in_a_step(done, times=1)
    assert done == ["finished"]


def test_a_second_one_does_not_wait() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        in_a_step(done, times=2)
    assert done == []


def test_an_error_in_the_step_comes_first() -> None:
    with pytest.raises(ValueError, match="mine"):
        in_a_step([], times=1, error=ValueError("mine"))


def test_sigterm_counts_too_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruptible(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
