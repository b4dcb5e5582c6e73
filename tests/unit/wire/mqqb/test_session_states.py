"""A session takes in each state the packets of its table, and is ended by every other one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceq.errors import ProtocolState
from onceq.wire.mqqb.internal import Closed, Establish, Parameters, SessionHeader, UserPackets
from onceq.wire.mqqb.session import BEGIN, TAKES, Session, SessionState
from tests.unit.wire.mqqb.pair import SETTINGS, A, B, users

SENT: dict[type, Callable[[], bytes]] = {
    Establish: lambda: Establish(B, A, 0).encode(),
    Parameters: lambda: Parameters(500, 20_000, 64).encode(),
    SessionHeader: lambda: SessionHeader(0, 0, 0, 0, 0, 64).encode(),
    UserPackets: lambda: bytes(users(1).data),
}
WAY: dict[SessionState, tuple[type, ...]] = {
    SessionState.WAITING_ESTABLISH: (),
    SessionState.WAITING_PARAMETERS: (Establish,),
    SessionState.OPEN: (Establish, Parameters),
}
"""How the side that was connected to comes into each state."""


def session_in(state: SessionState) -> Session:
    session = Session(initiator=False, own_id=A, settings=SETTINGS, now_us=0)
    for kind in WAY[state]:
        session.receive(SENT[kind](), 0)
    assert session._state is state
    return session


@pytest.mark.parametrize("kind", list(SENT), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("state", list(WAY))
def test_a_packet_leads_where_the_table_says(state: SessionState, kind: type) -> None:
    session, leads = session_in(state), TAKES[state].get(kind, SessionState.CLOSED)
    events = session.receive(SENT[kind](), 0)
    assert session._state is leads
    if leads is SessionState.CLOSED:
        assert isinstance(events[-1], Closed)
        assert isinstance(events[-1].error, ProtocolState)


def test_each_side_begins_where_the_table_says() -> None:
    for initiator, state in BEGIN.items():
        made = Session(initiator=initiator, own_id=A, settings=SETTINGS, now_us=0)
        assert made._state is state
    made.close("done")
    assert made._state is SessionState.CLOSED
    assert made.receive(SENT[Establish](), 0) == []


def test_every_state_has_a_row() -> None:
    assert set(TAKES) == set(SessionState)
