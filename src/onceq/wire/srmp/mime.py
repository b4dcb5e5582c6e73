"""The entity of an SRMP request: an envelope alone, or an envelope, a body and maybe an extension.

Written without a line end before the delimiters, as Windows does (MC-MQSRM 4.1); read by the
declared lengths, or by the delimiter where there are none, with and without that line end.

Upholds: I24.
"""

from __future__ import annotations

import re
from typing import Final

from onceq.errors import MalformedPacket
from onceq.model.limits import XML_TEXT_BYTES_MAX

BOUNDARY: Final = "MSMQ - SOAP boundary, 26500"
ENVELOPE_TYPE: Final = "text/xml"
ENVELOPE_BYTES_MAX: Final = 4 * XML_TEXT_BYTES_MAX

_BOUNDARY = re.compile(r'boundary\s*=\s*(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*(\d{1,12})[ \t]*\r?$")
_ID = re.compile(rb"(?im)^content-id:[ \t]*([^\r\n]{1,200})")


def write(
    envelope: bytes, body: bytes | None, sender: str, extension: bytes = b""
) -> tuple[str, bytes]:
    """Return content type and entity.

    Args:
        body: None: there is only the envelope.
        sender: GUID of the sending manager, as text.
        extension: A further part behind the body, if there is any.
    """
    if body is None:
        assert not extension, "what has an extension has a body, empty as it may be"
        return ENVELOPE_TYPE, envelope
    delimiter = f"--{BOUNDARY}".encode()
    head = b"\r\nContent-Type: text/xml; charset=UTF-8\r\nContent-Length: %d\r\n\r\n"
    parts = [delimiter, head % len(envelope), envelope]
    for name, content in (("body", body), ("extension", extension)):
        if content or name == "body":
            head = b"\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n"
            id = f"Content-Id: {name}@{sender}\r\n\r\n".encode()
            parts += (delimiter, head % len(content), id, content)
    parts += (delimiter, b"--\r\n")
    return f'multipart/related; boundary="{BOUNDARY}"; type=text/xml', b"".join(parts)


def read(content_type: str, entity: bytes) -> tuple[bytes, bytes, bytes]:
    """Return envelope, body and extension of an entity; raises MalformedPacket."""
    if not content_type.casefold().lstrip().startswith("multipart/"):
        if len(entity) > ENVELOPE_BYTES_MAX:
            raise MalformedPacket(f"an envelope of {len(entity)} bytes")
        return entity, b"", b""
    match = _BOUNDARY.search(content_type)
    if match is None:
        raise MalformedPacket("a message of several parts without a boundary")
    delimiter = b"--" + (match[1] or match[2]).encode("latin-1", "replace")
    at = entity.find(delimiter)
    if at < 0:
        raise MalformedPacket("a message of several parts without its delimiter")
    envelope: bytes | None = None
    body, extension = b"", b""
    at += len(delimiter)
    # Three parts are known, and the end: a stranger cannot make this loop longer.
    for _ in range(4):
        if entity.startswith(b"--", at):
            break
        head, content, at = _part(entity, at, delimiter)
        if envelope is None:
            envelope = content
            continue
        id = _ID.search(head)
        if id is not None and id[1].strip().lower().startswith(b"extension@"):
            extension = content
        else:
            body = content
    if envelope is None:
        raise MalformedPacket("a message of several parts without an envelope")
    if len(envelope) > ENVELOPE_BYTES_MAX:
        raise MalformedPacket(f"an envelope of {len(envelope)} bytes")
    return envelope, body, extension


def _part(entity: bytes, at: int, delimiter: bytes) -> tuple[bytes, bytes, int]:
    """Return head, content and the position behind the next delimiter."""
    end, skip = entity.find(b"\r\n\r\n", at), 4
    if end < 0:
        end, skip = entity.find(b"\n\n", at), 2
    if end < 0 or end - at > 4_096:
        raise MalformedPacket("a part without the end of its head")
    head, start = entity[at:end], end + skip
    length = _LENGTH.search(head)
    if length is not None:
        stop = start + int(length[1])
        for gap in (b"", b"\r\n", b"\n"):
            if entity.startswith(gap + delimiter, stop):
                return head, entity[start:stop], stop + len(gap) + len(delimiter)
        raise MalformedPacket(f"a part of {int(length[1])} bytes, behind which no delimiter stands")
    stop = entity.find(delimiter, start)
    if stop < 0:
        raise MalformedPacket("a part without an end")
    content = entity[start:stop]
    return head, content.removesuffix(b"\r\n"), stop + len(delimiter)
