"""Destinations of the pipeline against those to which the core sends the same messages."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

import pyarrow as pa

from onceq.core.inputs import DirectoryChanged
from onceq.core.state.records import Change, decode
from onceq.errors import OnceqError
from onceq.model import requests
from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot
from onceq.model.identity import guid_text
from onceq.model.message import PLAIN
from onceq.model.names import parse_format_name
from onceq.model.queue import QueueProperties
from onceq.model.requests import SendItem
from onceq.model.run import Run
from onceq.spark.operators.expanding import Expander, expand_batch
from tests.unit.core.alone import Core


def guid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def text_of(number: int) -> str:
    return guid_text(guid(number))


NAMES = (
    r"DIRECT=OS:B\private$\q", r"direct=os:b\PRIVATE$\Q", r"DIRECT=OS:B/private$/q",
    r"DIRECT=TCP:10.0.0.2\private$\q", r"DIRECT=OS:B\pub", r"DIRECT=OS:C\private$\r",
    r"DIRECT=HTTP://c.example/msmq/private$/r", r"DIRECT=OS:.\private$\own",
    r"DIRECT=OS:A\private$\own", r"private$\own", r".\private$\own", r"C\private$\r",
    rf"PRIVATE={text_of(0xB)}\00000007", rf"PRIVATE={text_of(0xD)}\1",
    f"PUBLIC={text_of(0x51)}", f"PUBLIC={text_of(0x52)}", f"PUBLIC={text_of(0x5F)}",
    *(f"DL={text_of(0x60 + n)}" for n in range(6)),
)  # fmt: skip
ODD = (
    r"DIRECT=OS:B\private$\q;JOURNAL", r"DIRECT=OS:B\SYSTEM$;DEADXACT", r"DIRECT=OS:B\q;sub",
    f"MACHINE={text_of(0xB)};DEADLETTER", f"CONNECTOR={text_of(0xB)}", "MULTICAST=234.1.1.1:80",
    "", "DIRECT=OS:B", "PRIVATE=x", "FOO=bar", f"PUBLIC={text_of(0x51)};JOURNAL", " ", ",",
)  # fmt: skip


def directory(rng: random.Random) -> Snapshot:
    """B with two addresses, a private queue and public ones; lists in lists, also in circles."""
    members = [name for name in NAMES if name.partition("=")[0] in ("DIRECT", "PUBLIC", "DL")]
    members = [name for name in members if "OS:." not in name and "OS:A" not in name]
    lists = [
        DistributionList(guid(0x60 + n), f"list{n}", tuple(rng.sample(members, rng.randint(0, 4))))
        for n in range(5)
    ]
    return Snapshot(
        [Computer("B", guid(0xB), ("10.0.0.2", "b.example"), {7: "q"}), Computer("C")],
        [PublicQueue(guid(0x51), "B", "pub"), PublicQueue(guid(0x52), "C", "other")],
        lists,
    )


def by_core(text: str, snapshot: Snapshot | None) -> tuple[list[str], str]:
    """The destinations of a send in the order of its copies, or the code of its refusal."""
    core = Core()
    core.ask(
        requests.CreateQueue(
            properties=QueueProperties("own", transactional=True),
            instance=b"o" * 16,
        )
    )
    if snapshot is not None:
        core.step(DirectoryChanged(snapshot))
    before = len(core.records)
    item = SendItem(text, PLAIN, Run.of([b"x"]))
    answer = core.ask(requests.Commit(0, (item,)))
    if isinstance(answer, OnceqError):
        assert not any(isinstance(decode(p, 0), tuple) for _, p in core.records[before:])
        return [], answer.code
    found = []
    for _, payload in core.records[before:]:
        record = decode(payload, 0)
        if isinstance(record, tuple) and isinstance(record[0], Change):
            for put in record[0].puts:
                queue = core.manager.state.all_queues[put.queue]
                found.append(str(getattr(queue, "name", r"DIRECT=OS:A\private$\own")))
    return found, ""


def test_sends_as_the_core_expands_them() -> None:
    rng = random.Random(29)
    codes, most = set(), 0
    for case in range(1_200):
        snapshot = directory(rng) if rng.random() < 0.7 else None
        parts = rng.choices(NAMES[:9] + NAMES[12:], k=rng.choice((1, 1, 2, 3, 5)))
        text = rng.choice((",".join(parts), rng.choice(NAMES), rng.choice(ODD)))
        if rng.random() < 0.1:
            text += "," + rng.choice(ODD)
        names, code = by_core(text, snapshot)
        ours = Expander(snapshot, computer="A").expanded(text)
        assert ours.refusal == code, (case, text, ours.text)
        spelled = [name if name.casefold() != r"direct=os:a\private$\own" else
                   r"DIRECT=OS:A\private$\own" for name in ours.names]  # fmt: skip
        assert spelled == names, (case, text)
        codes.add(code)
        most = max(most, len(names))
    assert most > 3
    assert codes >= {"", "illegal-format-name", "unsupported-format-name", "transaction-usage",
                     "unsupported-operation", "queue-not-found", "illegal-path-name"}  # fmt: skip


def test_names_of_one_queue_have_one_place() -> None:
    snapshot = directory(random.Random(1))
    names = (r"DIRECT=OS:B\private$\q", r"DIRECT=TCP:10.0.0.2\private$\q",
             rf"PRIVATE={text_of(0xB)}\00000007")  # fmt: skip
    places = {Expander(snapshot).expanded(name).places for name in names}
    assert places == {(r"b\private$\q",)}
    assert len(Expander(snapshot).expanded(",".join(names)).names) == 1
    assert len(Expander(None).expanded(",".join(names)).names) == 3


def test_without_a_computer_the_dot_is_refused() -> None:
    found = Expander(None).expanded(r"DIRECT=OS:B\q,DIRECT=OS:.\q")
    assert (found.refusal, found.names) == ("queue-not-found", ())
    assert "computer=" in found.text


def test_a_batch_of_rows() -> None:
    """Each row as often as it has destinations, refused ones once and as they were."""
    queues = [r"DIRECT=OS:C\r,DIRECT=OS:B\q", "nothing=", None, r"DIRECT=OS:B\q", "nothing="]
    columns = {
        "id": pa.array(range(5)),
        "queue": pa.array(queues, pa.string()),
        "body": pa.array([b"0", b"1", b"2", b"3", b"4"], pa.binary()),
    }
    batch = pa.record_batch(columns)
    rows = expand_batch(batch, Expander(), {}).to_pylist()
    found = [(r["id"], r["queue"], r["copy"], r["copies"], r["refusal"]) for r in rows]
    assert found == [
        (0, r"DIRECT=OS:B\q", 0, 2, None),
        (0, r"DIRECT=OS:C\r", 1, 2, None),
        (1, "nothing=", None, None, "illegal-format-name"),
        (2, None, None, None, "illegal-path-name"),
        (3, r"DIRECT=OS:B\q", 0, 1, None),
        (4, "nothing=", None, None, "illegal-format-name"),
    ]
    assert [r["body"] for r in rows] == [b"%d" % n for n in (0, 0, 1, 2, 3, 4)]
    assert {r["place"] for r in rows if r["copy"] is not None} == {
        parse_format_name(name)[0].key() for name in (r"DIRECT=OS:B\q", r"DIRECT=OS:C\r")
    }
    empty: Any = batch.slice(0, 0)
    assert expand_batch(empty, Expander(), {}).num_rows == 0
