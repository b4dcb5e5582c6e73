"""What a system must do to be measured, and a client of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

BODY = 1024
"""Bytes of every message."""

Address = dict[str, Any]
"""What a client process needs to find a server; plain enough for JSON."""


class Link(ABC):
    """One client of a system, used by one thread. Messages are taken in the order in which one
    client has sent them."""

    @abstractmethod
    def send(self, bodies: list[bytes]) -> None:
        """One transaction, or one batch where there are none. Comes back when every one of these
        messages survives a power cut."""

    @abstractmethod
    def receive(self, count: int) -> list[bytes]:
        """One transaction: wait for messages, take ``count`` or fewer, at least one. As many are
        there or under way. Comes back when their removal survives a power cut."""

    def rest(self) -> None:  # noqa: B027 - most have nothing to stop
        """Nothing is received for a while: a system that pushes messages stops to do so."""

    @abstractmethod
    def close(self) -> None:
        """Go away."""


@dataclass(frozen=True)
class About:
    """What was measured.

    Attributes:
        versions: Of server and client library.
        settings: Those that differ from the defaults, or matter for durability.
    """

    versions: str
    settings: str


class System(ABC):
    """A system with its servers, in a folder of its own."""

    name: ClassVar[str]
    """Its own, in ``systems.py``."""
    shared: ClassVar[bool] = True
    """Whether several processes can be its clients."""
    alone: ClassVar[bool] = True
    """Whether sending by itself and receiving by itself can be told apart."""
    warm_s: ClassVar[float] = 0.3
    """How long it is used before each measurement: what compiles while it runs takes longer."""

    def __init__(self, folder: Path) -> None:
        """Nothing is started.

        Args:
            folder: A new one, on the disk to measure.
        """
        self.folder = folder

    @abstractmethod
    def start(self) -> None:
        """Start the servers with an empty queue; raises NoServer, with the
        reason and what helps, if that cannot be."""

    @abstractmethod
    def about(self) -> About:
        """What runs."""

    @abstractmethod
    def address(self) -> Address:
        """For ``link``."""

    @classmethod
    @abstractmethod
    def link(cls, address: Address) -> Link:
        """A new client, in whichever process."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Of the servers, with all their children."""

    @abstractmethod
    def close(self) -> None:
        """End the servers, in any state."""
