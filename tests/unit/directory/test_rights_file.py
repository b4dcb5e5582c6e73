"""The rights beside a directory: what is written is read, what is wrong is named, and an older copy
does not come back by a change."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onceq.directory import FileDirectory, MemoryDirectory, create
from onceq.directory.rights_file import dump, parse
from onceq.errors import DirectoryError
from onceq.model.limits import SHARED_GRANTS_MAX, SHARED_RIGHTS_BYTES_MAX, SHARED_RIGHTS_NUMBER_MAX
from onceq.model.rights import NO_RIGHTS, Grant, Regrant, SharedRights, grant_of

ID = b"I" * 16
CARL = grant_of("certificate:carl", ["send", "peek"], "private$\\orders*")
PEERS = grant_of("peer:*", ["send"], "*")


@pytest.fixture
def path(tmp_path: Path) -> str:
    where = str(tmp_path / "directory.json")
    create(where)
    return where


def change(
    grant: Grant, known: SharedRights = NO_RIGHTS, *, take: bool = False, id: bytes = ID
) -> Regrant:
    return Regrant(grant, take, known, id)


def said(path: str) -> SharedRights:
    seen = FileDirectory(path).look_rights()
    assert not seen.trouble
    assert seen.book is not None
    return seen.book


def test_a_new_directory_gives_no_rights_and_says_so(path: str, tmp_path: Path) -> None:
    book = said(path)
    assert book.id
    assert (book.number, book.grants) == (1, ())
    create(str(tmp_path / "another"))
    assert said(str(tmp_path / "another")).id != book.id


def test_what_is_given_is_read_by_others(path: str) -> None:
    one, other = FileDirectory(path), FileDirectory(path)
    before = other.look_rights()
    assert other.look_rights() is before, "it is not read again before it changes"
    one.put_rights(change(CARL))
    one.put_rights(change(grant_of("certificate:carl", ["receive"], "private$\\orders*")))
    one.put_rights(change(PEERS))
    found = other.look_rights().book
    assert found is not None
    all_of_it = CARL.rights | grant_of("*", ["receive"], "*").rights
    assert found.grants == (replace(CARL, rights=all_of_it), PEERS)
    assert found.number == 4
    one.put_rights(change(PEERS, take=True))
    one.put_rights(change(CARL, take=True))
    (left,) = said(path).grants
    assert left.rights == all_of_it - CARL.rights


def test_what_changes_nothing_is_not_written(path: str) -> None:
    names = FileDirectory(path)
    names.put_rights(change(CARL))
    stamp = os.stat(path + ".rights").st_ino
    names.put_rights(change(grant_of("certificate:carl", ["peek"], "private$\\orders*")))
    names.put_rights(change(PEERS, take=True))
    assert os.stat(path + ".rights").st_ino == stamp
    assert said(path).number == 2


def test_a_directory_of_before_begins_with_the_first_right(path: str) -> None:
    os.unlink(path + ".rights")
    names = FileDirectory(path)
    assert (names.look_rights().book, names.look_rights().trouble) == (None, "")
    names.put_rights(change(CARL, take=True))
    assert not os.path.exists(path + ".rights"), "nothing to take, nothing to begin"
    names.put_rights(change(CARL))
    assert said(path) == SharedRights(ID, 1, (CARL,))


def test_rights_that_are_lost_are_written_again_by_who_knows_them(path: str) -> None:
    names = FileDirectory(path)
    names.put_rights(change(CARL))
    known = said(path)
    os.unlink(path + ".rights")
    names.put_rights(change(PEERS, known, id=b"X" * 16))
    assert said(path) == SharedRights(known.id, known.number + 1, (CARL, PEERS))


def test_an_older_copy_is_put_right_by_who_knows_better(path: str) -> None:
    names = FileDirectory(path)
    names.put_rights(change(CARL))
    copy = Path(path + ".rights").read_bytes()
    names.put_rights(change(PEERS))
    names.put_rights(change(CARL, take=True))
    known = said(path)
    Path(path + ".rights").write_bytes(copy)
    names.put_rights(change(PEERS, known))
    assert said(path) == SharedRights(known.id, known.number + 1, (PEERS,)), "carl is not back"


def test_who_knows_less_does_not_undo_what_others_did(path: str) -> None:
    names = FileDirectory(path)
    old = said(path)
    names.put_rights(change(CARL))
    names.put_rights(change(PEERS, old))
    assert said(path).grants == (CARL, PEERS)
    names.put_rights(change(PEERS, SharedRights(b"Z" * 16, 99), take=True))
    assert said(path).grants == (CARL,), "another book says nothing of this one"


def test_writers_at_once_lose_nothing(path: str) -> None:
    def write(which: int) -> None:
        names = FileDirectory(path)
        for index in range(5):
            names.put_rights(change(grant_of(f"certificate:c{which}{index}", ["send"], "*")))

    threads = [threading.Thread(target=write, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said(path).grants) == 20
    assert said(path).number == 21


def test_a_half_written_successor_does_not_count(path: str) -> None:
    FileDirectory(path).put_rights(change(CARL))
    Path(path + ".rights.new").write_bytes(b'{"onceq_ri')
    os.chmod(path + ".rights.new", 0o400)
    assert said(path).grants == (CARL,)
    FileDirectory(path).put_rights(change(PEERS))
    assert said(path).grants == (CARL, PEERS)
    assert not os.path.exists(path + ".rights.new")


def test_where_the_disk_is_away_nothing_begins(path: str) -> None:
    """An empty folder is what is left where a disk was mounted."""
    os.unlink(path)
    os.unlink(path + ".rights")
    with pytest.raises(DirectoryError, match="cannot be changed"):
        FileDirectory(path).put_rights(change(CARL))
    assert not os.path.exists(path + ".rights")


@pytest.mark.parametrize("which", [".rights", "folder"])
def test_what_everybody_can_change_is_not_read_nor_written_again(which: str, path: str) -> None:
    names = FileDirectory(path)
    names.put_rights(change(CARL))
    known = names.look_rights()
    target = os.path.dirname(path) if which == "folder" else path + which
    mode = os.stat(target).st_mode
    os.chmod(target, mode | 0o002)
    seen = names.look_rights()
    assert seen.book is None
    assert "chmod o-w" in seen.trouble
    with pytest.raises(DirectoryError, match="chmod o-w"):
        names.put_rights(change(PEERS))
    os.chmod(target, mode & ~0o002)
    assert names.look_rights().book == known.book


def test_it_is_written_so_that_not_everybody_can_change_it(path: str) -> None:
    old = os.umask(0)
    try:
        FileDirectory(path).put_rights(change(CARL))
    finally:
        os.umask(old)
    assert os.stat(path + ".rights").st_mode & 0o777 == 0o664


GOOD: dict[str, Any] = json.loads(dump(SharedRights(ID, 7, (CARL, PEERS))))


def wrong(**changes: object) -> dict[str, Any]:
    return {**GOOD, "grants": [GOOD["grants"][0], {**GOOD["grants"][1], **changes}]}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([], "not a file of rights"),
        ({}, "not a file of rights"),
        ({**GOOD, "onceq_rights": 2}, "format 2"),
        ({**GOOD, "more": 1}, "more"),
        ({**GOOD, "id": "12"}, "id: .*GUID"),
        ({**GOOD, "number": 0}, "2\\^53"),
        ({**GOOD, "number": SHARED_RIGHTS_NUMBER_MAX + 1}, "2\\^53"),
        ({**GOOD, "number": "7"}, "number"),
        (wrong(who=""), r"grants\[1\]"),
        (wrong(who="king:x"), r"grants\[1\]: 'king:x' cannot have rights"),
        (wrong(rights=[]), r"grants\[1\]: no right"),
        (wrong(rights=["fly"]), r"grants\[1\]: 'fly'"),
        (wrong(queues=""), r"grants\[1\]: send needs the name of a queue"),
        (wrong(rights=["monitor"]), r"grants\[1\]: monitor is about the whole"),
        (wrong(queues="q" * 600), r"grants\[1\]: a name or a pattern"),
        (wrong(who="certificate:carl", queues="PRIVATE$/orders*"), r"grants\[1\]: .* twice"),
        (wrong(more=1), "more"),
        ({**GOOD, "grants": [GOOD["grants"][0]] * (SHARED_GRANTS_MAX + 1)}, "more than 1,000"),
    ],
)
def test_what_is_wrong_is_named_and_not_overwritten(content: object, text: str, path: str) -> None:
    names = FileDirectory(path)
    Path(path + ".rights").write_text(json.dumps(content))
    seen = names.look_rights()
    assert seen.book is None
    assert seen.trouble.startswith(path + ".rights")
    assert names.look_rights() is seen
    with pytest.raises(DirectoryError, match=text):
        parse(json.dumps(content).encode())
    with pytest.raises(DirectoryError, match=text):
        names.put_rights(change(PEERS))
    assert json.loads(Path(path + ".rights").read_text()) == content
    assert not names.look().trouble, "names and lists go on"


def test_what_may_not_be_shared_is_no_reason_not_to_read_the_rest() -> None:
    """The core leaves it out: else one such grant would shut the file for everything else."""
    assert len(parse(json.dumps(wrong(who="alice", rights=["send"])).encode()).grants) == 2


def test_a_file_without_end_is_not_read(path: str) -> None:
    with open(path + ".rights", "r+b") as file:
        file.truncate(SHARED_RIGHTS_BYTES_MAX + 1)
    assert "MiB" in FileDirectory(path).look_rights().trouble


def test_as_many_as_there_may_be_with_the_longest_names_have_room() -> None:
    grants = tuple(
        grant_of(f"certificate:{at:04}{'é' * 124}", [*GOOD["grants"][0]["rights"], "receive"],
                 "€" * 256)
        for at in range(SHARED_GRANTS_MAX)
    )  # fmt: skip
    raw = dump(SharedRights(ID, 1, grants))
    assert len(raw) < SHARED_RIGHTS_BYTES_MAX
    assert len(parse(raw).grants) == SHARED_GRANTS_MAX


def test_there_are_only_so_many(path: str) -> None:
    names = FileDirectory(path)
    many = tuple(grant_of(f"certificate:c{at}", ["send"], "*") for at in range(SHARED_GRANTS_MAX))
    Path(path + ".rights").write_bytes(dump(SharedRights(ID, 7, many)))
    with pytest.raises(DirectoryError, match="use patterns"):
        names.put_rights(change(PEERS))
    names.put_rights(change(grant_of("certificate:c5", ["receive"], "*")))
    names.put_rights(change(many[3], take=True))
    names.put_rights(change(PEERS))
    assert len(said(path).grants) == SHARED_GRANTS_MAX


def test_after_the_last_number_another_book_begins(path: str) -> None:
    Path(path + ".rights").write_bytes(
        dump(SharedRights(b"L" * 16, SHARED_RIGHTS_NUMBER_MAX, (CARL,)))
    )
    FileDirectory(path).put_rights(change(PEERS))
    assert said(path) == SharedRights(ID, 1, (CARL, PEERS))


def test_written_and_read_are_the_same() -> None:
    book = SharedRights(ID, 7, (CARL, PEERS, grant_of("*", ["monitor"], "")))
    assert parse(dump(book)) == book


def test_in_memory_it_is_the_same() -> None:
    names = MemoryDirectory()
    assert (names.look_rights().book, names.look_rights().trouble) == (None, "")
    names.put_rights(change(CARL))
    assert names.look_rights().book == SharedRights(ID, 1, (CARL,))
    names.online(reachable=False)
    assert names.look_rights().trouble == "out of reach"
    with pytest.raises(DirectoryError):
        names.put_rights(change(PEERS))
    names.online(reachable=True)
    assert names.look_rights().book == SharedRights(ID, 1, (CARL,))
