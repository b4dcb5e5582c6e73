"""SRMP from strangers: every parser answers with a value or a MalformedPacket, and what is written
is read again."""

from __future__ import annotations

import contextlib
import os

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from onceq.errors import MalformedPacket, OnceqError
from onceq.model.http import Arrival, HttpNames
from onceq.model.limits import HTTP_ENTITY_BYTES_MAX
from onceq.model.settings import Settings
from onceq.wire.mqqb.internal import Acked, Arrived, Closed, Opened
from onceq.wire.srmp import convert, envelope, mapping
from onceq.wire.srmp.convert import post_of, runs_of
from onceq.wire.srmp.envelope import Envelope, Msmq, Receipt, StreamPart, StreamReceipt
from onceq.wire.srmp.session import Posting, Taking, refuse_head

EXAMPLES = int(os.environ.get("ONCEQ_FUZZ_EXAMPLES", "300"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 300)
OWN = b"O" * 16
HEAD = (
    b'POST /msmq/q HTTP/1.1\r\nHost: b\r\nContent-Type: text/xml\r\nSOAPAction: "MSMQMessage"\r\n'
)
NAMES = HttpNames(frozenset(("b",)), "http://b/msmq/private$/order_queue$")

u32 = st.integers(0, (1 << 32) - 1)
number = st.integers(1, (1 << 32) - 1)
u64 = st.integers(1, (1 << 64) - 1)
guid = st.binary(min_size=16, max_size=16)
date = st.integers(0, envelope.FOREVER_S)
urls = st.sampled_from(
    ["http://b/msmq/private$/q", "https://b:8443/msmq/q", "http://b/msmq/private$/a?b=c&d"]
)
maybe = st.just("") | urls


def paired(text: str) -> str:
    """As it is after a packet: two halves that fit are one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


text = st.text(st.characters() | st.characters(exclude_categories=["L", "S"]), max_size=60)
text = text.map(paired)
msmqs = st.builds(
    Msmq, st.integers(0, 0xFFFF), st.integers(0, 7), st.booleans(), st.booleans(),
    st.binary(min_size=20, max_size=20), st.booleans(), u32, u32, u32, st.booleans(),
    st.booleans(), guid, date,
)  # fmt: skip
streams = st.builds(StreamPart, guid, u64, number, st.none(), maybe)
receipts = st.builds(StreamReceipt, guid, u64, number)
told = st.lists(
    st.builds(Receipt, date, st.none() | st.booleans(), u32, guid),
    max_size=2, unique_by=lambda r: r.decision is None,
).map(lambda found: tuple(sorted(found, key=lambda r: r.decision is not None)))  # fmt: skip
envelopes = st.builds(
    Envelope, urls, text, u32, guid, maybe, date, date, st.booleans(), maybe, maybe,
    st.booleans(), st.booleans(), st.none() | streams, st.none() | receipts, told,
    st.none() | msmqs,
)  # fmt: skip


@FUZZ
@given(envelopes, st.binary(max_size=200), st.binary(max_size=9))
def test_envelopes_round_trip(made: Envelope, body: bytes, extension: bytes) -> None:
    raw = envelope.write(made)
    found = envelope.read(raw)
    if not made.commitment_to:
        # Without an address for them there are no flags.
        assert (found.positive, found.negative) == (False, False)
        made = envelope.read(raw)
    assert found == made
    for content in (body, None):
        kind, entity = convert.write(raw, content, "x")
        assert convert.read(kind, entity) == (raw, content or b"", b"")
    kind, entity = convert.write(raw, body, "x", extension)
    assert convert.read(kind, entity) == (raw, body, extension)


@FUZZ
@given(st.binary(max_size=400))
def test_any_bytes(raw: bytes) -> None:
    for parse in (envelope.parse, envelope.read, mapping.read_mappings):
        with contextlib.suppress(MalformedPacket):
            parse(raw)
    for kind in ("text/xml", 'multipart/related; boundary="B"', "multipart/x; boundary=B"):
        with contextlib.suppress(MalformedPacket):
            convert.read(kind, raw.replace(b"\x00", b"--B"))


@FUZZ
@given(envelopes, st.data())
def test_changed_envelopes_are_read_or_refused(made: Envelope, data: st.DataObject) -> None:
    raw = bytearray(envelope.write(made))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    with contextlib.suppress(OnceqError):
        found = envelope.read(bytes(raw))
        for here in (True, False):
            arrival = Arrival("http://b/msmq/private$/q", here=here)
            for run in runs_of(found, b"body", b"", arrival, OWN, hops=3):
                for packet in run.packets:
                    post_of(bytes(packet), "http://b/msmq/private$/q", OWN, NAMES)


@FUZZ
@given(envelopes, st.binary(max_size=99), st.binary(max_size=20))
def test_what_arrives_can_be_sent_on(made: Envelope, body: bytes, extension: bytes) -> None:
    """A packet made of an envelope gives that envelope's message again."""
    try:
        runs = runs_of(made, body, extension, Arrival("http://b/msmq/private$/q", here=True), OWN)
    except OnceqError:
        reject()  # Hypothesis complains when this is all that happens.
    for run in runs:
        (packet,) = run.packets
        post = post_of(bytes(packet), "http://b/msmq/private$/q", OWN, NAMES)
        if made.stream_receipt is None and made.msmq is not None:
            assert post.envelope.label == (made.label or "")
            assert post.envelope.msmq is not None
            assert post.envelope.msmq.correlation == made.msmq.correlation
            assert post.envelope.msmq.trace == made.msmq.trace
            assert (post.body or b"", post.extension) == (body, extension)
            assert envelope.read(envelope.write(post.envelope)).label == (made.label or "")


field_names = st.binary(max_size=20).map(bytes.lower) | st.sampled_from(
    [b"origin", b"sec-fetch-site", b"transfer-encoding", b"soapaction", b"content-type"]
)


@FUZZ
@given(
    st.sampled_from([b"POST", b"GET"]),
    st.lists(st.tuples(field_names, st.binary(max_size=40)), max_size=8),
    st.integers(0, 10**19),
    st.booleans(),
)
def test_any_head_is_judged(
    method: bytes, fields: list[tuple[bytes, bytes]], size: int, granted: bool
) -> None:
    """h11 has seen to it that a length is a number."""
    fields.append((b"content-length", b"%d" % size))
    refusal = refuse_head(method, fields, granted=granted)
    names = {name for name, _ in fields}
    if refusal is not None:
        assert 400 <= refusal.status < 500
        assert refusal.text.isprintable()
    else:
        assert size <= HTTP_ENTITY_BYTES_MAX
        assert not names & {b"origin", b"transfer-encoding"}


@FUZZ
@given(st.lists(st.binary(max_size=120), max_size=8), st.booleans())
def test_connections_take_anything(chunks: list[bytes], proper: bool) -> None:
    take = Taking(own_id=OWN, names=lambda: NAMES, settings=Settings(), now_us=0)
    post = Posting(
        url="http://b/msmq/q", own_id=OWN, names=lambda: NAMES, settings=Settings(), now_us=0
    )
    post.start()
    assert isinstance(post.tick(10)[0], Opened)
    starts = (HEAD, b"HTTP/1.1 200 OK\r\n") if proper else (b"", b"")
    for session, start in ((take, starts[0]), (post, starts[1])):
        for chunk in (start, *chunks):
            for event in session.receive(chunk, 20):
                assert isinstance(event, (Opened, Arrived, Acked, Closed))
            session.persisted(1, 30)
            for event in session.more():
                assert isinstance(event, (Arrived, Closed))
            session.take_output()
        session.tick(10**12)


@FUZZ
@given(st.integers(0, envelope.FOREVER_S))
def test_dates(seconds: int) -> None:
    assert envelope.seconds_of(envelope.text_of(seconds)) == seconds
