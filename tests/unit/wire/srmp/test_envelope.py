"""What an envelope says beside what is usual: labels of any characters, dates that are missing."""

from __future__ import annotations

import base64

import pytest

from onceq.model.http import Arrival
from onceq.wire.srmp import convert, envelope
from onceq.wire.srmp.convert import runs_of
from onceq.wire.srmp.envelope import Envelope, Msmq, text_of

URL = "http://b/msmq/private$/q"
PLAIN = envelope.write(Envelope(URL, "label", sent=1_000, expires=5_000, msmq=Msmq()))


def exact(label: str) -> bytes:
    return base64.b64encode(label.encode("utf-16-le", "surrogatepass"))


def test_ordinary_labels_stand_in_the_action_alone() -> None:
    assert b"Onceq" not in PLAIN
    assert b"Onceq" not in envelope.write(Envelope(URL, " \t\r\nä\N{PILE OF POO}<&>\x7f\x85"))


def test_other_products_see_a_mark_for_what_xml_cannot_hold() -> None:
    raw = envelope.write(Envelope(URL, "a\0b\ud800c"))
    assert "<action>MSMQ:a\ufffdb\ufffdc</action>".encode() in raw
    wanted = b'<Onceq xmlns="urn:onceq:srmp"><Label>%s</Label></Onceq></se:Header>'
    assert wanted % exact("a\0b\ud800c") in raw
    assert envelope.read(raw).label == "a\0b\ud800c"


@pytest.mark.parametrize(
    "said", [b"!", b"AA==", exact("another"), exact("a\1c"), "\N{PILE OF POO}".encode()]
)
def test_what_does_not_fit_the_action_is_ignored(said: bytes) -> None:
    raw = envelope.write(Envelope(URL, "a\1b"))
    changed = raw.replace(exact("a\1b"), said)
    assert changed != raw
    assert envelope.read(changed).label == "a\ufffdb"


def test_an_element_of_somebody_else_is_ignored() -> None:
    raw = envelope.write(Envelope(URL, "a\1b"))
    assert envelope.read(raw.replace(b"urn:onceq:srmp", b"urn:else")).label == "a\ufffdb"
    assert envelope.read(raw.replace(b"Label>", b"Title>")).label == "a\ufffdb"


@pytest.mark.parametrize(
    ("action", "label"),
    [
        (b"MSMQ: a ", " a "),
        (b"\n   MSMQ: a \n  ", " a"),
        (b"MSMQ:", ""),
        (b" \n", None),
        (b"", None),
        (b"urn:other", None),
        (b"MSMQ:a&#13;\nb\r\nc", "a\r\nb\nc"),
    ],
)
def test_white_space_is_the_labels_unless_the_text_was_indented(
    action: bytes, label: str | None
) -> None:
    assert envelope.read(PLAIN.replace(b"MSMQ:label", action)).label == label


def test_lifetimes() -> None:
    """Without TTrq the one date that is there counts for both; without Msmq for the way only."""
    date = f"<TTrq>{text_of((1 << 31) - 1)}</TTrq>".encode()
    assert date in PLAIN
    none = PLAIN.replace(date, b"")
    bare = PLAIN[: PLAIN.index(b"<Msmq")] + PLAIN[PLAIN.index(b"</Msmq>") + len(b"</Msmq>") :]
    never = 0xFFFF_FFFF
    for raw, wanted in ((PLAIN, (never, 4_000)), (none, (4_000, 4_000)), (bare, (4_000, never))):
        (run,) = runs_of(envelope.read(raw), b"", b"", Arrival(URL, here=True), b"O" * 16)
        assert (run.time_to_reach_queue, run.time_to_be_received) == wanted


def test_an_extension_behind_an_empty_body() -> None:
    kind, entity = convert.write(PLAIN, b"", "guid", b"--x--")
    assert b"Content-Id: extension@guid\r\n\r\n--x----MSMQ - SOAP boundary" in entity
    assert convert.read(kind, entity) == (PLAIN, b"", b"--x--")
    assert b"extension" not in convert.write(PLAIN, b"", "guid")[1]
