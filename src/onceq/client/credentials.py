"""How an application proves who it is, and whom it believes: tokens, and files for TLS.

What a file or the environment says is read for each connection, so that it can be
replaced without a restart. A token does not leave this process: the one that answers first proves
that it knows the digest of the secret, and gets it covered by that (``model/tokens.py``). That is
done over TLS, at a Unix socket, and over loopback. No text of ours shows it: errors name where it
was found.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from onceq import errors
from onceq.client.address import ManagerAddress
from onceq.client.link import Greeting, read_greeting
from onceq.file_access import account_name
from onceq.model.addresses import is_loopback
from onceq.model.record import Record
from onceq.model.run import Buffer
from onceq.sockets.both_ends import bound_to, listener
from onceq.tls.identity import guid_of
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, FrameCode, failure

if TYPE_CHECKING:
    import ssl

    from onceq.client.token_files import FoundToken, TokenFile

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
        key: The private key of that; "": it is in the same file.
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
        always: bool = False,
    ) -> None:
        """Note what the programme says; for the rest the environment is asked.

        Args:
            aside: It is for another queue manager than the one that the programme works with: a
                token that does not say for whom it is is not shown there.
            always: Connect nowhere without showing a token: the account of this process, which
                would count then, may do more than who is connected for.

        Raises:
            ConfigurationError: It says two things, or something that is no token.
        """
        if token is not None and token_file is not None:
            raise errors.ConfigurationError(
                "give either the token or the file that holds it, not both"
            )
        self._token = _checked(token, "the token that was given") if token else None
        self._silent = token == ""
        self._aside, self._always = aside, always
        self._file = None if token_file is None else fspath(token_file)
        if self._file is not None and is_secret(self._file):
            raise errors.ConfigurationError(
                "a token was given where the name of its file belongs: put it into a file that no "
                "other account may read, and name that"
            )
        self._tls = tls
        self._person = ""

    def used_for(self, person: str) -> Credentials:
        """The same, used by a program that works for somebody and says so: the trail of the queue
        manager notes it beside who has proven to be there. "": it does not say."""
        made = copy(self)
        made._person = person
        return made

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
        self, address: ManagerAddress, peer: Any, certificate: Mapping[str, Any] | None = None, *,
        bound: bytes = b"",
    ) -> ClientHello:  # fmt: skip
        """What to say first on a connection.

        Args:
            peer: IP address of the other side; "" at a Unix socket.
            certificate: What it has proven itself with, as ``getpeercert()`` returns it.
            bound: What the connection is (``sockets/both_ends.py``).

        Raises:
            ConfigurationError: There is a token, and others could read what is said with it; or
                what should hold one for this queue manager does not.
            AccessDenied: The file with the token cannot be read, or others can.
        """
        found = self._found(address, guid_of(certificate))
        if found is None and self._always:
            raise errors.ConfigurationError(
                f"no token is for {address}: add a line for it to {self._file}, with a token"
            )
        if found is not None and not (address.path or address.tls or is_loopback(peer)):
            raise errors.ConfigurationError(
                f"{found.where} is not shown to {address}, because what is said with it would "
                "cross the network unencrypted: connect by tls://host:port"
            )
        return ClientHello(address, found, bound, self._person)

    def hello(self, address: ManagerAddress, own: Any, tls: ssl.SSLObject | None) -> ClientHello:
        """The same, with all that is known of a connection.

        Args:
            own: Its socket.
            tls: TLS of the connection; None: it has none.

        Raises:
            ServiceNotAvailable: Another account than the directory's listens at the socket.
            OSError: The connection is gone.
        """
        if address.path:
            check_listener(address, own)
            return self.greeting(address, "", bound=bound_to(None, ""))
        peer = own.getpeername()
        proof = tls.getpeercert() if tls is not None else None
        return self.greeting(address, str(peer[0]), proof, bound=bound_to(tls, peer))

    def _found(self, address: ManagerAddress, guid: bytes) -> FoundToken | None:
        """What the queue manager there is shown."""
        kept = self._kept()
        if kept is None:
            return None
        from onceq.client.token_files import FoundToken

        if isinstance(kept, FoundToken):
            return kept
        return kept.shown_to(address, guid) if kept.by_name or not self._aside else None

    def _kept(self) -> FoundToken | TokenFile | None:
        """The token, or the file of tokens."""
        if self._token is not None or self._silent:
            return self._token
        if self._file is not None:
            return _file(self._file)
        environment = os.environ
        text, file = environment.get(TOKEN, "").strip(), environment.get(TOKEN_FILE, "")
        if text and file:
            raise errors.ConfigurationError(
                f"{TOKEN} and {TOKEN_FILE} are both set: unset one of them"
            )
        if text:
            found = _checked(text, f"the token in {TOKEN}")
            return None if self._aside else found
        return _file(file) if file else None


class ClientHello:
    """What is said first on one connection, and what its answers mean."""

    def __init__(
        self, address: ManagerAddress, found: FoundToken | None, bound: bytes, person: str = ""
    ) -> None:
        self._address, self._person = address, person
        self._found = found
        self._bound = bound
        self._nonce = b""

    @property
    def first(self) -> list[Buffer]:
        """The first frame: the question who knows the token, if there is one."""
        if self._found is None:
            return self._hello("")
        from onceq.model.tokens import NONCE_BYTES, read

        name, _ = read(self._found.text) or ("", b"")
        self._nonce = os.urandom(NONCE_BYTES)
        return frames.frame(1, FrameCode.PROVE, frames.Prove(name, self._nonce))

    def read_answer(self, code: int, head: Any) -> Greeting | list[Buffer]:
        """Read a frame of the greeting; return the greeting itself, or the frames to send next.

        Raises:
            OnceqError: It does not let this application in, or is not who has made the token.
        """
        if code & FAILED:
            raise self._refused(failure(head))
        if code == FrameCode.HELLO | ANSWER and not self._nonce:
            return read_greeting(head)
        if code == FrameCode.PROVE | ANSWER and self._nonce and self._found is not None:
            return self._proven(frames.decode_head(head, frames.ProofAnswer), self._found)
        raise errors.MalformedPacket(f"{self._address} answers what was not asked (code {code})")

    def _hello(self, proof: str) -> list[Buffer]:
        self._nonce = b""
        said = frames.Hello(frames.VERSION, PROGRAM, proof, self._person)
        return frames.frame(1, FrameCode.HELLO, said)

    def _proven(self, said: frames.ProofAnswer, found: FoundToken) -> list[Buffer]:
        """The token, covered, for the one that knows its digest; raises AccessDenied."""
        from hmac import compare_digest

        from onceq.model.tokens import TokenExchange, digest_of, read

        _, secret = read(found.text) or ("", b"")
        digest = digest_of(said.salt, secret)
        talk = TokenExchange(self._nonce, said.nonce, self._bound)
        if not compare_digest(talk.known(digest), said.proof):
            raise errors.AccessDenied(
                f"what answers at {self._address} does not know, and was not told, {found.where}: "
                "it is wrong, was revoked, or has expired ('onceq token list' there shows "
                "those that are good); or this is not the queue manager that has made it; or the "
                "connection goes through a tunnel that begins at another address or port"
            )
        return self._hello(talk.covered(digest, secret).hex())

    def _refused(self, error: errors.OnceqError) -> errors.OnceqError:
        """What the queue manager answered instead of its name, with what to do."""
        if self._found is not None and type(error) is errors.MalformedPacket:
            return errors.UnknownVersion(
                f"the queue manager at {self._address} is of a version to which tokens were said "
                f"as they are, and was not told {self._found.where}: update it, or connect without "
                "a token"
            )
        if type(error) is not errors.AccessDenied:
            return error
        if self._found is not None:
            return errors.AccessDenied(
                f"the queue manager at {self._address} does not take {self._found.where}: it was "
                "revoked, or has expired; 'onceq token list' there shows those that are good"
            )
        return errors.AccessDenied(
            f"the queue manager at {self._address} does not know who this is; show a token "
            f"(token_file=, or {TOKEN_FILE}) or a certificate (tls=, or {CERTIFICATE})"
        )


def environment_files() -> Tls:
    """What the environment says about files for TLS now."""
    environment = os.environ
    return Tls(
        environment.get(AUTHORITIES, ""), environment.get(CERTIFICATE, ""), environment.get(KEY, "")
    )


# Tokens, as TLS above, are loaded for those who show one: most that ask a daemon show none.


def _checked(text: str, where: str) -> FoundToken:
    from onceq.client.token_files import checked

    return checked(text, where)


def _file(name: str) -> TokenFile:
    from onceq.client.token_files import TokenFile

    return TokenFile(name)


def is_secret(text: str) -> bool:
    """Whether a text that should be the name of something is a token, or the most of one."""
    from onceq.model.tokens import PREFIX

    return text.strip().startswith(f"{PREFIX}_")


def check_listener(address: ManagerAddress, own: Any) -> None:
    """Whether it is the queue manager whose directory it is that listens at a Unix socket, or root,
    or this account itself; raises WrongAddress."""
    account = listener(own)
    if account is None or account in (0, os.geteuid()):
        return
    folder = os.path.dirname(os.path.realpath(address.path))
    try:
        if os.stat(folder).st_uid == account:
            return
    except OSError:
        pass  # it cannot be seen whose it is
    raise errors.WrongAddress(
        f"account {account_name(account)} listens at {address.path}, and the directory is not "
        "its own: that is no queue manager of this directory. See who has put the socket there, "
        "and start the queue manager as the account that the directory belongs to"
    )


def check_protocol(address: ManagerAddress, chosen: str | None) -> None:
    """Whether it is the applications' protocol that is spoken in TLS; raises WrongAddress."""
    from onceq.tls.contexts import APPLICATIONS

    if chosen != APPLICATIONS:
        raise address.speaks_other_tls()
