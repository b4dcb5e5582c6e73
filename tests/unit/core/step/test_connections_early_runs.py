"""What came before something that is missing: kept in order, within bounds, and let go."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from onceq.core.step import connections
from onceq.core.step.connections import EarlyRuns
from onceq.model import limits
from onceq.model.message import Properties
from onceq.model.run import Run
from onceq.packet.address import Address
from onceq.packet.arrived import ArrivedRun, cut
from onceq.packet.encode import encode_run, template

KEY = (b"A" * 16, "q")
OTHER = (b"C" * 16, "q")


def run_of(number: int, count: int = 1, *, stream: int = 7, message: int = 0) -> ArrivedRun:
    made = template(
        source=b"A" * 16, destination=Address(7, direct="OS:B\\private$\\q"),
        properties=Properties(), sent_time=1, transactional=True,
    )  # fmt: skip
    made_of = encode_run(
        made, Run.of([b"x"] * count), first_message=message or number, stream=stream,
        first_number=number, transaction=1, first=True, last=True,
    )  # fmt: skip
    (found,) = cut(bytes(made_of.data), made_of.lengths)
    return found


def shown(early: EarlyRuns, last: int, *, session: int = 1, stream: int = 7) -> list[int]:
    """First numbers of what is given, each taken as accepted."""
    found = []
    while run := early.next(KEY, session, stream, last):
        found.append(run.first_number)
        last = max(last, run.first_number + len(run.packets) - 1)
    return found


def test_runs_are_shown_in_order_as_far_as_nothing_is_missing() -> None:
    early = EarlyRuns()
    for number in (9, 4, 7, 5):
        assert early.keep_run(KEY, 1, 1, run_of(number))
    assert early.missing(KEY, 7, 2) == (3, 3)
    assert shown(early, 2) == []
    assert shown(early, 3) == [4, 5]
    assert early.advanced(KEY, 5)
    assert early.missing(KEY, 7, 5) == (6, 6)
    assert shown(early, 6) == [7]
    assert shown(early, 8) == [9]
    assert not early.advanced(KEY, 9)
    assert (early.streams, early.bytes) == ({}, 0)


def test_the_first_hole_alone_is_named() -> None:
    early = EarlyRuns()
    early.keep_run(KEY, 1, 1, run_of(9))
    assert early.missing(KEY, 7, 2) == (3, 8)
    early.keep_run(KEY, 1, 1, run_of(5))
    assert early.missing(KEY, 7, 2) == (3, 4)
    early.keep_run(KEY, 1, 1, run_of(12))
    assert early.missing(KEY, 7, 2) == (3, 4)
    assert early.missing(KEY, 8, 2) == (0, 0), "another stream"
    assert early.missing(OTHER, 7, 2) == (0, 0)


def test_a_repetition_is_kept_once_and_another_message_beside_it() -> None:
    early = EarlyRuns()
    early.keep_run(KEY, 1, 1, run_of(5, 2))
    held = early.bytes
    assert early.keep_run(KEY, 1, 1, run_of(5, 2))
    assert early.bytes == held
    early.keep_run(KEY, 1, 1, run_of(5, 2, message=99))
    assert early.bytes == 2 * held


def test_what_is_kept_is_a_copy() -> None:
    made = run_of(5)
    data = bytearray(made.packets.data)
    early = EarlyRuns()
    early.keep_run(KEY, 1, 1, replace(made, packets=Run(memoryview(data), made.packets.lengths)))
    data[:] = bytes(len(data))
    kept = early.next(KEY, 1, 7, 4)
    assert kept is not None
    assert bytes(kept.packets.data) == bytes(made.packets.data)
    assert kept.message_numbers == array("I", [5])


@pytest.mark.parametrize(
    ("session", "stream", "reason"),
    [(2, 7, connections.SESSION_CLOSED), (1, 8, connections.STREAM_LEFT)],
)
def test_another_session_or_stream_lets_it_go(session: int, stream: int, reason: str) -> None:
    early = EarlyRuns()
    early.keep_run(KEY, 1, 1, run_of(5))
    assert shown(early, 4, session=session, stream=stream) == []
    assert (early.streams, early.bytes, early.dropped[reason]) == ({}, 0, 1)
    early.keep_run(KEY, 1, 1, run_of(5))
    early.keep_run(KEY, session, 1, run_of(6, stream=stream))
    (found,) = early.streams.values()
    assert [run.first_number for run in found.runs] == [6]
    assert early.bytes == found.bytes
    assert early.dropped[reason] == 2


def test_sessions_and_queues_take_along_what_is_theirs() -> None:
    early = EarlyRuns()
    early.keep_run(KEY, 1, 1, run_of(5))
    early.keep_run(OTHER, 2, 4, run_of(5))
    assert early.of_session(2) == [OTHER]
    early.closed(2)
    early.deleted(4)
    assert list(early.streams) == [KEY]
    early.deleted(1)
    assert (early.streams, early.bytes) == ({}, 0)


def test_there_is_so_much_room_for_a_session_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    size = connections._size(run_of(5))
    monkeypatch.setattr(limits, "EARLY_SESSION_BYTES_MAX", 2 * size)
    monkeypatch.setattr(limits, "EARLY_BYTES_MAX", 3 * size)
    early = EarlyRuns()
    assert [early.keep_run(KEY, 1, 1, run_of(n)) for n in (5, 6, 7)] == [True, True, False]
    assert [early.keep_run(OTHER, 2, 1, run_of(n)) for n in (5, 6)] == [True, False]
    assert (early.bytes, early.dropped[connections.NO_ROOM]) == (3 * size, 2)
    early.closed(1)
    assert early.keep_run(OTHER, 2, 1, run_of(6))


def test_a_hole_stays_known_where_nothing_could_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EARLY_SESSION_BYTES_MAX", 0)
    early = EarlyRuns()
    assert not early.keep_run(KEY, 1, 1, run_of(5))
    assert early.missing(KEY, 7, 2) == (3, 4)
    assert early.advanced(KEY, 3)
    assert not early.advanced(KEY, 4)
    assert early.streams == {}
