"""Records: what is written is what is read, and nonsense is refused."""

from __future__ import annotations

import contextlib
import re
from array import array
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.core.state.branch_table import (
    Marks,
    PreparedBranch,
    StoredPackets,
    decode_branch,
    decode_marks,
)
from onceq.core.state.client_memory import Read
from onceq.core.state.job_table import Failed, JobMark
from onceq.core.state.records import (
    Advance,
    Change,
    Op,
    Put,
    RangeChange,
    Relocated,
    RestOf,
    SeenIdentifiers,
    decode,
)
from onceq.core.state.setups import KINDS, OutgoingOpened, Paused
from onceq.errors import DamagedRecord, NewerFormat, OnceqError
from onceq.model.branches import Phase, Xid
from onceq.model.identity import TransactionId
from onceq.model.run import Run

PAGE = Path(__file__).resolve().parents[4] / "docs/reference/formats/records.md"
u32 = st.integers(0, 0xFFFF_FFFF)
u64 = st.integers(0, (1 << 64) - 1)
guid = st.binary(min_size=16, max_size=16)
key = st.text(max_size=30)
runs = st.lists(st.binary(max_size=40), max_size=5).map(Run.of)
byte = st.integers(0, 255)
u16 = st.integers(0, 0xFFFF)
copies_to = st.lists(st.tuples(u32, byte, u16), max_size=4).map(tuple)
moves = st.builds(
    RangeChange, st.sampled_from(Op).map(int), u32, byte, u64, u32, u16, u32, byte, copies_to, u16
)
flags = st.integers(0, 0x1FFF)
dues = st.just(0) | u32
puts = st.builds(
    Put, u32, byte, u64, runs, u64, u32, u32, u32, flags, u16, u32, guid, u32, due=dues
)
lengths = st.lists(st.integers(1, 40), min_size=1, max_size=5).map(lambda n: array("I", n))
taken = st.builds(
    Put, u32, byte, u64, lengths.map(lambda found: Run(b"", found)), u64, u32, u32, u32, flags, u16,
    u32, guid, u32, st.integers(1, (1 << 64) - 1), due=dues,
)  # fmt: skip
"""Of packets that a branch has laid."""
advances = st.builds(Advance, guid, key, u64, u32, u32, st.just(0) | u32)
tables = st.lists(u32, max_size=5).map(lambda n: array("I", n))
seens = st.builds(SeenIdentifiers, guid, key, tables, st.just(0) | u32)
moveds = runs.flatmap(
    lambda run: st.builds(Relocated, u32, byte, st.just(array("Q", range(len(run)))), st.just(run))
)
hands = st.sampled_from([None, Phase.COMMITTED, Phase.ROLLED_BACK])
marks = st.builds(
    Marks, u32, hands, st.binary(max_size=64), st.lists(st.text(max_size=9), max_size=3).map(tuple)
)
xids = st.builds(
    Xid, st.integers(0, 0x7FFF_FFFF), st.binary(min_size=1, max_size=64), st.binary(max_size=64)
)
sends = st.dictionaries(key.filter(lambda name: name != "properties"), u32)
"""What a prepare notes of a batch; of its properties it is known what they look like."""
branches = st.builds(
    PreparedBranch, u32, xids, u32, st.lists(sends, max_size=3),
    st.lists(st.lists(u32, max_size=9), max_size=3), st.lists(runs, max_size=3),
    by_hand=hands,
)  # fmt: skip


def laid_of(found: array[int]) -> st.SearchStrategy[StoredPackets]:
    size = sum(found)
    data = st.binary(min_size=size, max_size=size)
    return st.builds(StoredPackets, st.just(found), st.just(size), data=data)


laid = lengths.flatmap(laid_of)
laying = st.builds(
    PreparedBranch, u32, xids, u32, st.lists(sends, max_size=3), st.just([]),
    laid=st.lists(laid, min_size=1, max_size=3), next_message=u32, next_transaction=u32,
)  # fmt: skip
changes = st.builds(
    Change, u32,
    st.none() | st.builds(TransactionId, guid, st.integers(1, (1 << 64) - 1)),
    u32, u32, u32,
    st.lists(moves, max_size=4), st.lists(puts, max_size=3), st.lists(advances, max_size=3),
    st.lists(seens, max_size=3),
    st.lists(st.tuples(st.integers(0, (1 << 64) - 1), u32), max_size=3),
    st.lists(moveds, max_size=2), st.none() | marks,
)  # fmt: skip


@given(changes)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_changes_round_trip(change: Change) -> None:
    raw, offsets = change.encode()
    found = decode(memoryview(raw), 0)
    assert isinstance(found, tuple)
    again, places = found
    assert places == offsets
    assert again == change
    carriers: list[Put | Relocated] = [*again.puts, *again.moved]
    for carrier, place in zip(carriers, places, strict=True):
        data = bytes(carrier.packets.data)
        assert raw[place : place + len(data)] == data


@given(changes, st.data())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_cut_or_longer_record_is_refused(change: Change, data: st.DataObject) -> None:
    raw = change.encode()[0]
    cut = data.draw(st.integers(0, len(raw) - 1))
    for wrong in (raw[:cut], raw + b"\0"):
        with pytest.raises(DamagedRecord):
            decode(memoryview(wrong), 0)


@given(branches, st.data())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_branches_round_trip_and_are_refused_when_cut(
    branch: PreparedBranch, data: st.DataObject
) -> None:
    raw = b"".join(map(bytes, branch.encode()))
    assert decode(memoryview(raw), 0) == branch
    cut = data.draw(st.integers(0, len(raw) - 1))
    for wrong in (raw[:cut], raw + b"\0"):
        with pytest.raises(DamagedRecord):
            decode(memoryview(wrong), 0)


@given(changes, st.lists(taken, min_size=1, max_size=3), marks)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_what_takes_over_laid_packets_says_where_they_lie(
    change: Change, puts: list[Put], marks: Marks
) -> None:
    change.puts += puts
    change.marks = marks
    raw = change.encode()[0]
    assert raw[1] >= 2, "nobody may read it who does not know of this"
    found = decode(memoryview(raw), 0)
    assert isinstance(found, tuple)
    assert found[0] == change
    with pytest.raises(DamagedRecord):
        decode(memoryview(raw[:-1]), 0)


@given(changes, lengths, st.integers(1, 60), st.integers(0, 20), flags, marks | st.none())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_packets_of_which_only_the_fronts_come_say_where_the_rests_are(
    change: Change, rests: array[int], front: int, rest: int, flags: int, marks: Marks | None
) -> None:
    def put(size: int, of: RestOf | None, extra: int) -> Put:
        told = array("I", [size + extra for size in rests])
        written = sum(told) if of is None else front * len(rests)
        return Put(20, 0, 1, Run(b"x" * written, told), flags=flags, rest_of=of)

    change.marks = marks
    whole = len(change.puts)
    change.puts.append(put(0, None, rest))
    change.puts.append(put(0, RestOf(whole, front, rest), front))
    raw, offsets = change.encode()
    assert raw[len(raw) - len(b"".join(bytes(m.packets.data) for m in change.moved)) - 1] == ord(
        "x"
    )
    assert raw[1] == (7 if any(p.due for p in change.puts) else 5), "nobody may read it unaware"
    assert offsets[whole] > 0
    found = decode(memoryview(raw), 0)
    assert isinstance(found, tuple)
    assert found == (change, offsets)
    with pytest.raises(DamagedRecord):
        decode(memoryview(raw[:-1]), 0)
    for wrong in (RestOf(whole + 1, front, rest), RestOf(whole, front + 1, rest)):
        change.puts[-1].rest_of = wrong
        with pytest.raises(DamagedRecord):
            decode(memoryview(change.encode()[0]), 0)


@given(laying, st.integers(1, 1 << 60), st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_laid_packets_are_found_in_the_record_and_from_a_checkpoint(
    branch: PreparedBranch, address: int, data: st.DataObject
) -> None:
    contents = [bytes(one.data) for one in branch.laid]
    raw, head = branch.record(address)
    assert raw[1] == 4
    assert raw[head or len(raw) :] == b"".join(contents), "and nothing else lies behind the head"
    for one, content in zip(branch.laid, contents, strict=True):
        at = one.address - address
        assert (raw[at : at + one.size], one.data) == (content, b"")
    assert decode(memoryview(raw), address) == branch
    kept = b"".join(map(bytes, branch.encode()))
    assert decode_branch(memoryview(kept)) == branch, "which says where they lie, and not what"
    for whole, place in ((raw, address), (kept, 0)):
        cut = data.draw(st.integers(0, len(whole) - 1))
        for wrong in (whole[:cut], whole + b"\0"):
            with pytest.raises(DamagedRecord):
                decode_branch(memoryview(wrong), place)


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for start in (
        b"",
        b"\x01\x01",
        b"\x01\x05",
        b"\x02\x01",
        b"\x03\x01",
        b"\x03\x02",
        b"\x03\x04",
        b"\x04\x01",
        b"\x04\x02",
    ):
        with contextlib.suppress(OnceqError):
            assert decode(memoryview(start + raw), 0) is not None


def test_a_newer_version_is_named() -> None:
    with pytest.raises(NewerFormat):
        decode(memoryview(b"\x01\x0a" + bytes(100)), 0)


def test_who_has_read_stands_in_the_marks() -> None:
    """The bytes are those of the page; a reader's words may be any text."""
    read = Read(16, "orders", "q1", 504_403_158_265_495_553, "a stream")
    change = Change(1_700_000_000, marks=Marks(reads=(read,)))
    change.moves.append(RangeChange(Op.REMOVE, 16, 0, 5, 2))
    raw, _ = change.encode()
    assert b'[0,"","",[],[[16, "orders", "q1", 504403158265495553, "a stream"]]]' in raw
    assert raw[:2] == b"\x04\x06", "older versions say that it is newer, and not that it is damaged"
    assert decode(memoryview(raw), 0) == (change, [])
    odd = replace(read, reader='\u00e9"]', who="\n")
    marks = Marks(3, None, b"g", ("db",), (read, odd))
    assert decode_marks(marks.encode()) == marks
    assert decode_marks(b'[0,"","",[]]') == Marks(), "as older versions wrote it"
    with pytest.raises(DamagedRecord):
        decode_marks(b'[0,"","",[],[[16]]]')


def test_whose_a_decision_is_stands_in_the_marks() -> None:
    change = Change(1_700_000_000, marks=Marks(gtrid=b"g", partners=("db",), by="account:\u00e9"))
    raw, _ = change.encode()
    assert b'[0,"","67",["db"],[],"account:\\u00e9"]' in raw
    assert raw[:2] == b"\x04\x06", "older versions say that it is newer, and not that it is damaged"
    assert decode(memoryview(raw), 0) == (change, [])
    read = Read(16, "orders", "q1", 504_403_158_265_495_553, "a stream")
    both = Marks(gtrid=b"g", reads=(read,), by="token:x")
    assert decode_marks(both.encode()) == both
    with pytest.raises(DamagedRecord):
        decode_marks(b'[0,"","67",[],[],7]')


def test_what_a_batch_of_a_job_has_done_stands_in_the_marks() -> None:
    """The bytes are those of the page."""
    failed = Failed(0, 504_403_158_265_495_554, "g/1", "queue-not-found", "there is none")
    mark = JobMark(
        3, 0, 504_403_158_265_495_560, 8, 2, 1, 1, kept=(("in doubt", 4),), failures=(failed,)
    )
    change = Change(1_700_000_000, marks=Marks(job=mark))
    change.moves.append(RangeChange(Op.REMOVE, 16, 0, 5, 2))
    raw, _ = change.encode()
    assert (
        b'[0,"","",[],[],"",[3, 0, 504403158265495560, 8, 2, 1, 1, 0, 0, [["in doubt", 4]], '
        b'[[0, 504403158265495554, "g/1", "queue-not-found", "there is none"]]]]'
    ) in raw
    assert raw[:2] == b"\x04\x08", "older versions say that it is newer, and not that it is damaged"
    assert decode(memoryview(raw), 0) == (change, [])
    over = Marks(gtrid=b"g", by="token:x", job=replace(mark, over=True, more=True))
    assert decode_marks(over.encode()) == over
    for bad in (b"[]", b"7", b'["3",0,0,0,0,0,0,0,0,[],[]]', b"[3,0,0,0,0,0,0,0,0,[[1]],[]]"):
        with pytest.raises(DamagedRecord):
            decode_marks(b'[0,"","",[],[],"",' + bad + b"]")


def test_who_has_promised_a_branch_stands_in_its_record() -> None:
    branch = PreparedBranch(18, Xid(7, b"global", b"b"), 1_700_000_000, [], [], by="token:x")
    raw = b"".join(map(bytes, branch.encode()))
    assert decode(memoryview(raw), 0) == branch
    without = decode(memoryview(b"".join(map(bytes, replace(branch, by="").encode()))), 0)
    assert isinstance(without, PreparedBranch)
    assert without.by == "", "of older versions"


def test_setups_round_trip() -> None:
    setup = Paused(number=17, since_s=1_700_000_000)
    assert decode(memoryview(setup.encode()), 0) == setup
    assert setup.encode()[:2] == b"\x02\x01"


def test_the_worked_bytes_of_the_documentation() -> None:
    (block,) = re.findall(r"```hex\n(.*?)```", PAGE.read_text(), re.S)
    raw = bytes.fromhex(block)
    found = decode(memoryview(raw), 0)
    assert isinstance(found, tuple)
    change, (place,) = found
    assert change.wall_s == 1_700_000_000
    assert change.outcome == TransactionId(bytes(range(16)), 7)
    assert change.moves == [RangeChange(Op.REMOVE, 16, 0, 5, 2)]
    (put,) = change.puts
    assert (put.queue, put.lane, put.number, list(put.packets.lengths)) == (17, 8, 1, [10, 10])
    assert raw[place:] == b"<packet 1><packet 2>"
    assert change.encode()[0] == raw


def test_the_worked_bytes_of_a_branch_and_of_marks() -> None:
    (block,) = re.findall(r"```bytes\n(.*?)```", PAGE.read_text(), re.S)
    branch = PreparedBranch(
        18, Xid(7, b"global", b"branch"), 1_700_000_000, [], [[2, 16, 0, 5, 1, 0, 0, 0, [], False]]
    )
    assert decode(memoryview(bytes.fromhex(block)), 0) == branch
    assert b"".join(map(bytes, branch.encode())) == bytes.fromhex(block)
    assert Marks(18).encode().hex(" ") in PAGE.read_text()


def test_every_verb_is_documented_with_its_values() -> None:
    section = PAGE.read_text().split("## Setup")[1].split("\n## ")[0]
    joined = section.replace("\n  ", " ")
    rows = dict(re.findall(r"^\* `([a-z-]+)`: (.*)$", joined, re.M))
    assert set(KINDS) == set(rows)
    for verb, kind in KINDS.items():
        names = {field.name for field in fields(cast(Any, kind))} - {
            "properties"
        }  # all of a queue's
        assert names <= set(re.findall(r"`(\w+)`", rows[verb])), verb


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'["pause",{"number":17}]', "since_s"),
        (b'["bound",{"name":"os:b","guid":"xyz","since_s":1}]', "hexadecimal"),
        (b'["nonsense",{}]', "unknown purpose"),
        (b'["pause"]', "without verb and values"),
        (b"{", "not JSON"),
    ],
)
def test_a_setup_that_makes_no_sense_is_named(raw: bytes, why: str) -> None:
    with pytest.raises(DamagedRecord, match=why):
        decode(memoryview(b"\x02\x01" + raw), 0)


def test_a_setup_of_another_version_is_read() -> None:
    raw = b'["outgoing",{"number":9,"name":"DIRECT=OS:B\\\\q","later":true}]'
    assert decode(memoryview(b"\x02\x01" + raw), 0) == OutgoingOpened(9, r"DIRECT=OS:B\q")


def test_records_from_before_there_were_lives_are_read() -> None:
    old = Change(5, advances=[Advance(b"s" * 16, "q", 7, 3, 2)])
    old.seen.append(SeenIdentifiers(b"s" * 16, "q", array("I", [1, 2])))
    raw = memoryview(old.encode()[0])
    assert raw[1] == 1
    assert decode(raw, 0) == (old, [])
    old.advances[0].message = 9
    assert old.encode()[0][1] == 3


def test_a_refusal_of_no_stream_is_damage() -> None:
    raw = Change(5, refused=[(7, 1)]).encode()[0].replace(b"refused:0", b"refused:x")
    with pytest.raises(DamagedRecord, match="makes no sense"):
        decode(memoryview(raw), 0)


def test_refusals_of_an_earlier_version_stay_identifiers() -> None:
    """It kept them among the identifiers of messages; nothing is done with these any more."""
    old = Change(5, seen=[SeenIdentifiers(b"A" * 16, "refused:0000000000000007", array("I", [1]))])
    assert decode(memoryview(old.encode()[0]), 0) == (old, [])


@pytest.mark.parametrize(
    ("marks", "text"),
    [
        (Marks(7, partners=("postgresql:1/shop",)), b'[7,"","",["postgresql:1/shop"]]'),
        (
            Marks(0, gtrid=b"g\xff", partners=('a"\\b', "\xfc")),
            b'[0,"","67ff",["a\\"\\\\b","\\u00fc"]]',
        ),
        (Marks(7, Phase.ROLLED_BACK), b'[7,"ROLLED_BACK","",[]]'),
    ],
)
def test_marks_are_written_as_json(marks: Marks, text: bytes) -> None:
    assert marks.encode() == text
    assert decode_marks(text) == marks
