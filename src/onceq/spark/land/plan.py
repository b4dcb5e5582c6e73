"""What to land, and how: the wish of a user, and what follows from it before Spark runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from onceq.spark.credential_files import FROM_ENVIRONMENT, CredentialFiles
from onceq.spark.source_columns import COLUMNS, USUAL
from onceq.spark.targets import wrong

TABLES: Final = ("parquet", "delta", "iceberg")
LIBRARIES: Final = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""What they need beside Spark; the extra ``tables`` brings them, and what ``AVRO`` names."""
AVRO: Final = "fastavro"
BODIES: Final = ("json", "avro")
IDENTITY: Final = ("queueManager", "queue", "lookupId", "messageId")
"""What tells a message from all others: its identifier where it stood."""
DATED: Final = "arrivedTime"
SUMMED: Final = "bodyCrc"
"""Of a body that became columns: by it an audit knows whether a row says what the message said."""
DATE: Final = "date"
REASON: Final = "reason"
ERRORS: Final = (*IDENTITY, DATED, "bodyType", "body")
"""The message's columns of an error table; behind them stands the reason."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@dataclass(frozen=True)
class Plan:
    """What to land, and how.

    Attributes:
        manager, queues: As the options ``queueManager`` and ``queue`` of the source.
        to: Folder of the table; made if it is not there.
        table: What it becomes; one of ``TABLES``.
        body: What bodies are, one of ``BODIES``; empty: bytes, which are left as they are.
        schema: What bodies have; the text of a schema (``schemas``).
        columns: Which columns of the message; empty: all, or with a schema those of ``IDENTITY``,
            the time of arrival and the sum of the body.
        identified: Whether the columns of ``IDENTITY`` are there in any case.
        prefix: Stands before the names of the message's columns.
        evolve: Whether the schema may have more columns than before.
        ignore_unknown: Whether fields of a body that the schema lacks are left out.
        batch_messages: Messages of one batch; each batch is at least one file.
        batch_bytes: Bytes of packets of one batch; 0: no limit.
        by_date: Whether files go into a folder for each day (UTC) on which messages arrived.
        keep: Leave the messages in their queues.
        follow: Go on with what comes, until stopped.
        ignore_loss: Go on where messages are missing.
        proof: Whether the table is read back at the end.
        credentials: Who lands; a folder takes any.
    """

    manager: str
    queues: str
    to: Path
    table: str = "parquet"
    body: str = ""
    schema: str = ""
    columns: tuple[str, ...] = ()
    identified: bool = False
    prefix: str = ""
    evolve: bool = False
    ignore_unknown: bool = False
    batch_messages: int = 100_000
    batch_bytes: int = 0
    by_date: bool = False
    keep: bool = False
    follow: bool = False
    ignore_loss: bool = False
    proof: bool = False
    credentials: CredentialFiles = FROM_ENVIRONMENT

    def going_on(self, began: Sequence[str]) -> Plan:
        """This plan where its folder was begun with the columns that were usual then, which had no
        sum, and nobody says others now."""
        before = [*IDENTITY, DATED]
        return replace(self, columns=tuple(began)) if self._usual and began == before else self

    @property
    def _usual(self) -> bool:
        return bool(self.body) and not self.columns

    def check(self) -> None:
        """What can be known without Spark and without a queue; raises ConfigurationError."""
        if self.table not in TABLES:
            raise wrong(
                f"a table is {' or '.join(TABLES)}, not {self.table!r}; say what it is and "
                "where, as in --to parquet FOLDER"
            )
        if self.table == "iceberg" and self.by_date and DATED not in self.kept:
            raise wrong(f"folders by date need the column {DATED}; add it to --columns")
        if self.body and self.body not in BODIES:
            raise wrong(f"bodies are {' or '.join(BODIES)}, not {self.body!r}")
        for named, library in ((self.table, LIBRARIES.get(self.table)), (self.body, self._decoder)):
            if library and find_spec(library) is None:
                raise wrong(
                    f"{named} needs the package {library}: pip install 'onceq[spark,tables]'"
                )
        if self.body == "avro" and self.ignore_unknown:
            raise wrong("--ignore-unknown is for JSON: an Avro body has the fields of its schema")
        if self.body and not self.schema:
            raise wrong(
                f"bodies that are {self.body} need a schema: nobody guesses columns from the "
                "messages that happen to be there. Give a file with --schema"
            )
        if self.schema and not self.body:
            raise wrong(f"a schema needs --format, which is {' or '.join(BODIES)}")
        if _URL.match(str(self.to)):
            raise wrong(f"{self.to} is not a folder of this computer; land in one that is")
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown:
            raise wrong(f"there is no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
        for path in (self.to, self.errors):
            if path.exists() and not path.is_dir():
                raise wrong(f"{path} is a file; name a folder")

    @property
    def _decoder(self) -> str:
        return AVRO if self.body == "avro" else ""

    @property
    def errors(self) -> Path:
        """Folder of the error table."""
        return self.to.with_name(self.to.name + "_errors")

    @property
    def kept(self) -> tuple[str, ...]:
        """The message's columns that the table has, under the message's names."""
        chosen = self.columns or ((*IDENTITY, DATED, SUMMED) if self.body else tuple(USUAL))
        return tuple(dict.fromkeys([*(IDENTITY if self.identified else ()), *chosen]))

    @property
    def read(self) -> tuple[str, ...]:
        """What the source is asked for."""
        more = ERRORS if self.body else ()
        return tuple(dict.fromkeys([*self.kept, *more, *([DATED] if self.by_date else [])]))
