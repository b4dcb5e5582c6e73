"""A real daemon that is killed again and again keeps a history without a hole or a repetition."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import onceq
from onceq.errors import ReceiveTimeout
from onceq.history.columns import META, Start, span_of
from tests.daemon.process import Process

QUEUE = r"private$\q"
LIVES = 4
COMMITS = 25


@pytest.mark.slow
def test_killed_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir()
    (path / "onceq.toml").write_text("[settings]\nhistory = true\nhistory_roll_s = 1\n")
    done = 0
    for life in range(LIVES):
        daemon = Process(path, "--listen", "", "--create", "ALPHA").started()
        manager = onceq.connect(str(path))
        if not life:
            manager.create_queue(QUEUE, transactional=True)
        for at in range(COMMITS):
            with manager.transaction() as tx:
                tx.send_many(QUEUE, [b"%d" % at] * 3)
                if at % 5 == 4:
                    tx.receive(QUEUE, timeout=0.0)
            done += 1
        daemon.end(signal.SIGKILL)
        manager.close()
    daemon = Process(path, "--listen", "").started()
    manager = onceq.connect(str(path))
    taken = LIVES * COMMITS // 5
    received = 0
    try:
        while True:
            received += len(manager.receive_many(QUEUE, 1_000, timeout=0.0))
    except ReceiveTimeout:
        pass
    manager.close()
    assert daemon.end() == 0

    spans = sorted(span for file in (path / "history").iterdir() if (span := span_of(file.name)))
    assert spans[0].start == 0
    assert all(one.end == other.start for one, other in pairwise(spans))
    table = pa.concat_tables(pq.read_table(path / "history" / span.name) for span in spans)
    rows = table.to_pylist()
    places = [(row["position"], row["ordinal"]) for row in rows]
    assert places == sorted(set(places))
    told = [row["event"] for row in rows]
    assert told.count("committed") == done * 3 == received + taken
    assert told.count("received") == received + taken
    assert len({row["message"] for row in rows if row["event"] == "committed"}) == done * 3
    metas = [pq.read_schema(path / "history" / span.name).metadata[META] for span in spans]
    starts = [Start.of(one) for meta in metas for one in json.loads(meta)["starts"]]
    assert [one.orderly for one in starts] == [None, *[False] * LIVES]
    assert all(one.at_us < other.at_us for one, other in pairwise(starts))
