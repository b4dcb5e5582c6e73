"""HTTP from strangers: each connection takes any bytes, and answers what it refuses."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.wire.http import HttpRequest, Refusal, ServedConnection

EXAMPLES = int(os.environ.get("ONCEQ_FUZZ_EXAMPLES", "300"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 300)
HEAD_BYTES_MAX = 2_000

lines = st.sampled_from(
    [
        b"GET /metrics HTTP/1.1\r\n", b"HEAD / HTTP/1.1\r\n", b"POST /msmq/q HTTP/1.0\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n", b"Host: b\r\n", b"Content-Length: 3\r\n", b"\r\n", b"\n",
        b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"abc",
        b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Upgrade: h2c\r\n", b"3\r\nabc\r\n",
    ]
)  # fmt: skip


@FUZZ
@given(st.lists(lines | st.binary(max_size=600), max_size=20), st.booleans(), st.booleans())
def test_a_served_connection_takes_anything(chunks: list[bytes], strict: bool, last: bool) -> None:
    output = bytearray()

    def judge(head: HttpRequest) -> Refusal | None:
        assert head.method
        assert not head.body
        return Refusal(403, "no", (("A", "b"),)) if strict else None

    served = ServedConnection(judge, output.extend, HEAD_BYTES_MAX)
    taken = refused = 0
    for chunk in chunks:
        served.receive(chunk)
        while (found := served.next_request()) is not None:
            before = len(output)
            if isinstance(found, HttpRequest):
                taken += 1
                assert served.pending
                assert len(found.body) <= sum(map(len, chunks))
                assert served.next_request() is None, "it waits for its answer"
                served.answer(200, b"content", last=last)
            else:
                refused += 1
                assert 400 <= found.status < 600
                served.answer(found.status, found.text.encode(), fields=found.fields, last=True)
            assert len(output) > before
            assert not served.pending
    assert refused <= 1, "nothing is read behind a refused one"
    assert not (strict and taken)
    assert not (last and taken > 1)
