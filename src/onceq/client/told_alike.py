"""One description for both faces: what ``help`` says of a call for tasks is what it says of the one
for threads.

Operations have their docstring from where they are written once. A method or a class that each face
has to write for itself has it in the face for threads; the one for tasks says ``See
``QueueManager.work``.`` and only what is different there.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

_SEE: Final = re.compile(r"\bsee\s+``[\w.]+``\.?\s*", re.IGNORECASE)


def told_alike(for_tasks: Any, for_threads: Any) -> None:
    """Complete the docstrings of a class for tasks, or of a function."""
    for_tasks.__doc__ = _told(for_tasks, for_threads)
    if not inspect.isclass(for_tasks):
        return
    for kind in for_tasks.__mro__:
        for name, thing in vars(kind).items():
            twin = getattr(for_threads, name, None)
            if not name.startswith("_") and inspect.isfunction(thing) and twin is not None:
                thing.__doc__ = _told(thing, twin)


def _told(thing: Any, twin: Any) -> str | None:
    """What is to be said of it: all of its twin's, and then its own."""
    own = inspect.getdoc(thing) or ""
    found = _SEE.search(own)
    if found is None:
        return thing.__doc__  # type: ignore[no-any-return]
    more = own[found.end() :].strip()
    return (inspect.getdoc(twin) or "") + (f"\n\nIn tasks: {more}" if more else "")
