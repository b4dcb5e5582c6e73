"""What operators may do to outgoing queues and to the whole manager."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Steer(Enum):
    """What an operator may do to an outgoing queue, and, from DISCONNECT on, to the manager."""

    PAUSE = "pause"
    RESUME = "resume"
    RESEND = "resend"
    DISCONNECT = "disconnect"
    CONNECT = "connect"
    TIDY = "tidy"
    FORGET_UNANSWERED = "forget-unanswered"
    RELOAD = "reload"
    DROP_DAMAGED = "drop-damaged"
    SCRUB = "scrub"
    SCRUB_STOP = "scrub-stop"


@dataclass(frozen=True, slots=True)
class SteerOutgoing:
    """Pause, resume or resend; or, with no destination, an action of the whole manager.

    Answer: None; of TIDY how many outgoing queues went, of FORGET_UNANSWERED and DROP_DAMAGED how
    many messages, of RELOAD what changed (the host's).

    Attributes:
        destination: Of DROP_DAMAGED the number of an entry ("": all), of SCRUB the bytes a second
            ("": as the setting ``scrub_bytes_s`` says).
    """

    owner: int
    request: int
    destination: str
    action: Steer
