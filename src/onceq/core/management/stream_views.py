"""Looking at incoming streams. Times are seconds since 1970, 0 meaning never."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.core.peers.duplicate_identity import found_of
from onceq.core.peers.trust import STAMP_SHIFT
from onceq.core.state.queues import Progress
from onceq.core.step.step import Step
from onceq.model.identity import guid_text


@dataclass(frozen=True, slots=True)
class StreamView:
    """One incoming stream: EodGetReceiveInfo (EOD-48). ``sender`` is "" if not known.

    ``begun``: when its sender says that it began it. ``stale_stream``: an older one of which
    something came since the last message was accepted (0: none), last at ``stale_at``. ``reset_*``:
    when and why an operator has set it back last, and from which stream. ``conflicts`` came under
    numbers that other messages were accepted under; ``clash`` says what was found if two managers
    use the sender's identity.
    """

    queue: str
    source: str
    sender: str
    stream: int
    number: int
    last_access: int
    rejects: int
    duplicates: int
    gaps: int
    stale: int
    connected: bool
    begun: int
    stale_stream: int
    stale_at: int
    reset_at: int
    reset_reason: str
    reset_from: int
    conflicts: int
    clash: str


def stream_view(step: Step, progress: Progress) -> StreamView:
    """One incoming stream."""
    reset = progress.reset
    return StreamView(
        queue=progress.key,
        source=guid_text(progress.source),
        sender=step.name_of(progress.source),
        stream=progress.stream,
        number=progress.last,
        last_access=progress.last_access_s,
        rejects=progress.rejects,
        duplicates=progress.duplicates,
        gaps=progress.gaps,
        stale=progress.stale,
        connected=progress.source in step.sessions.of,
        begun=progress.stream >> STAMP_SHIFT,
        stale_stream=progress.stale_stream,
        stale_at=progress.stale_s if progress.stale_stream else 0,
        reset_at=reset.at_s if reset is not None else 0,
        reset_reason=reset.reason if reset is not None else "",
        reset_from=reset.stream if reset is not None else 0,
        conflicts=progress.conflicts,
        clash=found_of(step, progress.source),
    )
