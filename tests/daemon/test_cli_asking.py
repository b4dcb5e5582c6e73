"""Commands that destroy ask first; who is not there to answer has not agreed."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

import onceq
from onceq.model.resultcodes import MessageClass
from tests import nursery
from tests.daemon.process import ROOT, WAIT_S, Process

pytestmark = pytest.mark.slow

Q = r"private$\q"
DEADLETTER = onceq.Journal.DEADLETTER
NOBODY = r"DIRECT=OS:NOBODY\private$\q"


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("asking")
    process = Process(
        folder / "alpha", "--create", "ALPHA", "--listen", "127.0.0.1:0",
        "--peer", "NOBODY=127.0.0.1:1",
    ).started()  # fmt: skip
    yield process
    assert process.end(signal.SIGTERM) == 0


@pytest.fixture
def qm(alpha: Process) -> Iterator[onceq.QueueManager]:
    with onceq.connect(str(alpha.path)) as made:
        made.create_queue(Q, transactional=True)
        made.send_many(Q, [b"1", b"2", b"3"], transactional=True)
        yield made
        if any(queue["path"] == Q for queue in made.queues()):
            made.delete_queue(Q)


def command(alpha: Process, *arguments: str, answer: str | None = None) -> tuple[int, str, str]:
    """Exit code, output and errors; with an answer it is at a terminal, where that is typed."""
    ours, theirs = pty.openpty()
    try:
        if answer is not None:
            os.write(ours, f"{answer}\n".encode())
        done = nursery.run(
            [sys.executable, "-m", "onceq.cli.main", "-q", str(alpha.path), *arguments],
            stdin=subprocess.DEVNULL if answer is None else theirs, capture_output=True,
            text=True, timeout=WAIT_S, check=False, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("verb", ["delete", "purge"])
def test_without_a_terminal_nothing_is_destroyed_and_the_cure_is_told(
    alpha: Process, qm: onceq.QueueManager, verb: str
) -> None:
    code, _, error = command(alpha, "queue", verb, Q)
    assert code == 2
    assert "nothing was changed" in error
    assert "--yes" in error
    assert "--dry-run" in error
    assert qm.queue(Q)["messages"] == 3


@pytest.mark.parametrize("verb", ["delete", "purge"])
def test_at_a_terminal_it_asks(alpha: Process, qm: onceq.QueueManager, verb: str) -> None:
    code, _, error = command(alpha, "queue", verb, Q, answer="n")
    assert code == 2
    assert "with 3 messages (" in error
    assert qm.queue(Q)["messages"] == 3
    assert command(alpha, "queue", verb, Q, answer="y")[0] == 0
    found = {queue["path"]: queue["messages"] for queue in qm.queues()}
    assert found.get(Q, 0) == 0
    assert (Q in found) == (verb == "purge")


def test_dry_runs_say_how_much_and_change_nothing(alpha: Process, qm: onceq.QueueManager) -> None:
    size = qm.queue(Q)["bytes"]
    for verb in ("delete", "purge"):
        code, said, _ = command(alpha, "queue", verb, Q, "--dry-run", "--json")
        assert code == 0
        assert '"messages": 3' in said
        assert f'"bytes": {size}' in said
    assert qm.queue(Q)["messages"] == 3


def test_what_is_delayed_goes_with_its_queue_and_is_counted_before(
    alpha: Process, qm: onceq.QueueManager
) -> None:
    qm.send_many(Q, [b"later"] * 2, transactional=True, delay=3_600)
    for arguments in (["--dry-run"], ["--yes"]):
        code, said, _ = command(alpha, "queue", "delete", Q, "--json", *arguments)
        assert code == 0
        assert '"messages": 5' in said


def test_an_empty_queue_is_purged_without_a_question(
    alpha: Process, qm: onceq.QueueManager
) -> None:
    qm.purge(Q)
    assert command(alpha, "queue", "purge", Q)[0] == 0


def test_one_message_is_taken_out_of_an_outgoing_queue(
    alpha: Process, qm: onceq.QueueManager
) -> None:
    """It has never left: it is not delivered, and its sender has it as a dead letter."""
    qm.send_many(NOBODY, [b"a", b"b", b"c"], transactional=True, journal=DEADLETTER)
    _, second, _ = qm.peek_many(NOBODY, timeout=0).lookup_ids
    code, _, error = command(alpha, "outgoing", "remove", NOBODY, str(second))
    assert code == 2
    assert "--yes" in error
    assert command(alpha, "outgoing", "remove", NOBODY, str(second), "--dry-run")[0] == 0
    assert len(qm.peek_many(NOBODY, timeout=0)) == 3
    assert command(alpha, "outgoing", "remove", NOBODY, str(second), answer="y")[0] == 0
    assert [m.body for m in qm.peek_many(NOBODY, timeout=0)] == [b"a", b"c"]
    letter = qm.receive(r"SYSTEM$;DEADXACT", timeout=0)
    assert (letter.body, letter.message_class) == (b"b", MessageClass.NACK_DELETED)
    code, _, error = command(alpha, "outgoing", "remove", NOBODY, str(second), "--yes")
    assert code == 2
    assert "there is no message" in error
    qm.purge(NOBODY)
    qm.purge(r"SYSTEM$;DEADXACT")
