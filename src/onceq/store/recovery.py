"""Starting from what is on the disk: look at everything, judge it, and only then tidy up.

Nothing is changed before the whole store was judged, so a store that is refused is left as it was
found. A crash during the tidying is an ordinary crash: every step may have happened or not.

Upholds: I22 (twice the same as once), I23.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass

from onceq.errors import DamagedRecord
from onceq.model.log import FRAME_HEADER
from onceq.store import checkpoints, identification, scan
from onceq.store.contract import Recovered
from onceq.store.files import Files
from onceq.store.framing import Framing
from onceq.store.identification import Identification
from onceq.store.pool import Pool
from onceq.store.scan import Loaded


@dataclass(frozen=True, slots=True)
class Judged:
    """A store that is whole.

    Attributes:
        end: Where the next record goes.
        epoch: The newest epoch that anything has.
        half_frame: The place at the end holds the header of a record that never was whole.
        useless: Files that can go.
    """

    who: Identification
    head: checkpoints.Head
    recovered: Recovered
    end: int
    epoch: int
    half_frame: bool
    useless: list[str]


def judge(files: Files, path: str, pool: Pool, loaded: Loaded) -> Judged:
    """Look at all that matters; segments are opened into ``loaded``, ready files into the pool.

    Raises:
        NotAStore, NewerFormat, DamagedRecord: It cannot be used; nothing was changed.
    """
    who = identification.read_identification(files, path)
    head, state = checkpoints.newest(files, path, who.store_id)
    closed = identification.read_closed(files, path, who.store_id)
    scan.load(files, path, who.store_id, head.position, loaded)
    scan.set_ends(loaded.segments, head.position, dict(head.segments))
    found = scan.frames(
        files,
        Framing(who.store_id),
        loaded.segments,
        covered=head.position,
        epoch=head.epoch,
        closed=closed,
    )
    if found.problem is not None:
        raise DamagedRecord(found.problem.text)
    bases = {segment.base for segment in loaded.segments}
    useless = loaded.unmade + pool.load(who.store_id, bases)
    useless += [os.path.join(path, name) for name in checkpoints.unfinished(files.names(path))]
    recovered = Recovered(state, head.position, found.torn_bytes, found.clean)
    return Judged(who, head, recovered, found.end, found.epoch, found.half_frame, useless)


def tidy(files: Files, path: str, judged: Judged, loaded: Loaded) -> None:
    """Make what was found durable, and remove what is of no use.

    The last process may have been killed: then what was found whole may stand in the system's
    memory only, and so may its last changes of names. Nothing is written before they are durable
    too. What lies behind the end in the same segment stays; the next epoch sees to it that it is
    never taken for a record. Only a header right at the end is wiped out, because a later write
    of which the beginning gets lost might complete it, and no newer epoch would stand before it.
    """
    segments = loaded.segments
    useless = list(judged.useless)
    for segment in segments:
        wipe = judged.half_frame and segment.base < judged.end < segment.limit
        if wipe:
            files.write(segment.file, segment.offset(judged.end), [bytes(FRAME_HEADER)])
        if wipe or (segment.base < judged.end and segment.end > judged.head.position):
            files.sync(segment.file)
    while segments and segments[-1].base >= judged.end:
        segment = segments.pop()
        files.close(segment.file)
        useless.append(segment.path)
    for name in useless:
        files.unlink(name)
    files.sync_directory(path)
