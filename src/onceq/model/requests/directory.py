"""Requests about the directory."""

from __future__ import annotations

from collections.abc import Sequence

from onceq.model.requests.request import Request
from onceq.model.rights import Right
from onceq.model.views.managers import ListView


class _EditDirectory(Request, kw_only=True):
    """Of a change of the directory, what the service fills in."""

    guid: bytes = b""


class EditDirectory(_EditDirectory):
    """Change a list of the directory. Answer: a ListView (``core/management/directory_rules.py``).

    Attributes:
        what: create, add, remove or drop.
        name: Of the list, or ``DL=guid``.
        members: Format names to be added or removed.
        guid: Of a new list, which the service draws.
    """

    code = 24
    needs = Right.ADMINISTER
    answer = ListView
    what: str
    name: str
    members: Sequence[str] = ()
