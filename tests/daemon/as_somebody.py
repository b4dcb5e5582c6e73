"""A queue manager to which whoever connects on this computer is the account that ONCEQ_TEST_ACCOUNT
names, which is not its own: what the system says of a process (SO_PEERCRED) cannot be made up."""

from __future__ import annotations

import os
import sys

from onceq.model.identification import Account
from onceq.service import main, peer_transports


def account(uid: int) -> Account:
    """In place of who it really is."""
    return Account(os.environ["ONCEQ_TEST_ACCOUNT"])


if __name__ == "__main__":
    peer_transports.account = account
    sys.exit(main.main())
