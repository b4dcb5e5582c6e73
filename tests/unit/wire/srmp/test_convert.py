"""What goes over HTTP for a packet."""

from __future__ import annotations

import pytest

from onceq.model.http import HttpNames
from onceq.model.marks import delayed, trace_trailer
from onceq.model.message import Properties
from onceq.model.run import Run
from onceq.packet.address import DIRECT, Address
from onceq.packet.encode import encode_run, template
from onceq.wire.srmp.convert import post_of

MARK = trace_trailer("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
URL = "http://b/msmq/private$/q"


def packet(extension: bytes) -> bytes:
    made = template(
        source=b"S" * 16, destination=Address(DIRECT, direct=URL), sent_time=1,
        properties=Properties(extension=extension), transactional=True,
    )  # fmt: skip
    run = encode_run(made, Run.of([b"body"]), first_message=1, stream=9, first_number=1)
    return bytes(run.data)


@pytest.mark.parametrize("plain", [b"", b"x", delayed(b"x", 1_700_000_000)])
def test_no_byte_of_a_trace_goes_over_http(plain: bytes) -> None:
    traced = plain[:1] + MARK + plain[1:]
    there = post_of(packet(traced), URL, b"S" * 16, HttpNames())
    assert there.extension == plain
    assert there == post_of(packet(plain), URL, b"S" * 16, HttpNames())
