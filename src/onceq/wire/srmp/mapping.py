"""Mapping files of MSMQ as pairs of addresses (wire-srmp 8): redirections and receipt addresses."""

from __future__ import annotations

from onceq.errors import MalformedPacket
from onceq.wire.srmp.xml import Node, parse


def redirections(data: bytes) -> tuple[tuple[str, str], ...]:
    """Outer and inner URL of each entry of a redirection file; raises MalformedPacket."""
    return _pairs(data, "redirections", "redirection", ("from", "to"))


def receipt_addresses(data: bytes) -> tuple[tuple[str, str], ...]:
    """Destination and URL for receipts of each entry of such a file; raises MalformedPacket."""
    keys = ("LogicalAddress", "StreamReceiptURL")
    return _pairs(data, "StreamReceiptSetup", "setup", keys)


def _pairs(
    data: bytes, root: str, entry: str, keys: tuple[str, str]
) -> tuple[tuple[str, str], ...]:
    tree = parse(data)
    if tree.name.casefold() != root.casefold():
        raise MalformedPacket(f"a mapping file begins with <{root}>, not with <{tree.name[:40]}>")
    return tuple(
        (_text(node, keys[0]), _text(node, keys[1]))
        for node in tree.children
        if node.name.casefold() == entry.casefold()
    )


def _text(node: Node, key: str) -> str:
    found = node.texts(key)
    if not found:
        raise MalformedPacket(f"an entry of a mapping file without <{key}>")
    return found
