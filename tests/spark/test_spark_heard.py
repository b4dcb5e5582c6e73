"""What source and sink say in Spark's processes is heard by the person at the command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import nursery
from tests.spark.conftest import Daemon

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUEUE = r"private$\heard"
AWAY = "does not answer"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Daemon]:
    """One that is away now and then."""
    made = Daemon(tmp_path / "hub")
    made.manager.create_queue(QUEUE, transactional=True)
    yield made
    made.stop()


def until_said(process: subprocess.Popen[str], what: str) -> list[str]:
    """Read what a command says up to a line."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line.rstrip("\n"))
        if what in line:
            return lines
    raise AssertionError(f"it never said {what!r}: {lines}")


def command(hub: Daemon, *words: Any) -> subprocess.Popen[str]:
    return nursery.Popen(
        [sys.executable, "-m", "onceq.cli.main", "--qm", str(hub.path), "spark", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_landing_says_what_it_does_and_whom_it_waits_for(hub: Daemon, tmp_path: Path) -> None:
    """From the start of Spark on, and from the process in which the source looks."""
    hub.manager.send_many(QUEUE, [b"0", b"1", b"2"], transactional=True)
    hub.kill()
    to = tmp_path / "table"
    process = command(hub, "land", QUEUE, "--to", "parquet", to, "--until-empty")
    lines = until_said(process, AWAY)
    queue = QUEUE.replace("\\", "/")
    assert lines[:2] == ["starting Spark", f"landing {queue} in {to}"]
    assert lines[2].startswith(f"the queue manager at {hub.path} does not answer (")
    assert lines[2].endswith("trying again for 60 s (retryTimeout)")
    hub.start()
    out, rest = process.communicate()
    assert process.returncode == 0, rest
    said = rest.splitlines()
    assert "answers again, after" in said[0]
    assert [line for line in said if line.startswith("batch 0: 3 messages")]
    assert said[-1] == f"reading {to} back"
    assert "3 committed, 3 rows" in out


def test_a_replay_says_whom_its_tasks_wait_for(hub: Daemon, tmp_path: Path) -> None:
    """From the processes of tasks, in which the sink sends."""
    rows = tmp_path / "rows.json"
    rows.write_text("".join(f'{{"body": "{number:02}"}}\n' for number in range(60)))
    process = command(
        hub, "replay", rows, "--format", "json", "--order-by", "body", "--to", QUEUE,
        "--checkpoint", tmp_path / "checkpoint", "--rate", 20,
    )  # fmt: skip
    lines = until_said(process, "20 of 60 rows sent")
    assert lines[0] == "starting Spark"
    hub.kill()
    until_said(process, AWAY)
    hub.start()
    _, rest = process.communicate()
    assert process.returncode == 0, rest
    assert "answers again, after" in rest
    assert "60 of 60 rows sent" in rest
    bodies = hub.manager.peek_many(QUEUE, 100).bodies()
    assert bodies == [b"%02d" % number for number in range(60)]
