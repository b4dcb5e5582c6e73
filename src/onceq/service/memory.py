"""Tune the memory of a daemon's process: large blocks, and the garbage collector.

Messages of large transactions pass through buffers of some megabytes. glibc would take each from
the system and give it back at once, and the system fills every page with zeros before it is used:
that took a quarter of the processor time of large sends. So blocks stay with the process, up to a
bound. Python looks for cycles of garbage after some hundred new objects, and at times among all
objects. The objects of the start are never garbage, and a run of ten thousand messages is no reason
to look fourteen times.

A process into which a queue manager is embedded is not ours to tune.
"""

from __future__ import annotations

import ctypes
import gc
import platform
from typing import Final

_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3
"""Parameters of mallopt(3)."""
OWN_BYTES: Final = 32 << 20
"""Blocks up to this size come from the process's own heap: the most that glibc takes for this."""
KEPT_BYTES: Final = 128 << 20
"""Free memory at the end of the heap that is not given back."""
GROWTH_BYTES: Final = 16 << 20
"""Additional bytes by which the heap grows at a time; pages that are not used take nothing."""
YOUNG_OBJECTS: Final = 20_000
"""New objects after which the collector looks for cycles; Python's own number is 700."""


def collect_seldom() -> None:
    """Exclude the existing objects from collection. To be called when all modules are loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def keep_large_blocks() -> bool:
    """Keep large blocks in this process; return False where the C library is another one."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    wanted = (
        (_MMAP_THRESHOLD, OWN_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES), (_TOP_PAD, GROWTH_BYTES),
    )  # fmt: skip
    taken = [mallopt(name, value) for name, value in wanted]
    return taken == [1] * len(wanted)
