"""Names of queues: path names and format names, parsed, printed and compared (section 2).

A *format name* says how to reach a queue and is what stands in packets; a *path name* says where
a queue is registered. Several format names, separated by commas, are a multiple-element format
name (S3). Prefixes and host names compare case-insensitively and keep their spelling (FN-1). As
shells eat backslashes, ``/`` may be written for ``\\`` everywhere but in HTTP addresses.

Every fault is reported with its position. Nothing here knows which queues exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from onceq.errors import IllegalFormatName, IllegalPathName, UnsupportedFormatName
from onceq.model.identity import NO_GUID, guid_bytes, guid_text
from onceq.model.limits import (
    COMPUTER_NAME_CHARS_MAX,
    FORMAT_NAME_CHARS_MAX,
    FORMAT_NAME_ELEMENTS_MAX,
    SUBQUEUE_NAME_CHARS_MAX,
)
from onceq.model.queue import check_queue_name

GUID_TEXT = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
PRIVATE_PREFIX = "private$\\"
SYSTEM_PREFIX = "system$;"
DOMAIN_CHARS_MAX = 255


class Kind(IntEnum):
    """Type numbers of format names (MS-MQMQ 2.2.6)."""

    PUBLIC = 1
    PRIVATE = 2
    DIRECT = 3
    MACHINE = 4
    CONNECTOR = 5
    DL = 6
    MULTICAST = 7


class Suffix(IntEnum):
    """What a name means of its queue or computer (MS-MQMQ 2.2.11)."""

    NONE = 0
    JOURNAL = 1
    DEADLETTER = 2
    DEADXACT = 3
    XACTONLY = 4


_READ_ONLY = (Suffix.JOURNAL, Suffix.DEADLETTER, Suffix.DEADXACT)


@dataclass(frozen=True, slots=True)
class FormatName:
    """One element of a format name.

    Attributes:
        kind: Which form it has; the other fields count only where the form has them.
        guid: Of the queue, the manager, the list or the foreign system.
        number: Private queue number, or the port of a multicast address.
        protocol: OS, TCP, HTTP or HTTPS.
        host: Computer name or address; with its port for HTTP; the multicast address.
        queue: Without ``private$\\``; "" for the queues of the computer itself.
        private: Whether ``private$\\`` stood before it.
        text: As it was given.
    """

    kind: Kind
    guid: bytes = NO_GUID
    number: int = 0
    protocol: str = ""
    host: str = ""
    queue: str = ""
    private: bool = False
    suffix: Suffix = Suffix.NONE
    subqueue: str = ""
    domain: str = ""
    text: str = ""

    @property
    def is_read_only(self) -> bool:
        """Whether it names a journal or a dead-letter queue (Q-2)."""
        return self.suffix in _READ_ONLY

    @property
    def direct(self) -> str:
        """The text of a direct name without ``DIRECT=``; "" for other kinds."""
        if self.kind is not Kind.DIRECT:
            return ""
        slash = "/" if self.protocol.startswith("HTTP") else "\\"
        tail = f";{self.suffix.name}" if self.suffix else ""
        tail = f";{self.subqueue}" if self.subqueue else tail
        if slash == "/":
            private = "private$/" if self.private else ""
            return f"{self.protocol}://{self.host}/msmq/{private}{self.queue}{tail}"
        if not self.queue:
            return f"{self.protocol}:{self.host}\\SYSTEM${tail}"
        private = PRIVATE_PREFIX if self.private else ""
        return f"{self.protocol}:{self.host}\\{private}{self.queue}{tail}"

    def __str__(self) -> str:
        guid = guid_text(self.guid)
        tail = f";{self.suffix.name}" if self.suffix else ""
        if self.kind is Kind.DIRECT:
            return f"DIRECT={self.direct}"
        if self.kind is Kind.PRIVATE:
            return f"PRIVATE={guid}\\{self.number:08x}{tail}"
        if self.kind is Kind.MULTICAST:
            return f"MULTICAST={self.host}:{self.number}"
        if self.kind is Kind.DL:
            return f"DL={guid}" + (f"@{self.domain}" if self.domain else "")
        return f"{self.kind.name}={guid}{tail}"

    def key(self) -> str:
        """Two names with equal keys are the same name (FN-1)."""
        return str(self).casefold()


def queue_key(private: bool, name: str) -> str:
    """How a manager finds a queue of its own."""
    return (PRIVATE_PREFIX if private else "") + name.casefold()


_Parser = Callable[[str, str, str, int], FormatName]


# ---- parsing -----------------------------------------------------------------------------


def parse_format_name(text: str) -> tuple[FormatName, ...]:
    """Parse a format name of one or more elements.

    Raises:
        IllegalFormatName: With the position of the fault. A read-only queue, a connector or a
            multicast address among several elements makes the whole name illegal (FN-10, X-6).
    """
    if len(text) > FORMAT_NAME_CHARS_MAX:
        raise IllegalFormatName(
            f"a format name has at most {FORMAT_NAME_CHARS_MAX} characters, not {len(text)}"
        )
    parts = text.split(",")
    if len(parts) > FORMAT_NAME_ELEMENTS_MAX:
        raise IllegalFormatName(
            f"a format name has at most {FORMAT_NAME_ELEMENTS_MAX} elements, not {len(parts)}"
        )
    found: list[FormatName] = []
    at = 0
    for part in parts:
        found.append(_element(text, part, at))
        at += len(part) + 1
    if len(found) > 1:
        _check_elements(text, found)
    return tuple(found)


def _check_elements(text: str, found: list[FormatName]) -> None:
    at = 0
    for name in found:
        if name.is_read_only or name.subqueue or name.kind in (
            Kind.MACHINE, Kind.CONNECTOR, Kind.MULTICAST,
        ):  # fmt: skip
            raise _fault(text, at, f"{name} cannot be one of several elements")
        at += len(name.text) + 1


def _fault(text: str, at: int, what: str) -> IllegalFormatName:
    shown = text if len(text) <= 120 else text[: max(at, 60) + 40]
    return IllegalFormatName(f"{what}, at position {at}\n  {shown}\n  {' ' * at}^")


def _element(text: str, part: str, at: int) -> FormatName:
    prefix, separator, rest = part.partition("=")
    lead = len(prefix) - len(prefix.lstrip())
    kind = _PREFIXES.get(prefix.strip().upper())
    if not separator or kind is None:
        known = ", ".join(f"{name}=" for name in _PREFIXES)
        raise _fault(text, at + lead, f"a format name begins with one of {known}")
    return kind(text, part, rest.rstrip(), at + len(prefix) + 1)


def _guid_form(kind: Kind, allowed: tuple[Suffix, ...], *, needed: bool = False) -> _Parser:
    def parse(text: str, part: str, rest: str, at: int) -> FormatName:
        guid, _, tail = rest.partition(";")
        raw = _guid(text, guid, at)
        suffix = _suffix(text, tail, at + len(guid) + 1, allowed) if ";" in rest else Suffix.NONE
        if needed and suffix is Suffix.NONE:
            raise _fault(text, at + len(rest), "a suffix such as ;JOURNAL is missing")
        return FormatName(kind, guid=raw, suffix=suffix, text=part)

    return parse


def _guid(text: str, guid: str, at: int) -> bytes:
    if not re.fullmatch(GUID_TEXT, guid):
        raise _fault(text, at, "a GUID such as 01234567-89ab-cdef-0123-456789abcdef is missing")
    return guid_bytes(guid)


def _suffix(text: str, tail: str, at: int, allowed: tuple[Suffix, ...]) -> Suffix:
    for suffix in allowed:
        if tail.upper() == suffix.name:
            return suffix
    wanted = " or ".join(f";{suffix.name}" for suffix in allowed)
    raise _fault(text, at, f"only {wanted} may follow here")


def _private(text: str, part: str, rest: str, at: int) -> FormatName:
    guid, slash, tail = rest.replace("/", "\\").partition("\\")
    raw = _guid(text, guid, at)
    number, semicolon, suffix_text = tail.partition(";")
    at += len(guid) + 1
    if not slash or not re.fullmatch(r"[0-9a-fA-F]{1,8}", number):
        raise _fault(text, at, "the queue's number, 1 to 8 hexadecimal digits, is missing")
    suffix = Suffix.NONE
    if semicolon:
        suffix = _suffix(text, suffix_text, at + len(number) + 1, (Suffix.JOURNAL,))
    return FormatName(Kind.PRIVATE, guid=raw, number=int(number, 16), suffix=suffix, text=part)


def _dl(text: str, part: str, rest: str, at: int) -> FormatName:
    guid, separator, domain = rest.partition("@")
    raw = _guid(text, guid, at)
    if separator and not (
        0 < len(domain) <= DOMAIN_CHARS_MAX and re.fullmatch(r"[\x21-\x7e]+", domain)
    ):
        raise _fault(text, at + len(guid) + 1, "a domain of printable characters is missing")
    return FormatName(Kind.DL, guid=raw, domain=domain, text=part)


def _multicast(text: str, part: str, rest: str, at: int) -> FormatName:
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3}):(\d{1,5})", rest)
    if match is None:
        raise _fault(text, at, "an address and a port such as 234.1.1.1:8001 are missing")
    *octets, port = map(int, match.groups())
    if not 224 <= octets[0] <= 239 or max(octets) > 255:
        raise _fault(text, at, "multicast addresses are 224.0.0.0 to 239.255.255.255")
    if not 0 < port <= 65535:
        raise _fault(text, at + rest.index(":") + 1, "a port is 1 to 65535")
    host = ".".join(map(str, octets))
    return FormatName(Kind.MULTICAST, host=host, number=port, text=part)


def _direct(text: str, part: str, rest: str, at: int) -> FormatName:
    protocol, separator, tail = rest.partition(":")
    upper = protocol.upper()
    if not separator or upper not in ("OS", "TCP", "HTTP", "HTTPS"):
        raise _fault(text, at, "a direct name goes on with OS:, TCP:, HTTP: or HTTPS:")
    at += len(protocol) + 1
    if upper.startswith("HTTP"):
        return _http(text, part, tail, at, upper)
    host, slash, path = tail.replace("/", "\\").partition("\\")
    if not host or len(host) > COMPUTER_NAME_CHARS_MAX or not re.fullmatch(r"[\x21-\x7e]+", host):
        raise _fault(text, at, "a computer name or address is missing")
    if not slash:
        raise _fault(text, at + len(host), "\\ and the name of a queue are missing")
    return _place(text, part, path, at + len(host) + 1, upper, host)


def _http(text: str, part: str, tail: str, at: int, protocol: str) -> FormatName:
    match = re.fullmatch(r"//([^/\\]{1,256})[/\\][mM][sS][mM][qQ][/\\](.*)", tail, re.DOTALL)
    if match is None:
        raise _fault(text, at, "//host/msmq/ and the name of a queue are missing")
    path = match.group(2).replace("/", "\\")
    return _place(text, part, path, at + match.start(2), protocol, match.group(1))


def _place(text: str, part: str, path: str, at: int, protocol: str, host: str) -> FormatName:
    """What follows the computer in a direct name."""
    folded = path.casefold()
    if folded.startswith(SYSTEM_PREFIX):
        suffix = _suffix(text, path[len(SYSTEM_PREFIX) :], at + len(SYSTEM_PREFIX), _READ_ONLY)
        return FormatName(Kind.DIRECT, protocol=protocol, host=host, suffix=suffix, text=part)
    private = folded.startswith(PRIVATE_PREFIX)
    if private:
        path, at = path[len(PRIVATE_PREFIX) :], at + len(PRIVATE_PREFIX)
    queue, semicolon, tail = path.partition(";")
    try:
        check_queue_name(queue)
    except IllegalPathName as error:
        raise _fault(text, at, error.text) from error
    suffix, subqueue = Suffix.NONE, ""
    if semicolon:
        if tail.upper() == Suffix.JOURNAL.name:
            suffix = Suffix.JOURNAL
        else:
            subqueue = _subqueue(text, tail, at + len(queue) + 1)
    return FormatName(
        Kind.DIRECT, protocol=protocol, host=host, queue=queue, private=private, suffix=suffix,
        subqueue=subqueue, text=part,
    )  # fmt: skip


def _subqueue(text: str, name: str, at: int) -> str:
    if len(name) > SUBQUEUE_NAME_CHARS_MAX:
        raise _fault(text, at, f"a subqueue name has at most {SUBQUEUE_NAME_CHARS_MAX} characters")
    try:
        check_queue_name(name)
    except IllegalPathName as error:
        raise _fault(text, at, error.text) from error
    return name


_PREFIXES = {
    "DIRECT": _direct,
    "PRIVATE": _private,
    "PUBLIC": _guid_form(Kind.PUBLIC, (Suffix.JOURNAL,)),
    "DL": _dl,
    "MACHINE": _guid_form(Kind.MACHINE, _READ_ONLY, needed=True),
    "CONNECTOR": _guid_form(Kind.CONNECTOR, (Suffix.XACTONLY,)),
    "MULTICAST": _multicast,
}


def parse_path_name(text: str) -> FormatName:
    """Parse ``computer\\queue``, ``computer\\private$\\queue`` or ``computer\\system$;name``.

    The computer may be ``.`` for this one, and may be left out before ``private$\\`` and
    ``system$;``.

    Returns:
        The DIRECT=OS name of the same queue.

    Raises:
        IllegalPathName: With the position of the fault.
    """
    if "," in text:
        raise IllegalPathName(f"{text!r}: a path name names one queue; commas are for format names")
    path = text.replace("/", "\\")
    folded = path.casefold()
    if folded.startswith((PRIVATE_PREFIX, SYSTEM_PREFIX)) or "\\" not in path:
        path = ".\\" + path
    try:
        (name,) = parse_format_name("DIRECT=OS:" + path)
    except IllegalFormatName as error:
        what = error.text
        raise IllegalPathName(
            f"{text!r} is not the path of a queue: {what.splitlines()[0]}"
        ) from error
    return name


def parse_any(text: str) -> tuple[FormatName, ...]:
    """Parse a format name of one or more elements, or a path name.

    Raises:
        IllegalFormatName, IllegalPathName: Whatever it was taken for.
    """
    if "=" in text:
        return parse_format_name(text)
    return (parse_path_name(text),)


# ---- what names may be used for (section 2.3) --------------------------------------------


def may_send(name: FormatName) -> None:
    """Refuse names that nothing can be sent to; raises UnsupportedFormatName."""
    if name.is_read_only or name.kind is Kind.MACHINE:
        raise UnsupportedFormatName(f"{name} is read-only: applications cannot send to it")
    if name.subqueue:
        raise UnsupportedFormatName(f"{name}: messages enter a subqueue only by a move")


def may_receive(name: FormatName) -> None:
    """Refuse names that nothing can be received from; raises UnsupportedFormatName."""
    if name.kind in (Kind.DL, Kind.MULTICAST, Kind.CONNECTOR):
        raise UnsupportedFormatName(f"{name} is for sending only")
    if name.protocol.startswith("HTTP"):
        raise UnsupportedFormatName(f"{name}: messages cannot be received over HTTP")
