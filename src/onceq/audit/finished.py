"""Which messages are finished: all that any manager will tell of them has been told, most likely.

What is wrong about this costs time and no truth: if anything more is told of a message that was put
aside, the audit takes all of them back (``kept``). Some that are finished stay, because rules
compare what comes later with them: the first of each lane, and the last of each order.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from onceq.audit.arrays import NONE, Column, Groups, Ints, Mask, coded, grouped
from onceq.audit.copies import ENDED_IN_QUEUE, Copies
from onceq.audit.events import ABSENT, NOBODY, Events
from onceq.audit.past import Past, keys_of
from onceq.audit.rules import certain

_ONCE: Final = ("committed", "accepted", "acknowledged", "confirmed", "queue_ends", "messages")
_NEVER: Final = ("refused", "given_up", "not_received")


def finished(events: Events, copies: Copies, of: Ints, margin_us: int) -> Mask:
    """Which events are about nothing that goes on.

    Args:
        of: The copy that each event is about; ABSENT where it is about none.
        margin_us: What happened so shortly before the end of the history of its manager, or of its
            sender, may not be all that happens.
    """
    done = _copies(copies)
    component = _components(events)
    up_to = copies.known.up_to
    ends = np.where(up_to == NONE, np.iinfo(np.int64).max, up_to)
    late = events.time > np.minimum(ends[events.manager], ends[events.source]) - margin_us
    late |= (of != ABSENT) & ~done[of]
    if NOBODY in events.parties:
        late |= events.source == events.parties.index(NOBODY)
    count = int(component.max(initial=-1)) + 1
    goes_on = np.zeros(count, np.bool_)
    goes_on[component[late]] = True
    # Outside transactions a message is finished when it has left its queue.
    ended = np.zeros(count, np.bool_)
    over = events.are(*ENDED_IN_QUEUE, "released", "lost") | (of != ABSENT) | events.observed
    ended[component[over | (events.message == NONE)]] = True
    return ~goes_on[component] & ended[component]


def _copies(copies: Copies) -> Mask:
    """Copies that are committed, arrived, acknowledged and ended, each once, as far as that can be
    known; about which every rule is certain, and stays so."""
    sure = certain(copies, settled=False)
    told, whole = copies.known.told[copies.source], copies.known.whole[copies.source]
    done = (copies.queue_ends == 1) & (sure.sender | ~whole)
    for name in _ONCE:
        done &= getattr(copies, name) <= 1
    for name in _NEVER:
        done &= getattr(copies, name) == 0
    ours = (copies.committed == 1) & (copies.acknowledged == 1)
    streamed = sure.hole & (copies.accepted == 1) & (ours | ~told)
    return np.asarray(done & np.where(copies.streamed, streamed, copies.committed == 1))


def _components(events: Events) -> Ints:
    """A small number for each event; the same for all that a rule may bring together."""
    count = len(events)
    parent = np.arange(count, dtype=np.int64)
    links = [(rows % count, groups) for rows, groups in (_linked(*one) for one in _keys(events))]
    while True:
        before = parent.copy()
        for rows, groups in links:
            least = groups.least(parent[rows], np.ones(len(rows), np.bool_))
            parent[rows] = np.minimum(parent[rows], least[groups.of])
        if (parent == before).all():
            return coded(parent)[0] if count else parent


def _keys(events: Events) -> list[tuple[Column, Ints, Ints]]:
    """As in ``past``, with places and where they come from under one name."""
    number, message, *places = keys_of(events)
    found = [(one.party, one.within, one.value) for one in (number, message)]
    joined = (np.concatenate([getattr(one, name) for one in places])
              for name in ("party", "within", "value"))  # fmt: skip
    return [*found, tuple(joined)]  # type: ignore[list-item]


def _linked(party: Column, within: Ints, value: Ints) -> tuple[Ints, Groups]:
    rows = np.flatnonzero(value != NONE)
    order, groups = grouped(party[rows], within[rows], value[rows])
    return rows[order], groups


def reopens(events: Events, new: Mask, past: Past) -> bool:
    """Whether any new event is about something that was put aside.

    What leaves a journal or a dead-letter queue is compared with nothing.
    """
    grave = events.at("journal") | events.at("dead-letter")
    there = events.take(new & ~(grave & events.are(*ENDED_IN_QUEUE)))
    return any(past.has(there.parties, one).any() for one in keys_of(there))
