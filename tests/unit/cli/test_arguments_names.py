"""Names as people type them: those that cannot be meant, and what is proposed instead."""

from __future__ import annotations

import pytest

from onceq.cli import queues
from onceq.cli.arguments import check_dollar
from onceq.errors import UsageError


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("orders", "write private$/orders, or"),
        (r"private\orders", "write private$/orders, or"),
        ("private$orders", "write private$/orders, or"),
        (r"BETA\private$\orders", "write private$/orders, or"),
        ("/private$/orders", "write private$/orders, or"),
        ("private/", "is written private$/NAME; or"),
        ("a b", "is written private$/NAME; or"),
    ],
)
def test_what_is_proposed_is_a_name_that_works(name: str, write: str) -> None:
    with pytest.raises(UsageError, match="would be a public queue") as said:
        queues.create_queue(name)
    assert write in str(said.value)


@pytest.mark.parametrize(
    "name",
    ["private/orders", r"private\orders", "DIRECT=OS:BETA/private", "direct=os:BETA/PRIVATE/q"],
)
def test_a_name_without_its_dollar_is_refused(name: str) -> None:
    """It would be another computer, or a public queue, and messages would wait there for days."""
    with pytest.raises(UsageError, match="single quotes"):
        check_dollar(name)
    with pytest.raises(UsageError):
        check_dollar(f"private$/a,{name}")


@pytest.mark.parametrize(
    "name",
    [
        "private$/private",
        "DIRECT=OS:BETA/private$/q",
        "DIRECT=HTTP://h/msmq/private/q",
        "PRIVATE=x",
    ],
)
def test_other_names_are_taken(name: str) -> None:
    check_dollar(name)
