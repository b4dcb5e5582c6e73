"""Any bytes at all are a directory or a DirectoryError that says so."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from onceq.directory.file import dump, parse
from onceq.errors import DirectoryError
from onceq.model.directory import Snapshot

GUID = "01234567-89ab-cdef-0123-456789abcdef"
words = st.one_of(
    st.sampled_from([GUID, "ALPHA", "q", r"DIRECT=OS:B\private$\q", f"DL={GUID}", "", "\0"]),
    st.text(max_size=12),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)
entries = st.dictionaries(
    st.sampled_from(
        ["name", "guid", "addresses", "endpoint", "private", "computer", "label", "members"]
    ),
    st.one_of(words, st.lists(words, max_size=3), st.dictionaries(words, words), values),
    max_size=6,
)
files = st.fixed_dictionaries(
    {"onceq_directory": st.one_of(st.just(1), values)},
    optional={
        table: st.one_of(st.lists(entries, max_size=3), values)
        for table in ("computers", "queues", "lists")
    },
)


def taken(raw: bytes) -> Snapshot | None:
    try:
        return parse(raw)
    except DirectoryError:
        return None


@given(st.binary(max_size=300))
@example(b"")
@example(b'{"onceq_directory": 1e999}')
@example(b"[" * 100_000)
def test_any_bytes(raw: bytes) -> None:
    taken(raw)


WHOLE = {
    "onceq_directory": 1,
    "computers": [{"name": "ALPHA", "guid": GUID, "addresses": ["127.0.0.1:1801"]}],
    "queues": [{"name": "q", "guid": GUID, "computer": "ALPHA"}],
    "lists": [{"name": "all", "guid": GUID, "members": [r"DIRECT=OS:B\private$\q"]}],
}


def test_a_whole_one_is_taken() -> None:
    """What the next test changes at random: else all of its content might be refused."""
    assert taken(json.dumps(WHOLE).encode()) is not None


@given(files)
@example(WHOLE)
def test_anything_of_about_the_right_shape(content: object) -> None:
    found = taken(json.dumps(content).encode())
    if found is not None:
        assert dump(parse(dump(found))) == dump(found)
