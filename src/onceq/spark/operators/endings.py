"""The rules of arriving and ending on arrays: refused or stored, received or too late, who is told.

Pure functions of numpy arrays; ``tests/property/test_spark_settle.py`` compares them with the core
on messages of all kinds. Times are whole seconds since 1970, as packets have them.

Upholds: I11 (one end), I12 (one dead letter), I13 (true acknowledgments), I14, I15.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from onceq.model.classes import MessageClass
from onceq.model.message import Acknowledge, Journal
from onceq.model.time import NEVER_S
from onceq.spark.operators.rules import Flags, Ints

INSECURE: Final = (
    MessageClass.NACK_BAD_DESTINATION_QUEUE, MessageClass.NACK_ACCESS_DENIED,
    MessageClass.NACK_BAD_SIGNATURE, MessageClass.NACK_BAD_ENCRYPTION,
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
)  # fmt: skip
"""They tell a stranger what exists here, so that they may be suppressed (ACK-7)."""

NOT_YET: Final = -1
"""The time of what has not happened."""
_NEGATIVE: Final = 0x8000


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages as they arrive, an array for each field.

    Attributes:
        transactional: Whether they were sent in transactions.
        encrypted: Whether their bodies are.
        sent, arrived, received: When; ``received``: NOT_YET where it was not.
        reach, receive: Their two lifetimes, from when they were sent; NEVER_S: none.
        level: Acknowledgments that they ask for (``Acknowledge``); 0 without a queue for them.
        journal: Copies that they ask for (``Journal``).
        known, ordered, journaled: Of their queues: whether there is one, whether it is
            transactional, and whether it keeps a journal.
        quiet: Whether nothing is to be told or journaled of messages to queues of that name.
    """

    transactional: Flags
    encrypted: Flags
    sent: Ints
    arrived: Ints
    received: Ints
    reach: Ints
    receive: Ints
    level: Ints
    journal: Ints
    known: Flags
    ordered: Flags
    journaled: Flags
    quiet: Flags


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of them.

    Attributes:
        classes: A reason why it did not arrive or was not received, ACK_RECEIVE where it was, or
            ACK_REACH_QUEUE where it waits in its queue.
        told_arrival, told_end: Classes of the acknowledgment messages that are due; 0: none.
        final: Class of the final acknowledgment that its sender's queue manager gets; 0: none.
        dead_here, dead_ordered_here: Whether it is in the dead-letter queue, or the transactional
            one, of this computer.
        dead_at_source, journal_at_source: Whether its sender's queue manager keeps a copy when it
            has heard of the end.
        journal_here: Whether the journal of its queue has a copy.
    """

    classes: Ints
    told_arrival: Ints
    told_end: Ints
    final: Ints
    dead_here: Flags
    dead_ordered_here: Flags
    dead_at_source: Flags
    journal_at_source: Flags
    journal_here: Flags


def settle(m: Messages, refusals: Ints, now_s: Ints, *, permit_insecure_nacks: bool) -> Settled:
    """Decide what became of messages until ``now_s``.

    Args:
        refusals: Why they cannot enter their queues, 0 where they can: what ``refused`` says, and
            NACK_QUEUE_EXCEED_QUOTA where nothing else is wrong but there is no room.
    """
    classes = ended(m, refusals, now_s)
    # The sender goes by the name alone; here a queue that there is not is no quiet one.
    heard = ~(m.quiet & m.known)
    level, journal = np.where(heard, m.level, 0), np.where(heard, m.journal, 0)
    negative = (classes & _NEGATIVE) != 0
    received = classes == MessageClass.ACK_RECEIVE
    told_arrival = np.where(refusals > 0, refusals, MessageClass.ACK_REACH_QUEUE)
    asked = np.where(refusals > 0, Acknowledge.NEGATIVE_ARRIVAL, Acknowledge.POSITIVE_ARRIVAL)
    tell = (level & asked) != 0
    if not permit_insecure_nacks:
        tell &= ~np.isin(refusals, INSECURE)
    late = classes == MessageClass.NACK_RECEIVE_TIMEOUT
    tell_end = (received & ((level & Acknowledge.POSITIVE_RECEIVE) != 0)) | (
        late & ((level & Acknowledge.NEGATIVE_RECEIVE) != 0)
    )
    # A refusal is always told to the sender's queue manager, another end where it asked (EOD-39).
    final = m.transactional & ((refusals > 0) | ((journal > 0) & (received | late)))
    wants_dead = (journal & Journal.DEADLETTER) != 0
    return Settled(
        classes=classes,
        told_arrival=np.where(tell, told_arrival, 0),
        told_end=np.where(tell_end, classes, 0),
        final=np.where(final, classes, 0),
        dead_here=~m.transactional & negative & wants_dead,
        dead_ordered_here=classes == MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE,
        dead_at_source=final & negative & wants_dead & ~m.quiet,
        journal_at_source=final & received & ((journal & Journal.JOURNAL) != 0),
        journal_here=received & m.journaled,
    )


def refused(m: Messages) -> Ints:
    """Why messages cannot enter their queues, however empty these are (EOD-28, EOD-29); 0 where
    they can. The first reason counts.

    A sender whose clock is ahead is not punished; a time to reach the queue of 0 means one attempt,
    and this is it (CNF-4).
    """
    age = np.maximum(m.arrived - m.sent, 0)
    lifetime = np.minimum(np.where(m.reach == 0, NEVER_S, m.reach), m.receive)
    late = (lifetime < NEVER_S - 1) & (age > lifetime)
    mismatch = np.where(
        m.transactional,
        MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE,
        MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE,
    )
    reasons: list[Any] = [
        MessageClass.NACK_BAD_DESTINATION_QUEUE,
        mismatch,
        MessageClass.NACK_BAD_ENCRYPTION,
        MessageClass.NACK_REACH_QUEUE_TIMEOUT,
    ]
    found: Ints = np.select(
        [~m.known, m.ordered != m.transactional, m.encrypted, late], reasons, default=0
    ).astype(np.int64)
    return found


def expiries(m: Messages) -> Ints:
    """When messages that wait in their queues expire; NEVER_S: never."""
    return np.where(m.receive < NEVER_S - 1, np.minimum(m.sent + m.receive, NEVER_S - 1), NEVER_S)


def in_time(m: Messages, expires: Ints) -> Flags:
    """Which messages were received before they expired."""
    found: Flags = (m.received != NOT_YET) & ((expires == NEVER_S) | (m.received < expires))
    return found


def ended(m: Messages, refusals: Ints, now_s: Ints) -> Ints:
    """The class of each message's end, or of its arrival where it has none yet (CNF-1)."""
    expires = expiries(m)
    late = (expires != NEVER_S) & ((m.received != NOT_YET) | (now_s >= expires))
    reasons: list[Any] = [
        refusals, MessageClass.ACK_RECEIVE, MessageClass.NACK_RECEIVE_TIMEOUT,
    ]  # fmt: skip
    found: Ints = np.select(
        [refusals > 0, in_time(m, expires), late], reasons, default=MessageClass.ACK_REACH_QUEUE
    ).astype(np.int64)
    return found
