"""Properties of a queue: types, ranges, and what may change."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from onceq.errors import (
    AuthenticationNotSupported,
    EncryptionNotSupported,
    IllegalPathName,
    IllegalPropertyId,
    IllegalPropertyValue,
    MulticastNotSupported,
    PropertyNotAllowed,
)
from onceq.model.limits import QUEUE_LABEL_CHARS_MAX, QUEUE_NAME_CHARS_MAX
from onceq.model.queue import (
    CHANGEABLE,
    QUOTA_UNLIMITED_KB,
    QueueProperties,
    changed,
    check_queue_name,
    name_fault,
)

QUEUE = QueueProperties("orders", created=7, modified=7, transactional=True)


def test_defaults_are_those_of_the_properties_table() -> None:
    queue = QueueProperties("orders")
    assert (queue.journal, queue.authenticate, queue.transactional) == (False, False, False)
    assert (queue.quota_kb, queue.journal_quota_kb) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert (queue.priv_level, queue.base_priority, queue.label) == (1, 0, "")


EDGES: list[tuple[str, list[Any], list[Any]]] = [
    ("label", ["", "x" * QUEUE_LABEL_CHARS_MAX], ["x" * (QUEUE_LABEL_CHARS_MAX + 1), b"x", None]),
    ("quota_kb", [0, QUOTA_UNLIMITED_KB], [-1, QUOTA_UNLIMITED_KB + 1, 1.0, "1", True, None]),
    ("journal_quota_kb", [0, QUOTA_UNLIMITED_KB], [-1, QUOTA_UNLIMITED_KB + 1, None]),
    ("priv_level", [0, 1, 2], [-1, 3, "1"]),
    ("number", [0, 0xFFFF_FFFF], [-1, 1 << 32]),
    ("created", [0, 0xFFFF_FFFF], [-1, 1 << 32]),
    ("modified", [0, 0xFFFF_FFFF], [-1, 1 << 32]),
    ("paused_since", [0, 0xFFFF_FFFF], [-1, 1 << 32]),
    ("transactional", [False, True], [0, 1, None, "yes"]),
    ("private", [False, True], [0, "no"]),
    ("journal", [False, True], [0, 2]),
    ("authenticate", [False, True], [0, 2]),
    ("instance", [bytes(16)], [b"", bytes(15), bytes(17), "x" * 16, bytearray(16)]),
    ("poison_attempts", [0], [-1, 1 << 32, "1", None]),
    ("poison_retry_after", [0, 60], [-1, 1 << 32]),
    ("poison_retries", [0, 5], [-1, 1 << 32]),
    ("poison_then", ["reject", "dead-letter", "move:x"], ["", "move:", "move:a b", 1, None]),
    ("type", [bytes(16)], [b"", bytes(15), bytes(17), "x" * 16, bytearray(16)]),
]


@pytest.mark.parametrize(("name", "good", "bad"), EDGES, ids=[edge[0] for edge in EDGES])
def test_every_value_has_a_type_and_a_range(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(replace(QUEUE, **{name: value}), name) == value
    for value in bad:
        with pytest.raises(IllegalPropertyValue) as caught:
            replace(QUEUE, **{name: value})
        assert caught.value.hresult == 0xC00E0018


def test_base_priority_is_for_public_queues() -> None:
    for value in (-32768, 32767):
        public = QueueProperties("orders", private=False, base_priority=value)
        assert public.base_priority == value
        with pytest.raises(IllegalPropertyValue, match="only public"):
            replace(public, private=True)
        with pytest.raises(IllegalPropertyValue, match="base_priority is"):
            replace(public, base_priority=value * 2)


def test_every_property_is_checked() -> None:
    checked = {edge[0] for edge in EDGES} | {"name", "base_priority"}
    assert checked == {field.name for field in fields(QueueProperties)}


@pytest.mark.parametrize(
    ("name", "at", "said"),
    [
        ("", 0, "is missing"),
        ("a b", 1, "not allowed"),
        ("a\\b", 1, "not allowed"),
        ("a/b", 1, "not allowed"),
        ("a;b", 1, "not allowed"),
        ("a,b", 1, "not allowed"),
        ("a+b", 1, "not allowed"),
        ('a"', 1, "not allowed"),
        ("\0", 0, "not allowed"),
        ("\x7f", 0, "not allowed"),
        ("\u00e4", 0, "not allowed"),
        ("q" * 125, 124, "at most 124"),
        ("q" * 200 + "+", 124, "at most 124"),
        ("+" + "q" * 200, 0, "not allowed"),
    ],
)
def test_names_that_no_queue_has(name: str, at: int, said: str) -> None:
    fault = name_fault(name, what="queue", chars_max=QUEUE_NAME_CHARS_MAX)
    assert fault is not None
    assert fault[0] == at
    assert said in fault[1]
    for make in (check_queue_name, QueueProperties):
        with pytest.raises(IllegalPathName, match=f"at position {at}"):
            make(name)


def test_names_that_queues_have() -> None:
    for name in ("q", "q" * QUEUE_NAME_CHARS_MAX, "..", "a=b", "$", "order_queue$", "~!@#%^&*()"):
        check_queue_name(name)
        assert QueueProperties(name).name == name


def test_only_a_manager_itself_has_system_queues() -> None:
    assert QueueProperties("system$;deadxact", private=False).name == "system$;deadxact"
    for name, private in (("system$;deadxact", True), ("system$;", False), ("system$;;", False)):
        with pytest.raises(IllegalPathName):
            QueueProperties(name, private=private)
    with pytest.raises(IllegalPathName):
        QueueProperties(5)  # type: ignore[arg-type]


def test_quota_in_bytes() -> None:
    assert replace(QUEUE, quota_kb=3).quota_bytes == 3072
    assert replace(QUEUE, quota_kb=0).quota_bytes == 0
    assert QUEUE.quota_bytes > 1 << 60


def test_whether_a_queue_is_transactional_never_changes() -> None:
    """Case 35."""
    with pytest.raises(PropertyNotAllowed, match="never changes"):
        changed(QUEUE, {"transactional": False}, now_s=9)
    with pytest.raises(IllegalPropertyId, match="no queue property 'colour'"):
        changed(QUEUE, {"colour": "red"}, now_s=9)


def test_what_changes_is_dated() -> None:
    after = changed(QUEUE, {"label": "Orders", "quota_kb": 10}, now_s=9)
    assert after == replace(QUEUE, label="Orders", quota_kb=10, modified=9)
    with pytest.raises(IllegalPropertyValue):
        changed(QUEUE, {"quota_kb": -1}, now_s=9)
    settled = {field.name for field in fields(QueueProperties)} - CHANGEABLE
    assert settled == {
        "name", "private", "number", "transactional", "created", "modified", "instance",
        "paused_since",
    }  # fmt: skip


def test_what_could_not_be_kept_is_refused_by_its_own_error() -> None:
    with pytest.raises(EncryptionNotSupported):
        changed(QUEUE, {"priv_level": 2}, now_s=9)
    with pytest.raises(AuthenticationNotSupported):
        changed(QUEUE, {"authenticate": True}, now_s=9)
    with pytest.raises(MulticastNotSupported, match="PGM"):
        changed(QUEUE, {"multicast_address": "224.0.0.1:80"}, now_s=9)
    assert changed(QUEUE, {"priv_level": 0, "authenticate": False}, now_s=9).priv_level == 0
