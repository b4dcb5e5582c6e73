"""The samples of the pages about Spark run, and every option is in one of them."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceq.errors import QueueNotFound
from onceq.spark.source.options import OPTIONS

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"options": DOCS / "reference" / "spark-options.md", "how-to": DOCS / "how-to" / "spark.md"}


ELSEWHERE = (
    r"\n## Write rows to queues[^\n]*\n.*?(?=\n## |\Z)",
    r"\n## Spark on a cluster, with TLS[^\n]*\n.*?(?=\n## |\Z)",
    r"\n```python no-run\n[^\n]*at SECURE.*?```",
)
"""Have tests of their own."""


def samples(page: str) -> list[str]:
    text = PAGES[page].read_text()
    for part in ELSEWHERE:
        text = re.sub(part, "", text, flags=re.S)
    return re.findall(r"```python no-run\n(.*?)```", text, re.S)


def test_every_option_is_in_a_sample() -> None:
    text = PAGES["options"].read_text()
    assert [option.name for option in OPTIONS if f'option("{option.name}"' not in text] == []


@pytest.fixture
def refill(daemon: Any, other: Any) -> Callable[[], None]:
    """Three messages in each queue that the samples name."""

    def refill() -> None:
        for hub, queue in ((daemon, "orders"), (daemon, "returns"), (other, "orders")):
            name = f"private$\\{queue}"
            # Another queue each time: each sample has a checkpoint of its own.
            with contextlib.suppress(QueueNotFound):
                hub.manager.delete_queue(name)
            hub.manager.create_queue(name, transactional=True)
            bodies = ['{"id": 1, "price": 2.5}', '{"id": 2, "price": 0.5}', "{}"]
            hub.manager.send_many(name, bodies, transactional=True)

    return refill


def drained(rows: Any, checkpoint: str) -> int:
    """How many rows a stream has; others have what they have."""
    if not rows.isStreaming:
        return int(rows.count())
    query = (
        rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return sum(progress.numInputRows for progress in query.recentProgress)


@pytest.mark.parametrize("page", PAGES)
def test_samples_run(
    spark: Any, daemon: Any, other: Any, tmp_path: Path, refill: Any, monkeypatch: Any, page: str
) -> None:
    names: dict[str, Any] = {"spark": spark, "HUB": daemon.address, "SPOKE": other.address}
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(type(spark.streams), "addListener", lambda self, listener: None)
    monkeypatch.setattr("onceq.spark.data_source.ship", lambda session: None)
    streams: list[int] = []
    for number, sample in enumerate(samples(page)):
        refill()
        file = tmp_path / f"sample-{number}.py"
        # Java has a working folder of its own, where "./hub" is not.
        for name in ("orders.parquet", "orders.checkpoint", "back.checkpoint"):
            sample = sample.replace(f'"{name}"', repr(str(tmp_path / name)))
        file.write_text(sample.replace('"./hub"', repr(str(daemon.path))))
        found = runpy.run_path(str(file), init_globals=names)
        if "rows" in found:
            streams.append(drained(found["rows"], str(tmp_path / f"checkpoint-{number}")))
        if "decoded" in found:
            assert [row.id for row in found["orders"].orderBy("lookupId").collect()] == [1, 2, None]
    if page == "how-to":
        assert spark.read.parquet(str(tmp_path / "orders.parquet")).count() == 3
    else:
        assert streams == [0, 6, 3, 6]
