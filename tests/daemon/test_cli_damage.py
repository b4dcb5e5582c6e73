"""Damage on the command line: a flipped byte is named, set aside, and the rest is received."""

from __future__ import annotations

from pathlib import Path

import pytest

import onceq
from onceq.embedded import data_directory
from tests.daemon.shell import Shell

ROW = b"here stands a row"


def _flip(directory: Path, wanted: bytes) -> None:
    for path in sorted(directory.glob("log-*.seg")):
        data = bytearray(path.read_bytes())
        place = data.find(wanted)
        if place >= 0:
            data[place + 3] ^= 1
            path.write_bytes(data)
            return
    pytest.fail("no such bytes are stored")


@pytest.mark.slow
def test_scrub_list_and_drop(tmp_path: Path) -> None:
    where = tmp_path / "alpha"
    bodies = [ROW + b"%04d" % n * 200 for n in range(40)]
    with onceq.open(str(where), name="ALPHA", create=True) as qm:
        qm.create_queue(r"private$\q", transactional=True)
        with qm.transaction() as tx:
            tx.send_many(r"private$\q", bodies)
    _flip(where, bodies[20])
    report = data_directory.check(str(where))
    assert not report.refused
    assert len(report.damaged) == 1
    with onceq.open(str(where)) as qm:
        qm.admin.scrub(1 << 30)
        while qm.admin.scrub_status()["running"]:
            qm.admin.status()
        assert qm.admin.scrub_status()["damaged"] == 1
        (entry,) = qm.admin.damages()
        assert entry["queue"] == r"private$\q"
        assert qm.admin.status()["damaged_messages"] == entry["count"]
        with qm.transaction() as tx:
            got = [m.body for m in tx.receive_many(r"private$\q", 40, timeout=0)]
        assert len(got) + entry.count == len(bodies)
        assert set(got) < set(bodies)
        assert qm.admin.drop_damaged(entry.number) == entry.count
        assert qm.admin.damages() == []


@pytest.mark.slow
def test_the_command_line(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/sound", "--transactional")
    onceq_("send", "private$/sound", "one")
    assert "0 damaged places" in onceq_("qm", "scrub", "--rate", "1000")
    done = onceq_.json("qm", "scrub", "--stop")
    assert isinstance(done, dict)
    assert not done["running"]
    assert onceq_.json("damage", "list") == []
    onceq_("damage", "drop", "7", code=2)
    assert "has the number 7" in onceq_.error
    onceq_("damage", "drop", code=2)
    assert "--all" in onceq_.error
    assert "0 damaged messages would be" in onceq_("damage", "drop", "--all", "--dry-run")
    onceq_("queue", "purge", "private$/sound", "--yes")
