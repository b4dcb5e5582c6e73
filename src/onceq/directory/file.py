"""A directory in a file, on a disk that several queue managers share.

The file is JSON, made to be read and, with care, changed by people; format in
``docs/reference/formats/directory.md``. It is never changed in place. The rights
of a directory have a file of their own beside it (``rights_file.py``).

If it cannot be read, all managers keep what they have read before, and are offline (DL-14).

Upholds: I24 (a file has a limit, and so has each part of it).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from onceq.directory import rights_file
from onceq.directory.contract import Seen, SeenRights, registered, relisted, same
from onceq.directory.rights_file import SUFFIX, RightsFile, locked, read, replace, why
from onceq.errors import DirectoryError, OnceqError
from onceq.model import limits
from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot, member_of
from onceq.model.identity import NO_GUID, guid_bytes, guid_text
from onceq.model.rights import Regrant, SharedRights

FORMAT = 1
_NUMBER_CHARS_MAX = 8


class _Computer(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    guid: str = ""
    addresses: list[str] = []
    endpoint: str = ""
    private: dict[str, str] = {}


class _Queue(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    guid: str
    computer: str
    name: str
    transactional: bool = False
    label: str = ""


class _List(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    guid: str
    name: str
    members: list[str] = []


class _File(msgspec.Struct, forbid_unknown_fields=True):
    onceq_directory: int
    computers: list[_Computer] = []
    queues: list[_Queue] = []
    lists: list[_List] = []


_decoder = msgspec.json.Decoder(_File)


class FileDirectory:
    """A ``Directory`` in one file for any number of managers; each has an object of its own."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._stamp: tuple[int, int, int] | None = None
        self._seen = Seen(None, "it was not read yet")
        self._rights = RightsFile(self.path)

    @property
    def where(self) -> str:
        """Return the path of the file."""
        return self.path

    def look(self) -> Seen:
        """Return its current content; the file is read again if its time, size or number has
        changed."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return self._trouble(None, f"{self.path} is not there; 'onceq directory init' makes it")
        except OSError as error:
            return self._trouble(None, f"{self.path}: {why(error)}")
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp == self._stamp:
            return self._seen
        try:
            snapshot = parse(read(self.path, limits.DIRECTORY_BYTES_MAX), self.path)
        except OnceqError as error:
            return self._trouble(stamp, error.text)
        except OSError as error:
            return self._trouble(None, f"{self.path}: {why(error)}")
        self._stamp = stamp
        known = self._seen.snapshot
        if self._seen.trouble or known is None or not same(snapshot, known):
            self._seen = Seen(snapshot)
        return self._seen

    def _trouble(self, stamp: tuple[int, int, int] | None, what: str) -> Seen:
        self._stamp = stamp
        if self._seen.trouble != what:
            self._seen = Seen(self._seen.snapshot, what)
        return self._seen

    def register(self, computer: Computer, queues: Sequence[PublicQueue]) -> None:
        """Replace the entries of a computer in the file."""
        with self._changing() as now:
            after = registered(now, computer, queues)
            if not same(now, after):
                replace(self.path, dump(after))

    def put_list(self, after: DistributionList | None, before: DistributionList | None) -> None:
        """Replace a list in the file."""
        with self._changing() as now:
            replace(self.path, dump(relisted(now, after, before)))

    def look_rights(self) -> SeenRights:
        """Return its current rights; the file is read again if its time, size, number or mode
        has changed, or the mode of its folder."""
        return self._rights.read_changes()

    def put_rights(self, change: Regrant) -> None:
        """Grant or revoke rights in the file beside it."""
        self._rights.change(change)

    @contextmanager
    def _changing(self) -> Iterator[Snapshot]:
        try:
            with locked(self.path):
                yield parse(read(self.path, limits.DIRECTORY_BYTES_MAX), self.path)
        except OSError as error:
            raise DirectoryError(
                f"the directory {self.path} cannot be changed: {why(error)}"
            ) from None


def create(path: str) -> None:
    """Make an empty directory, which gives no rights.

    Raises:
        DirectoryError: There is a file already, or it cannot be written.
    """
    path = os.path.abspath(path)
    try:
        with locked(path):
            for there in (path, path + SUFFIX):
                if os.path.exists(there):
                    raise DirectoryError(f"{there} is there already")
            # Before the directory, and though they are none: one without this file could be one
            # that has lost it.
            replace(path + SUFFIX, rights_file.dump(SharedRights(uuid.uuid4().bytes, 1)))
            replace(path, dump(Snapshot()))
    except OSError as error:
        raise DirectoryError(f"{path} cannot be made: {why(error)}") from None


# ---- bytes ------------------------------------------------------------------------------------


def dump(snapshot: Snapshot) -> bytes:
    """Return a directory as the bytes of a file, in an order that depends on its content only."""
    computers = [
        _Computer(
            one.name, guid_text(one.guid) if one.guid != NO_GUID else "", list(one.addresses),
            one.endpoint, {f"{number:08x}": name for number, name in sorted(one.private.items())},
        )
        for one in sorted(snapshot.computers, key=lambda one: one.name.casefold())
    ]  # fmt: skip
    queues = [
        _Queue(guid_text(one.guid), one.computer, one.name, one.transactional, one.label)
        for one in sorted(snapshot.queues.values(), key=lambda one: (one.computer, one.name))
    ]
    lists = [
        _List(guid_text(one.guid), one.name, list(one.members))
        for one in sorted(snapshot.lists.values(), key=lambda one: one.name.casefold())
    ]
    raw = msgspec.json.encode(_File(FORMAT, computers, queues, lists))
    return msgspec.json.format(raw, indent=2) + b"\n"


def parse(raw: bytes, where: str = "the directory") -> Snapshot:
    """Parse the bytes of a file; every entry is checked.

    Raises:
        DirectoryError: They are not one; the text names the entry.
    """
    try:
        found = _decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DirectoryError(f"{where} is not a directory of onceq: {error}") from None
    if found.onceq_directory != FORMAT:
        raise DirectoryError(
            f"{where} has format {found.onceq_directory}; this onceq reads format {FORMAT}"
        )
    if len(found.computers) + len(found.queues) > limits.DIRECTORY_ENTRIES_MAX:
        raise DirectoryError(f"{where} has more than {limits.DIRECTORY_ENTRIES_MAX} entries")
    if len(found.lists) > limits.DIRECTORY_LISTS_MAX:
        raise DirectoryError(f"{where} has more than {limits.DIRECTORY_LISTS_MAX} lists")
    computers = [_each(where, "computers", at, _computer, one)
                 for at, one in enumerate(found.computers)]  # fmt: skip
    queues = [_each(where, "queues", at, _queue, one) for at, one in enumerate(found.queues)]
    lists = [_each(where, "lists", at, _list, one) for at, one in enumerate(found.lists)]
    _once(where, "computers", [one.name.casefold() for one in computers])
    _once(where, "queues", [guid_text(one.guid) for one in queues])
    _once(where, "lists", [one.name.casefold() for one in lists])
    _once(where, "lists", [guid_text(one.guid) for one in lists])
    return Snapshot(computers, queues, lists)


def _each(where: str, table: str, at: int, make: Any, entry: Any) -> Any:
    try:
        return make(entry)
    except (ValueError, OnceqError) as error:
        raise DirectoryError(f"{where}: {table}[{at}] ({entry.name!r}): {error}") from None


def _once(where: str, table: str, keys: list[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise DirectoryError(f"{where}: {key} stands twice among the {table}")
        seen.add(key)


def _text(what: str, value: str, chars_max: int) -> str:
    if not 0 < len(value) <= chars_max or not value.isascii() or not value.isprintable():
        raise ValueError(f"{what} is a text of 1 to {chars_max} printable ASCII characters")
    return value


def _computer(one: _Computer) -> Computer:
    private: dict[int, str] = {}
    for number, name in one.private.items():
        if not 0 < len(number) <= _NUMBER_CHARS_MAX:
            raise ValueError(f"{number!r} is not the number of a private queue")
        private[int(number, 16)] = _text("a queue's name", name, limits.QUEUE_NAME_CHARS_MAX)
    return Computer(
        _text("a computer's name", one.name, limits.COMPUTER_NAME_CHARS_MAX),
        guid_bytes(one.guid) if one.guid else NO_GUID,
        tuple(_text("an address", text, limits.COMPUTER_NAME_CHARS_MAX) for text in one.addresses),
        private,
        _text("an endpoint", one.endpoint, limits.COMPUTER_NAME_CHARS_MAX) if one.endpoint else "",
    )


def _queue(one: _Queue) -> PublicQueue:
    if len(one.label) > limits.QUEUE_LABEL_CHARS_MAX:
        raise ValueError(f"a label has at most {limits.QUEUE_LABEL_CHARS_MAX} characters")
    return PublicQueue(
        guid_bytes(one.guid),
        _text("a computer's name", one.computer, limits.COMPUTER_NAME_CHARS_MAX),
        _text("a queue's name", one.name, limits.QUEUE_NAME_CHARS_MAX),
        one.transactional,
        one.label,
    )


def _list(one: _List) -> DistributionList:
    if len(one.members) > limits.DIRECTORY_MEMBERS_MAX:
        raise ValueError(f"a list has at most {limits.DIRECTORY_MEMBERS_MAX} members")
    members = tuple(str(member_of(text)) for text in one.members)
    return DistributionList(
        guid_bytes(one.guid), _text("a list's name", one.name, limits.LIST_NAME_CHARS_MAX), members
    )
