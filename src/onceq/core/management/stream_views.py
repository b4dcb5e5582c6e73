"""Views of incoming streams. Times are seconds since 1970, 0 meaning never."""

from __future__ import annotations

from typing import Final

from onceq.core.management.msmq_names import format_name_of
from onceq.core.management.paging import Listing, Order
from onceq.core.peers.duplicate_identity import found_of
from onceq.core.peers.trust import STAMP_SHIFT
from onceq.core.state.peer_table import Progress
from onceq.core.step.step import Step
from onceq.model.identity import guid_text
from onceq.model.views.queues import StreamView
from onceq.model.views.view import copy_by_name


def people_call(step: Step, progress: Progress) -> str:
    """Return the queue of a stream as its sender names it, in a form that people can write."""
    return format_name_of(step, progress).removeprefix("DIRECT=")


def stream_view(step: Step, progress: Progress) -> StreamView:
    """Return the view of one incoming stream."""
    reset = progress.reset
    return copy_by_name(
        StreamView,
        progress,
        queue=progress.key,
        source=guid_text(progress.source),
        sender=step.name_of(progress.source),
        number=progress.last,
        connected=progress.source in step.sessions.of,
        begun=progress.stream >> STAMP_SHIFT,
        stale_at=progress.stale_s if progress.stale_stream else 0,
        reset_at=reset.at_s if reset is not None else 0,
        reset_reason=reset.reason if reset is not None else "",
        reset_from=reset.stream if reset is not None else 0,
        clash=found_of(step, progress.source),
        name=people_call(step, progress),
    )


STREAMS: Final[Listing[Progress, StreamView]] = Listing(
    lambda step, item: list(step.state.progress.values()),
    stream_view,
    {"name": Order(lambda step, one: (one.key, one.source.hex()), (str, str))},
)
"""Incoming streams."""
