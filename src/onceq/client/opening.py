"""``onceq.connect``: the way to a queue manager that runs as a daemon."""

from __future__ import annotations

from os import PathLike

from onceq.client.address import meant, parse
from onceq.client.credentials import Credentials, Tls
from onceq.client.socket_link import SocketLink
from onceq.client.threads.manager import QueueManager


def connect(
    where: str | PathLike[str] | None = None,
    *,
    timeout: float = 10.0,
    token: str | None = None,
    token_file: str | PathLike[str] | None = None,
    tls: Tls | None = None,
) -> QueueManager:
    """Connect to a queue manager that runs as a daemon.

    Args:
        where: ``onceq://host:port``, ``tls://host:port``, ``unix:///path``, or its data directory.
            None: the directory where the program works, which is one, and belongs to this account
            or to root.
        timeout: Seconds for connecting.
        token: What ``onceq token create`` has printed: it says who the application is. It is proven
            over TLS, at a Unix socket and over loopback, and nowhere else. None: the environment
            is asked (``ONCEQ_TOKEN``, ``ONCEQ_TOKEN_FILE``); "": none is shown.
        token_file: File with the token, or with a line for each of several queue managers
            (``ADDRESS TOKEN``); no other account may read it. It is read for each connection.
        tls: Files for TLS; None: the environment is asked (``ONCEQ_TLS_AUTHORITIES``,
            ``ONCEQ_TLS_CERTIFICATE``, ``ONCEQ_TLS_KEY``).

    Raises:
        ServiceNotAvailable: Nobody answers there.
        AccessDenied: The queue manager does not take the token, or wants one; or others could read
            the file.
        ConfigurationError: A file cannot be used, or a token would cross the network unencrypted.
    """
    shown = Credentials(token=token, token_file=token_file, tls=tls)
    return QueueManager(lambda: SocketLink(meant(where), timeout, credentials=shown), again=True)


def connect_aside(
    where: str, *, timeout: float, token_file: str | PathLike[str] | None = None
) -> QueueManager:
    """Connect to another queue manager than the one that the programme works with.

    Args:
        where, timeout: See ``connect``.
        token_file: Of a file that says for whom its tokens are it is shown its own; a token that
            does not say so is for another one. None: the file that the environment names.

    Raises:
        ServiceNotAvailable, AccessDenied, ConfigurationError: See ``connect``.
    """
    shown = Credentials(token_file=token_file, aside=True)
    return QueueManager(lambda: SocketLink(parse(where), timeout, credentials=shown), again=True)


def connect_for_job(
    where: str,
    *,
    timeout: float,
    answers: float | None = None,
    credentials: Credentials | None = None,
) -> QueueManager:
    """The same for jobs, which must not wait without limit.

    Args:
        timeout: Seconds for connecting.
        answers: Seconds for each answer, the wait of a receive included; after that the connection
            counts as broken. None: as many.
        credentials: What they show; None: what the environment says.
    """
    seconds = timeout if answers is None else answers
    return QueueManager(
        lambda: SocketLink(parse(where), timeout, seconds, credentials=credentials), again=True
    )
