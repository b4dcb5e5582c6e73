"""A batch that goes into a Delta table and into a queue: each row once in both, wherever the driver
dies between the two writes.

The table is written and read by the library ``deltalake``, which knows nothing of onceq.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark import beside_driver
from tests.spark.stream_driver import Crash, kill_group

pytest.importorskip("deltalake", reason="deltalake is not installed: pip install onceq[tables]")
pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 20
"""Of each file, which is a batch."""


def test_each_row_is_once_in_the_table_and_once_in_the_queue(
    spark: Any, daemon: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    queue = "private$\\" + re.sub(r"\W+", "-", request.node.name)[:100]
    daemon.manager.create_queue(queue, transactional=True)
    rows, table, checkpoint = tmp_path / "rows", tmp_path / "table", tmp_path / "checkpoint"
    rows.mkdir()
    added = 0

    def add(files: int) -> None:
        nonlocal added
        for _ in range(files):
            lines = [json.dumps({"body": str(added * ROWS + n)}) + "\n" for n in range(ROWS)]
            path = rows / f"{added}.json"
            path.write_text("".join(lines))
            os.utime(path, (1_700_000_000 + added,) * 2)
            added += 1

    where = (str(daemon.path), queue, str(table), f"beside-{queue}")
    add(3)
    driver = subprocess.Popen(
        [sys.executable, beside_driver.__file__, *where, str(rows), str(checkpoint)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert driver.stdout is not None
    assert any("between" in line for line in driver.stdout)
    kill_group(driver)
    assert held(daemon, queue) == list(range(ROWS))
    assert in_table(table) == list(range(2 * ROWS)), "batch 1 is in the table alone"

    crashes = {3: 1, 4: 1}

    def between(batch: int) -> None:
        if crashes.get(batch, 0):
            crashes[batch] -= 1
            raise Crash("the driver dies here")

    def run() -> None:
        beside_driver.run(spark, str(rows), str(checkpoint), beside_driver.writing(*where, between))

    run()
    add(2)
    for _ in range(2):
        with pytest.raises(Exception, match="the driver dies here"):
            run()
    run()
    forget_commit(checkpoint)
    run()
    expected = list(range(added * ROWS))
    assert held(daemon, queue) == expected
    assert in_table(table) == expected


def held(daemon: Any, queue: str) -> list[int]:
    return [int(body) for body in daemon.manager.peek_many(queue, 10_000).bodies()]


def in_table(table: Path) -> list[int]:
    import deltalake

    found = deltalake.DeltaTable(str(table)).to_pyarrow_table()
    return sorted(int(body) for body in found["body"].to_pylist())


def forget_commit(checkpoint: Path) -> None:
    """Spark does not know that the last batch is committed: it runs it again."""
    last = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
