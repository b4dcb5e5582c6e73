"""Mapping files: the four forms, and what is said of one that cannot be used."""

from __future__ import annotations

import pytest

from onceq.errors import MalformedPacket
from onceq.model.http import Arrival, HttpNames, Mappings
from onceq.wire.srmp.mapping import INBOUND, OUTBOUND, RECEIPTS, read_mappings

IN = "http://inner/msmq/private$/q"
OUT = "https://outer.example/msmq/orders"


def test_inbound_redirections() -> None:
    found = read_mappings(
        b'<redirections xmlns="msmq-queue-redirections.xml">'
        b"<redirection><from>https://outer.example/msmq/orders</from>"
        b"<to>\n http://inner/msmq/private$/q </to></redirection>"
        b"<redirection><from>https://outer.example/*</from>"
        b"<to>http://inner/msmq/rest</to></redirection></redirections>"
    )
    assert (found.form, found.entries) == (INBOUND, 2)
    assert found.mappings.redirections == (
        (OUT, IN), ("https://outer.example/*", "http://inner/msmq/rest")
    )  # fmt: skip


@pytest.mark.parametrize("inner", [IN, r"private$/q", "/private$/q"])
def test_the_form_of_windows_xp(inner: str) -> None:
    """Addresses without a host are of the host that the root names."""
    found = read_mappings(
        '<mapping host="inner" xmlns="msmq-queue-mapping.xml"><queue>'
        f"<name>{inner}</name><alias>{OUT}</alias></queue></mapping>".encode()
    )
    assert found.form == INBOUND
    assert found.mappings.redirections == ((OUT, IN),)


def test_addresses_for_stream_receipts() -> None:
    found = read_mappings(
        b'<StreamReceiptSetup xmlns="msmq-streamreceipt-mapping.xml"><setup>'
        b"<LogicalAddress>https://outer.example/*</LogicalAddress>"
        b"<StreamReceiptURL>https://gate/msmq/private$/order_queue$</StreamReceiptURL>"
        b"</setup></StreamReceiptSetup>"
    )
    assert found.form == RECEIPTS
    names = HttpNames(receipts="http://a/msmq/r", mappings=found.mappings)
    assert names.receipts_for("HTTPS://OUTER.example/msmq/q").startswith("https://gate/")
    assert names.receipts_for("http://elsewhere/msmq/q") == "http://a/msmq/r"


def test_outbound_redirections_and_their_exceptions() -> None:
    found = read_mappings(
        b"<outboundRedirections><redirection><from>http://*</from><to>http://border/msmq/any</to>"
        b"</redirection><exception>http://inner/*</exception></outboundRedirections>"
    )
    assert (found.form, found.entries) == (OUTBOUND, 2)
    names = HttpNames(mappings=found.mappings)
    assert names.way("http://outer/msmq/q") == "http://border/msmq/any"
    assert names.way("http://Inner/msmq/q") == "http://Inner/msmq/q"
    assert names.way("https://outer/msmq/q") == "https://outer/msmq/q"


def test_the_first_that_fits_counts() -> None:
    names = HttpNames(
        own=frozenset({"a"}),
        mappings=Mappings((("http://x/*", IN), ("http://x/msmq/q", "http://a/msmq/q"))),
    )
    assert names.arrival("http://x/msmq/q") == Arrival(IN, here=False)
    assert names.arrival("http://A/msmq/q") == Arrival("http://A/msmq/q", here=True)
    assert names.arrival("http://other/msmq/q") is None
    more = names.mapped_by(Mappings((("http://other/*", "http://a/msmq/q"),)))
    assert more.arrival("http://other/msmq/q") == Arrival("http://a/msmq/q", here=True)


def entry(given: str, meant: str) -> str:
    return (
        f"<redirections><redirection><from>{given}</from><to>{meant}</to></redirection>"
        "</redirections>"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<rediretions/>", "it begins with <rediretions>; mapping files begin with <redirections>"),
        ("no XML", "not XML"),
        (entry("", IN), "an entry <redirection> has no <from>"),
        (entry(OUT, "private$/q"), "<to> must be a URL such as"),
        (entry(OUT, "http://inner/*"), "<to> must be a URL such as"),
        (entry(OUT, "http://inner/somewhere"), "<to> must name a queue"),
        (entry("outer*", IN), "<from> must be a URL such as"),
        (entry("ftp://x/y", IN), "or its beginning and \\*"),
        (entry("http://x/" + "y" * 3000, IN), "<from> must be a URL"),
        ("<redirections><redirect/></redirections>", "<redirect> is not known in <redirections>"),
        (
            "<redirections><redirection><from>http://a/</from><to>http://b/c</to><too/>"
            "</redirection></redirections>",
            "<too> is not known in <redirection>; there may be <from> and <to>",
        ),
        ("<StreamReceiptSetup><setup/></StreamReceiptSetup>", "has no <LogicalAddress>"),
        ("<outboundRedirections><exception>x</exception></outboundRedirections>", "<exception>"),
    ],
)
def test_a_fault_is_named(text: str, said: str) -> None:
    with pytest.raises(MalformedPacket, match=said):
        read_mappings(text.encode())
