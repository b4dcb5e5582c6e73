"""Any bytes at all are a file of rights or a DirectoryError that says so."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from onceq.directory.rights_file import dump, parse
from onceq.errors import DirectoryError
from onceq.model.rights import LOCAL_RIGHTS, WHOLE, SharedRights, believed, why_not

GUID = "01234567-89ab-cdef-0123-456789abcdef"
words = st.one_of(
    st.sampled_from(
        ["certificate:a", f"peer:{GUID}", "*", "nobody", "alice", "token:x", "send", "operate",
         "set-rights", "monitor", "private$\\q*", "", "\0"]
    ),
    st.text(max_size=12),
)  # fmt: skip
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "who": st.one_of(words, values),
        "rights": st.one_of(st.lists(words, max_size=3), values),
        "queues": st.one_of(words, values),
        "more": values,
    },
)
files = st.fixed_dictionaries(
    {
        "onceq_rights": st.one_of(st.just(1), values),
        "id": st.one_of(st.just(GUID), values),
        "number": st.one_of(st.just(1), st.integers(), values),
    },
    optional={"grants": st.one_of(st.lists(entries, max_size=3), values)},
)
WHOLE_FILE = {
    "onceq_rights": 1,
    "id": GUID,
    "number": 12,
    "grants": [
        {"who": "certificate:billing", "rights": ["send", "set-rights"], "queues": "private$\\q*"},
        {"who": "alice", "rights": ["administer"]},
    ],
}


def taken(raw: bytes) -> SharedRights | None:
    try:
        return parse(raw)
    except DirectoryError:
        return None


@given(st.binary(max_size=300))
@example(b"")
@example(b'{"onceq_rights": 1e999}')
@example(b"[" * 100_000)
def test_any_bytes(raw: bytes) -> None:
    taken(raw)


def test_a_whole_one_is_taken() -> None:
    """What the next test changes at random: else all of its content might be refused."""
    assert taken(json.dumps(WHOLE_FILE).encode()) is not None


@given(files)
@example(WHOLE_FILE)
def test_anything_of_about_the_right_shape(content: object) -> None:
    found = taken(json.dumps(content).encode())
    if found is None:
        return
    assert parse(dump(found)) == found
    grants, _ = believed(found.grants)
    for one in grants:
        assert not why_not(one.who)
        assert one.rights
        assert not one.rights & LOCAL_RIGHTS
        assert bool(one.pattern) is not bool(one.rights & WHOLE)
