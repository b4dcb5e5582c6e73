"""How an application proves who it is, and whom it believes: tokens, and files for TLS.

What stands in a file or in the environment is read anew for each connection, so that it can be
replaced without a restart. A token leaves this process in one place, the hello of a connection,
and only where nobody on the way can read it: over TLS, to a Unix socket, and over loopback. It
stands in no text of ours: errors name where it was found.
"""

from __future__ import annotations

import os
import ssl
import stat
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Final

from onceq.client.address import Address
from onceq.client.link import Greeting
from onceq.errors import AccessDenied, ConfigurationError, OnceqError, UnknownVersion
from onceq.model.loopback import is_loopback
from onceq.model.tokens import PREFIX, TEXT_CHARS_MAX, read
from onceq.permission import denied
from onceq.tls.contexts import APPLICATIONS, client_context
from onceq.wire.app import frames

TOKEN: Final = "ONCEQ_TOKEN"
TOKEN_FILE: Final = "ONCEQ_TOKEN_FILE"
AUTHORITIES: Final = "ONCEQ_TLS_AUTHORITIES"
CERTIFICATE: Final = "ONCEQ_TLS_CERTIFICATE"
KEY: Final = "ONCEQ_TLS_KEY"
"""Variables of the environment, for what the programme does not say."""
_FILE_BYTES_MAX: Final = 4 * TEXT_CHARS_MAX
"""Of a file with a token: more is something else."""
PROGRAM: Final = "onceq"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files for TLS with a queue manager (``tls://host:port``).

    Attributes:
        authorities: Certificates of those who may have signed the queue manager's; "": those that
            the system trusts.
        certificate: The application's own certificate, which says who it is; "": it has none.
        key: The private key of that; "": it stands in the same file.
    """

    authorities: str = ""
    certificate: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A token, and where it was found."""

    text: str
    where: str

    def __repr__(self) -> str:
        return f"<a token from {self.where}>"


class Credentials:
    """What an application shows, and whom it believes. Any thread may use it."""

    def __init__(
        self,
        *,
        token: str | None = None,
        token_file: str | PathLike[str] | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Note what the programme says; for the rest the environment is asked.

        Raises:
            ConfigurationError: It says two things, or something that is no token.
        """
        if token is not None and token_file is not None:
            raise ConfigurationError("say either the token or the file that it stands in, not both")
        if token:
            _check(token, "the token that was given")
        self._token = token
        self._file = None if token_file is None else fspath(token_file)
        if self._file is not None and is_secret(self._file):
            raise ConfigurationError(
                "a token was given where the name of its file belongs: put it into a file that no "
                "other account may read, and name that"
            )
        self._tls = tls

    def __repr__(self) -> str:
        return "<credentials>"

    def context(self) -> ssl.SSLContext:
        """For a connection in TLS; raises ConfigurationError, AccessDenied."""
        files = self._tls or environment_files()
        return client_context(files.authorities, certificate=files.certificate, key=files.key)

    def check(self) -> None:
        """Read the token as for a connection, so that what is wrong with it is said before there
        is any; raises ConfigurationError, AccessDenied."""
        self._found()

    def greeting(self, address: Address, peer: str) -> Hello:
        """What to say first on a connection.

        Args:
            peer: IP address of the other side; "" at a Unix socket.

        Raises:
            ConfigurationError: There is a token, and others could read it on its way; or what
                should hold one does not.
            AccessDenied: The file with the token cannot be read, or others can.
        """
        found = self._found()
        if found is not None and not (address.path or address.tls or is_loopback(peer)):
            raise ConfigurationError(
                f"{found.where} is not shown to {address}, because it would cross the network as "
                "it is: connect by tls://host:port"
            )
        return Hello(address, found)

    def _found(self) -> _Found | None:
        if self._token is not None:
            return _Found(self._token, "the token that was given") if self._token else None
        if self._file is not None:
            return _from_file(self._file)
        environment = os.environ
        text, file = environment.get(TOKEN, "").strip(), environment.get(TOKEN_FILE, "")
        if text and file:
            raise ConfigurationError(f"{TOKEN} and {TOKEN_FILE} are both set: unset one of them")
        if text:
            where = f"the token in {TOKEN}"
            _check(text, where)
            return _Found(text, where)
        return _from_file(file) if file else None


class Hello:
    """The first frame of one connection, and what its answer means."""

    def __init__(self, address: Address, found: _Found | None) -> None:
        self._address = address
        self._found = found

    @property
    def head(self) -> frames.Hello:
        """The head of the frame."""
        return frames.Hello(frames.VERSION, PROGRAM, self._found.text if self._found else "")

    def refused(self, error: OnceqError) -> OnceqError:
        """What the queue manager answered instead of its name, with what to do."""
        if type(error) is not AccessDenied:
            return error
        if self._found is not None:
            return AccessDenied(
                f"the queue manager at {self._address} does not take {self._found.where}: it is "
                "wrong, was revoked, or has expired; 'onceq token list' there shows those that are "
                "good"
            )
        return AccessDenied(
            f"the queue manager at {self._address} does not know who this is; show a token "
            f"(token_file=, or {TOKEN_FILE}) or a certificate (tls=, or {CERTIFICATE})"
        )

    def accepted(self, said: Greeting) -> Greeting:
        """The greeting, if what was shown was looked at; raises UnknownVersion."""
        if self._found is not None and said.revision < frames.REVISION_TOKENS:
            raise UnknownVersion(
                f"the queue manager at {self._address} is of a version that knows no tokens, and "
                f"has not looked at {self._found.where}: update it, or connect without a token"
            )
        return said


def environment_files() -> Tls:
    """What the environment says about files for TLS now."""
    environment = os.environ
    return Tls(
        environment.get(AUTHORITIES, ""), environment.get(CERTIFICATE, ""), environment.get(KEY, "")
    )


def is_secret(text: str) -> bool:
    """Whether a text that should be the name of something is a token, or the most of one."""
    return text.strip().startswith(f"{PREFIX}_")


def check_protocol(address: Address, chosen: str | None) -> None:
    """Whether it is the applications' protocol that is spoken in TLS; raises WrongAddress."""
    if chosen != APPLICATIONS:
        raise address.speaks_other_tls()


def _check(text: str, where: str) -> None:
    if read(text) is None:
        raise ConfigurationError(
            f"{where} is none: a token is what 'onceq token create' prints, and begins with onceqt_"
        )


def _from_file(name: str) -> _Found:
    """The token in a file that nobody else can read."""
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
    text = raw[:_FILE_BYTES_MAX].decode("ascii", "replace").strip()
    _check(text, where)
    return _Found(text, where)
