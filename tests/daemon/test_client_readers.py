"""Who has read a queue, from the desk, and by the client library."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.client.plans import receive
from onceq.model.requests import TakeRead
from tests import nursery
from tests.daemon.applications import Daemon
from tests.daemon.shell import ONCEQ

Q = r"private$\q"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "a") as made:
        yield made


def read(qm: Any, reader: str, query: str) -> int:
    """One message is sent, looked at and removed by a reader; up to where."""
    qm.create_queue(Q, transactional=True, exist_ok=True)
    qm.send(Q, b"x", transactional=True)
    (place,) = qm.peek_many(Q, 1).lookup_ids
    request = TakeRead(Q, 0, place, place, reader=reader, query=query, who="a test")
    with qm.transaction() as tx:
        assert tx._run(receive.take(tx._state, request)) == 1
    assert qm.queue(Q)["messages"] == 0
    return int(place)


def test_the_desk_shows_readers_and_forgets_them(daemon: Daemon) -> None:
    def spark(*arguments: str, code: int = 0) -> str:
        done = nursery.run(
            [*ONCEQ, "-q", daemon.where, "spark", *arguments],
            capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "no stream has read" in spark("readers")
    with onceq.connect(daemon.where) as qm:
        read(qm, "", "q1")
        place = read(qm, "orders", "q2")
    found = json.loads(spark("readers", Q, "--json"))
    assert {(one["reader"], one["query"]) for one in found} == {("orders", "q2"), ("", "q1")}
    assert f"{place}" in spark("readers")
    other = spark("forget", Q, "--subscription", "x", code=2)
    assert "say " in other
    assert "--subscription 'orders'" in other
    assert "no --subscription" in other
    assert "would be forgotten: that" in spark("forget", Q, "--dry-run")
    assert "not a terminal: confirm with --yes" in spark("forget", Q, code=2)
    assert f"up to {place} (a test)" in spark("forget", Q, "--subscription", "orders", "--yes")
    assert [one["reader"] for one in json.loads(spark("readers", "--json"))] == [""]
    assert "forgotten" in spark("forget", Q, "--yes")
    assert "no stream has read" in spark("readers", Q)
    nobody = spark("forget", Q, code=2)
    assert "no stream without a subscription" in nobody
    assert "nobody has read and removed its messages" in nobody


def test_commands_about_readers_need_no_spark() -> None:
    """They are for people who look after queue managers."""
    text = (
        "import sys; import onceq.cli.spark; "
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'pyspark']"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
