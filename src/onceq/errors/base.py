"""What every error of onceq is: the kinds that say whose matter it is, and whether to try again.

Below ``errors``, the table of them, which has these too: there is where applications find them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

# ---- base ----------------------------------------------------------------------------------------


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
    """Nothing of the request has happened, and the same request may succeed later.

    A second base of every error for which that is certain, in all classes; ``run`` and ``consume``
    of a queue manager do a transaction again that ended with one. An error without this base does
    not prove that nothing happened.
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


# ---- cases ---------------------------------------------------------------------------------------
#
# Errors of special cases, which applications find in `onceq.errors`, the table of all.
#
# They are about branches that an operator has decided before their outcome was known (XTX-8),
# damaged bytes, readers that write messages elsewhere and then remove them, calls from where they
# must not come (another process, another loop, the middle of another call), transactions used
# wrongly, and backups that are not believed.


class DecidedByHand(OnceqError):
    """An operator has decided a branch before its outcome was known (XTX-8)."""

    __module__ = "onceq.errors"

    code, exit_code, xa = "decided-by-hand", 6, 5
    cure = "Compare with the decision (`tx show`); mend by hand what differs, then `tx forget`."


class CommittedByHand(DecidedByHand):
    """An operator has committed the branch (XA_HEURCOM)."""

    __module__ = "onceq.errors"

    code, xa = "committed-by-hand", 7


class RolledBackByHand(DecidedByHand):
    """An operator has rolled the branch back (XA_HEURRB)."""

    __module__ = "onceq.errors"

    code, xa = "rolled-back-by-hand", 6


# ---- damaged -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DamagedPiece:
    """Stored bytes that are not what was written, or cannot be read.

    Attributes:
        address, size: Where they lie in the log.
        path, offset: In which file, and where there.
    """

    address: int
    size: int
    path: str
    offset: int

    @property
    def span(self) -> range:
        """The log addresses of these bytes."""
        return range(self.address, self.address + self.size)


# ---- reader --------------------------------------------------------------------------------------


class MessagesMissing(Refused):
    """Messages that should still be in a queue are gone."""

    __module__ = "onceq.errors"
    code = "messages-missing"
    cure = "Find out who else receives from the queue."


class ReadBefore(Refused):
    """A Spark stream would remove what its sink does not write: its checkpoint is new or old."""

    __module__ = "onceq.errors"
    code = "read-before"
    cure = "Use the newest checkpoint; or a new one AND a new folder, and `spark forget`."


class FinishedBefore(Refused):
    """Spark repeats a batch that was written and removed: a checkpoint lacks a file."""

    __module__ = "onceq.errors"
    code = "finished-before"
    cure = (
        "Put its newest files back; or take a new checkpoint AND a new folder, and `spark forget`."
    )


# ---- turn ----------------------------------------------------------------------------------------


class WrongProcess(UsageError):
    """A forked child uses what belongs to its parent."""

    __module__ = "onceq.errors"

    code = "wrong-process"
    cure = (
        "In the child, open it again from its queue manager; for an embedded one connect to a "
        "daemon, or open it after the fork."
    )


class WrongLoop(UsageError):
    """One event loop uses what belongs to another one; it did nothing."""

    __module__ = "onceq.errors"

    code = "wrong-loop"
    cure = "Connect in each loop, inside what `asyncio.run` runs, and close there."


class CallInCall(UsageError):
    """A call came inside another one of the same thread; it did nothing."""

    __module__ = "onceq.errors"

    code = "call-in-call"
    cure = (
        "In a signal handler or `__del__` only note what is to be done (`onceq.stopping()` does),"
        " or `close` the queue manager."
    )


# ---- usage ---------------------------------------------------------------------------------------


class TransactionUsage(UsageError):
    """This may not be done inside (or outside) a transaction."""

    __module__ = "onceq.errors"
    code, hresult = "transaction-usage", 0xC00E0050
    cure = "Use a transaction with a transactional queue; none with another queue, nor to peek."


class WrongQueueKind(TransactionUsage):
    """The queue of this queue manager does not take messages that are sent so (Q-4)."""

    __module__ = "onceq.errors"
    code = "wrong-queue-kind"
    cure = (
        "Leave `transactional` out: a send without it fits the queue. In a transaction send only "
        "to transactional queues."
    )


def not_transactional(what: str) -> WrongQueueKind:
    """A send in a transaction to such a queue (Q-4).

    Args:
        what: The queue, or what a send named, for people.
    """
    return WrongQueueKind(
        f"{what} is not transactional, and takes nothing that is sent in a transaction; send to it "
        "outside of transactions, or make another queue with transactional=True"
    )


class TransactionOver(UsageError):
    """The transaction is unknown or already over."""

    __module__ = "onceq.errors"
    code, hresult = "transaction-over", 0xC00E0051
    cure = "Begin a new one; after a lost connection ask for the `outcome` first."


class NotCarriedOut(UsageError):
    """A program has given what cannot have run, so nothing of the transaction happens."""

    __module__ = "onceq.errors"
    code = "not-carried-out"
    cure = (
        "Await what the text names. Handlers of `onceq.aio` are `async def`, those for threads "
        "plain functions."
    )


# ---- backup --------------------------------------------------------------------------------------


class UntrustedBackup(Refused):
    """No trusted certificate has signed the backup, or it was changed since."""

    __module__ = "onceq.errors"

    code = "untrusted-backup"
    cure = (
        "Name certificates that you trust (`--trust FILE`), or use another backup. `--unsigned` "
        "trusts everybody who could write to it."
    )
