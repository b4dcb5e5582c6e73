"""Lives of a manager, and two that have one identity, as the core sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onceq.core import inputs
from onceq.core.decision import Decision, Notice
from onceq.core.manager import Manager
from onceq.core.peers.duplicate_identity import MORE
from onceq.core.peers.lives import ENTROPY_BYTES, ORDINAL_MAX, next_stream
from onceq.core.state.peer_table import Lives
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.state.records import Change
from onceq.core.state.setups import encode_rows
from onceq.model import requests
from onceq.model.limits import LIVES_MAX, NOTES_MAX, STREAM_AHEAD_S_MAX
from onceq.model.marks import Now
from onceq.model.settings import Settings
from onceq.packet.acks import TwoLives, order_ack, parse_settling, two_lives
from proof.sim.base.packet_faults import runs_of
from proof.sim.faults import lies
from tests.unit.core.alone import IDENTITY, WALL_S, Core

PEER = b"P" * 16
OTHER = "DIRECT=OS:P\\private$\\q"


class Life(Core):
    """A core to which peers talk; what it notices is kept."""

    def __post_init__(self) -> None:
        self.noticed: list[dict[str, object]] = []
        super().__post_init__()

    def kept(self, decision: Decision) -> None:
        super().kept(decision)
        found = [a for a in decision.actions if isinstance(a, Notice)]
        self.noticed += [{"what": n.what, **n.values} for n in found]

    def opened(self, session: int, life: bytes, stamp: int) -> None:
        self.step(inputs.SessionOpened(session, PEER, "10.0.0.9", 0, True, False, life * 16, stamp))

    @property
    def clashes(self) -> list[tuple[str, int]]:
        status: Any = self.ask(requests.Look("status", ""))
        return [(c.found, c.count) for c in status.clashes]


@pytest.fixture
def core() -> Life:
    return Life()


def restarted(core: Core, wall_s: int, entropy: bytes) -> Manager:
    other = Manager(IDENTITY, Settings())
    now = Now(wall_s * 1_000_000, 1)
    entropy = entropy.ljust(ENTROPY_BYTES, b"\0")
    other.recover(now, None, core.records, core.manager.position, entropy=entropy)
    return other


# ---- what a life gives ------------------------------------------------------------------------


def test_a_stamp_is_the_clock_and_never_below_the_last(core: Life) -> None:
    assert core.manager.state.stamp == WALL_S + 1
    assert restarted(core, WALL_S + 500, bytes(ENTROPY_BYTES)).state.stamp == WALL_S + 500
    assert restarted(core, WALL_S - 9_000, bytes(ENTROPY_BYTES)).state.stamp == WALL_S + 2


def test_two_copies_that_start_in_one_second_differ(core: Life) -> None:
    one = restarted(core, WALL_S + 5, bytes(range(24))).state
    other = restarted(core, WALL_S + 5, bytes(range(1, 25))).state
    assert one.stamp == other.stamp
    assert one.next_ordinal != other.next_ordinal
    assert one.next_message != other.next_message
    assert one.lives.id != other.lives.id


def test_message_numbers_do_not_begin_inside_what_the_last_life_may_have_given() -> None:
    core = Core()
    core.ask(requests.Send(0, (_item(),)))
    ceiling = core.manager.state.number_ceiling
    assert ceiling > 2
    assert restarted(core, WALL_S, bytes(20) + b"\5\0\0\0").state.next_message == ceiling
    later = bytes(20) + (ceiling + 7).to_bytes(4, "little")
    assert restarted(core, WALL_S, later).state.next_message == ceiling + 8


def _item() -> requests.SendItem:
    from tests.conformance.applications import item

    return item(OTHER, b"x", delivery=1)


def test_behind_the_last_ordinal_the_next_stamp_begins(core: Life) -> None:
    step = core.manager._step
    stamp = step.state.stamp
    step.state.next_ordinal = ORDINAL_MAX
    change = Change(WALL_S)
    assert next_stream(step, change) == stamp << 32 | ORDINAL_MAX
    assert next_stream(step, change) == (stamp + 1) << 32 | 1
    assert next_stream(step, change) == (stamp + 1) << 32 | 2
    change.encode()
    step.record(change)
    assert step.state.lives.gave(stamp << 32 | ORDINAL_MAX, stamp + 1, 3)
    assert not step.state.lives.gave((stamp + 1) << 32 | 3, stamp + 1, 3)


def test_lives_that_led_here_are_told_from_others() -> None:
    lives = Lives()
    for stamp in range(10, 13):
        lives.leave(stamp, 105, 100)
    lives.load(json.loads(encode_rows(lives.dump())))
    assert lives.gave(12 << 32 | 100, 13, 100)
    assert lives.gave(11 << 32 | 104, 13, 100)
    assert not lives.gave(11 << 32 | 105, 13, 100)
    assert not lives.gave(11 << 32 | 99, 13, 100)
    assert not lives.gave(13 << 32 | 100, 13, 100)
    for stamp in range(100, 100 + LIVES_MAX):
        lives.leave(stamp, 105, 100)
    assert lives.gave(11 << 32 | 99, 5_000, 100), "so long ago that nobody knows"


# ---- two processes with one identity ------------------------------------------------------------


def test_a_restart_is_no_clash(core: Life) -> None:
    core.opened(1, b"x", 100)
    core.opened(2, b"y", 101)
    core.step(inputs.SessionAcked(1, 0, 0))
    core.step(inputs.SessionClosed(1, "gone"))
    assert core.clashes == []


def own_answered(core: Life, life: bytes, outgoing: int) -> None:
    guid = IDENTITY.guid
    core.step(inputs.SessionOpened(1, guid, "10.0.0.9", outgoing, True, False, life, 7))


def test_a_copy_that_answers_where_this_one_called_is_a_clash(core: Life) -> None:
    core.ask(requests.Send(0, (_item(),)))
    (waiting,) = core.manager.state.outgoing.values()
    own_answered(core, b"another life" + bytes(4), waiting.number)
    ((found, count),) = core.clashes
    assert "answered where this one called" in found
    assert count == 1
    assert core.noticed[0]["what"] == "identity-clash"
    assert not core.manager._step.sessions.peers, "nothing is exchanged with it"


def test_this_manager_itself_or_who_calls_in_its_name_is_no_clash(core: Life) -> None:
    core.ask(requests.Send(0, (_item(),)))
    (waiting,) = core.manager.state.outgoing.values()
    own_answered(core, core.manager.life[0], waiting.number)
    own_answered(core, b"", waiting.number)
    own_answered(core, b"anybody can say so"[:16], 0)
    assert core.clashes == []


def test_an_earlier_life_that_opens_a_session_after_a_later_one_is_at_work(core: Life) -> None:
    core.opened(1, b"x", 100)
    core.opened(3, b"y", 101)
    core.opened(2, b"x", 100)
    assert core.clashes == [], "its connection is older than that of the later life"
    core.opened(4, b"x", 100)
    ((found, count),) = core.clashes
    assert "two processes" in found
    assert count == 1
    assert core.noticed[0]["what"] == "identity-clash"


def test_an_earlier_life_that_answers_what_was_sent_after_a_later_one_came(core: Life) -> None:
    core.opened(1, b"x", 100)
    core.manager._step.sessions.peers[1].messages = 5
    core.opened(2, b"y", 101)
    core.step(inputs.SessionAcked(1, 5, 0))
    assert core.clashes == []
    core.step(inputs.SessionAcked(1, 6, 0))
    assert len(core.clashes) == 1


def test_an_earlier_life_that_has_risen_above_the_later_one_is_at_work(core: Life) -> None:
    """Each of two copies begins streams that are newer than those of the other, of which it hears:
    the stamp rises, and the life is the same."""
    core.opened(1, b"x", 100)
    core.opened(3, b"y", 101)
    core.opened(2, b"x", 102)
    assert core.clashes == [], "its connection is older than that of the later life"
    core.opened(4, b"x", 103)
    ((found, _),) = core.clashes
    assert "two processes" in found


def test_a_life_that_has_met_no_other_one_may_rise(core: Life) -> None:
    core.opened(1, b"x", 100)
    core.opened(2, b"x", 102)
    core.opened(3, b"y", 103)
    core.opened(4, b"z", 104)
    assert core.clashes == []


def test_two_lives_with_one_stamp_are_copies(core: Life) -> None:
    core.opened(1, b"x", 100)
    core.opened(2, b"y", 100)
    assert len(core.clashes) == 1
    warnings = {s: parse_settling(p.warning) for s, p in core.manager._step.sessions.peers.items()}
    assert warnings == {1: TwoLives(b"y" * 16, 100), 2: TwoLives(b"x" * 16, 100)}


def test_a_copy_that_was_away_when_two_were_found_is_told_when_it_is_back(core: Life) -> None:
    core.opened(1, b"x", 100)
    core.opened(3, b"y", 101)
    core.step(inputs.SessionClosed(3, "broken"))
    core.opened(4, b"x", 100)
    assert len(core.clashes) == 1
    peers = core.manager._step.sessions.peers
    assert parse_settling(peers[4].warning) == TwoLives(b"y" * 16, 101)
    core.opened(5, b"y", 101)
    assert parse_settling(peers[5].warning) == TwoLives(b"x" * 16, 101)


def test_a_later_start_is_not_taken_for_a_copy_that_was_away(core: Life) -> None:
    core.opened(1, b"x", 100)
    core.opened(2, b"y", 100)
    core.step(inputs.SessionClosed(1, "broken"))
    core.step(inputs.SessionClosed(2, "broken"))
    core.opened(3, b"z", 105)
    assert core.manager._step.sessions.peers[3].warning == b""
    assert core.clashes[0][1] == 1


def test_warnings_do_not_take_the_room_of_questions(core: Life) -> None:
    """A session with one of two copies begins with one, each time; what was to be asked on it was
    dropped then, where there was little room."""
    core.opened(1, b"x", 100)
    peer = core.manager._step.sessions.peers[1]
    peer.notes.extend([b"question"] * NOTES_MAX)
    core.opened(2, b"y", 100)
    assert list(peer.notes) == [b"question"] * NOTES_MAX
    core.step(inputs.Room(1, 2, 1 << 20))
    assert peer.warning == b"", "it leaves although there is no room among the notes"
    assert len(peer.notes) == NOTES_MAX - 1


def test_who_is_told_of_another_life_of_his_says_so(core: Life) -> None:
    core.opened(1, b"x", 100)
    mine, state = core.manager.life, core.manager.state
    for life, heard_s, clashes in (
        (b"z" * 16, WALL_S, 0), (mine[0], 0, 0), (b"z" * 16, 0, 1)
    ):  # fmt: skip
        # From when on it was heard says whether it is a stranger.
        state.first_heard[PEER] = heard_s
        packet = two_lives(
            TwoLives(life, 5), own=PEER, own_message=1, sent_time=WALL_S,
            destination_manager=IDENTITY.guid,
        )  # fmt: skip
        (run,) = runs_of([packet])
        core.step(inputs.Arrived(1, run))
        assert len(core.clashes) == clashes


def test_that_a_stranger_is_answered_makes_it_nobody_who_knows_of_lives(core: Life) -> None:
    """It had only to send a message that is refused: what answers it is an outgoing queue, too."""
    core.opened(1, b"x", 100)
    refused = lies.messages(PEER, r"OS:A\private$\none", [b"x"], stream=WALL_S << 32 | 1,
                            sent_s=WALL_S)  # fmt: skip
    core.step(inputs.Arrived(1, *runs_of([refused])))
    assert core.manager._step.sessions.peers[1].outgoing, "it is answered"
    told = lies.doubled(PEER, IDENTITY.guid, b"z" * 16, 5, sent_s=WALL_S)
    core.step(inputs.Arrived(1, *runs_of([told])))
    assert core.clashes == []
    core.ask(requests.Send(0, (_item(),)))
    (outgoing,) = (o for o in core.manager.state.outgoing.values() if o.name.host)
    core.step(inputs.SessionOpened(2, PEER, "10.0.0.9", outgoing.number, True))
    core.step(inputs.Arrived(2, *runs_of([told])))
    assert len(core.clashes) == 1, "somebody here sends to it"


def test_who_is_told_again_of_the_same_life_doubts_nothing_newer(core: Life) -> None:
    """What came since is not among what the copy has."""
    core.opened(1, b"x", 100)
    core.manager.state.first_heard[PEER] = 0

    def hears(life: bytes) -> int:
        packet = two_lives(
            TwoLives(life * 16, 5), own=PEER, own_message=1, sent_time=WALL_S,
            destination_manager=IDENTITY.guid,
        )  # fmt: skip
        core.ask(requests.Send(0, (_item(),)))
        (run,) = runs_of([packet])
        core.step(inputs.Arrived(1, run))
        (outgoing,) = core.manager.state.outgoing.values()
        return max(outgoing.elsewhere.values())

    first = hears(b"y")
    assert first > 0
    assert hears(b"y") == first
    assert hears(b"z") > first
    assert core.clashes[0][1] == 3


# ---- streams that nobody here has begun ---------------------------------------------------------


def acked(core: Life, stream: int, number: int = 3, source: bytes = PEER) -> None:
    packet = order_ack(
        own=source, own_message=9, sent_time=WALL_S, address="", stream=stream, number=number,
        destination_manager=IDENTITY.guid,
    )  # fmt: skip
    (run,) = runs_of([packet])
    core.step(inputs.Arrived(1, run))


def waiting(core: Life) -> None:
    """Something waits for P, which is connected."""
    from tests.conformance.applications import item

    core.ask(requests.Commit(0, (item(OTHER, b"x"),)))
    (outgoing,) = core.manager.state.outgoing.values()
    core.step(
        inputs.SessionOpened(
            1, PEER, "10.0.0.9", outgoing.number, True, False, b"p" * 16, 100
        )
    )  # fmt: skip


def test_a_stream_of_another_life_is_noticed_and_ours_rise_above_it(core: Life) -> None:
    waiting(core)
    strange = (WALL_S + 7_000) << 32 | 99
    acked(core, strange)
    assert len(core.clashes) == 1
    assert core.manager.state.stamp == WALL_S + 7_001
    (outgoing,) = core.manager.state.outgoing.values()
    assert outgoing.unacknowledged == 1, "nothing of ours was acknowledged by that"
    stamp = core.manager.state.stamp
    acked(core, strange)
    assert core.manager.state.stamp == stamp, "it is below already"
    assert core.again().state.stamp == stamp + 1, "durable"


@pytest.mark.parametrize(
    ("stamp", "source", "waits", "clashes"),
    [
        (WALL_S + STREAM_AHEAD_S_MAX + 100, PEER, True, 1),
        (WALL_S + 50, b"?" * 16, True, 0),
        (WALL_S + 50, PEER, False, 0),
    ],
)
def test_who_may_make_streams_rise(
    core: Life, stamp: int, source: bytes, waits: bool, clashes: int
) -> None:
    if waits:
        waiting(core)
    else:
        core.opened(1, b"x", 100)
    before = core.manager.state.stamp
    acked(core, stamp << 32 | 5, source=source)
    assert core.manager.state.stamp == before
    assert len(core.clashes) == clashes


def test_a_stream_of_an_earlier_life_of_ours_is_nothing_strange(core: Life) -> None:
    waiting(core)
    (outgoing,) = core.manager.state.outgoing.values()
    acked(core, outgoing.stream)
    assert core.clashes == []
    other = Life()
    other.manager = restarted(core, WALL_S + 60, bytes(ENTROPY_BYTES))
    other.records = core.records
    waiting(other)
    next(iter(other.manager.state.outgoing.values())).transmitted[TRANSACTIONAL_LANE] = 1
    acked(other, outgoing.stream, 1)
    assert other.clashes == []


def test_more_of_a_stream_of_an_earlier_life_than_was_sent_is_of_another_copy(core: Life) -> None:
    waiting(core)
    (outgoing,) = core.manager.state.outgoing.values()
    other = Life()
    other.manager = restarted(core, WALL_S + 60, bytes(ENTROPY_BYTES))
    other.records = core.records
    waiting(other)
    acked(other, outgoing.stream)
    assert other.clashes == [(MORE, 1)]
