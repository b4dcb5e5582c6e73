"""The head of a request, judged before anything of the body is read.

Each published request has ``SOAPAction``, ``Content-Length``, and one of two content types
([MC-MQSRM] 4). A page in a browser can send none of that to a host of another origin without asking
that host first (a preflight), and a browser marks what it sends in fields that no page sets:
``Origin`` and ``Sec-Fetch-*``. So a head shows whether a queue manager posts or a page does, on a
connection without proofs of identity.

A body in chunks is refused: each chunk costs as much as a whole packet, and may be one byte.

Upholds: I24 (the size is known before the first byte), I28.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from onceq.model.limits import HANDSHAKE_BYTES_MAX, HTTP_ENTITY_BYTES_MAX
from onceq.wire.srmp.mime import ENVELOPE_TYPE
from onceq.wire.srmp.stranger import DENIED

_TYPES: Final = (ENVELOPE_TYPE.encode(), b"multipart/related")
_OF_BROWSERS: Final = b"sec-fetch-"


class Refusal(NamedTuple):
    """Why a request is refused: the status and the text of its answer."""

    status: int
    text: str


def refuse_head(
    method: bytes, fields: Iterable[tuple[bytes, bytes]], *, granted: bool
) -> Refusal | None:
    """Judge the head of a request; None: its body may come.

    Args:
        method: The HTTP method.
        fields: The header fields; names in small letters.
        granted: Whether the sender has a right to send here. Without one it may report what it has
            received: receipts need no right, and are short.
    """
    if method != b"POST":
        return Refusal(405, "messages are posted")
    known: dict[bytes, bytes] = {}
    for name, value in fields:
        if name == b"origin" or name.startswith(_OF_BROWSERS):
            return Refusal(403, f"{name.decode('latin-1')}: web pages post no messages here")
        known.setdefault(name, value)
    if b"transfer-encoding" in known or b"content-length" not in known:
        return Refusal(411, "the size of a message is said first, in Content-Length")
    if b"soapaction" not in known:
        return Refusal(400, "SOAPAction is missing, which every queue manager sends")
    kind = known.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind not in _TYPES:
        return Refusal(415, "a message is text/xml, or multipart/related")
    size = int(known[b"content-length"])
    if size > HTTP_ENTITY_BYTES_MAX:
        return Refusal(413, f"at most {HTTP_ENTITY_BYTES_MAX} bytes")
    if size > HANDSHAKE_BYTES_MAX and not granted:
        return Refusal(400, DENIED.decode())
    return None
