"""What is handed out of a packet to who may not see all of it."""

from __future__ import annotations

from dataclasses import replace

from onceq.model.run import Run
from onceq.packet import address as at
from onceq.packet.decode import decode, encode_headers
from onceq.packet.survey import bodiless, split_bodiless
from tests.unit.packet.samples import every_header, packet

SAID = b"nobody sees this"


def every_header_says(said: bytes) -> bytes:
    """A packet with each header that exists, and more behind them."""
    parts = every_header()
    assert parts.security is not None
    return encode_headers(
        replace(
            parts,
            security=replace(parts.security, flags=parts.security.flags | at.SECURITY_ENCRYPTED),
            properties=replace(
                parts.properties, body=said, body_allocated=len(said) + 4, slack=b"sees"
            ),
            trailing=said,
        )
    )


def test_all_but_what_is_said_comes_through() -> None:
    whole = [packet(body=SAID), packet(body=b"", label=""), packet(transactional=False, body=SAID)]
    run, sizes = split_bodiless(Run.of([bodiless(one) for one in whole]))
    assert sizes == [len(SAID), 0, len(SAID)]
    at = 0
    for length, of in zip(run.lengths, whole, strict=True):
        seen = bytes(run.data[at : at + length])
        assert decode(seen) == replace(decode(of), body=b"")
        at += length
    assert SAID not in bytes(run.data)


def test_nothing_of_it_stands_elsewhere_in_the_packet() -> None:
    record = bodiless(every_header_says(SAID))
    (seen,), (size,) = _split(record)
    assert size == len(SAID)
    assert b"nobody" not in seen
    assert b"sees" not in seen
    assert every_header().soap not in seen
    assert every_header().multi in seen, "how many destinations it has is no secret"


def _split(record: bytes) -> tuple[list[bytes], list[int]]:
    run, sizes = split_bodiless(Run.of([record]))
    return [bytes(run.data)], sizes
