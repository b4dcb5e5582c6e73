"""Two dead letters of one message: one of them is the one to return, and the other says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

import onceq
from onceq.client.threads import letters
from onceq.client.threads.letters import ALL, DEAD, DEAD_XACT, Returned, give_back
from onceq.client.threads.manager import QueueManager
from onceq.errors import ReceiveTimeout
from onceq.model.message import Journal
from tests.daemon.shell import Shell
from tests.daemon.two import HERE, THERE, WAIT, Q, Two

GRAVES = r"private$\graves"
ASKED: dict[str, Any] = {"transactional": True, "journal": Journal.DEADLETTER}


def poisoned(qm: QueueManager, queue: str = Q) -> None:
    """The application fails on a message; its dead letter is kept here, as the policy says."""
    qm.set_poison_policy(queue, attempts=1, then="dead-letter")
    tx = qm.transaction()
    tx.receive(queue, timeout=WAIT)
    tx.abort()
    qm.set_poison_policy(queue, attempts=0)


def found(qm: QueueManager, queue: str = DEAD_XACT) -> list[letters.Letter]:
    return list(letters.letters(qm, [queue], ALL, 0))


def returned(qm: QueueManager, queue: str = DEAD_XACT, **more: Any) -> Returned:
    return give_back(qm, [queue], ALL, 0, **more)


def waiting(qm: QueueManager) -> int:
    return qm.queue(Q).messages


def test_where_it_died_the_senders_dead_letter_is_the_one_to_return(two: Two) -> None:
    two.alpha.send(THERE, b"poison", **ASKED)
    poisoned(two.beta)
    home = two.alpha.peek(DEAD_XACT, timeout=WAIT)
    (there,) = found(two.beta)
    assert there.second == f"at {two.alpha.id}"
    assert not found(two.alpha)[0].second
    stayed = returned(two.beta)
    (why,) = stayed.kept
    assert stayed.sent == 0
    assert two.alpha.id in why
    assert "--second" in why
    assert home.body == b"poison"
    assert returned(two.alpha).sent == 1
    assert two.beta.receive(Q, timeout=WAIT).body == b"poison"
    assert returned(two.beta, second=True).sent == 1
    assert two.beta.receive(Q, timeout=WAIT).body == b"poison", "who insists has it twice"


def test_where_nobody_else_has_it_it_goes_back_to_its_queue(two: Two) -> None:
    """The sender asked for nothing: this is the only one."""
    two.alpha.send(THERE, b"poison", transactional=True)
    poisoned(two.beta)
    (there,) = found(two.beta)
    assert not there.second
    assert (returned(two.beta).sent, waiting(two.beta)) == (1, 1)
    again = two.beta.receive(Q, timeout=WAIT)
    assert (again.body, again.returned) == (b"poison", 1)
    assert not found(two.beta)


def test_a_queue_that_is_not_for_it_is_named(two: Two) -> None:
    """A transactional message for a queue that is not transactional would die there again."""
    two.alpha.send(r"DIRECT=OS:BETA\private$\plain", b"misfit", transactional=True)
    two.beta.peek(DEAD_XACT, timeout=WAIT)
    (why,) = returned(two.beta).kept
    assert "--to" in why
    assert give_back(two.beta, [DEAD_XACT], ALL, 0, to=Q).sent == 1
    assert waiting(two.beta) == 1


def test_the_senders_own_dead_letter_queue_has_the_one_to_return(two: Two) -> None:
    two.alpha.create_queue(GRAVES, transactional=True)
    two.alpha.send(HERE, b"poison", dead_letter_queue=GRAVES, **ASKED)
    poisoned(two.alpha)
    (kept,), (own,) = found(two.alpha), found(two.alpha, GRAVES)
    assert kept.second
    assert not own.second
    (why,) = returned(two.alpha).kept
    assert "that its sender has named" in why
    assert returned(two.alpha, GRAVES).sent == 1
    assert waiting(two.alpha) == 1


def test_one_dead_letter_alone_is_returned_where_it_is(two: Two) -> None:
    two.alpha.send(HERE, b"poison", **ASKED)
    poisoned(two.alpha)
    (only,) = found(two.alpha)
    assert not only.second
    assert returned(two.alpha).sent == 1
    with pytest.raises(ReceiveTimeout):
        two.alpha.peek(DEAD)


def test_what_may_have_been_received_is_returned_only_by_force(two: Two) -> None:
    """Purged after it was transmitted: its sender does not know whether it was received."""
    two.alpha.send(THERE, b"transmitted", **ASKED)
    two.beta.peek(Q, timeout=WAIT)
    two.alpha.purge(THERE)
    (letter,) = found(two.alpha)
    assert letter.in_doubt
    assert "an operator removed it" in letter.why
    (why,) = returned(two.alpha).kept
    assert "--in-doubt" in why
    assert "an operator removed it" in why
    assert waiting(two.beta) == 1, "it is there once"
    two.beta.receive(Q)
    two.alpha.send(THERE, b"later", transactional=True)
    two.beta.peek(Q, timeout=WAIT)


def test_the_command_says_it(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/orders", "--transactional")
    onceq_("queue", "create", "private$/graves", "--transactional")
    onceq_("send", "private$/orders", "17 chairs", "--dead-letter",
           "--dead-letter-queue", "private$/graves")  # fmt: skip
    with onceq.connect(str(onceq_.alpha)) as qm:
        poisoned(qm, r"private$\orders")
    (listed,) = json.loads(onceq_("dead", "list", "--json"))
    assert "named" in listed["second"]
    assert "rejected (second)" in onceq_("dead", "list")
    assert "its sender has a dead letter of it too" in onceq_("dead", "show", listed["id"])
    assert "--second" in onceq_("dead", "return")
    assert "1 dead letter returned" in onceq_("dead", "return", "--queue", "private$/graves")
