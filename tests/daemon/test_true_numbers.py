"""Every number that a command prints is true, also when it fails half-way (findings U3, U4)."""

from __future__ import annotations

import json

import pytest

import onceq
from tests.daemon.shell import Shell
from tests.daemon.two import WAIT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("good", "batch"), [(0, 100), (25, 100), (25, 10), (30, 10)])
def test_what_stands_before_a_bad_line_is_sent_and_said(
    onceq_: Shell, good: int, batch: int
) -> None:
    name = f"private$/json{good}-{batch}"
    onceq_("queue", "create", name, "--transactional")
    lines = b"".join(b'{"n": %d}\n' % n for n in range(good)) + b'{"n": \n{"n": 1}\n'
    onceq_.pipe("send", name, "--json-body", "--batch", str(batch), data=lines, code=2)
    assert f"message {good + 1} of the input is not JSON" in onceq_.error
    assert "neither it nor what follows was sent" in onceq_.error
    if good:
        assert f"{good} messages of the input committed" in onceq_.error
    with onceq.connect(str(onceq_.alpha)) as qm:
        assert qm.queue(name).messages == good


def test_a_journal_that_goes_with_its_queue_is_named(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/kept", "--transactional", "--journal")
    with onceq.connect(str(onceq_.alpha)) as qm:
        for body in (b"1", b"2", b"3"):
            qm.send("private$/kept", body, transactional=True)
        qm.receive_many("private$/kept", 2, timeout=WAIT)
        qm.receive("private$/kept", timeout=WAIT)
    told = json.loads(onceq_("queue", "delete", "private$/kept", "--dry-run", "--json"))
    assert (told["messages"], told["journal_messages"]) == (0, 3)
    assert told["journal_bytes"] > 300
    assert "and the 3 copies in its journal" in onceq_(
        "queue", "delete", "private$/kept", "--dry-run"
    )
    said = onceq_("queue", "delete", "private$/kept", "--yes")
    assert "deleted private$/kept with 0 messages, and the 3 copies in its journal" in said


def test_letters_that_went_home_before_an_error_are_counted(onceq_: Shell) -> None:
    ids = []
    for name in ("here", "gone"):
        queue = f"private$/{name}"
        onceq_("queue", "create", queue, "--transactional")
        onceq_.pipe("send", queue, "--dead-letter", data=b"m\n")
        onceq_("queue", "purge", queue, "--yes")
        found = json.loads(onceq_("dead", "list", "--destination", name, "--json"))
        ids += ["--id", found[0]["id"]]
    onceq_("queue", "delete", "private$/gone", "--yes")
    assert "1 dead letter returned" in onceq_("dead", "return", *ids, code=2)
    assert onceq_.error.count("failed: {") == 1
    assert len(json.loads(onceq_("dead", "list", "--destination", "gone", "--json"))) == 1


@pytest.mark.parametrize("verb", ["return", "purge", "move"])
def test_what_a_transaction_holds_is_said(onceq_: Shell, verb: str) -> None:
    """Finding K16: "2 returned", and nothing of the third."""
    name = f"private$/held{verb}"
    onceq_("queue", "create", name, "--transactional")
    onceq_("queue", "create", f"{name}-to", "--transactional")
    onceq_.pipe("send", name, "--dead-letter", data=b"1\n2\n3\n")
    onceq_("queue", "purge", name, "--yes")
    words: tuple[str, ...] = ("dead", verb, "--destination", f"held{verb}")
    words += ("--to", f"{name}-to") if verb == "return" else ("--yes",) if verb == "purge" else ()
    queue = "system$;deadxact"
    if verb == "move":
        queue = name
        onceq_.pipe("send", name, data=b"1\n2\n3\n")
        words = ("job", "start", "move", name, "--to", f"{name}-to")
    with onceq.connect(str(onceq_.alpha)) as qm, qm.transaction() as tx:
        found = [
            message.lookup_id
            for message in qm.peek_many(queue)
            if f"held{verb}" in message.destination
        ]
        tx.receive(queue, lookup_id=found[0])
        where = queue if verb == "move" else "SYSTEM$;DEADXACT or SYSTEM$;DEADLETTER"
        said = f"1 message in {where} is held by transactions now, and passed over"
        if verb != "purge":
            assert said in onceq_(*words, "--dry-run")
        told = onceq_(*words)
        assert told.startswith("2 ")
        assert said in told
        tx.abort()
    done = json.loads(onceq_(*words, "--json"))
    assert (done["done"], done["held"]) == (1, 0)
