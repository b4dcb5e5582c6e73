r"""Names of queues: path names and format names, parsed, printed and compared (FN-19).

A *format name* says how to reach a queue, and packets contain it; a *path name* says where a queue
is registered. Several format names, separated by commas, are a multiple-element format name (S3).
Prefixes and host names compare case-insensitively and keep their spelling (FN-1). As shells eat
backslashes, ``/`` may be written for ``\`` everywhere; ``str`` prints the usual one.

Names are ASCII throughout, so that no two of them only look alike. Every fault is reported with
its position, counted from 0, and a caret below it. Nothing here knows which queues exist.

Also here:

* What may be sent to, and in which order: rules about names alone (FN-2, FN-13).
* One spelling for each name of a queue: what is written down, and what is compared.

Upholds: I24 (time and memory grow with the length of the text, which is limited), I2 (a send is
refused as a whole).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from typing import Final

from onceq import errors
from onceq.model import limits
from onceq.model.identity import NO_GUID, guid_bytes, guid_text
from onceq.model.queue import name_fault
from onceq.model.wording import TextSource

# ---- names ---------------------------------------------------------------------------------------


PRIVATE_PREFIX = "private$\\"
SYSTEM_PREFIX = "system$;"
RESERVED = ("private$", "system$")
"""What no computer and no public queue is called: something is missing before or after it."""
DOMAIN_CHARS_MAX = 255
PORT_MAX = 65_535
CACHED_CHARS_MAX = 512
"""Names up to this size are parsed once, as long as not too many others come between."""
CACHED_NAMES_MAX = 512

_GUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_NUMBER = re.compile(r"[0-9a-fA-F]{1,8}")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_GROUP = re.compile(r"([0-9.]+):([0-9]{1,5})")
_URL = re.compile(
    r"//(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?/(?i:msmq)/(?P<path>.*)"
)


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
        protocol: OS, TCP, HTTP or HTTPS, in capitals.
        host: Computer name or address, as it was spelled; with its port for HTTP; the address of
            a multicast group.
        queue: Without ``private$\\``; "" for the queues of the computer itself.
        private: Whether ``private$\\`` stood before it.
        domain: Of a distribution list, where one was given.
        text: As it was given, format name or path name; no part of what the name means.
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
    _printed: str = field(default="", init=False, repr=False, compare=False)
    """The name as ``str`` gives it, and its key, once either was asked for."""
    _key: str = field(default="", init=False, repr=False, compare=False)

    @property
    def is_read_only(self) -> bool:
        """Whether it names a journal or a dead-letter queue (Q-2)."""
        return self.suffix in _READ_ONLY

    @property
    def direct(self) -> str:
        """The text of a direct name without ``DIRECT=``; "" for other kinds."""
        if self.kind is not Kind.DIRECT:
            return ""
        tail = f";{self.suffix.name}" if self.suffix else ""
        tail = f";{self.subqueue}" if self.subqueue else tail
        queue = (PRIVATE_PREFIX if self.private else "") + self.queue if self.queue else "SYSTEM$"
        if self.protocol.startswith("HTTP"):
            return f"{self.protocol}://{self.host}/msmq/" + queue.replace("\\", "/") + tail
        return f"{self.protocol}:{self.host}\\{queue}{tail}"

    def __str__(self) -> str:
        if not self._printed:
            self._note("_printed", self._print())
        return self._printed

    def _note(self, field: str, text: str) -> None:
        # Results derived from the name may be kept in it, although it is frozen.
        object.__setattr__(self, field, text)

    def _print(self) -> str:
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
        if not self._key:
            self._note("_key", str(self).casefold())
        return self._key


def url_of(name: FormatName) -> str:
    """The URL of a queue with an HTTP name."""
    scheme, _, rest = name.direct.partition("://")
    return f"{scheme.lower()}://{rest}"


def queue_key(private: bool, name: str) -> str:
    """How a manager finds a queue of its own."""
    return (PRIVATE_PREFIX if private else "") + name.casefold()


_Parser = Callable[[TextSource, str, int], FormatName]


# ---- parsing -----------------------------------------------------------------------------


def parse_format_name(text: str) -> tuple[FormatName, ...]:
    """Parse a format name of one or more elements.

    Raises:
        IllegalFormatName: With the position of the fault. A read-only queue, a subqueue, a
            connector or a multicast address among several elements makes the whole name illegal
            (FN-10, X-6).
    """
    return _short(text) if len(text) <= CACHED_CHARS_MAX else _elements(text)


def _elements(text: str) -> tuple[FormatName, ...]:
    source = TextSource(text, errors.IllegalFormatName)
    source.check(chars_max=limits.FORMAT_NAME_CHARS_MAX)
    found: list[FormatName] = []
    at = 0
    parts = text.split(",")
    for part in parts:
        if len(found) == limits.FORMAT_NAME_ELEMENTS_MAX:
            raise source.fault(
                at, f"a format name has at most {limits.FORMAT_NAME_ELEMENTS_MAX} elements"
            )
        name = _element(source, part, at)
        if len(parts) > 1 and _alone(name):
            raise source.fault(
                at + len(part) - len(part.lstrip()), f"{name} cannot be one of several elements"
            )
        found.append(name)
        at += len(part) + 1
    return tuple(found)


def _alone(name: FormatName) -> bool:
    return (
        name.is_read_only
        or name.subqueue != ""
        or name.kind in (Kind.MACHINE, Kind.CONNECTOR, Kind.MULTICAST)
    )


def parse_path_name(text: str) -> FormatName:
    """Parse ``computer\\queue``, ``computer\\private$\\queue`` or ``computer\\system$;name``.

    The computer may be ``.`` for this one, and may be left out before ``private$\\``, before
    ``system$;`` and where there is only the name of a queue.

    Returns:
        The DIRECT=OS name of the same queue.

    Raises:
        IllegalPathName: With the position of the fault.
    """
    return _short_path(text) if len(text) <= CACHED_CHARS_MAX else _path(text)


def _path(text: str) -> FormatName:
    source = TextSource(text, errors.IllegalPathName)
    source.check(chars_max=limits.FORMAT_NAME_CHARS_MAX)
    comma = text.find(",")
    if comma >= 0:
        raise source.fault(
            comma,
            "a path name names one queue; for several write format names such as "
            "DIRECT=OS:computer\\private$\\queue",
        )
    path = text.replace("/", "\\")
    if path.lower().startswith((PRIVATE_PREFIX, SYSTEM_PREFIX)) or "\\" not in path:
        return _place(source, path, 0, ("OS", ".", text))
    host, _, path = path.partition("\\")
    _check_host(source, host, 0)
    return _place(source, path, len(host) + 1, ("OS", host, text))


_short, _short_path = lru_cache(CACHED_NAMES_MAX)(_elements), lru_cache(CACHED_NAMES_MAX)(_path)


def parse_any(text: str) -> tuple[FormatName, ...]:
    """Parse a format name of one or more elements, or a path name.

    It is taken for a format name if a ``=`` comes before any backslash or slash.

    Raises:
        IllegalFormatName, IllegalPathName: According to what it was taken for.
    """
    prefix, equals, _ = text.partition("=")
    if equals and "\\" not in prefix and "/" not in prefix:
        return parse_format_name(text)
    return (parse_path_name(text),)


def _element(source: TextSource, part: str, at: int) -> FormatName:
    prefix, equals, rest = part.partition("=")
    parser = _PREFIXES.get(prefix.strip(" ").upper())
    if not equals or parser is None:
        known = ", ".join(f"{name}=" for name in _PREFIXES)
        raise source.fault(
            at + len(part) - len(part.lstrip(" ")), f"a format name begins with one of {known}"
        )
    return replace(parser(source, rest.rstrip(" "), at + len(prefix) + 1), text=part)


def _guid_form(kind: Kind, allowed: tuple[Suffix, ...], *, needed: bool = False) -> _Parser:
    def parse(source: TextSource, rest: str, at: int) -> FormatName:
        guid, semicolon, tail = rest.partition(";")
        raw = _guid(source, guid, at)
        suffix = Suffix.NONE
        if semicolon or needed:
            suffix = _suffix(source, tail, at + len(guid) + len(semicolon), allowed)
        return FormatName(kind, guid=raw, suffix=suffix)

    return parse


def _guid(source: TextSource, guid: str, at: int) -> bytes:
    if not _GUID.fullmatch(guid):
        raise source.fault(at, "a GUID such as 01234567-89ab-cdef-0123-456789abcdef is missing")
    return guid_bytes(guid)


def _suffix(source: TextSource, tail: str, at: int, allowed: tuple[Suffix, ...]) -> Suffix:
    for suffix in allowed:
        if tail.upper() == suffix.name:
            return suffix
    wanted = " or ".join(f";{suffix.name}" for suffix in allowed)
    raise source.fault(at, f"the suffix {wanted} is expected here")


def _private(source: TextSource, rest: str, at: int) -> FormatName:
    guid, backslash, tail = rest.replace("/", "\\").partition("\\")
    raw = _guid(source, guid, at)
    number, semicolon, suffix_text = tail.partition(";")
    at += len(guid) + len(backslash)
    if not _NUMBER.fullmatch(number):
        raise source.fault(at, "the queue's number, \\ and 1 to 8 hexadecimal digits, is missing")
    suffix = Suffix.NONE
    if semicolon:
        suffix = _suffix(source, suffix_text, at + len(number) + 1, (Suffix.JOURNAL,))
    return FormatName(Kind.PRIVATE, guid=raw, number=int(number, 16), suffix=suffix)


def _dl(source: TextSource, rest: str, at: int) -> FormatName:
    guid, sign, domain = rest.partition("@")
    raw = _guid(source, guid, at)
    if sign and not (len(domain) <= DOMAIN_CHARS_MAX and _VISIBLE.fullmatch(domain)):
        raise source.fault(
            at + len(guid) + 1, f"a domain is 1 to {DOMAIN_CHARS_MAX} characters without spaces"
        )
    return FormatName(Kind.DL, guid=raw, domain=domain)


def _multicast(source: TextSource, rest: str, at: int) -> FormatName:
    match = _GROUP.fullmatch(rest)
    if match is None:
        raise source.fault(at, "an address and a port such as 234.1.1.1:8001 are missing")
    group, port = match.groups()
    try:
        is_group = ipaddress.IPv4Address(group).is_multicast
    except ValueError:
        is_group = False
    if not is_group:
        raise source.fault(at, "multicast addresses are 224.0.0.0 to 239.255.255.255")
    if not 0 < int(port) <= PORT_MAX:
        raise source.fault(at + len(group) + 1, f"a port is 1 to {PORT_MAX}")
    return FormatName(Kind.MULTICAST, host=group, number=int(port))


def _direct(source: TextSource, rest: str, at: int) -> FormatName:
    protocol, colon, tail = rest.partition(":")
    upper = protocol.upper()
    if not colon or upper not in ("OS", "TCP", "HTTP", "HTTPS"):
        raise source.fault(at, "a direct name goes on with OS:, TCP:, HTTP: or HTTPS:")
    at += len(protocol) + 1
    if upper.startswith("HTTP"):
        return _http(source, tail, at, upper)
    host, backslash, path = tail.replace("/", "\\").partition("\\")
    _check_host(source, host, at)
    if upper == "TCP":
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise source.fault(at, "after TCP: stands an IP address; use OS: for names") from None
    if not backslash:
        raise source.fault(at + len(host), "\\ and the name of a queue are missing")
    return _place(source, path, at + len(host) + 1, (upper, host, ""))


def _check_host(source: TextSource, host: str, at: int) -> None:
    if not _VISIBLE.fullmatch(host):
        raise source.fault(at, "a computer name or address, without spaces, is missing")
    if host.lower().partition(";")[0] in RESERVED:
        raise source.fault(at, f"a computer name, or . for this one, is missing before {host}")
    if len(host) > limits.COMPUTER_NAME_CHARS_MAX:
        raise source.fault(
            at + limits.COMPUTER_NAME_CHARS_MAX,
            f"a computer name has at most {limits.COMPUTER_NAME_CHARS_MAX} characters",
        )


def _http(source: TextSource, tail: str, at: int, protocol: str) -> FormatName:
    """``//host[:port]/msmq/[private$/]queue``."""
    match = _URL.fullmatch(tail.replace("\\", "/"))
    if match is None:
        raise source.fault(at, "//host/msmq/ and the name of a queue are missing")
    host, port, path = match["host"], match["port"], match["path"]
    _check_host(source, host, at + match.start("host"))
    if port is not None and not 0 < int(port) <= PORT_MAX:
        raise source.fault(at + match.start("port"), f"a port is 1 to {PORT_MAX}")
    address = host if port is None else f"{host}:{int(port)}"
    path = path.replace("/", "\\")
    return _place(source, path, at + match.start("path"), (protocol, address, ""))


def _place(source: TextSource, path: str, at: int, head: tuple[str, str, str]) -> FormatName:
    """What follows the computer in a direct name; ``head`` is its protocol, host and text."""
    protocol, host, text = head
    folded = path.lower()
    if folded.startswith(SYSTEM_PREFIX):
        at += len(SYSTEM_PREFIX)
        suffix = _suffix(source, path[len(SYSTEM_PREFIX) :], at, _READ_ONLY)
        return FormatName(Kind.DIRECT, protocol=protocol, host=host, suffix=suffix, text=text)
    private = folded.startswith(PRIVATE_PREFIX)
    if private:
        path, at = path[len(PRIVATE_PREFIX) :], at + len(PRIVATE_PREFIX)
    queue, semicolon, tail = path.partition(";")
    if not private and queue.lower() in RESERVED:
        raise source.fault(at + len(queue), f"the name of a queue is missing after {queue}")
    _check(source, queue, at)
    suffix, subqueue = Suffix.NONE, ""
    if semicolon:
        at += len(queue) + 1
        if tail.upper() == Suffix.JOURNAL.name:
            suffix = Suffix.JOURNAL
        else:
            subqueue = tail
            _check(source, subqueue, at, what="subqueue", chars_max=limits.SUBQUEUE_NAME_CHARS_MAX)
    return FormatName(
        Kind.DIRECT, protocol=protocol, host=host, queue=queue, private=private, suffix=suffix,
        subqueue=subqueue, text=text,
    )  # fmt: skip


def _check(
    source: TextSource,
    name: str,
    at: int,
    *,
    what: str = "queue",
    chars_max: int = limits.QUEUE_NAME_CHARS_MAX,
) -> None:
    fault = name_fault(name, what=what, chars_max=chars_max)
    if fault is not None:
        raise source.fault(at + fault[0], fault[1])


_PREFIXES: dict[str, _Parser] = {
    "DIRECT": _direct,
    "PRIVATE": _private,
    "PUBLIC": _guid_form(Kind.PUBLIC, (Suffix.JOURNAL,)),
    "DL": _dl,
    "MACHINE": _guid_form(Kind.MACHINE, _READ_ONLY, needed=True),
    "CONNECTOR": _guid_form(Kind.CONNECTOR, (Suffix.XACTONLY,)),
    "MULTICAST": _multicast,
}


# ---- receiving -----------------------------------------------------------------------------------
#
# What names may be used for (FN-18).


def may_receive(name: FormatName) -> None:
    """Refuse what nothing can be received from: lists, multicast groups, HTTP addresses.

    Raises:
        UnsupportedFormatName: The name is legal, but not for this (FN-2).
    """
    if name.kind in (Kind.DL, Kind.MULTICAST):
        raise errors.UnsupportedFormatName(f"{name} is for sending only")
    if name.protocol.startswith("HTTP"):
        raise errors.UnsupportedFormatName(f"{name}: messages cannot be received over HTTP")


# ---- sending -------------------------------------------------------------------------------------


def elements_of(text: str) -> tuple[FormatName, ...]:
    """The names that a destination consists of.

    The queue manager and the Spark operators both decide by these.

    Raises:
        IllegalFormatName, IllegalPathName: It is no name, or has too many elements.
    """
    elements = parse_any(text)
    if len(elements) > limits.FORMAT_NAME_ELEMENTS_MAX:
        raise errors.IllegalFormatName(
            f"{len(elements)} elements; at most {limits.FORMAT_NAME_ELEMENTS_MAX}"
        )
    return elements


def in_order(names: Iterable[FormatName]) -> list[FormatName]:
    """The order in which destinations of one send are served, by their names only (FN-13)."""
    return sorted(names, key=lambda name: name.key())


def check_send(name: FormatName, *, transactional: bool) -> None:
    """Refuse names that nothing can be sent to.

    Raises:
        TransactionUsage: Multicast, in a transaction.
        UnsupportedOperation, UnsupportedFormatName: Not at all.
    """
    if name.kind is Kind.MULTICAST:
        if transactional:
            raise errors.TransactionUsage(
                f"{name}: multicast is never part of a transaction (FN-17)"
            )
        raise errors.UnsupportedOperation(f"{name}: onceq does not do multicast")
    may_send(name)
    if name.kind is Kind.CONNECTOR:
        raise errors.UnsupportedOperation(f"{name}: there are no connectors to foreign systems")


def may_send(name: FormatName) -> None:
    """Refuse what applications cannot send to: read-only queues, connectors, subqueues.

    Raises:
        UnsupportedFormatName: The name is legal, but not for this (FN-2).
    """
    if name.is_read_only or name.kind is Kind.MACHINE:
        raise errors.UnsupportedFormatName(f"{name} is read-only: applications cannot send to it")
    if name.kind is Kind.CONNECTOR:
        raise errors.UnsupportedFormatName(f"{name}: only queue managers send to a connector queue")
    if name.subqueue:
        raise errors.UnsupportedFormatName(f"{name}: messages enter a subqueue only by a move")


# ---- spelling ------------------------------------------------------------------------------------


_DIRECT: Final = re.compile(r"direct=(?:os|tcp|https?):(?:\\\\)?")
_HTTP_NAME: Final = re.compile(r"\s*direct=https?:", re.IGNORECASE)
_MSMQ: Final = "msmq\\"
_PRIVATE: Final = "private$\\"
_SYSTEM: Final = "system$"


def usual(name: str) -> str:
    """A name with ``\\``, however it was typed; capitals stay, and so does a URL.

    People write ``private$/orders``, ``PRIVATE$\\Orders`` or ``DIRECT=OS:hub\\private$\\orders``,
    and mean one queue. Where a name enters that is kept for long, in an offset, a plan or a row, it
    is written in the usual way (``usual``). A comparison takes what all names of the queue have in
    common (``folded``, and ``local`` where all are names at one queue manager).
    """
    return name if _HTTP_NAME.match(name) else name.replace("/", "\\")


def folded(name: str) -> str:
    """A name without what does not count in any: capitals, and which way its strokes lean."""
    return name.casefold().replace("/", "\\")


def local(name: str) -> str:
    """What all names of a queue have in common at its own queue manager, which they may name.

    Those that tell a queue by a number (``PRIVATE=``, ``PUBLIC=``) have only themselves in common.
    """
    text = folded(name.strip())
    direct = _DIRECT.match(text)
    path = text[direct.end() :] if direct else text
    host, stroke, rest = path.partition("\\")
    if stroke and host + stroke != _PRIVATE and "=" not in host:
        path = rest.removeprefix(_MSMQ) if direct and "http" in direct[0] else rest
    # Queues of the system are the same with it and without.
    return path.removeprefix(_PRIVATE) if _SYSTEM in path else path
