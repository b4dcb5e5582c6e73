"""The command line against real queue managers: what it does, what it says, how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path

import pytest

import onceq
from onceq.cli.main import run
from tests import nursery
from tests.daemon.shell import ONCEQ, STOCK, Shell, running


@pytest.mark.slow
def test_a_queue_is_made_for_other_queue_managers(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/From-Others", "--transactional", "--remote")
    shown = onceq_.json("rights", "show", "private$\\from-others")
    assert isinstance(shown, list)
    assert ("peer:*", ["send"]) in [(one["who"], one["rights"]) for one in shown]
    some = "peer:01234567-89ab-cdef-0123-456789abcdef"
    assert "yes:" in onceq_("rights", "explain", some, "send", "private$\\from-others")
    assert "no:" in onceq_("rights", "explain", some, "receive", "private$\\from-others")
    assert "no:" in onceq_("rights", "explain", "nobody", "send", "private$\\from-others")


@pytest.mark.slow
def test_queues_from_making_to_deleting(onceq_: Shell) -> None:
    said = onceq_("queue", "create", "private$/one", "--transactional", "--label", "my [queue]")
    assert "transactional queue private$/one" in said
    made = onceq_.json("queue", "show", "private$/one")
    assert isinstance(made, dict)
    assert (made["transactional"], made["label"], made["messages"]) == (True, "my [queue]", 0)
    assert "private$/one" in onceq_("queue", "list")
    assert "my [queue]" in onceq_("queue", "show", "private$\\one")
    onceq_("queue", "create", "private$/one", "--transactional", code=2)
    assert "queue-exists" in onceq_.error
    onceq_("queue", "create", "private$/one", "--transactional", "--exist-ok")
    onceq_("send", "private$/one", "a", "b", "c")
    assert "would purge private$/one with 3 messages" in onceq_(
        "queue", "purge", "private$/one", "--dry-run"
    )
    would = onceq_.json("queue", "delete", "private$/one", "--dry-run")
    assert isinstance(would, dict)
    assert would.pop("bytes") > 300
    assert would == {
        "queue": "private$\\one", "messages": 3, "dry_run": True, "journal_messages": 0,
        "journal_bytes": 0,
    }  # fmt: skip
    assert "purged private$/one with 3 messages" in onceq_(
        "queue", "purge", "private$/one", "--yes"
    )
    onceq_("send", "private$/one", "d")
    assert "deleted private$/one with 1 message" in onceq_(
        "queue", "delete", "private$/one", "--yes"
    )
    onceq_("queue", "show", "private$/one", code=2)


@pytest.mark.slow
def test_system_queues_are_shown_on_demand_and_cannot_be_deleted(onceq_: Shell) -> None:
    assert "deadxact" not in onceq_("queue", "list")
    assert "deadxact" in onceq_("queue", "list", "--system")
    onceq_("queue", "delete", "SYSTEM$;DEADXACT", code=2)
    assert "cannot be deleted" in onceq_.error


@pytest.mark.slow
def test_a_mistyped_queue_is_answered_with_those_like_it(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/invoices", "--transactional", "--exist-ok")
    for wrong in ("private$/invoice", "invoices", "private$\\invioces"):
        onceq_("receive", wrong, code=2)
        assert "did you mean private$/invoices?" in onceq_.error
    onceq_("send", "private$/invoces", "x", code=2)
    assert "did you mean private$/invoices?" in onceq_.error
    onceq_("queue", "purge", "private$/quite-different", code=2)
    assert "did you mean" not in onceq_.error


@pytest.mark.slow
def test_lines_go_in_and_come_out(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/lines", "--transactional")
    lines = b"".join(b"line %d\n" % n for n in range(2500))
    said = onceq_.pipe("send", "private$/lines", "--batch", "1000", data=lines)
    assert b"sent 2,500 messages in" in said
    assert onceq_.pipe("peek", "private$/lines") == lines
    assert onceq_.pipe("receive", "private$/lines", "--count", "3") == b"line 0\nline 1\nline 2\n"
    rest = b"".join(b"line %d\n" % n for n in range(3, 2500))
    assert onceq_.pipe("receive", "private$/lines") == rest
    assert onceq_.pipe("receive", "private$/lines") == b""
    onceq_("receive", "private$/lines", "--count", "1", code=4)
    assert "timeout" in onceq_.error
    onceq_("receive", "private$/lines", "--timeout", "0.01", code=4)


@pytest.mark.slow
def test_json_bodies_are_checked_and_shown_as_values(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/values", "--transactional")
    onceq_("send", "private$/values", "--json-body", '{"a": [1, "é"]}', "2")
    onceq_("send", "private$/values", "--json-body", "3", "{", code=2)
    assert "message 2 of the input is not JSON" in onceq_.error
    assert "1 message of the input committed" in onceq_.error
    onceq_("send", "private$/values", "plain")
    for verb in ("peek", "receive"):
        shown = [
            json.loads(line) for line in onceq_(verb, "private$/values", "--json").splitlines()
        ]
        assert [one.get("json", "-") for one in shown] == [{"a": [1, "é"]}, 2, 3, "-"]
        assert shown[0]["body"] == '{"a": [1, "é"]}'


@pytest.mark.slow
def test_nul_raw_and_whole_files(onceq_: Shell, tmp_path: Path) -> None:
    onceq_("queue", "create", "private$/bytes", "--transactional")
    onceq_.pipe("send", "private$/bytes", "--nul", data=b"a\nb\0\xff\xfe\0")
    assert onceq_.pipe("peek", "private$/bytes", "--nul") == b"a\nb\0\xff\xfe\0"
    assert onceq_.pipe("receive", "private$/bytes", "--raw") == b"a\nb\xff\xfe"
    (tmp_path / "whole").write_bytes(b"one\ntwo\n")
    onceq_("send", "private$/bytes", "--file", str(tmp_path / "whole"))
    (one,) = map(json.loads, onceq_("receive", "private$/bytes", "--json").splitlines())
    assert one["body"] == "one\ntwo\n"
    onceq_("send", "private$/bytes", "--file", str(tmp_path / "none"), code=2)
    assert "No such file" in onceq_.error


@pytest.mark.slow
def test_properties_there_and_back(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/plain", "--exist-ok")
    onceq_(
        "send", "private$/plain", "hello", "--label", "greeting", "--priority", "6",
        "--app-specific", "7", "--correlation-id", "ab" * 20, "--response-queue",
        "DIRECT=OS:BETA\\private$\\answers", "--express",
    )  # fmt: skip
    (got,) = map(json.loads, onceq_("peek", "private$/plain", "--json").splitlines())
    assert got["body"] == "hello"
    assert got["label"] == "greeting"
    assert got["priority"] == 6
    assert got["app_specific"] == 7
    assert got["correlation_id"] == "ab" * 20
    assert got["response_queue"] == "DIRECT=OS:BETA\\private$\\answers"
    assert got["delivery"] == "express"
    assert got["class"] == "normal"
    assert "greeting" in onceq_("peek", "private$/plain", "--table")
    assert onceq_.pipe("receive", "private$/plain") == b"hello\n"


@pytest.mark.slow
def test_the_mode_follows_the_queue_and_a_wrong_one_is_refused(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/tx", "--transactional", "--exist-ok")
    onceq_("queue", "create", "private$/plain", "--exist-ok")
    onceq_("send", "private$/tx", "x")
    onceq_("send", "private$/plain", "x")
    onceq_("send", "private$/tx", "x", "--recoverable", "--express", code=2)
    onceq_("send", "private$/tx", "x", "--recoverable", code=2)
    assert "wrong-queue-kind" in onceq_.error
    onceq_("send", "private$/tx", "x", "--correlation-id", "zz", code=2)
    onceq_("send", "private$/tx", "x", "--label", "l" * 250, code=2)
    assert "label-too-long" in onceq_.error
    onceq_("queue", "purge", "private$/tx", "--yes")
    onceq_("queue", "purge", "private$/plain", "--yes")


@pytest.mark.slow
def test_an_error_in_the_middle_says_what_was_committed(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/small", "--transactional", "--quota-kb", "40")
    data = b"".join(b"%d" % n + b"x" * 996 + b"\n" for n in range(100))
    onceq_.pipe("send", "private$/small", "--batch", "10", data=data, code=3)
    error = onceq_.error
    there = len(onceq_.pipe("receive", "private$/small").splitlines())
    assert 0 < there < 100
    assert there % 10 == 0
    assert f"{there} messages of the input committed; none from number {there + 1} on" in error


@pytest.mark.slow
def test_a_reader_that_goes_away_gives_messages_back(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/pipe", "--transactional")
    onceq_.pipe("send", "private$/pipe", data=b"x" * 999 + b"\n" + (b"y" * 999 + b"\n") * 2999)
    process = nursery.Popen(
        [*ONCEQ, "-q", str(onceq_.alpha), "receive", "private$/pipe", "--batch", "500"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(10) == b"x" * 10
    process.stdout.close()  # much more was to come than a pipe holds
    error = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(30) == 130
    assert "nobody reads the output any more" in error
    assert "Traceback" not in error
    left = onceq_.json("queue", "show", "private$/pipe")
    assert isinstance(left, dict)
    assert left["messages"] == left["available"]  # nothing is held any more
    taken = int(error.split("any more: ")[1].split(" ")[0].replace(",", ""))
    assert left["messages"] == 3000 - taken
    assert left["messages"] >= 2500


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["--transactional", "--json"], ids=["transactional", "plain"])
def test_head_takes_what_it_shows_and_leaves_the_rest(onceq_: Shell, mode: str) -> None:
    queue = f"private$/head{mode.strip('-')}"
    onceq_("queue", "create", queue, mode)
    onceq_.pipe("send", queue, data=b"".join(b"%d\n" % n for n in range(200)))
    receive = shlex.join([*ONCEQ, "-q", str(onceq_.alpha), "receive", queue])
    for first in (0, 3):
        shown = subprocess.run(
            f"{receive} | head -3", shell=True, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
        assert shown.stdout == b"".join(b"%d\n" % n for n in range(first, first + 3))
    assert onceq_.pipe("receive", queue, "--count", "1") == b"6\n"
    left = onceq_.json("queue", "show", queue)
    assert isinstance(left, dict)
    assert left["messages"] == left["available"] == 193


@pytest.mark.slow
def test_ctrl_c_ends_a_follower_cleanly(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/follow", "--transactional")
    onceq_("send", "private$/follow", "first")
    process = nursery.Popen(
        [*ONCEQ, "-q", str(onceq_.alpha), "receive", "private$/follow", "--follow"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    onceq_("send", "private$/follow", "second")
    assert process.stdout.readline() == "second\n"
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    # It is printed before it is committed: what it says of the second is what the queue shows.
    made = onceq_.json("queue", "show", "private$/follow")
    assert isinstance(made, dict)
    told = {
        0: "interrupted: 2 messages received\n",
        1: "interrupted: 1 message received, 1 given back to the queue\n",
    }
    assert error == told[made["messages"]]


@pytest.mark.slow
def test_ctrl_c_while_sending_says_what_was_committed(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/typed", "--transactional")
    process = nursery.Popen(
        [*ONCEQ, "-q", str(onceq_.alpha), "send", "private$/typed"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b"one\ntwo\nthr")
    process.stdin.flush()
    with onceq.connect(str(onceq_.alpha)) as qm:  # a pause in the input sends what is there
        assert qm.receive("private$/typed", timeout=30).body == b"one"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"interrupted: 2 messages of the input committed" in error
    assert b"Traceback" not in error


@pytest.mark.slow
def test_why_nothing_moves_until_it_does(onceq_: Shell) -> None:
    onceq_("send", STOCK, *(f"item {n}" for n in range(10)))
    assert "cannot leave" in onceq_("outgoing", "why", STOCK)
    (listed,) = [o for o in _list(onceq_, "outgoing", "list") if o["messages"]]
    assert listed["messages"] == listed["unacknowledged"] == 10
    assert "connection refused" in onceq_("outgoing", "list")
    assert "cannot leave" in onceq_("qm", "status")
    onceq_("outgoing", "show", "DIRECT=OS:BETA/private$/stok", code=2)
    assert f"did you mean {STOCK}" in onceq_.error
    assert "paused by an operator since" in onceq_("outgoing", "pause", STOCK)
    assert onceq_.json("outgoing", "show", STOCK)["state"] == "ONHOLD"  # type: ignore[index]
    with running(onceq_.beta):
        assert run(["-q", str(onceq_.beta), "queue", "create", "private$/stock",
                    "--transactional"]) == 0  # fmt: skip
        onceq_("outgoing", "resume", STOCK)
        got = onceq_.pipe(
            "receive", "private$/stock", "-q", str(onceq_.beta), "-t", "20", "--count", "10"
        )
        assert got == b"".join(b"item %d\n" % n for n in range(10))
        onceq_("outgoing", "resend", STOCK)
        streams = nursery.run(
            [*ONCEQ, "-q", str(onceq_.beta), "stream", "show", "private$/stock"],
            capture_output=True, text=True, check=True, timeout=30,
        ).stdout  # fmt: skip
        assert re.search(r"last number accepted +10\n", streams)
        assert "accepted up to number 10" in streams
        with onceq.connect(str(onceq_.alpha)) as qm:
            _until(lambda: not qm.admin.outgoing_queue(STOCK)["messages"])
        assert "nothing waits" in onceq_("outgoing", "why", STOCK)
        facts = onceq_("outgoing", "show", STOCK)
        assert "last order acknowledgment" in facts
        assert "10 at 20" in facts


def _list(onceq_: Shell, *arguments: str) -> list[dict[str, object]]:
    found = onceq_.json(*arguments)
    assert isinstance(found, list)
    return found


def _until(condition: object) -> None:
    """Ask again until it is so; the test's own time-out ends it otherwise."""
    assert callable(condition)
    for _ in range(100_000):
        if condition():
            return
    raise AssertionError("it never came to be")


@pytest.mark.slow
def test_purging_what_waits_for_another(onceq_: Shell) -> None:
    destination = "DIRECT=OS:GAMMA/private$/gone"
    onceq_("outgoing", "pause", destination, code=2)
    onceq_("send", destination, "a", "b")
    onceq_("outgoing", "pause", destination)
    assert onceq_.pipe("peek", destination) == b"a\nb\n"
    assert "would purge" in onceq_("queue", "purge", destination, "--dry-run")
    onceq_("queue", "delete", destination, code=2)
    assert "'queue purge' empties it" in onceq_.error
    assert "with 2 messages" in onceq_("queue", "purge", destination, "--yes")
    assert "nothing waits" not in onceq_("outgoing", "why", destination)  # paused it still is


@pytest.mark.slow
def test_open_transactions_are_listed_and_outcomes_told(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/open", "--transactional")
    with onceq.connect(str(onceq_.alpha)) as qm, qm.transaction() as tx:
        qm.send("private$/open", b"x", transactional=True)
        tx.receive("private$/open", timeout=5)
        found = onceq_.json("tx", "list")
        assert isinstance(found, dict)
        (listed,) = found["transactions"]
        assert (listed["received"], listed["sent"]) == (1, 0)
        assert len(onceq_("tx", "list").splitlines()) == 2
        tx.commit()
        assert onceq_("outcome", tx.id) == "committed\n"
        never = tx.id.rpartition("-")[0] + "-999"
    assert onceq_.json("outcome", never) == {"transaction": never, "outcome": "aborted"}
    onceq_("outcome", tx.id[:8] + "ff" * 12 + "-1")
    onceq_("outcome", "ff" * 16 + "-1", code=2)
    old = "00" * 16 + "-1"
    assert onceq_("outcome", old, code=6) == "unknown\n"
    onceq_("outcome", "nonsense", code=2)


@pytest.mark.slow
def test_the_way_to_the_manager(onceq_: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def name(*arguments: str) -> str:
        onceq_.capture.readouterr()
        assert run([*arguments, "qm", "status", "--json"]) == 0
        return str(json.loads(onceq_.capture.readouterr().out)["name"])

    socket_path = onceq_.alpha / "onceq.sock"
    assert name("-q", str(socket_path)) == "ALPHA"
    assert name("-q", f"unix://{socket_path}") == "ALPHA"
    monkeypatch.setenv("ONCEQ_QM", str(onceq_.alpha))
    assert name() == "ALPHA"
    monkeypatch.delenv("ONCEQ_QM")
    monkeypatch.chdir(onceq_.alpha)
    assert name() == "ALPHA"


@pytest.mark.slow
def test_a_store_has_one_process_and_a_port_too(
    onceq_: Shell, tmp_path: Path, managers: tuple[Path, Path]
) -> None:
    onceq_.pipe("qm", "run", str(onceq_.alpha), code=3)
    assert "store-locked" in onceq_.error
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        other = tmp_path / "other"
        assert run(["qm", "init", str(other), "--name", "OTHER"]) == 0
        onceq_.pipe("qm", "run", str(other), "--listen", at, code=3)
    assert "port-in-use" in onceq_.error
    onceq_.pipe("qm", "run", str(tmp_path), code=2)
    assert "not-a-store" in onceq_.error


@pytest.mark.slow
def test_a_damaged_store_is_told(onceq_: Shell, tmp_path: Path) -> None:
    path = tmp_path / "hurt"
    with onceq.open(str(path), name="HURT", create=True) as qm:
        qm.create_queue("private$/q", transactional=True)
        for n in range(50):
            qm.send("private$/q", b"%d" % n * 500, transactional=True)
    (log, *_) = sorted(path.glob("log-*.seg"))
    with open(log, "r+b") as file:
        file.seek(20_000)
        file.write(b"\xee" * 64)
    said = onceq_.pipe("qm", "check", str(path), code=7)
    assert b"damaged" in said
    assert "damaged-record" in onceq_.error


@pytest.mark.slow
def test_a_short_benchmark(onceq_: Shell, tmp_path: Path) -> None:
    short = ("--seconds", "0.02", "--tx", "1,20", "--folder", str(tmp_path))
    inside = onceq_("bench", *short)
    assert "committed in" in inside
    measured = onceq_.json("bench", "-q", str(onceq_.alpha), *short)
    assert isinstance(measured, dict)
    assert [row["per_commit"] for row in measured["rates"]] == [1, 20]
    assert all(row["received_s"] > 0 for row in measured["rates"])
    assert "onceq-bench" not in onceq_("queue", "list")
    assert os.listdir(tmp_path) == []
    onceq_("bench", "--tx", "many", code=2)


@pytest.mark.slow
def test_completion_knows_the_queues(onceq_: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from onceq.cli.common import complete_destination, complete_queue

    onceq_("queue", "create", "private$/completed", "--exist-ok")
    monkeypatch.setenv("ONCEQ_QM", str(onceq_.alpha))
    assert complete_queue("private$/compl") == ["private$/completed"]
    assert complete_destination("nothing") == []
    monkeypatch.setenv("ONCEQ_QM", "nowhere")
    assert complete_queue("") == []
