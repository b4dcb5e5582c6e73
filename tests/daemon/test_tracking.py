"""What became of a message: tracked, asked on the command line, returned from the dead letters."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import onceq
import onceq.aio
from onceq.client.plans.send import QUEUE
from onceq.client.threads import letters
from onceq.errors import InvalidParameter, ReceiveTimeout, TransactionOver
from onceq.model.message import Journal
from tests.daemon.shell import Shell
from tests.daemon.two import HERE, NOWHERE, PLAIN, THERE, WAIT, Q, Two


def states(found: tuple[onceq.Ending, ...]) -> dict[str, str]:
    return {one.destination: one.state for one in found}


def test_each_copy_is_followed_to_its_end(two: Two) -> None:
    sent = two.alpha.send_tracked(f"{HERE},{THERE},{NOWHERE}", b"m", transactional=True)
    assert set(sent.destinations) == {HERE, THERE, NOWHERE}
    two.beta.receive(Q, timeout=WAIT)
    two.alpha.receive(Q, timeout=WAIT)
    ends = sent.wait(WAIT)
    assert states(ends) == {HERE: "received", THERE: "received", NOWHERE: "refused"}
    assert all(one.settled and one.at for one in ends)
    again = two.alpha.track(str(sent.id))
    assert again.outcomes() == ends, "whoever knows its identifier may ask"


def test_before_and_after_the_commit(two: Two) -> None:
    with two.alpha.transaction() as tx:
        tx.send(THERE, b"0")
        tracked = tx.send_tracked(THERE, b"1")
        tx.send(THERE, b"2")
        with pytest.raises(TransactionOver):
            tracked.outcomes()
    assert tx.sent is not None
    assert tracked.id == tx.sent[1]
    assert [two.beta.receive(Q, timeout=WAIT).body for _ in range(3)] == [b"0", b"1", b"2"]
    assert states(tracked.wait(WAIT)) == {THERE: "received"}


def test_an_aborted_message_has_no_outcome(two: Two) -> None:
    tx = two.alpha.transaction()
    tracked = tx.send_tracked(THERE, b"1")
    tx.abort()
    with pytest.raises(TransactionOver):
        tracked.wait(0)


def test_what_waits_says_why(two: Two) -> None:
    two.alpha.send(THERE, b"0", transactional=True)
    two.beta.receive(Q, timeout=WAIT)
    two.alpha.admin.pause(THERE)
    tracked = two.alpha.send_tracked(THERE, b"1", transactional=True)
    (one,) = tracked.outcomes()
    assert one.state == "waiting"
    assert "paused" in one.text
    with pytest.raises(ReceiveTimeout, match="waiting"):
        tracked.wait(0)
    two.alpha.purge(THERE)
    assert states(tracked.wait(WAIT)) == {THERE: "removed"}


def test_it_survives_a_restart(two: Two) -> None:
    tracked = two.alpha.send_tracked(THERE, b"1", transactional=True)
    two.beta.receive(Q, timeout=WAIT)
    tracked.wait(WAIT)
    two.alpha.close()
    two.alpha = onceq.open(str(two.path / "ALPHA"), listen="")
    (one,) = two.alpha.track(tracked.id).outcomes()
    assert one.state == "received"


def test_several_follow_one_message(two: Two) -> None:
    first = two.alpha.send_tracked(THERE, b"1", transactional=True)
    second = two.alpha.send_tracked(NOWHERE, b"2", transactional=True)
    two.beta.receive(Q, timeout=WAIT)
    for _ in range(2):
        assert states(first.wait(WAIT)) == {THERE: "received"}
        assert states(second.wait(WAIT)) == {NOWHERE: "refused"}
    assert two.alpha.queue(QUEUE)["messages"] == 3, "nobody has taken them away"


def test_acknowledgments_of_ones_own_and_tracking_exclude_each_other(two: Two) -> None:
    with pytest.raises(InvalidParameter, match="admin_queue"):
        two.alpha.send_tracked(THERE, b"", transactional=True, admin_queue=PLAIN)


def test_for_tasks(two: Two) -> None:
    async def main() -> None:
        two.alpha.close()
        qm = await onceq.aio.open(str(two.path / "ALPHA"), listen="")
        async with qm, qm.transaction() as tx:
            inside = await tx.send_tracked(HERE, b"1")
        async with await onceq.aio.open(str(two.path / "ALPHA"), listen="") as qm:
            alone = await qm.send_tracked(HERE, b"2", transactional=True)
            await qm.receive_many(Q, timeout=WAIT)
            ends = await alone.wait(WAIT)
            assert states(ends) == {HERE: "received"}
            assert states(await qm.track(inside.id).wait(WAIT)) == {HERE: "received"}

    asyncio.run(main())


# ---- dead letters ------------------------------------------------------------------------------


def died(two: Two, *bodies: bytes, **more: Any) -> list[letters.Letter]:
    """Dead letters of a queue that is not there."""
    for body in bodies:
        sent = two.alpha.send_tracked(NOWHERE, body, transactional=True, **more)
        sent.wait(WAIT)
        queue = str(more.get("dead_letter_queue", letters.DEAD_XACT))
        two.alpha.peek(queue, timeout=WAIT, message_id=sent.id)
    return list(letters.letters(two.alpha, [letters.DEAD_XACT], letters.ALL, 0))


def test_a_dead_letter_goes_home_as_it_was(two: Two) -> None:
    (letter,) = died(
        two, b"17 chairs", label="order", app_specific=17, correlation_id=b"c" * 20,
        extension=b"mine", response_queue=PLAIN, time_to_be_received=3600,
    )  # fmt: skip
    assert (letter.reason, letter.why) == ("refused", "there is no such queue")
    two.beta.create_queue(r"private$\nowhere", transactional=True)
    found = letters.give_back(two.alpha, [letters.DEAD_XACT], letters.ALL, 0)
    assert (found.sent, found.kept) == (1, {})
    assert two.alpha.queue(letters.DEAD_XACT)["messages"] == 0
    again = two.beta.receive(r"private$\nowhere", timeout=WAIT)
    before = letter.message
    for name in (
        "body", "label", "app_specific", "correlation_id", "extension", "response_queue",
        "acknowledge", "admin_queue", "time_to_be_received", "destination", "transactional",
    ):  # fmt: skip
        assert getattr(again, name) == getattr(before, name), name
    assert again.journal & Journal.DEADLETTER
    assert (before.returned, again.returned) == (0, 1)


def test_found_by_an_identifier_it_is_what_it_is_when_found_by_its_place(two: Two) -> None:
    """Q-15, SND-22: a search hands out the class that tells the reason, and the move count."""
    first, second = died(two, b"1", b"2", correlation_id=b"c" * 20)
    dead = letters.DEAD_XACT
    for letter in (first, second):
        found = two.alpha.peek(dead, message_id=letter.message.id)
        assert found == letter.message
        assert found.message_class == 0x8000
    assert two.alpha.peek(dead, correlation_id=b"c" * 20) == first.message
    two.beta.send(Q, b"0", transactional=True)
    id = two.beta.send(Q, b"moved", transactional=True)
    two.beta.move(Q, two.beta.peek(Q, message_id=id), ";aside")
    assert two.beta.peek(Q + ";aside", message_id=id).move_count == 1


def test_what_dies_again_stops_going_round(two: Two) -> None:
    died(two, b"1")
    for expected in range(1, 4):
        found = letters.give_back(two.alpha, [letters.DEAD_XACT], letters.ALL, 0, returns_max=3)
        assert found.sent == 1
        message = two.alpha.peek(letters.DEAD_XACT, timeout=WAIT)
        assert message.returned == expected
    found = letters.give_back(two.alpha, [letters.DEAD_XACT], letters.ALL, 0, returns_max=3)
    assert found.sent == 0
    (why,) = found.kept
    assert "3 times" in why


def test_limits_and_filters(two: Two) -> None:
    died(two, b"1", b"2", b"3", label="a")
    died(two, b"4", label="b")
    which = letters.filter_of(label="A")
    found = letters.give_back(two.alpha, [letters.DEAD_XACT], which, 0, limit=2, dry_run=True)
    assert (found.sent, found.more) == (2, True)
    assert two.alpha.queue(letters.DEAD_XACT)["messages"] == 4, "nothing was done"
    for options, count in (
        ({"reason": "refused"}, 4), ({"reason": "0x8000"}, 4), ({"reason": "expired"}, 0),
        ({"destination": "BETA/private$/nowhere"}, 4), ({"label": "b"}, 1),
        ({"origin": two.alpha.id}, 4), ({"origin": two.beta.id}, 0),
    ):  # fmt: skip
        which = letters.filter_of(**options)
        assert letters.discard(two.alpha, [letters.DEAD_XACT], which, 0, dry_run=True) == count
    assert letters.discard(two.alpha, [letters.DEAD_XACT], letters.filter_of(label="b"), 0) == 1
    assert letters.discard(two.alpha, [letters.DEAD_XACT], letters.ALL, 0) == 3
    with pytest.raises(InvalidParameter, match="no reason"):
        letters.filter_of(reason="bored")
    with pytest.raises(InvalidParameter, match="GUID"):
        letters.filter_of(origin="ALPHA")


def test_a_plain_dead_letter_goes_home(two: Two) -> None:
    two.beta.send(PLAIN, b"1")
    two.beta.send(
        rf"DIRECT=OS:ALPHA\{Q}", b"to a transactional queue", journal=1, transactional=False
    )
    two.alpha.peek(letters.DEAD, timeout=WAIT)
    (letter,) = letters.letters(two.alpha, [letters.DEAD], letters.ALL, 0)
    assert letter.message.message_class == 0x800A
    assert letters.give_back(two.alpha, [letters.DEAD], letters.ALL, 0).sent == 1
    assert two.alpha.receive(Q, timeout=WAIT).body == b"to a transactional queue"
    assert two.alpha.queue(letters.DEAD)["messages"] == 0


def test_a_queue_of_ones_own_is_returned_from(two: Two) -> None:
    two.alpha.create_queue(r"private$\graves", transactional=True)
    died(two, b"1", dead_letter_queue=r"private$\graves")
    found = letters.give_back(two.alpha, [r"private$\graves"], letters.ALL, 0)
    assert found.sent == 1
    assert two.alpha.receive(r"private$\graves", timeout=WAIT).returned == 1, "and dies there again"


# ---- the command line --------------------------------------------------------------------------


@pytest.mark.slow
def test_the_commands(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/orders", "--transactional", "--journal")
    said = onceq_.pipe("send", "private$/orders", "--track", data=b"17 chairs\n").decode()
    id = said.split("tracked: ")[1].split(";")[0]
    assert "arrived" in onceq_("outcome", id)
    onceq_.pipe("receive", "private$/orders", "-n", "1")
    (one,) = json.loads(onceq_("outcome", id, "--json"))
    assert (one["state"], one["settled"]) == ("received", True)
    assert id in onceq_("journal", "list", "private$/orders")
    assert "17 chairs" in onceq_("journal", "show", id, "private$/orders")
    assert "1 copy removed" in onceq_("journal", "purge", "private$/orders", "--yes")

    nobody = "DIRECT=OS:ALPHA/private$/gone"
    onceq_("queue", "create", "private$/gone", "--transactional")
    onceq_.pipe("send", nobody, "--dead-letter", data=b"a\nb\n")
    onceq_("queue", "delete", "private$/gone", "--yes")
    listed = onceq_("dead", "list")
    assert listed.count("deleted") == 2
    assert "0xc000" in listed
    letter = json.loads(onceq_("dead", "list", "--json"))[0]
    assert "its queue was deleted with it" in onceq_("dead", "show", letter["id"])
    other = letter["id"].replace("/", "\\").rpartition("\\")[0] + "/7"
    assert "no message" in (onceq_("dead", "show", other, code=2) or onceq_.error)
    assert "no identifier" in (onceq_("dead", "show", "x", code=2) or onceq_.error)
    assert "2 dead letters would be returned" in onceq_("dead", "return", "--dry-run")
    onceq_("dead", "return", code=2)
    assert "no queue" in onceq_.error
    assert "2" in onceq_("dead", "return", "--to", "DIRECT=OS:ALPHA/private$/orders")
    assert onceq_.pipe("receive", "private$/orders", "-n", "2") == b"a\nb\n"
    assert "0 dead letters" in onceq_("dead", "purge", "--yes")
    onceq_("dead", "list", "--older-than", "soon", code=2)
    assert "not an age" in onceq_.error
    onceq_("outcome", "{00000000-0000-0000-0000-000000000001}\\1", code=6)
