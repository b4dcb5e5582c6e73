"""Heads of requests that are not the fields of their class, as they cross a connection.

A field is only ever added at the end, with a default, so that an older side is understood.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The head of a request as it crosses the wire."""


class ItemRow(Row):
    """A batch to send; its bodies stand in the frame's data.

    ``own``: before them as many headers of their own (``packet/own.py``).
    """

    destination: str
    properties: dict[str, Any]
    age_s: int
    count: int
    own: bool = False


class UnitRow(Row):
    transaction: int


class LimitedUnitRow(UnitRow):
    """A transaction with a limit of its own: only to who says revision 8."""

    idle_s: int


class FailedUnitRow(UnitRow):
    """An abort with the words of a failure: only to who says revision 7."""

    why: str


class BlamelessRow(FailedUnitRow):
    """An abort that counts against no message: only to who says revision 8."""

    blameless: bool


class SendRow(Row):
    transaction: int
    items: list[ItemRow]


class CommitRow(Row):
    transaction: int
    session: bytes
    number: int
    items: list[ItemRow]


class CommitThenRow(CommitRow):
    """A commit with which another transaction begins: only to who says revision 1."""

    then: int = 0


class PrepareRow(Row):
    transaction: int
    format_id: int
    gtrid: bytes
    bqual: bytes
    items: list[ItemRow]


class OutcomeRow(Row):
    session: bytes
    number: int


class BranchRow(Row):
    """``how``: of start 0 new, 1 join, 2 resume; of end 0 success, 1 fail, 2 suspend; of commit 1
    in one phase."""

    verb: str
    transaction: int
    format_id: int
    gtrid: bytes
    bqual: bytes
    how: int = 0
    by_hand: bool = False


class DecideRow(Row):
    verb: str
    transaction: int
    gtrid: bytes
    partner: str = ""


class GroupRow(Row):
    verb: str
    app: str
    query: str
    version: int
    prefix: bytes
    branches: list[tuple[bytes, bytes]]


class GroupNotedRow(GroupRow):
    """With what is remembered of it: only from who says something of that."""

    target: str = ""
    digest: str = ""


class RightsRow(Row):
    who: str
    words: list[str]
    pattern: str = ""
    take: bool = False


class RightsWhereRow(RightsRow):
    """And where they hold: only from who wants them in the directory."""

    everywhere: bool = False


class StreamRow(Row):
    action: str
    queue: str
    source: str
    reason: str
    whole: bool = False
    dry_run: bool = False
