"""Endings of an outgoing queue: counted by class, and what of them a checkpoint keeps."""

from __future__ import annotations

import json
import struct

import pytest

from onceq.core.state.outgoing_queues import OTHER, EndingCount, Endings, LateRefusal
from onceq.core.state.snapshot import restore
from onceq.core.state.state import State
from onceq.model import requests
from onceq.model.message import PLAIN
from onceq.model.resultcodes import MessageClass as C
from onceq.model.run import Run
from tests.unit.core.alone import IDENTITY, Core

FAR = r"DIRECT=OS:BETA\private$\q"
DOUBT = C.NACK_RECEIVE_TIMEOUT_AT_SENDER


def test_each_class_has_a_row_and_what_nobody_knows_has_one() -> None:
    endings = Endings()
    endings.note(C.NACK_ACCESS_DENIED, 0, 2, letters=0, at_s=5)
    endings.note(C.NACK_ACCESS_DENIED, 0, 1, letters=1, at_s=7)
    for unknown in (0xC123, 0xFFFF):
        endings.note(unknown, 0, 1, letters=0, at_s=8)
    assert list(endings) == [
        EndingCount(C.NACK_ACCESS_DENIED, 0, 3, 1, 7), EndingCount(OTHER, 0, 2, 0, 8),
    ]  # fmt: skip
    again = Endings()
    again.load(json.loads(json.dumps(endings.dump())))
    assert list(again) == list(endings)


@pytest.mark.parametrize("letters", [(True, True), (False, True), (False, False)])
def test_what_was_in_doubt_counts_where_it_belongs(letters: tuple[bool, bool]) -> None:
    endings = Endings()
    cause = C.NACK_REACH_QUEUE_TIMEOUT
    endings.note(DOUBT, cause, 2, letters=2 * letters[0], at_s=5)
    endings.settle(DOUBT, cause, C.NACK_ACCESS_DENIED, letters=letters, at_s=6)
    doubtful, refused = endings
    assert (doubtful.messages, doubtful.letters) == (1, int(letters[0]))
    assert (refused.message_class, refused.messages, refused.letters) == (
        C.NACK_ACCESS_DENIED, 1, int(letters[1]),
    )  # fmt: skip
    endings.settle(DOUBT, cause, C.NACK_ACCESS_DENIED, letters=letters, at_s=7)
    (refused,) = endings
    assert refused.messages == 2


def counted() -> Core:
    """Something was sent to BETA, and an operator has removed it."""
    core = Core()
    core.ask(requests.Commit(0, (requests.SendItem(FAR, PLAIN, Run.of([b"m"])),)))
    core.ask(requests.PurgeQueue(FAR))
    return core


def test_a_checkpoint_keeps_them_and_an_older_one_has_none() -> None:
    new = b"".join(counted().manager.snapshot().encode())
    version, size = struct.unpack_from("<II", new)
    head = json.loads(new[8 : 8 + size])
    del head["endings"]
    text = json.dumps(head, separators=(",", ":")).encode()
    old = struct.pack("<II", version, len(text)) + text + new[8 + size :]
    found = []
    for checkpoint in (new, old):
        state = State(IDENTITY)
        restore(state, checkpoint)
        (outgoing,) = state.outgoing.values()
        found.append([(one.message_class, one.messages) for one in outgoing.endings])
    assert found == [[(C.NACK_DELETED, 1)], []]


def test_a_checkpoint_of_before_there_were_late_refusals_is_read() -> None:
    core = counted()
    (outgoing,) = core.manager.state.outgoing.values()
    outgoing.endings.refuse_late(LateRefusal("{..}\\7", C.NACK_ACCESS_DENIED, 9))
    core.manager.state.drained[5] = outgoing.number
    new = b"".join(core.manager.snapshot().encode())
    version, size = struct.unpack_from("<II", new)
    head = json.loads(new[8 : 8 + size])
    del head["late"], head["drained"]
    for _, rows in head["endings"]:
        for row in rows:
            row.pop()
    text = json.dumps(head, separators=(",", ":")).encode()
    old = struct.pack("<II", version, len(text)) + text + new[8 + size :]
    found = []
    for checkpoint in (new, old):
        state = State(IDENTITY)
        restore(state, checkpoint)
        (again,) = state.outgoing.values()
        late = [one.late for one in again.endings]
        found.append((late, list(again.endings.late), state.drained))
        assert [one.messages for one in again.endings] == [1, 1]
    one = LateRefusal("{..}\\7", C.NACK_ACCESS_DENIED, 9)
    assert found == [([0, 1], [one], {5: outgoing.number}), ([0, 0], [], {})]
