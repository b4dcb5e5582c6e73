"""``onceq list`` and ``onceq directory``: distribution lists, and the directory they stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import DryRun, Json, Where, Yes, agreed, dumped, manager
from onceq.cli.parameters import Argument
from onceq.errors import DirectoryError
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
        made = connection.create_list(name, *(members or ()))
    _said(made, json)


def add(name: Name, members: Members, qm: Where = None, json: Json = False) -> None:
    """Add queues, or other lists."""
    with manager(qm) as connection:
        made = connection.add_to_list(name, *members)
    _said(made, json)


def remove(name: Name, members: Members, qm: Where = None, json: Json = False) -> None:
    """Take members out; what was sent before goes to them all the same."""
    with manager(qm) as connection:
        made = connection.remove_from_list(name, *members)
    _said(made, json)


def drop(name: Name, yes: Yes = False, dry_run: DryRun = False, qm: Where = None) -> None:
    """Remove a list from the directory. It asks first; its members stay."""
    with manager(qm) as connection:
        count = plural(len(connection.list_members(name)), "member")
        if dry_run:
            out.line(f"would remove the list {name} with {count}; nothing was changed")
            return
        agreed(f"remove the list {name} with {count} for good?", yes=yes)
        connection.drop_list(name)
    out.line(f"{name} is gone")


def _said(made: ListView, json: bool) -> None:
    if dumped(made, json):
        return
    out.line(f"{made.name}  {made.format_name}  {len(made.members)} members")


def init(file: Path) -> None:
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
