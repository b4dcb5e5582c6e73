"""What operators see of an outgoing queue: MSMQ's word follows from its link and what is said."""

from __future__ import annotations

from onceq.core import inputs
from onceq.core.state.positions import Link
from onceq.core.transfer.outgoing_queue import OF_LINK, STATES
from onceq.model import requests
from onceq.model.message import Properties
from onceq.model.requests import Steer, SteerOutgoing
from onceq.model.run import Run
from onceq.model.views.queues import OutgoingView
from onceq.model.views.view import Page
from tests.unit.core.alone import Core

THERE = "DIRECT=OS:B\\private$\\q"
SESSION = 3


def waiting() -> Core:
    """A manager with a message for another one, which it tries to reach."""
    core = Core()
    item = requests.SendItem(THERE, Properties(), Run.of([b"m"]))
    core.ask(requests.Commit(0, (item,)))
    return core


def number(core: Core) -> int:
    (outgoing,) = core.manager.state.outgoing.values()
    return outgoing.number


def open_session(core: Core) -> None:
    core.step(inputs.SessionOpened(SESSION, b"B" * 16, "10.0.0.2", number(core)))


def steer(core: Core, action: Steer, name: str = "") -> None:
    core.ask(SteerOutgoing(name, action))


def seen(core: Core) -> str:
    """The state that an operator sees."""
    page = core.ask(requests.Look("outgoing"))
    assert isinstance(page, Page)
    (view,) = page.views
    assert isinstance(view, OutgoingView)
    return view.state


def test_the_word_follows_the_link() -> None:
    core = waiting()
    assert seen(core) == "WAITING"
    core.step(inputs.ConnectFailed(number(core), "nobody there"))
    assert seen(core) == "DISCONNECTED"
    core.pass_time(60)
    assert seen(core) == "WAITING"
    open_session(core)
    assert seen(core) == "CONNECTED"
    core.step(inputs.SessionClosed(SESSION, "lost"))
    assert seen(core) == "DISCONNECTED"


def test_what_an_operator_said_comes_first() -> None:
    core = waiting()
    open_session(core)
    steer(core, Steer.PAUSE, THERE)
    assert seen(core) == "ONHOLD"
    core.step(inputs.SessionClosed(SESSION, "lost"))
    assert seen(core) == "ONHOLD"
    steer(core, Steer.RESUME, THERE)
    assert seen(core) == "WAITING"


def test_a_manager_that_is_disconnected_closes_its_sessions_first() -> None:
    core = waiting()
    open_session(core)
    steer(core, Steer.DISCONNECT)
    assert seen(core) == "DISCONNECTING"
    core.step(inputs.SessionClosed(SESSION, "as asked"))
    assert seen(core) == "DISCONNECTED"
    steer(core, Steer.CONNECT)
    assert seen(core) == "WAITING"


def test_every_link_has_a_word_of_msmq() -> None:
    assert set(OF_LINK) == set(Link)
    assert set(OF_LINK.values()) < set(STATES)
    assert len(set(STATES.values())) == len(STATES)
