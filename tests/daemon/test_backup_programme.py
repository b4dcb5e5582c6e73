"""Two real daemons backed up under load and put back; and the judge, which must notice what it is
there to notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proof.torture import backup
from proof.torture.backup_judge import Passage

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_what_is_committed_after_a_restore_arrives_once_and_in_order(tmp_path: Path) -> None:
    """I1, I4, I5, I7, I22, I23, in small, with kills while what a restore has left behind is
    being settled; ``make backup`` is the same with more."""
    outcome = backup.run(messages=600, seed=10, folder=tmp_path, every_s=0.3)
    assert outcome.violations == []
    assert outcome.restores >= 2
    assert outcome.backups >= 5
    assert outcome.messages >= 600


@pytest.mark.slow
def test_the_command_says_how_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proof", "backup", "--help"], cwd=ROOT, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert "--messages" in done.stdout


def bodies(*numbers: tuple[int, int]) -> list[bytes]:
    return [b"%d %d " % number for number in numbers]


def passage(*eras: int, put_back: bool = False, sender: bool = False) -> Passage:
    """So many messages were committed in each era, and somebody was put back between them."""
    made = Passage()
    for at, count in enumerate(eras):
        if at:
            made.begin(sender_put_back=sender, receiver=made.mark() if put_back else None)
        made.commit(count)
    return made


def test_the_judge_accepts_what_is_right() -> None:
    made = passage(3)
    made.receive(bodies((0, 0), (0, 1), (0, 2)))
    assert made.complete(3)
    assert made.judge(3) == []


def test_the_judge_notices_losses_repetitions_and_phantoms_of_the_present_era() -> None:
    lost = passage(3)
    lost.receive(bodies((0, 0), (0, 2)))
    assert lost.judge(3) == ["lost or out of order: 2 of era 0 came, 1 was due"]
    tail = passage(3)
    tail.receive(bodies((0, 0)))
    assert not tail.complete(3)
    assert tail.judge(3) == ["lost: 2 messages of era 0"]
    twice = passage(3)
    twice.receive(bodies((0, 0), (0, 0)))
    assert twice.judge(0) == ["repeated or out of order: 0 of era 0 came after 0 of era 0"]
    phantom = passage(1)
    phantom.receive(bodies((0, 0), (0, 1)))
    assert phantom.judge(1) == ["phantom: 1 was received, 1 committed"]


def test_what_a_restore_has_undone_is_no_loss() -> None:
    made = passage(5, 2, put_back=True)
    made.receive(bodies((0, 1), (0, 4), (1, 0), (1, 1)))
    assert made.judge(2) == []
    assert made.undone == 2


def test_an_earlier_era_never_comes_after_a_later_one_nor_twice() -> None:
    for wrong in ((0, 3), (0, 4)):
        made = passage(5, 2)
        made.receive(bodies((0, 4), (1, 0)))
        made.receive(bodies(wrong))
        (said,) = made.judge(0)
        assert "repeated or out of order" in said


def test_a_receiver_that_was_put_back_may_receive_again() -> None:
    made = passage(3)
    made.receive(bodies((0, 0)))
    early = made.mark()
    made.receive(bodies((0, 1), (0, 2)))
    made.begin(receiver=early)
    made.receive(bodies((0, 1), (0, 2)))
    assert made.judge(0) == []


def test_what_its_backup_had_received_a_receiver_does_not_receive_again() -> None:
    made = passage(3)
    made.receive(bodies((0, 0), (0, 1)))
    made.begin(receiver=made.mark())
    made.receive(bodies((0, 1)))
    (said,) = made.judge(0)
    assert "repeated" in said


def test_what_waited_in_the_backup_of_a_sender_may_come_late_but_once() -> None:
    """The receiver never had it in this life; of the later eras the sender knows nothing."""
    made = passage(5, 2, 1, sender=True)
    made.receive(bodies((1, 0), (1, 1), (0, 3), (0, 4), (2, 0)))
    assert made.judge(1) == []
    made.receive(bodies((0, 3)))
    (said,) = made.judge(0)
    assert "repeated" in said
