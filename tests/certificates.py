"""Authorities and certificates for tests, made by the product's own code."""

from __future__ import annotations

import time
from pathlib import Path

from onceq.model.marks import DAY_S
from onceq.tls import authority, folder
from onceq.tls.contexts import IdentityFiles

ALPHA, BETA = b"A" * 16, b"B" * 16
HOSTS = ("localhost", "127.0.0.1")
LONG_AGO_S = 500 * DAY_S
"""Older than any certificate gets."""


class Authority:
    """Signs for whomever a test wants."""

    def __init__(self, name: str = "TEST", *, ago_s: int = 0) -> None:
        self.now_s = int(time.time()) - ago_s
        self.certificate, self.key = authority.make_authority(name, self.now_s)

    def issue(self, guid: bytes, name: str = "X", *, ago_s: int = 0) -> tuple[bytes, bytes]:
        """Certificate and key, made so many seconds ago (negative: in the future)."""
        key = authority.make_key()
        asked = authority.read_request(authority.make_request(key, guid, name, HOSTS))
        made = authority.sign(asked, self.certificate, self.key, self.now_s - ago_s)
        return made.pem, key

    def identity(
        self, path: Path, guid: bytes, name: str = "X", *, ago_s: int = 0,
        trusts: bytes | None = None,
    ) -> IdentityFiles:  # fmt: skip
        """Put an identity into a data directory."""
        made, key = self.issue(guid, name, ago_s=ago_s)
        own = path / folder.FOLDER
        authorities = self.certificate if trusts is None else trusts
        for name, data in (
            (folder.AUTHORITIES, authorities), (folder.KEY, key), (folder.CERTIFICATE, made),
        ):  # fmt: skip
            folder.write(str(own / name), data)
        found = folder.files_of(str(path))
        assert found is not None
        return found
