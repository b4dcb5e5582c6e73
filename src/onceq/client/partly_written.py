"""The error of a write that a broken connection has cut: known to links, raised in TLS."""

from __future__ import annotations


class PartlyWritten(OSError):
    """The connection broke when some of what was written was on its way."""
