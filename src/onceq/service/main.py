"""``python -m onceq.service.main``: run one queue manager in the foreground.

It prints one line when it is ready and logs to standard error. It ends with 0 when a signal has
stopped it in order, and with the exit code of the error that kept it from starting, or ended it
(``docs/reference/exit-codes.md``): 7 if the disk failed.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

from onceq.errors import ConfigurationError, OnceqError
from onceq.file_access import SOCKET_FILE, STORE_FILE, check_own, there
from onceq.hidden import show_hidden
from onceq.service import config, logs
from onceq.service.config import Configuration
from onceq.service.daemon import ManagerDaemon, collect_seldom, keep_large_blocks, run
from onceq.service.data_directory import check_socket, init, open_store


def serve(
    path: str,
    *,
    listen: str | None = None,
    client_listen: str | None = None,
    peers: dict[str, str] | None = None,
    create: str | None = None,
) -> None:
    """Run the queue manager of a data directory until it is asked to stop.

    Args:
        listen, client_listen, peers: Override the configuration file.
        create: Make the queue manager first, with this name, if the directory is not one.

    Raises:
        OnceqError: It cannot start, or had to stop because the disk failed.
    """
    if not __debug__:
        raise ConfigurationError(
            "onceq does not run under 'python -O': its assertions are part of its promises"
        )
    path = os.path.abspath(path)

    def read() -> Configuration:
        """Return the configuration of the file, with the options that override it."""
        check_own(path)
        said = config.load(path)
        if listen is not None:
            said = replace(said, listen=listen)
        if client_listen is not None:
            said = replace(said, client_listen=client_listen)
        return replace(said, peers={**said.peers, **(peers or {})})

    configuration = read()
    check_socket(os.path.join(path, SOCKET_FILE))
    # Overriding options are checked like the file, before anything is made.
    for where in (listen, client_listen):
        if where:
            config.split_address(where, None)
    config.check_peers(peers or {})
    logs.set_up(configuration.log_level, form=configuration.log_format)
    keep_large_blocks()
    if create is not None and not there(os.path.join(path, STORE_FILE)):
        store = init(path, name=create, settings=configuration.settings)
    else:
        store = open_store(path, configuration.settings)
    collect_seldom()
    run(path, store, configuration, _announce, read=read)


def _announce(daemon: ManagerDaemon) -> None:
    """Print one line for the program that started it: it is ready, and where."""
    peers = daemon.peers_at or "nowhere"
    if daemon.http_at:
        peers += f", HTTP on {daemon.http_at}"
    if daemon.metrics_at:
        peers += f", metrics on {daemon.metrics_at}"
    clients = os.path.join(daemon.path, SOCKET_FILE)
    if daemon.clients_at:
        clients += f" and {daemon.clients_at}"
    name = daemon.engine.manager.identity.name
    # It does not wait: the program that has started it may read nothing.
    logs.Lines(sys.stdout).say(f"onceq {name} ready: peers on {peers}, applications on {clients}")


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="onceq.service.main", description="Run a queue manager.")
    parser.add_argument("--data", required=True, help="data directory of the queue manager")
    parser.add_argument("--listen", help="host:port for other queue managers")
    parser.add_argument("--client-listen", help="host:port for applications over TCP")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=HOST:PORT")
    parser.add_argument("--create", metavar="NAME", help="make the queue manager if need be")
    options = parser.parse_args(argv)
    try:
        peers: dict[str, str] = {}
        for text in options.peer:
            name, _, where = text.partition("=")
            if not name or not where:
                raise ConfigurationError(f"--peer {text!r}: write NAME=HOST:PORT")
            peers[name] = where
        serve(
            options.data,
            listen=options.listen,
            client_listen=options.client_listen,
            peers=peers,
            create=options.create,
        )
    except OnceqError as error:
        sys.stderr.write(f"onceq: error ({error.code}): {show_hidden(error.text)}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
