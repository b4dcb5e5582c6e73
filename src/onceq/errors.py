"""Every error of onceq: few kinds, stable codes, and what to do about each.

The class says whose matter it is; the code is stable and may be matched on; the text says
what happened, to what, and what to do. Where MSMQ has a result code for the same thing, the
error carries it as ``hresult`` (Appendix A of the semantics).

All codes stand in ``docs/reference/errors.md``; a test keeps the two equal.
"""

from __future__ import annotations

from typing import ClassVar


class OnceqError(Exception):
    """Base of every error that onceq raises on purpose.

    Attributes:
        code: Stable, lower-case, hyphenated name of the error.
        hresult: The MSMQ result code for the same situation, or 0 where MSMQ has none.
        exit_code: What a command line ends with when this error reaches it.
    """

    code: ClassVar[str] = "error"
    hresult: ClassVar[int] = 0
    exit_code: ClassVar[int] = 1

    def __init__(self, text: str = "") -> None:
        super().__init__(text or (type(self).__doc__ or "").strip().splitlines()[0])

    @property
    def text(self) -> str:
        """What happened, to what, and what to do."""
        return str(self.args[0])


# ---- the caller's matter -----------------------------------------------------------------


class UsageError(OnceqError):
    """The call is wrong; change it."""

    code = "usage"
    exit_code = 2


class QueueNotFound(UsageError):
    """There is no such queue here."""

    code, hresult = "queue-not-found", 0xC00E0003


class QueueExists(UsageError):
    """A queue of that name exists already."""

    code, hresult = "queue-exists", 0xC00E0005


class InvalidParameter(UsageError):
    """A parameter has a value that is not allowed."""

    code, hresult = "invalid-parameter", 0xC00E0006


class InvalidHandle(UsageError):
    """The queue is not open for this, or the handle was closed."""

    code, hresult = "invalid-handle", 0xC00E0007


class SharingViolation(UsageError):
    """The queue is open elsewhere in a way that excludes this access."""

    code, hresult = "sharing-violation", 0xC00E0009


class IllegalPathName(UsageError):
    """A path name cannot be parsed."""

    code, hresult = "illegal-path-name", 0xC00E0014


class IllegalPropertyValue(UsageError):
    """A property has a value outside its range."""

    code, hresult = "illegal-property-value", 0xC00E0018


class IllegalFormatName(UsageError):
    """A format name cannot be parsed."""

    code, hresult = "illegal-format-name", 0xC00E001E


class UnsupportedFormatName(UsageError):
    """The format name is legal, but not for this operation."""

    code, hresult = "unsupported-format-name", 0xC00E0020


class IllegalPropertySize(UsageError):
    """A property has the wrong size."""

    code, hresult = "illegal-property-size", 0xC00E003B


class UnsupportedAccessMode(UsageError):
    """This combination of access and share mode does not exist."""

    code, hresult = "unsupported-access-mode", 0xC00E0045


class TransactionUsage(UsageError):
    """This may not be done inside (or outside) a transaction."""

    code, hresult = "transaction-usage", 0xC00E0050


class TransactionOver(UsageError):
    """The transaction is unknown or already over."""

    code, hresult = "transaction-over", 0xC00E0051


class QueueDeleted(UsageError):
    """The queue was deleted while it was in use."""

    code, hresult = "queue-deleted", 0xC00E005A


class LabelTooLong(UsageError):
    """A label has more than 249 characters."""

    code, hresult = "label-too-long", 0xC00E005D


class UnsupportedOperation(UsageError):
    """This queue manager runs without a directory, or the feature does not exist in onceq."""

    code, hresult = "unsupported-operation", 0xC00E006A


class MessageNotFound(UsageError):
    """There is no message with that lookup identifier."""

    code, hresult = "message-not-found", 0xC00E0088


class NotSupported(UsageError):
    """Internal transactions do not support this flag."""

    code, hresult = "not-supported", 0x8004D00F


class UninitializedObject(UsageError):
    """The management object was not initialised with a queue."""

    code, hresult = "uninitialized-object", 0xC00E0094


class NoInterface(UsageError):
    """A local queue has no outgoing view, and an outgoing queue has no receiving view."""

    code, hresult = "no-interface", 0x80004002


class NotAStore(UsageError):
    """The directory does not hold a onceq store."""

    code = "not-a-store"


class StoreExists(UsageError):
    """The directory holds a store already."""

    code = "store-exists"


class ConfigurationError(UsageError):
    """The configuration file or an option is wrong."""

    code = "configuration"


# ---- policy and limits -------------------------------------------------------------------


class Refused(OnceqError):
    """A limit or a rule of this queue manager refuses it for now."""

    code = "refused"
    exit_code = 3


class InsufficientResources(Refused):
    """A quota or another limit is reached."""

    code, hresult = "quota-exceeded", 0xC00E0027


class BodyTooLarge(Refused):
    """The packet of this message would be larger than 4 MiB."""

    code, hresult = "body-too-large", 0xC00E0027


class StorageReserve(Refused):
    """The disk is nearly full: the rest is kept for receiving and acknowledging."""

    code, hresult = "storage-reserve", 0xC00E0027


class StoreLocked(Refused):
    """Another process runs this queue manager."""

    code = "store-locked"


class PortInUse(Refused):
    """The address is in use by another process."""

    code = "port-in-use"


class OperationCancelled(Refused):
    """The queue manager stopped, or the handle was closed, before this could finish."""

    code, hresult = "operation-cancelled", 0xC00E0008


class MessagesMissing(Refused):
    """Messages that should still be in a queue are gone."""

    code = "messages-missing"


class ServiceNotAvailable(Refused):
    """No queue manager answers there."""

    code, hresult = "service-not-available", 0xC00E000B


class LinkLost(ServiceNotAvailable):
    """The connection broke while an answer was awaited; what was asked may have happened."""

    code = "connection-lost"


class ReceiveTimeout(Refused, TimeoutError):
    """Nothing arrived in time."""

    code, hresult = "timeout", 0xC00E001B
    exit_code = 4


# ---- the other side ----------------------------------------------------------------------


class PeerError(OnceqError):
    """Another queue manager or client broke the protocol; its connection is closed."""

    code = "peer"
    exit_code = 5


class MalformedPacket(PeerError):
    """Bytes from outside are not a well-formed packet."""

    code = "malformed-packet"


class UnknownVersion(PeerError):
    """The other side speaks a version that this one does not know."""

    code = "unknown-version"


class ProtocolState(PeerError):
    """A packet came at a time when it is not allowed."""

    code = "protocol-state"


class IdentityClash(PeerError):
    """Two queue managers claim one identity."""

    code = "identity-clash"


# ---- nobody knows yet --------------------------------------------------------------------


class InDoubt(OnceqError):
    """The answer to a commit was lost: it may or may not have happened.

    Ask for the outcome with ``outcome(error.transaction)``; never send again blindly.
    (SND-5; it is neither an abort nor a failure.)

    Attributes:
        transaction: Text form of the transaction id to ask with.
    """

    code = "commit-outcome-unknown"
    exit_code = 6

    def __init__(self, text: str = "", *, transaction: str = "") -> None:
        super().__init__(text)
        self.transaction = transaction


# ---- the machine -------------------------------------------------------------------------


class StorageFailure(OnceqError):
    """The disk failed: the process stops and starts anew from what is durable."""

    code, hresult = "storage-failure", 0xC00E002A
    exit_code = 7


class SyncFailed(StorageFailure):
    """A sync failed; nothing decided after the last good sync was said to anybody."""

    code = "sync-failed"


class DamagedRecord(StorageFailure):
    """The store is damaged before its end; nothing is cut silently."""

    code = "damaged-record"


class NoSpace(StorageFailure):
    """The disk is full and the reserve is used up."""

    code = "no-space"


class NewerFormat(StorageFailure):
    """The store was written by a newer onceq."""

    code = "newer-format"


def every() -> dict[str, type[OnceqError]]:
    """All error classes by code, for the docs, the client protocol and the tests."""
    found: dict[str, type[OnceqError]] = {}
    todo: list[type[OnceqError]] = [OnceqError]
    while todo:
        kind = todo.pop()
        found.setdefault(kind.code, kind)
        todo.extend(kind.__subclasses__())
    return dict(sorted(found.items()))
