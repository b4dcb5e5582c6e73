"""``onceq job``, and the commands that start one and follow it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq.cli import out
from onceq.errors import Refused
from onceq.model.letters import DEAD_XACT
from proof.nodes import Node, free_port
from tests import nursery
from tests.daemon.shell import ONCEQ, Shell

Q = "private$/q"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A queue manager as a process."""
    made = Node(tmp_path, "ALPHA", free_port(), {})
    made.start()
    yield made
    made.kill()


@pytest.fixture
def shell(node: Node, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Of a queue manager with three dead letters."""
    made = Shell(node.path, node.path, capsys)
    made("queue", "create", Q, "--transactional")
    made.pipe("send", Q, "--dead-letter", data=b"a\nb\nc\n")
    made("queue", "purge", Q, "--yes")
    return made


def test_a_command_starts_a_job_and_follows_it(shell: Shell) -> None:
    assert "3 dead letters would be sent as new" in shell("dead", "send-as-new", "--dry-run")
    assert "no jobs" in shell("job", "list")
    said = shell("dead", "return", "--limit", "2")
    assert "2 dead letters returned" in said
    assert "there are more; --limit 2 stopped it" in said
    assert "1 dead letter sent as new" in shell("dead", "send-as-new")
    assert shell.pipe("receive", Q, "-n", "3") == b"a\nb\nc\n"
    removed = json.loads(shell("dead", "purge", "--yes", "--json"))
    assert (removed["removed"], removed["state"], removed["number"]) == (1, "done", 3)
    listed = json.loads(shell("job", "list", "--json"))
    assert [one["action"] for one in listed] == ["return", "send-as-new", "purge"]
    assert "account:" in shell("job", "list")


def test_a_single_letter_is_a_job_too(shell: Shell) -> None:
    (first, *_) = json.loads(shell("dead", "list", "--json"))
    assert "1 dead letter returned" in shell("dead", "return", "--id", first["id"])
    assert "1 dead letter removed" in shell(
        "dead", "purge", "--yes", "--id", json.loads(shell("dead", "list", "--json"))[0]["id"]
    )
    listed = json.loads(shell("job", "list", "--json"))
    assert [(one["action"], one["done"]) for one in listed] == [("return", 1), ("purge", 1)]


def offered(*words: str) -> list[str]:
    """What the shell is told for the last word, by a process of its own."""
    told = {"_ONCEQ_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(("onceq", *words))}
    done = nursery.run(
        ONCEQ, capture_output=True, text=True, check=True, timeout=60,
        env=os.environ | told | {"COMP_CWORD": str(len(words))},
    )  # fmt: skip
    assert done.stderr == ""
    return [row.partition(",")[2] for row in done.stdout.splitlines()]


def test_several_letters_are_named_at_once_whole_or_short(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [one["id"] for one in json.loads(shell("dead", "list", "--json"))]
    monkeypatch.setattr(out, "width", lambda: 80)
    header, *rows = shell("dead", "list").splitlines()
    monkeypatch.undo()
    assert max(map(len, (header, *rows))) <= 80
    assert header.split() == ["reason", "message", "age", "returned", "destination", "label"]
    short = [row.split()[1] for row in rows]
    assert short == [f"{id[1:9]}/{id.rpartition(chr(92))[2]}" for id in whole]
    assert f"id     {whole[1]}".replace("\\", "/").split() == next(
        line.split() for line in shell("dead", "show", short[1]).splitlines() if line[:3] == "id "
    )
    said = shell("dead", "show", short[1])
    assert "nack-queue-purged (0xc001)" in said
    assert re.search(r"time_to_be_received +never\n", said)
    assert re.search(r"sent_time +20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\n", said)
    assert "4294967295" not in said
    assert "4294967295" in shell("dead", "show", short[1], "--json"), "programs get numbers"
    where = ["-q", str(shell.alpha)]
    assert offered(*where, "dead", "show", "") == short
    assert offered(*where, "dead", "return", "--id", short[2][:8]) == short
    assert offered(*where, "dead", "purge", "--id", "{") == [id.replace("\\", "/") for id in whole]
    two = ("--id", short[0], "--id", whole[1])
    assert "2 dead letters would be returned" in shell("dead", "return", *two, "--dry-run")
    assert shell("dead", "send-as-new", *two) == "2 dead letters sent as new\n"
    assert "1 dead letter removed" in shell("dead", "purge", "--yes", "--id", short[2])
    assert "2 dead letters returned" in shell("dead", "return", *two)
    assert "0 dead letters returned" in shell("dead", "return", *two)
    assert f"there is no message {short[0]} here" in shell.error
    assert shell.pipe("receive", Q, "-n", "4") == b"a\nb\na\nb\n"


def test_where_letters_were_going_is_said_when_they_go_elsewhere(shell: Shell) -> None:
    shell("queue", "create", "private$/other", "--transactional")
    said = shell("dead", "return", "--to", "private$/other", "--dry-run")
    assert "3 dead letters would be returned to private$/other" in said
    assert f"3 of them were for DIRECT=OS:./{Q}" in said
    id = json.loads(shell("dead", "list", "--json"))[0]["id"]
    told = shell.json("dead", "return", "--to", "private$/other", "--id", id)
    assert isinstance(told, dict)
    (count,) = told["were_for"].values()
    assert count == 1
    assert "2 dead letters returned" in shell("dead", "return", "--to", "private$/other")
    log = (shell.alpha / "log.txt").read_text()
    _, line = (one for one in log.splitlines() if "elsewhere than they were going" in one)
    assert "to=private$/other" in line
    assert line.endswith("count=2")


def test_what_failed_is_named_and_decides_the_exit_code(shell: Shell) -> None:
    shell("queue", "delete", Q, "--yes")
    assert "0 dead letters returned" in shell("dead", "return", code=2)
    assert shell.error.count("there is no queue") == 3
    shown = shell("job", "show", "1")
    assert shown.count("failed: {") == 3
    assert "return" in shown
    shell("job", "show", "9", code=2)
    assert "no job 9" in shell.error


def test_where_those_that_failed_were_going_is_shown(shell: Shell) -> None:
    shell("queue", "create", "private$/full", "--transactional", "--quota-kb", "0")
    shell("dead", "return", "--to", "private$/full", code=3)
    assert shell("job", "show", "1").count(f", for DIRECT=OS:./{Q}: ") == 3
    told = shell.json("job", "show", "1")
    assert isinstance(told, dict)
    assert [one["destination"] for one in told["failures"]] == [r"DIRECT=OS:.\private$\q"] * 3
    shell("dead", "purge", "--yes")
    assert ", for" not in shell("job", "show", "1")


def test_any_queue_is_moved_and_purged(shell: Shell) -> None:
    shell("queue", "create", "private$/other", "--transactional")
    shell.pipe("send", Q, data=b"x\ny\n")
    shell("job", "start", "fly", Q, code=2)
    assert "return, purge, move, send-as-new" in shell.error
    shell("job", "start", "move", Q, code=2)
    shell("job", "start", "move", Q, "--to", "private$/othr", code=2)
    assert "would look at 2" in shell("job", "start", "move", Q, "--dry-run")
    assert "2 messages moved" in shell("job", "start", "move", Q, "--to", "private$/other")
    shell("job", "start", "purge", "private$/other", code=2)
    assert "not a terminal: confirm with --yes" in shell.error
    number = shell("job", "start", "purge", "private$/other", "--yes", "--no-wait").strip()
    assert "2 messages removed" in shell("job", "follow", number)
    assert "is done" in shell("job", "cancel", number)


@pytest.mark.slow
def test_when_the_manager_dies_whoever_follows_hears_that_the_job_goes_on(
    shell: Shell, node: Node
) -> None:
    with onceq.connect(str(shell.alpha)) as qm:
        qm.open_queue(DEAD_XACT, access="receive", share="deny-receive")
        following = nursery.Popen(
            [*ONCEQ, "-q", str(shell.alpha), "dead", "return"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert following.stderr is not None
        assert "job 1 waits" in following.stderr.readline().lower()
        node.kill()
        _, error = following.communicate(timeout=60)
    assert following.returncode == 3
    assert "job 1 goes on when" in error.lower()
    node.start()
    assert "3 messages returned" in shell("job", "follow", "1")


@pytest.mark.slow
def test_who_follows_can_leave_and_the_job_goes_on(shell: Shell) -> None:
    with onceq.connect(str(shell.alpha)) as qm:
        held = qm.open_queue(DEAD_XACT, access="receive", share="deny-receive")
        following = nursery.Popen(
            [*ONCEQ, "-q", str(shell.alpha), "dead", "return"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert following.stderr is not None
        assert "job 1 waits" in following.stderr.readline().lower()
        following.send_signal(signal.SIGINT)
        _, error = following.communicate(timeout=60)
        assert following.returncode == 130
        assert "onceq job follow 1" in error
        assert "Traceback" not in error
        assert "would end job 1" in shell("job", "cancel", "1", "--dry-run")
        assert "waits" in shell("job", "show", "1")
        held.close()
        over = qm.jobs.wait(1, timeout=60)
        assert (over.state, over.done) == ("done", 3)


def test_a_program_hears_that_the_queue_manager_cannot_go_on(shell: Shell) -> None:
    which, letters = onceq.letters.filter_of(), onceq.letters
    with onceq.connect(str(shell.alpha)) as qm:
        with qm.open_queue(DEAD_XACT, access="receive", share="deny-receive"):
            with pytest.raises(Refused, match="denies receiving"):
                letters.give_back(qm, [DEAD_XACT], which, 0)
            with pytest.raises(Refused, match="denies receiving"):
                letters.discard(qm, [DEAD_XACT], which, 0)
        assert [job.state for job in qm.jobs.list()] == ["cancelled", "cancelled"]
        assert letters.give_back(qm, [DEAD_XACT], which, 0).sent == 3
