"""The examples of the page about writing run as they stand there."""

from __future__ import annotations

import json
import os
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark.md"


def test_every_example_of_writing_runs(
    spark: Any, daemon: Any, other: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = PAGE.read_text().split("## Write rows to queues")[1].split("\n## ")[0]
    blocks = re.findall(r"^```python no-run\n(.*?)^```", section, re.M | re.S)
    assert len(blocks) == 5
    manager = daemon.manager
    for name in ("orders", "errors"):
        manager.create_queue(rf"private$\{name}", transactional=True, exist_ok=True)
        manager.purge(rf"private$\{name}")
    other.manager.create_queue(r"private$\orders", transactional=True, exist_ok=True)
    other.manager.purge(r"private$\orders")
    names = {"spark": spark, "HUB": str(daemon.path), "SPOKE": str(other.path)}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows").mkdir()
    row = {"id": 1, "amount": 2.5}
    (tmp_path / "rows" / "1.json").write_text(json.dumps(row))
    for block in blocks:
        text = block.replace('"./hub"', repr(str(daemon.path)))
        text = re.sub(r'"\./', f'"{os.fspath(tmp_path)}/', text)
        example = tmp_path / "example.py"
        example.write_text(text)
        runpy.run_path(str(example), init_globals=names)
    found = manager.receive_many(r"private$\orders", timeout=0)
    texts = [(message.label, message.text) for message in found]
    there = [message.text for message in other.manager.receive_many(r"private$\orders", timeout=0)]
    spread, texts = [text for _, text in texts[5:]], texts[:5]
    assert (len(spread), spread[-1], len(there), there[-1]) == (51, "1", 51, "2")
    assert sorted(map(int, spread[:-1] + there[:-1])) == list(range(100))
    assert texts == [("order 1", json.dumps(row, separators=(",", ":"))), ("", "17"), ("", "18"),
                     *[("", json.dumps(row, separators=(",", ":")))] * 2]  # fmt: skip
    assert found[1].app_specific == 7
    assert found[1].time_to_be_received == 86_400
    far = r"DIRECT=OS:BETA\private$\audit"
    assert manager.admin.outgoing_queue(far)["messages"] == 1
    manager.purge(far)
    assert list((tmp_path / "landed").glob("query=*/batch=0"))
    assert (tmp_path / "booked" / "_delta_log").is_dir()
    assert [g["app"] for g in manager.groups.list() if g["app"] == "landing"] == ["landing"]
