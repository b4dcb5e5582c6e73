"""Acts are told outside: once each, in order, whatever dies; and what is lost is told."""

from __future__ import annotations

import json
import logging
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from onceq.core.state.audit_trail import Act, Trail
from onceq.core.state.setups import encode_rows
from onceq.errors import NoSpace, StorageFailure
from onceq.model.audit_trail import BEGIN, read_line, split_lines
from onceq.model.limits import TRAIL_MAX
from onceq.model.settings import Settings
from onceq.model.views.managers import ActView
from onceq.service import trail_files
from onceq.service.trail_files import RETRY_US, TrailExport
from onceq.store.files import RealFiles
from onceq.testing.disk import PowerCut, SimFiles

PLAIN = Settings(trail_syslog="")
PATH = "/qm"


def act(trail: Trail, about: str = "q", who: str = "a") -> int:
    """A record of an act is durable."""
    number = trail.next
    trail.note(Act(number, number, who, "local", "purge", about, "", trail.head or BEGIN))
    return number


def told(files: SimFiles) -> list[int | str]:
    """Numbers of the acts in the files, and notes."""
    found: list[int | str] = []
    folder = f"{PATH}/trail"
    for name in files.names(folder):
        file = files.open(f"{folder}/{name}", reading=True)
        for line in split_lines(files.read(file, 0, files.size(file)))[0]:
            said = read_line(line)
            assert said is not None
            found.append(said.number if isinstance(said, ActView) else said["note"])
    return found


def test_each_act_is_there_when_it_is_durable_and_once_after_a_restart() -> None:
    files, trail = SimFiles(), Trail()
    export = TrailExport(files, PATH, PLAIN)
    export.begin(trail, 0)
    assert files.names(f"{PATH}/trail") == []
    numbers = [act(trail, f"q{at}") for at in range(4)]
    export.tell(trail, numbers[1], 0)
    assert told(files) == numbers[:2], "the others are not durable yet"
    export.tell(trail, numbers[2], 0)
    again = TrailExport(files, PATH, PLAIN)
    again.begin(trail, 0)
    again.tell(trail, act(trail), 0)
    assert told(files) == [1, 2, 3, 4, 5]
    assert (again.trouble, again.lost) == ("", 0)


def test_a_disk_that_is_full_stops_nothing_and_what_waits_is_told_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, trail = SimFiles(), Trail()
    export = TrailExport(files, PATH, PLAIN)
    export.begin(trail, 0)
    full = True
    files.fail = lambda kind, number: NoSpace("full") if full and kind == "write" else None
    for _ in range(3):
        export.tell(trail, act(trail), 0)
    assert "full" in export.trouble
    assert export.due().timer_us == RETRY_US
    full = False
    export.work(RETRY_US - 1)
    assert told(files) == []
    export.work(RETRY_US)
    assert told(files) == [1, 2, 3]
    assert (export.trouble, export.lost) == ("", 0)
    lines = [record.getMessage() for record in caplog.records]
    assert ["cannot be told" in line for line in lines] == [True, False]
    assert "are told again" in lines[1]


def test_what_goes_before_it_was_told_is_counted_and_the_file_says_which() -> None:
    files, trail = SimFiles(), Trail()
    export = TrailExport(files, PATH, PLAIN)
    export.begin(trail, 0)
    export.tell(trail, act(trail), 0)
    files.fail = lambda kind, number: StorageFailure("broken") if kind == "write" else None
    for at in range(TRAIL_MAX + 5):
        act(trail, f"q{at}")
    export.tell(trail, trail.next - 1, 0)
    files.fail = lambda kind, number: None
    export.work(RETRY_US)
    found = told(files)
    assert found[:3] == [1, "missing", 7]
    assert found[-1] == trail.next - 1
    assert export.lost == 5


@pytest.mark.parametrize("file_bytes", [1, 600, 1 << 20])
def test_no_act_is_missing_nor_told_twice_wherever_the_power_goes(
    monkeypatch: pytest.MonkeyPatch, file_bytes: int
) -> None:
    monkeypatch.setattr(trail_files, "FILE_BYTES", file_bytes)
    for stop_at in range(1, 60):
        files, trail = SimFiles(), Trail()
        files.stop_at = stop_at
        export = TrailExport(files, PATH, replace(PLAIN, trail_file_bytes_max=100 * file_bytes))
        export.begin(trail, 0)
        try:
            for at in range(4):
                export.tell(trail, act(trail, "q" * (1 + 30 * (at % 2)) + str(at)), 0)
        except PowerCut:
            pass
        else:
            return
        for image in files.images(8):
            again = TrailExport(image, PATH, PLAIN)
            log = Trail()
            for one in trail:
                log.note(one._replace(digest=b"", times=1, last_s=0))
            again.begin(log, 0)
            again.tell(log, act(log, "last"), 0)
            found = [one for one in told(image) if one != "damaged"]
            assert found == list(range(1, log.next))
    raise AssertionError("there are more operations than were tried")


def test_the_oldest_file_goes_and_the_next_one_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trail_files, "FILE_BYTES", 400)
    files, trail = SimFiles(), Trail()
    export = TrailExport(files, PATH, replace(PLAIN, trail_file_bytes_max=1_200))
    export.begin(trail, 0)
    for at in range(20):
        export.tell(trail, act(trail, f"q{at}"), 0)
    found = told(files)
    assert len(files.names(f"{PATH}/trail")) == 3
    assert found[0] == "removed"
    numbers = [one for one in found if isinstance(one, int)]
    assert numbers == list(range(numbers[0], 21))
    assert "trail_file_bytes_max" in caplog.records[0].getMessage()
    assert caplog.records[0].levelno == logging.WARNING


def test_a_store_that_was_put_back_goes_on_behind_what_it_has() -> None:
    files, trail = SimFiles(), Trail()
    export = TrailExport(files, PATH, PLAIN)
    export.begin(trail, 0)
    for at in range(3):
        export.tell(trail, act(trail, f"q{at}"), 0)
    older = Trail()
    rows = json.loads(encode_rows(trail.dump()))
    older.load(rows[:2])
    older.load_chain([3, rows[1][8], 0])
    act(older, "restore")
    again = TrailExport(files, PATH, PLAIN)
    again.begin(older, 0)
    assert told(files) == [1, 2, 3, "fork", 3]
    again.tell(older, act(older), 0)
    assert told(files) == [1, 2, 3, "fork", 3, 4]


def test_a_file_that_was_taken_away_is_told_and_another_one_begins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, trail = SimFiles(), Trail()
    export = TrailExport(files, PATH, PLAIN)
    export.begin(trail, 0)
    export.tell(trail, act(trail), 0)
    files.unlink(f"{PATH}/trail/acts-00000001.jsonl")
    export.tell(trail, act(trail), 0)
    assert told(files) == [2]
    assert "was removed" in caplog.records[0].getMessage()


def test_syslog_is_told_each_act_and_what_it_may_have_is_marked(tmp_path: Path) -> None:
    where = str(tmp_path / "log")
    settings = Settings(trail_file=False, trail_syslog=where)
    trail = Trail()
    act(trail, "old")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(where)
        syslog.setblocking(False)
        export = TrailExport(RealFiles(), str(tmp_path), settings)
        export.begin(trail, 0)
        export.tell(trail, act(trail, "new"), 0)
        lines = [syslog.recv(4_096) for _ in range(2)]
        with pytest.raises(BlockingIOError):
            syslog.recv(1)
    assert [line.partition(b"{")[0] for line in lines] == [b"<85>onceq: "] * 2
    assert [line.endswith(b',"again":true}') for line in lines] == [True, False]
    assert [b'"about":"new"' in line for line in lines] == [False, True]
    os.unlink(where)
    export.tell(trail, act(trail), 0)
    assert export.trouble.startswith("trail_syslog: ")
    assert not (tmp_path / "trail").exists()
