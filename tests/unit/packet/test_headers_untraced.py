"""Packets without the marks of traces: as if none had ever been there."""

from __future__ import annotations

import pytest

from onceq.model.marks import TRACED_MARK, delayed, trace_trailer
from onceq.model.message import Properties
from onceq.model.run import Run
from onceq.packet.address import DIRECT, Address, Element, MultiNames
from onceq.packet.arrived import cut
from onceq.packet.decode import decode
from onceq.packet.encode import encode_run, template
from onceq.packet.headers import untraced_packets

TEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MARK = trace_trailer(TEXT)
MULTI = MultiNames((Element(3, direct="OS:A\\q"), Element(2, b"g" * 16, 1)))


def packets(extension: bytes, *, transactional: bool = True, multi: MultiNames | None = None,
            bodies: tuple[bytes, ...] = (b"", b"1", b"22", b"333", b"4444")) -> Run:  # fmt: skip
    made = template(
        source=b"S" * 16, destination=Address(DIRECT, direct="OS:B\\q"), sent_time=1, multi=multi,
        properties=Properties(label="label", extension=extension), transactional=transactional,
    )  # fmt: skip
    return encode_run(
        made, Run.of(list(bodies)), first_message=1, stream=9 * transactional,
        first_number=int(transactional),
    )  # fmt: skip


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("multi", [None, MULTI])
@pytest.mark.parametrize("extension", [b"", b"x", b"four", b"extension"])
def test_packets_are_as_if_no_mark_had_been_there(
    extension: bytes, multi: MultiNames | None, transactional: bool
) -> None:
    traced = packets(extension + MARK, transactional=transactional, multi=multi)
    plain = packets(extension, transactional=transactional, multi=multi)
    assert decode(bytes(next(iter(traced)))).traceparent == TEXT
    assert untraced_packets(traced.data) == plain.data
    (run,) = cut(untraced_packets(traced.data), plain.lengths)
    assert len(run.packets) == len(plain)


def test_the_mark_of_a_delay_stays() -> None:
    traced = packets(delayed(b"x" + MARK, 1_700_000_000))
    assert untraced_packets(traced.data) == packets(delayed(b"x", 1_700_000_000)).data


def test_packets_without_a_mark_are_not_even_copied() -> None:
    data = packets(b"extension").data
    assert untraced_packets(data) is data


def test_only_those_with_a_mark_change() -> None:
    data = [packets(b"x").data, packets(b"x" + MARK).data, packets(b"y").data]
    found = untraced_packets(b"".join(data))
    assert found == b"".join((data[0], packets(b"x").data, data[2]))


@pytest.mark.parametrize("body", [TRACED_MARK, MARK, b"1" + MARK + b"2"])
def test_a_body_that_looks_like_a_mark_stays(body: bytes) -> None:
    data = packets(b"x", bodies=(body,)).data
    assert untraced_packets(data) == data
    both = packets(b"x" + MARK, bodies=(body,)).data
    assert untraced_packets(both) == data
