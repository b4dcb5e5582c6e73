"""Another queue manager at port 1801, spoken by hand: MS-MQQB over any connection, any packet.

Its window is one message, so that each message is acknowledged, or the session ended, before the
next step: what follows from a message is done when ``send`` returns.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time

from onceq.model.identity import NO_GUID
from onceq.model.message import Acknowledge, Delivery, Journal, Properties
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.packet.acks import FinalAck, parse_final_ack
from onceq.packet.address import DIRECT, NOWHERE, ON_DESTINATION, Address
from onceq.packet.arrived import FINAL_ACK, USER, ArrivedRun
from onceq.packet.encode import encode_run, template
from onceq.wire.mqqb.session import Arrived, Session
from tests.matrix.line import WAIT_S

SIGNATURE = b"LIOR"
"""In every packet of the protocol."""
ONE = Settings(session_window_messages=1)


class Speaker:
    """One connection, in either role."""

    def __init__(self, own: socket.socket, guid: bytes, *, initiator: bool = True) -> None:
        self._socket = own
        own.settimeout(WAIT_S)
        self.guid = guid
        self.session = Session(initiator=initiator, own_id=guid, settings=ONE, now_us=_now_us())
        self.arrived: list[ArrivedRun] = []
        self.cut = False
        """Whether the other side has ended it."""
        self.heard = 0
        """Bytes of the other side."""
        self.begun = False
        """Whether the other side has begun the protocol."""
        if initiator:
            self.session.start()
            self._flush()

    def opened(self) -> bool:
        """Whether a session comes about."""
        while not (self.session.opened or self.cut or self.session.closed):
            self.listen()
        return self.session.opened

    def send(self, packet: bytes, *, recoverable: bool) -> bool:
        """One message; whether the session goes on until it is there."""
        if self.cut or not self.session.opened:
            return False
        self.session.send(packet, count=1, recoverable=int(recoverable), now_us=_now_us())
        self._flush()
        while not (self.session.room or self.cut or self.session.closed):
            self.listen()
        return self.session.opened and not self.cut

    def acknowledge(self) -> bool:
        """Say how much has come, as an acknowledgment of its own; whether the session goes on."""
        for slow in (True, False):
            self.session.slow(_now_us(), slow=slow)
        self._flush()
        return self.session.opened

    def message(self) -> ArrivedRun:
        """The last message that the other side has sent."""
        while True:
            for run in reversed(self.arrived):
                if run.kind == USER:
                    return run
            assert not self.cut, "the session ended"
            self.listen()

    def told(self, stream: int) -> FinalAck:
        """How a message of a stream has ended there, as the other side tells it."""
        while True:
            for run in self.arrived:
                if run.kind == FINAL_ACK:
                    found = [parse_final_ack(packet) for packet in run.packets]
                    for ack in found:
                        if ack.stream == stream:
                            return ack
            assert not self.cut, "the session ended"
            self.listen()

    def listen(self) -> None:
        """Hear what comes next, or that the session is over."""
        try:
            data = self._socket.recv(1 << 16)
        except (ConnectionError, ssl.SSLError):
            data = b""
        self.heard += len(data)
        self.begun |= SIGNATURE in data
        self.cut = not data
        for event in self.session.receive(data, _now_us()):
            if isinstance(event, Arrived):
                self.arrived += event.runs
                self.session.persisted(event.recoverable, _now_us())
        self._flush()

    def _flush(self) -> None:
        output = b"".join(map(bytes, self.session.take_output()))
        if output:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                self._socket.sendall(output)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def hang_up(self) -> None:
        """The same while another thread listens."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Answering(threading.Thread):
    """Waits for whoever connects to an address, and says who answers there."""

    def __init__(
        self, guid: bytes, context: ssl.SSLContext | None, *, address: str = "127.0.0.1",
        stays: bool = False,
    ) -> None:  # fmt: skip
        """Take the address.

        Args:
            context: None: no TLS is spoken.
            stays: Whether it hears what comes on a session until that ends; else it hangs up.
        """
        super().__init__(daemon=True)
        self._stays = stays
        self._server = socket.create_server((address, 0))
        self.where = f"{address}:{self._server.getsockname()[1]}"
        self.become(guid, context)

    def become(self, guid: bytes, context: ssl.SSLContext | None) -> None:
        """Whoever connects from now on meets somebody else."""
        self.met: list[Speaker] = []
        """Connections on which TLS, if it is spoken, was set up."""
        self._shows = guid, context, self.met

    def run(self) -> None:
        """See Thread."""
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self._server.accept()
                with plain:
                    self._meet(plain)

    def _meet(self, plain: socket.socket) -> None:
        guid, context, met = self._shows
        plain.settimeout(WAIT_S)
        with contextlib.suppress(OSError):
            own = context.wrap_socket(plain, server_side=True) if context is not None else plain
            one = Speaker(own, guid, initiator=False)
            met.append(one)
            one.opened()
            while self._stays and not one.cut and not one.session.closed:
                one.listen()
                if one.session.opened:
                    one.acknowledge()
            one.close()

    @property
    def given(self) -> bool:
        """Whether any message was sent here."""
        return any(run.kind == USER for one in self.met for run in one.arrived)

    @property
    def begun(self) -> bool:
        """Whether anything of the protocol was sent here."""
        return any(one.begun for one in self.met)

    def hang_up(self) -> None:
        """End the connections that are there."""
        for one in self.met:
            one.hang_up()

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.close()


def _now_us() -> int:
    return time.monotonic_ns() // 1000


def message(
    source: bytes, to: str, *, delivery: Delivery = Delivery.RECOVERABLE, stream: int = 0,
    number: int = 1, message: int, admin: str = "", message_class: int = 0,
    manager: bytes = NO_GUID,
) -> bytes:  # fmt: skip
    """One message.

    Args:
        to: Direct name without "DIRECT="; of another queue manager the number of its queue.
        stream: Of a transactional one.
        admin: Direct name without "DIRECT=" of the queue that shall hear of everything.
    """
    there = Address(ON_DESTINATION, number=7) if manager != NO_GUID else Address(DIRECT, direct=to)
    made = template(
        source=source,
        destination=there,
        destination_manager=manager,
        admin=Address(DIRECT, direct=admin) if admin else NOWHERE,
        properties=Properties(
            delivery=delivery,
            acknowledge=Acknowledge(15) if admin else Acknowledge.NONE,
            journal=Journal.DEADLETTER if stream else Journal.NONE,
        ),
        sent_time=int(time.time()),
        transactional=bool(stream),
        message_class=message_class,
    )
    packets = encode_run(
        made, Run.of([b"x"]), first_message=message, stream=stream,
        first_number=number if stream else 0, transaction=number if stream else 0, first=True,
        last=True,
    )  # fmt: skip
    return bytes(packets.data)
