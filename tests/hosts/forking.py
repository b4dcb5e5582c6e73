"""Forks in tests: what a child does, what it says of it, and that it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from onceq.errors import OnceqError

CHILD_S = 60
"""A child that hangs is ended then."""


def begin(work: Callable[[], object]) -> tuple[int, int]:
    """Fork a child that does that, says what came of it, and ends; its number and its pipe."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover - in another process
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(CHILD_S)
        try:
            said = repr(work())
        except OnceqError as error:
            said = f"{type(error).__name__}: {error.text}"
        except BaseException as error:  # noqa: BLE001 - the test is to see it
            said = f"none of ours: {error!r}"
        os.write(writes, said.encode()[:60_000])
        os._exit(0)
    os.close(writes)
    return child, reads


def end(child: int, reads: int) -> str:
    """What a child has said, once it is over."""
    with os.fdopen(reads, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert said, f"the child ended without a word, status {status}"
    return said


def heard(work: Callable[[], object]) -> str:
    """What one child says of doing that."""
    return end(*begin(work))
