"""A backup that is not believed."""

from __future__ import annotations

from onceq.errors.base import Refused


class UntrustedBackup(Refused):
    """No trusted certificate has signed the backup, or it was changed since."""

    __module__ = "onceq.errors"

    code = "untrusted-backup"
    cure = (
        "Name certificates that you believe (`--trust FILE`), or use another backup. With "
        "`--unsigned` you believe everybody who could write to the backup."
    )
