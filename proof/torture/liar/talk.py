"""The talk of a liar on one connection, and the answers (``make liar``)."""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass, field

from onceq.model.settings import Settings
from onceq.packet.arrived import USER, ArrivedRun
from onceq.wire.mqqb.session import Arrived, Session

TALK_S = 0.2
"""How long a liar listens after its last word."""
CUT_S = 30.0
"""How long it waits for a session, or for the end of one that must be cut off."""
ENTITY = (
    '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/"'
    ' xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header>'
    '<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1">'
    "<action>MSMQ:lie</action><to>{url}</to>"
    "<id>uuid:1@00000000-0000-0000-0000-000000000000</id></path>"
    '<properties se:mustUnderstand="1"><expiresAt>20380119T031407</expiresAt>'
    "<sentAt>20260101T000000</sentAt></properties></se:Header><se:Body></se:Body></se:Envelope>"
)
"""A message to a URL, as a queue manager posts one."""
STATUS_BYTES = slice(9, 12)
"""Of the answer of an HTTP server."""


@dataclass
class Heard:
    """What came of a session.

    Attributes:
        said: Whether it came about, and the packet was sent.
        cut: Whether the other side has ended it.
        given: Runs of messages that came on it.
    """

    said: bool = False
    cut: bool = False
    given: list[ArrivedRun] = field(default_factory=list)


def talk(
    line: socket.socket, claims: bytes, packet: bytes = b"", *, recoverable: int = 0,
    initiator: bool = True, talk_s: float = TALK_S,
) -> Heard:  # fmt: skip
    """Begin a session as somebody, say one thing, and listen for a while.

    Args:
        packet: What is said; empty: nothing.
        initiator: Whether it was this side that has connected.
        talk_s: How long it listens then.
    """
    heard = Heard()
    until = time.monotonic() + CUT_S
    session = Session(
        initiator=initiator, own_id=claims, settings=Settings(),
        now_us=time.monotonic_ns() // 1000,
    )  # fmt: skip
    if initiator:
        session.start()
    line.settimeout(0.05)
    while time.monotonic() < until and not session.closed:
        if session.opened and not heard.said:
            heard.said, until = True, time.monotonic() + talk_s
            if packet:
                now_us = time.monotonic_ns() // 1000
                session.send(packet, count=1, recoverable=recoverable, now_us=now_us)
        output = b"".join(map(bytes, session.take_output()))
        try:
            if output:
                line.sendall(output)
            data = line.recv(1 << 16)
        except TimeoutError:
            continue
        except OSError:
            data = b""
        if not data:
            heard.cut = True
            return heard
        for event in session.receive(data, time.monotonic_ns() // 1000):
            if isinstance(event, Arrived):
                heard.given += [run for run in event.runs if run.kind == USER]
                session.persisted(event.recoverable, time.monotonic_ns() // 1000)
    heard.cut = heard.cut or session.closed
    return heard


def said_to(line: socket.socket, request: bytes, *, wait_s: float = CUT_S) -> bytes:
    """The head of the answer to an HTTP request; empty: it was cut off without one."""
    said = b""
    with contextlib.suppress(OSError):
        line.settimeout(wait_s)
        line.sendall(request)
        while b"\r\n\r\n" not in said and (data := line.recv(1 << 16)):
            said += data
    return said


def status_in(answer: bytes) -> int:
    """Its status; 0: there was no answer."""
    found = answer[STATUS_BYTES]
    return int(found) if answer.startswith(b"HTTP/") and found.isdigit() else 0
