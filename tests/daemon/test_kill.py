"""Two real daemons under load, killed with SIGKILL; and the judge, which must notice what it is
there to notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proof import nodes
from proof.torture import kill
from proof.torture.kill_judge import History, Judge

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.search("doors", few=1)
@pytest.mark.parametrize("tls", ["off", "on"])
def test_nothing_is_lost_repeated_or_out_of_order_through_kills(tmp_path: Path, tls: str) -> None:
    """I1, I3a, I4, I5, I22, I26, in small; ``make kill`` is the same with more."""
    outcome = kill.run(kills=8, seed=20, folder=tmp_path, tls=tls)
    assert outcome.violations == []
    assert sum(outcome.kills.values()) == 8
    assert outcome.received == outcome.committed > 0
    history = (tmp_path / "history.jsonl").read_text()
    assert history.count('"sent"') <= outcome.transactions
    assert '"received"' in history


@pytest.mark.slow
def test_no_daemon_is_left_when_it_cannot_start(tmp_path: Path) -> None:
    node = nodes.Node(tmp_path, "ALPHA", nodes.free_port(), {})
    (node.path / "onceq.toml").write_text("nonsense = 1\n")
    with pytest.raises(RuntimeError, match="ALPHA did not start"):
        node.start()
    assert node.process is not None
    assert node.process.poll() == 2


@pytest.mark.slow
def test_the_command_says_how_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proof", "kill", "--help"], cwd=ROOT, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "--kills" in done.stdout


def judge_of(committed: int, *received: list[int]) -> list[str]:
    judge = Judge()
    judge.commit(committed)
    for numbers in received:
        judge.receive(numbers)
    judge.end()
    return judge.violations


def test_the_judge_accepts_what_is_right() -> None:
    assert judge_of(5, [0, 1], [2], [3, 4]) == []


def test_the_judge_notices_a_loss_at_the_end_and_in_the_middle() -> None:
    assert judge_of(5, [0, 1, 2, 3]) == ["lost: 1 messages from number 4 on"]
    assert judge_of(5, [0, 1], [3, 4]) == ["lost or out of order: 3 came, 2 was due"]


def test_the_judge_notices_repetition_and_disorder() -> None:
    assert judge_of(3, [0, 1, 1, 2]) == ["repeated: 1 came again where 2 was due"]
    assert len(judge_of(3, [0, 2, 1])) == 2


def test_the_judge_notices_what_was_never_committed() -> None:
    assert judge_of(2, [0, 1, 2]) == ["phantom: 2 was received, 2 were committed"]


def test_a_commit_under_way_may_be_received_before_its_answer() -> None:
    judge = Judge()
    judge.commit(2)
    judge.receive([0, 1, 2], unsure=1)
    judge.receive([3])
    assert judge.violations == ["phantom: 3 was received, 2 were committed"]


def test_the_history_is_there_when_note_returns(tmp_path: Path) -> None:
    history = History(tmp_path / "h")
    history.note("sent", 0, 5, id="x-1")
    text = (tmp_path / "h").read_text()
    history.close()
    assert text == '{"event": "sent", "first": 0, "count": 5, "id": "x-1"}\n'
