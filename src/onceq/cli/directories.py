"""``onceq list``, ``directory``, ``names`` and ``mapping``: what names stand for."""

from __future__ import annotations

import sys
from dataclasses import asdict
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
    asking,
    dumped,
    manager,
)
from onceq.errors import ConfigurationError, DirectoryError
from onceq.model.identity import guid_text
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.model.views.managers import ListView

Name = Annotated[str, Argument(metavar="LIST", help="Its name, or its format name DL=...")]
Members = Annotated[
    list[str],
    Argument(
        metavar="QUEUE...", help="Format names, such as DIRECT=OS:BETA/private$/stock or DL=..."
    ),
]
Path = Annotated[str, Argument(metavar="FILE", help="File of the directory.")]


def create_list(
    name: Annotated[str, Argument(metavar="LIST", help="Letters, digits, - and .")],
    members: Annotated[
        list[str] | None,
        Argument(metavar="[QUEUE...]", help="Its members, format names.", show_default=False),
    ] = None,
    qm: Where = None,
    json: Json = False,
) -> None:
    """Make a distribution list; its format name, which is printed, is what you send to."""
    with manager(qm) as connection:
        made = connection.lists.create(name, *(members or ()))
    print_list(made, json)


def add_members(name: Name, members: Members, qm: Where = None, json: Json = False) -> None:
    """Add queues, or other lists."""
    with manager(qm) as connection:
        made = connection.lists.add(name, *members)
    print_list(made, json)


def remove_members(name: Name, members: Members, qm: Where = None, json: Json = False) -> None:
    """Take members out; what was sent before goes to them all the same."""
    with manager(qm) as connection:
        made = connection.lists.remove(name, *members)
    print_list(made, json)


def drop_list(name: Name, yes: Yes = False, dry_run: DryRun = False, qm: Where = None) -> None:
    """Remove a list from the directory. It asks first; its members stay."""
    with manager(qm) as connection:
        count = plural(len(connection.lists.members(name)), "member")
        if dry_run:
            out.line(f"would remove the list {name} with {count}; nothing was changed")
            return
        agreed(f"remove the list {name} with {count} for good?", yes=yes)
        connection.lists.drop(name)
    out.line(f"{name} is gone")


def print_list(made: ListView, json: bool) -> None:
    if dumped(made, json):
        return
    out.line(f"{made.name}  {made.format_name}  {len(made.members)} members")


def init_directory(file: Path) -> None:
    """Make an empty directory; queue managers share it by `directory = "FILE"` in onceq.toml."""
    from onceq.directory import FileDirectory, create

    create(file)
    file = FileDirectory(file).path
    out.line(f'made {file}; put  directory = "{file}"  into the onceq.toml of each queue manager')


def show_directory(file: Path, json: Json = False) -> None:
    """Check a directory's file, and show what is in it."""
    from onceq.directory import FileDirectory

    seen = FileDirectory(file).look()
    if seen.trouble or seen.snapshot is None:
        raise DirectoryError(seen.trouble)
    snapshot = seen.snapshot
    rows = [
        *(("computer", one.name, guid_text(one.guid), one.endpoint) for one in snapshot.computers),
        *(
            ("public queue", f"{one.computer}\\{one.name}", guid_text(one.guid), one.label)
            for one in snapshot.queues.values()
        ),
        *(
            ("list", one.name, guid_text(one.guid), f"{len(one.members)} members")
            for one in snapshot.lists.values()
        ),
    ]
    if dumped([dict(zip(("kind", "name", "id", "about"), row, strict=True)) for row in rows], json):
        return
    out.table(("kind", "name", "id", "about"), rows)


_LEADS_TO = {
    "here": "a queue of this queue manager",
    "elsewhere": "another queue manager",
    "list": "a distribution list",
    "nobody": "nobody: a message to it is refused",
}


def explain_name(
    name: Annotated[
        str,
        Argument(metavar="NAME", help="A path name, a format name, or the name of a list."),
    ],
    qm: Where = None,
    json: Json = False,
) -> None:
    """Say which queue a message to a name goes to, how, and why. Nothing is sent or made."""
    with asking(qm) as connection:
        found = connection.admin.explain_name(name)
    if dumped(found, json):
        return
    for one in found:
        indent = "  " * one.depth
        becomes = f"  -> {one.becomes}" if one.becomes else ""
        out.line(f"{indent}{one.name}{becomes}")
        if "one copy" in one.becomes or one.becomes == "was expanded before":
            continue
        manager_id = f"({one.manager_id})" if one.manager_id else ""
        rows = (
            ("leads to", _LEADS_TO.get(one.leads_to, one.leads_to)),
            ("queue", one.queue),
            ("manager", " ".join(filter(None, (one.manager, manager_id)))),
            ("address", f"{one.address} ({one.address_by})" if one.address else one.address_by),
            ("session", f"with {one.session}" if one.session else ""),
            ("goes through", f"outgoing queue {one.outgoing}" if one.outgoing else ""),
            ("because", one.rule),
        )
        for word, text in rows:
            if text:
                out.line(f"{indent}  {word + ':':13} {text}")


DataDirectory = Annotated[
    str,
    Option(
        "--directory", "-d", metavar="DIR", help="Data directory of the queue manager.",
    ),
]  # fmt: skip


def check_mapping(directory: DataDirectory = ".", json: Json = False) -> None:
    """Read the mapping files of a data directory, and name what is wrong with them.

    With a wrong file a queue manager does not start.
    """
    from onceq.embedded import mapping

    report = mapping.check(directory)
    if not dumped({**asdict(report), "problems": report.problems}, json):
        out.line(f"folder {report.folder}")
        out.table(
            ("file", "what it is", "entries", "problem"),
            [(one.name, one.form, one.entries, one.problem) for one in report.sources],
        )
        for text in report.unreached:
            out.line(f"warning: {text}")
    sys.stdout.flush()
    if report.problems:
        raise ConfigurationError("; ".join(report.problems))


def explain_mapping(
    url: Annotated[
        str, Argument(metavar="URL", help="Such as https://www.example.com/msmq/orders.")
    ],
    directory: DataDirectory = ".",
    json: Json = False,
) -> None:
    """Say what the queue manager does with a URL, and which entry of which file says so."""
    from onceq.embedded import mapping

    found = mapping.explain(directory, url)
    if dumped(asdict(found), json):
        return
    said = {
        "a message that comes for it": (found.arriving, "arriving"),
        "a message sent to it": (f"goes to the host {found.connecting}", "connecting"),
        "receipts for streams to it": (
            f"come to {found.receipts}" if found.receipts else "cannot come: no http_listen",
            "receipts",
        ),
    }
    facts: list[tuple[str, object]] = [("URL", found.url)]
    for what, (text, key) in said.items():
        because = found.because.get(key, "")
        facts.append((what, f"{text} ({because})" if because else text))
    out.facts(facts)
