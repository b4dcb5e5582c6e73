"""Mapping files of MSMQ (MC-MQSRM 3.1.1.1.10): their content, and their faults.

Four forms, told apart by their root element:

* ``<redirections>``: where messages for an outer URL go, as ``<redirection>`` with ``<from>`` and
  ``<to>``;
* ``<mapping host="...">``, its form in Windows XP: ``<queue>`` with ``<alias>`` (outer) and
  ``<name>`` (inner);
* ``<StreamReceiptSetup>``: what streams announce for their receipts, as ``<setup>`` with
  ``<LogicalAddress>`` and ``<StreamReceiptURL>``;
* ``<outboundRedirections>``: to which host connections for a destination go, as ``<redirection>``
  with ``<from>`` and ``<to>``, and ``<exception>`` for destinations that are left alone. Microsoft
  has published what such files mean, not their element names; these are ours.

An unknown element is reported, not skipped: a mapping that silently does nothing costs days.

Upholds: I24 (the limits of ``envelope.py`` hold for these files, too).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from onceq.errors import IllegalFormatName, MalformedPacket
from onceq.model.http import Mappings, Pairs
from onceq.model.limits import HTTP_URL_CHARS_MAX
from onceq.model.names import parse_format_name
from onceq.wire.srmp.envelope import Node, parse

INBOUND: Final = "inbound redirections"
RECEIPTS: Final = "addresses for stream receipts"
OUTBOUND: Final = "outbound redirections"

_URL = re.compile(r"(?i)https?://[^\s/*]+/[^\s*]*")
_PATTERN = re.compile(r"(?i)https?://[^\s/*]*(\*|/\S*)")


@dataclass(frozen=True, slots=True)
class MappingFile:
    """The content of one file: its form, and its entries.

    Four forms, told apart by their root element:

    * ``<redirections>``: where messages for an outer URL go, as ``<redirection>`` with ``<from>``
      and ``<to>``;
    * ``<mapping host="...">``, its form in Windows XP: ``<queue>`` with ``<alias>`` (outer) and
      ``<name>`` (inner);
    * ``<StreamReceiptSetup>``: what streams announce for their receipts, as ``<setup>`` with
      ``<LogicalAddress>`` and ``<StreamReceiptURL>``;
    * ``<outboundRedirections>``: to which host connections for a destination go, as
      ``<redirection>`` with ``<from>`` and ``<to>``, and ``<exception>`` for destinations that are
      left alone. Microsoft has published what such files mean, not their element names; these are
      ours.

    An unknown element is reported, not skipped: a mapping that silently does nothing costs days.
    """

    form: str
    mappings: Mappings

    @property
    def entries(self) -> int:
        """The number of entries, exceptions included."""
        found = self.mappings
        lists = (found.redirections, found.receipts, found.outbound, found.exceptions)
        return sum(map(len, lists))


def read_mappings(data: bytes) -> MappingFile:
    """Return the content of a mapping file; raises MalformedPacket, which names the fault."""
    root = parse(data)
    match root.name.casefold():
        case "redirections":
            _only(root, "redirection")
            pairs = _pairs(root, "redirection", ("from", "to"))
            return MappingFile(INBOUND, Mappings(redirections=pairs))
        case "mapping":
            # Of Windows XP; an address without a host belongs to the host of the root.
            _only(root, "queue")
            host = root.attributes.get("host", "").strip()
            pairs = _pairs(root, "queue", ("alias", "name"), host=host)
            return MappingFile(INBOUND, Mappings(redirections=pairs))
        case "streamreceiptsetup":
            _only(root, "setup")
            pairs = _pairs(root, "setup", ("LogicalAddress", "StreamReceiptURL"))
            return MappingFile(RECEIPTS, Mappings(receipts=pairs))
        case "outboundredirections":
            _only(root, "redirection", "exception")
            exceptions = tuple(
                _checked(node.text, _PATTERN, "exception") for node in _named(root, "exception")
            )
            pairs = _pairs(root, "redirection", ("from", "to"), queues=False)
            return MappingFile(OUTBOUND, Mappings(outbound=pairs, exceptions=exceptions))
    raise MalformedPacket(
        f"it begins with <{root.name[:40]}>; mapping files begin with <redirections>, <mapping>, "
        "<StreamReceiptSetup>, <outboundRedirections>"
    )


def _named(root: Node, name: str) -> list[Node]:
    return [node for node in root.children if node.name.casefold() == name.casefold()]


def _only(node: Node, *names: str) -> None:
    """Check that every child is one of these."""
    wanted = {name.casefold() for name in names}
    for child in node.children:
        if child.name.casefold() not in wanted:
            raise MalformedPacket(
                f"<{child.name[:40]}> is not known in <{node.name[:40]}>; there may be "
                + " and ".join(f"<{name}>" for name in names)
            )


def _pairs(
    root: Node, entry: str, keys: tuple[str, str], *, host: str = "", queues: bool = True
) -> Pairs:
    found = []
    for node in _named(root, entry):
        _only(node, *keys)
        given, meant = (_text(node, key, host) for key in keys)
        _checked(meant, _URL, keys[1])
        if queues:
            _queue(meant, keys[1])
        found.append((_checked(given, _PATTERN, keys[0]), meant))
    return tuple(found)


def _queue(url: str, what: str) -> None:
    """Check that it is the address of a queue, not only of a host."""
    try:
        parse_format_name(f"DIRECT={url}")
    except IllegalFormatName:
        raise MalformedPacket(
            f"<{what}> must name a queue, such as http://host/msmq/private$/queue, not {url[:80]!r}"
        ) from None


def _text(node: Node, key: str, host: str) -> str:
    found = node.texts(key)
    if not found:
        raise MalformedPacket(f"an entry <{node.name[:40]}> has no <{key}>")
    if host and "://" not in found:
        return f"http://{host}/msmq/{found.strip('/')}"
    return found


def _checked(url: str, form: re.Pattern[str], what: str) -> str:
    if len(url) > HTTP_URL_CHARS_MAX or form.fullmatch(url) is None:
        end = ", or its beginning and *" if form is _PATTERN else ""
        raise MalformedPacket(
            f"<{what}> must be a URL such as http://host/msmq/private$/queue{end}, not {url[:80]!r}"
        )
    return url
