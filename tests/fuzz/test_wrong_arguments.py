"""Arguments of wrong types, in every place of every public method: an error, and nothing breaks.

An application without a type checker passes anything. What it gets is an error that is its own; the
queue manager lives, and other threads of the application go on. The same on a queue manager inside
the process and on a connection to a daemon.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.errors import LinkLost, OnceqError, ServiceNotAvailable
from tests.daemon.process import Process
from tests.scratch import scratch

Q, OTHER = r"private$\q", r"private$\other"
WRONG: tuple[Any, ...] = (
    None, 5, -1, 1 << 70, True, 1.5, "", "\ud800", "nothing", b"x", [], [5], {}, {5: object()},
    object(),
)  # fmt: skip
RIGHT: dict[str, Any] = {
    "queue": Q, "name": Q, "destination": Q, "body": b"x", "bodies": [b"x"], "timeout": 0,
    "count": 1, "lookup_id": 1, "to": Q, "source": "B", "reason": "a test", "what": "status",
    "members": [Q], "xid": onceq.Xid(1, b"g", b"b"), "gtrid": b"g", "dry_run": True,
}  # fmt: skip
WAITS = frozenset(("timeout",))
"""A number here is right, and would be waited for."""
APART = frozenset(
    (
        "close",
        "disconnect",
        "live",
        "run",
        "work",
        "consume",
        "transaction",
        "backup",
        "abort",
        "commit",
    )
)
"""They end the manager, call what they are given, or write files."""


def methods(qm: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, method in inspect.getmembers(qm, callable):
        if not name.startswith("_") and name not in APART:
            yield name, method


def wrong_calls(method: Callable[..., Any]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """All arguments as they should be, but for one."""
    parameters = list(inspect.signature(method).parameters.values())
    for wrong in parameters:
        for value in WRONG if wrong.name not in WAITS else ("", b"x", [], object()):
            places, names = [], {"timeout": 0} if "timeout" in {p.name for p in parameters} else {}
            for one in parameters:
                given = value if one is wrong else RIGHT.get(one.name, inspect.Parameter.empty)
                if one.kind is one.VAR_KEYWORD:
                    names |= {"quota_kb": value, "label": value} if one is wrong else {}
                elif one.kind is one.VAR_POSITIONAL:
                    places += [value] if one is wrong else []
                elif given is one.empty:
                    continue  # It keeps its default, or is missing: a TypeError of Python's own.
                elif one.kind is one.KEYWORD_ONLY or one is wrong or one.default is one.empty:
                    names[one.name] = given
            yield places, names


@contextmanager
def embedded(path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(path / "data", name="A", create=True) as qm:
        yield qm


@contextmanager
def connected(path: Path) -> Iterator[onceq.QueueManager]:
    onceq.open(path / "data", name="A", create=True).close()
    daemon = Process(path / "data", "--listen", "127.0.0.1:0").started()
    try:
        with onceq.connect(str(path / "data")) as qm:
            yield qm
    finally:
        daemon.end()


@pytest.mark.parametrize("manager", [embedded, connected])
def test_a_wrong_argument_is_an_error_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, manager: Callable[[Path], Any]
) -> None:
    calls = 0
    with scratch(tmp_path_factory, "wrong") as folder, manager(folder) as qm:
        for queue in (Q, OTHER):
            qm.create_queue(queue, transactional=True)
        with qm.transaction() as other, qm.transaction() as tx, qm.open_queue(Q) as opened:
            other.send(OTHER, b"of another thread")
            link = qm._live()
            for face in (qm, tx, opened):
                for name, method in methods(face):
                    for places, names in wrong_calls(method):
                        calls += 1
                        tried = f"{type(face).__name__}.{name}(*{places}, **{names})"
                        with guarded(tried):
                            method(*places, **names)
                        assert qm._live() is link, f"{tried} has broken the connection"
        assert qm.receive(OTHER, timeout=5).body == b"of another thread"
    assert calls > 500


@contextmanager
def guarded(tried: str) -> Iterator[None]:
    """Whatever is asked of Python or of onceq may be refused; the way to the manager must stay."""
    try:
        yield
    except (ServiceNotAvailable, LinkLost) as error:
        raise AssertionError(f"{tried}: {error}") from error
    except (OnceqError, TypeError, ValueError, AttributeError, OverflowError):
        pass
