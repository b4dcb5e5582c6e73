"""Where directories are kept (DL-14): in a file that several queue managers share, or in memory.

``create`` makes an empty file; ``onceq.open(..., directory=...)`` and the key ``directory`` of
``onceq.toml`` take its path. Any object with the methods of ``Directory`` can replace it.
"""

from __future__ import annotations

from onceq.directory.contract import Directory, MemoryDirectory, Seen, SeenRights
from onceq.directory.file import FileDirectory, create

__all__ = ["Directory", "FileDirectory", "MemoryDirectory", "Seen", "SeenRights", "create"]
