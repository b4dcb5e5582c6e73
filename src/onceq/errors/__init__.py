"""Every error of onceq: few kinds, stable codes, and what to do about each.

The class says who has to act; the code is stable, and programs may match on it; the text says what
happened, to what, and what to do. Where MSMQ has a result code for the same thing, the error
carries it as ``hresult``. ``docs/reference/errors.md`` lists all codes.
"""

from __future__ import annotations

from onceq.errors.base import CallInCall as CallInCall
from onceq.errors.base import CommittedByHand as CommittedByHand
from onceq.errors.base import DamagedPiece as DamagedPiece
from onceq.errors.base import DecidedByHand as DecidedByHand
from onceq.errors.base import FinishedBefore as FinishedBefore
from onceq.errors.base import InDoubt as InDoubt
from onceq.errors.base import MessagesMissing as MessagesMissing
from onceq.errors.base import NotCarriedOut as NotCarriedOut
from onceq.errors.base import OnceqError as OnceqError
from onceq.errors.base import PeerError as PeerError
from onceq.errors.base import ReadBefore as ReadBefore
from onceq.errors.base import Refused as Refused
from onceq.errors.base import Retryable as Retryable
from onceq.errors.base import RolledBackByHand as RolledBackByHand
from onceq.errors.base import StorageFailure as StorageFailure
from onceq.errors.base import TransactionOver as TransactionOver
from onceq.errors.base import TransactionUsage as TransactionUsage
from onceq.errors.base import UntrustedBackup as UntrustedBackup
from onceq.errors.base import UsageError as UsageError
from onceq.errors.base import WrongLoop as WrongLoop
from onceq.errors.base import WrongProcess as WrongProcess
from onceq.errors.base import WrongQueueKind as WrongQueueKind

# ---- the caller's matter -----------------------------------------------------------------


class QueueNotFound(UsageError):
    """There is no such queue here."""

    code, hresult = "queue-not-found", 0xC00E0003
    cure = "`queue list` shows the queues, `queue create` makes one."


class ManagerNotFound(QueueNotFound):
    """There is no queue manager of that name among the known ones."""

    code = "manager-not-found"
    cure = (
        "Take a name in the text: a console watches those of `-q`; `context list` shows names that "
        "`-q` takes."
    )


class QueueExists(UsageError):
    """A queue of that name exists already."""

    code, hresult = "queue-exists", 0xC00E0005
    cure = "Use another name, or `exist_ok=True` where it may be there already."


class InvalidParameter(UsageError):
    """A parameter has a value that is not allowed."""

    code, hresult = "invalid-parameter", 0xC00E0006
    cure = "Correct the value that the text names."


class InvalidHandle(UsageError):
    """The queue is not open for this, or the handle was closed."""

    code, hresult = "invalid-handle", 0xC00E0007
    cure = "Open the queue for what is to be done."


class SharingViolation(UsageError):
    """The queue is open elsewhere in a way that excludes this access."""

    code, hresult = "sharing-violation", 0xC00E0009
    cure = "Wait until the other reader closes the queue."


class IllegalPathName(UsageError):
    """A path name cannot be parsed."""

    code, hresult = "illegal-path-name", 0xC00E0014
    cure = "Write `private$\\name`; the text points at the character that is wrong."


class BadDeadLetterQueue(UsageError):
    """A sender's own dead-letter queue is no transactional queue of this manager."""

    code, hresult = "bad-dead-letter-queue", 0xC00E0002
    cure = "Name a transactional queue of the manager that sends, or none."


class InsufficientProperties(UsageError):
    """A property needs another one that was not set."""

    code, hresult = "insufficient-properties", 0xC00E003F
    cure = "Set the other property too; the text names it."


class IllegalPropertyValue(UsageError):
    """A property has a value outside its range."""

    code, hresult = "illegal-property-value", 0xC00E0018
    cure = "Use a value in the range that the text gives."


class IllegalPropertyType(IllegalPropertyValue):
    """A property has a value of a wrong type."""

    code, hresult = "illegal-property-type", 0xC00E0019
    cure = "Use a value of the type that the property has."


class IllegalPropertyId(InvalidParameter):
    """There is no property of that name."""

    code, hresult = "illegal-property-id", 0xC00E0039
    cure = "Use a name from the list of properties."


class PropertyNotAllowed(UsageError):
    """This property was settled when the queue was made, and never changes."""

    code, hresult = "property-not-allowed", 0xC00E003E
    cure = "Make another queue with the other value, and move the messages."


class EncryptionNotSupported(UsageError):
    """Encrypted messages need Windows security contexts, which onceq does not have."""

    code, hresult = "encryption-not-supported", 0xC00E0033
    cure = "Use TLS between the computers, or encrypt the body."


class AuthenticationNotSupported(UsageError):
    """Message signatures need Windows security contexts, which onceq does not have."""

    code, hresult = "authentication-not-supported", 0x80004001
    cure = "Use TLS with client certificates, or sign the body."


class IllegalFormatName(UsageError):
    """A format name cannot be parsed."""

    code, hresult = "illegal-format-name", 0xC00E001E
    cure = "The text points at the character that is wrong."


class UnsupportedFormatName(UsageError):
    """The format name is legal, but not for this operation."""

    code, hresult = "unsupported-format-name", 0xC00E0020
    cure = "System queues and journals are read only; names with several elements are for sending."


class IllegalPropertySize(UsageError):
    """A property has the wrong size."""

    code, hresult = "illegal-property-size", 0xC00E003B
    cure = "Use a value of the size that the text gives."


class UnsupportedAccessMode(UsageError):
    """This combination of access and share mode does not exist."""

    code, hresult = "unsupported-access-mode", 0xC00E0045
    cure = 'Open for sending with share "none"; open outgoing queues for peek.'


class BranchState(UsageError):
    """The branch is in another state than the request supposes (XAER_PROTO)."""

    code, xa = "branch-state", -6
    cure = "`tx list` shows the states; end the work, then prepare, then commit."


class UnknownBranch(UsageError):
    """There is no such branch (XAER_NOTA): it never was prepared here, or is over."""

    code, hresult, xa = "unknown-branch", 0xC00E004E, -4
    cure = "Look at `tx list`. After a decision to commit it means that the branch is committed."


class DuplicateBranch(UsageError):
    """There is a branch or a decision with that identifier already (XAER_DUPID)."""

    code, xa = "duplicate-branch", -8
    cure = "Make a new identifier for each transaction, or join the branch."


class QueueDeleted(UsageError):
    """The queue was deleted while it was in use."""

    code, hresult = "queue-deleted", 0xC00E005A
    cure = "Make the queue again, or receive from another."


class LabelTooLong(UsageError):
    """A label has more than 249 characters."""

    code, hresult = "label-too-long", 0xC00E005D
    cure = "Shorten the label, or put the text into the body."


class UnsupportedOperation(UsageError):
    """onceq, or the other queue manager, does not do this, or not without a directory."""

    code, hresult = "unsupported-operation", 0xC00E006A
    cure = "Configure a directory, or use a direct or private name, or do without it."


class MulticastNotSupported(UnsupportedOperation):
    """Multicast is not part of onceq."""

    code = "multicast-not-supported"
    cure = "Send to several queues in one send, or to a distribution list."


class MessageNotFound(UsageError):
    """There is no message with that lookup identifier."""

    code, hresult = "message-not-found", 0xC00E0088
    cure = "Peek again: the message was received, has expired, or is locked by a transaction."


class BodyNotJson(UsageError):
    """The body of a message is not JSON, or not of the type that was asked for."""

    code = "body-not-json"
    cure = "Ask for a type that fits, or `tx.reject` it."


class IllegalCursorAction(UsageError):
    """A cursor cannot go on from where it does not stand yet."""

    code, hresult = "illegal-cursor-action", 0xC00E001C
    cure = "Peek at the cursor's current message first."


class MessageAlreadyReceived(UsageError):
    """The message was there, and somebody else was faster."""

    code, hresult = "message-already-received", 0xC00E001D
    cure = "Go on with the next message: a cursor does so with peek_next."


class MessageLocked(UsageError, Retryable):
    """Another transaction holds the message, and has not ended yet."""

    code, hresult = "message-locked", 0xC00E009C
    cure = "Try again when that transaction has ended."


class NotSupported(UsageError):
    """Internal transactions do not support this flag."""

    code, hresult = "not-supported", 0x8004D00F
    cure = "Commit without `retaining`, and begin another transaction."


class UninitializedObject(UsageError):
    """The management object was not initialised with a queue."""

    code, hresult = "uninitialized-object", 0xC00E0094
    cure = "Name the queue that is to be looked at or steered."


class NoInterface(UsageError):
    """A local queue has no outgoing view, and an outgoing queue has no receiving view."""

    code, hresult = "no-interface", 0x80004002
    cure = "Ask `eod_send_info` of outgoing queues and `eod_receive_info` of local ones."


class NotAStore(UsageError):
    """The directory does not hold a onceq store."""

    code = "not-a-store"
    cure = "Name the data directory, or make one with `qm init`."


class NotABackup(UsageError):
    """The directory holds no backup, or one that was not finished."""

    code = "not-a-backup"
    cure = "Name a directory that `qm backup` has made and finished."


class StoreExists(UsageError):
    """The directory holds a store already."""

    code = "store-exists"
    cure = "Use another directory, or run the queue manager that is there."


class ConfigurationError(UsageError):
    """The configuration file or an option is wrong."""

    code = "configuration"
    cure = "Correct the key or option that the text names."


# ---- policy and limits -------------------------------------------------------------------


class AccessDenied(Refused):
    """The caller lacks a right, or its account may not use a file, directory or socket."""

    code, hresult = "access-denied", 0xC00E0025
    cure = (
        "`onceq rights explain` says which right is missing. For a file or socket: use the "
        "account of the queue manager."
    )


class NoDirectory(Refused):
    """The directory cannot be read now; what needs it is refused."""

    code, hresult = "no-directory", 0xC00E0013
    cure = (
        "Mend what the text names (`directory show FILE` checks the file). Direct and private "
        "names still work."
    )


class DirectoryError(Refused):
    """The directory could not be changed, or has a wrong entry."""

    code, hresult = "directory-error", 0xC00E0043
    cure = "Mend what the text names."


class NoCoordinator(Refused):
    """External transactions cannot be had here; the manager's own go on."""

    code, hresult = "no-coordinator", 0xC00E004C
    cure = "Set `external_transactions = true`."


class EnlistRefused(Refused):
    """A partner cannot take part in this transaction."""

    code, hresult = "enlist-refused", 0xC00E0058
    cure = "Nothing was done; the text says why."


class PartnerRefused(EnlistRefused):
    """A partner votes against a transaction, or cannot begin; its share is rolled back."""

    code = "partner-refused"
    cure = "Mend what the partner says, and begin again."


class PartnerEnded(PartnerRefused):
    """A statement of the application ended the share of a partner before its time.

    If that was a COMMIT, what was done there stays, while the rest is rolled back.
    """

    code = "partner-ended"
    cure = "Do not commit or roll back on what is enlisted."


class TwoPhaseForbidden(EnlistRefused):
    """A database does not allow two-phase commit."""

    code = "two-phase-forbidden"
    cure = "Change the line of the server's configuration that the text names, and restart it."


class DatabaseRestored(EnlistRefused):
    """A database that decides by its rows lacks some that the queue manager has seen."""

    code = "database-restored"
    cure = "Compare what both hold, then `tx accept-database`; until then it decides nothing."


class PartnerLost(Refused):
    """A partner gives no answer; what it was asked may have happened."""

    code = "partner-lost"
    cure = "Start it, or correct the address; what is prepared there waits for its outcome."


class RolledBack(Refused):
    """The branch cannot commit and was rolled back (XA_RBROLLBACK)."""

    code, xa = "rolled-back", 100
    cure = "Do the whole transaction again; the text says why it failed."


class SendFailed(RolledBack, Retryable):
    """A send of this transaction was refused, so nothing of it happened."""

    code = "send-failed"
    cure = "Mend what the text says, then do the whole transaction again."


class RolledBackByPartner(RolledBack, Retryable):
    """A partner could not commit (a conflict, its death), and everything was rolled back."""

    code = "rolled-back-by-partner"
    cure = "Do the whole transaction again; the text has what the partner says."


class RolledBackByTime(RolledBack, Retryable):
    """The branch was idle for too long, and was rolled back (XA_RBTIMEOUT)."""

    code, xa = "rolled-back-by-time", 106
    cure = (
        "Do the whole transaction again, in less time, or raise transaction_idle_s or undecided_s."
    )


class GroupIncomplete(RolledBack, Retryable):
    """A group of branches cannot be committed: not all of them are prepared. None was."""

    code = "group-incomplete"
    cure = "Do the whole batch again; none was committed."


class GroupOfAnotherQuery(Refused):
    """An application's versions begin again, and would be taken for committed ones."""

    code = "group-of-another-query"
    cure = "Use the query's own checkpoint, another `txnAppId`, or `onceq tx forget-group`."


class GroupDiffers(Refused):
    """A version was committed before with other content: this is no repetition of it."""

    code = "group-differs"
    cure = "Give each write a name of its own (`txnAppId`), or set `txnRows` to `any`."


class InsufficientResources(Refused):
    """A quota or another limit is reached."""

    code, hresult = "quota-exceeded", 0xC00E0027
    cure = (
        "Receive or purge messages (often of a journal or dead-letter queue), or raise the limit "
        "that the text names."
    )


class BodyTooLarge(Refused):
    """The packet of this message would be larger than 4 MiB."""

    code, hresult = "body-too-large", 0xC00E0027
    cure = "Send the body in parts, or send where it can be found."


class StorageReserve(Refused):
    """The disk is nearly full: the rest is kept for receiving and acknowledging."""

    code, hresult = "storage-reserve", 0xC00E0027
    cure = "Free space on the disk, or receive messages."


class StoreLocked(Refused):
    """Another process holds this folder: it runs the queue manager, or keeps the proof."""

    code = "store-locked"
    cure = "Stop the other process, or connect to its queue manager."


class ManagerSlow(Refused):
    """The queue manager is connected and has not answered in time: it is busy."""

    code = "manager-slow"
    cure = "Ask again later; 'onceq qm metrics' says what it is busy with."


class BackupOver(Refused):
    """The queue manager does not hold the files of a backup any more."""

    code = "backup-over"
    cure = "Begin the backup again, into an empty directory."


class PortInUse(Refused):
    """The address is in use by another process."""

    code = "port-in-use"
    cure = "Stop the other process, or set another address with `listen`."


class OutputLost(Refused):
    """A command cannot write its output: the disk is full, or there is no output."""

    code = "output-lost"
    cure = "Give the command a file or a pipe that takes its output; what it received is back."


class OperationCancelled(Refused):
    """The receive was given up, or its queue closed, before this could finish."""

    code, hresult = "operation-cancelled", 0xC00E0008
    cure = "Ask again; nothing was received."


class ServiceNotAvailable(Refused):
    """The queue manager cannot be had any more: it was closed, or another one answers now.

    All errors that its stop or death causes in an application derive from this class; only a commit
    that may or may not have happened is InDoubt.
    """

    code, hresult = "manager-unavailable", 0xC00E000B
    cure = "Open it, or connect to it, again."


class ManagerAway(ServiceNotAvailable, Retryable):
    """The queue manager is away: it does not run, or stops. Nothing happened."""

    code = "service-not-available"
    cure = "Start the queue manager (`qm run`), or correct where to connect."


class WrongAddress(ServiceNotAvailable):
    """There is no queue manager for applications at an address, and not because it is away."""

    code = "wrong-address"
    cure = "Correct the host, or take the port for applications (`client_listen`)."


class LinkLost(ServiceNotAvailable):
    """The connection broke while an answer was awaited; what was asked may have happened."""

    code = "connection-lost"
    cure = "Connect again and look whether it happened: `outcome` for a commit."


class AnswerOverdue(LinkLost):
    """A call with a time-out had no answer in time; it may have happened."""

    code = "answer-overdue"
    cure = (
        "See whether the queue manager stands still, and whether it happened: `outcome` for a "
        "commit."
    )


class HandleLost(ServiceNotAvailable):
    """The queue manager was lost, or has stopped, and with it a queue that was held open."""

    code = "handle-lost"
    cure = "Open the queue again."


class TransactionLost(ServiceNotAvailable, Retryable):
    """The queue manager was lost, or has stopped, and with it an open transaction: it is undone."""

    code = "transaction-lost"
    cure = "Do the whole transaction again: nothing of it happened."


class ReceiveTimeout(Refused, TimeoutError):
    """Nothing arrived in time."""

    code, hresult = "timeout", 0xC00E001B
    exit_code = 4
    cure = "Wait longer, or go on without a message."


class ReplyTimeout(ReceiveTimeout):
    """No reply came in time.

    ``request``: its identifier.
    """

    code = "reply-timeout"
    cure = "The text says how far the request has come. If it was received it may have been done."

    def __init__(self, text: str = "", request: str = "") -> None:
        super().__init__(text)
        self.request = request


class RequestFailed(Refused):
    """The request ended without being received, so no reply will come."""

    code = "request-failed"
    cure = "Mend what the text says, and ask again: the server has done nothing."


# ---- the other side ----------------------------------------------------------------------


class MalformedPacket(PeerError):
    """Bytes from outside are not a well-formed packet."""

    code = "malformed-packet"
    cure = "Find out who sends it: an outdated or foreign program at this port."


class UnknownVersion(PeerError):
    """The other side speaks a version that this one does not know."""

    code = "unknown-version"
    cure = "Use the same version of onceq on both sides."


class ProtocolState(PeerError):
    """A packet came at a time when it is not allowed."""

    code = "protocol-state"
    cure = "Look at the log of both sides; the connection is made again by itself."


class IdentityClash(PeerError):
    """Two claim one identity: a name leads back, a copy runs, or a certificate is not its own."""

    code = "identity-clash"
    cure = (
        "Put the name into `addresses`; give a copy a new identity, and each its own certificate "
        "(`onceq tls show`)."
    )


# ---- the machine -------------------------------------------------------------------------


class SyncFailed(StorageFailure):
    """A sync failed; nothing decided after the last good sync was said to anybody."""

    code = "sync-failed"


class TrailBroken(OnceqError):
    """Acts of administration were removed from the trail, changed, or put in."""

    code = "trail-broken"
    cure = "Keep the data directory and its trail, and find out who could change them."


class DamagedRecord(StorageFailure):
    """The store is damaged before its end; nothing is cut silently.

    ``pieces``: the bytes that are damaged, where only they are.
    """

    code = "damaged-record"
    cure = "Run `qm check`, keep the directory unchanged, and restore a backup."

    def __init__(self, text: str = "", pieces: tuple[DamagedPiece, ...] = ()) -> None:
        super().__init__(text)
        self.pieces = pieces


class NoSpace(StorageFailure):
    """The disk is full and the reserve is used up."""

    code = "no-space"
    cure = "Free space on the disk, then start again."


class NewerFormat(StorageFailure):
    """The store was written by a newer onceq."""

    code = "newer-format"
    cure = "Use the onceq that wrote the store, or a newer one."


def every() -> dict[str, type[OnceqError]]:
    """All error classes by code, for the docs, the client protocol and the tests."""
    kinds: list[type[OnceqError]] = [OnceqError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return dict(sorted({kind.code: kind for kind in reversed(kinds)}.items()))
