"""``onceq qm``: make, run, look at and check a queue manager."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import (
    Argument,
    DryRun,
    Json,
    Option,
    Where,
    Yes,
    agreed,
    as_json,
    asking,
    dumped,
    manager,
)
from onceq.cli.lists import LISTS
from onceq.client.attention import (
    FULL,
    PAUSED,
    RECENTLY_REFUSED,
    STUCK,
    Seen,
    held_up,
    letters,
    to_look_at,
)
from onceq.errors import ConfigurationError, DamagedRecord, UsageError
from onceq.hidden import quote_word
from onceq.model.identity import guid_text, read_number
from onceq.model.wording import duration, plural

if TYPE_CHECKING:
    from onceq.model.views.managers import Restored, StatusView


# ---- manage --------------------------------------------------------------------------------------


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


# ---- status --------------------------------------------------------------------------------------
#
# `onceq qm status`, `metrics`, `reload`, `connect`, `disconnect` and `tidy`.


def status(qm: Where = None, json: Json = False) -> None:
    """The queue manager at a glance, with what needs attention."""
    with asking(qm) as connection:
        view, busy = connection.status(), connection.queues(only="busy")
        seen = Seen(
            view, connection.metrics(), connection.queue_page(**PAUSED),
            connection.queue_page(**FULL), connection.outgoing_page(**STUCK),
            connection.outgoing_page(**RECENTLY_REFUSED), connection.branches(),
        )  # fmt: skip
    now_s = time.time()
    attention = [
        out.sentence(text)
        for text in (*held_up(seen, now_s), *letters(view), *to_look_at(seen, now_s))
    ]
    if dumped({**view.as_dict(), "attention": attention}, json):
        return
    out.facts(
        [
            ("queue manager", f"{view.name}  {view.id}"),
            *([("running since", since(view.started, time.time()))] if view.started else []),
            ("queues", f"{view.queues} with {plural(view.messages, 'message')}"),
            (
                "outgoing",
                f"{view.outgoing} with {plural(view.outgoing_messages, 'message')}",
            ),
            ("stored", out.size(view.bytes)),
            ("sessions", view.sessions),
            ("other queue managers", doors(view)),
            *(
                [("silence", f"lost after {view.silent_s} s without a word")]
                if view.silent_s
                else []
            ),
            ("streams", view.streams),
            ("transactions", view.transactions),
            ("waiting readers", view.waiting_readers),
            ("log position", view.log_position),
            *([("restored", put_back(view.restored))] if view.restored else []),
        ]
    )
    busy = [q for q in busy if q.messages]
    if busy:
        print()
        LISTS["qm status"].table(busy)
    for text in attention:
        out.line(f"! {text}")


def since(started_s: int, now_s: float) -> str:
    """When it was started, and how long ago that is."""
    return f"{out.when(started_s)} ({duration(max(int(now_s) - started_s, 0))})"


def doors(view: StatusView) -> str:
    """How others come in, in a few words."""
    if view.certificate_ends:
        return f"TLS; certificate good until {out.when(view.certificate_ends)}"
    if view.tls:
        return "TLS"
    return "without TLS" + ("" if view.plain_peers else ", from this computer alone")


def put_back(restored: Restored) -> str:
    """The sentence about a restore that a queue manager comes from."""
    text = (
        f"put back on {out.when(restored.at_s)} to {out.when(restored.taken_s)} (log "
        f"position {restored.position}); what was done between is undone here"
    )
    if restored.previous:
        text += f"; it was made as a copy of {guid_text(bytes.fromhex(restored.previous))}"
        if restored.aside:
            text += f", {plural(restored.aside, 'message')} set aside as dead letters"
        if restored.jobs:
            text += f", {plural(restored.jobs, 'job')} cancelled"
        if restored.promises:
            text += f", {plural(restored.promises, 'promise')} undone"
        if restored.tokens:
            text += f", {plural(restored.tokens, 'token')} not good any more"
    return text


def reload(qm: Where = None, json: Json = False) -> None:
    """Let a queue manager read its onceq.toml again; say what changed and what needs a restart.

    SIGHUP does the same. A file with a mistake changes nothing.
    """
    with manager(qm) as connection:
        found = connection.reload()
    if dumped(found, json):
        return
    for text in found.changed:
        out.line(f"changed: {text}")
    for text in found.restart:
        out.line(f"needs a restart: {text}")
    if not (found.changed or found.restart):
        out.line("nothing has changed")


def disconnect(
    yes: Yes = False, dry_run: DryRun = False, qm: Where = None, json: Json = False
) -> None:
    """Take a queue manager off the network: no session with others until 'qm connect'. It asks.

    Messages for other computers wait, and may expire. A restart does not end it.
    """
    with manager(qm) as connection:
        view = connection.status()
    text = (
        f"take {view.name} off the network: {plural(view.sessions, 'session')} with other queue "
        f"managers {'ends' if view.sessions == 1 else 'end'}, and what goes to them gathers here "
        f"({plural(view.outgoing_messages, 'message')} now) and may expire, until 'qm connect'"
    )
    if not dry_run:
        agreed(f"{text}; do it?", yes=yes)
        _action("disconnect", qm, json)
        return
    said = {"queue_manager": view.name, "action": "disconnect", "dry_run": True,
            "sessions": view.sessions, "messages": view.outgoing_messages}  # fmt: skip
    if not dumped(said, json):
        out.line(f"would be done: {text}")


def connect(qm: Where = None, json: Json = False) -> None:
    """Bring a queue manager back to the network after 'qm disconnect'."""
    _action("connect", qm, json)


def tidy(
    unanswered: Annotated[
        bool,
        Option(
            "--unanswered",
            help="Also those with acknowledgments for unreachable strangers. It asks.",
        ),
    ] = False,
    yes: Yes = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Remove empty, unused outgoing queues.

    With --unanswered also those with acknowledgments for a stranger whose address has never
    answered; these are lost. The stranger may be an honest queue manager that is away for a while.
    """
    if not unanswered:
        if dry_run:
            raise UsageError("--dry-run goes with --unanswered; without it no message is lost")
        _action("tidy", qm, json)
        return
    with manager(qm) as connection:
        views = connection.outgoing(only="unanswered")
        count = sum(view.messages for view in views)
        for view in () if as_json(json) else views:
            out.line(f"{view.destination}: {plural(view.messages, 'message')}; "
                     f"{view.trouble}")  # fmt: skip
        if not dry_run:
            if count:
                agreed(f"give up {plural(count, 'acknowledgment message')} for good?", yes=yes)
            count = connection.forget_unanswered()
    if dumped({"messages_given_up": count, "dry_run": dry_run}, json):
        return
    would = "would be given up" if dry_run else "given up"
    out.line(f"{plural(count, 'acknowledgment message')} {would}")


def _action(action: str, qm: str | None, json: bool) -> None:
    with manager(qm) as connection:
        count = connection.action(action)
        name = connection.name
    if dumped({"queue_manager": name, "action": action, "outgoing_forgotten": count}, json):
        return
    if action == "tidy":
        out.line(f"{name}: {plural(count or 0, 'outgoing queue')} forgotten")
    else:
        out.line(f"{name}: {action}ed {'to' if action == 'connect' else 'from'} the network")


def metrics(
    openmetrics: Annotated[
        bool, Option("--openmetrics", help="In the form of OpenMetrics.")
    ] = False,
    queues: Annotated[
        bool, Option("--queues", help="The figures of each queue, in place of the sums.")
    ] = False,
    qm: Where = None,
    json: Json = False,
) -> None:
    """Print what a queue manager has counted since its start and how it is, for Prometheus.

    Without --json it needs pip install 'onceq[metrics]'. A queue manager exposes the same at its
    metrics_listen.
    """
    with asking(qm) as connection:
        view = connection.metrics(queues=queues)
    if dumped(view, json):
        return
    from onceq import exposition  # it needs a library that a plain install lacks

    out.body(exposition.text(view, openmetrics=openmetrics, queues=queues).rstrip())
