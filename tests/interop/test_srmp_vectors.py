"""The published SRMP messages decode, and are written again as they were (MC-MQSRM 4)."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from onceq.model.identity import NO_GUID, MessageId, guid_bytes
from onceq.wire.srmp import convert, envelope, mapping
from onceq.wire.srmp.envelope import Envelope

VECTORS = Path(__file__).parent / "vectors"


def read(name: str) -> tuple[str, Envelope, bytes, bytes]:
    """Head, envelope, body, and the XML without the white space that editors put into it."""
    (path,) = VECTORS.glob(f"{name}-*.txt")
    head, _, entity = path.read_text().split("#---\n", 1)[1].partition("\n\n")
    found = re.search(r"Content-Type: ([^\n]*(?:\n[^:\n]*)?)\n", head)
    assert found
    # The printed lengths belong to the bytes before they were indented.
    raw = re.sub(
        rb"Content-Length: \d+\r\n", b"", entity.rstrip("\n").encode().replace(b"\n", b"\r\n")
    )
    xml, body, extension = convert.read(found[1], raw)
    assert extension == b""
    compact = re.sub(rb">\s+<", b"><", xml)
    compact = re.sub(rb"\s+xmlns", b" xmlns", compact)
    compact = re.sub(rb">\s+([^<]*?)\s+<", rb">\1<", compact)
    return head, envelope.read(xml), body, compact


@pytest.mark.parametrize("name", ["srmp-01", "srmp-05", "srmp-08", "srmp-09", "srmp-13"])
def test_written_again_as_it_was(name: str) -> None:
    _, made, _, compact = read(name)
    assert envelope.write(made) == compact


def test_a_simple_message() -> None:
    _, made, body, _ = read("srmp-01")
    assert (made.label, made.to, body) == (
        "mqsender label", "http://machine2/msmq/private$/simpleq", b"First Message",
    )  # fmt: skip
    assert made.msmq is None
    assert made.expires - made.sent == 86_400
    assert not made.durable


def test_receipt_requests_with_prefixes() -> None:
    _, made, body, _ = read("srmp-03")
    assert made.label is None
    assert made.response == "http://machine1/MSMQ/private$/Q1"
    assert made.delivery_to == "http://machine1/MSMQ/private$/receipts"
    assert (made.positive, made.negative, len(body)) == (True, True, 45)


def test_a_delivery_receipt() -> None:
    _, made, body, _ = read("srmp-05")
    (receipt,) = made.receipts
    assert (receipt.decision, receipt.number, receipt.source) == (None, 1, NO_GUID)
    assert made.msmq is not None
    assert made.msmq.message_class == 2
    assert MessageId.unpack(made.msmq.correlation) == MessageId(NO_GUID, 1)
    assert body == b""


def test_a_stream_and_its_receipt() -> None:
    _, first, _, compact = read("srmp-07")
    stream = guid_bytes("2744e4e1-2b48-43e8-b441-42745f280d53")
    assert first.stream is not None
    assert (first.stream.source, first.stream.stream) == (stream, 0x432B164300000006)
    assert (first.stream.current, first.stream.previous) == (1, None)
    url = "http://machine1/MSMQ/private$/receipts?SenderStream=XRntV"
    assert first.stream.receipts_to == url
    # What the text calls optional and the sample has is left out when written again.
    for extra in (b"<expiresAt>20070620T165959</expiresAt></start>", b"<streamReceiptRequest/>"):
        assert extra in compact
    compact = compact.replace(b"<expiresAt>20070620T165959</expiresAt></start>", b"</start>")
    assert envelope.write(first) == compact.replace(b"<streamReceiptRequest/>", b"")
    _, second, _, _ = read("srmp-09")
    assert second.stream is not None
    assert (second.stream.current, second.stream.receipts_to) == (2, "")
    head, receipt, _, _ = read("srmp-08")
    assert head.startswith("POST /msmq/private$/receipts?senderstream=xrntv")
    assert receipt.to == url
    assert receipt.stream_receipt is not None
    assert (receipt.stream_receipt.stream, receipt.stream_receipt.last) == (0x432B164300000006, 1)


def test_exact_bytes_of_a_whole_request() -> None:
    text = (VECTORS / "srmp-14-pgm-multicast-message-exact-bytes.hex").read_text()
    raw = bytes.fromhex("".join(re.findall(r"^[^#].*$", text, re.M)))
    head, _, entity = raw.partition(b"\r\n\r\n")
    kind = re.search(rb"Content-Type: ([^\r]*)", head)
    assert kind
    xml, body, _ = convert.read(kind[1].decode(), entity)
    made = envelope.read(xml)
    assert envelope.write(made) == xml
    assert len(xml) == 779
    assert made.to == "MSMQ:MULTICAST=234.1.1.1:8001"
    sender = re.search(rb"Content-Id: body@([0-9a-f-]+)", entity)
    boundary = re.search(r'boundary="([^"]*)"', kind[1].decode())
    assert sender
    assert boundary
    _, again = convert.write(xml, body, sender[1].decode())
    assert again.replace(convert.BOUNDARY.encode(), boundary[1].encode()) == entity


def test_an_answer_and_data() -> None:
    text = (VECTORS / "srmp-04-http-200-response.txt").read_text()
    assert "HTTP/1.1 200 OK\nContent-Length: 0\n" in text
    text = (VECTORS / "data-02-objectid-base64.txt").read_text()
    value = re.search(r"^base64\s+(\S+)$", text, re.M)
    assert value
    assert MessageId(NO_GUID, 1).pack() == base64.b64decode(value[1])


def test_a_redirection_file() -> None:
    text = (VECTORS / "map-01-inbound-redirection.xml.txt").read_text().split("#---\n")[1]
    assert mapping.read_mappings(text.encode()).mappings.redirections == (
        ("https://www.northwindtraders.com/msmq/orderq",
         "https://OrderServer/msmq/private$/orderq"),
    )  # fmt: skip
