"""Where a queue manager is: a URL, a socket, or a data directory."""

from __future__ import annotations

import os
from dataclasses import dataclass

from onceq.errors import ConfigurationError, ServiceNotAvailable
from onceq.model.data_directory import SOCKET_FILE, STORE_FILE
from onceq.permission import there

SCHEME = "onceq://"


@dataclass(frozen=True, slots=True)
class Address:
    """A Unix socket (``path``), or a host and a port."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return self.path or f"{SCHEME}{self.host}:{self.port}"

    @property
    def doubt(self) -> str:
        """What to say of somebody there who ends the connection before a greeting."""
        if self.path:
            return ""
        return (
            "; is that the port for other queue managers (listen, mostly 1801)? Applications "
            "connect to the one that client_listen names"
        )


def parse(where: str) -> Address:
    """Read ``onceq://host:port``, ``unix:///path``, ``host:port``, a socket or a directory.

    Raises:
        ConfigurationError: It is none of these.
        ServiceNotAvailable: It is the directory of a queue manager that does not run.
    """
    if where.startswith("unix:"):
        return Address(path=where.removeprefix("unix:").replace("//", "", 1))
    if where.startswith(SCHEME):
        return _tcp(where.removeprefix(SCHEME).rstrip("/"), where)
    if os.path.isdir(where):
        path = os.path.join(where, SOCKET_FILE)
        if not there(path):
            if not is_data_directory(where):
                raise ConfigurationError(
                    f"{where} is not the directory of a queue manager; 'onceq qm init' makes one"
                )
            raise ServiceNotAvailable(
                f"the queue manager in {where} is not running; start it with 'onceq qm run {where}'"
            )
        return Address(path=path)
    if there(where):
        return Address(path=where)
    return _tcp(where, where)


def is_data_directory(path: str) -> bool:
    """Whether a queue manager lives in this directory."""
    return there(os.path.join(path, STORE_FILE))


def _tcp(text: str, where: str) -> Address:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit() or not host or int(port) > 65535:
        raise ConfigurationError(
            f"{where!r} is neither a directory nor an address such as onceq://host:1802"
        )
    return Address(host=host.strip("[]"), port=int(port))
