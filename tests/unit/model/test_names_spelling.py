"""One spelling of a queue's name, whoever writes it."""

from __future__ import annotations

import pytest

from onceq.model.names import folded, local, parse_any, usual

ORDERS = [
    r"private$\orders", "private$/orders", r"PRIVATE$\Orders", r".\private$\orders",
    "./private$/orders", r"HUB\private$\orders", r"DIRECT=OS:.\private$\orders",
    "direct=os:hub/PRIVATE$/orders", r"DIRECT=TCP:127.0.0.1\private$\orders",
    "DIRECT=HTTP://hub.example.net:8080/msmq/private$/orders", r" DIRECT=OS:hub\private$\orders ",
]  # fmt: skip
"""All of them name one queue at its queue manager."""


def test_every_name_of_a_queue_is_one() -> None:
    """Finding P3."""
    assert {local(name) for name in ORDERS} == {r"private$\orders"}
    assert {parse_any(name)[0].queue.casefold() for name in ORDERS} == {"orders"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"private$\orders", "orders"), (r"private$\orders", r"private$\orders;journal"),
        (r"HUB\orders", r"private$\orders"), (r"private$\a", r"private$\b"),
        ("PUBLIC=01234567-89ab-cdef-0123-456789abcdef", "orders"),
        (r"PRIVATE=01234567-89ab-cdef-0123-456789abcdef\00000001",
         r"PRIVATE=11234567-89ab-cdef-0123-456789abcdef\00000001"),
    ],
)  # fmt: skip
def test_names_of_two_queues_stay_two(one: str, other: str) -> None:
    assert local(one) != local(other)


def test_queues_of_the_system_have_one_name_each() -> None:
    names = [
        "SYSTEM$;DEADXACT",
        "system$;deadxact",
        r".\SYSTEM$;DeadXact",
        r"private$\system$;deadxact",
    ]
    assert {local(name) for name in names} == {"system$;deadxact"}


def test_what_is_written_down_keeps_its_capitals() -> None:
    assert usual("private$/Orders") == r"private$\Orders"
    url = "DIRECT=HTTPS://hub/msmq/private$/Orders"
    assert usual(url) == url


def test_what_is_no_name_is_equal_to_itself() -> None:
    for text in ("", "\\", "=", "a\\b\\c"):
        assert local(text) == local(text.upper())
        assert folded(folded(text)) == folded(text)
