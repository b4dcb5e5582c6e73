"""What an operator may set, each with its unit, its default and its meaning.

The table in ``docs/reference/settings.md`` is generated from this module. What nobody may set is in
``limits``.

Also here:

* Files of a data directory that others than its queue manager look for, by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from onceq.model.limits import OUTCOME_AGE_S, TIME_TO_REACH_QUEUE_DEFAULT_S

SYSLOG_AUTO: Final = "auto"
KEEP_ASKED: Final = "asked"
KEEP_REFUSED: Final = "refused"
KEEP_ALWAYS: Final = "always"
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "xact_dead_letter": (KEEP_ASKED, KEEP_REFUSED, KEEP_ALWAYS),
}
"""Settings that are one of some words."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator may set; the defaults are those of MSMQ where it has them.

    Every field ends in its unit. Tests set times to milliseconds (EOD-20).
    """

    resend_first_s: float = 30.0
    """Time-outs 1 to 3 of a stream without an order acknowledgment (SeqResend13Time)."""
    resend_second_s: float = 300.0
    """Time-outs 4 to 6 (SeqResend46Time)."""
    resend_third_s: float = 1_800.0
    """Time-outs 7 to 9 (SeqResend79Time)."""
    resend_last_s: float = 21_600.0
    """Time-out 10 and later (SeqResend10Time)."""
    order_ack_delay_s: float = 0.5
    """Quiet time after a transactional message before its order acknowledgment (EOD-33)."""
    order_ack_delay_s_max: float = 10.0
    """Longest time between order acknowledgments while messages arrive (SeqMaxAckDelay)."""
    unacknowledged_messages_max: int = 16_384
    """Messages of one stream that may be under way without an order acknowledgment."""
    order_ack_messages_max: int = 4_096
    """Messages after which an order acknowledgment goes out at once."""
    connect_retry_s: float = 5.0
    """Between attempts to reach a peer (TryConnectInterval)."""
    session_idle_s: float = 300.0
    """A session without user messages for this long is closed (CleanupInterval)."""
    session_init_s: float = 60.0
    """Set-up of a session must end within this time."""
    session_ack_wait_s: float = 20.0
    """Session acknowledgments are due within this time; twice as long for direct names."""
    session_window_messages: int = 1_024
    """Messages under way on one session; MSMQ's own is 64, and the smaller side decides."""
    time_to_reach_queue_s: int = TIME_TO_REACH_QUEUE_DEFAULT_S
    """For messages that set none (LongLiveTime)."""
    computer_quota_bytes: int = 8 << 30
    """Packets of all queues together (X-14)."""
    checkpoint_log_bytes: int = 256 << 20
    """A checkpoint is made at the latest after this much log."""
    log_segment_bytes: int = 16 << 20
    """Size of a segment of the log, 256 KiB to 256 MiB. One is in use and two are kept ready; small
    ones are for tests and small devices. Taken at the start, for segments from then on."""
    disk_reserve_bytes: int = 64 << 20
    """Sends are refused while less than this is free; on a small disk, a quarter of what it has for
    the store, but never less than a segment of the log and a half."""
    scrub_bytes_s: int = 8 << 20
    """Stored bytes that a scrub looks at in a second, if nobody says how many: 16 GiB take half an
    hour."""
    transaction_idle_s: int = 3_600
    """A transaction in which nothing happens for so long is rolled back (0: never); not while it
    waits for a message, nor when prepared."""
    undecided_s: int = 3_600
    """A prepared branch that this manager itself has to decide, and that nobody has decided within
    so long, is rolled back (0: never; counted again after a restart). The tasks of a batch of Spark
    that prepare first wait for the last within this time."""
    history: bool = False
    """Keep a history of all messages as Parquet files, for audits; needs ``onceq[history]``. Taken
    at the start."""
    history_bytes_max: int = 4 << 30
    """Size of these files together; above, the oldest ones go."""
    history_roll_s: int = 60
    """What has happened is in a file after this time, also when little happens."""
    trail_file: bool = True
    """Write each act of administration also into files in the folder ``trail``. Taken at the
    start."""
    trail_file_bytes_max: int = 256 << 20
    """Size of these files together; above, the oldest one goes. Taken at the start."""
    trail_syslog: str = SYSLOG_AUTO
    """Tell each act of administration also to syslog: the path of its socket; auto: /dev/log, where
    there is one; empty: no. Taken at the start."""
    outcome_age_s: int = OUTCOME_AGE_S
    """How long outcomes of commits can be asked for."""
    settle_doubts: bool = True
    """Ask other onceq managers about messages that expired after transmission, and answer them."""
    report_queue: str = ""
    """Format name of the queue for reports on traced messages that pass here; empty: none."""
    hardened: bool = False
    """HTTP only: outgoing queues for other protocols are LOCKED, and managers that connect over
    TCP 1801 are turned away (Q-7). Taken at the start."""
    forward_messages: bool = False
    """Whether messages for other managers are passed on to them (a routing server)."""
    xact_dead_letter: str = KEEP_REFUSED
    """Which transactional messages are kept as dead letters. asked: those that asked for it, as
    MSMQ has it. refused: also what its destination does not take (no such queue, no right, quota,
    not transactional), and what waits for a public queue that the directory has no more. always:
    all that fail, as MSMQ 1.0 and its XactDeadLetterAlways have it (CNF-7)."""
    xact_delay_receive_nack_s: int = 0xFFFF_FFFF
    """How long after a message's time to be received its sender waits for the news, before it is in
    doubt (XactDelayReceiveNack); 4294967295: the smaller of the message's two lifetimes."""
    computer_journal_quota_kb: int = 0xFFFF_FFFF
    """Most that the journal of this computer may hold; above, copies are dropped (Q-14)."""
    quiet_system_queues: bool = False
    """Nothing is acknowledged or source-journaled that is sent to queues named admin_queue$,
    notify_queue$ or order_queue$, as from MSMQ 5.0 on (Q-17)."""
    external_transactions: bool = True
    """Whether this manager takes part in transactions with databases and other managers (XTX-7)."""
    pin_peers: bool = False
    """Whether another queue manager that answers under a known name is turned away until an
    operator says ``onceq peer forget``; otherwise the log tells of it. With an identity it always
    is."""
    own_names_only: bool = False
    """Whether messages for a computer name that is not one of this computer's (``name`` and
    ``addresses``) are refused, as for a queue that is not there; otherwise they are taken, as MSMQ
    does, and the log tells of it. Addresses (``DIRECT=TCP``) are no names."""
    permit_insecure_nacks: bool = True
    """Whether a stranger is told that a queue does not exist, or that it may not send (ACK-7)."""
    remote_transactional_receive: bool = True
    """Applications are local to the manager they connect to (RCV-11); False: strict 2003."""

    def resend_wait_s(self, timeouts: int) -> float:
        """Return the wait for an order acknowledgment after time-outs in a row (EOD-17)."""
        if timeouts < 3:
            return self.resend_first_s
        if timeouts < 6:
            return self.resend_second_s
        if timeouts < 9:
            return self.resend_third_s
        return self.resend_last_s


SETTING_NAMES: Final = tuple(field.name for field in fields(Settings))
AT_START: Final = frozenset(
    (
        "hardened", "history", "history_bytes_max", "log_segment_bytes", "trail_file",
        "trail_file_bytes_max", "trail_syslog",
    )
)  # fmt: skip
"""Those that are taken at the start; what else is here holds from a reload on."""


def as_written(value: object) -> str:
    """The value of a setting as ``onceq.toml`` has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
