"""The link of an outgoing queue: an event leads where the table says, and its numbers agree."""

from __future__ import annotations

import pytest

from onceq.core.state.log_space import Space
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.positions import LINKS, Link, LinkEvent
from onceq.model.names import parse_format_name

SESSION, RETRY_US = 7, 9_000_000
PATH: dict[Link, tuple[LinkEvent, ...]] = {
    Link.NONE: (),
    Link.CONNECTING: (LinkEvent.CONNECT,),
    Link.CONNECTED: (LinkEvent.ATTACH,),
    Link.CLOSING: (LinkEvent.ATTACH, LinkEvent.DISCONNECT),
    Link.PUT_OFF: (LinkEvent.PUT_OFF,),
}


def happen(outgoing: OutgoingQueue, event: LinkEvent, session: int = SESSION) -> None:
    outgoing.happens(
        event,
        session=session if event is LinkEvent.ATTACH else 0,
        retry_us=RETRY_US if event is LinkEvent.PUT_OFF else 0,
    )


def queue_with(link: Link) -> OutgoingQueue:
    """An outgoing queue whose link is in that state."""
    (name,) = parse_format_name("DIRECT=OS:B\\private$\\q")
    outgoing = OutgoingQueue(16, Space(), name)
    for event in PATH[link]:
        happen(outgoing, event)
    assert outgoing.link is link
    return outgoing


@pytest.mark.parametrize("link", list(Link))
@pytest.mark.parametrize("event", list(LinkEvent))
def test_an_event_leads_where_the_table_says(event: LinkEvent, link: Link) -> None:
    outgoing, leads = queue_with(link), LINKS[event].get(link)
    if leads is None:
        with pytest.raises(AssertionError, match=event.value):
            happen(outgoing, event)
        leads = link
    else:
        happen(outgoing, event)
    assert outgoing.link is leads
    served = leads in (Link.CONNECTED, Link.CLOSING)
    assert outgoing.session == (SESSION if served else 0)
    assert outgoing.retry_us == (RETRY_US if leads is Link.PUT_OFF else 0)


def test_another_session_takes_over() -> None:
    """Both sides may connect at once."""
    outgoing = queue_with(Link.CLOSING)
    happen(outgoing, LinkEvent.ATTACH, SESSION + 1)
    assert (outgoing.link, outgoing.session) == (Link.CONNECTED, SESSION + 1)
