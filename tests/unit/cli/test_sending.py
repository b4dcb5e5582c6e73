"""From input to batches: where messages begin and end, and when a batch is full."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from onceq.cli import sending
from onceq.cli.sending import Batches, checked_json, pieces
from onceq.errors import BodyTooLarge, InvalidParameter


def feed(*parts: bytes) -> int:
    """A pipe that has these bytes and then ends."""
    read, write = os.pipe()

    def work() -> None:
        for part in parts:
            os.write(write, part)
        os.close(write)

    threading.Thread(target=work, daemon=True).start()
    return read


def read_all(descriptor: int, separator: bytes = b"\n") -> list[bytes]:
    found = [body for some in pieces(descriptor, separator) for body in some]
    os.close(descriptor)
    return found


def test_lines_are_messages_and_the_last_needs_no_end() -> None:
    assert read_all(feed(b"one\ntwo\n\nfour")) == [b"one", b"two", b"", b"four"]


def test_a_final_newline_adds_nothing() -> None:
    assert read_all(feed(b"one\n")) == [b"one"]
    assert read_all(feed(b"")) == []


def test_nul_separates_and_newlines_stay() -> None:
    assert read_all(feed(b"a\nb\0c\0"), b"\0") == [b"a\nb", b"c"]


def test_messages_cut_anywhere_between_reads() -> None:
    whole = b"\n".join(b"%d" % n for n in range(2000)) + b"\n"
    parts = [whole[at : at + 7] for at in range(0, len(whole), 7)]
    assert read_all(feed(*parts)) == [b"%d" % n for n in range(2000)]


def test_a_message_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PACKET_BYTES_MAX", 1000)
    with pytest.raises(BodyTooLarge):
        read_all(feed(b"x" * 5000))


def test_a_pause_is_noticed_before_the_input_ends() -> None:
    read, write = os.pipe()
    os.write(write, b"now\n")
    found = pieces(read, b"\n")
    assert next(found) == [b"now"]
    assert next(found) == []  # nothing more for the moment: what there is shall go
    os.close(write)
    assert list(found) == []
    os.close(read)


def batches(found: list[list[bytes]], count: int) -> tuple[list[list[bytes]], int]:
    made = Batches(iter(found), count)
    return list(made), made.read


def test_batches_are_full_and_the_rest_follows() -> None:
    made, read = batches([[b"%d" % n for n in range(7)]], 3)
    assert [len(batch) for batch in made] == [3, 3, 1]
    assert [body for batch in made for body in batch] == [b"%d" % n for n in range(7)]
    assert read == 7


def test_a_pause_ends_a_batch() -> None:
    made, _ = batches([[b"a"], [b"b"], [], [], [b"c"]], 100)
    assert made == [[b"a", b"b"], [b"c"]]


def test_a_batch_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "BATCH_BYTES_MAX", 10)
    made, _ = batches([[b"12345", b"12345", b"1", b"x" * 50, b"y"]], 100)
    assert made == [[b"12345", b"12345"], [b"1"], [b"x" * 50], [b"y"]]


def test_what_was_read_is_counted_before_it_is_sent() -> None:
    def found() -> Iterator[list[bytes]]:
        yield [b"1", b"2", b"3"]

    made = Batches(found(), 2)
    assert next(iter(made)) == [b"1", b"2"]
    assert made.read == 3


def test_what_is_no_json_is_counted_and_named() -> None:
    found = checked_json(iter([[b"1", b'{"a": 2}'], [], [b"[3]", b"{", b"5"]]))
    assert next(found) == [b"1", b'{"a": 2}']
    assert next(found) == []
    assert next(found) == [b"[3]"], "what stands before it is sent"
    with pytest.raises(InvalidParameter, match="message 4 of the input is not JSON"):
        next(found)
