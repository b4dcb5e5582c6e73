"""What a world is like: every option is drawn from the seed.

Sometimes a kind of fault is off altogether: quiet corners hide bugs too.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from random import Random
from typing import Final

from onceq.model.settings import Settings

MS, SECOND, MINUTE, HOUR = 1_000, 1_000_000, 60_000_000, 3_600_000_000

TRANSACTIONS_MIN: Final = 5
SHARED_MIN: Final = 2
KB: Final = 1 << 10
SEGMENT_MIN: Final = 8 * KB
IDLE_US = 6 * HOUR
"""Time after which a transaction is forgotten."""


@dataclass(frozen=True, slots=True)
class Options:
    """One world. Times in microseconds; ``every`` is a mean time between events, 0 never."""

    managers: int
    queues: int
    transactions: int
    safety_us: int
    think_us: int
    latency_us: int
    jitter: float
    loss: float
    """Share of connections that are cut while they carry something."""
    hostile: float
    """Share of runs of packets that are dropped, repeated or reordered between the sessions."""
    ghosts_every_us: int
    partition_every_us: int
    crash_every_us: int
    power: float
    """Share of crashes in which the power goes, not only the process."""
    slow_sync: float
    pause_every_us: int
    clock_every_us: int
    clock_offset_us: int
    drift_ppm: int
    operator_every_us: int
    space_every_us: int
    sync_failure: float
    segment_bytes: int
    background: bool
    """Checkpoints are written beside the pump, as the daemon does."""
    aborts: float
    lost_owner: float
    lifetimes: float
    """Share of messages that expire."""
    wrong: float
    """Share of sends to queues that are missing, of the wrong kind, or nowhere."""
    spellings: float
    """Share of destinations addressed by another of their names."""
    plain: float
    acknowledged: float
    """Share of sends that ask for acknowledgment messages."""
    body_bytes_max: int
    settings: Settings
    journals: float
    """Share of queues with a journal."""
    own_headers: float
    """Share of sends in which each message has a label of its own."""
    own_dead_letters: float
    """Share of messages with dead letters that name a dead-letter queue of their sender's own."""
    rejects: float
    """Share of received messages that their receiver refuses."""
    moves: float
    """Share of units of work that move something between a queue and its subqueues."""
    poison: float
    """Share of queues that move aside what is given back too often."""
    branches: float
    """Share of units of work that are branches of external transactions."""
    lists: float
    """Share of sends that go to distribution lists; 0: there is no directory."""
    shared: int
    """Transactions that managers and databases share."""
    databases: int
    deaths: float
    """Share of the steps of an application with partners at which it dies."""
    database_every_us: int
    by_row: int
    """Transactions that a row in a database decides."""
    size: float = 1.0
    """Of what the draw says: see ``sized``."""


SIZES: Final = {0.3: 12, 0.6: 4, 1.0: 4}
"""Sizes of worlds, and how many of twenty have each. Most mistakes show in a small story, and many
small worlds are more different from each other than a few large ones; some show only when much has
come together."""


def draw_size(rng: Random) -> float:
    """How large a world is."""
    return rng.choices(list(SIZES), list(SIZES.values()))[0]


def sized(options: Options, size: float) -> Options:
    """The same world with less in it, or more: fewer transactions in a shorter time.

    Faults come the more often the smaller it is, but fewer of them; and the sizes that depend on
    how much is written (segments, checkpoints) follow, or a small world would never reach them.
    """
    if size == 1:
        return options
    often = {
        field.name: int(getattr(options, field.name) * size**0.5)
        for field in fields(options)
        if field.name.endswith("every_us")
    }
    written = int(options.settings.checkpoint_log_bytes * size)
    return replace(
        options,
        size=size,
        transactions=max(int(options.transactions * size), TRANSACTIONS_MIN),
        shared=options.shared and max(int(options.shared * size), SHARED_MIN),
        by_row=options.by_row and max(int(options.by_row * size), SHARED_MIN),
        safety_us=int(options.safety_us * size),
        segment_bytes=max(int(options.segment_bytes * size) // KB * KB, SEGMENT_MIN),
        settings=replace(options.settings, checkpoint_log_bytes=written),
        **often,  # type: ignore[arg-type]
    )


def draw(rng: Random) -> Options:
    """Draw a world of size 1."""

    def sometimes(value: int, share: float = 0.6) -> int:
        return value if rng.random() < share else 0

    def rate(low: float, high: float, share: float = 0.6) -> float:
        drawn = rng.uniform(low, high)
        return drawn if rng.random() < share else 0.0

    safety = rng.choice([10 * MINUTE, HOUR, 6 * HOUR, 50 * HOUR])
    transactions = rng.randint(30, 90)
    options = Options(
        managers=rng.choice([2, 2, 3, 3, 4, 5]),
        queues=rng.randint(1, 4),
        transactions=transactions,
        safety_us=safety,
        think_us=max(safety // (transactions * 2), MS),
        latency_us=rng.choice([100, MS, 20 * MS, 300 * MS]),
        jitter=rng.choice([0.0, 0.5, 4.0]),
        loss=rate(0.0, 0.2),
        hostile=rate(0.02, 0.4, 0.7),
        ghosts_every_us=sometimes(safety // rng.randint(5, 40), 0.8),
        partition_every_us=sometimes(safety // rng.randint(1, 6)),
        crash_every_us=sometimes(safety // rng.randint(2, 16), 0.8),
        power=rng.choice([0.0, 0.5, 1.0]),
        slow_sync=rate(0.0, 0.2, 0.4),
        pause_every_us=sometimes(safety // rng.randint(1, 4), 0.4),
        clock_every_us=sometimes(safety // rng.randint(1, 8), 0.5),
        clock_offset_us=sometimes(5 * MINUTE),
        drift_ppm=sometimes(1_000),
        operator_every_us=sometimes(safety // rng.randint(2, 12), 0.7),
        space_every_us=sometimes(safety // rng.randint(1, 3), 0.3),
        sync_failure=rate(0.0, 0.5, 0.3),
        segment_bytes=rng.choice([16 << 10, 32 << 10, 64 << 10]),
        background=rng.random() < 0.5,
        aborts=0.2,
        lost_owner=rate(0.02, 0.15, 0.7),
        lifetimes=rate(0.05, 0.5),
        wrong=rate(0.02, 0.2),
        spellings=rate(0.1, 0.7, 0.3),
        plain=rate(0.05, 0.4),
        acknowledged=rate(0.1, 0.7),
        body_bytes_max=rng.choice([20, 200, 3_000]),
        settings=draw_settings(rng, safety),
        journals=rate(0.2, 0.9),
        own_dead_letters=rate(0.1, 0.8, 0.5),
        own_headers=0.3,
        rejects=rate(0.05, 0.4, 0.5),
        moves=rate(0.05, 0.4, 0.5),
        poison=rate(0.1, 0.6, 0.4),
        lists=rate(0.1, 0.6, 0.5),
        branches=rate(0.05, 0.4, 0.5),
        shared=sometimes(rng.randint(8, 30), 0.25),
        databases=rng.choice([0, 1, 1, 2]),
        deaths=rate(0.005, 0.06, 0.8),
        database_every_us=sometimes(safety // rng.randint(2, 20), 0.8),
        by_row=sometimes(rng.randint(8, 30), 0.25),
    )
    # One that is shared takes the place of two others: a world is about as much work as before.
    left = max(transactions - 2 * options.shared, min(transactions, 15))
    return replace(options, transactions=left)


def draw_settings(rng: Random, safety_us: int) -> Settings:
    """Settings of a manager that fit into so much time."""
    return Settings(
        session_window_messages=rng.choice([1, 4, 64, 1_024]),
        checkpoint_log_bytes=rng.choice([8 << 10, 40 << 10, 1 << 20]),
        connect_retry_s=rng.choice([5.0, 60.0]) if safety_us <= HOUR else 300.0,
        order_ack_messages_max=rng.choice([1, 8, 4_096]),
        order_ack_delay_s=rng.choice([0.05, 0.5]),
        disk_reserve_bytes=64 << 10,
        time_to_reach_queue_s=30 * 86_400,
        unacknowledged_messages_max=rng.choice([1, 20, 16_384]),
        # Managers stand still for hours: nobody else shall be taken for one who has forgotten.
        transaction_idle_s=IDLE_US // SECOND,
    )


def alone(options: Options) -> Options:
    """The same world, in which nothing shares its outcome with somebody else's decision."""
    return replace(options, shared=0, by_row=0, branches=0.0)
