"""XML from strangers, read with every guard: what SRMP does not need is refused before it is built.

A document type, an entity, a processing instruction, depth over XML_DEPTH_MAX, more than
XML_ELEMENTS_MAX elements or XML_TEXT_BYTES_MAX of text end the reading (P14). The rest is a small
tree of names and texts.

Upholds: I24.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NoReturn
from xml.parsers import expat

from onceq.errors import MalformedPacket
from onceq.model.limits import XML_DEPTH_MAX, XML_ELEMENTS_MAX, XML_TEXT_BYTES_MAX

SPACE: Final = " \t\r\n"
"""What XML calls white space; editors put it around texts."""
_NO_CHARACTER = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Control characters, half surrogates and two more, which XML 1.0 cannot represent."""


@dataclass(slots=True)
class Node:
    """One element.

    Attributes:
        name: Without its namespace.
        space: Its namespace.
        raw: All text in it, unchanged.
        attributes: By name without namespace; they count as text.
    """

    name: str
    space: str = ""
    raw: str = ""
    children: list[Node] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All text in it, without white space around it."""
        return self.raw.strip(SPACE)

    def child(self, name: str) -> Node | None:
        """Return the first child of that name; capitals do not matter."""
        wanted = name.casefold()
        return next((node for node in self.children if node.name.casefold() == wanted), None)

    def texts(self, name: str) -> str | None:
        """Return the text of the child of that name; None if there is none."""
        found = self.child(name)
        return None if found is None else found.text


class _Builder:
    def __init__(self) -> None:
        self.root: Node | None = None
        self._open: list[Node] = []
        self._texts: list[list[str]] = []
        self._elements = 0
        self._chars = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > XML_ELEMENTS_MAX or len(self._open) >= XML_DEPTH_MAX:
            raise MalformedPacket(
                f"XML with more than {XML_ELEMENTS_MAX} elements, or deeper than {XML_DEPTH_MAX}"
            )
        space, _, local = name.rpartition(" ")
        node = Node(local, space)
        for key, value in attributes.items():
            self._count(len(value))
            node.attributes[key.rpartition(" ")[2]] = value
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node
        self._open.append(node)
        self._texts.append([])

    def end(self, name: str) -> None:
        self._open.pop().raw = "".join(self._texts.pop())

    def chars(self, data: str) -> None:
        self._count(len(data))
        self._texts[-1].append(data)

    def _count(self, chars: int) -> None:
        self._chars += chars
        if self._chars > XML_TEXT_BYTES_MAX:
            raise MalformedPacket(f"XML with more than {XML_TEXT_BYTES_MAX} characters of text")


def _refuse(*found: object) -> NoReturn:
    raise MalformedPacket("XML with a document type, an entity or a processing instruction")


def parse(data: bytes) -> Node:
    """Return the root element; raises MalformedPacket."""
    parser = expat.ParserCreate(namespace_separator=" ")
    builder = _Builder()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.chars
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    parser.ProcessingInstructionHandler = _refuse
    parser.SkippedEntityHandler = _refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise MalformedPacket(f"not XML: {error}") from None
    except ValueError as error:
        raise MalformedPacket(f"not XML that can be read: {error}") from None
    if builder.root is None:
        raise MalformedPacket("XML without an element")
    return builder.root


def shown(text: str) -> str:
    """Return a text as XML can hold it: U+FFFD replaces each character that it cannot hold."""
    return _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


def escape(text: str) -> str:
    """Return text for an element; unescaped carriage returns would be taken for line ends."""
    text = shown(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#13;")
