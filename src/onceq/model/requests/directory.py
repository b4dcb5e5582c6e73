"""Requests about the directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onceq.model.requests.request import Request


@dataclass(slots=True)
class EditDirectory(Request):
    """Change a list of the directory. Answer: a ListView (``core/management/directory_rules.py``).

    Attributes:
        what: create, add, remove or drop.
        name: Of the list, or ``DL=guid``.
        members: Format names to be added or removed.
        guid: Of a new list, which the service draws.
    """

    what: str
    name: str
    members: Sequence[str] = ()
    guid: bytes = field(default=b"", kw_only=True)
