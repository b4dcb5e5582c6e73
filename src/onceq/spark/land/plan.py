"""What to land, and how: a user's plan, the schema of bodies, and what follows before Spark runs.

A schema is kept as Spark's own JSON of a ``StructType``, so that its rules need no Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from onceq.spark.argument_checks import wrong
from onceq.spark.connections import FROM_ENVIRONMENT, CredentialFiles
from onceq.spark.source.options import COLUMNS, USUAL

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
class LandPlan:
    """What to land, and how.

    Attributes:
        manager, queues: As the options ``queueManager`` and ``queue`` of the source.
        to: Folder of the table; made if it is not there.
        table: What it becomes; one of ``TABLES``.
        body: What bodies are, one of ``BODIES``; empty: bytes, which are left as they are.
        schema: What bodies have; the text of a schema (``fields_of``).
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

    def going_on(self, began: Sequence[str]) -> LandPlan:
        """This plan for a folder that was begun with these columns of messages.

        What was usual before bodies had sums stays usual there, and a table that was begun with
        the columns of ``IDENTITY``, or without them, goes on so.
        """
        if self._usual and began == [*IDENTITY, DATED]:
            return replace(self, columns=tuple(began))
        other = replace(self, identified=not self.identified)
        return other if list(began) == list(other.kept) else self

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


Field = Mapping[str, Any]
"""``name``, ``type`` (a name, or JSON of a nested type), ``nullable``."""


def fields_of(text: str, ddl: Callable[[str], Mapping[str, Any]]) -> list[Field]:
    """The columns that a schema file names.

    Args:
        text: SQL's words, ``id BIGINT NOT NULL, price DOUBLE``, or the JSON of a ``StructType``.
        ddl: Makes that JSON of SQL's words.

    Raises:
        ConfigurationError: It is neither, or names a column twice.
    """
    found: Any
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise wrong(f"the schema is not JSON: {error}") from None
        if found.get("type") != "struct" or not isinstance(found.get("fields"), list):
            raise wrong(
                'the schema is JSON, but not of a StructType ({"type": "struct", "fields": ...}, '
                "as schema.json() of a DataFrame gives it); SQL's words do as well: "
                "id BIGINT NOT NULL, price DOUBLE"
            )
    else:
        found = ddl(text)
    fields: list[Field] = [
        {"name": field["name"], "type": field["type"], "nullable": field.get("nullable", True)}
        for field in found["fields"]
    ]  # fmt: skip
    if not fields:
        raise wrong("the schema names no column")
    for field in fields:
        if _strict_inside(field["type"]):
            raise wrong(
                f"column {field['name']!r} says NOT NULL of something inside it, and that is not "
                "looked at; say it of whole columns only"
            )
    twice = repeated([field["name"] for field in fields])
    if twice:
        raise wrong(f"the schema has a column {twice!r} twice; case makes no difference")
    return fields


def repeated(names: Sequence[str]) -> str:
    """The first name that stood there before, in any case; empty if none did."""
    seen = set()
    for name in names:
        if name.lower() in seen:
            return name
        seen.add(name.lower())
    return ""


def check_names(plan: LandPlan, fields: Sequence[Field]) -> None:
    """Columns of the message and of the body in one table; raises ConfigurationError."""
    ours = [plan.prefix + name for name in plan.kept]
    twice = repeated([*ours, *(field["name"] for field in fields)])
    if twice:
        raise wrong(
            f"the schema has a column {twice!r}, and so has the message; --prefix msg_ puts a "
            "word before the names of the message's columns"
        )
    if plan.by_date and repeated([DATE, *ours, *(field["name"] for field in fields)]):
        raise wrong(f"there is a column {DATE!r} already, so there cannot be folders by date")


def check_change(before: Sequence[Field], after: Sequence[Field], *, allowed: bool) -> None:
    """A schema may only get columns that may be null.

    Rows that were landed have none of them, and a column that is left out or has another type
    would give one table two meanings.

    Args:
        allowed: Whether the user has said that columns may be added.

    Raises:
        ConfigurationError: The table cannot go on with this schema.
    """
    now = {field["name"]: field for field in after}
    for field in before:
        name = field["name"]
        if name not in now:
            raise wrong(
                f"the schema has no column {name!r} any more, and the table has it; put it back "
                "into the schema (it is null where bodies lack it), or land in another folder"
            )
        if now[name]["type"] != field["type"]:
            raise wrong(
                f"column {name!r} is {_describe_type(field)} in the table and "
                f"{_describe_type(now[name])} in the schema; take the type that it "
                "had, or land in another folder"
            )
        if field["nullable"] and not now[name]["nullable"]:
            raise wrong(
                f"column {name!r} may be null in the table and is NOT NULL in the schema; rows "
                "without it may be there already"
            )
    known = {field["name"] for field in before}
    fresh = [field for field in after if field["name"] not in known]
    for field in fresh:
        if not field["nullable"]:
            raise wrong(
                f"the new column {field['name']!r} is NOT NULL, and the rows that were landed "
                "have none; leave NOT NULL out"
            )
    if fresh and not allowed:
        names = ", ".join(field["name"] for field in fresh)
        raise wrong(f"the schema has columns that the table lacks: {names}; --evolve adds them")


def _strict_inside(kind: Any) -> bool:
    if isinstance(kind, list):
        return any(map(_strict_inside, kind))
    if not isinstance(kind, dict):
        return False
    strict = (kind.get(name) is False for name in ("nullable", "containsNull", "valueContainsNull"))
    return any(strict) or any(map(_strict_inside, kind.values()))


def _describe_type(field: Field) -> str:
    kind = field["type"]
    return kind if isinstance(kind, str) else json.dumps(kind)
