"""Who asks, what they have been granted, and what a cell of the table says of it.

This is what is expected, and is written without the product's own tables of rights, so that a
mistake in those shows. A need is written in words: ``send@orders`` is a right at one place,
``operate`` one over the whole queue manager; ``|`` stands between rights of which one is enough,
``&`` between needs that all have to be met. ``named`` needs that it is known who asks, ``anyone``
not even that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

ANYONE, NAMED = "anyone", "named"

PLACES: Final[Mapping[str, str]] = {
    "orders": "private$\\orders",
    "beta": "direct=os:beta\\private$\\stock",
    "new": "private$\\new",
    "dead": "system$;deadxact",
    "rows": "rows=sqlite:*",
    "tenants": "private$\\app-*",
}
"""The queues and databases that rows are about, as grants name them; a need of a right at a pattern
is one at a queue under it."""

_OWNS: Final = (
    "send", "receive", "peek", "peek-body", "journal", "delete", "get-properties",
    "set-properties", "get-rights", "set-rights",
)  # fmt: skip

INCLUDES: Final[Mapping[str, tuple[str, ...]]] = {
    "receive": ("peek", "peek-body"),
    "peek-body": ("peek",),
    "set-properties": ("get-properties",),
    "set-rights": ("get-rights",),
    "monitor": ("peek", "get-properties", "get-rights"),
    "operate": ("monitor", "peek", "get-properties", "get-rights"),
    "administer": (*_OWNS, "create", "forward", "monitor", "operate"),
}
"""What else somebody may who has a right."""
WHOLE: Final = ("forward", "monitor", "operate", "administer")
"""Rights without a place."""

NOBODY: Final = "nobody"
OVER_TCP: Final = "account over TCP"
"""An account of this computer that may everything at the Unix socket, and shows nothing."""
UNNAMED: Final = (NOBODY, OVER_TCP)
TENANT: Final = "tenant"
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    NOBODY: (),
    OVER_TCP: (),
    "no grant": (),
    "sender": ("send@orders", "send@beta"),
    "receiver": ("receive@orders",),
    "peeker": ("peek@orders",),
    "owner": tuple(f"{right}@orders" for right in (*_OWNS, "create")),
    TENANT: ("create@tenants", *(f"{right}@tenant" for right in _OWNS)),
    "monitor": ("monitor",),
    "operator": ("operate",),
    "administrator": ("administer",),
}
"""The columns, and what was granted to each; a queue's owner has made it, for which he was granted
``create`` there. ``tenant`` is the queue that the tenant has made."""

SINGLE: Final[Mapping[str, tuple[str, ...]]] = {
    right: (right,) if right in WHOLE else (f"{right}@*",) for right in (*_OWNS, "create", *WHOLE)
}
"""Everybody with a single right, which he has everywhere."""


def may(rights: Collection[str], needs: str, *, named: bool = True) -> bool:
    """Whether somebody with these rights may have what needs that."""
    if needs == ANYONE:
        return True
    if needs == NAMED:
        return named
    return all(
        any(_has(rights, one) for one in choice.split(" | ")) for choice in needs.split(" & ")
    )


def _has(rights: Iterable[str], needed: str) -> bool:
    right, _, place = needed.partition("@")
    for given in rights:
        word, _, where = given.partition("@")
        if where in ("", "*", place) and (word == right or right in INCLUDES.get(word, ())):
            return True
    return False


def expected(needs: str) -> dict[str, bool]:
    """A row of the table: may they?"""
    return {role: may(rights, needs, named=role not in UNNAMED) for role, rights in ROLES.items()}
