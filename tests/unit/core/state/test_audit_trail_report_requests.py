"""Who wants to know how messages end: the ranges against a table of single counters."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.core.state.audit_trail import COMPACT_AT, ReportRequest, ReportRequests
from onceq.model.identity import NO_GUID

HERE = ReportRequest(1, 1, NO_GUID, 0, 0, 0, 4, 99)
FAR = ReportRequest(1, 2, b"S" * 16, 7, 11, 21, 16, 99)

additions = st.tuples(
    st.integers(0, 3), st.integers(1, 4), st.sampled_from([0, 4, 16]), st.booleans()
)  # fmt: skip
histories = st.lists(st.one_of(additions, st.integers(0, 8)), max_size=30)


@given(histories, st.integers(0, 120), st.integers(1, 60))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_ranges_answer_as_a_table_of_counters_would(
    history: list[tuple[int, int, int, bool] | int], first: int, count: int
) -> None:
    wants, table, end, head = ReportRequests(), dict[int, tuple[int, int, int]](), 1, 1
    number = message = 1
    for step in history:
        if isinstance(step, int):
            head = min(head + step, end)
            wants.forget_before(head)
            for counter in [c for c in table if c < head]:
                del table[counter]
            continue
        gap, size, flags, far = step
        number, message = number + gap, message + 2 * gap
        source = b"S" * 16 if far else NO_GUID
        wants.add(ReportRequest(end + gap, size, source, int(far), number, message, flags, 9))
        for at in range(size):
            table[end + gap + at] = (flags, far * (number + at), far * (message + at))
        number, message, end = number + size, message + size, end + gap + size

    def told(counter: int, w: ReportRequest | None) -> tuple[int, int, int] | None:
        if w is None:
            return None
        at, far = counter - w.first, w.source != NO_GUID
        return w.flags, far * (w.number + at), far * (w.message + at)

    for counter in range(max(first, head), first + count):
        assert told(counter, wants.at(counter)) == table.get(counter)
    if first >= head:
        seen = list(wants.parts(first, count))
        assert sum(size for _, _, size in seen) == count
        at = first
        for w, start, size in seen:
            assert start == at
            at += size
            for counter in range(start, at):
                assert told(counter, w) == table.get(counter)
    assert bool(wants) == any(True for _ in wants)
    assert bool(wants) == bool(table)


def test_what_goes_on_with_the_same_wishes_is_one_range() -> None:
    wants = ReportRequests()
    for at in range(1, 1001):
        wants.add(replace(HERE, first=at))
    assert [w.count for w in wants] == [1000]
    for other in (
        replace(FAR, first=1, number=11),
        replace(FAR, first=3, number=13, message=23),
        replace(FAR, first=5, number=16, message=25),
        replace(FAR, first=7, number=18, message=99),
        replace(FAR, first=9, stream=8, number=20, message=101),
        replace(FAR, first=11, stream=8, number=22, message=103, confirm_by=100),
        replace(
            FAR, first=13, stream=8, number=24, message=105, confirm_by=100, dead_letter_queue=17
        ),
    ):
        wants.add(replace(other, first=other.first + 1000))
    assert [w.count for w in wants] == [1000, 4, 2, 2, 2, 2, 2]


def test_what_is_gone_takes_no_room() -> None:
    wants = ReportRequests()
    for at in range(3 * COMPACT_AT):
        wants.add(replace(HERE, first=2 * at + 1))
        wants.forget_before(2 * at)
    assert len(wants._items) <= COMPACT_AT + 1
    assert len(list(wants)) == 1
