"""The table of addresses for receipts: one entry for each sender and queue."""

from __future__ import annotations

import json

import pytest

from onceq.core.state.peer_table import Receipts
from onceq.core.state.setups import encode_rows
from onceq.model import limits

A, B = b"A" * 16, b"B" * 16


def test_a_stream_takes_the_place_of_the_one_before() -> None:
    made = Receipts()
    made.learn(A, 1, "first")
    made.learn(A, 2, "other queue")
    made.learn(B, 1, "of B")
    made.learn(A, 3, "second", left=1)
    assert len(made) == 3
    assert [made.of_stream(A, stream) for stream in (1, 2, 3)] == [None, "other queue", "second"]
    assert made.of_stream(B, 1) == "of B"
    assert made.of_source(A) == "second"
    made.learn(A, 3, "elsewhere", left=3)
    assert (made.of_stream(A, 3), len(made)) == ("elsewhere", 3)


def test_the_address_learned_last_is_known_after_a_checkpoint() -> None:
    made, again = Receipts(), Receipts()
    made.learn(A, 1, "first")
    made.learn(A, 2, "second")
    made.learn(A, 1, "again")
    again.load(json.loads(encode_rows(made.dump())))
    assert again.dump() == made.dump()
    assert again.of_source(A) == "again"
    assert again.of_source(B) is None


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAMS_MAX", 2)
    made = Receipts()
    for source, stream in ((A, 1), (B, 1), (B, 2), (B, 3)):
        made.learn(source, stream, str(stream))
    assert len(made) == 2
    assert (made.of_source(A), made.of_source(B)) == (None, "3")
    made.learn(A, 9, "9")
    assert made.of_source(B) == "3"
