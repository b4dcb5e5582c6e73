"""A directory in a file: what is written is read, what is wrong is named, and nothing is lost."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onceq.directory import FileDirectory, create
from onceq.directory.file import dump, parse
from onceq.errors import DirectoryError
from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot
from onceq.model.limits import DIRECTORY_BYTES_MAX

ALPHA = Computer("ALPHA", b"A" * 16, ("10.0.0.1",), {16: "orders"}, "10.0.0.1:1801")
STOCK = PublicQueue(b"S" * 16, "ALPHA", "stock", True, "what is there")
BETA = Computer("BETA", b"B" * 16)
LIST = DistributionList(b"L" * 16, "all", (r"DIRECT=OS:B\private$\q",))


@pytest.fixture
def path(tmp_path: Path) -> str:
    where = str(tmp_path / "directory.json")
    create(where)
    return where


def said(path: str) -> Snapshot:
    seen = FileDirectory(path).look()
    assert not seen.trouble
    assert seen.snapshot is not None
    return seen.snapshot


def test_what_is_registered_is_read_by_others(path: str) -> None:
    one, other = FileDirectory(path), FileDirectory(path)
    assert other.look().snapshot is not None
    one.register(ALPHA, [STOCK])
    one.put_list(LIST, None)
    found = other.look().snapshot
    assert found is not None
    assert found.computers == (ALPHA,)
    assert dict(found.queues) == {STOCK.guid: STOCK}
    assert dict(found.lists) == {LIST.guid: LIST}
    assert other.look().snapshot is found, "it is not read again before it changes"


def test_a_computer_takes_the_place_of_what_it_said_before(path: str) -> None:
    names = FileDirectory(path)
    names.register(ALPHA, [STOCK])
    names.register(BETA, [PublicQueue(b"T" * 16, "BETA", "t")])
    names.register(ALPHA, [])
    assert [queue.computer for queue in said(path).queues.values()] == ["BETA"]
    assert {one.name for one in said(path).computers} == {"ALPHA", "BETA"}
    stamp = os.stat(path).st_ino
    names.register(ALPHA, [])
    assert os.stat(path).st_ino == stamp, "nothing new, nothing written"


def test_two_managers_of_one_name_are_refused(path: str) -> None:
    FileDirectory(path).register(ALPHA, [])
    with pytest.raises(DirectoryError, match="another queue manager called ALPHA"):
        FileDirectory(path).register(Computer("alpha", b"X" * 16), [])
    assert said(path).computers == (ALPHA,)


def test_a_queue_of_another_computer_is_not_taken_over(path: str) -> None:
    FileDirectory(path).register(ALPHA, [STOCK])
    with pytest.raises(DirectoryError, match=r"has ALPHA\\stock under the GUID"):
        FileDirectory(path).register(BETA, [replace(STOCK, computer="BETA")])
    assert said(path).queues[STOCK.guid] == STOCK


def test_a_manager_that_calls_itself_in_another_way_has_one_entry(path: str) -> None:
    FileDirectory(path).register(replace(ALPHA, name="LOCALHOST"), [STOCK])
    FileDirectory(path).register(ALPHA, [STOCK])
    assert said(path).computers == (ALPHA,)


def test_no_name_that_each_computer_has_leads_to_one() -> None:
    found = Snapshot([replace(ALPHA, name="LOCALHOST", addresses=("10.0.0.1", "."))])
    assert found.computer("10.0.0.1") is not None
    assert found.computer("localhost") is None
    assert found.computer(".") is None


def test_a_list_that_somebody_else_has_changed_is_not_overwritten(path: str) -> None:
    names = FileDirectory(path)
    names.put_list(LIST, None)
    more = DistributionList(LIST.guid, "all", (*LIST.members, r"DIRECT=OS:C\private$\q"))
    names.put_list(more, LIST)
    with pytest.raises(DirectoryError, match="somebody else"):
        names.put_list(DistributionList(LIST.guid, "all"), LIST)
    with pytest.raises(DirectoryError, match="somebody else"):
        names.put_list(DistributionList(b"M" * 16, "ALL"), None)
    names.put_list(None, more)
    assert not said(path).lists


def test_writers_at_once_lose_nothing(path: str) -> None:
    def write(which: int) -> None:
        names = FileDirectory(path)
        for index in range(5):
            guid = b"%02d%02d" % (which, index) + bytes(12)
            names.put_list(DistributionList(guid, f"list-{which}-{index}"), None)
        names.register(Computer(f"M{which}", b"%02d" % which + bytes(14)), [])

    threads = [threading.Thread(target=write, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said(path).lists) == 20
    assert len(said(path).computers) == 4


def test_a_half_written_successor_does_not_count(path: str) -> None:
    """A crash while writing: the old file is there, and the rest is written over."""
    FileDirectory(path).register(ALPHA, [STOCK])
    Path(path + ".new").write_bytes(b'{"onceq_dir')
    assert said(path).computers == (ALPHA,)
    FileDirectory(path).put_list(LIST, None)
    assert said(path).lists


def test_a_directory_that_goes_and_comes_back(path: str) -> None:
    FileDirectory(path).register(ALPHA, [])
    names = FileDirectory(path)
    known = names.look().snapshot
    os.rename(path, path + ".away")
    gone = names.look()
    assert "directory init" in gone.trouble
    assert gone.snapshot is known, "what was read last is still known"
    assert names.look() is gone
    with pytest.raises(DirectoryError, match="cannot be changed"):
        names.register(ALPHA, [STOCK])
    os.rename(path + ".away", path)
    assert not names.look().trouble


def test_nothing_is_made_over_what_is_there(path: str, tmp_path: Path) -> None:
    with pytest.raises(DirectoryError, match="there already"):
        create(path)
    with pytest.raises(DirectoryError, match="cannot be made"):
        create(str(tmp_path / "none" / "directory.json"))


GOOD: dict[str, Any] = json.loads(dump(Snapshot([ALPHA], [STOCK], [LIST])))


def wrong(table: str, **changes: object) -> dict[str, Any]:
    entry = {**GOOD[table][0], **changes}
    return {**GOOD, table: [entry]}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([], "not a directory"),
        ({}, "not a directory"),
        ({"onceq_directory": 2}, "format 2"),
        ({**GOOD, "more": 1}, "more"),
        (wrong("computers", name=""), r"computers\[0\]"),
        (wrong("computers", guid="12"), "not a GUID"),
        (wrong("computers", private={"123456789": "q"}), "not the number"),
        (wrong("computers", private={"xyz": "q"}), r"computers\[0\]"),
        (wrong("computers", addresses=["a\nb"]), "printable"),
        (wrong("queues", name="q" * 200), "1 to 124"),
        (wrong("queues", label="l" * 200), "label"),
        (wrong("queues", transactional=1), "transactional"),
        (wrong("lists", members=[r"DIRECT=OS:B\private$\q;JOURNAL"]), r"lists\[0\] \('all'\)"),
        (wrong("lists", members=["nonsense"]), r"lists\[0\]"),
        (wrong("lists", name="\u00fc"), "ASCII"),
        ({**GOOD, "lists": GOOD["lists"] * 2}, "twice"),
        ({**GOOD, "computers": GOOD["computers"] * 2}, "twice"),
        ({**GOOD, "queues": GOOD["queues"] * 2}, "twice"),
    ],
)
def test_what_is_wrong_is_named(content: object, text: str, path: str) -> None:
    names = FileDirectory(path)
    known = names.look().snapshot
    Path(path).write_text(json.dumps(content))
    seen = names.look()
    assert seen.trouble.startswith(path)
    with pytest.raises(DirectoryError, match=text):
        parse(json.dumps(content).encode())
    assert seen.snapshot is known
    with pytest.raises(DirectoryError):
        names.register(ALPHA, [])
    assert json.loads(Path(path).read_text()) == content, "what people wrote is not overwritten"


def test_a_file_without_end_is_not_read(path: str) -> None:
    with open(path, "r+b") as file:
        file.truncate(DIRECTORY_BYTES_MAX + 1)
    assert "MiB" in FileDirectory(path).look().trouble


def test_a_folder_is_no_directory(tmp_path: Path) -> None:
    assert "is a directory" in FileDirectory(str(tmp_path)).look().trouble


def test_written_and_read_are_the_same() -> None:
    snapshot = Snapshot([ALPHA, Computer("BETA")], [STOCK], [LIST])
    again = parse(dump(snapshot))
    assert dump(again) == dump(snapshot)
    assert again.computer("10.0.0.1") == ALPHA
