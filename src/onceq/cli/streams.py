"""``onceq stream`` and ``onceq outcome``: what arrives, and what became of something sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import (
    Argument,
    DryRun,
    Exit,
    Json,
    Option,
    Where,
    Yes,
    agreed,
    as_json,
    asking,
    core_of,
    dumped,
    manager,
)
from onceq.cli.lists import sender_names
from onceq.client.why import stream_why
from onceq.errors import QueueNotFound
from onceq.model.identity import MessageId

if TYPE_CHECKING:
    from onceq.client.plans.send import Ending
    from onceq.model.views.managers import ClockAccepted
    from onceq.model.views.queues import StreamReset, StreamView


def forget_peer(
    name: Annotated[str, Argument(metavar="NAME", help="As 'peer list' shows it.")],
    to: Annotated[
        str, Option("--to", metavar="GUID", help="The one that it is; else whichever answers next.")
    ] = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    qm: Where = None,
    json: Json = False,
) -> None:
    """Let another queue manager answer under a name; what waits for it goes to that one."""
    with manager(qm) as connection:
        found = connection.admin.forget_peer(name, to=to, dry_run=True)
        text = f"{found.title} is {to}" if to else f"{found.title} is not {found.id} any more"
        if not dry_run:
            whom = to or "whichever queue manager answers next"
            agreed(f"let {whom} be {found.title}?", yes=yes)
            found = connection.admin.forget_peer(name, to=to)
    if dumped({**found.as_dict(), "dry_run": dry_run}, json):
        return
    out.line(f"would be done: {text}" if dry_run else text)


def accept_clock(
    source: Annotated[
        str,
        Argument(
            metavar="MANAGER", help="The other one: its name, or the beginning of its GUID."
        ),
    ],
    reason: Annotated[str, Option("--reason", metavar="TEXT", help="Why; it is recorded.")],
    yes: Yes = False, dry_run: DryRun = False, qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Take the messages of a queue manager whose clock was days ahead when it started.

    They are refused even when that clock is right again. Accept only one that you know: any that
    speaks in its name can block its messages until then ('onceq stream reset' mends that).
    """
    with manager(qm) as connection:
        said = connection.admin.accept_clock(source, reason=reason, dry_run=True)
        if not dry_run:
            agreed(f"{_clock_text(said)}; do it?", yes=yes)
            said = connection.admin.accept_clock(source, reason=reason)
    if dumped(said, json):
        return
    out.line(("would be done: " if dry_run else "done: ") + _clock_text(said))


def _clock_text(said: ClockAccepted) -> str:
    who = said.name or said.id
    return (
        f"take the streams of {who}, of which the latest begins at {out.when(said.begun)}, if "
        f"they begin no later than {out.when(said.until)}"
    )


UNKNOWN = 6
"""Exit code of ``outcome`` when nobody knows any more; the code of InDoubt."""


def show_stream(
    queue: Annotated[
        str,
        Argument(
            metavar="QUEUE", help="Queue or destination of the stream, as in 'stream list'.",
        ),
    ],
    source: Annotated[
        str,
        Option(
            "--source", metavar="GUID", help="Only from this sender: its name, or the beginning "
            "of its GUID.", show_default=False,
        ),
    ] = "",
    qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Show the incoming streams of a queue, each with a sentence about what happens on it."""
    with asking(qm, name=queue) as connection:
        streams = connection.admin.streams()
        names = sender_names(connection, streams)
        listed = out.name(queue).casefold()
        found = [s for s in streams if listed in (_fold(s.queue), _fold(s.name))]
        try:
            path = connection.queue(queue if not found else rf"private$\{core_of(queue)}").path
        except QueueNotFound:
            # Streams to a queue that is deleted, and to one of another computer, are known, too.
            if not found:
                raise
            path = ""
        if not found:
            found = [s for s in streams if core_of(s.queue) == core_of(path)]
        said = source.casefold()
        found = [
            s
            for s in found
            if s.source.startswith(said) or names.get(s.source, "").casefold() == said
        ]
        info = connection.admin.eod_receive_info(path) if path else []
    if not found:
        who = f" from {source}" if source else ""
        raise QueueNotFound(f"{path or queue}: no message stream has arrived{who} yet")
    if as_json(json):
        eod = {(e.sender_id, e.seq_id): e for e in info}
        out.dump(
            [
                {**s.as_dict(), "why": stream_why(s), "eod": eod.get((s.source, s.stream))}
                for s in found
            ]
        )
        return
    for at, s in enumerate(found):
        if at:
            print()
        out.facts(_facts(s, names.get(s.source, "")))
        out.line(stream_why(s))


def _fold(name: str) -> str:
    return out.name(name).casefold()


def _facts(s: StreamView, sender: str) -> list[tuple[str, object]]:
    return [
        ("queue", out.name(s.name)),
        ("source", f"{sender} {s.source}" if sender else s.source),
        ("stream", f"{s.stream:#018x}"),
        ("last number accepted", str(s.number)),
        ("last accepted", out.when(s.last_access)),
        ("connected", s.connected),
        ("duplicates turned away", s.duplicates),
        ("arrived before an earlier one", s.gaps),
        ("of a stream left behind", s.stale),
        ("turned away since the last", s.rejects),
        ("of these now", f"{s.stale_stream:#018x}" if s.stale_stream else "-"),
        ("set back by an operator", out.when(s.reset_at)),
        ("why", s.reset_reason or "-"),
        ("number taken by another message", s.conflicts),
    ]


def reset_stream(
    queue: Annotated[
        str,
        Argument(
            metavar="QUEUE", help="Queue that the stream leads to, or its destination as 'stream "
            "list' shows it.",
        ),
    ],
    source: Annotated[
        str,
        Option(
            "--source", metavar="GUID", help="The sender: its name, or the beginning of its GUID.",
        ),
    ],
    reason: Annotated[
        str,
        Option("--reason", metavar="TEXT", help="Why; it is recorded with the stream."),
    ],
    forget: Annotated[
        bool,
        Option(
            "--forget", help="Forget everything; else it goes back to the stream before, if that "
            "is remembered.",
        ),
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Set an incoming stream back that was moved ahead, so that its sender is heard again.

    The sender sends again what it does not know to be accepted. Repetitions are recognised while
    the stream before is remembered; else, and with --forget, they are accepted a second time.
    """
    with manager(qm) as connection:
        said = connection.admin.reset_stream(
            queue, source, reason=reason, whole=forget, dry_run=True
        )
        if not dry_run:
            agreed(f"{_reset_text(said)}; do it?", yes=yes)
            said = connection.admin.reset_stream(queue, source, reason=reason, whole=forget)
    if dumped(said, json):
        return
    out.line(("would be done: " if dry_run else "done: ") + _reset_text(said))


def _reset_text(said: StreamReset) -> str:
    text = f"{out.name(said.queue)} from {said.source}: from stream {said.from_stream:#018x}, "
    text += f"number {said.from_number}, back to "
    if said.stream:
        return text + f"stream {said.stream:#018x}, number {said.number}"
    return text + (
        "nothing: of what has arrived nothing is known any more, and what is sent again will be "
        "accepted again"
    )


def outcome(
    what: Annotated[
        str,
        Argument(
            metavar="ID", help="Of a transaction, from the error 'in doubt'; or of a message, "
            "from 'send'.",
        ),
    ],
    qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Ask what became of a commit whose answer was lost, or of a message.

    Of a transaction: committed, aborted or unknown (asked too late; exit code 6). The answer is
    final: after aborted, sending again is safe. Ask the queue manager that was to commit it.

    Of a message: each of its copies, and why. Without --track only copies in outgoing and
    dead-letter queues are known. Exit code 6: nothing is known.
    """
    message = _message(what)
    with manager(qm) as connection:
        if message is not None:
            found = connection.track(message).outcomes()
        else:
            result = connection.outcome(what)
    if message is not None:
        _endings(what, found, json)
        return
    if not dumped({"transaction": what, "outcome": result}, json):
        out.line(result)
        if result == "aborted":
            out.note(
                f"{connection.name} says so of what was committed there; if it was committed at "
                "another queue manager, ask that one: each knows its own"
            )
    if result == "unknown":
        raise Exit(UNKNOWN)


def _message(text: str) -> MessageId | None:
    try:
        return MessageId.parse(text.replace("/", "\\"))
    except ValueError:
        return None


def _endings(id: str, found: Sequence[Ending], json: bool) -> None:
    if as_json(json):
        out.dump([
            {"destination": one.destination, "state": one.state, "why": one.text,
             "class": one.message_class, "at": one.at, "settled": one.settled}
            for one in found
        ])  # fmt: skip
    elif found:
        out.table(
            ("destination", "state", "since", "why"),
            [
                (out.name(one.destination), one.state, out.when(one.at), out.sentence(one.text))
                for one in found
            ],
            texts=("why",),
            give=("since", "why"),
        )
    else:
        out.line(
            f"nothing is known here of {id}: it waits in no outgoing queue and died in none; it "
            "was delivered, or it was never sent here. Messages sent with send_tracked (send "
            "--track) can be followed to their ends."
        )
    if not found:
        raise Exit(UNKNOWN)
