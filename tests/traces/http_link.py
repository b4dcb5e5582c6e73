"""A connection over HTTP between two managers of a trace: one posts, the other one answers.

Messages and acknowledgments are the real requests of SRMP, made and read by ``wire/srmp``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onceq.core.inputs import Arrived, Input, SessionAcked, SessionOpened
from onceq.model.http import ORDER_QUEUE_PATH, HttpNames
from onceq.model.identity import NO_GUID
from onceq.wire.mqqb import internal
from onceq.wire.srmp.session import Posting, Taking

if TYPE_CHECKING:
    from tests.traces.node import Node


def names_of(node: Node) -> HttpNames:
    """The addresses of a manager."""
    host = node.name.lower()
    return HttpNames(frozenset((host,)), f"http://{host}{ORDER_QUEUE_PATH}")


@dataclass
class HttpLink:
    """See the module."""

    number: int
    one: Node
    other: Node
    url: str
    packets: deque[bytes] = field(default_factory=deque)

    def __post_init__(self) -> None:
        own = self.one.identity.guid
        self.posting = Posting(
            url=self.url, own_id=own, names=lambda: names_of(self.one),
            settings=self.one.settings, now_us=self.one.now_us,
            announced=self.one.manager.state.receipts.of_stream,
        )  # fmt: skip
        self.taking = Taking(
            own_id=self.other.identity.guid, names=lambda: names_of(self.other),
            settings=self.other.settings, now_us=self.other.now_us,
        )  # fmt: skip
        self.posting.start()
        self.posting.tick(self.one.now_us)

    def send(self, packet: bytes) -> None:
        """Post a message, when those before it are answered."""
        self.packets.append(packet)
        self.posting.send(packet, count=1, recoverable=1, now_us=self.one.now_us)

    def posted(self) -> tuple[bytes, bytes] | None:
        """The message that is on its way now, and its request."""
        data = b"".join(self.posting.take_output())
        return (self.packets.popleft(), data) if data else None

    def answered(self) -> bytes:
        """What the other side answers now."""
        return b"".join(self.taking.take_output())

    def inputs(self, name: str, data: bytes, address: str) -> Iterator[Input]:
        """What a manager makes of bytes that arrive."""
        side = self.taking if name == self.other.name else self.posting
        for event in side.receive(data, self.one.now_us):
            if isinstance(event, internal.Opened):
                yield SessionOpened(self.number, NO_GUID, address, 0, http=True)
            elif isinstance(event, internal.Arrived):
                for run in event.runs:
                    yield Arrived(self.number, run)
            elif isinstance(event, internal.Acked):
                yield SessionAcked(self.number, event.messages, event.recoverable, event.refused)
