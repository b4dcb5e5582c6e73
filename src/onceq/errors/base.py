"""What every error of onceq is: the kinds that say whose matter it is, and whether to try again.

Below ``errors``, the table of them, which has these too: there is where applications find them.
"""

from __future__ import annotations

from typing import ClassVar


class OnceqError(Exception):
    """Base of every error that onceq raises on purpose.

    Attributes:
        code: Stable, lower-case, hyphenated name of the error.
        hresult: The MSMQ result code for the same situation, or 0 where MSMQ has none.
        exit_code: What a command line ends with when this error reaches it.
        cure: What to do about it, in a sentence.
        xa: The return code of XA for the same situation (XTX-15), or 0.
    """

    __module__ = "onceq.errors"

    code: ClassVar[str] = "error"
    hresult: ClassVar[int] = 0
    exit_code: ClassVar[int] = 1
    cure: ClassVar[str] = "Read the text of the error."
    xa: ClassVar[int] = 0

    def __init__(self, text: str = "") -> None:
        super().__init__(text or (type(self).__doc__ or "").strip().splitlines()[0])

    @property
    def text(self) -> str:
        """What happened, to what, and what to do."""
        return str(self.args[0])


class Retryable(OnceqError):
    """Nothing of what was asked has happened, and the same again may work.

    A second base of every error of which that is certain, whatever its class; ``run`` and
    ``consume`` of a queue manager do a transaction again that ended with one. Of an error without
    it nobody may conclude that nothing happened.
    """

    __module__ = "onceq.errors"

    code, exit_code = "retryable", 3
    cure = "Do the whole transaction again, after a pause; `run` does so."


class UsageError(OnceqError):
    """The call is wrong; change it."""

    __module__ = "onceq.errors"

    code, exit_code = "usage", 2
    cure = "Change the call; the text says what is wrong with it."


class Refused(OnceqError):
    """A limit or a rule of this queue manager refuses it for now."""

    __module__ = "onceq.errors"

    code, exit_code = "refused", 3
    cure = "Try again when what the text names has changed."


class PeerError(OnceqError):
    """Another queue manager or client broke the protocol; its connection is closed."""

    __module__ = "onceq.errors"

    code, exit_code = "peer", 5
    cure = "Look at the log of both sides; the connection is made again by itself."


class StorageFailure(OnceqError):
    """The disk failed: the process stops, and starts again from what is durable."""

    __module__ = "onceq.errors"

    code, hresult = "storage-failure", 0xC00E002A
    exit_code = 7
    cure = "Look at the disk and the system's log, then start again: what was confirmed is there."


class InDoubt(OnceqError):
    """The answer to a commit was lost: it may or may not have happened.

    Ask for the outcome with ``outcome(error.transaction)``; never send again blindly.
    (SND-5; it is neither an abort nor a failure.)

    Attributes:
        transaction: Text form of the transaction id to ask with.
    """

    __module__ = "onceq.errors"

    code, exit_code = "commit-outcome-unknown", 6
    cure = "Ask `outcome` with the transaction that is named; send again only if it says aborted."

    def __init__(self, text: str = "", *, transaction: str = "") -> None:
        super().__init__(text)
        self.transaction = transaction
