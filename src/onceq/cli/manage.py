"""``onceq qm``: make, run, look at and check a queue manager."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from onceq.cli import backups, damage, metrics, out
from onceq.cli.common import DryRun, Json, Where, Yes, agreed, as_json, dumped, manager
from onceq.client.why import why
from onceq.embedded import data_directory
from onceq.errors import ConfigurationError, DamagedRecord, UsageError
from onceq.model.identity import guid_text
from onceq.model.limits import CERTIFICATE_WARN_DAYS
from onceq.model.time import DAY_S
from onceq.model.views.managers import Restored, StatusView
from onceq.model.views.queues import OutgoingView
from onceq.model.wording import plural

app = typer.Typer(
    help="Queue managers: make, run, status, check, scrub, backup, restore.", no_args_is_help=True
)
backups.add_to(app)
app.command("scrub")(damage.scrub_command)
app.command("metrics")(metrics.metrics_command)

Directory = Annotated[str, typer.Argument(metavar="DIR", help="Data directory.")]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen", metavar="HOST:PORT", show_default=False,
        help="Where other queue managers connect [127.0.0.1:1801]; empty: nowhere; port 0: any.",
    ),
]  # fmt: skip
ClientListen = Annotated[
    str | None,
    typer.Option(
        "--client-listen", metavar="HOST:PORT", show_default=False,
        help="Where applications connect over TCP, besides the socket in the data directory.",
    ),
]  # fmt: skip
Peer = Annotated[
    list[str] | None,
    typer.Option(
        "--peer", metavar="NAME=HOST:PORT", show_default=False,
        help="Where another queue manager is; may be repeated.",
    ),
]  # fmt: skip


@app.command("init")
def init(
    directory: Directory,
    name: Annotated[
        str,
        typer.Option(
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
    made = data_directory.init(
        directory,
        name=name,
        listen=listen,
        client_listen=client_listen,
        peers=_parse_peers(peer or []),
    )
    if dumped(made, json):
        return
    out.line(f"made queue manager {made['name']} in {made['path']} (id {made['id']})")
    out.line(f"configure it in {made['configuration']}, start it with: onceq qm run {directory}")


@app.command("run")
def run(
    directory: Directory = ".",
    listen: Listen = None,
    client_listen: ClientListen = None,
    peer: Peer = None,
) -> None:
    """Run a queue manager in the foreground; SIGTERM or Ctrl-C stops it in order.

    Options take the place of what its onceq.toml says. It prints one line when it is ready.
    """
    if listen is not None:
        _check_endpoint(listen, option="--listen")
    if client_listen is not None:
        _check_endpoint(client_listen, option="--client-listen")
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
    if not separator or not host or not port.isdigit() or int(port) > 65535:
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


@app.command("status")
def status(qm: Where = None, json: Json = False) -> None:
    """The queue manager at a glance, with what needs attention."""
    with manager(qm) as connection:
        view, outgoing = connection.status(), connection.outgoing()
        queues = connection.queues()
    attention = troubles(view, outgoing)
    if dumped({**view.as_dict(), "attention": attention}, json):
        return
    out.facts(
        [
            ("queue manager", f"{view.name}  {view.id}"),
            ("queues", f"{view.queues:,} with {plural(view.messages, 'message')}"),
            (
                "outgoing",
                f"{view.outgoing:,} with {plural(view.outgoing_messages, 'message')}",
            ),
            ("stored", out.size(view.bytes)),
            ("sessions", view.sessions),
            ("other queue managers", doors(view)),
            ("streams", view.streams),
            ("transactions", view.transactions),
            ("waiting readers", view.waiting_readers),
            ("log position", view.log_position),
            *([("restored", put_back(view.restored))] if view.restored else []),
        ]
    )
    busy = [q for q in queues if q.messages]
    if busy:
        print()
        out.table(
            ("queue", "messages", "locked", "bytes"),
            [(q.path, q.messages, q.locked, out.size(q.bytes)) for q in busy],
        )
    for text in attention:
        out.line(f"! {text}")


def doors(view: StatusView) -> str:
    """How others come in, in a few words."""
    if view.certificate_ends:
        return f"TLS; certificate good until {out.when(view.certificate_ends)}"
    return "TLS" if view.tls else "this computer alone" if not view.plain_peers else "no TLS"


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
    return text


def troubles(view: StatusView, outgoing: list[OutgoingView]) -> list[str]:
    """Sentences about what an operator should look at."""
    found = []
    found += [f"since the restore {u.name or u.id} shows: {u.what}" for u in view.undone]
    if view.offline_since:
        found.append("disconnected by an operator: 'onceq qm connect' brings it back")
    found += [
        f"two queue managers have the identity {c.name or c.id}: {c.found} "
        f"(noticed since {out.when(c.since)}); end one of them"
        for c in view.clashes
    ]
    found += doors_troubles(view, time.time())
    if view.rights_trouble:
        found.append(
            f"the rights in the directory are not followed: {view.rights_trouble}; what was read "
            "before goes on to hold"
        )
    if view.space_low:
        found.append("the disk is nearly full: sends are refused until there is room")
    found += [
        f"{what}: {plural(count, 'time')} since the start; the log says from where"
        for what, count in view.disbelieved.items()
    ]
    if view.damaged_messages:
        found.append(
            f"{plural(view.damaged_messages, 'message')} set aside because stored bytes are "
            "damaged: onceq damage list"
        )
    if view.transactional_dead_letters:
        found.append(
            f"{plural(view.transactional_dead_letters, 'message')} in the transactional "
            "dead-letter queue: onceq peek 'SYSTEM$;DEADXACT'"
        )
    if view.dead_letters:
        found.append(
            f"{plural(view.dead_letters, 'message')} in the dead-letter queue: "
            "onceq peek 'SYSTEM$;DEADLETTER'"
        )
    found += [
        why(o)
        for o in outgoing
        if o.messages and (o.paused_since or o.trouble or o.state == "LOCKED")
    ]
    return found


def doors_troubles(view: StatusView, now_s: float) -> list[str]:
    """Sentences about how others come in."""
    found = []
    if view.tls and not now_s < view.certificate_ends:
        found.append(
            "no other queue manager believes this one: "
            f"{view.certificate_problem or 'its certificate has expired'}; 'onceq tls renew'"
        )
    elif view.tls and view.certificate_ends < now_s + CERTIFICATE_WARN_DAYS * DAY_S:
        days = int((view.certificate_ends - now_s) // DAY_S)
        found.append(f"the certificate ends in {plural(days, 'day')}: 'onceq tls renew'")
    if view.plain_peers:
        found.append(
            "who has one of these addresses is believed without proof (plain_peers): "
            f"{', '.join(view.plain_peers)}"
        )
    return found


@app.command("reload")
def reload(qm: Where = None, json: Json = False) -> None:
    """Let a queue manager read its onceq.toml again; says what changed and what needs a restart.

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


@app.command("disconnect")
def disconnect(qm: Where = None, json: Json = False) -> None:
    """Take a queue manager off the network: no session with others until 'qm connect'.

    Applications go on; what they send to other computers gathers, and may expire. It stays so over
    a restart.
    """
    _action("disconnect", qm, json)


@app.command("connect")
def connect(qm: Where = None, json: Json = False) -> None:
    """Bring a queue manager back to the network after 'qm disconnect'."""
    _action("connect", qm, json)


@app.command("tidy")
def tidy(
    unanswered: Annotated[
        bool,
        typer.Option(
            "--unanswered",
            help="Give up acknowledgments for strangers that nobody has answered at, too. It asks.",
        ),
    ] = False,
    yes: Yes = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Forget the outgoing queues in which nothing is and that nobody uses.

    With --unanswered also those that hold acknowledgment messages for a stranger whose address
    has never answered. These messages are lost then. A stranger may be an honest queue manager that
    has just begun to send to this one, and that is away for a while.
    """
    if not unanswered:
        if dry_run:
            raise UsageError("--dry-run goes with --unanswered; without it no message is lost")
        _action("tidy", qm, json)
        return
    with manager(qm) as connection:
        views = [v for v in connection.outgoing() if v.unanswered and v.messages]
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


@app.command("check")
def check(directory: Directory = ".", json: Json = False) -> None:
    """Read a whole store and say what is in it and what is wrong with it; changes nothing.

    Meant for a queue manager that does not run; while one writes, the end of its log may look
    torn.
    """
    report = data_directory.check(directory)
    if not dumped(report, json):
        out.facts(
            [
                ("store", report["path"]),
                ("segments", f"{report['segments']} and {report['ready_segments']} prepared"),
                (
                    "records",
                    f"{report['records']:,} ({out.size(report['record_bytes'])}), log positions "
                    f"{report['first_position']} to {report['end_position']}",
                ),
                (
                    "checkpoint",
                    f"up to {report['checkpoint_position']} "
                    f"({out.size(report['checkpoint_bytes'])})",
                ),
                ("torn tail", f"{report['torn_bytes']} bytes that a start would cut"),
                ("result", "damaged" if report["problem"] else "sound"),
            ]
        )
        if report["damaged"]:
            print()
            out.table(
                ("file", "byte", "size", "log position"),
                [(d["path"], d["offset"], d["size"], d["address"]) for d in report["damaged"]],
            )
    sys.stdout.flush()
    if report["problem"]:
        raise DamagedRecord(report["problem"])
