"""Every cell of the table of the port for other queue managers, on real ones.

Upholds: I28.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from onceq.errors import OnceqError
from onceq.model import requests as r
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.message import Delivery
from onceq.model.resultcodes import MessageClass
from onceq.packet.acks import final_ack, order_ack
from onceq.packet.arrived import ArrivedRun
from onceq.wire.mqqb.internal import Establish, Parameters, SessionHeader
from tests.matrix import peers as table
from tests.matrix.crowd import ANOTHER, BEHIND, NAME, Crowd, Host
from tests.matrix.peers import cell
from tests.matrix.speaker import SIGNATURE, Speaker, message

ORDERS, SPARE = rf"OS:{NAME}\private$\orders", rf"OS:{NAME}\private$\spare"
_TELL = r"OS:TELL\private$\acks"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    made = Crowd(tmp_path_factory.mktemp("crowd"))
    yield made
    made.close()


# ---- packets -----------------------------------------------------------------------------------


def user(crowd: Crowd, guid: bytes, to: str, **more: object) -> bytes:
    return message(guid, to, message=crowd.number(), **more)  # type: ignore[arg-type]


def order_acked(crowd: Crowd, guid: bytes, run: ArrivedRun, to: bytes) -> bytes:
    return order_ack(
        own=guid, own_message=crowd.number(), sent_time=int(time.time()), address="",
        destination_manager=to, stream=run.stream, number=run.first_number,
    )  # fmt: skip


def final_acked(crowd: Crowd, guid: bytes, run: ArrivedRun, to: bytes) -> bytes:
    return final_ack(
        own=guid, own_message=crowd.number(), sent_time=int(time.time()), destination_manager=to,
        message_class=MessageClass.ACK_RECEIVE, stream=run.stream, number=run.first_number,
        previous=run.first_previous, source=to, message=run.first_message,
    )  # fmt: skip


def made(crowd: Crowd, who: str, packet: str, run: ArrivedRun | None = None) -> bytes:
    """A packet of somebody; ``run``: what it acknowledges."""
    guid, to = crowd.guid(who), crowd.host(who).guid
    run = run or crowd.message_of_another(who)
    makers: dict[str, Callable[[], bytes]] = {
        table.ESTABLISH: lambda: Establish(guid, NO_GUID, 0).encode(),
        table.PARAMETERS: lambda: Parameters(500, 20_000, 64).encode(),
        table.SESSION_ACK: lambda: SessionHeader(0, 0, 0, 0, 0, 64).encode(),
        table.EXPRESS: lambda: user(crowd, guid, SPARE, delivery=Delivery.EXPRESS, admin=_TELL),
        table.RECOVERABLE: lambda: user(crowd, guid, SPARE, admin=_TELL),
        table.TRANSACTIONAL: lambda: user(crowd, guid, ORDERS, stream=crowd.stream(), admin=_TELL),
        table.NO_QUEUE: lambda: user(
            crowd, guid, rf"{ORDERS}-more", stream=crowd.stream(), admin=_TELL),
        table.ADMINISTRATION: lambda: user(
            crowd, guid, SPARE, message_class=MessageClass.ACK_REACH_QUEUE, admin=_TELL),
        table.OF_OTHERS: lambda: user(crowd, crowd.guids[BEHIND], ORDERS, stream=crowd.stream()),
        table.FOR_OTHERS: lambda: user(crowd, guid, "", manager=crowd.guids[ANOTHER]),
        table.ORDER_ACK: lambda: order_acked(crowd, guid, run, to),
        table.FINAL_ACK: lambda: final_acked(crowd, guid, run, to),
        table.ORDER_ACK_OTHER: lambda: order_acked(crowd, guid, run, to),
        table.FINAL_ACK_OTHER: lambda: final_acked(crowd, guid, run, to),
    }  # fmt: skip
    return makers[packet]()


# ---- whoever is not let in ---------------------------------------------------------------------


def test_the_table_is_complete() -> None:
    everybody = (*table.STRANGERS, *table.IMPOSTORS, *table.KNOWN)
    cells = {cell(who, packet) for who in everybody for packet in table.PACKETS}
    assert cells - {"-"} == set(table.MEANING), "each kind of cell stands in the table"
    assert all(set(row) == set(table.PACKETS) for row in table.KNOWN.values())


@pytest.mark.slow
@pytest.mark.parametrize("who", table.STRANGERS)
def test_of_a_stranger_no_byte_is_parsed(crowd: Crowd, who: str) -> None:
    """Whatever he begins with; and he hears nothing but TLS, which says nothing of who this is."""
    host = crowd.host(who)
    before = host.parsed()
    for packet in table.PACKETS:
        with contextlib.suppress(OSError), crowd.connected(who) as own:
            own.settimeout(60)
            own.sendall(made(crowd, who, packet))
            heard = b""
            while data := own.recv(1 << 16):
                heard += data
            assert SIGNATURE not in heard
    assert host.parsed() == before, "nothing was parsed"
    assert table.STRANGERS[who] in crowd.reasons[who]


@pytest.mark.slow
def test_a_certificate_is_for_one_guid(crowd: Crowd) -> None:
    host = crowd.secure
    before = host.parsed()
    speaker = crowd.speaker(table.IMPOSTOR)
    assert not speaker.session.opened
    assert speaker.heard == 0
    assert host.parsed() > before, "that is how it was found"
    assert table.IMPOSTORS[table.IMPOSTOR][1] in host.process.said
    speaker.close()


@pytest.mark.slow
@pytest.mark.parametrize("who", [table.PLAIN_IMPOSTOR, table.PLAIN_OTHER])
def test_a_plain_host_is_nobody_else(crowd: Crowd, who: str) -> None:
    speaker = crowd.speaker(who)
    while not speaker.cut:
        speaker.listen()
    assert not speaker.arrived, "nothing was sent to it"
    crowd.secure.parsed()  # by then the log is written
    assert table.IMPOSTORS[who][1] in crowd.secure.process.said
    speaker.close()


# ---- whoever has a session ---------------------------------------------------------------------


class Visit:
    """Somebody with a session, and what comes of each of his packets."""

    def __init__(self, crowd: Crowd, who: str) -> None:
        self.crowd, self.who = crowd, who
        self.host: Host = crowd.host(who)
        self.speaker: Speaker = crowd.speaker(who)
        assert self.speaker.session.opened
        self._run: ArrivedRun | None = None

    def outcome(self, packet: str) -> str:
        """What becomes of a packet."""
        if packet in (table.ESTABLISH, table.PARAMETERS):
            return table.TAKEN if self.speaker.session.opened else table.NO_SESSION
        if packet == table.SESSION_ACK:
            return table.TAKEN if self.speaker.acknowledge() else table.ENDED
        if packet == table.ORDER_ACK:
            self.crowd.send_to(self.who)
            self._run = self.speaker.message()
        before, told, disbelieved = self._seen(), self._told(), self._disbelieved()
        acknowledged = self._run if packet in (table.ORDER_ACK, table.FINAL_ACK) else None
        data = made(self.crowd, self.who, packet, acknowledged)
        self.speaker.send(data, recoverable=packet not in EXPRESSES)
        after, now_told, now_disbelieved = self._seen(), self._told(), self._disbelieved()
        if not self._goes_on():
            assert (after, now_told) == (before, told), f"{packet} has changed something"
            return table.ENDED
        if after != before:
            changed = {what for what in after if after[what] != before.get(what)}
            assert CHANGES[packet] in changed, f"{packet} has changed {changed}"
            return table.TAKEN
        if now_told != told:
            ((reason, count),) = (now_told - told).items()
            assert count == 1
            if packet in (table.TRANSACTIONAL, table.NO_QUEUE):
                ended = self.speaker.told(self.crowd.streams[-1])
                assert ended.message_class == reason
            return REFUSED[reason]
        return table.IGNORED if now_disbelieved > disbelieved else table.DROPPED

    def _goes_on(self) -> bool:
        """Whether the session goes on behind a packet; if not he comes again."""
        # It is acknowledged as soon as it is there, and judged then: so one more has to follow.
        if self.speaker.send(made(self.crowd, self.who, table.ORDER_ACK_OTHER), recoverable=False):
            return True
        self.speaker.close()
        self.speaker = self.crowd.speaker(self.who)
        return False

    def _disbelieved(self) -> int:
        """How many acknowledgments did not count."""
        counts = self.host.ask(r.Look("status")).disbelieved
        return sum(count for what, count in counts.items() if "acknowledgment" in what)

    def _seen(self) -> dict[str, int]:
        """What a packet may change."""
        found = {}
        for queue in self.host.ask(r.Look("queues")).views:
            if not queue.system:
                found[queue.name] = queue.messages
        for queue in self.host.ask(r.Look("outgoing")).views:
            name = queue.destination.upper()
            if guid_text(self.crowd.guids[ANOTHER]).upper() in name:
                found["for another"] = queue.messages
            victim = self.crowd.victim(self.who)
            for who in (self.who, victim):
                if guid_text(self.crowd.guids[who]).upper() in name and "00000007" in name:
                    what = "victim" if who == victim else "own"
                    found[f"{what} unacknowledged"] = queue.unacknowledged
                    found[f"{what} awaiting"] = queue.awaiting_final
        return found

    def _told(self) -> Counter[int]:
        """Classes of refusals that somebody is told of."""
        found = self.host.admin.ask(r.Receive(f"DIRECT={_TELL}", peek=True, count_max=1000))
        if isinstance(found, OnceqError):
            return Counter()
        classes = [one.message_class for one in found]  # type: ignore[attr-defined]
        return Counter(one for one in classes if one & 0x8000)

    def over(self) -> None:
        """He leaves."""
        self.speaker.close()


REFUSED = {
    int(MessageClass.NACK_ACCESS_DENIED): table.DENIED,
    int(MessageClass.NACK_BAD_DESTINATION_QUEUE): table.NOWHERE,
}
EXPRESSES = (table.EXPRESS, table.ORDER_ACK, table.ORDER_ACK_OTHER)
CHANGES = {
    table.EXPRESS: "spare",
    table.RECOVERABLE: "spare",
    table.ADMINISTRATION: "spare",
    table.TRANSACTIONAL: "orders",
    table.OF_OTHERS: "orders",
    table.FOR_OTHERS: "for another",
    table.ORDER_ACK: "own unacknowledged",
    table.FINAL_ACK: "own awaiting",
}
"""What each packet changes that is taken."""


@pytest.mark.slow
@pytest.mark.parametrize("who", table.KNOWN)
def test_what_becomes_of_each_packet(crowd: Crowd, who: str) -> None:
    visit = Visit(crowd, who)
    found = {packet: visit.outcome(packet) for packet in table.PACKETS}
    visit.over()
    assert found == table.KNOWN[who]
