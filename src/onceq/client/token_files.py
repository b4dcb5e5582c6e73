"""Files with tokens: one token for every queue manager, or a line for each of several.

A queue manager knows its own tokens alone, so an application that works with several has one for
each. In a file of lines each says for whom its token is, and it is shown to nobody else:

    tls://hub.example.net:1802              onceqt_billing_5c0f...
    58a1c6de-92a7-4a8e-8a2c-0f6d7b1e2c3d    onceqt_billing_91ab...
    /var/lib/onceq/spoke                    -

By the address that is connected to (without a scheme by either), by the data directory or socket
of one on this computer, or by the GUID in the certificate that it has proven itself with. ``-``:
none is shown to it. Which line counts is never guessed: one that is missing, or two for the same
one, are errors. Lines of blanks, and those that begin with #, say nothing.

Upholds: no text of ours shows what is in such a file; lines are named by their numbers.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceq.client.address import SCHEME, SCHEMES, TLS_SCHEME, UNIX_SCHEME, ManagerAddress, parse
from onceq.errors import AccessDenied, ConfigurationError
from onceq.file_access import SOCKET_FILE, denied
from onceq.model.identity import NO_GUID, guid_bytes, guid_text
from onceq.model.limits import TOKEN_LINES_MAX
from onceq.model.tokens import TEXT_CHARS_MAX, read

NONE: Final = "-"
"""In the place of a token: none is shown to that queue manager."""
_LINE_BYTES: Final = 512 + TEXT_CHARS_MAX
_FILE_BYTES_MAX: Final = TOKEN_LINES_MAX * _LINE_BYTES
"""Of a file with tokens: more is something else."""


@dataclass(frozen=True, slots=True)
class FoundToken:
    """A token, and where it was found."""

    text: str
    where: str

    def __repr__(self) -> str:
        return f"<a token from {self.where}>"


@dataclass(frozen=True, slots=True)
class _ManagerPlace:
    """Where a queue manager is, as a line says it.

    Attributes:
        path: Its data directory or its socket; "": it is at a host and a port.
        tls: Whether in TLS; None: in any way.
    """

    path: str = ""
    host: str = ""
    port: int = 0
    tls: bool | None = None

    def is_at(self, address: ManagerAddress) -> bool:
        """Whether this is where was connected to."""
        if self.path and address.path:
            own = os.path.realpath(self.path)
            return os.path.realpath(address.path) in (own, os.path.join(own, SOCKET_FILE))
        if self.path or address.path:
            return False
        there = (address.host.casefold(), address.port)
        return there == (self.host, self.port) and self.tls in (None, address.tls)


@dataclass(frozen=True, slots=True)
class _Line:
    """What one line says.

    Attributes:
        number: From 1.
        whom: Where the queue manager is, or its GUID.
        token: What it is shown; None: nothing.
    """

    number: int
    whom: _ManagerPlace | bytes
    token: FoundToken | None

    def is_for(self, address: ManagerAddress, guid: bytes) -> bool:
        """Whether it is for the queue manager that was connected to."""
        if isinstance(self.whom, bytes):
            return self.whom == guid
        return self.whom.is_at(address)


class TokenFile:
    """What a file with tokens says, read once. It shows nothing of it."""

    def __init__(self, name: str) -> None:
        """Read a file that nobody else can read.

        Raises:
            ConfigurationError: It cannot be read, or something else stands there.
            AccessDenied: Others may read or change it, or this account may not read it.
        """
        self._name = name
        text = _contents(name)
        self._one: FoundToken | None = None
        self._lines: list[_Line] = []
        lines = [
            (number, words)
            for number, line in enumerate(text.splitlines(), 1)
            if (words := line.split()) and not words[0].startswith("#")
        ]
        if not lines:
            raise _none(f"the token in {name}")
        if len(lines) > TOKEN_LINES_MAX:
            raise ConfigurationError(f"{name} has more than {TOKEN_LINES_MAX} lines with tokens")
        if len(lines) == 1 and len(lines[0][1]) == 1:
            self._one = checked(lines[0][1][0], f"the token in {name}")
            return
        self._lines = [self._line(number, words) for number, words in lines]
        first: dict[object, int] = {}
        for line in self._lines:
            before = first.setdefault(line.whom, line.number)
            if before != line.number:
                raise ConfigurationError(
                    f"lines {before} and {line.number} of {name} are for the same queue manager: "
                    "leave one"
                )

    def __repr__(self) -> str:
        return f"<tokens in {self._name}>"

    @property
    def by_name(self) -> bool:
        """Whether it says of each token for whom it is."""
        return self._one is None

    def shown_to(self, address: ManagerAddress, guid: bytes = NO_GUID) -> FoundToken | None:
        """What a queue manager is shown; None: nothing.

        Args:
            address: Where was connected to.
            guid: Which queue manager has proven by a certificate that it is there; NO_GUID: none.

        Raises:
            ConfigurationError: No line is for it, or more than one.
        """
        if self._one is not None:
            return self._one
        mine = [line for line in self._lines if line.is_for(address, guid)]
        if len(mine) > 1:
            numbers = " and ".join(str(line.number) for line in mine)
            raise ConfigurationError(
                f"{self._name} says twice what is shown to {address}, in lines {numbers}: leave one"
            )
        if not mine:
            whom, also = str(address), ""
            if guid != NO_GUID:
                whom += f" (queue manager {guid_text(guid)})"
            elif any(isinstance(line.whom, bytes) for line in self._lines):
                also = "; lines by GUID count where the queue manager proves it in TLS"
            raise ConfigurationError(
                f"{self._name} has no line for {whom}: add '{address} TOKEN' with what 'onceq "
                f"token create' prints there, or '{address} {NONE}' if no token shall be shown to "
                f"it{also}"
            )
        return mine[0].token

    def _line(self, number: int, words: list[str]) -> _Line:
        where = f"the token in line {number} of {self._name}"
        if len(words) != 2:
            raise ConfigurationError(
                f"line {number} of {self._name} is not '<address or GUID of the queue manager> "
                "<token>'; a single token for every queue manager needs a file of its own"
            )
        whom, token = words
        if read(whom) is not None:
            raise ConfigurationError(
                f"line {number} of {self._name} has its token first: what it is for stands before "
                "it"
            )
        found = None if token == NONE else checked(token, where)
        return _Line(number, self._whom(number, whom), found)

    def _whom(self, number: int, text: str) -> _ManagerPlace | bytes:
        """For whom a line is; never by what lies in a folder."""
        with suppress(ValueError):
            return guid_bytes(text)
        scheme = next((one for one in SCHEMES if text.startswith(one)), "")
        if text.startswith("/") or scheme == UNIX_SCHEME:
            path = parse(text if scheme else UNIX_SCHEME + text).path
            if os.path.isabs(path):
                return _ManagerPlace(os.path.normpath(path))
        elif scheme or "/" not in text:
            with suppress(ConfigurationError):
                found = parse(text if scheme else SCHEME + text)
                tls = found.tls if scheme else None
                return _ManagerPlace(host=found.host.casefold(), port=found.port, tls=tls)
        raise ConfigurationError(
            f"line {number} of {self._name} does not begin with the address of a queue manager "
            f"({TLS_SCHEME}host:port, or host:port), its GUID, or the absolute path of its data "
            "directory or socket"
        )


def checked(text: str, where: str) -> FoundToken:
    """A token, if it is one; raises ConfigurationError, which does not repeat it."""
    if read(text) is None:
        raise _none(where)
    return FoundToken(text, where)


def _none(where: str) -> ConfigurationError:
    return ConfigurationError(
        f"{where} is none: a token is what 'onceq token create' prints, and begins with onceqt_"
    )


def _contents(name: str) -> str:
    where = f"the token in {name}"
    try:
        # A pipe without a writer would be waited for.
        with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(_FILE_BYTES_MAX + 1) if stat.S_ISREG(mode) else b""
    except PermissionError:
        raise denied(name) from None
    except OSError as error:
        raise ConfigurationError(
            f"{where} cannot be read: {(error.strerror or str(error)).lower()}; what 'onceq token "
            "create' prints belongs there, on each computer that connects"
        ) from None
    if not stat.S_ISREG(mode):
        raise ConfigurationError(f"{where} cannot be read: it is no plain file")
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise AccessDenied(
            f"{name} holds a token, and other accounts may read or change it (mode "
            f"{stat.S_IMODE(mode):04o}): make it yours alone with 'chmod 600 {name}'"
        )
    if len(raw) > _FILE_BYTES_MAX:
        raise _none(where)
    return raw.decode("ascii", "replace")
