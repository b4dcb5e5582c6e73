"""Change the settings of a running manager.

They hold for what is decided from now on; timers that are set read them when they ring. What a
setting had switched off is watched from now on.

Upholds: I26 (nothing waits for a timer that the old settings would have set).
"""

from __future__ import annotations

from onceq.core.ending.portions import numbered, some_at_a_time
from onceq.core.inputs.inputs import Reconfigure, TellDoors, TellTrail
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.step.step import Step
from onceq.core.transaction import abandoned_branches, idle_timeout
from onceq.core.transfer.outgoing_queue import start_if_possible
from onceq.core.transfer.sessions import end_unproven
from onceq.model.hosts import AddressBook


def reconfigure(step: Step, item: Reconfigure) -> None:
    """Continue with other settings."""

    def start(some: list[OutgoingQueue]) -> None:
        for outgoing in some:
            start_if_possible(step, outgoing)

    step.settings = item.settings
    step.names.routes_to = item.routes
    step.names.book = AddressBook.of(item.peers, step.names.book.known)
    step.names.changed()
    # What was held, or had a full window, may leave by the new settings.
    served = [n for peer in step.sessions.peers.values() for n in sorted(peer.outgoing)]
    step.begin(some_at_a_time(step.state, numbered(step.state, served), start))
    idle_timeout.watch(step)
    for tx in list(step.units.branches.values()):
        abandoned_branches.watch(step, tx)


def tell_doors(step: Step, item: TellDoors) -> None:
    """Record that the ways in for others have changed."""
    new, step.doors = item.issued - step.doors.issued, item
    end_unproven(step, sorted(new))


def tell_trail(step: Step, item: TellTrail) -> None:
    """Record that the export of acts has changed, for the status."""
    step.trail = item
