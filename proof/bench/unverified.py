"""A queue manager that does not verify what it reads of its log: only so can be measured what
verifying costs (``make bench``)."""

from __future__ import annotations

import sys

from onceq.model.run import Buffer
from onceq.service.main import main
from onceq.store import log
from onceq.store.scan import Segment
from onceq.store.verified import VerifiedLog


class UnverifiedLog(VerifiedLog):
    """Hands out what stands there."""

    def read(self, segment: Segment, address: int, size: int) -> Buffer:
        """Bytes of a record, as they are found."""
        return self._files.read(segment.file, segment.offset(address), size)


if __name__ == "__main__":
    log.VerifiedLog = UnverifiedLog  # type: ignore[attr-defined]
    sys.exit(main())
