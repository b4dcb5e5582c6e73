"""How an application proves who it is, and whom it believes: tokens, and files for TLS.

What stands in a file or in the environment is read anew for each connection, so that it can be
replaced without a restart. A token leaves this process in one place, the hello of a connection,
and only where nobody on the way can read it: over TLS, to a Unix socket, and over loopback. It
stands in no text of ours: errors name where it was found.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from onceq.client.address import Address
from onceq.client.greetings import Greeting
from onceq.errors import AccessDenied, ConfigurationError, OnceqError, UnknownVersion
from onceq.model.loopback import is_loopback
from onceq.model.record import Record
from onceq.tls.identity import guid_of
from onceq.wire.app import frames

if TYPE_CHECKING:
    import ssl

    from onceq.client.token_files import Found, TokenFile

TOKEN: Final = "ONCEQ_TOKEN"
TOKEN_FILE: Final = "ONCEQ_TOKEN_FILE"
AUTHORITIES: Final = "ONCEQ_TLS_AUTHORITIES"
CERTIFICATE: Final = "ONCEQ_TLS_CERTIFICATE"
KEY: Final = "ONCEQ_TLS_KEY"
"""Variables of the environment, for what the programme does not say."""
PROGRAM: Final = "onceq"


class Tls(Record, frozen=True):
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


class Credentials:
    """What an application shows, and whom it believes. Any thread may use it."""

    def __init__(
        self,
        *,
        token: str | None = None,
        token_file: str | PathLike[str] | None = None,
        tls: Tls | None = None,
        aside: bool = False,
    ) -> None:
        """Note what the programme says; for the rest the environment is asked.

        Args:
            aside: It is for another queue manager than the one that the programme works with: a
                token that does not say for whom it is is not shown there.

        Raises:
            ConfigurationError: It says two things, or something that is no token.
        """
        if token is not None and token_file is not None:
            raise ConfigurationError("say either the token or the file that it stands in, not both")
        self._token = _checked(token, "the token that was given") if token else None
        self._silent = token == ""
        self._aside = aside
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
        from onceq.tls.contexts import client_context

        files = self._tls or environment_files()
        return client_context(files.authorities, certificate=files.certificate, key=files.key)

    def check(self) -> None:
        """Read the tokens as for a connection, so that what is wrong with them is said before there
        is any; raises ConfigurationError, AccessDenied."""
        self._kept()

    def greeting(
        self, address: Address, peer: str, certificate: Mapping[str, Any] | None = None
    ) -> Hello:
        """What to say first on a connection.

        Args:
            peer: IP address of the other side; "" at a Unix socket.
            certificate: What it has proven itself with, as ``getpeercert()`` returns it.

        Raises:
            ConfigurationError: There is a token, and others could read it on its way; or what
                should hold one for this queue manager does not.
            AccessDenied: The file with the token cannot be read, or others can.
        """
        found = self._found(address, guid_of(certificate))
        if found is not None and not (address.path or address.tls or is_loopback(peer)):
            raise ConfigurationError(
                f"{found.where} is not shown to {address}, because it would cross the network as "
                "it is: connect by tls://host:port"
            )
        return Hello(address, found)

    def _found(self, address: Address, guid: bytes) -> Found | None:
        """What the queue manager there is shown."""
        kept = self._kept()
        if kept is None:
            return None
        from onceq.client.token_files import Found

        if isinstance(kept, Found):
            return kept
        return kept.shown_to(address, guid) if kept.by_name or not self._aside else None

    def _kept(self) -> Found | TokenFile | None:
        """The token, or the file of tokens."""
        if self._token is not None or self._silent:
            return self._token
        if self._file is not None:
            return _file(self._file)
        environment = os.environ
        text, file = environment.get(TOKEN, "").strip(), environment.get(TOKEN_FILE, "")
        if text and file:
            raise ConfigurationError(f"{TOKEN} and {TOKEN_FILE} are both set: unset one of them")
        if text:
            found = _checked(text, f"the token in {TOKEN}")
            return None if self._aside else found
        return _file(file) if file else None


class Hello:
    """The first frame of one connection, and what its answer means."""

    def __init__(self, address: Address, found: Found | None) -> None:
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


# Tokens, as TLS above, are loaded for those who show one: most that ask a daemon show none.


def _checked(text: str, where: str) -> Found:
    from onceq.client.token_files import checked

    return checked(text, where)


def _file(name: str) -> TokenFile:
    from onceq.client.token_files import TokenFile

    return TokenFile(name)


def is_secret(text: str) -> bool:
    """Whether a text that should be the name of something is a token, or the most of one."""
    from onceq.model.tokens import PREFIX

    return text.strip().startswith(f"{PREFIX}_")


def check_protocol(address: Address, chosen: str | None) -> None:
    """Whether it is the applications' protocol that is spoken in TLS; raises WrongAddress."""
    from onceq.tls.contexts import APPLICATIONS

    if chosen != APPLICATIONS:
        raise address.speaks_other_tls()
