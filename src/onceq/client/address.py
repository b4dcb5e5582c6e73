"""Where a queue manager is: a URL, a socket, or a data directory."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, TypeGuard

from onceq import errors
from onceq.file_access import SOCKET_FILE, STORE_FILE, account_name, denied, there
from onceq.hidden import quote_word
from onceq.model.identity import read_number
from onceq.model.record import Record

if TYPE_CHECKING:
    import ssl

SCHEME = "onceq://"
TLS_SCHEME = "tls://"
UNIX_SCHEME = "unix:"
SCHEMES = (SCHEME, TLS_SCHEME, UNIX_SCHEME)
_LET_IN = "or have other accounts let in (socket_group, client_listen)"


class ManagerAddress(Record, frozen=True):
    """A Unix socket (``path``), or a host and a port, spoken with in TLS or plainly."""

    path: str = ""
    host: str = ""
    port: int = 0
    tls: bool = False

    def __str__(self) -> str:
        return self.path or f"{TLS_SCHEME if self.tls else SCHEME}{self.host}:{self.port}"

    @property
    def _doubt(self) -> str:
        if self.path:
            return ""
        return (
            "; is that the port for other queue managers (listen, mostly 1801)? Applications "
            "connect to the one that client_listen names"
            + ("" if self.tls else f", by {TLS_SCHEME}host:port if it speaks TLS")
        )

    # What every link says of somebody there who does not greet it.

    def unreachable(self, error: OSError, why: str = "") -> errors.OnceqError:
        """No connection can be made.

        Args:
            why: In words; "": the words of the error.
        """
        if isinstance(error, PermissionError) and self.path:
            return denied(self.path, instead=_LET_IN)
        if self.broke_in_tls(error):
            import ssl

            from onceq.tls.contexts import OTHER_NAMES, unbelieved

            if isinstance(error, ssl.SSLCertVerificationError):
                cure = (
                    "connect by a name that is in its certificate, or have this one put in: onceq "
                    "tls init --host, or onceq tls invite --host for a member"
                    if error.verify_code in OTHER_NAMES
                    else "name the authority that has signed its certificate: tls=, or "
                    "ONCEQ_TLS_AUTHORITIES"
                )
                doubt = f"{self} does not prove that it is {self.host} ({unbelieved(error)})"
                return errors.WrongAddress(f"{doubt}; {cure}")
            reason = (error.reason or str(error)).replace("_", " ").lower()
            return errors.WrongAddress(
                f"TLS with {self} did not come about ({reason}): it may speak no TLS, or may not "
                "take the certificate that was shown"
            )
        kind = errors.WrongAddress if isinstance(error, socket.gaierror) else errors.ManagerAway
        return kind(
            f"no queue manager answers at {self} ({why or error.strerror or error}); is it "
            "running? 'onceq qm run' starts one"
        )

    def broke_in_tls(self, error: OSError) -> TypeGuard[ssl.SSLError]:
        """Whether it is TLS that failed; loads TLS for addresses in TLS alone."""
        if not self.tls:
            return False
        import ssl

        return isinstance(error, ssl.SSLError)

    def speaks_other_tls(self) -> errors.ServiceNotAvailable:
        """TLS was agreed on, and not what is spoken in it."""
        return errors.WrongAddress(
            f"{self} speaks TLS, but not as a queue manager does with applications{self._doubt}"
        )

    def speaks_http(self) -> errors.ServiceNotAvailable:
        """An HTTP server is there."""
        return errors.WrongAddress(
            f"what answers at {self} is an HTTP server (http_listen, metrics_listen, or no queue "
            "manager at all); applications connect to the port that client_listen names"
        )

    def closed_at_once(self) -> errors.ServiceNotAvailable:
        """The connection was made, and closed before a greeting."""
        return errors.WrongAddress(f"{self} closed the connection at once{self._doubt}")

    def broke_at_once(self, error: BaseException) -> errors.ServiceNotAvailable:
        """The connection was made, and broke before a greeting."""
        return errors.ManagerAway(f"{self} broke the connection at once ({error}){self._doubt}")


def check_whose(directory: str, say: str) -> None:
    """A directory that nobody has named is this account's, or root's: another one may have made it
    to be taken for a queue manager (finding S15).

    Args:
        say: How somebody names it who means it.

    Raises:
        ConfigurationError: It belongs to another account.
    """
    owner = os.stat(directory).st_uid
    if owner not in (0, os.geteuid()):
        raise errors.ConfigurationError(
            f"this directory belongs to account {account_name(owner)}, and nothing says that its "
            f"queue manager is meant: say {say} if it is, or go to another directory"
        )


def meant(where: str | os.PathLike[str] | None) -> ManagerAddress:
    """The address that a program has named; None: the directory where it works.

    Raises:
        ConfigurationError: See ``parse`` and ``check_whose``.
        ServiceNotAvailable: See ``parse``.
    """
    if where is None:
        check_whose(os.curdir, "connect('.')")
    return parse(os.curdir if where is None else where)


def parse(where: str | os.PathLike[str]) -> ManagerAddress:
    """Read ``onceq://host:port``, ``tls://host:port``, ``unix:///path``, ``host:port``, a socket or
    a directory.

    Raises:
        ConfigurationError: It is none of these.
        ServiceNotAvailable: It is the directory of a queue manager that does not run.
    """
    where = _text(where)
    if where.startswith(UNIX_SCHEME):
        return ManagerAddress(path=where.removeprefix(UNIX_SCHEME).replace("//", "", 1))
    if where.startswith(SCHEME):
        return _tcp(where.removeprefix(SCHEME).rstrip("/"), where)
    if where.startswith(TLS_SCHEME):
        return _tcp(where.removeprefix(TLS_SCHEME).rstrip("/"), where, tls=True)
    scheme, separator, _ = where.partition("://")
    if separator:
        raise errors.ConfigurationError(
            f"{where!r} begins with {scheme}://, which is not spoken between applications and a "
            f"queue manager; connect with {SCHEME}host:port, {TLS_SCHEME}host:port, unix:///path, "
            "or its data directory"
        )
    if os.path.isdir(where):
        path = os.path.join(where, SOCKET_FILE)
        if not there(path, instead=_LET_IN):
            if not is_data_directory(where):
                raise errors.ConfigurationError(
                    f"{where} is not the directory of a queue manager; 'onceq qm init' makes one"
                )
            raise errors.ManagerAway(
                f"the queue manager in {where} is not running; start it with: onceq qm run "
                f"{quote_word(where)}"
            )
        return ManagerAddress(path=path)
    if there(where):
        return ManagerAddress(path=where)
    return _tcp(where, where)


def _text(where: object) -> str:
    """An address as text; raises ConfigurationError."""
    try:
        found = os.fspath(where)  # type: ignore[call-overload]
    except TypeError:
        found = where
    if not isinstance(found, str):
        raise errors.ConfigurationError(
            f"{where!r} is neither a directory nor an address such as onceq://host:1802"
        )
    return found


def is_data_directory(path: str) -> bool:
    """Whether a queue manager lives in this directory."""
    return there(os.path.join(path, STORE_FILE))


def _tcp(text: str, where: str, *, tls: bool = False) -> ManagerAddress:
    host, separator, port = text.rpartition(":")
    number = read_number(port, 65535)
    if not separator or number is None or not host:
        raise errors.ConfigurationError(
            f"{where!r} is neither a directory nor an address such as onceq://host:1802"
        )
    return ManagerAddress(host=host.strip("[]"), port=number, tls=tls)
