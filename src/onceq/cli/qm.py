"""``onceq qm``: make, run, look at and check a queue manager."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import Argument, Json, Option, dumped
from onceq.errors import ConfigurationError, DamagedRecord
from onceq.hidden import quote_word
from onceq.model.identity import read_number

if TYPE_CHECKING:
    pass


Directory = Annotated[str, Argument(metavar="DIR", help="Data directory.")]
Listen = Annotated[
    str | None,
    Option(
        "--listen", metavar="HOST:PORT", show_default=False,
        help="Where other queue managers connect [127.0.0.1:1801]; empty: nowhere; port 0: any.",
    ),
]  # fmt: skip
ClientListen = Annotated[
    str | None,
    Option(
        "--client-listen", metavar="HOST:PORT", show_default=False,
        help="Where applications connect over TCP, besides the socket in the data directory.",
    ),
]  # fmt: skip
Peer = Annotated[
    list[str] | None,
    Option(
        "--peer", metavar="NAME=HOST:PORT", show_default=False,
        help="Where another queue manager is; may be repeated.",
    ),
]  # fmt: skip


def init(
    directory: Directory,
    name: Annotated[
        str,
        Option(
            "--name",
            metavar="NAME",
            help="Its computer name [this computer's].",
            show_default=False,
        ),
    ] = "",
    listen: Listen = None,
    client_listen: ClientListen = None,
    peer: Peer = None,
    json: Json = False,
) -> None:
    """Make a queue manager in a new directory, with its identity and its onceq.toml."""
    if listen is not None:
        _check_endpoint(listen, option="--listen")
    if client_listen is not None:
        _check_endpoint(client_listen, option="--client-listen")
    from onceq.embedded import data_directory

    made = data_directory.init(
        directory,
        name=name,
        listen=listen,
        client_listen=client_listen,
        peers=_parse_peers(peer or []),
    )
    if dumped(made, json):
        return
    out.line(f"made queue manager {made.name} in {made.path} (id {made.id})")
    out.line(
        f"configure it in {made.configuration}, start it with: "
        f"onceq qm run {quote_word(str(directory))}"
    )


def run(
    directory: Directory = ".",
    listen: Listen = None,
    client_listen: ClientListen = None,
    peer: Peer = None,
) -> None:
    """Run a queue manager in the foreground; SIGTERM or Ctrl-C stops it in order.

    Options go before its onceq.toml. It prints one line when it is ready.
    """
    if listen is not None:
        _check_endpoint(listen, option="--listen")
    if client_listen is not None:
        _check_endpoint(client_listen, option="--client-listen")
    from onceq.embedded import data_directory

    data_directory.run(
        directory,
        listen=listen,
        client_listen=client_listen,
        peers=_parse_peers(peer or []),
    )


def _check_endpoint(text: str, *, option: str) -> str:
    """A "host:port" as it stands, or "" for none; raises ConfigurationError."""
    if not text:
        return text
    host, separator, port = text.rpartition(":")
    if not separator or not host or read_number(port, 65535) is None:
        raise ConfigurationError(
            f"{option} {text!r}: write a host and a port, such as 127.0.0.1:1801"
        )
    return text


def _parse_peers(texts: list[str]) -> dict[str, str]:
    """``NAME=host:port`` of the command line as an address book; raises ConfigurationError."""
    peers: dict[str, str] = {}
    for text in texts:
        name, separator, where = text.partition("=")
        if not separator or not name or not where:
            raise ConfigurationError(f"--peer {text!r}: write NAME=host:port")
        peers[name] = _check_endpoint(where, option="--peer")
    return peers


def check(directory: Directory = ".", json: Json = False) -> None:
    """Read a whole store and say what is in it and what is wrong with it; changes nothing.

    Stop the queue manager before: while it writes, the end of its log may look torn.
    """
    from onceq.embedded import data_directory

    report = data_directory.check(directory)
    if not dumped(report, json):
        out.facts(
            [
                ("store", report.path),
                ("segments", f"{report.segments} and {report.ready_segments} prepared"),
                (
                    "records",
                    f"{report.records} ({out.size(report.record_bytes)}), log positions "
                    f"{report.first_position} to {report.end_position}",
                ),
                (
                    "checkpoint",
                    f"up to {report.checkpoint_position} ({out.size(report.checkpoint_bytes)})",
                ),
                ("torn tail", f"{report.torn_bytes} bytes that a start would cut"),
                ("result", "damaged" if report.problem else "sound"),
            ]
        )
        if report.damaged:
            print()
            out.table(
                ("file", "byte", "size", "log position"),
                [(one.path, one.offset, one.size, one.address) for one in report.damaged],
            )
    sys.stdout.flush()
    if report.problem:
        raise DamagedRecord(report.problem)
