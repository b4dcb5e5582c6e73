"""The memory of what was appended last: bounded, and safe to read from any thread."""

from __future__ import annotations

import threading

from onceq.store.log import TRIM_AT, Recent


def _bytes(recent: Recent, address: int, size: int) -> bytes | None:
    found = recent.read(address, size)
    return None if found is None else bytes(found)


def test_reads_are_within_one_payload() -> None:
    recent = Recent(1000)
    assert recent.read(0, 1) is None
    recent.add(32, b"abcdef", written=0)
    recent.add(72, b"ghi", written=0)
    assert _bytes(recent, 32, 6) == b"abcdef"
    assert _bytes(recent, 34, 2) == b"cd"
    assert _bytes(recent, 72, 3) == b"ghi"
    assert recent.read(31, 2) is None
    assert recent.read(36, 3) is None
    assert recent.read(72, 4) is None


def test_what_is_written_is_forgotten_for_room() -> None:
    recent = Recent(100)
    for n in range(10):
        recent.add(n * 100, bytes(40), written=n * 100)
    assert recent.bytes <= 100
    assert recent.read(0, 40) is None
    assert recent.read(900, 40) is not None


def test_what_is_not_written_is_kept_at_any_size() -> None:
    recent = Recent(100)
    for n in range(10):
        recent.add(n * 100, bytes(40), written=0)
    assert recent.read(0, 40) is not None
    recent.add(1000, b"x", written=1000)
    assert recent.bytes <= 100


def test_lists_are_trimmed() -> None:
    recent = Recent(10)
    for n in range(3 * TRIM_AT):
        recent.add(n * 100, b"12345678", written=n * 100)
    places, payloads = recent._state
    assert len(places) == len(payloads) <= TRIM_AT * 2 + 2


def test_readers_see_right_bytes_or_none_while_it_moves() -> None:
    recent = Recent(50_000)
    count, wrong, stop = 60_000, [], threading.Event()

    def read() -> None:
        while not stop.is_set():
            places, _ = recent._state
            if places:
                address = places[-1]
                for back in (0, 100, 10_000, 500_000):
                    found = recent.read(address - back, 8)
                    if found is not None and found != b"%08d" % (address - back):
                        wrong.append(address - back)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(count):
        recent.add(n * 100, b"%08d" % (n * 100), written=n * 100)
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
