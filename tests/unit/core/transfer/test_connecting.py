"""One attempt to connect for all outgoing queues that lead to one address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from onceq.core import inputs
from onceq.core.decision import CloseSession, Connect, Decision
from onceq.core.ending import ending
from onceq.core.inputs import DirectoryChanged, Reconfigure
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.positions import Link
from onceq.model import requests
from onceq.model.directory import Computer, PublicQueue, Snapshot
from onceq.model.identity import guid_text
from onceq.model.message import PLAIN
from onceq.model.requests import Steer
from onceq.model.run import Run
from onceq.model.settings import Settings
from tests.unit.core.alone import WAITS, Core
from tests.unit.core.effort import stays_the_same

PEER, OTHER = b"P" * 16, b"O" * 16
BY_NAME = r"DIRECT=OS:BETA\private$\q{}"
BY_GUID = rf"PRIVATE={guid_text(PEER)}\{{:08x}}"
RETRY_S = int(Settings().connect_retry_s)


class Caller(Core):
    """A core that notes whom it calls, and whom it does not want."""

    def __post_init__(self) -> None:
        self.calls: list[Connect] = []
        self.turned_away: list[int] = []
        super().__post_init__()

    def kept(self, decision: Decision) -> None:
        super().kept(decision)
        for action in decision.actions:
            if isinstance(action, Connect):
                self.calls.append(action)
            elif isinstance(action, CloseSession):
                self.turned_away.append(action.session)

    def send(self, *names: str) -> None:
        for name in names:
            item = requests.SendItem(name, PLAIN, bodies=Run.of([b"x"]))
            self.ask(requests.Commit(0, (item,)))

    def send_all(self, form: str, count: int) -> None:
        self.send(*map(form.format, range(count)))

    def called(self) -> Connect:
        """The one call since the last time."""
        (call,) = self.calls
        self.calls.clear()
        return call

    def fails(self, why: str = "nobody answers there") -> None:
        self.step(inputs.ConnectFailed(self.called().outgoing, why))

    def opens(self, session: int = 1, peer: bytes = PEER) -> None:
        number = self.called().outgoing
        self.step(inputs.SessionOpened(session, peer, "10.0.0.9", number, True, False, b"x", 1))

    def steer(self, action: Steer, name: str = "") -> object:
        return self.ask(requests.SteerOutgoing(name, action))

    @property
    def queues(self) -> list[OutgoingQueue]:
        return list(self.manager.state.outgoing.values())

    @property
    def links(self) -> list[Link]:
        return [queue.link for queue in self.queues]

    @property
    def contacts(self) -> int:
        return len(self.manager._step.sessions.contacts)

    def finish(self) -> int:
        """Go on with works that take several steps; how many more they took."""
        count = 0
        while self.manager.at_work:
            self.step(inputs.Tick())
            count += 1
        return count


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step looks at few outgoing queues."""
    monkeypatch.setattr(ending, "QUEUES_AT_ONCE", 2)


@pytest.mark.parametrize("form", [BY_NAME, BY_GUID])
def test_one_call_is_made_for_all_queues_of_an_address(form: str) -> None:
    core = Caller()
    core.send_all(form, 3)
    assert core.links == [Link.CONNECTING] * 3
    core.opens()
    assert core.links == [Link.CONNECTED] * 3
    core.send(form.format(9))
    assert core.links == [Link.CONNECTED] * 4
    assert not core.calls


def test_addresses_are_called_apart() -> None:
    core = Caller()
    core.send(r"DIRECT=OS:BETA\q", r"DIRECT=OS:GAMMA\q", r"DIRECT=TCP:10.0.0.1\q")
    core.send(BY_GUID.format(1), "DIRECT=HTTP://beta/msmq/q", "DIRECT=HTTP://beta/msmq/r")
    assert len(core.calls) == 6


def test_all_are_tried_again_together() -> None:
    core = Caller()
    core.send_all(BY_NAME, 3)
    core.fails()
    assert core.links == [Link.PUT_OFF] * 3
    assert {queue.trouble.reason for queue in core.queues} == {"nobody answers there"}
    core.pass_time(RETRY_S)
    assert core.links == [Link.CONNECTING] * 3
    core.fails("it hung up")
    assert {queue.trouble.reason for queue in core.queues} == {"it hung up"}
    assert {queue.trouble.attempts for queue in core.queues} == {2}
    core.pass_time(RETRY_S)
    core.opens()
    assert core.links == [Link.CONNECTED] * 3


def test_who_comes_later_does_not_try_what_has_just_failed() -> None:
    core = Caller()
    core.send_all(BY_NAME, 1)
    core.fails()
    core.pass_time(RETRY_S - 1)
    core.send(BY_NAME.format(1))
    assert not core.calls
    late = core.queues[1]
    assert (late.link, late.trouble.reason) == (Link.PUT_OFF, "nobody answers there")
    core.pass_time(1)
    core.opens()
    assert core.links == [Link.CONNECTED] * 2


def test_an_operator_has_it_tried_at_once() -> None:
    core = Caller()
    core.send_all(BY_NAME, 3)
    core.fails()
    core.steer(Steer.RESEND, BY_NAME.format(1))
    assert core.links == [Link.PUT_OFF, Link.CONNECTING, Link.PUT_OFF]
    core.opens()
    assert core.links == [Link.CONNECTED] * 3


def test_what_an_operator_has_tried_in_vain_is_tried_again() -> None:
    core = Caller()
    core.send_all(BY_NAME, 3)
    core.fails()
    core.pass_time(1)
    core.steer(Steer.RESEND, BY_NAME.format(1))
    core.fails()
    assert core.links == [Link.PUT_OFF] * 3
    core.pass_time(RETRY_S)
    core.opens()
    assert core.links == [Link.CONNECTED] * 3


def test_a_lost_session_is_made_anew_once() -> None:
    core = Caller()
    core.send_all(BY_NAME, 3)
    core.opens()
    core.step(inputs.SessionClosed(1, "broken"))
    assert core.links == [Link.PUT_OFF] * 3
    core.pass_time(RETRY_S)
    core.opens(2)
    assert [queue.session for queue in core.queues] == [2] * 3


def test_addresses_that_nobody_needs_are_forgotten() -> None:
    core = Caller()
    core.send_all(BY_NAME, 2)
    core.opens()
    for number in range(2):
        core.ask(requests.PurgeQueue(BY_NAME.format(number)))
    assert core.contacts == 1
    core.step(inputs.SessionClosed(1, "idle", True))
    assert core.contacts == 0
    core.send(r"DIRECT=OS:GAMMA\q")
    core.ask(requests.PurgeQueue(r"DIRECT=OS:GAMMA\q"))
    core.fails()
    assert core.contacts == 0


def test_a_name_that_is_pinned_to_another_holds_up_no_other_name() -> None:
    core = Caller()
    core.step(Reconfigure(replace(Settings(), pin_peers=True), {}))
    core.send(r"DIRECT=OS:BETA\q", r"DIRECT=OS:GAMMA\q")
    for session, call in enumerate(core.calls, 1):
        core.step(
            inputs.SessionOpened(session, PEER, "10.0.0.9", call.outgoing, True, False, b"x", 1)
        )
    core.calls.clear()
    for session in (1, 2):
        core.step(inputs.SessionClosed(session, "broken"))
    core.pass_time(RETRY_S)
    beta, gamma = core.calls
    core.step(inputs.SessionOpened(3, OTHER, "10.0.0.9", beta.outgoing, True, False, b"x", 1))
    core.step(inputs.SessionOpened(4, PEER, "10.0.0.9", gamma.outgoing, True, False, b"x", 1))
    assert core.turned_away == [3]
    assert core.links == [Link.PUT_OFF, Link.CONNECTED]


@pytest.mark.parametrize("pinned", [False, True])
def test_names_of_one_computer_are_pinned_apart(*, pinned: bool) -> None:
    core = Caller()
    core.step(Reconfigure(replace(Settings(), pin_peers=pinned), {}))
    queues = [PublicQueue(bytes([number]) * 16, "BETA", f"q{number}") for number in (1, 2)]
    core.step(DirectoryChanged(Snapshot([Computer("BETA")], queues)))
    core.send(*(f"PUBLIC={guid_text(queue.guid)}" for queue in queues))
    assert len(core.calls) == (2 if pinned else 1)


def test_a_disconnected_manager_calls_nobody_until_it_is_connected() -> None:
    core = Caller()
    core.send_all(BY_NAME, 3)
    core.fails()
    core.steer(Steer.DISCONNECT)
    assert core.links == [Link.NONE] * 3
    assert core.contacts == 0
    core.pass_time(10 * RETRY_S)
    assert not core.calls
    core.steer(Steer.CONNECT)
    core.opens()
    assert core.links == [Link.CONNECTED] * 3


@pytest.mark.usefixtures("few")
def test_what_happens_to_many_takes_several_steps_and_happens_to_all() -> None:
    core = Caller()
    core.send_all(BY_NAME, 7)
    core.fails()
    assert core.links.count(Link.PUT_OFF) == 2
    assert core.finish() == 3
    assert core.links == [Link.PUT_OFF] * 7
    core.pass_time(RETRY_S)
    assert core.links == [Link.CONNECTING] * 7
    core.opens()
    assert core.links.count(Link.CONNECTED) == 2
    core.finish()
    assert core.links == [Link.CONNECTED] * 7
    core.step(inputs.SessionClosed(1, "broken"))
    assert core.links.count(Link.PUT_OFF) == 2
    core.finish()
    assert core.links == [Link.PUT_OFF] * 7
    assert core.steer(Steer.DISCONNECT) is WAITS
    core.finish()
    assert core.links == [Link.NONE] * 7
    assert core.steer(Steer.CONNECT) is WAITS
    core.finish()
    core.opens(2)
    core.finish()
    assert core.links == [Link.CONNECTED] * 7


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("form", [BY_NAME, BY_GUID])
def test_a_session_that_is_over_before_all_have_it_is_lost_for_all(form: str) -> None:
    core = Caller()
    core.send_all(form, 7)
    core.opens()
    core.step(inputs.SessionClosed(1, "broken"))
    core.finish()
    assert core.links == [Link.PUT_OFF] * 7
    core.pass_time(2 * RETRY_S)
    core.opens(2)
    core.finish()
    assert core.links == [Link.CONNECTED] * 7


@pytest.mark.usefixtures("few")
def test_who_calls_while_a_session_is_still_being_lost_serves_all() -> None:
    core = Caller()
    core.send_all(BY_GUID, 7)
    core.opens()
    core.finish()
    core.step(inputs.SessionClosed(1, "broken"))
    core.step(inputs.SessionOpened(2, PEER, "10.0.0.9", 0, True, False, b"x", 1))
    core.finish()
    assert [queue.session for queue in core.queues] == [2] * 7


@pytest.mark.usefixtures("few")
def test_an_answer_that_comes_while_others_are_still_woken_counts_for_them() -> None:
    core = Caller()
    core.send_all(BY_NAME, 7)
    core.fails()
    core.finish()
    core.now_us += RETRY_S * 1_000_000
    core.step(inputs.Tick())
    core.fails()
    core.finish()
    assert core.links == [Link.PUT_OFF] * 7
    core.pass_time(RETRY_S)
    core.opens()
    core.finish()
    assert core.links == [Link.CONNECTED] * 7


@pytest.mark.usefixtures("few")
def test_operators_may_change_their_mind_meanwhile() -> None:
    core = Caller()
    core.send_all(BY_NAME, 7)
    core.fails()
    core.finish()
    core.steer(Steer.DISCONNECT)
    core.steer(Steer.CONNECT)
    core.finish()
    core.opens()
    core.finish()
    assert core.links == [Link.CONNECTED] * 7
    core.steer(Steer.CONNECT)
    core.steer(Steer.DISCONNECT)
    core.finish()
    assert set(core.links) == {Link.CLOSING}


# ---- how long a step is ----------------------------------------------------------------------


def failed(count: int) -> Callable[[], None]:
    core = Caller()
    core.send_all(BY_NAME, count)
    return core.fails


def opened(count: int, form: str = BY_NAME) -> Callable[[], None]:
    core = Caller()
    core.send_all(form, count)
    return core.opens


def closed(count: int) -> Callable[[], None]:
    core = Caller()
    core.send_all(BY_NAME, count)
    core.opens()
    core.finish()
    return partial(core.step, inputs.SessionClosed(1, "broken"))


def due(count: int) -> Callable[[], None]:
    core = Caller()
    core.send_all(BY_NAME, count)
    core.fails()
    core.finish()
    core.now_us += RETRY_S * 1_000_000
    return partial(core.step, inputs.Tick())


def steered(count: int, action: Steer = Steer.CONNECT) -> Callable[[], object]:
    core = Caller()
    core.send_all(BY_NAME, count)
    core.fails()
    core.finish()
    return partial(core.steer, action)


@pytest.mark.tier("rest")
@pytest.mark.parametrize(
    "make",
    [failed, opened, partial(opened, form=BY_GUID), closed, due, steered,
     partial(steered, action=Steer.DISCONNECT)],
)  # fmt: skip
def test_no_step_is_longer_the_more_queues_an_address_has(
    make: Callable[[int], Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "QUEUES_AT_ONCE", 8)
    stays_the_same(make, small=20, large=500)
