"""The SRMP envelope: the content of one message's XML, as values and as bytes.

Written as Windows writes it, one line without white space between elements; read in any order, with
any prefixes and indentation. Numbers in brackets are sections of MC-MQSRM.

A label may have characters that XML cannot hold. Then an element of ours beside the published ones
holds it as UTF-16, and readers that do not know that element see U+FFFD in their place.

Also here:

* Dates of SRMP: ``YYYYMMDDThhmmss`` in UTC, from and to seconds since 1970.
* XML from strangers, read with every guard: what SRMP does not need is refused before it is built.

Upholds: I24 (every number is checked against its range).
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Final, NoReturn
from xml.parsers import expat

from onceq.errors import MalformedPacket
from onceq.model import limits
from onceq.model.identity import NO_GUID, guid_bytes, guid_text, read_number
from onceq.model.message import CORRELATION_BYTES, NO_CORRELATION

# ---- dates ---------------------------------------------------------------------------------------


FOREVER_S: Final = 0x7FFF_FFFF
"""The end of signed 32-bit time, which means "never"."""
DAY_S: Final = 86_400

_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})T(\d{2}):?(\d{2}):?(\d{2})Z?")


def text_of(seconds: int) -> str:
    """Return a date; a later time than can be written becomes the last one."""
    days, rest = divmod(min(max(seconds, 0), FOREVER_S), DAY_S)
    # Days since 1 March of year 0 (proleptic Gregorian), in eras of 400 years.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    date = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year + era * 400 + (month <= 2)
    hour, rest = divmod(rest, 3_600)
    return f"{year:04}{month:02}{date:02}T{hour:02}{rest // 60:02}{rest % 60:02}"


def seconds_of(text: str) -> int:
    """Return the seconds of a date; raises MalformedPacket."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise MalformedPacket(f"not a date: {text[:40]!r}")
    year, month, date, hour, minute, second = map(int, match.groups())
    if not (1 <= month <= 12 and 1 <= date <= 31 and hour < 24 and minute < 60 and second < 61):
        raise MalformedPacket(f"not a date: {text!r}")
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + date - 1
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return min(max(days * DAY_S + hour * 3_600 + minute * 60 + second, 0), FOREVER_S)


# ---- xml -----------------------------------------------------------------------------------------


SPACE: Final = " \t\r\n"
"""What XML calls white space; editors put it around texts."""
_NO_CHARACTER = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Control characters, half surrogates and two more, which XML 1.0 cannot represent."""


@dataclass(slots=True)
class Node:
    """One element.

    A document type, an entity, a processing instruction, depth over XML_DEPTH_MAX, more than
    XML_ELEMENTS_MAX elements or XML_TEXT_BYTES_MAX of text end the reading (P14). The rest is a
    small tree of names and texts.

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
        if self._elements > limits.XML_ELEMENTS_MAX or len(self._open) >= limits.XML_DEPTH_MAX:
            raise MalformedPacket(
                f"XML with more than {limits.XML_ELEMENTS_MAX} elements, "
                f"or deeper than {limits.XML_DEPTH_MAX}"
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
        if self._chars > limits.XML_TEXT_BYTES_MAX:
            raise MalformedPacket(
                f"XML with more than {limits.XML_TEXT_BYTES_MAX} characters of text"
            )


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


def replace_unfit(text: str) -> str:
    """Return a text as XML can hold it: U+FFFD replaces each character that it cannot hold."""
    return _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


def escape(text: str) -> str:
    """Return text for an element; unescaped carriage returns would be taken for line ends."""
    text = replace_unfit(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#13;")


# ---- envelope ------------------------------------------------------------------------------------


U16, U32, U64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1
LABEL_PREFIX: Final = "MSMQ:"
OWN_SPACE: Final = "urn:onceq:srmp"

_ID = re.compile(r"uuid:(\d{1,10})@\{?([0-9A-Fa-f-]{36})\}?")
_STREAM = re.compile(r"uid:\{?([0-9A-Fa-f-]{36})\}?\\(\d{1,20})")


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The position of a transactional message in its stream (5).

    Attributes:
        source: GUID of the sending manager.
        previous: Number of the message before it; None: one less than its own.
        receipts_to: URL for receipts, at the beginning of the stream; "" elsewhere.
    """

    source: bytes
    stream: int
    current: int
    previous: int | None = None
    receipts_to: str = ""


@dataclass(frozen=True, slots=True)
class StreamReceipt:
    """Everything of a stream up to a number is accepted (2.2.5.6)."""

    source: bytes
    stream: int
    last: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message has arrived (``decision`` None), or was received or not (6).

    Attributes:
        at: Seconds since 1970.
        decision: True for a positive commitment, False for a negative one.
        number, source: Identifier of the message.
    """

    at: int
    decision: bool | None
    number: int
    source: bytes


@dataclass(frozen=True, slots=True)
class Msmq:
    """Properties that only MSMQ has (2.2.6)."""

    message_class: int = 0
    priority: int = 3
    journal: bool = False
    dead_letter: bool = False
    correlation: bytes = NO_CORRELATION
    trace: bool = False
    app: int = 0
    body_type: int = 0
    hash: int = 0
    first: bool = False
    last: bool = False
    source: bytes = NO_GUID
    reach_by: int = FOREVER_S


@dataclass(frozen=True, slots=True)
class Envelope:
    """One message without its body.

    Attributes:
        to: URL of its queue.
        label: None if it has none.
        number, source: Its identifier; without an ``Msmq`` element it means nothing (2.2.6).
        response: URL, or ``MSMQ:`` and a format name; "" for none.
        expires: Until when it may be received, or without ``Msmq`` reach its queue; seconds since
            1970.
        sent: Seconds since 1970.
        delivery_to, commitment_to: URLs for receipts; "" for none.
        positive, negative: Which commitments are wanted.
    """

    to: str
    label: str | None = None
    number: int = 1
    source: bytes = NO_GUID
    response: str = ""
    expires: int = FOREVER_S
    sent: int = 0
    durable: bool = False
    delivery_to: str = ""
    commitment_to: str = ""
    positive: bool = False
    negative: bool = False
    stream: StreamPart | None = None
    stream_receipt: StreamReceipt | None = None
    receipts: tuple[Receipt, ...] = ()
    msmq: Msmq | None = None


# ---- writing -----------------------------------------------------------------------------


def write(e: Envelope) -> bytes:
    """Return the XML of an envelope."""
    action = LABEL_PREFIX + (e.label or "")
    rev = f"<rev><via>{escape(e.response)}</via></rev>" if e.response else ""
    services = "<durable/>" if e.durable else ""
    if e.delivery_to:
        services += (
            f"<deliveryReceiptRequest><sendTo>{escape(e.delivery_to)}</sendTo>"
            "</deliveryReceiptRequest>"
        )
    if e.commitment_to:
        flags = "<positiveOnly/>" if e.positive else ""
        flags += "<negativeOnly/>" if e.negative else ""
        services += (
            f"<commitmentReceiptRequest><sendTo>{escape(e.commitment_to)}</sendTo>{flags}"
            "</commitmentReceiptRequest>"
        )
    parts = [
        '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" '
        'xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>'
        '<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1">'
        f"<action>{escape(action)}</action><to>{escape(e.to)}</to>{rev}"
        f"<id>uuid:{e.number}@{guid_text(e.source)}</id></path>"
        '<properties se:mustUnderstand="1">'
        f"<expiresAt>{text_of(e.expires)}</expiresAt><sentAt>{text_of(e.sent)}</sentAt>"
        "</properties>",
        f'<services se:mustUnderstand="1">{services}</services>' if services else "",
        _stream(e.stream),
    ]
    if e.stream_receipt is not None:
        told = e.stream_receipt
        parts.append(
            f"<streamReceipt><streamId>uid:{guid_text(told.source)}\\{told.stream}</streamId>"
            f"<lastOrdinal>{told.last}</lastOrdinal></streamReceipt>"
        )
    parts += map(_receipt, e.receipts)
    if e.msmq is not None:
        m, eod = e.msmq, ""
        if m.first or m.last:
            eod = f"<Eod>{'<First/>' if m.first else ''}{'<Last/>' if m.last else ''}</Eod>"
        parts.append(
            f'<Msmq xmlns="msmq.namespace.xml"><Class>{m.message_class}</Class>'
            f"<Priority>{m.priority}</Priority>{'<Journal/>' if m.journal else ''}"
            f"{'<DeadLetter/>' if m.dead_letter else ''}"
            f"<Correlation>{base64.b64encode(m.correlation).decode()}</Correlation>"
            f"{'<Trace/>' if m.trace else ''}<App>{m.app}</App><BodyType>{m.body_type}</BodyType>"
            f"<HashAlgorithm>{m.hash}</HashAlgorithm>{eod}"
            f"<SourceQmGuid>{guid_text(m.source)}</SourceQmGuid>"
            f"<TTrq>{text_of(m.reach_by)}</TTrq></Msmq>"
        )
    if e.label is not None and replace_unfit(e.label) != e.label:
        exact = base64.b64encode(e.label.encode("utf-16-le", "surrogatepass")).decode()
        parts.append(f'<Onceq xmlns="{OWN_SPACE}"><Label>{exact}</Label></Onceq>')
    parts.append("</se:Header><se:Body></se:Body></se:Envelope>")
    return "".join(parts).encode()


def _stream(stream: StreamPart | None) -> str:
    if stream is None:
        return ""
    previous = "" if stream.previous is None else f"<previous>{stream.previous}</previous>"
    start = ""
    if stream.receipts_to:
        start = f"<start><sendReceiptsTo>{escape(stream.receipts_to)}</sendReceiptsTo></start>"
    return (
        f'<Stream se:mustUnderstand="1"><streamId>uid:{guid_text(stream.source)}\\{stream.stream}'
        f"</streamId><current>{stream.current}</current>{previous}{start}</Stream>"
    )


def _receipt(receipt: Receipt) -> str:
    id = f"<id>uuid:{receipt.number}@{guid_text(receipt.source)}</id>"
    at = text_of(receipt.at)
    if receipt.decision is None:
        return f"<deliveryReceipt><receivedAt>{at}</receivedAt>{id}</deliveryReceipt>"
    said = "positive" if receipt.decision else "negative"
    return (
        f"<commitmentReceipt><decidedAt>{at}</decidedAt><decision>{said}</decision>{id}"
        "</commitmentReceipt>"
    )


# ---- reading -----------------------------------------------------------------------------


def read(data: bytes) -> Envelope:
    """Return the envelope in some XML; raises MalformedPacket."""
    root = parse(data)
    header = root.child("Header")
    if root.name != "Envelope" or header is None or root.child("Body") is None:
        raise MalformedPacket("not a SOAP envelope with a header and a body")
    path, properties = header.child("path"), header.child("properties")
    if path is None or properties is None:
        raise MalformedPacket("an SRMP envelope without path or properties")
    action, to = path.child("action"), path.texts("to")
    if action is None or not to or path.texts("id") is None:
        raise MalformedPacket("an SRMP path without action, to or id")
    expires = seconds_of(properties.texts("expiresAt") or "")
    msmq = _read_msmq(header.child("Msmq"), expires)
    number, source = _identifier(path.texts("id") or "")
    rev = path.child("rev")
    services = header.child("services")
    delivery, commitment = _asked(services, "delivery"), _asked(services, "commitment")
    sent = properties.texts("sentAt")
    return Envelope(
        to=_url(to),
        label=_label(action, header.child("Onceq")),
        number=number,
        source=source,
        response=_url(rev.texts("via") or "") if rev is not None else "",
        expires=expires,
        sent=seconds_of(sent) if sent else 0,
        durable=services is not None and services.child("durable") is not None,
        delivery_to=_url(delivery.texts("sendTo") or "") if delivery is not None else "",
        commitment_to=_url(commitment.texts("sendTo") or "") if commitment is not None else "",
        positive=commitment is not None and commitment.child("positiveOnly") is not None,
        negative=commitment is not None and commitment.child("negativeOnly") is not None,
        stream=_read_stream(header.child("Stream")),
        stream_receipt=_read_stream_receipt(header.child("streamReceipt")),
        receipts=_read_receipts(header),
        msmq=msmq,
    )


def _label(action: Node, own: Node | None) -> str | None:
    """Return the label in an action; None if there is none.

    White space in it is the label's own, unless some is before the prefix: then an editor has
    indented the whole text.
    """
    text = action.text if action.raw[:1] in SPACE else action.raw
    if not text.startswith(LABEL_PREFIX):
        return None
    label = text.removeprefix(LABEL_PREFIX)
    exact = own.child("Label") if own is not None and own.space == OWN_SPACE else None
    if exact is None:
        return label
    try:
        raw = base64.b64decode(exact.text, validate=True)
        found = raw.decode("utf-16-le", "surrogatepass")
    except ValueError:
        return label
    # If the labels differ in more than what XML cannot hold, the published one counts.
    return found if replace_unfit(found) == label else label


def _asked(services: Node | None, what: str) -> Node | None:
    return services.child(f"{what}ReceiptRequest") if services is not None else None


def _url(text: str) -> str:
    if len(text) > limits.HTTP_URL_CHARS_MAX or any(ord(c) < 33 for c in text):
        raise MalformedPacket(f"not an address: {text[:60]!r}")
    return text


def _number(text: str | None, most: int, what: str) -> int:
    found = read_number(text or "", most)
    if found is None:
        raise MalformedPacket(f"{what} cannot be {(text or '')[:40]!r}")
    return found


def _guid(text: str) -> bytes:
    try:
        return guid_bytes(text)
    except ValueError:
        raise MalformedPacket(f"not a GUID: {text[:60]!r}") from None


def _identifier(text: str) -> tuple[int, bytes]:
    match = _ID.fullmatch(text)
    if match is None:
        raise MalformedPacket(f"not an identifier: {text[:80]!r}")
    return _number(match[1], U32, "an identifier"), _guid(match[2])


def _stream_id(text: str | None) -> tuple[bytes, int]:
    match = _STREAM.fullmatch(text or "")
    if match is None:
        raise MalformedPacket(f"not a stream: {(text or '')[:80]!r}")
    return _guid(match[1]), _number(match[2], U64, "a stream")


def _read_stream(node: Node | None) -> StreamPart | None:
    if node is None:
        return None
    source, stream = _stream_id(node.texts("streamId"))
    current = _number(node.texts("current"), U32, "current")
    previous = node.texts("previous")
    start = node.child("start")
    if not current or not stream:
        raise MalformedPacket("streams and their messages are numbered from 1")
    before = None if previous is None else _number(previous, U32, "previous")
    if before is not None and before >= current:
        raise MalformedPacket(f"message {current} cannot come after {before}")
    receipts = _url(start.texts("sendReceiptsTo") or "") if start is not None else ""
    return StreamPart(source, stream, current, before, receipts)


def _read_stream_receipt(node: Node | None) -> StreamReceipt | None:
    if node is None:
        return None
    source, stream = _stream_id(node.texts("streamId"))
    last = _number(node.texts("lastOrdinal"), U32, "lastOrdinal")
    if not last:
        raise MalformedPacket("a receipt for nothing")
    return StreamReceipt(source, stream, last)


def _read_receipts(header: Node) -> tuple[Receipt, ...]:
    found = []
    delivery, commitment = header.child("deliveryReceipt"), header.child("commitmentReceipt")
    if delivery is not None:
        number, source = _identifier(delivery.texts("id") or "")
        at = seconds_of(delivery.texts("receivedAt") or "")
        found.append(Receipt(at, None, number, source))
    if commitment is not None:
        number, source = _identifier(commitment.texts("id") or "")
        said = (commitment.texts("decision") or "").casefold()
        if said not in ("positive", "negative"):
            raise MalformedPacket(f"a decision is positive or negative, not {said[:20]!r}")
        at = seconds_of(commitment.texts("decidedAt") or "")
        found.append(Receipt(at, said == "positive", number, source))
    return tuple(found)


def _read_msmq(node: Node | None, expires: int) -> Msmq | None:
    if node is None:
        return None
    correlation = node.texts("Correlation")
    reach_by = node.texts("TTrq")
    eod = node.child("Eod")
    return Msmq(
        message_class=_number(node.texts("Class"), U16, "Class"),
        priority=_number(node.texts("Priority"), 7, "Priority"),
        journal=node.child("Journal") is not None,
        dead_letter=node.child("DeadLetter") is not None,
        correlation=NO_CORRELATION if not correlation else _correlation(correlation),
        trace=node.child("Trace") is not None,
        app=_number(node.texts("App") or "0", U32, "App"),
        body_type=_number(node.texts("BodyType") or "0", U32, "BodyType"),
        hash=_number(node.texts("HashAlgorithm") or "0", U32, "HashAlgorithm"),
        first=eod is not None and eod.child("First") is not None,
        last=eod is not None and eod.child("Last") is not None,
        source=_guid(node.texts("SourceQmGuid") or ""),
        reach_by=seconds_of(reach_by) if reach_by else expires,
    )


def _correlation(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedPacket("a correlation that is not base 64") from None
    if len(raw) != CORRELATION_BYTES:
        raise MalformedPacket(f"a correlation of {len(raw)} bytes; it has {CORRELATION_BYTES}")
    return raw
