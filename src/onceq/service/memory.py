"""How a daemon's process treats memory: large blocks, and the search for garbage.

What is sent and received in large transactions passes through buffers of some megabytes. glibc
would take each from the system and give it back at once, and the system fills every page with
zeros before it is used: a quarter of the processor time of large sends went there. So blocks stay
with the process, up to a bound. Python looks for cycles of garbage after some hundred new objects,
and at times among all that there are; what the start has made is never garbage, and a run of ten
thousand messages is no reason to look fourteen times.

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
"""By how much more than is asked for the heap grows; pages that are not used take nothing."""
YOUNG_OBJECTS: Final = 20_000
"""New objects after which the collector looks for cycles; Python's own number is 700."""


def collect_seldom() -> None:
    """To be called when all modules are there: they are not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def keep_large_blocks() -> bool:
    """Set it so for this process; False where the C library is another one."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    wanted = (
        (_MMAP_THRESHOLD, OWN_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES), (_TOP_PAD, GROWTH_BYTES),
    )  # fmt: skip
    taken = [mallopt(name, value) for name, value in wanted]
    return taken == [1] * len(wanted)
