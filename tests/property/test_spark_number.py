"""Numbers of the pipeline against those that the core gives to the same commits."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

import numpy as np
import pyarrow as pa

from onceq.core import inputs
from onceq.core.items import SendItem
from onceq.core.records import Change, decode
from onceq.model.message import PLAIN
from onceq.model.run import Run
from onceq.packet.headers import headers
from onceq.spark.operators import rules
from onceq.spark.operators.memory import Memory
from onceq.spark.operators.numbering import Numbering
from tests.unit.core.alone import Core

QUEUES = tuple(rf"DIRECT=OS:{host}\private$\{name}" for host in "BC" for name in "qr")


@dataclass
class Sender:
    """Manager A, where transactions are open side by side; what it commits is kept as rows."""

    rng: random.Random
    core: Core = field(default_factory=Core)
    begun: int = 0
    commits: int = 0
    open: dict[int, list[tuple[str, bytes]]] = field(default_factory=dict)
    rows: list[tuple[str, int, int, bytes]] = field(default_factory=list)
    """Queue, place of the commit, place in the transaction, body."""

    def something(self) -> None:
        """Begin, send, commit or abort, at random."""
        if not self.open or self.rng.random() < 0.2:
            self.begun += 1
            self.open[self.begun] = []
            self.core.ask(lambda o, r: inputs.Begin(o, r, self.begun))
            return
        tx = self.rng.choice(list(self.open))
        what = self.rng.random()
        if what < 0.65:
            names = self.rng.sample(QUEUES, self.rng.choice((1, 1, 2)))
            bodies = [b"%d" % (len(self.open[tx]) + k + 1000 * tx) for k in range(3)]
            item = SendItem(",".join(names), PLAIN, Run.of(bodies[: self.rng.randint(1, 3)]))
            self.core.ask(lambda o, r: inputs.Send(o, r, tx, (item,)))
            self.open[tx] += [(name, bytes(body)) for name in names for body in item.bodies]
        elif what < 0.95:
            self.core.ask(lambda o, r: inputs.Commit(o, r, tx))
            self.commits += 1
            sent = self.open.pop(tx)
            self.rows += [(q, self.commits, k, body) for k, (q, body) in enumerate(sent)]
        else:
            self.core.ask(lambda o, r: inputs.Abort(o, r, tx))
            self.open.pop(tx)

    def numbered(self) -> dict[str, list[tuple[bytes, int, int]]]:
        """Body, number and previous number of each message by queue, as its packet has them."""
        found = defaultdict(list)
        streams = defaultdict(set)
        for _, payload in self.core.records:
            record = decode(payload)
            if not isinstance(record, tuple) or not isinstance(record[0], Change):
                continue
            for put in record[0].puts:
                for packet in put.packets:
                    parts = headers(packet)
                    tx = parts.transaction
                    assert tx is not None
                    queue = "DIRECT=" + parts.user.destination.direct
                    body = bytes(parts.properties.body)
                    found[queue].append((body, tx.number, tx.previous))
                    streams[queue].add(tx.stream)
        assert all(len(ids) == 1 for ids in streams.values()), "nothing was acknowledged: one each"
        return dict(found)


def table_of(rows: list[tuple[str, int, int, bytes]]) -> Any:
    return pa.table(
        {
            "sourceMachine": pa.array(["A"] * len(rows), pa.string()),
            "queue": pa.array([row[0] for row in rows], pa.string()),
            "commitOrder": pa.array([row[1] for row in rows], pa.int64()),
            "sendOrder": pa.array([row[2] for row in rows], pa.int32()),
            "body": pa.array([row[3] for row in rows], pa.binary()),
        }
    )


def numbers_in(out: Any) -> dict[str, list[tuple[bytes, int, int]]]:
    found = defaultdict(list)
    for row in out.to_pylist():
        if row["seqNumber"] is not None:
            found[row["queue"]].append((row["body"], row["seqNumber"], row["prevNumber"]))
    return found


def test_commits_as_the_core_numbers_them() -> None:
    """Interleaved transactions to several queues, in micro-batches that may cut transactions, with
    rows of each in any order and repeated, across batches that are run again."""
    rng = random.Random(17)
    messages = 0
    for _ in range(50):
        sender = Sender(rng)
        for _ in range(rng.randint(5, 60)):
            sender.something()
        work, memory = Numbering(77, 4), Memory.empty(Numbering.fields)
        cuts = sorted(rng.randint(0, len(sender.rows)) for _ in range(3))
        ours: dict[str, list[tuple[bytes, int, int]]] = defaultdict(list)
        for a, b in zip([0, *cuts], [*cuts, len(sender.rows)], strict=True):
            batch = sender.rows[a:b] + rng.choices(sender.rows[:b] or [], k=3 if b else 0)
            rng.shuffle(batch)
            out, after = work.done(table_of(batch), memory, 5)
            again, _ = work.done(table_of(batch), memory, 5)
            assert out.equals(again)
            for queue, found in numbers_in(out).items():
                ours[queue] += found
            memory = Memory.read(after.write(4), 4)
        theirs = sender.numbered()
        assert ours == theirs
        messages += sum(map(len, theirs.values()))
    assert messages > 1_000


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 6), st.integers(0, 3)), max_size=30),
    st.integers(0, 30),
)
def test_a_number_is_given_once_and_in_order(rows: list[tuple[int, int, int]], cut: int) -> None:
    """Whatever comes in whatever pieces: numbers are 1, 2, ... in the order of places, each place
    has one, and only what comes behind a later place has none."""
    lasts = commits = sends = np.zeros(3, np.int64)
    given_to: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for part in (rows[:cut], rows[cut:]):
        table = np.array(part, np.int64).reshape(-1, 3)
        found = rules.number(table[:, 0], table[:, 1], table[:, 2], lasts, commits, sends)
        reached = {key: places[-1] for key, places in given_to.items()}
        new: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        for (key, commit, send), number in zip(part, found.numbers.tolist(), strict=True):
            if number:
                assert number not in new[key]
                new[key][number] = (commit, send)
        for key, numbers in new.items():
            assert sorted(numbers) == list(
                range(len(given_to[key]) + 1, len(given_to[key]) + len(numbers) + 1)
            )
            given_to[key] += [numbers[n] for n in sorted(numbers)]
        for key, commit, send in part:
            assert (commit, send) in given_to[key] or (commit, send) < reached[key]
        lasts, commits, sends = found.lasts, found.commits, found.sends
    for key, places in given_to.items():
        assert places == sorted(set(places))
        assert (lasts[key], commits[key], sends[key]) == (len(places), *places[-1])


def test_a_stream_keeps_the_time_that_it_began() -> None:
    work, memory = Numbering(None, 4), Memory.empty(Numbering.fields)
    out, memory = work.done(table_of([("q", 1, 0, b"a")]), memory, 1_000)
    assert out["streamId"].to_pylist() == [str(1_000 << 32 | 1)]
    out, memory = work.done(table_of([("q", 2, 0, b"b"), ("r", 2, 1, b"c")]), memory, 2_000)
    assert out["streamId"].to_pylist() == [str(1_000 << 32 | 1), str(2_000 << 32 | 1)]


def test_rows_without_a_place_get_no_number() -> None:
    rows = [("q", 1, 0, b"a"), ("q", 1, 1, b"b"), ("q", 1, 2, b"c")]
    for column in ("sourceMachine", "queue", "commitOrder", "sendOrder"):
        table = table_of(rows)
        values = table[column].to_pylist()
        values[1] = None
        changed = table.set_column(
            table.column_names.index(column), column, pa.array(values, table[column].type)
        )
        out, _ = Numbering(1, 4).done(changed, Memory.empty(Numbering.fields), 0)
        found = {row["body"]: row["seqNumber"] for row in out.to_pylist()}
        assert found == {b"a": 1, b"b": None, b"c": 2}, column


def test_used_up_numbers_are_told() -> None:
    memory = Memory(
        pa.array(["a\nq"]),
        {"stream": np.array([1], np.uint64), "last": np.array([rules.NUMBER_MAX]),
         "commit": np.array([1]), "send": np.array([0])},
    )  # fmt: skip
    with pytest.raises(Exception, match=r"\[configuration\].*used up"):
        Numbering(1, 4).done(table_of([("q", 2, 0, b"")]), memory, 0)
