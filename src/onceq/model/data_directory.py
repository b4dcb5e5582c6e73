"""Files of a data directory that others than its queue manager look for, by name."""

from __future__ import annotations

from typing import Final

STORE_FILE: Final = "STORE"
"""Who lives there; a directory without it is none of a queue manager."""
CONFIGURATION_FILE: Final = "onceq.toml"
TRAIL_FOLDER: Final = "trail"
"""Where acts of administration stand beside the store (``service/trail_files.py``)."""
ATTEMPT_KEY_FILE: Final = "attempt.key"
"""Marks the attempts of applications (``service/attempt_key.py``)."""
SOCKET_FILE: Final = "onceq.sock"
"""Where a daemon takes connections of applications."""
