"""Mapping files of a queue manager: read from a folder, and again when one of them has changed.

The folder is ``mapping`` in the data directory, or the one that ``http_mapping`` names. Its files
end in ``.xml`` and are read in the order of their names, after the tables of ``onceq.toml``. A
fault stops a start. Later it changes nothing: the earlier content stays in force, whole, and the
log names the file.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from onceq.errors import ConfigurationError, MalformedPacket
from onceq.model.http import Mappings
from onceq.model.limits import MAPPING_FILE_BYTES_MAX, MAPPING_FILES_MAX, MAPPING_LOOK_S
from onceq.service.config import Configuration
from onceq.service.logs import event
from onceq.wire.srmp.mapping import MappingFile, read

FOLDER = "mapping"
_Signature = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class ReadFile:
    """One file of a folder.

    Attributes:
        name: Without the folder.
        content: Its mappings; None if it cannot be used.
        problem: Why not; "" if it can.
    """

    name: str
    content: MappingFile | None
    problem: str = ""


class MappingFolder:
    """The mapping files of one folder."""

    def __init__(self, path: str) -> None:
        """Name the folder; nothing is read yet. It may be missing."""
        self.path = path
        self._seen: _Signature | None = None
        self._due_us = 0
        self._found = Mappings()
        self._problem = ""
        """The last logged fault; a fault is logged once."""

    def files(self) -> list[ReadFile]:
        """Return every file of the folder, read now.

        Raises:
            ConfigurationError: The folder cannot be read, or has too many files.
        """
        return [self._file(name) for name, *_ in self._signature()]

    def load(self) -> Mappings:
        """Return the mappings of all files.

        Raises:
            ConfigurationError: A file cannot be used; it is named with its fault.
        """
        self._seen = self._signature()
        found = Mappings()
        for file in self.files():
            if file.content is None:
                raise ConfigurationError(
                    f"{os.path.join(self.path, file.name)}: {file.problem}; "
                    "mend it or take it out of the folder"
                )
            found += file.content.mappings
        self._found = found
        return found

    def current(self, now_us: int) -> Mappings:
        """Return the mappings in force; looks for changed files at most each MAPPING_LOOK_S.

        Args:
            now_us: Monotonic microseconds.
        """
        if now_us >= self._due_us:
            self._due_us = now_us + int(MAPPING_LOOK_S * 1_000_000)
            self._look()
        return self._found

    def _look(self) -> None:
        try:
            if self._signature() == self._seen:
                return
            self.load()
        except ConfigurationError as error:
            if error.text != self._problem:
                self._problem = error.text
                event(
                    "mapping files cannot be used: what was read before stays in force",
                    level=logging.WARNING, reason=error.text,
                )  # fmt: skip
            return
        self._problem = ""
        event(
            "mapping files were read", folder=self.path, files=len(self._seen or ()),
            redirections=len(self._found.redirections), receipts=len(self._found.receipts),
            outbound=len(self._found.outbound),
        )  # fmt: skip

    def _signature(self) -> _Signature:
        """Return name, size, time of change and number of each file, by name."""
        try:
            with os.scandir(self.path) as entries:
                found = [entry for entry in entries if entry.name.casefold().endswith(".xml")]
                stats = [(entry.name, entry.stat()) for entry in found]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ConfigurationError(f"{self.path} cannot be read: {error.strerror}") from None
        if len(stats) > MAPPING_FILES_MAX:
            raise ConfigurationError(
                f"{self.path} has {len(stats)} mapping files; at most {MAPPING_FILES_MAX} are read"
            )
        return tuple(
            # The number as well: a file that has replaced another may have its size and time.
            sorted((name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats)
        )

    def _file(self, name: str) -> ReadFile:
        try:
            with open(os.path.join(self.path, name), "rb") as file:
                data = file.read(MAPPING_FILE_BYTES_MAX + 1)
        except OSError as error:
            return ReadFile(name, None, f"it cannot be read: {error.strerror}")
        if len(data) > MAPPING_FILE_BYTES_MAX:
            return ReadFile(name, None, f"it has more than {MAPPING_FILE_BYTES_MAX} bytes")
        try:
            return ReadFile(name, read(data))
        except MalformedPacket as error:
            return ReadFile(name, None, error.text)


def folder_of(path: str, configuration: Configuration) -> MappingFolder:
    """Return the folder of mapping files of a data directory."""
    return MappingFolder(os.path.join(path, configuration.http_mapping or FOLDER))


def tables_of(configuration: Configuration) -> Mappings:
    """Return the mappings in the configuration itself."""
    return Mappings(
        tuple(configuration.redirections.items()), tuple(configuration.receipt_addresses.items())
    )
