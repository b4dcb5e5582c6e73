"""The chain of acts of administration: each digest covers an act and the digest before it.

So the last digest covers all acts that there ever were. Who holds it and an act's number can say
later whether any act up to there was removed, changed or put in, although the digests hold no
secret: whoever changes an act must change all digests behind it, and the one that another holds
cannot be changed.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

import json
from typing import Final

DIGEST_BYTES: Final = 32
BEGIN: Final = bytes(DIGEST_BYTES)
"""What stands before the first act that has a digest."""


def digest_act(
    before: bytes, number: int, at_s: int, who: str, where: str, what: str, about: str, result: str
) -> bytes:
    """The digest of an act: SHA-256 of the digest before it and of its JSON, in ASCII.

    Args:
        before: Digest of the act before it; BEGIN for the first one.
        at_s: Second since 1970.
    """
    import hashlib  # which loads OpenSSL: a queue manager needs it, an application does not

    said = json.dumps([number, at_s, who, where, what, about, result], separators=(",", ":"))
    return hashlib.sha256(before + said.encode()).digest()
