"""What commands say they have done is there, wherever their connection breaks (finding U3)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import onceq
from onceq.cli.main import run
from onceq.model.requests import DeleteQueue, PurgeQueue, Remove, StartJob, SteerOutgoing
from tests.daemon.cutting import AFTER, BEFORE, Relay
from tests.daemon.shell import STOCK, Shell
from tests.partners.waiting import until

pytestmark = pytest.mark.slow
COUNT = 8
Q, OTHER, PLAIN = "private$/broken", "private$/broken-other", "private$/broken-plain"
LETTERS = ("--destination", "broken")


class Broken:
    """Runs commands over a connection that breaks.

    When a command has ended, its queue manager has noticed that the connection is lost.
    """

    def __init__(self, relay: Relay, shell: Shell, qm: onceq.QueueManager) -> None:
        self.relay, self.shell, self.qm = relay, shell, qm
        self.out = self.error = ""

    def __call__(self, *words: str) -> int:
        self.shell.capture.readouterr()
        code = run(["-q", self.relay.where, *words])
        self.out, self.error = self.shell.capture.readouterr()
        assert "Traceback" not in self.error
        until(lambda: not self.qm.admin.transactions())
        return code

    def number(self, pattern: str) -> int:
        """The first number in what was said beside the result; 0: it says none."""
        found = re.search(pattern, self.error)
        return int(found[1].replace(",", "")) if found else 0


@pytest.fixture
def qm(onceq_: Shell) -> Iterator[onceq.QueueManager]:
    with onceq.connect(str(onceq_.alpha)) as made:
        for name in (Q, OTHER, PLAIN):
            made.create_queue(name, transactional=name != PLAIN, exist_ok=True)
            made.purge(name)
        yield made


@pytest.fixture
def broken(onceq_: Shell, tmp_path: Path, qm: onceq.QueueManager) -> Iterator[Broken]:
    with Relay(tmp_path, onceq_.alpha / "onceq.sock") as relay:
        yield Broken(relay, onceq_, qm)


def letters(qm: onceq.QueueManager) -> list[str]:
    """Identifiers of the dead letters of these tests."""
    found = onceq.letters.letters(
        qm, ("system$;deadxact", "system$;deadletter"),
        onceq.letters.filter_of(destination="broken"), 0,
    )  # fmt: skip
    return [str(one.message.id).replace("\\", "/") for one in found]


def die(qm: onceq.QueueManager, *queues: str) -> list[str]:
    """Fresh dead letters, and no others of these tests."""
    onceq.letters.discard(
        qm, ("system$;deadxact", "system$;deadletter"),
        onceq.letters.filter_of(destination="broken"), 0,
    )  # fmt: skip
    for queue in queues:
        for number in range(COUNT // len(queues)):
            qm.send(queue, str(number), journal=onceq.Journal.DEADLETTER)
        qm.purge(queue)
    return letters(qm)


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (PurgeQueue.code, ("queue", "purge", Q, "--yes")),
        (DeleteQueue.code, ("queue", "delete", Q, "--yes")),
        (StartJob.code, ("job", "start", "move", Q, "--to", OTHER)),
        (StartJob.code, ("job", "start", "purge", Q, "--yes")),
        (StartJob.code, ("dead", "return", *LETTERS)),
        (StartJob.code, ("dead", "purge", *LETTERS, "--yes")),
        (Remove.code, ("outgoing", "remove", STOCK, "first", "--yes")),
        (PurgeQueue.code, ("queue", "purge", STOCK, "--yes")),
        (SteerOutgoing.code, ("outgoing", "pause", STOCK)),
    ],
    ids=lambda value: "-".join(value[:3:2]) if isinstance(value, tuple) else "",
)
def test_no_number_is_claimed_of_what_may_have_happened(
    qm: onceq.QueueManager, broken: Broken, code: int, words: tuple[str, ...], when: str
) -> None:
    die(qm, Q)
    qm.send_many(Q, ["1", "2", "3"])
    qm.send(STOCK, "1", transactional=True)
    first = str(qm.peek_tops(STOCK, 1, size=0).lookup_ids[0])
    broken.relay.cut(code, when)
    assert broken(*(first if word == "first" else word for word in words)) == 3
    assert broken.out == ""
    assert "may have happened" in broken.error
    assert not broken.relay.armed
    qm.admin.resume(STOCK)


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize("number", range(3, 13))
@pytest.mark.parametrize("queue", [Q, PLAIN], ids=["transactional", "plain"])
def test_received_is_what_is_gone(
    qm: onceq.QueueManager, broken: Broken, queue: str, number: int, when: str
) -> None:
    qm.send_many(queue, [str(n) for n in range(COUNT)], transactional=queue == Q)
    broken.relay.cut_number(number, when)
    code = broken("receive", queue, "--batch", "3")
    shown = broken.out.split()
    gone = COUNT - qm.queue(queue).messages
    assert shown == [str(n) for n in range(len(shown))]
    if code == 0:
        assert (len(shown), gone) == (COUNT, COUNT)
        return
    taken = broken.number(r"([\d,]+) messages? received")
    back = broken.number(r"([\d,]+) given back")
    doubt = broken.number(r"([\d,]+) in doubt")
    assert code == (6 if doubt else 3)
    assert gone == taken or (doubt and gone == taken + doubt)
    assert len(shown) == taken + back + doubt


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize("number", [2, 4, 6, 7, 8, 9])
@pytest.mark.parametrize("queue", [Q, PLAIN], ids=["transactional", "plain"])
@pytest.mark.parametrize("verb", ["return", "purge"])
def test_letters_that_are_named_are_done_all_or_none(
    qm: onceq.QueueManager, broken: Broken, verb: str, queue: str, number: int, when: str
) -> None:
    ids = die(qm, queue)
    broken.relay.cut_number(number, when)
    words = (word for id in ids for word in ("--id", id))
    yes = ["--yes"] if verb == "purge" else []
    code = broken("dead", verb, *yes, *words, "--json")
    until(lambda: all(job.over for job in qm.jobs.list()))
    home, left = qm.queue(queue).messages, len(letters(qm))
    assert home == (COUNT - left if verb == "return" else 0), "each is in one place"
    if code == 0:
        told = json.loads(broken.out)
        assert (told["returned" if verb == "return" else "removed"], left) == (COUNT, 0)
        return
    assert broken.out == "", "no number is claimed"
    assert left in ((0, COUNT) if "may have happened" in broken.error else (COUNT,))


def test_what_is_held_is_not_purged_yet(qm: onceq.QueueManager, onceq_: Shell) -> None:
    qm.send_many(Q, ["1", "2", "3"])
    with qm.transaction() as tx:
        tx.receive(Q)
        said = onceq_("queue", "purge", Q, "--dry-run")
        assert "with 2 messages" in said
        assert "1 message is held by transactions" in onceq_.error
        told = json.loads(onceq_("queue", "purge", Q, "--yes", "--json"))
        assert (told["messages"], told["held"], qm.queue(Q).messages) == (2, 1, 1)
        assert qm.purge(Q) == 0
    assert qm.queue(Q).messages == 0
    assert "purged private$/broken with 0 messages" in onceq_("queue", "purge", Q, "--yes")
    assert onceq_.error == ""


def test_a_trial_leaves_out_what_the_command_leaves(
    onceq_: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [SimpleNamespace(in_doubt=doubt) for doubt in (True, False, False)]
    monkeypatch.setattr("onceq.client.threads.letters.letters", lambda *_: iter(there))
    for words, count in (((), 2), (("--in-doubt",), 3), (("--limit", "1"), 1)):
        told = onceq_("dead", "send-as-new", "--dry-run", *words, "--json")
        assert json.loads(told)["would_be"] == count
