"""What every error of onceq is, and which ones say that the same again is safe.

Apart from ``errors``, so that what is said of all errors stands below the table of them.
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

    code, exit_code = "retryable", 3
    cure = "Do the whole transaction again, after a pause; `run` of a queue manager does so."


class UsageError(OnceqError):
    """The call is wrong; change it."""

    code, exit_code = "usage", 2
    cure = "Change the call; the text says what is wrong with it."
