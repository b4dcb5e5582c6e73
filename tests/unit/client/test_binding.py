"""One operation, two methods: both look like it, and the type checker knows both."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import pytest

import onceq
from onceq import aio
from onceq.client.binding import tasks, threads
from onceq.client.link import Session
from onceq.client.plans.plan import Plan, ask
from onceq.model import requests
from tests.unit.client.script import Script

ROOT = Path(__file__).resolve().parents[3]
T = TypeVar("T")


def lengthen(session: Session, name: str, *, by: int = 1) -> Plan[list[int]]:
    """What it does."""
    found = yield from ask(requests.PurgeQueue(name + session.name), int)
    return [found + by]


class Face:
    def __init__(self, session: Session, script: Script) -> None:
        self._state = session
        self._script = script

    def _run(self, plan: Plan[T]) -> T:
        done: T = self._script.run(plan)
        return done

    lengthen = threads(lengthen)


class AsyncFace:
    def __init__(self, session: Session, script: Script) -> None:
        self._state = session
        self._script = script

    async def _run(self, plan: Plan[T]) -> T:
        done: T = self._script.run(plan)
        return done

    lengthen = tasks(lengthen)


def test_both_carry_the_operation_out(script: Script, session: Session) -> None:
    script.will(requests.PurgeQueue.code, 1, 10)
    assert Face(session, script).lengthen("q", by=2) == [3]
    assert asyncio.run(AsyncFace(session, script).lengthen("q")) == [11]
    assert [script.request(at, requests.PurgeQueue).name for at in (0, 1)] == ["qA", "qA"]


def test_both_look_like_the_operation() -> None:
    for method in (Face.lengthen, AsyncFace.lengthen, onceq.QueueManager.purge):
        assert inspect.isfunction(method)
    for method in (Face.lengthen, AsyncFace.lengthen):
        shown = str(inspect.signature(method)).replace("'", "")
        assert shown == "(self, name: str, *, by: int = 1) -> list[int]"
        assert (method.__name__, method.__doc__) == ("lengthen", "What it does.")
    assert inspect.iscoroutinefunction(AsyncFace.lengthen)
    assert not inspect.iscoroutinefunction(Face.lengthen)


def test_a_mistake_in_a_call_is_named_as_the_operation(script: Script, session: Session) -> None:
    with pytest.raises(TypeError, match=r"lengthen\(\) .*'size'"):
        Face(session, script).lengthen("q", size=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        (onceq.QueueManager, "purge", "(self, name: str) -> int"),
        (aio.AsyncQueueManager, "purge", "(self, name: str) -> int"),
        (onceq.QueueManager, "cursor", "(self, queue: str, *, access: str = receive) -> Cursor"),
        (aio.AsyncQueueManager, "send_tracked",
         "(self, destination: str, body: Body | Nothing = NOTHING, *, json: object = NOTHING, "
         "transactional: bool | None = None, "
         "**properties: Unpack[SendProperties]) -> AsyncTracked"),
        (onceq.Branch, "prepare", "(self) -> Vote"),
    ],
)  # fmt: skip
def test_signatures_leave_out_what_the_operation_is_about(
    kind: type, name: str, shown: str
) -> None:
    assert str(inspect.signature(getattr(kind, name))).replace("'", "") == shown


REVEALED = """
import onceq
from onceq import aio

def threads(qm: onceq.QueueManager, tx: onceq.Transaction) -> None:
    reveal_type(qm.purge)
    reveal_type(qm.open_queue("q"))
    reveal_type(tx.receive("q"))
    reveal_type(tx.send_tracked("q", b""))
    qm.purge(17)
    qm.send("q", b"", lable="x")
    tx.send("q", b"", label=["x"])
    tx.send_many("q", [b""], label=["x"])
    qm.send("q", json={"n": 1}, delivery="fast")

async def tasks(qm: aio.AsyncQueueManager, tx: aio.AsyncTransaction) -> None:
    reveal_type(qm.purge)
    reveal_type(await qm.cursor("q"))
    reveal_type(await tx.receive("q"))
    reveal_type(await tx.send_tracked("q", b""))
    await qm.purge("q", force=True)
    await qm.send("q", b"", priority="high")
"""
SAID = (
    'note: Revealed type is "def (name: str) -> int"',
    'note: Revealed type is "onceq.client.threads.manager.OpenQueue"',
    'note: Revealed type is "onceq.model.message.Message"',
    'note: Revealed type is "onceq.client.threads.transaction.Tracked"',
    'error: Argument 1 has incompatible type "int"; expected "str"',
    'error: Unexpected keyword argument "lable"; did you mean "label"?',
    'error: Argument "label" has incompatible type "list[str]"; expected "str | None"',
    'error: Argument "delivery" has incompatible type "Literal[\'fast\']"',
    'note: Revealed type is "def (name: str) -> typing.Coroutine[Any, Any, int]"',
    'note: Revealed type is "onceq.client.tasks.manager.AsyncCursor"',
    'note: Revealed type is "onceq.model.message.Message"',
    'note: Revealed type is "onceq.client.tasks.transaction.AsyncTracked"',
    'error: Unexpected keyword argument "force"',
    'error: Argument "priority" has incompatible type "str"; expected "int | None"',
)


@pytest.mark.tier("rest")
@pytest.mark.slow
def test_the_type_checker_knows_both(tmp_path: Path) -> None:
    asked = tmp_path / "asked.py"
    asked.write_text(REVEALED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-pretty", "--hide-error-codes", asked],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    # By its name alone: mypy repeats what it has kept of an earlier run, which was elsewhere.
    said = [
        line.split(": ", 1)[1] for line in done.stdout.splitlines() if f"/{asked.name}:" in line
    ]
    assert len(said) == len(SAID), done.stdout + done.stderr
    for line, expected in zip(said, SAID, strict=True):
        assert line.replace('""', '"').startswith(expected), line
